//! Clusters that a kube-apiserver stores in a group of their own, so that group `cluster.karmada.io` can be an
//! aggregated API with `clusters/proxy` (specification/operations.md 4.1).
//!
//! Stored and served Clusters differ in `apiVersion` only.

pub mod carry_over;

use ironclad_api::cluster::{GROUP_VERSION, STORED_GROUP, STORED_GROUP_VERSION};
use serde_json::Value;

const GROUP: &str = "cluster.karmada.io";
/// Path of the served group.
pub const SERVED: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
/// Path of the stored one.
pub const STORED: &str = "/apis/cluster.ironclad.io/v1alpha1/clusters";

/// The path and query under which what this path of the served group means is stored; `None` for paths of other groups
/// and of the proxy.
#[must_use]
pub fn stored_path(path: &str) -> Option<String> {
    let rest = path.strip_prefix(SERVED)?;
    let (below, _) = rest.split_once('?').unwrap_or((rest, ""));
    let stored = match below.split('/').collect::<Vec<_>>().as_slice() {
        [""] | ["", _] => true,
        ["", _, subresource] => *subresource == "status" || subresource.is_empty(),
        _ => false,
    };
    stored.then(|| format!("{STORED}{rest}"))
}

/// The body of a request for stored Clusters, from one for served Clusters.
#[must_use]
pub fn stored_body(body: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
        // YAML: of a server-side apply.
        return match std::str::from_utf8(body) {
            Ok(text) => text.replace(GROUP_VERSION, STORED_GROUP_VERSION).into_bytes(),
            Err(_) => body.to_vec(),
        };
    };
    rename(&mut value, GROUP_VERSION, STORED_GROUP_VERSION);
    for operation in value.as_array_mut().into_iter().flatten() {
        if operation["path"] == "/apiVersion" && operation["value"] == GROUP_VERSION {
            operation["value"] = STORED_GROUP_VERSION.into();
        }
    }
    value.to_string().into_bytes()
}

/// The answer about served Clusters, from one about stored ones: an object, a list, a table, an event of a watch, or a
/// Status. A body that is no JSON stays as it is.
#[must_use]
pub fn served_body(body: &[u8]) -> Vec<u8> {
    match serde_json::from_slice::<Value>(body) {
        Ok(mut value) => {
            serve(&mut value);
            value.to_string().into_bytes()
        }
        Err(_) => body.to_vec(),
    }
}

/// A served object from a stored one.
pub fn serve(value: &mut Value) {
    match value["kind"].as_str().or_else(|| value["object"]["kind"].as_str()) {
        Some("Status") => texts(value, &|text| text.replace(STORED_GROUP, GROUP)),
        _ => rename(value, STORED_GROUP_VERSION, GROUP_VERSION),
    }
}

/// A document of OpenAPI about served Clusters, from one about stored ones.
#[must_use]
pub fn served_text(text: &str) -> String {
    text.replace(STORED_GROUP, GROUP).replace("io.ironclad.cluster", "io.karmada.cluster")
}

/// Changes every `apiVersion` from one to the other, those in managedFields among them.
fn rename(value: &mut Value, from: &str, to: &str) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(|one| rename(one, from, to)),
        Value::Object(fields) => {
            for (key, field) in fields {
                if key == "apiVersion" && *field == from {
                    *field = to.into();
                } else {
                    rename(field, from, to);
                }
            }
        }
        _ => {}
    }
}

fn texts(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(all) => all.iter_mut().for_each(|one| texts(one, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| texts(field, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_clusters_and_their_status_are_stored() {
        for (path, want) in [
            ("/apis/cluster.karmada.io/v1alpha1/clusters", Some("/apis/cluster.ironclad.io/v1alpha1/clusters")),
            (
                "/apis/cluster.karmada.io/v1alpha1/clusters?watch=1&x=a/b",
                Some("/apis/cluster.ironclad.io/v1alpha1/clusters?watch=1&x=a/b"),
            ),
            ("/apis/cluster.karmada.io/v1alpha1/clusters/m1", Some("/apis/cluster.ironclad.io/v1alpha1/clusters/m1")),
            (
                "/apis/cluster.karmada.io/v1alpha1/clusters/m1/status?dryRun=All",
                Some("/apis/cluster.ironclad.io/v1alpha1/clusters/m1/status?dryRun=All"),
            ),
            ("/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy", None),
            ("/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/status", None),
            ("/apis/cluster.karmada.io/v1alpha1/clustersx", None),
            ("/apis/cluster.karmada.io/v1alpha1", None),
            ("/apis/work.karmada.io/v1alpha1/works", None),
        ] {
            assert_eq!(stored_path(path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn only_the_version_of_clusters_changes() {
        let body = |value: Value| serde_json::from_slice::<Value>(&stored_body(value.to_string().as_bytes())).unwrap();
        let object = |version: &str| {
            json!({
                "apiVersion": version, "kind": "Cluster",
                "metadata": {"name": "m1", "annotations": {"a": "cluster.karmada.io/v1alpha1"},
                    "managedFields": [{"apiVersion": version, "manager": "kubectl"}]},
                "spec": {"taints": [{"key": "cluster.karmada.io/not-ready"}]},
            })
        };
        let (served, stored) = (object("cluster.karmada.io/v1alpha1"), object("cluster.ironclad.io/v1alpha1"));
        assert_eq!(body(served.clone()), stored);
        for (what, of) in [
            ("an object", &(|object: Value| object) as &dyn Fn(Value) -> Value),
            ("a list", &|object| json!({"kind": "ClusterList", "items": [object]})),
            ("an event", &|object| json!({"type": "ADDED", "object": object})),
            ("a table", &|object| json!({"kind": "Table", "rows": [{"cells": ["m1"], "object": object}]})),
        ] {
            let mut answer = of(stored.clone());
            serve(&mut answer);
            assert_eq!(answer, of(served.clone()), "{what}");
        }
        for (what, sent, want) in [
            (
                "a JSON patch",
                json!([{"op": "test", "path": "/apiVersion", "value": "cluster.karmada.io/v1alpha1"}]),
                json!([{"op": "test", "path": "/apiVersion", "value": "cluster.ironclad.io/v1alpha1"}]),
            ),
            ("a merge patch", json!({"spec": {"region": "r"}}), json!({"spec": {"region": "r"}})),
            ("other options", json!({"apiVersion": "v1"}), json!({"apiVersion": "v1"})),
        ] {
            assert_eq!(body(sent), want, "{what}");
        }
        let yaml = stored_body(b"apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\n");
        assert_eq!(yaml, b"apiVersion: cluster.ironclad.io/v1alpha1\nkind: Cluster\n");
    }

    #[test]
    fn errors_name_the_served_group() {
        let status = |group: &str| json!({"kind": "Status", "message": format!("clusters.{group} \"x\" not found"), "details": {"group": group}});
        for of in
            [&(|status: Value| status) as &dyn Fn(Value) -> Value, &|status| json!({"type": "ERROR", "object": status})]
        {
            let mut answer = of(status("cluster.ironclad.io"));
            serve(&mut answer);
            assert_eq!(answer, of(status("cluster.karmada.io")));
        }
        assert_eq!(served_body(b"no json"), b"no json");
    }
}
