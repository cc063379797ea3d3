//! create: a new object from a body (specification/apiserver.md 7, 8).

use ironclad_store::{Compare, TxnResult};
use serde_json::Value;

use crate::{
    admission::{self, Operation},
    context::Cx,
    conversion, kinds, meta, object, quota,
    respond::{self, Reply},
    state::{State, check_depth},
    status::ApiError,
    strategy,
};

use super::{
    body,
    follow_up::{after_write, carry_out},
    options::WriteOptions,
};

/// Names drawn for generateName before giving up.
const NAME_TRIES: usize = 8;
/// Attempts of a create against writers of the objects that are written with it.
const SIDE_TRIES: usize = 64;

/// POST on a collection.
pub(crate) async fn create(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions")?;
    let value = body::object(cx, bytes, options.field_validation)?;
    let made = create_object(cx, value, &options).await?;
    respond::object(cx, 201, made)
}

/// Stores a new object; answers it as stored.
pub(crate) async fn create_object(cx: &Cx, value: Value, options: &WriteOptions) -> Result<Value, ApiError> {
    let (mut names, mut sides) = (0, 0);
    loop {
        match attempt(cx, value.clone(), options).await {
            Ok(Some(made)) => return Ok(made),
            Ok(None) if sides < SIDE_TRIES => sides += 1,
            Ok(None) => {
                let name = object::meta_str(&value, "name");
                return Err(ApiError::modified(&cx.resource.plural, &cx.resource.group, name));
            }
            Err(e) if e.reason == "AlreadyExists" && has_generated_name(&value) && names < NAME_TRIES => names += 1,
            Err(e) => return Err(e),
        }
    }
}

/// The name is the server's to draw.
fn has_generated_name(value: &Value) -> bool {
    object::meta_str(value, "name").is_empty() && !object::meta_str(value, "generateName").is_empty()
}

/// One attempt; `None` when an object that is written with it changed.
async fn attempt(cx: &Cx, mut value: Value, options: &WriteOptions) -> Result<Option<Value>, ApiError> {
    let state: &State = &cx.state;
    let resource = &*cx.resource;
    let hooks = kinds::hooks(resource);
    if resource.namespaced && cx.namespace().is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let now = state.now();
    meta::prepare_create(resource, &mut value, cx.namespace(), state.uid(), &now, || state.suffix())?;
    // The creator owns the fields it sent and their defaults, not those that admission and the server add.
    strategy::default(resource, &mut value, strategy::Defaults::Plain);
    if !options.applied {
        cx.track(None, &mut value);
    }
    strategy::prepare_create(resource, &mut value);
    for warning in meta::dedup_owners(&mut value) {
        cx.warn(warning);
    }
    admission::create(cx, &mut value, options.dry_run).await?;
    strategy::default(resource, &mut value, strategy::Defaults::Creating);
    (hooks.allocate)(state, None, &mut value)?;
    let causes = [meta::validate_create(resource, &value), strategy::validate(cx, &value, None)].concat();
    let name = object::meta_str(&value, "name").to_owned();
    if !causes.is_empty() {
        return Err(ApiError::invalid(&resource.kind, resource.error_group(), &name, causes));
    }
    for warning in strategy::warnings(resource, &value, None) {
        cx.warn(warning);
    }
    let sides = admission::validate(cx, Operation::Create, None, Some(&value), options.dry_run).await?;
    (hooks.before_write)(cx, None, &mut value)?;
    let key = resource.key(cx.namespace().unwrap_or_default(), &name);
    let exists = |entry: &ironclad_store::Entry| {
        let terminating = object::decode(&entry.value, entry.modified).is_ok_and(|o| object::terminating(&o));
        ApiError::already_exists(&resource.plural, &resource.group, &name, terminating)
    };
    if options.dry_run {
        check_depth(resource, &value)?;
        quota::check_dry_run(cx, None, &value)?;
        if let Some(entry) = state.store.get(&key) {
            return Err(exists(&entry));
        }
        object::metadata_mut(&mut value).remove("resourceVersion");
        return Ok(Some(value));
    }
    let put = state.put(resource, key.clone(), &*conversion::to_stored(cx, &value).await?)?;
    let (mut compares, mut ops) = (hooks.reservations)(None, Some(&value));
    compares.insert(0, Compare::absent(key));
    ops.push(put);
    let alone = sides.is_empty();
    sides.join(&mut compares, &mut ops);
    match quota::txn(cx, None, &value, compares, ops).await? {
        TxnResult::Done { revision } => {
            state.set_revision(&mut value, revision);
            carry_out(&cx.state, after_write(cx, None, Some(&value))?).await?;
            Ok(Some(value))
        }
        TxnResult::Failed { current, .. } => match current.into_iter().next().flatten() {
            Some(entry) => Err(exists(&entry)),
            None if !alone => Ok(None),
            // Another Service reserved the address or port in between.
            None => Err(ApiError::modified(&resource.plural, &resource.group, &name)),
        },
    }
}
