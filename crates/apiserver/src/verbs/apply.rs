//! Server-side apply: what a manager wants of an object, merged into it (specification/apiserver.md 13).

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
    modify::{UpdateScope, modify},
    options::WriteOptions,
    patch,
};

/// Attempts of an apply against clients that create and delete the object.
const TRIES: usize = 8;

/// PATCH with an apply patch: makes the object or merges into it.
pub(crate) async fn apply(
    cx: &Cx,
    bytes: &[u8],
    scope: UpdateScope,
    options: &WriteOptions,
) -> Result<Reply, ApiError> {
    if cx.query.text("fieldManager").is_none() {
        let cause = Cause::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid_option("PatchOptions", cause));
    }
    let mut config = patch::read_apply(bytes)?;
    patch::check_apply(cx, &config)?;
    object::metadata_mut(&mut config).insert("name".into(), cx.name().into());
    let config = config;
    let resource = &*cx.resource;
    let options = WriteOptions { applied: true, ..options.clone() };
    let (manager, now) = (cx.field_manager(), cx.state.now());
    let merged = |live: Option<&Value>| {
        let subresource = cx.subresource().unwrap_or_default();
        let applied = schema::with_tracker(resource, subresource, |tracker| {
            tracker.apply(live, &config, &manager, options.force, &now)
        });
        match applied {
            Some(applied) => Ok(applied.map_err(patch::refused)?.object),
            None => Err(ApiError::unclassified(format!("no schema is known for {}", resource.kind))),
        }
    };
    for _ in 0..TRIES {
        if cx.state.store.get(&cx.key()).is_some() {
            let mut make = |old: &Value| patch::typed(cx, old, merged(Some(old))?, options.field_validation);
            match modify(cx, scope, &options, false, &mut make).await {
                Err(e) if e.code == 404 && scope == UpdateScope::Object => continue,
                done => return respond::object(cx, 200, done?),
            }
        }
        if scope != UpdateScope::Object {
            return Err(ApiError::not_found(&resource.plural, &resource.group, cx.name()));
        }
        let uid = object::meta_str(&config, "uid");
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(ApiError::conflict(&resource.plural, &resource.group, cx.name(), &why));
        }
        let mut fresh = merged(None)?;
        object::metadata_mut(&mut fresh).remove("resourceVersion");
        let decoded = schema::check(resource, fresh).map_err(|e| ApiError::unclassified(e.to_string()))?;
        super::body::report(cx, resource, &decoded.strict, options.field_validation)?;
        match create::create_object(cx, decoded.value, &options).await {
            Err(e) if e.reason == "AlreadyExists" => continue,
            made => return respond::object(cx, 201, made?),
        }
    }
    Err(ApiError::modified(&resource.plural, &resource.group, cx.name()))
}
