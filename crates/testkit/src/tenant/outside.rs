//! State outside of the tenant's namespace, in the control plane and in the members, and what the tenant may not learn.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use ironclad_runtime::{Api, discover};
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, ListParams},
    discovery::{Scope, verbs},
};
use serde_json::Value;

use super::{CANARY, OWN};

/// Kinds that are rewritten on their own.
const RESTLESS: [&str; 4] = ["Event", "Lease", "NodeMetrics", "PodMetrics"];
/// Kinds whose status shows usage, time or the sum of all workloads.
const STATUS_OF_USAGE: [&str; 3] = ["Node", "Cluster", "APIService"];

/// Objects by server, kind, namespace and name.
pub(super) type State = BTreeMap<String, Value>;

/// All objects of a server: those outside of the tenant's namespace, and the tenant's.
pub(super) struct Seen {
    pub(super) outside: State,
    pub(super) own: State,
}

/// Lists every kind of a server.
pub(super) async fn look(server: &str, client: &Client) -> anyhow::Result<Seen> {
    let mut seen = Seen { outside: State::new(), own: State::new() };
    for group in discover(client).await?.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) || RESTLESS.contains(&&*resource.kind) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let list =
                api.list(&ListParams::default()).await.with_context(|| format!("{server}: {}", resource.kind))?;
            for object in list {
                let namespace = object.namespace().unwrap_or_default();
                let key = format!("{server} {}/{} {namespace}/{}", resource.group, resource.kind, object.name_any());
                let own = match capabilities.scope {
                    Scope::Cluster => resource.kind == "Namespace" && object.name_any() == OWN,
                    Scope::Namespaced => namespace == OWN,
                };
                let mut value = serde_json::to_value(object)?;
                if own || is_work_of_tenant(&resource.kind, &value) {
                    seen.own.insert(key, value);
                    continue;
                }
                let metadata = value["metadata"].as_object_mut().context("an object has metadata")?;
                metadata.remove("resourceVersion");
                metadata.remove("managedFields");
                if STATUS_OF_USAGE.contains(&&*resource.kind) {
                    value["status"] = Value::Null;
                }
                seen.outside.insert(key, value);
            }
        }
    }
    Ok(seen)
}

/// True for a Work whose manifests are objects of the tenant's namespace, or that namespace.
fn is_work_of_tenant(kind: &str, object: &Value) -> bool {
    if kind != "Work" {
        return false;
    }
    let manifests = object["spec"]["workload"]["manifests"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = |manifest: &Value| {
        let metadata = &manifest["metadata"];
        metadata["namespace"] == OWN || (manifest["kind"] == "Namespace" && metadata["name"] == OWN)
    };
    !manifests.is_empty() && manifests.iter().all(own)
}

/// Says what differs between two states.
pub(super) fn differences(before: &State, after: &State) -> Vec<String> {
    let mut out = Vec::new();
    for (key, was) in before {
        match after.get(key) {
            None => out.push(format!("gone: {key}")),
            Some(is) if is != was => out.push(format!("changed: {key}:\n    was {was}\n    is  {is}")),
            Some(_) => {}
        }
    }
    out.extend(after.iter().filter(|(key, _)| !before.contains_key(*key)).map(|(key, is)| format!("new: {key}: {is}")));
    out
}

/// Refuses a text with anything that only others may read.
pub(super) fn tells_nothing(text: &str, whence: &str) -> anyhow::Result<()> {
    for secret in CANARY {
        ensure!(!text.contains(secret), "{whence} tells {secret}: {}", super::short(text));
    }
    Ok(())
}
