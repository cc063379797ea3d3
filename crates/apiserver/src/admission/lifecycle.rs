//! Objects are created in namespaces and of kinds that exist and are not being deleted (specification/apiserver.md 19).

use serde_json::Value;

use crate::{
    context::Cx,
    object,
    status::{ApiError, Cause},
};

/// Refuses new objects in a namespace, or of a CRD, that is missing or being deleted.
pub(super) fn create(cx: &Cx, value: &Value) -> Result<(), ApiError> {
    in_namespace(cx, value)?;
    if let Some(custom) = cx.resource.custom()
        && custom.terminating
    {
        return Err(ApiError::forbidden(
            &cx.resource.plural,
            &cx.resource.group,
            object::meta_str(value, "name"),
            "create not allowed while custom resource definition is terminating",
        ));
    }
    Ok(())
}

fn in_namespace(cx: &Cx, value: &Value) -> Result<(), ApiError> {
    let Some(name) = cx.namespace().filter(|_| cx.resource.namespaced) else { return Ok(()) };
    let Some(namespace) = cx.state.builtin_object("", "namespaces", "", name) else {
        return Err(ApiError::not_found("namespaces", "", name));
    };
    if !object::terminating(&namespace) {
        return Ok(());
    }
    let resource = &cx.resource;
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = ApiError::forbidden(&resource.plural, &resource.group, object::meta_str(value, "name"), &why);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    Err(error)
}
