//! Constructors for tests; each takes only the fields that matter to a row.

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    work::{ResourceBinding, Work},
};
use serde_json::{Value, json};

use crate::new_ids::NewIds;

/// Applies an RFC 7396 merge patch, as a server does.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let map = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// A typed object after a merge patch.
pub(crate) fn patched<T: serde::Serialize + serde::de::DeserializeOwned>(object: &T, patch: &Value) -> T {
    let mut json = json!(object);
    merge(&mut json, patch);
    serde_json::from_value(json).unwrap()
}

/// `shop/web`, unclaimed.
pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", "resourceVersion": "10", "generation": 1, "labels": {"app": "web"}},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": "100m"}}}]}}},
    })
}

/// `shop/<name>`, with an id, selecting Deployments as `rest` of the selector says.
pub(crate) fn policy(name: &str, selector: Value) -> PropagationPolicy {
    let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    merge(&mut full, &selector);
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": name, "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": format!("id-{name}")},
            "finalizers": ["karmada.io/propagation-policy-controller"]},
        "spec": {"resourceSelectors": [full], "placement": {"clusterAffinity": {"clusterNames": ["m1"]}}},
    }))
    .unwrap()
}

pub(crate) fn cluster_policy(name: &str, selector: Value) -> ClusterPropagationPolicy {
    let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    merge(&mut full, &selector);
    serde_json::from_value(json!({
        "metadata": {"name": name, "generation": 1,
            "labels": {"clusterpropagationpolicy.karmada.io/permanent-id": format!("id-{name}")},
            "finalizers": ["karmada.io/cluster-propagation-policy-controller"]},
        "spec": {"resourceSelectors": [full], "placement": {}},
    }))
    .unwrap()
}

/// The binding of `shop/web`, scheduled to these clusters with these replicas.
pub(crate) fn binding(clusters: &[(&str, i32)]) -> ResourceBinding {
    let targets: Vec<Value> =
        clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web-deployment", "uid": "uid-rb", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"resourcebinding.karmada.io/permanent-id": "rb-id"}, "finalizers": ["karmada.io/binding-controller"]},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web", "uid": "uid-web", "resourceVersion": "10"},
            "replicas": 3, "placement": {}, "clusters": targets},
    }))
    .unwrap()
}

/// A cluster whose Ready condition has this status.
pub(crate) fn cluster(name: &str, ready: &str) -> Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": name}, "spec": {"syncMode": "Push"},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
    .unwrap()
}

/// A Work from JSON.
pub(crate) fn work(json: Value) -> Work {
    serde_json::from_value(json).unwrap()
}

/// `<prefix>-1`, `<prefix>-2`, ...
pub(crate) fn ids(prefix: &str) -> NewIds {
    NewIds::from(format!("{prefix}-1"))
}
