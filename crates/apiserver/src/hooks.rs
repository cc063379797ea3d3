//! What the server itself does around writes of a few kinds: CRDs change the registry, system namespaces stay,
//! namespaces get a phase.

use serde_json::{Value, json};

use crate::{
    api_services,
    auth::rbac,
    context::Cx,
    crd::{self, lifecycle},
    object,
    status::ApiError,
};

/// Namespaces that can't be deleted.
const UNDELETABLE: [&str; 3] = ["default", "kube-system", "kube-public"];

fn is_crd(cx: &Cx) -> bool {
    cx.resource.is("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn is_api_service(cx: &Cx) -> bool {
    cx.resource.is(api_services::GROUP, api_services::KIND)
}

/// Before a valid new object is stored.
pub(crate) fn before_create(cx: &Cx, value: &mut Value) -> Result<(), ApiError> {
    if is_api_service(cx) {
        api_services::judge(None, value, &cx.state.now());
    }
    if is_crd(cx) {
        crd::settle(value, &lifecycle::crds(&cx.state)?, &cx.state.now());
        let metadata = object::metadata_mut(value);
        let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut()
            && !list.iter().any(|f| f == crd::CLEANUP_FINALIZER)
        {
            list.push(json!(crd::CLEANUP_FINALIZER));
        }
    }
    Ok(())
}

/// Before a valid change is stored.
pub(crate) fn before_update(cx: &Cx, old: &Value, new: &mut Value) -> Result<(), ApiError> {
    if is_api_service(cx) {
        api_services::judge(Some(old), new, &cx.state.now());
    }
    if is_crd(cx) && (old.get("spec") != new.get("spec") || new.pointer("/status/conditions").is_none()) {
        crd::settle(new, &lifecycle::crds(&cx.state)?, &cx.state.now());
    }
    Ok(())
}

/// Before anything of a deletion is done.
pub(crate) fn before_delete(cx: &Cx, old: &Value) -> Result<(), ApiError> {
    let name = object::meta_str(old, "name");
    if cx.resource.is("", "Namespace") && UNDELETABLE.contains(&name) {
        return Err(ApiError::forbidden("namespaces", "", name, "this namespace may not be deleted"));
    }
    Ok(())
}

/// True when something besides metadata holds the object.
pub(crate) fn holds(cx: &Cx, object: &Value) -> bool {
    cx.resource.is("", "Namespace")
        && object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty())
}

/// When an object is first marked for deletion.
pub(crate) fn on_mark(cx: &Cx, object: &mut Value) {
    if cx.resource.is("", "Namespace") {
        object["status"]["phase"] = json!("Terminating");
    }
    if is_crd(cx) {
        let now = cx.state.now();
        crd::set_terminating(
            object,
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            &now,
        );
    }
}

/// Work that a write leaves to whoever made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// Delete the instances of this CRD, then the CRD itself.
    CleanUpCrd(String),
    /// Remove this CRD if no instance is left.
    ReleaseCrd(String),
    /// Write the APIServices that are missing, remove those that no longer apply.
    SyncApiServices,
}

/// After a write is durable. `old` is absent after a create, `new` after a removal.
pub(crate) fn after_write(cx: &Cx, old: Option<&Value>, new: Option<&Value>) -> Result<Vec<FollowUp>, ApiError> {
    let mut out = Vec::new();
    if cx.resource.builtin().is_some() && cx.resource.group == rbac::GROUP {
        cx.state.rbac_changed();
    }
    if cx.resource.builtin().is_some() && cx.resource.group == "admissionregistration.k8s.io" {
        cx.state.admission_changed();
    }
    if is_crd(cx) {
        lifecycle::refresh_registry(&cx.state)?;
        if let Some(new) = new
            && object::terminating(new)
            && !old.is_some_and(object::terminating)
        {
            out.push(FollowUp::CleanUpCrd(object::meta_str(new, "name").to_owned()));
        }
    }
    // One of the server's own that somebody deletes is written again.
    if is_crd(cx) || is_api_service(cx) && new.is_none() {
        out.push(FollowUp::SyncApiServices);
    }
    if let (Some(custom), None) = (cx.resource.custom(), new)
        && custom.terminating
    {
        out.push(FollowUp::ReleaseCrd(custom.crd.clone()));
    }
    Ok(out)
}
