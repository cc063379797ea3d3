//! HorizontalPodAutoscaler of one member: version, conversion and content
//! (specification/autoscaling.md 6.7).

use ironclad_api::{annotations, cluster::Cluster, finalizers, labels};
use serde_json::{Map, Value, json};

use super::split::Bounds;

/// Prefix of the keys that only the control plane's object carries.
const OWN_KEYS: &str = "federatedhpa.karmada.io/";

/// Version of `autoscaling` that a member gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `autoscaling/v2`, since Kubernetes 1.23.
    V2,
    /// `autoscaling/v2beta2`: the same shape.
    V2Beta2,
    /// `autoscaling/v2beta1`: other names of targets, no `behavior`.
    V2Beta1,
}

impl Version {
    /// All, the preferred one first.
    const ALL: [Self; 3] = [Self::V2, Self::V2Beta2, Self::V2Beta1];

    /// Its `apiVersion`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V2 => "autoscaling/v2",
            Self::V2Beta2 => "autoscaling/v2beta2",
            Self::V2Beta1 => "autoscaling/v2beta1",
        }
    }

    fn of(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.api_version() == api_version)
    }
}

/// The version for a member, by the APIs that its Cluster lists. `before` is the `apiVersion` that it has now.
/// `None` if it serves none that reports conditions.
///
/// While it is unknown what the member serves, the version stays; at first it is v2.
#[must_use]
pub fn version(cluster: &Cluster, before: Option<&str>) -> Option<Version> {
    let status = cluster.status.as_ref();
    let listed: Vec<&str> = status
        .iter()
        .flat_map(|status| &status.api_enablements)
        .filter(|enablement| enablement.resources.iter().any(|resource| resource.kind == "HorizontalPodAutoscaler"))
        .map(|enablement| enablement.group_version.as_str())
        .collect();
    let best = Version::ALL.into_iter().find(|version| listed.contains(&version.api_version()));
    let complete = ironclad_api::conditions::is_true(
        status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
        ironclad_api::conditions::cluster::COMPLETE_API_ENABLEMENTS,
    );
    match best {
        Some(version) => Some(version),
        None if complete && !listed.is_empty() => None,
        None => Some(before.and_then(Version::of).unwrap_or(Version::V2)),
    }
}

/// The object for one member.
#[must_use]
pub fn manifest(template: &Value, version: Version, bounds: Bounds) -> Value {
    let mut object = stripped(template);
    let Some(root) = object.as_object_mut() else { return object };
    root.insert("apiVersion".into(), version.api_version().into());
    root.insert("kind".into(), "HorizontalPodAutoscaler".into());
    let Some(spec) = root.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    if version == Version::V2Beta1 {
        spec.remove("behavior");
        if let Some(metrics) = spec.get_mut("metrics").and_then(Value::as_array_mut) {
            metrics.iter_mut().for_each(beta1);
        }
    }
    set_bounds(&mut object, bounds);
    object
}

/// The object without its status and the marks that only the control plane's carries.
pub(super) fn stripped(template: &Value) -> Value {
    let mut object = template.clone();
    let Some(root) = object.as_object_mut() else { return object };
    root.remove("status");
    if let Some(metadata) = root.get_mut("metadata").and_then(Value::as_object_mut) {
        for (map, also) in [("labels", labels::CLAIMED_BY), ("annotations", annotations::FEDERATED_HPA_STATUS)] {
            let Some(keys) = metadata.get_mut(map).and_then(Value::as_object_mut) else { continue };
            keys.retain(|key, _| !key.starts_with(OWN_KEYS) && key != also);
            if keys.is_empty() {
                metadata.remove(map);
            }
        }
        if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            list.retain(|one| one != finalizers::FEDERATED_HPA);
        }
    }
    object
}

/// Sets minimum and maximum, which no override may change.
pub fn set_bounds(object: &mut Value, bounds: Bounds) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("minReplicas".into(), bounds.min.into());
        spec.insert("maxReplicas".into(), bounds.max.into());
    }
}

/// The bounds in a manifest, if it has both.
#[must_use]
pub fn bounds_of(object: &Value) -> Option<Bounds> {
    let of = |field: &str| i32::try_from(object.get("spec")?.get(field)?.as_i64()?).ok();
    Some(Bounds { min: of("minReplicas")?, max: of("maxReplicas")? })
}

/// Converts one metric of v2 to v2beta1. A type that it does not know stays as it is: the member refuses it and says
/// so.
fn beta1(metric: &mut Value) {
    let Some(fields) = metric.as_object_mut() else { return };
    for (block, source) in fields.iter_mut().filter(|(key, _)| *key != "type") {
        let Some(source) = source.as_object_mut() else { continue };
        let target = source.remove("target").unwrap_or_default();
        let named = source.remove("metric").unwrap_or_default();
        let mut put = |key: &str, value: Option<&Value>| {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                source.insert(key.to_owned(), value.clone());
            }
        };
        let of = |field: &str| target.get(field);
        match block.as_str() {
            "resource" | "containerResource" => {
                put("targetAverageUtilization", of("averageUtilization"));
                put("targetAverageValue", of("averageValue"));
            }
            "pods" => {
                put("metricName", named.get("name"));
                put("selector", named.get("selector"));
                put("targetAverageValue", of("averageValue"));
            }
            "external" => {
                put("metricName", named.get("name"));
                put("metricSelector", named.get("selector"));
                put("targetValue", of("value"));
                put("targetAverageValue", of("averageValue"));
            }
            "object" => {
                put("metricName", named.get("name"));
                put("selector", named.get("selector"));
                // v2beta1 requires a value, also where it is not compared.
                put("targetValue", Some(of("value").unwrap_or(&json!("0"))));
                put("averageValue", of("averageValue"));
                if let Some(described) = source.remove("describedObject") {
                    source.insert("target".into(), described);
                }
            }
            _ => {
                let restored: Map<String, Value> = [("target".to_owned(), target), ("metric".to_owned(), named)]
                    .into_iter()
                    .filter(|(_, value)| !value.is_null())
                    .collect();
                source.extend(restored);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(versions: &[&str], complete: &str) -> Cluster {
        let enablements: Vec<Value> = versions
            .iter()
            .map(|version| {
                json!({"groupVersion": version,
                    "resources": [{"name": "horizontalpodautoscalers", "kind": "HorizontalPodAutoscaler"}]})
            })
            .collect();
        serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}, "status": {
            "apiEnablements": enablements,
            "conditions": [{"type": "CompleteAPIEnablements", "status": complete, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
        .unwrap()
    }

    #[test]
    fn the_best_version_that_a_member_serves() {
        let (v1, v2) = ("autoscaling/v1", "autoscaling/v2");
        let (beta1, beta2) = ("autoscaling/v2beta1", "autoscaling/v2beta2");
        for (name, served, complete, before, want) in [
            ("v2", &[v1, v2, beta2][..], "True", None, Some(Version::V2)),
            ("an old member", &[v1, beta1, beta2], "True", None, Some(Version::V2Beta2)),
            ("an older one", &[v1, beta1], "True", None, Some(Version::V2Beta1)),
            ("one that was upgraded", &[v1, v2], "True", Some(beta2), Some(Version::V2)),
            ("only v1 has no conditions", &[v1], "True", None, None),
            ("it stops to serve the version", &[v1], "True", Some(beta2), None),
            ("nothing is known", &[], "True", None, Some(Version::V2)),
            ("discovery failed in part", &[v1], "False", None, Some(Version::V2)),
            ("discovery failed in part, and it has one", &[v1], "False", Some(beta2), Some(Version::V2Beta2)),
        ] {
            assert_eq!(version(&cluster(served, complete), before), want, "{name}");
        }
    }

    fn template() -> Value {
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web", "uid": "u",
                "labels": {"app": "web", "federatedhpa.karmada.io/enabled": "true",
                    "resourcetemplate.karmada.io/claimed-by": "FederatedHPA"},
                "annotations": {"note": "n", "federatedhpa.karmada.io/status": "{}", "federatedhpa.karmada.io/split": "{}"},
                "finalizers": ["federatedhpa.karmada.io/finalizer"]},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 3, "maxReplicas": 100, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 10}},
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 30}}},
                    {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                        "target": {"type": "AverageValue", "averageValue": "100m"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "p", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "AverageValue", "averageValue": "5"}}},
                    {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"}, "metric": {"name": "o"},
                        "target": {"type": "Value", "value": "7"}}},
                    {"type": "External", "external": {"metric": {"name": "e"}, "target": {"type": "Value", "value": "9"}}},
                    {"type": "New", "new": {"metric": {"name": "x"}, "target": {"value": "1"}}},
                ]},
            "status": {"desiredReplicas": 4}})
    }

    const BOUNDS: Bounds = Bounds { min: 1, max: 34 };

    #[test]
    fn marks_of_the_control_plane_stay_there() {
        let made = manifest(&template(), Version::V2, BOUNDS);
        assert_eq!(
            made["metadata"],
            json!({"namespace": "shop", "name": "web", "uid": "u", "labels": {"app": "web"},
                "annotations": {"note": "n"}, "finalizers": []})
        );
        assert_eq!(made.get("status"), None);
        assert_eq!(bounds_of(&made), Some(BOUNDS));
        assert_eq!(made["spec"]["metrics"], template()["spec"]["metrics"]);
        assert_eq!(made["spec"]["behavior"], template()["spec"]["behavior"]);
        assert_eq!(bounds_of(&json!({"spec": {"maxReplicas": 3}})), None, "a minimum is always written");
    }

    #[test]
    fn versions_of_members() {
        let beta2 = manifest(&template(), Version::V2Beta2, BOUNDS);
        assert_eq!(beta2["apiVersion"], "autoscaling/v2beta2");
        assert_eq!(beta2["spec"]["metrics"], template()["spec"]["metrics"]);
        let beta1 = manifest(&template(), Version::V2Beta1, BOUNDS);
        assert_eq!(beta1["apiVersion"], "autoscaling/v2beta1");
        assert_eq!(beta1["spec"].get("behavior"), None);
        assert_eq!(
            beta1["spec"]["metrics"],
            json!([
                {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 30}},
                {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "targetAverageValue": "100m"}},
                {"type": "Pods", "pods": {"metricName": "p", "selector": {"matchLabels": {"a": "b"}}, "targetAverageValue": "5"}},
                {"type": "Object", "object": {"target": {"kind": "Service", "name": "s"}, "metricName": "o", "targetValue": "7"}},
                {"type": "External", "external": {"metricName": "e", "targetValue": "9"}},
                {"type": "New", "new": {"metric": {"name": "x"}, "target": {"value": "1"}}},
            ])
        );
    }

    #[test]
    fn misshapen_templates_are_passed_on() {
        for odd in [
            json!(null),
            json!([]),
            json!({"metadata": 1, "spec": 2}),
            json!({"spec": {"metrics": [1, {"resource": 2}]}}),
        ] {
            let _ = manifest(&odd, Version::V2Beta1, BOUNDS);
        }
    }
}
