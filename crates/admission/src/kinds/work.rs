//! Work: prunes and labels every manifest the same way, whoever writes it (specification/admission.md 3.2).

use ironclad_api::{annotations, labels};
use ironclad_propagation::work::manifest::{Marks, finish};
use serde_json::Value;

use super::lens::{label, set_label, text};
use crate::{
    Denial, Need, Request,
    request::{Config, Cx, Needs},
};

/// Asks for an id if the Work has none.
pub(crate) fn needs_id(request: &Request<'_>, _: &Config, needs: &mut Needs) {
    if request.object.is_some_and(|object| label(object, labels::WORK_PERMANENT_ID).is_empty()) {
        needs.insert(Need::Id);
    }
}

pub(crate) fn mutate(object: &mut Value, cx: &Cx<'_>) -> Result<(), Denial> {
    if label(object, labels::WORK_PERMANENT_ID).is_empty() {
        set_label(object, labels::WORK_PERMANENT_ID, &cx.lookups.id);
    }
    let (namespace, name) = (cx.request.namespace.to_owned(), text(object, "/metadata/name").to_owned());
    let id = label(object, labels::WORK_PERMANENT_ID).to_owned();
    let Some(manifests) = object.pointer_mut("/spec/workload/manifests").and_then(Value::as_array_mut) else {
        return Ok(());
    };
    for manifest in manifests {
        if !manifest.is_object() {
            return Err(Denial::undecodable("spec.workload.manifests: a manifest is not an object"));
        }
        // Keep what a controller has set; add only what every manifest must have.
        let conflict = manifest.pointer("/metadata/annotations").and_then(|a| a.get(annotations::CONFLICT_RESOLUTION));
        let conflict = conflict.and_then(Value::as_str).unwrap_or_default().to_owned();
        let marks =
            Marks { work_namespace: &namespace, work_name: &name, work_id: &id, conflict_resolution: &conflict };
        finish(manifest, &marks);
    }
    Ok(())
}
