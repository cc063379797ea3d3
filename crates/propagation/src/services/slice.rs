//! EndpointSlices on their way between clusters (specification/mcs.md 3): what of them is kept, and what is set.

use std::collections::BTreeSet;

use ironclad_api::{annotations, labels, names};
use serde_json::{Map, Value, json};

use super::{SLICE_API_VERSION, SLICE_KIND, ServiceKey};

/// Kubernetes' mark of slices of headless Services.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Domains whose labels are set by controllers of a cluster, or by the control plane for its own copy of a Service.
const OTHERS_DOMAINS: [&str; 4] = ["kubernetes.io", "k8s.io", "karmada.io", "ironclad.io"];
/// Fields of an endpoint that mean the same in every cluster. `nodeName` and `targetRef` name objects of its own
/// cluster, and `hints` are made for the zones of that one.
const KEPT_OF_ENDPOINT: [&str; 4] = ["addresses", "conditions", "hostname", "zone"];
/// Longest name of a slice.
const NAME_MAX: usize = 253;

/// The Service of a slice, by its label.
#[must_use]
pub fn service_of(slice: &Value) -> Option<ServiceKey> {
    let metadata = slice.get("metadata")?;
    let name = metadata.get("labels")?.get(labels::SERVICE_NAME)?.as_str()?;
    Some(ServiceKey::new(metadata.get("namespace")?.as_str()?, name))
}

/// Returns true for slices that came from another cluster, which are never collected.
#[must_use]
pub fn is_of_another_cluster(slice: &Value) -> bool {
    let by = slice.pointer("/metadata/labels").and_then(|map| map.get(labels::ENDPOINT_SLICE_KUBERNETES_MANAGED_BY));
    let ours = [labels::ENDPOINT_SLICE_DISPATCH_CONTROLLER, labels::ENDPOINT_SLICE_CONTROLLER];
    by.and_then(Value::as_str).is_some_and(|by| ours.contains(&by))
}

/// Returns true for a slice of a headless Service.
#[must_use]
pub fn is_headless(slice: &Value) -> bool {
    slice.pointer("/metadata/labels").is_some_and(|labels| labels.get(HEADLESS).is_some())
}

fn is_users(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    !OTHERS_DOMAINS
        .iter()
        .any(|theirs| domain == *theirs || domain.strip_suffix(theirs).is_some_and(|d| d.ends_with('.')))
}

/// The part of a slice of a member that other clusters can use: ports, and addresses with state, hostname and zone,
/// the mark of a headless Service, and labels of users.
#[must_use]
pub fn portable(slice: &Value) -> Value {
    let none = Map::new();
    let all = slice.pointer("/metadata/labels").and_then(Value::as_object).unwrap_or(&none);
    let is_kept = |key: &str| key == labels::SERVICE_NAME || key == HEADLESS || is_users(key);
    let kept: Map<String, Value> =
        all.iter().filter(|(key, _)| is_kept(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    let mut out = json!({
        "apiVersion": SLICE_API_VERSION, "kind": SLICE_KIND,
        "metadata": {"namespace": slice["metadata"]["namespace"], "name": slice["metadata"]["name"], "labels": kept},
        "addressType": slice["addressType"],
    });
    let endpoints = slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let endpoint = |whole: &Value| -> Value {
        let kept = KEPT_OF_ENDPOINT.iter().filter_map(|key| Some(((*key).to_owned(), whole.get(*key)?.clone())));
        Value::Object(kept.collect())
    };
    // The order of endpoints in a slice means nothing, and changes.
    let mut endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
    endpoints.sort_by_cached_key(|endpoint| endpoint["addresses"].to_string());
    out["endpoints"] = endpoints.into();
    if let Some(ports) = slice.get("ports").filter(|ports| !ports.is_null()) {
        out["ports"] = ports.clone();
    }
    out
}

/// The addresses of a slice that get traffic.
#[must_use]
pub fn addresses(slice: &Value) -> BTreeSet<&str> {
    let endpoints = slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let serving = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] != false);
    serving
        .flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect()
}

/// Cuts a name that is too long; a hash of the whole keeps it apart from others.
#[must_use]
pub fn bounded(name: String) -> String {
    if name.len() <= NAME_MAX {
        return name;
    }
    let hash = names::hash(&name);
    let mut cut = name;
    cut.truncate(cut.floor_char_boundary(NAME_MAX - hash.len() - 1));
    format!("{}-{hash}", cut.trim_end_matches(['-', '.']))
}

/// A collected slice as consumers of a MultiClusterService get it, under this name.
#[must_use]
pub fn dispatched(collected: &Value, provider: &str, name: &str) -> Value {
    let mut slice = portable(collected);
    slice["metadata"]["name"] = name.into();
    slice["metadata"]["labels"][labels::ENDPOINT_SLICE_KUBERNETES_MANAGED_BY] =
        labels::ENDPOINT_SLICE_DISPATCH_CONTROLLER.into();
    slice["metadata"]["annotations"] = json!({annotations::ENDPOINT_SLICE_PROVISION_CLUSTER: provider});
    slice
}

/// A collected slice as the control plane gets it for the importing Service of this name.
#[must_use]
pub fn imported(collected: &Value, cluster: &str, service: &str) -> Value {
    let mut slice = portable(collected);
    let name = collected["metadata"]["name"].as_str().unwrap_or_default();
    slice["metadata"]["name"] = bounded(names::imported_endpoint_slice(cluster, name)).into();
    let map = &mut slice["metadata"]["labels"];
    map[labels::SERVICE_NAME] = service.into();
    map[labels::ENDPOINT_SLICE_KUBERNETES_MANAGED_BY] = labels::ENDPOINT_SLICE_CONTROLLER.into();
    slice["metadata"]["annotations"] = json!({annotations::ENDPOINT_SLICE_PROVISION_CLUSTER: cluster});
    slice
}
