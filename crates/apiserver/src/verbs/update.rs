//! update: an object replaced by a body (specification/apiserver.md 8).

use serde_json::Value;

use crate::{
    context::Cx,
    object,
    respond::{self, Reply},
    status::ApiError,
};

use super::{
    body, create,
    modify::{UpdateScope, modify},
    options::WriteOptions,
};

/// PUT of an object, or of its status or finalizers.
pub(crate) async fn update(cx: &Cx, bytes: &[u8], scope: UpdateScope) -> Result<Reply, ApiError> {
    let options = WriteOptions::parse(&cx.query, "UpdateOptions")?;
    let value = body::object(cx, bytes, options.field_validation)?;
    let given = object::meta_str(&value, "name");
    if given.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            cx.name()
        )));
    }
    if given != cx.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            cx.name()
        )));
    }
    let builtin = cx.resource.builtin();
    if scope == UpdateScope::Object
        && builtin.is_some_and(|b| b.create_on_update)
        && cx.state.store.get(&cx.key()).is_none()
        && object::meta_str(&value, "uid").is_empty()
    {
        let mut value = value;
        object::metadata_mut(&mut value).insert("name".into(), cx.name().into());
        object::metadata_mut(&mut value).remove("resourceVersion");
        let made = create::create_object(cx, value, &options).await?;
        return respond::object(cx, 201, made);
    }
    let needs_revision = builtin.is_none_or(|b| b.needs_revision);
    let mut make = |old: &Value| {
        check_uid(cx, old, &value)?;
        Ok(value.clone())
    };
    let done = modify(cx, scope, &options, needs_revision, &mut make).await?;
    respond::object(cx, 200, done)
}

/// A PUT that names another uid meant another object.
fn check_uid(cx: &Cx, old: &Value, new: &Value) -> Result<(), ApiError> {
    let (is, given) = (object::meta_str(old, "uid"), object::meta_str(new, "uid"));
    if given.is_empty() || given == is {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: \
         UID in precondition: {given}, UID in object meta: {is}",
        cx.key().replacen("/registry/core/", "/registry/", 1)
    );
    Err(ApiError::conflict(&cx.resource.plural, &cx.resource.group, cx.name(), &why))
}
