//! Promotion: an object that runs in a member becomes a template of the control plane, without a change in the member
//! (specification/operations.md 2.13).

use ironclad_api::{
    annotations::{CONFLICT_RESOLUTION, CONFLICT_RESOLUTION_OVERWRITE},
    labels::MANAGED,
    names,
};
use serde_json::{Map, Value, json};

/// Fields of `metadata` that a server or an owner writes.
const OF_SERVERS: [&str; 9] = [
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation",
    "managedFields", "ownerReferences", "resourceVersion", "uid",
];
/// Annotations that controllers of a member write.
const OF_CONTROLLERS: [&str; 2] = ["deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"];
/// Labels that a Job's controller gives its Pods.
const OF_JOBS: [&str; 4] =
    ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];

/// Reason for which an object is not promoted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPromoted {
    /// It is a copy already.
    #[error("it is propagated already: the control plane has its template")]
    Copy,
    /// It belongs to another object.
    #[error("{kind} {name} owns it\n  try: ironclad promote {kind} {name}")]
    Owned {
        /// Kind of the owner.
        kind: String,
        /// Its name.
        name: String,
    },
    /// It is being deleted.
    #[error("it is being deleted")]
    Leaving,
}

/// Checks whether an object of a member can become a template.
///
/// # Errors
/// The reason why it can't.
pub fn check(object: &Value) -> Result<(), NotPromoted> {
    let metadata = &object["metadata"];
    if metadata["labels"].get(MANAGED).is_some() {
        return Err(NotPromoted::Copy);
    }
    if metadata.get("deletionTimestamp").is_some() {
        return Err(NotPromoted::Leaving);
    }
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let text = |owner: &Value, field: &str| owner[field].as_str().unwrap_or_default().to_owned();
    match owners.find(|owner| owner["controller"] == json!(true)) {
        Some(owner) => Err(NotPromoted::Owned { kind: text(owner, "kind"), name: text(owner, "name") }),
        None => Ok(()),
    }
}

/// The template of a member's object: what its user wants, with the mark that lets it take the object over.
#[must_use]
pub fn template(object: &Value) -> Value {
    let mut template = object.clone();
    let remove = |value: &mut Value, fields: &[&str]| {
        if let Some(map) = value.as_object_mut() {
            fields.iter().for_each(|field| drop(map.remove(*field)));
        }
    };
    remove(&mut template, &["status"]);
    remove(&mut template["metadata"], &OF_SERVERS);
    remove(&mut template["metadata"]["annotations"], &OF_CONTROLLERS);
    match object["kind"].as_str() {
        Some("Service") => {
            // Another cluster has other addresses; a headless Service stays one.
            if template["spec"]["clusterIP"] != json!("None") {
                remove(&mut template["spec"], &["clusterIP", "clusterIPs"]);
            }
            remove(&mut template["spec"], &["healthCheckNodePort"]);
            let ports = template.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten();
            ports.for_each(|port| remove(port, &["nodePort"]));
        }
        Some("Job") if template["spec"]["manualSelector"] != json!(true) => {
            remove(&mut template["spec"], &["selector"]);
            template
                .pointer_mut("/spec/template/metadata/labels")
                .into_iter()
                .for_each(|labels| remove(labels, &OF_JOBS));
        }
        Some("ServiceAccount") => remove(&mut template, &["secrets"]),
        _ => {}
    }
    if !template["metadata"]["annotations"].is_object() {
        template["metadata"]["annotations"] = Value::Object(Map::new());
    }
    template["metadata"]["annotations"][CONFLICT_RESOLUTION] = json!(CONFLICT_RESOLUTION_OVERWRITE);
    template
}

/// The policy that keeps a promoted template in its cluster, and the object there when the template is deleted.
#[must_use]
pub fn policy(template: &Value, cluster: &str, name: Option<&str>) -> Value {
    let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, of) = (text("/metadata/namespace"), text("/metadata/name"));
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let gvk = names::gvk_text(group, version, text("/kind"));
    let name = name.map_or_else(|| names::policy_name(namespace, of, &gvk), str::to_owned);
    let mut selector = json!({"apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": of});
    let mut metadata = json!({"name": name});
    let kind = match namespace {
        "" => "ClusterPropagationPolicy",
        namespace => {
            selector["namespace"] = json!(namespace);
            metadata["namespace"] = json!(namespace);
            "PropagationPolicy"
        }
    };
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": metadata,
        "spec": {
            "resourceSelectors": [selector],
            "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
            "conflictResolution": "Overwrite",
            "preserveResourcesOnDeletion": true,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_of_users_are_promoted() {
        let owner = |controller| json!({"kind": "ReplicaSet", "name": "web-1", "controller": controller});
        for (name, metadata, want) in [
            ("a user's", json!({"labels": {"app": "web"}}), Ok(())),
            ("a copy", json!({"labels": {"karmada.io/managed": "true"}}), Err(NotPromoted::Copy)),
            ("one that leaves", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), Err(NotPromoted::Leaving)),
            (
                "a controller's",
                json!({"ownerReferences": [owner(true)]}),
                Err(NotPromoted::Owned { kind: "ReplicaSet".into(), name: "web-1".into() }),
            ),
            ("one that goes with another", json!({"ownerReferences": [owner(false)]}), Ok(())),
        ] {
            assert_eq!(check(&json!({"metadata": metadata})), want, "{name}");
        }
    }

    #[test]
    fn templates_have_what_users_want() {
        let mark = json!({"work.karmada.io/conflict-resolution": "overwrite"});
        for (name, object, want) in [
            (
                "a Deployment",
                json!({"kind": "Deployment", "metadata": {"name": "web", "uid": "u", "resourceVersion": "1", "generation": 2,
                    "creationTimestamp": "t", "managedFields": [], "labels": {"a": "b"}, "finalizers": ["f"],
                    "annotations": {"deployment.kubernetes.io/revision": "1", "kept": "yes"}},
                    "spec": {"replicas": 2}, "status": {"replicas": 2}}),
                json!({"kind": "Deployment", "metadata": {"name": "web", "labels": {"a": "b"},
                    "annotations": {"kept": "yes", "work.karmada.io/conflict-resolution": "overwrite"}},
                    "spec": {"replicas": 2}}),
            ),
            (
                "a Service",
                json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.1",
                    "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30080}]}}),
                json!({"kind": "Service", "metadata": {"name": "s", "annotations": mark}, "spec": {"ports": [{"port": 80}]}}),
            ),
            (
                "a headless one",
                json!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
                json!({"kind": "Service", "metadata": {"name": "s", "annotations": mark},
                    "spec": {"clusterIP": "None", "clusterIPs": ["None"]}}),
            ),
            (
                "a Job",
                json!({"kind": "Job", "metadata": {"name": "j"}, "spec": {"selector": {"matchLabels": {"controller-uid": "u"}},
                    "template": {"metadata": {"labels": {"controller-uid": "u", "job-name": "j", "a": "b"}}}}}),
                json!({"kind": "Job", "metadata": {"name": "j", "annotations": mark},
                    "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
            ),
            (
                "a ServiceAccount",
                json!({"kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{"name": "t"}]}),
                json!({"kind": "ServiceAccount", "metadata": {"name": "a", "annotations": mark}}),
            ),
        ] {
            assert_eq!(template(&object), want, "{name}");
        }
    }

    #[test]
    fn the_policy_names_the_object_and_its_cluster() {
        let namespaced =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}});
        let got = policy(&namespaced, "m1", None);
        let name = names::policy_name("shop", "web", &names::gvk_text("apps", "v1", "Deployment"));
        assert_eq!(got["kind"], json!("PropagationPolicy"));
        assert_eq!(got["metadata"], json!({"name": name, "namespace": "shop"}));
        assert_eq!(
            got["spec"]["resourceSelectors"],
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}])
        );
        assert_eq!(got["spec"]["placement"]["clusterAffinity"]["clusterNames"], json!(["m1"]));
        let wide =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        let got = policy(&wide, "m1", Some("p"));
        assert_eq!((&got["kind"], &got["metadata"]), (&json!("ClusterPropagationPolicy"), &json!({"name": "p"})));
    }
}
