//! Fields of member objects that answers about them are made from.
//!
//! Scripts and webhooks may read any field, so objects of their kinds are cached whole; the native rules read few
//! fields.

use crate::{Operation, kind::Kind};

/// Fields of a member object to cache besides its metadata and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// All fields.
    Whole,
    /// These fields, as JSON pointers of two steps.
    Fields(&'static [&'static str]),
}

/// The questions about objects in members.
pub(crate) const OPERATIONS: [Operation; 3] =
    [Operation::Retain, Operation::InterpretStatus, Operation::InterpretHealth];

/// Fields that the native rules of status (specification/propagation.md 15.3) and health (18) read. Retention (14)
/// reads the whole object anyway.
pub(crate) fn native(kind: Option<Kind>) -> &'static [&'static str] {
    match kind {
        Some(Kind::Deployment | Kind::StatefulSet | Kind::ReplicaSet) => &["/spec/replicas"],
        Some(Kind::Service) => &["/spec/type"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ironclad_fleet::Gvk;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{Answer, InterpretError, Interpreter, Question, Source};

    /// Objects with every combination of fields that the native rules may read.
    fn objects(api_version: &str, kind: &str) -> Vec<Value> {
        let specs = [
            json!({}),
            json!({"replicas": 2, "type": "ClusterIP"}),
            json!({"replicas": 3, "type": "LoadBalancer", "selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}),
        ];
        let statuses = [
            Value::Null,
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2,
                "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "currentHealthy": 1, "desiredHealthy": 1}),
            json!({"observedGeneration": 2, "phase": "Bound", "loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}, "active": 1}),
        ];
        let object = |spec: &Value, status: &Value| {
            json!({"apiVersion": api_version, "kind": kind, "spec": spec, "data": {"a": "b"}, "status": status,
                "metadata": {"name": "w", "generation": 2, "annotations": {"resourcetemplate.karmada.io/generation": "7"}}})
        };
        specs.iter().flat_map(|spec| statuses.iter().map(move |status| object(spec, status))).collect()
    }

    fn trimmed(object: &Value, fields: &[&str]) -> Value {
        let mut kept: Map<String, Value> = object.as_object().unwrap().clone();
        kept.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        let mut kept = Value::Object(kept);
        for field in fields {
            let (_, path) = field.split_once('/').unwrap();
            let (parent, name) = path.split_once('/').unwrap();
            if let Some(value) = object.pointer(field) {
                kept[parent][name] = value.clone();
            }
        }
        kept
    }

    #[test]
    fn kept_fields_are_all_that_native_rules_read() {
        let interpreter = Interpreter::default();
        for (api_version, kind) in [
            ("apps/v1", "Deployment"),
            ("apps/v1", "ReplicaSet"),
            ("apps/v1", "DaemonSet"),
            ("apps/v1", "StatefulSet"),
            ("batch/v1", "Job"),
            ("batch/v1", "CronJob"),
            ("v1", "Pod"),
            ("v1", "Service"),
            ("v1", "ServiceAccount"),
            ("v1", "Secret"),
            ("v1", "ConfigMap"),
            ("v1", "PersistentVolume"),
            ("v1", "PersistentVolumeClaim"),
            ("networking.k8s.io/v1", "Ingress"),
            ("policy/v1", "PodDisruptionBudget"),
            ("autoscaling/v2", "HorizontalPodAutoscaler"),
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"),
            ("example.io/v1", "Farm"),
        ] {
            let Kept::Fields(fields) = interpreter.kept(&Gvk::from_manifest(api_version, kind)) else {
                panic!("{kind} has native rules only")
            };
            for whole in objects(api_version, kind) {
                let kept = trimmed(&whole, fields);
                assert_eq!(interpreter.health(&kept).unwrap(), interpreter.health(&whole).unwrap(), "{whole}");
                assert_eq!(
                    interpreter.reflect_status(&kept).unwrap(),
                    interpreter.reflect_status(&whole).unwrap(),
                    "{whole}"
                );
            }
        }
    }

    #[derive(Debug)]
    struct Knows(Operation);

    impl Source for Knows {
        fn implements(&self, _: &str, kind: &str, operation: Operation) -> bool {
            kind == "Farm" && operation == self.0
        }

        fn answer(&self, _: &Question<'_>) -> Result<Answer, InterpretError> {
            panic!("nobody asks")
        }
    }

    #[test]
    fn kinds_with_other_sources_are_kept_whole() {
        for operation in Operation::ALL {
            let interpreter = Interpreter::new(vec![Arc::new(Knows(operation))]);
            let of = |kind: &str| interpreter.kept(&Gvk::from_manifest("example.io/v1", kind));
            let about_copies = OPERATIONS.contains(&operation);
            assert_eq!(of("Farm") == Kept::Whole, about_copies, "{operation}");
            assert_eq!(of("Barn"), Kept::Fields(&[]), "{operation}");
        }
    }
}
