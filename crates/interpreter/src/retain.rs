//! Retention: fields that an update takes from the member object (specification/propagation.md 14; 31, row 25).

use ironclad_api::labels::{self, RETAIN_REPLICAS};
use serde_json::Value;

use crate::{
    MemberReplicas,
    kind::Kind,
    lens::{self, ShapeError, shape},
};

pub(crate) fn retain(
    kind: Option<Kind>,
    desired: &Value,
    observed: &Value,
    replicas_path: Option<&str>,
) -> Result<Value, ShapeError> {
    let mut kept = desired.clone();
    match kind {
        Some(Kind::Pod) => pod(&mut kept, observed),
        Some(Kind::Service) => service(&mut kept, observed),
        Some(Kind::ServiceAccount) => {
            append_new_names(&mut kept, observed, "secrets");
            append_new_names(&mut kept, observed, "imagePullSecrets");
        }
        Some(Kind::PersistentVolumeClaim) => {
            copy(&mut kept, observed, &["spec", "volumeName"], |v| v.as_str().is_some_and(|v| !v.is_empty()));
        }
        Some(Kind::PersistentVolume) => copy(&mut kept, observed, &["spec", "claimRef"], |v| !v.is_null()),
        Some(Kind::Job) => {
            copy(&mut kept, observed, &["spec", "selector", "matchLabels"], |v| !v.is_null());
            copy(&mut kept, observed, &["spec", "template", "metadata", "labels"], |v| !v.is_null());
        }
        Some(Kind::Secret) if lens::text(desired, "/type") == "kubernetes.io/service-account-token" => {
            copy(&mut kept, observed, &["data"], |v| !v.is_null());
        }
        _ => {}
    }
    if let Some(path) = native_replicas_path(desired).or(replicas_path).filter(|_| asks_to_retain_replicas(desired)) {
        let keys: Vec<&str> = path.trim_start_matches('.').split('.').collect();
        let pointer = format!("/{}", keys.join("/"));
        if observed.pointer(&pointer).and_then(Value::as_i64).is_none() {
            return Err(shape(
                observed,
                pointer,
                "the member's replicas, which the label retain-replicas asks to keep",
            ));
        }
        copy(&mut kept, observed, &keys, |_| true);
    }
    Ok(kept)
}

/// Gives an object that keeps the member's replicas, and has none of them, those of the manifest.
pub(crate) fn leave_zero_replicas(manifest: &Value, kept: &mut Value, replicas_path: Option<&str>) {
    let Some(path) = native_replicas_path(manifest).or(replicas_path) else { return };
    let keys: Vec<&str> = path.trim_start_matches('.').split('.').collect();
    let pointer = format!("/{}", keys.join("/"));
    let of = |object: &Value| object.pointer(&pointer).and_then(Value::as_i64);
    if asks_to_retain_replicas(manifest) && of(kept) == Some(0) && of(manifest).is_some_and(|wanted| wanted > 0) {
        copy(kept, manifest, &keys, |_| true);
    }
}

/// Keeps the member's replicas in `kept`, which was made of `desired`, if they are newer than those of the manifest
/// ([`MemberReplicas`]).
pub(crate) fn keep_member_replicas(kept: &mut Value, desired: &Value, observed: &Value, replicas_path: Option<&str>) {
    let Some(path) = native_replicas_path(desired).or(replicas_path) else { return };
    let marks = (MemberReplicas::of(desired), MemberReplicas::of(observed));
    if let (Some(wanted), Some(applied)) = marks
        && wanted.leaves_to_member(applied)
    {
        let keys: Vec<&str> = path.trim_start_matches('.').split('.').collect();
        // At zero most autoscalers do nothing: the copy would stay there.
        let least = if wanted.may_rest { 0 } else { 1 };
        copy(kept, observed, &keys, |replicas| replicas.as_i64().is_some_and(|replicas| replicas >= least));
    }
}

/// Returns true if the replicas of an object may be decided in the member: by its label, or as the target of a
/// distributed autoscaler.
pub(crate) fn may_retain_replicas(manifest: &Value) -> bool {
    asks_to_retain_replicas(manifest) || MemberReplicas::of(manifest).is_some()
}

/// Returns true if the label of the manifest asks to keep the member's replicas.
fn asks_to_retain_replicas(manifest: &Value) -> bool {
    lens::label(manifest, RETAIN_REPLICAS) == Some(labels::TRUE)
}

/// Path of the replicas in an object of a kind of Kubernetes that has a scale subresource.
pub(crate) fn native_replicas_path(object: &Value) -> Option<&'static str> {
    native_path(lens::text(object, "/apiVersion"), lens::text(object, "/kind"))
}

/// The same by the names of the kind.
pub(crate) fn native_path(api_version: &str, kind: &str) -> Option<&'static str> {
    let scales = matches!(
        (api_version, kind),
        ("apps/v1", "Deployment" | "ReplicaSet" | "StatefulSet") | ("v1", "ReplicationController")
    );
    scales.then_some(".spec.replicas")
}

/// Sets the field under `keys` to the observed value, if it exists and `accepted` accepts it.
fn copy(kept: &mut Value, observed: &Value, keys: &[&str], accepted: impl Fn(&Value) -> bool) {
    let Some(value) = observed.pointer(&format!("/{}", keys.join("/"))).filter(|v| accepted(v)) else { return };
    let Some((last, parents)) = keys.split_last() else { return };
    if let Some(map) = lens::object_at(kept, parents) {
        map.insert((*last).to_owned(), value.clone());
    }
}

fn service(kept: &mut Value, observed: &Value) {
    copy(kept, observed, &["spec", "healthCheckNodePort"], |v| v.as_i64().is_some_and(|port| port > 0));
    copy(kept, observed, &["spec", "clusterIP"], |v| v.as_str().is_some_and(|ip| !ip.is_empty()));
}

fn pod(kept: &mut Value, observed: &Value) {
    for field in ["nodeName", "serviceAccountName", "volumes"] {
        copy(kept, observed, &["spec", field], |v| !v.is_null());
    }
    for containers in ["containers", "initContainers"] {
        let theirs = lens::items(observed, &format!("/spec/{containers}"));
        let Some(ours) = kept.pointer_mut(&format!("/spec/{containers}")).and_then(Value::as_array_mut) else {
            continue;
        };
        for container in ours {
            let name = lens::text(container, "/name").to_owned();
            let mounts = theirs.iter().find(|c| lens::text(c, "/name") == name).and_then(|c| c.get("volumeMounts"));
            if let (Some(mounts), Some(container)) = (mounts, container.as_object_mut()) {
                container.insert("volumeMounts".into(), mounts.clone());
            }
        }
    }
}

fn append_new_names(kept: &mut Value, observed: &Value, field: &str) {
    let ours = lens::items(kept, &format!("/{field}")).to_vec();
    let new: Vec<Value> = lens::items(observed, &format!("/{field}"))
        .iter()
        .filter(|theirs| !ours.iter().any(|our| lens::text(our, "/name") == lens::text(theirs, "/name")))
        .cloned()
        .collect();
    if new.is_empty() {
        return;
    }
    if let Some(map) = kept.as_object_mut() {
        map.insert(field.into(), Value::Array([ours, new].concat()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn o(api_version: &str, kind: &str, mut rest: Value) -> Value {
        rest["apiVersion"] = json!(api_version);
        rest["kind"] = json!(kind);
        rest
    }

    #[test]
    fn retained_fields_by_kind() {
        let label = |value: &str| json!({"labels": {RETAIN_REPLICAS: value}, "name": "w"});
        for (name, desired, observed, want) in [
            (
                "replicas with the label",
                o("apps/v1", "Deployment", json!({"metadata": label("true"), "spec": {"replicas": 1, "paused": true}})),
                o("apps/v1", "Deployment", json!({"spec": {"replicas": 5}})),
                json!({"spec": {"replicas": 5, "paused": true}}),
            ),
            (
                "any other value of the label is no",
                o("apps/v1", "Deployment", json!({"metadata": label("True"), "spec": {"replicas": 1}})),
                o("apps/v1", "Deployment", json!({"spec": {"replicas": 5}})),
                json!({"spec": {"replicas": 1}}),
            ),
            (
                "replicas without the label are ours",
                o("apps/v1", "Deployment", json!({"spec": {"replicas": 1}})),
                o("apps/v1", "Deployment", json!({"spec": {"replicas": 5}})),
                json!({"spec": {"replicas": 1}}),
            ),
            (
                "stateful sets honour it too",
                o("apps/v1", "StatefulSet", json!({"metadata": label("true"), "spec": {"replicas": 1}})),
                o("apps/v1", "StatefulSet", json!({"spec": {"replicas": 5}})),
                json!({"spec": {"replicas": 5}}),
            ),
            (
                "a pod's place, account, volumes and mounts",
                o(
                    "v1",
                    "Pod",
                    json!({"spec": {"volumes": [], "containers": [{"name": "a", "image": "i"}, {"name": "b"}], "initContainers": [{"name": "c"}]}}),
                ),
                o(
                    "v1",
                    "Pod",
                    json!({"spec": {"nodeName": "n", "serviceAccountName": "s", "volumes": [{"name": "v"}],
                    "containers": [{"name": "b", "volumeMounts": [2]}, {"name": "a", "image": "other", "volumeMounts": [1]}],
                    "initContainers": [{"name": "c", "volumeMounts": [3]}]}}),
                ),
                json!({"spec": {"nodeName": "n", "serviceAccountName": "s", "volumes": [{"name": "v"}],
                    "containers": [{"name": "a", "image": "i", "volumeMounts": [1]}, {"name": "b", "volumeMounts": [2]}],
                    "initContainers": [{"name": "c", "volumeMounts": [3]}]}}),
            ),
            (
                "a service's address and health port",
                o("v1", "Service", json!({"spec": {"type": "LoadBalancer"}})),
                o(
                    "v1",
                    "Service",
                    json!({"spec": {"clusterIP": "10.0.0.1", "healthCheckNodePort": 30000, "clusterIPs": ["10.0.0.1"]}}),
                ),
                json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "healthCheckNodePort": 30000}}),
            ),
            (
                "no address, no port: nothing kept",
                o("v1", "Service", json!({"spec": {"type": "ExternalName"}})),
                o("v1", "Service", json!({"spec": {"clusterIP": "", "healthCheckNodePort": 0}})),
                json!({"spec": {"type": "ExternalName"}}),
            ),
            (
                "a headless address is kept",
                o("v1", "Service", json!({"spec": {}})),
                o("v1", "Service", json!({"spec": {"clusterIP": "None"}})),
                json!({"spec": {"clusterIP": "None"}}),
            ),
            (
                "an account's secrets: ours first, then new names",
                o("v1", "ServiceAccount", json!({"secrets": [{"name": "a"}]})),
                o(
                    "v1",
                    "ServiceAccount",
                    json!({"secrets": [{"name": "b"}, {"name": "a"}], "imagePullSecrets": [{"name": "c"}]}),
                ),
                json!({"secrets": [{"name": "a"}, {"name": "b"}], "imagePullSecrets": [{"name": "c"}]}),
            ),
            (
                "a claim's volume",
                o("v1", "PersistentVolumeClaim", json!({"spec": {}})),
                o("v1", "PersistentVolumeClaim", json!({"spec": {"volumeName": "pv-1"}})),
                json!({"spec": {"volumeName": "pv-1"}}),
            ),
            (
                "a volume's claim",
                o("v1", "PersistentVolume", json!({"spec": {}})),
                o("v1", "PersistentVolume", json!({"spec": {"claimRef": {"name": "c"}}})),
                json!({"spec": {"claimRef": {"name": "c"}}}),
            ),
            (
                "a job's selector and pod labels, as a whole",
                o("batch/v1", "Job", json!({"spec": {"template": {"metadata": {"labels": {"mine": "1"}}}}})),
                o(
                    "batch/v1",
                    "Job",
                    json!({"spec": {"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"uid": "1"}}}}}),
                ),
                json!({"spec": {"selector": {"matchLabels": {"uid": "1"}}, "template": {"metadata": {"labels": {"uid": "1"}}}}}),
            ),
            (
                "a token's data",
                o("v1", "Secret", json!({"type": "kubernetes.io/service-account-token", "data": null})),
                o("v1", "Secret", json!({"type": "kubernetes.io/service-account-token", "data": {"token": "t"}})),
                json!({"type": "kubernetes.io/service-account-token", "data": {"token": "t"}}),
            ),
            (
                "any other secret's data is ours",
                o("v1", "Secret", json!({"type": "Opaque", "data": {"a": "1"}})),
                o("v1", "Secret", json!({"type": "Opaque", "data": {"a": "2"}})),
                json!({"type": "Opaque", "data": {"a": "1"}}),
            ),
        ] {
            let mut got = retain(Kind::of(&desired), &desired, &observed, None).unwrap();
            let map = got.as_object_mut().unwrap();
            for key in ["apiVersion", "kind", "metadata"] {
                map.remove(key);
            }
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn kinds_with_a_scale_keep_the_replicas_at_its_path() {
        let desired = json!({"apiVersion": "x.io/v1", "kind": "Farm", "metadata": {"labels": {RETAIN_REPLICAS: "true"}}, "spec": {"size": {"n": 1}}});
        let observed = json!({"apiVersion": "x.io/v1", "kind": "Farm", "spec": {"size": {"n": 4}}});
        let kept = |path| retain(None, &desired, &observed, path).unwrap()["spec"].clone();
        assert_eq!(kept(Some(".spec.size.n")), json!({"size": {"n": 4}}));
        assert_eq!(kept(None), json!({"size": {"n": 1}}));
    }

    #[test]
    fn zero_replicas_are_left_by_what_the_manifest_says() {
        let farm = |label: &str, replicas: i64| {
            json!({"apiVersion": "x.io/v1", "kind": "Farm", "metadata": {"labels": {RETAIN_REPLICAS: label}},
                "spec": {"size": {"n": replicas}}})
        };
        for (name, label, wanted, present, path, want) in [
            ("at zero", "true", 3, 0, Some(".spec.size.n"), 3),
            ("not at zero", "true", 3, 1, Some(".spec.size.n"), 1),
            ("none is wanted", "true", 0, 0, Some(".spec.size.n"), 0),
            ("no label", "no", 3, 0, Some(".spec.size.n"), 0),
            ("the path is not known", "true", 3, 0, None, 0),
        ] {
            let mut kept = farm(label, present);
            leave_zero_replicas(&farm(label, wanted), &mut kept, path);
            assert_eq!(kept["spec"]["size"]["n"], want, "{name}");
        }
    }

    #[test]
    fn kinds_of_kubernetes_with_a_scale_keep_their_replicas() {
        for (api_version, kind, want) in [
            ("apps/v1", "Deployment", 4),
            ("apps/v1", "StatefulSet", 4),
            ("apps/v1", "ReplicaSet", 4),
            ("v1", "ReplicationController", 4),
            ("apps/v1", "DaemonSet", 1),
            ("x.io/v1", "Deployment", 1),
        ] {
            for (label, want) in [("true", want), ("yes", 1)] {
                let desired = o(
                    api_version,
                    kind,
                    json!({"metadata": {"labels": {RETAIN_REPLICAS: label}}, "spec": {"replicas": 1}}),
                );
                let observed = o(api_version, kind, json!({"spec": {"replicas": 4}}));
                let kept = retain(Kind::of(&desired), &desired, &observed, None).unwrap();
                assert_eq!(kept["spec"]["replicas"], want, "{api_version} {kind}, {label}");
            }
        }
    }

    #[test]
    fn missing_retained_field_is_an_error() {
        let desired =
            o("apps/v1", "Deployment", json!({"metadata": {"labels": {RETAIN_REPLICAS: "true"}, "name": "w"}}));
        let observed = o("apps/v1", "Deployment", json!({"metadata": {"name": "w"}, "spec": {}}));
        assert_eq!(
            retain(Kind::of(&desired), &desired, &observed, None).unwrap_err().to_string(),
            "Deployment w: /spec/replicas must be the member's replicas, which the label retain-replicas asks to keep"
        );
    }
}
