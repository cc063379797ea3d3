//! Promotion: an object that runs in a member becomes a template of the control plane, without a change in the member
//! (specification/operations.md 2.13).

use ironclad_api::{
    annotations::{CONFLICT_RESOLUTION, CONFLICT_RESOLUTION_OVERWRITE},
    conditions::{self, binding::SCHEDULED},
    labels::MANAGED,
};
use ironclad_fleet::{BindingRef, Gvk};
use serde_json::{Map, Value, json};

use crate::skipped_resources::Skipped;

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

/// Type of the Secrets that a cluster makes for its ServiceAccounts.
const TOKEN_OF_ACCOUNT: &str = "kubernetes.io/service-account-token";

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
    /// Another policy would claim its template, and might place it elsewhere.
    #[error("{0}\n  try: lower that policy's priority, or --auto-create-policy=false, which leaves the template to it")]
    Claimed(String),
    /// It is never a template.
    #[error("each cluster has its own: objects of its kind, name or namespace are not propagated")]
    OfCluster,
}

/// Reason for which a promoted template is not dispatched yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Awaited {
    /// It has no binding.
    #[error("it has no binding yet")]
    Binding,
    /// No cluster is chosen.
    #[error("no cluster is chosen yet{0}")]
    Cluster(String),
    /// Other clusters than its own are chosen, or other replicas than it has.
    #[error("the scheduler chose {0}")]
    Other(String),
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
    let of = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (gvk, skipped) = (Gvk::from_manifest(of("/apiVersion"), of("/kind")), Skipped::default());
    if skipped.skips_kind(&gvk)
        || skipped.skips_object(&gvk, of("/metadata/namespace"), of("/metadata/name"))
        || of("/type") == TOKEN_OF_ACCOUNT
    {
        return Err(NotPromoted::OfCluster);
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

/// Checks that the binding of a promoted template leaves everything as it is: in its cluster alone, with all its
/// replicas. Only then its policy may dispatch it.
///
/// # Errors
/// If something is awaited, or was chosen instead.
pub fn stays(binding: Option<BindingRef<'_>>, cluster: &str) -> Result<(), Awaited> {
    let binding = binding.ok_or(Awaited::Binding)?;
    let spec = binding.spec();
    match spec.clusters.as_slice() {
        [] => {
            let scheduled =
                conditions::get(binding.conditions(), SCHEDULED).filter(|one| one.status == conditions::FALSE);
            Err(Awaited::Cluster(scheduled.map(|one| format!(": {}", one.message)).unwrap_or_default()))
        }
        [one] if one.name == cluster && one.replicas == spec.replicas => Ok(()),
        others => {
            let others: Vec<_> =
                others.iter().map(|one| format!("{} with {} replicas", one.name, one.replicas)).collect();
            Err(Awaited::Other(others.join(", ")))
        }
    }
}

/// The policy, whose template is not dispatched until [`stays`] says that nothing would change.
#[must_use]
pub fn suspended(mut policy: Value) -> Value {
    policy["spec"]["suspension"] = json!({"dispatching": true});
    policy
}

/// The change that dispatches the template of a policy of [`suspended`].
#[must_use]
pub fn resumed(policy: &Value) -> Value {
    json!({
        "apiVersion": policy["apiVersion"], "kind": policy["kind"],
        "metadata": {"name": policy["metadata"]["name"], "namespace": policy["metadata"]["namespace"]},
        "spec": {"suspension": null},
    })
}

/// True if a template of the control plane would leave a member's object as it is.
#[must_use]
pub fn is_template_of(present: &Value, object: &Value) -> bool {
    let content = |object: &Value| {
        let mut content = template(object);
        content.as_object_mut().into_iter().for_each(|fields| drop(fields.remove("metadata")));
        content
    };
    content(present) == content(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{binding, patched};

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
    fn what_each_cluster_makes_is_not_promoted() {
        for (name, object, want) in [
            (
                "a ConfigMap",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}}),
                true,
            ),
            (
                "one of the system",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "kube-system"}}),
                false,
            ),
            (
                "certificates",
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "shop"}}),
                false,
            ),
            (
                "a policy",
                json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": "o", "namespace": "shop"}}),
                false,
            ),
            (
                "a token",
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t", "namespace": "shop"}, "type": TOKEN_OF_ACCOUNT}),
                false,
            ),
            (
                "a Secret",
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t", "namespace": "shop"}, "type": "Opaque"}),
                true,
            ),
        ] {
            assert_eq!(check(&object), if want { Ok(()) } else { Err(NotPromoted::OfCluster) }, "{name}");
        }
    }

    #[test]
    fn a_template_is_dispatched_once_its_binding_leaves_it_where_it_is() {
        let of = |replicas: i64, clusters: Value| json!({"spec": {"replicas": replicas, "clusters": clusters}});
        let unfit = json!({"spec": {"clusters": []}, "status": {"conditions": [{"type": "Scheduled", "status": "False",
            "reason": "NoClusterFit", "message": "0/2 clusters", "lastTransitionTime": "2026-11-01T00:00:00Z"}]}});
        for (name, wanted, want) in [
            ("no binding", None, "it has no binding yet"),
            ("not scheduled", Some(of(2, json!([]))), "no cluster is chosen yet"),
            ("no cluster fits", Some(unfit), "no cluster is chosen yet: 0/2 clusters"),
            ("its cluster", Some(of(2, json!([{"name": "m1", "replicas": 2}]))), ""),
            ("without replicas", Some(json!({"spec": {"clusters": [{"name": "m1"}], "replicas": null}})), ""),
            ("fewer", Some(of(2, json!([{"name": "m1", "replicas": 1}]))), "the scheduler chose m1 with 1 replicas"),
            (
                "elsewhere",
                Some(of(2, json!([{"name": "m2", "replicas": 2}]))),
                "the scheduler chose m2 with 2 replicas",
            ),
            (
                "elsewhere, too",
                Some(of(2, json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 2}]))),
                "the scheduler chose m1 with 2 replicas, m2 with 2 replicas",
            ),
        ] {
            let binding = wanted.map(|wanted| patched(&binding(&[]), &wanted));
            let got = stays(binding.as_ref().map(BindingRef::from), "m1").err();
            assert_eq!(got.map(|awaited| awaited.to_string()).unwrap_or_default(), want, "{name}");
        }
        let policy = suspended(
            json!({"apiVersion": "p/v1", "kind": "P", "metadata": {"name": "p", "namespace": "shop"}, "spec": {}}),
        );
        assert_eq!(policy["spec"], json!({"suspension": {"dispatching": true}}));
        assert_eq!(
            resumed(&policy),
            json!({"apiVersion": "p/v1", "kind": "P", "metadata": {"name": "p", "namespace": "shop"}, "spec": {"suspension": null}})
        );
    }

    #[test]
    fn templates_are_compared_by_what_users_want() {
        let map = |value: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": uid}, "data": {"a": value}});
        assert!(is_template_of(&map("1", "x"), &map("1", "y")));
        assert!(!is_template_of(&map("1", "x"), &map("2", "x")));
    }
}
