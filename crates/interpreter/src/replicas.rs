//! Replicas of a template, and replica revision of a copy (specification/propagation.md 19, 9.2 step 1).

use ironclad_api::work::ReplicaRequirements;
use serde_json::Value;

use crate::{
    kind::Kind,
    lens::{self, ShapeError, shape},
    pod,
};

/// Replicas and requirements of one replica.
#[derive(Debug, Clone, PartialEq)]
pub struct Replicas {
    /// Desired replicas.
    pub replicas: i32,
    /// Requirements of one replica, if any.
    pub requirements: Option<ReplicaRequirements>,
}

pub(crate) fn replicas(kind: Kind, template: &Value) -> Result<Replicas, ShapeError> {
    let (replicas, pod) = match kind {
        Kind::Pod => (1, ""),
        Kind::Job => {
            let parallelism = count(template, "/spec/parallelism")?.unwrap_or(0);
            (count(template, "/spec/completions")?.map_or(parallelism, |c| c.min(parallelism)), "/spec/template")
        }
        _ => (count(template, "/spec/replicas")?.unwrap_or(0), "/spec/template"),
    };
    let requirements = pod::requirements(template, pod)?.map(serde_json::from_value).transpose().map_err(|_| {
        shape(template, format!("{pod}/spec"), "a pod spec with well-formed nodeSelector, tolerations and affinity")
    })?;
    Ok(Replicas { replicas, requirements })
}

fn count(template: &Value, pointer: &str) -> Result<Option<i32>, ShapeError> {
    lens::integer(template, pointer)?
        .map(|n| {
            i32::try_from(n)
                .ok()
                .filter(|n| *n >= 0)
                .ok_or_else(|| shape(template, pointer, "between 0 and 2147483647"))
        })
        .transpose()
}

/// Sets the field only if the manifest has it.
pub(crate) fn revise(kind: Kind, manifest: &Value, replicas: i32) -> Value {
    let mut revised = manifest.clone();
    let field = if kind == Kind::Job { "/spec/parallelism" } else { "/spec/replicas" };
    if let Some(value) = revised.pointer_mut(field) {
        *value = replicas.into();
    }
    revised
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(api_version: &str, kind: &str, spec: Value) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec})
    }

    #[test]
    fn replicas_by_kind() {
        for (name, object, want) in [
            ("deployment", object("apps/v1", "Deployment", json!({"replicas": 3})), 3),
            ("replica set", object("apps/v1", "ReplicaSet", json!({"replicas": 2})), 2),
            ("stateful set", object("apps/v1", "StatefulSet", json!({"replicas": 5})), 5),
            ("none written means 0", object("apps/v1", "Deployment", json!({})), 0),
            ("a job's parallelism", object("batch/v1", "Job", json!({"parallelism": 4})), 4),
            ("a job's completions if fewer", object("batch/v1", "Job", json!({"parallelism": 4, "completions": 3})), 3),
            ("a job's parallelism if fewer", object("batch/v1", "Job", json!({"parallelism": 4, "completions": 9})), 4),
            ("a job without parallelism", object("batch/v1", "Job", json!({"completions": 9})), 0),
            ("a pod is one", object("v1", "Pod", json!({"containers": []})), 1),
        ] {
            assert_eq!(replicas(Kind::of(&object).unwrap(), &object).unwrap().replicas, want, "{name}");
        }
    }

    #[test]
    fn requirements_come_from_the_pod_template() {
        let pod = json!({"containers": [{"resources": {"requests": {"cpu": "1"}}}]});
        let need = Some(json!({"resourceRequest": {"cpu": "1"}}));
        for object in [
            object("apps/v1", "Deployment", json!({"replicas": 1, "template": {"spec": pod}})),
            object("batch/v1", "Job", json!({"parallelism": 1, "template": {"spec": pod}})),
            object("v1", "Pod", pod.clone()),
        ] {
            assert_eq!(replicas(Kind::of(&object).unwrap(), &object).unwrap().requirements.map(|r| json!(r)), need);
        }
    }

    #[test]
    fn invalid_numbers_name_the_field() {
        for (value, want) in [
            (json!(-1), "Deployment w: /spec/replicas must be between 0 and 2147483647"),
            (json!(3_000_000_000_u64), "Deployment w: /spec/replicas must be between 0 and 2147483647"),
            (json!("3"), "Deployment w: /spec/replicas must be a whole number"),
        ] {
            let object = object("apps/v1", "Deployment", json!({"replicas": value}));
            assert_eq!(replicas(Kind::Deployment, &object).unwrap_err().to_string(), want);
        }
    }

    #[test]
    fn malformed_pod_spec_names_the_field() {
        let object = object("apps/v1", "Deployment", json!({"template": {"spec": {"tolerations": [{"key": 5}]}}}));
        assert_eq!(
            replicas(Kind::Deployment, &object).unwrap_err().to_string(),
            "Deployment w: /spec/template/spec must be a pod spec with well-formed nodeSelector, tolerations and affinity"
        );
    }

    #[test]
    fn revision_sets_only_existing_fields() {
        for (name, object, want) in [
            ("deployment", object("apps/v1", "Deployment", json!({"replicas": 3})), json!({"replicas": 7})),
            ("stateful set", object("apps/v1", "StatefulSet", json!({"replicas": 3})), json!({"replicas": 7})),
            (
                "job",
                object("batch/v1", "Job", json!({"parallelism": 3, "completions": 9})),
                json!({"parallelism": 7, "completions": 9}),
            ),
            ("no field, no change", object("apps/v1", "ReplicaSet", json!({})), json!({})),
        ] {
            assert_eq!(revise(Kind::of(&object).unwrap(), &object, 7)["spec"], want, "{name}");
        }
    }
}
