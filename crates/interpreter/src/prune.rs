//! Fields of a template that no copy may carry (specification/propagation.md 9.4; 31, row 43: by group and kind).

use serde_json::{Map, Value};

use crate::lens;

const METADATA: [&str; 10] = [
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid", "ownerReferences", "finalizers",
];

/// Removes fields that belong to the object of the control plane or of the member, in place. Idempotent.
pub fn prune(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in METADATA {
            metadata.remove(field);
        }
    }
    if let Some(root) = object.as_object_mut() {
        root.remove("status");
    }
    let group = lens::text(object, "/apiVersion").split_once('/').map_or("", |(group, _)| group).to_owned();
    let kind = lens::text(object, "/kind").to_owned();
    match (group.as_str(), kind.as_str()) {
        ("apps", "Deployment") => {
            remove_annotation(object, "deployment.kubernetes.io/revision");
            remove_annotation(object, "deployment.kubernetes.io/revision-history");
        }
        ("batch", "Job") => job(object),
        ("", "Secret") if lens::text(object, "/type") == "kubernetes.io/service-account-token" => {
            remove_annotation(object, "kubernetes.io/service-account.uid");
            if let Some(root) = object.as_object_mut() {
                root.insert("data".into(), Value::Null);
            }
        }
        ("", "ServiceAccount") => {
            let prefix = format!("{}-token-", lens::text(object, "/metadata/name"));
            if let Some(secrets) = object.get_mut("secrets").and_then(Value::as_array_mut) {
                secrets.retain(|secret| !lens::text(secret, "/name").starts_with(&prefix));
            }
        }
        ("", "Service") => {
            if lens::text(object, "/spec/clusterIP") != "None"
                && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            {
                spec.remove("clusterIP");
                spec.remove("clusterIPs");
            }
        }
        // The control plane's controller fills them, and each member's own does so there.
        ("rbac.authorization.k8s.io", "ClusterRole")
            if object.get("aggregationRule").is_some_and(|rule| !rule.is_null()) =>
        {
            if let Some(root) = object.as_object_mut() {
                root.remove("rules");
            }
        }
        ("", "PersistentVolumeClaim") => remove_annotation(object, "volume.kubernetes.io/selected-node"),
        _ => {}
    }
}

fn remove_annotation(object: &mut Value, key: &str) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(key);
    }
}

fn job(object: &mut Value) {
    let manual = object.pointer("/spec/manualSelector").and_then(Value::as_bool).unwrap_or(false);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    // The member's TTL controller would delete the Job, and the control plane would create it again.
    spec.remove("ttlSecondsAfterFinished");
    if manual {
        return;
    }
    if let Some(selector) = spec.get_mut("selector").and_then(Value::as_object_mut) {
        remove_keys(selector, "matchLabels", &["controller-uid", "batch.kubernetes.io/controller-uid"]);
    }
    if let Some(metadata) = spec.get_mut("template").and_then(|t| t.get_mut("metadata")).and_then(Value::as_object_mut)
    {
        remove_keys(
            metadata,
            "labels",
            &["controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"],
        );
    }
}

/// Removes keys of the map in `field`, and the field if the map becomes empty.
fn remove_keys(map: &mut Map<String, Value>, field: &str, keys: &[&str]) {
    let Some(labels) = map.get_mut(field).and_then(Value::as_object_mut) else { return };
    let before = labels.len();
    for key in keys {
        labels.remove(*key);
    }
    if labels.is_empty() && before > 0 {
        map.remove(field);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn pruned_fields_by_kind() {
        for (name, mut object, want) in [
            (
                "metadata of the plane and status, of any kind",
                json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "n", "namespace": "s", "labels": {"a": "b"},
                    "creationTimestamp": "t", "deletionTimestamp": "t", "deletionGracePeriodSeconds": 1, "generation": 1, "managedFields": [],
                    "resourceVersion": "1", "selfLink": "l", "uid": "u", "ownerReferences": [{}], "finalizers": ["f"]}, "spec": {"status": 1}, "status": {}}),
                json!({"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "n", "namespace": "s", "labels": {"a": "b"}}, "spec": {"status": 1}}),
            ),
            (
                "a deployment's revisions",
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": {"a": "b",
                    "deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/revision-history": "1"}}}),
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"annotations": {"a": "b"}}}),
            ),
            (
                "a job's generated labels and its time to live",
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"ttlSecondsAfterFinished": 5,
                    "selector": {"matchLabels": {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u", "mine": "1"}},
                    "template": {"metadata": {"labels": {"controller-uid": "u", "job-name": "j", "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j", "mine": "1"}}}}}),
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"selector": {"matchLabels": {"mine": "1"}}, "template": {"metadata": {"labels": {"mine": "1"}}}}}),
            ),
            (
                "not the labels of a manual selector",
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"manualSelector": true, "ttlSecondsAfterFinished": 5, "selector": {"matchLabels": {"controller-uid": "u"}}}}),
                json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"manualSelector": true, "selector": {"matchLabels": {"controller-uid": "u"}}}}),
            ),
            (
                "the token of an account",
                json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "data": {"token": "t"},
                    "metadata": {"annotations": {"kubernetes.io/service-account.uid": "u", "kubernetes.io/service-account.name": "n"}}}),
                json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token", "data": null,
                    "metadata": {"annotations": {"kubernetes.io/service-account.name": "n"}}}),
            ),
            (
                "neighbouring token entries of an account, and odd entries stay",
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{"name": "a-token-1"}, {"name": "a-token-2"}, {"name": "b-token-1"}, {"name": 3}, 4]}),
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{"name": "b-token-1"}, {"name": 3}, 4]}),
            ),
            (
                "a service's addresses",
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "1.2.3.4", "clusterIPs": ["1.2.3.4"], "ports": []}}),
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": []}}),
            ),
            (
                "not those of a headless one",
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
                json!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
            ),
            (
                "a claim's node",
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}}),
                json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"annotations": {}}}),
            ),
            (
                "the rules of an aggregated role",
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"verbs": ["get"]}]}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "aggregationRule": {"clusterRoleSelectors": []}}),
            ),
            (
                "not those of another role",
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [{"verbs": ["get"]}]}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [{"verbs": ["get"]}]}),
            ),
            (
                "a kind of the same name in another group is left alone",
                json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"clusterIP": "x"}}),
                json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"clusterIP": "x"}}),
            ),
        ] {
            prune(&mut object);
            assert_eq!(object, want, "{name}");
            prune(&mut object);
            assert_eq!(object, want, "{name}, twice");
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z]{0,4}".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            let key = prop_oneof![
                Just("metadata"),
                Just("spec"),
                Just("selector"),
                Just("matchLabels"),
                Just("template"),
                Just("labels"),
                Just("annotations"),
                Just("secrets"),
                Just("name"),
                Just("controller-uid"),
                Just("clusterIP"),
                Just("status"),
                Just("type")
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn pruning_never_panics_and_is_idempotent(mut object in json(), kind in prop_oneof![Just("Deployment"), Just("Job"), Just("Secret"), Just("ServiceAccount"), Just("Service"), Just("PersistentVolumeClaim")]) {
            if let Some(map) = object.as_object_mut() {
                let group = match kind { "Deployment" => "apps/v1", "Job" => "batch/v1", _ => "v1" };
                map.insert("apiVersion".into(), group.into());
                map.insert("kind".into(), kind.into());
            }
            prune(&mut object);
            let once = object.clone();
            prune(&mut object);
            prop_assert_eq!(once, object);
        }
    }
}
