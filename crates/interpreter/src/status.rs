//! Status reflection: the part of a member object's status that the Work carries (specification/propagation.md 15.3;
//! 31, row 4).

use ironclad_api::annotations::TEMPLATE_GENERATION;
use serde_json::{Map, Value};

use crate::{
    aggregate::rollout,
    kind::Kind,
    lens::{self, ShapeError, shape},
};

pub(crate) fn reflect(kind: Option<Kind>, object: &Value) -> Result<Option<Value>, ShapeError> {
    let Some(status) = object.get("status").filter(|status| !status.is_null()) else { return Ok(None) };
    if !status.is_object() {
        return Err(shape(object, "/status", "an object"));
    }
    let picked = match kind {
        Some(Kind::Deployment) => {
            let counters = [
                "replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas",
                "observedGeneration",
            ];
            let mut picked = pick(status, &counters);
            picked.extend(rollout::reflected(status).map(|conditions| ("conditions".to_owned(), conditions)));
            picked
        }
        Some(Kind::ReplicaSet) => {
            pick(status, &["replicas", "readyReplicas", "availableReplicas", "observedGeneration"])
        }
        Some(Kind::DaemonSet) => pick(
            status,
            &[
                "currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberMisscheduled",
                "numberReady", "updatedNumberScheduled", "numberUnavailable", "observedGeneration",
            ],
        ),
        Some(Kind::StatefulSet) => pick(
            status,
            &[
                "availableReplicas", "currentReplicas", "readyReplicas", "replicas", "updatedReplicas",
                "observedGeneration",
            ],
        ),
        Some(Kind::Service) if lens::text(object, "/spec/type") != "LoadBalancer" => return Ok(None),
        Some(Kind::Service) => pick(status, &["loadBalancer"]),
        Some(Kind::Job) => {
            pick(status, &["active", "succeeded", "failed", "conditions", "startTime", "completionTime"])
        }
        Some(Kind::PodDisruptionBudget) => {
            pick(status, &["disruptionsAllowed", "expectedPods", "desiredHealthy", "currentHealthy", "disruptedPods"])
        }
        Some(Kind::HorizontalPodAutoscaler) => {
            pick(status, &["currentReplicas", "desiredReplicas", "conditions", "lastScaleTime", "currentMetrics"])
        }
        _ => return Ok(Some(status.clone())),
    };
    match kind {
        Some(Kind::Deployment | Kind::ReplicaSet | Kind::DaemonSet | Kind::StatefulSet) => {
            with_generations(object, picked, matches!(kind, Some(Kind::Deployment | Kind::ReplicaSet)))
        }
        _ => Ok(Some(Value::Object(picked))),
    }
}

/// Copies the named fields. Zeros and nulls are omitted, as upstream's typed objects omit them.
fn pick(status: &Value, fields: &[&str]) -> Map<String, Value> {
    fields
        .iter()
        .filter_map(|field| {
            let value = status.get(*field)?;
            (!value.is_null() && value.as_i64() != Some(0)).then(|| ((*field).to_owned(), value.clone()))
        })
        .collect()
}

fn with_generations(
    object: &Value,
    mut picked: Map<String, Value>,
    none_if_empty: bool,
) -> Result<Option<Value>, ShapeError> {
    let of_template: i64 = lens::annotation(object, TEMPLATE_GENERATION).unwrap_or("").parse().map_err(|_| {
        shape(
            object,
            format!("/metadata/annotations/{}", TEMPLATE_GENERATION.replace('/', "~1")),
            "the template's generation, a whole number",
        )
    })?;
    if picked.is_empty() && none_if_empty {
        return Ok(None);
    }
    for (field, value) in [
        ("generation", lens::integer(object, "/metadata/generation")?.unwrap_or(0)),
        ("resourceTemplateGeneration", of_template),
    ] {
        if value != 0 {
            picked.insert(field.into(), value.into());
        }
    }
    Ok(Some(Value::Object(picked)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(api_version: &str, kind: &str, status: Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"namespace": "shop", "name": "w", "generation": 4, "annotations": {TEMPLATE_GENERATION: "7"}}, "status": status})
    }

    fn of(object: &Value) -> Result<Option<Value>, ShapeError> {
        reflect(Kind::of(object), object)
    }

    #[test]
    fn reflected_fields_by_kind() {
        let job = json!({"active": 1, "conditions": [{"type": "Complete"}], "startTime": "t", "completionTime": "u"});
        for (name, object, want) in [
            (
                "deployment: counters and generations, nothing else",
                member(
                    "apps/v1",
                    "Deployment",
                    json!({"replicas": 2, "readyReplicas": 0, "observedGeneration": 4, "conditions": [{}], "collisionCount": 1}),
                ),
                Some(json!({"replicas": 2, "observedGeneration": 4, "generation": 4, "resourceTemplateGeneration": 7})),
            ),
            ("deployment: all zeros are no status", member("apps/v1", "Deployment", json!({"replicas": 0})), None),
            (
                "replica set",
                member(
                    "apps/v1",
                    "ReplicaSet",
                    json!({"replicas": 2, "fullyLabeledReplicas": 2, "availableReplicas": 1}),
                ),
                Some(json!({"replicas": 2, "availableReplicas": 1, "generation": 4, "resourceTemplateGeneration": 7})),
            ),
            ("replica set: all zeros are no status", member("apps/v1", "ReplicaSet", json!({"replicas": 0})), None),
            (
                "daemon set",
                member(
                    "apps/v1",
                    "DaemonSet",
                    json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberAvailable": 3, "numberMisscheduled": 4,
                    "numberReady": 5, "updatedNumberScheduled": 6, "numberUnavailable": 7, "observedGeneration": 8, "collisionCount": 9}),
                ),
                Some(
                    json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 2, "numberAvailable": 3, "numberMisscheduled": 4,
                    "numberReady": 5, "updatedNumberScheduled": 6, "numberUnavailable": 7, "observedGeneration": 8,
                    "generation": 4, "resourceTemplateGeneration": 7}),
                ),
            ),
            (
                "stateful set: the observed generation too",
                member(
                    "apps/v1",
                    "StatefulSet",
                    json!({"replicas": 1, "currentReplicas": 1, "readyReplicas": 1, "updatedReplicas": 1,
                    "availableReplicas": 1, "observedGeneration": 4, "currentRevision": "x"}),
                ),
                Some(
                    json!({"replicas": 1, "currentReplicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
                    "observedGeneration": 4, "generation": 4, "resourceTemplateGeneration": 7}),
                ),
            ),
            ("service of another type", member("v1", "Service", json!({"loadBalancer": {}})), None),
            (
                "job",
                member(
                    "batch/v1",
                    "Job",
                    json!({"active": 1, "failed": 0, "ready": 1, "conditions": [{"type": "Complete"}], "startTime": "t", "completionTime": "u"}),
                ),
                Some(job),
            ),
            (
                "ingress: all",
                member("networking.k8s.io/v1", "Ingress", json!({"loadBalancer": {"ingress": []}})),
                Some(json!({"loadBalancer": {"ingress": []}})),
            ),
            (
                "disruption budget",
                member(
                    "policy/v1",
                    "PodDisruptionBudget",
                    json!({"disruptionsAllowed": 1, "expectedPods": 3, "desiredHealthy": 2, "currentHealthy": 3,
                    "disruptedPods": {"p": "t"}, "observedGeneration": 1}),
                ),
                Some(
                    json!({"disruptionsAllowed": 1, "expectedPods": 3, "desiredHealthy": 2, "currentHealthy": 3, "disruptedPods": {"p": "t"}}),
                ),
            ),
            (
                "autoscaler: with what its distribution needs",
                member(
                    "autoscaling/v2",
                    "HorizontalPodAutoscaler",
                    json!({"currentReplicas": 1, "desiredReplicas": 2, "lastScaleTime": "t", "conditions": [], "observedGeneration": 1}),
                ),
                Some(json!({"currentReplicas": 1, "desiredReplicas": 2, "lastScaleTime": "t", "conditions": []})),
            ),
            (
                "anything else: the whole status",
                member("example.io/v1", "Thing", json!({"a": {"b": 0}})),
                Some(json!({"a": {"b": 0}})),
            ),
            ("nothing to reflect", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}), None),
        ] {
            assert_eq!(of(&object).unwrap(), want, "{name}");
        }
        let mut service =
            member("v1", "Service", json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}, "conditions": []}));
        service["spec"] = json!({"type": "LoadBalancer"});
        assert_eq!(of(&service).unwrap(), Some(json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}})));
    }

    #[test]
    fn the_template_generation_must_be_a_number() {
        for annotations in [json!({}), json!({TEMPLATE_GENERATION: "x"})] {
            for kind in ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"] {
                let mut object = member("apps/v1", kind, json!({"replicas": 1}));
                object["metadata"]["annotations"] = annotations.clone();
                assert_eq!(
                    of(&object).unwrap_err().to_string(),
                    format!(
                        "{kind} shop/w: /metadata/annotations/resourcetemplate.karmada.io~1generation must be the template's generation, a whole number"
                    )
                );
            }
        }
    }
}
