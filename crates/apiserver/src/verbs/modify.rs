//! The pipeline of every change to an existing object: read, make the candidate, keep what may not change, default,
//! validate, compare, write unless the object changed in between (specification/apiserver.md 7, 8, 12).

use ironclad_store::{Compare, Entry, Op, TxnResult};
use serde_json::{Value, json};

use crate::{
    admission::{self, Operation, SideWrites},
    context::Cx,
    conversion, convert, kinds, meta, object, quota,
    registry::Resource,
    state::check_depth,
    status::{ApiError, Cause},
    strategy,
};

use super::{
    follow_up::{after_write, carry_out},
    options::WriteOptions,
};

/// Attempts of a change without a resourceVersion against concurrent writers.
const TRIES: usize = 64;

/// The part of an object that a request may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateScope {
    /// Everything but status, where that is a subresource.
    Object,
    /// Status, and of metadata what specification/apiserver.md 7 says.
    Status,
    /// The approval of a certificate request: `status.conditions`.
    Approval,
    /// All that the caller's candidate changes: scale, binding and their like.
    Subresource,
    /// `spec.finalizers` of a namespace.
    Finalize,
    /// The node of a pod, which is not validated as a user's update and does not count in the generation.
    Binding,
}

/// Makes the candidate of the object as it is.
pub(crate) type Make<'a> = dyn FnMut(&Value) -> Result<Value, ApiError> + Send + 'a;

/// Changes the object of the request's path; answers it as it is afterwards, in the request's version.
pub(crate) async fn modify(
    cx: &Cx,
    scope: UpdateScope,
    options: &WriteOptions,
    needs_revision: bool,
    make: &mut Make<'_>,
) -> Result<Value, ApiError> {
    let resource = &*cx.resource;
    let key = cx.key();
    for _ in 0..TRIES {
        let Some(entry) = cx.state.store.get(&key) else {
            return Err(ApiError::not_found(&resource.plural, &resource.group, cx.name()));
        };
        match attempt(cx, scope, options, needs_revision, &key, &entry, make).await? {
            Some(value) => return Ok(value),
            None => continue,
        }
    }
    Err(ApiError::modified(&resource.plural, &resource.group, cx.name()))
}

/// One attempt; `None` when another write came first.
async fn attempt(
    cx: &Cx,
    scope: UpdateScope,
    options: &WriteOptions,
    needs_revision: bool,
    key: &str,
    entry: &Entry,
    make: &mut Make<'_>,
) -> Result<Option<Value>, ApiError> {
    let resource = &*cx.resource;
    let old = convert::read(resource, &conversion::one_in_version(cx, entry).await?)?;
    let candidate = make(&old)?;
    check_revision(cx, &candidate, entry, needs_revision)?;
    // As it was sent: a kube-apiserver completes the metadata later.
    (kinds::hooks(resource).check_escalation)(cx, Some(&old), &candidate)?;
    let (new, sides) = prepare(cx, scope, options, &old, candidate).await?;
    if unchanged(&old, &new) && !convert::is_outdated(resource, entry) {
        return Ok(Some(old));
    }
    let removed = removable(resource, &old, &new);
    if options.dry_run {
        check_depth(resource, &new)?;
        quota::check_dry_run(cx, Some(&old), &new)?;
        return Ok(Some(new));
    }
    let op = if removed {
        Op::delete(key)
    } else {
        cx.state.put(resource, key.to_owned(), &*conversion::to_stored(cx, &new).await?)?
    };
    let (mut compares, mut ops) = (kinds::hooks(resource).reservations)(Some(&old), Some(&new).filter(|_| !removed));
    compares.push(Compare::modified(key, entry.modified));
    ops.push(op);
    sides.join(&mut compares, &mut ops);
    let result = if removed {
        cx.state.txn(compares, ops).await?
    } else {
        quota::txn(cx, Some(&old), &new, compares, ops).await?
    };
    match result {
        TxnResult::Failed { .. } => Ok(None),
        TxnResult::Done { .. } if removed => {
            carry_out(&cx.state, after_write(cx, Some(&old), None)?).await?;
            Ok(Some(new))
        }
        TxnResult::Done { revision } => {
            let mut new = new;
            cx.state.set_revision(&mut new, revision);
            carry_out(&cx.state, after_write(cx, Some(&old), Some(&new))?).await?;
            Ok(Some(new))
        }
    }
}

/// The resourceVersion that the candidate was made from must be the current one, if it names one.
fn check_revision(cx: &Cx, candidate: &Value, entry: &Entry, needed: bool) -> Result<(), ApiError> {
    let resource = &*cx.resource;
    match object::meta_str(candidate, "resourceVersion") {
        "" | "0" if needed => {
            let cause = Cause::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
            Err(ApiError::invalid(&resource.plural, &resource.group, cx.name(), vec![cause]))
        }
        "" | "0" => Ok(()),
        given => {
            let given: u64 = given
                .parse()
                .map_err(|_| ApiError::unclassified(format!("strconv.ParseUint: parsing {given:?}: invalid syntax")))?;
            if given == entry.modified.get() {
                Ok(())
            } else {
                Err(ApiError::modified(&resource.plural, &resource.group, cx.name()))
            }
        }
    }
}

/// Prepares a candidate: restricted to what it may change, admitted, defaulted and validated. Returns it with the
/// objects that are written beside it.
async fn prepare(
    cx: &Cx,
    scope: UpdateScope,
    options: &WriteOptions,
    old: &Value,
    candidate: Value,
) -> Result<(Value, SideWrites), ApiError> {
    let resource = &*cx.resource;
    let mut new = candidate;
    restrict(resource, scope, old, &mut new);
    let of_subresource =
        cx.subresource().zip(resource.builtin().and_then(|builtin| builtin.strategy.subresource_update));
    let of_subresource = of_subresource.filter(|_| scope == UpdateScope::Subresource);
    if let Some((subresource, update)) = of_subresource {
        (update.restrict)(subresource, old, &mut new);
    }
    meta::prepare_update(resource, old, &mut new, cx.namespace(), cx.name())?;
    let revision = object::metadata(old).get("resourceVersion").cloned().unwrap_or(Value::Null);
    object::metadata_mut(&mut new).insert("resourceVersion".into(), revision);
    for warning in meta::dedup_owners(&mut new) {
        cx.warn(warning);
    }
    if scope != UpdateScope::Finalize {
        strategy::prepare_update(resource, old, &mut new);
    }
    let asked_for = (!options.applied && admission::is_asked(cx)).then(|| new.clone());
    let mut owners = None;
    if admission::update(cx, old, &mut new, options.dry_run).await? {
        // A webhook may change no more than the request may; no manager owns its changes.
        restrict(resource, scope, old, &mut new);
        if let Some(mut asked_for) = asked_for {
            strategy::default(resource, &mut asked_for, strategy::Defaults::Plain);
            cx.track(Some(old), &mut asked_for);
            owners = object::metadata(&asked_for).get("managedFields").cloned();
            if let Some(owners) = &owners {
                object::metadata_mut(&mut new).insert("managedFields".into(), owners.clone());
            }
        }
    }
    strategy::default(resource, &mut new, strategy::Defaults::Plain);
    if matches!(scope, UpdateScope::Object | UpdateScope::Subresource) {
        meta::count_generation(resource, old, &mut new);
    }
    if let Some(builtin) = resource.builtin() {
        (builtin.strategy.set_condition_times)(&cx.state.now(), old, &mut new);
    }
    let of_kind = match (of_subresource, scope) {
        // These ways are for what an ordinary update of a pod may not change.
        (Some((subresource, update)), _) => (update.validate)(subresource, &new, old),
        (None, UpdateScope::Binding) => vec![],
        (None, _) => strategy::validate(cx, &new, Some(old)),
    };
    let causes = [meta::validate_update(resource, old, &new), of_kind].concat();
    if !causes.is_empty() {
        return Err(ApiError::invalid(&resource.kind, resource.error_group(), cx.name(), causes));
    }
    for warning in strategy::warnings(resource, &new, Some(old)) {
        cx.warn(warning);
    }
    let sides = admission::validate(cx, Operation::Update, Some(old), Some(&new), options.dry_run).await?;
    (kinds::hooks(resource).before_write)(cx, Some(old), &mut new)?;
    // No manager owns what the server allocates or drops.
    match owners {
        Some(owners) => drop(object::metadata_mut(&mut new).insert("managedFields".into(), owners)),
        None if !options.applied && scope != UpdateScope::Binding => cx.track(Some(old), &mut new),
        None => {}
    }
    (kinds::hooks(resource).allocate)(&cx.state, Some(old), &mut new)?;
    Ok((new, sides))
}

/// Restores what this scope may not change.
fn restrict(resource: &Resource, scope: UpdateScope, old: &Value, new: &mut Value) {
    let keep = |new: &mut Value, key: &str| {
        if let Some(map) = new.as_object_mut() {
            match old.get(key) {
                Some(value) => map.insert(key.to_owned(), value.clone()),
                None => map.remove(key),
            };
        }
    };
    match scope {
        UpdateScope::Object if resource.has_status() => keep(new, "status"),
        UpdateScope::Object | UpdateScope::Subresource | UpdateScope::Binding => {}
        UpdateScope::Approval => {
            let conditions = new.pointer("/status/conditions").cloned();
            for key in ["spec", "status"] {
                keep(new, key);
            }
            match conditions {
                Some(conditions) => new["status"]["conditions"] = conditions,
                None => {
                    if let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) {
                        status.remove("conditions");
                    }
                }
            }
        }
        UpdateScope::Status => {
            let keys: Vec<String> = [&*new, old]
                .iter()
                .filter_map(|v| v.as_object())
                .flat_map(|m| m.keys().cloned())
                .filter(|k| k != "status" && k != "metadata")
                .collect();
            keys.iter().for_each(|key| keep(new, key));
            if resource.custom().is_some() {
                let owners = object::metadata(new).get("managedFields").cloned();
                keep(new, "metadata");
                if let Some(owners) = owners {
                    object::metadata_mut(new).insert("managedFields".into(), owners);
                }
            } else if let Some(builtin) = resource.builtin() {
                (builtin.strategy.prepare_status_update)(old, new);
            }
        }
        UpdateScope::Finalize => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            for key in ["spec", "status"] {
                keep(new, key);
            }
            if let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) {
                match finalizers {
                    Some(Value::Array(list)) if !list.is_empty() => {
                        spec.insert("finalizers".into(), Value::Array(list))
                    }
                    _ => spec.remove("finalizers"),
                };
            }
        }
    }
}

/// A change that changes nothing is not written. The times of managedFields don't count.
fn unchanged(old: &Value, new: &Value) -> bool {
    fn fields(value: &Value) -> Vec<[&Value; 5]> {
        const KEYS: [&str; 5] = ["manager", "operation", "apiVersion", "subresource", "fieldsV1"];
        let list = object::metadata(value).get("managedFields").and_then(Value::as_array);
        list.into_iter().flatten().map(|entry: &Value| KEYS.map(|key| &entry[key])).collect()
    }
    if old == new {
        return true;
    }
    let (Some(old_map), Some(new_map)) = (old.as_object(), new.as_object()) else { return false };
    let rest = |m: &serde_json::Map<String, Value>| m.len();
    if rest(old_map) != rest(new_map) || old_map.iter().any(|(k, v)| k != "metadata" && new_map.get(k) != Some(v)) {
        return false;
    }
    let (old_meta, new_meta) = (object::metadata(old), object::metadata(new));
    let counts = |m: &serde_json::Map<String, Value>| m.keys().filter(|k| *k != "managedFields").count();
    counts(old_meta) == counts(new_meta)
        && old_meta.iter().all(|(k, v)| k == "managedFields" || new_meta.get(k) == Some(v))
        && fields(old) == fields(new)
}

/// True when this write removes the last finalizer of a terminating object.
pub(crate) fn removable(resource: &Resource, old: &Value, new: &Value) -> bool {
    if !object::terminating(old) || !object::finalizers(new).is_empty() {
        return false;
    }
    if resource.has_spec_finalizers() {
        return new.pointer("/spec/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty);
    }
    object::metadata(new).get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) == 0
}
