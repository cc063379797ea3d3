//! MultiClusterService (specification/admission.md 5.3).

use std::collections::BTreeSet;

use ironclad_api::{annotations::UNREADY_PROVIDERS, labels, networking::MultiClusterService};
use ironclad_patch::names;
use ironclad_propagation::services::UnreadyProviders;
use serde_json::{Value, json};

use super::{
    ingress,
    lens::{at, label, set_label},
    quota,
};
use crate::{
    Denial, Need, Operation, Request,
    field::{Findings, Path},
    request::{Config, Cx, Needs, decode},
};

pub(crate) fn needs_id(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    if request.object.is_some_and(|object| label(object, labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID).is_empty()) {
        needs.insert(Need::Id);
    }
}

pub(crate) fn mutate(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    if label(object, labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID).is_empty() {
        set_label(object, labels::MULTI_CLUSTER_SERVICE_PERMANENT_ID, &cx.lookups.id);
    }
    Ok(())
}

pub(crate) fn validate(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let service: MultiClusterService = decode(object)?;
    let name = service.metadata.name.as_deref().unwrap_or_default();
    out.texts("metadata.name", name, names::dns1035_label(name));
    let path = Path::new("spec");
    let mut seen = BTreeSet::new();
    for (i, port) in service.spec.ports.iter().enumerate() {
        let at = path.child("ports").index(i);
        if !port.name.is_empty() {
            out.texts(at.child("name"), &port.name, names::dns1123_label(&port.name));
        }
        if !port.name.is_empty() && !seen.insert(port.name.as_str()) {
            out.duplicate(at.child("name"), &port.name);
        }
        if !(1..=65_535).contains(&port.port) {
            out.invalid(at.child("port"), &port.port, "must be between 1 and 65535, inclusive");
        }
    }
    types(&service.spec.types, &path.child("types"), out);
    let annotation = service.metadata.annotations.as_ref().and_then(|map| map.get(UNREADY_PROVIDERS));
    if let Some((text, error)) = annotation.and_then(|text| Some((text, UnreadyProviders::parse(text).err()?))) {
        out.invalid(Path::new("metadata").child("annotations").key(UNREADY_PROVIDERS), text, &error);
    }
    // The word `range` is historical; clients match on it.
    let lists =
        [("providerClusters", &service.spec.provider_clusters), ("consumerClusters", &service.spec.consumer_clusters)];
    for (field, clusters) in lists {
        let mut seen = BTreeSet::new();
        for (i, selector) in clusters.iter().enumerate() {
            let at = path.child("range").child(field).index(i);
            quota::cluster_name(&selector.name, &at, out);
            if !seen.insert(selector.name.as_str()) {
                out.duplicate(&at, &selector.name);
            }
        }
    }
    if cx.request.operation == Operation::Update {
        ingress::load_balancer(at(object, "/status/loadBalancer"), out);
    }
    Ok(())
}

fn types(types: &[String], path: &Path, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (i, kind) in types.iter().enumerate() {
        if !["CrossCluster", "LoadBalancer"].contains(&kind.as_str()) {
            out.invalid(path.index(i), kind, "ExposureType Error: must be CrossCluster or LoadBalancer");
        } else if !seen.insert(kind.as_str()) {
            out.duplicate(path.index(i), kind);
        }
    }
    if seen.len() > 1 {
        out.invalid(path, types, "MultiClusterService types should not contain more than one type");
    }
}

/// Refuses a change of the type.
pub(crate) fn change(cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    let (Operation::Update, Some(old), Some(new)) = (cx.request.operation, cx.request.old, cx.request.object) else {
        return Ok(());
    };
    let of = |object: &Value| -> BTreeSet<String> {
        let list = at(object, "/spec/types").as_array();
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if of(old) != of(new) {
        out.invalid("spec.types", &json!(at(new, "/spec/types")), "MultiClusterService types are immutable");
    }
    Ok(())
}
