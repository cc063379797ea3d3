//! Server-side apply: what a manager wants of an object, merged into it (apiserver.md 13).

use serde_json::Value;

use crate::{
    context::Cx,
    object,
    respond::{self, Reply},
    schema,
    status::{ApiError, Cause},
};

use super::{
    create,
    modify::{Part, modify},
    options::WriteOptions,
    patch,
};

/// How often an apply is tried against others who make and remove the object.
const TRIES: usize = 8;

/// PATCH with an apply patch: makes the object or merges into it.
pub(crate) async fn apply(cx: &Cx, bytes: &[u8], part: Part, options: &WriteOptions) -> Result<Reply, ApiError> {
    if cx.query.text("fieldManager").is_none() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid_option("PatchOptions", cause));
    }
    let value = patch::read_apply(bytes)?;
    patch::check_apply(cx, &value)?;
    for _ in 0..TRIES {
        if cx.server.store.get(&cx.key()).is_some() {
            let mut make = |old: &Value| patch::strategic(cx, old, &value, options.field_validation);
            match modify(cx, part, options, false, &mut make).await {
                Err(e) if e.code == 404 && part == Part::Main => continue,
                done => return respond::object(cx, 200, done?),
            }
        }
        if part != Part::Main {
            return Err(ApiError::not_found(&cx.resource.plural, &cx.resource.group, cx.name()));
        }
        let uid = object::meta_str(&value, "uid");
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(&cx.resource.plural, &cx.resource.group, cx.name(), &why));
        }
        let mut fresh = value.clone();
        object::metadata_mut(&mut fresh).remove("resourceVersion");
        let decoded = schema::check(&cx.resource, fresh).map_err(|e| {
            let version = &cx.resource.api_version();
            let gv = if version.contains('/') { version.clone() } else { format!("/{version}") };
            ApiError::unclassified(format!(
                "failed to create typed patch object ({}/{}; {gv}, Kind={}): {e}",
                cx.namespace().unwrap_or_default(),
                cx.name(),
                cx.resource.kind
            ))
        })?;
        super::body::report(cx, &cx.resource, &decoded.strict, options.field_validation)?;
        let fresh = decoded.value;
        match create::create_object(cx, fresh, options).await {
            Err(e) if e.reason == "AlreadyExists" => continue,
            made => return respond::object(cx, 201, made?),
        }
    }
    Err(ApiError::modified(&cx.resource.plural, &cx.resource.group, cx.name()))
}
