//! ResourceBinding and ClusterResourceBinding (specification/admission.md 3.1, 3.3).

use std::collections::BTreeSet;

use ironclad_api::{annotations, labels};
use ironclad_fleet::gates::Gate;
use serde_json::Value;

use super::lens::{at, label, list, set_label, text};
use crate::{
    Denial, Need, Request,
    field::{Findings, Path},
    request::{Config, Cx, Needs},
};

fn id(resource: &str) -> &'static str {
    if resource == "clusterresourcebindings" {
        labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID
    } else {
        labels::RESOURCE_BINDING_PERMANENT_ID
    }
}

/// Asks for an id if the binding has none. An existing id is kept, so that backups can be restored.
pub(crate) fn needs_id(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    if request.object.is_some_and(|object| label(object, id(request.resource)).is_empty()) {
        needs.insert(Need::Id);
    }
}

pub(crate) fn mutate(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    stamp(labels::RESOURCE_BINDING_PERMANENT_ID, object, cx)
}

pub(crate) fn mutate_cluster(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    stamp(labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID, object, cx)
}

fn stamp(id: &str, object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    if label(object, id).is_empty() {
        set_label(object, id, &cx.lookups.id);
    }
    Ok(())
}

pub(crate) fn validate(object: &Value, cx: &Cx<'_>, out: &mut Findings) -> Result<(), Denial> {
    dependencies(object, out);
    if cx.config.gates.enabled(Gate::MultiplePodTemplatesScheduling) {
        components(object, out);
    }
    Ok(())
}

/// Validates the annotation that lists object references.
fn dependencies(object: &Value, out: &mut Findings) {
    let Some(given) = at(object, "/metadata/annotations").get(annotations::DEPENDENCIES).and_then(Value::as_str) else {
        return;
    };
    let is_reference = |item: &Value| {
        let is_selected = item.get("labelSelector").is_some_and(Value::is_object);
        let filled = |field: &str| item.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        filled("apiVersion") && filled("kind") && (filled("name") || is_selected)
    };
    let wrong = match serde_json::from_str::<Value>(given) {
        Ok(Value::Array(items)) => match items.iter().position(|item| !is_reference(item)) {
            None => return,
            Some(i) => format!(
                "must be a JSON list of object references: item {i} lacks apiVersion, kind, or a name or labelSelector"
            ),
        },
        Ok(_) => "must be a JSON list of object references".to_owned(),
        Err(e) => format!("must be a JSON list of object references: {e}"),
    };
    let path = Path::new("metadata.annotations").child(annotations::DEPENDENCIES);
    out.invalid(path, given, &wrong);
}

fn components(object: &Value, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (i, component) in list(object, "/spec/components").iter().enumerate() {
        let name = text(component, "/name");
        let path = Path::new("spec.components").index(i).child("name");
        if name.is_empty() {
            out.invalid(path, name, "component names must not be empty");
        } else if !seen.insert(name) {
            out.invalid(path, name, "component names must be unique");
        }
    }
}
