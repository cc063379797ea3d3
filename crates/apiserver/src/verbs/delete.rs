//! delete and deletecollection: marking, grace, finalizers by propagation policy, removal
//! (specification/apiserver.md 7).

use futures::{StreamExt, stream::FuturesOrdered};
use ironclad_store::{Compare, Entry, Key, Op, Query, TxnResult};
use serde_json::{Value, json};

use crate::{
    admission::{self, Operation},
    context::Cx,
    conversion, convert, kinds, meta, object,
    registry::Resource,
    respond::{self, Pauses, Reply},
    select::Selector,
    status::{self, ApiError},
};

use super::{
    follow_up::{after_write, carry_out},
    options::{DeleteOptions, Propagation},
};

/// Attempts of a deletion against concurrent writers.
const TRIES: usize = 64;
/// Deletions of a collection that run at once: the store makes them durable together.
const AT_ONCE: usize = 16;

/// The outcome of a deletion.
enum Outcome {
    /// It is removed; the last state.
    Removed(Value),
    /// It is removed, and the answer is the object: a pod without a grace period.
    RemovedShown(Value),
    /// It is marked and waits for finalizers or grace.
    Marked(Value),
}

/// DELETE of one object.
pub(crate) async fn delete(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let options = DeleteOptions::parse(&cx.query, bytes)?;
    let resource = &*cx.resource;
    match delete_object(cx, cx.namespace().unwrap_or_default(), cx.name(), &options).await? {
        Outcome::Removed(old) => {
            let done = status::success(&resource.plural, &resource.group, cx.name(), object::meta_str(&old, "uid"));
            Ok(respond::formatted(cx, 200, &done))
        }
        Outcome::RemovedShown(value) | Outcome::Marked(value) => respond::object(cx, 200, value),
    }
}

/// DELETE of a collection: a few at once; answers the list of what was there, in its order.
pub(crate) async fn delete_collection(cx: &Cx, bytes: &[u8]) -> Result<Reply, ApiError> {
    let options = DeleteOptions::parse(&cx.query, bytes)?;
    let resource = &*cx.resource;
    if resource.namespaced && cx.namespace().is_none() {
        return Err(ApiError::method_not_allowed());
    }
    let selector = Selector::of(resource, &cx.query)?;
    let prefix = resource.prefix_of(cx.namespace());
    let range = cx.state.store.range(&Query::prefix(&prefix)).map_err(ApiError::internal)?;
    let mut selected: Vec<(Key, Entry)> = Vec::new();
    let mut pauses = Pauses::default();
    for (key, entry) in range.entries {
        let entry = conversion::one_in_version(cx, &entry).await?;
        if !selector.is_everything() {
            pauses.after(entry.value.len()).await;
            // An object that can't be decoded has no fields to select it by.
            if !convert::read(resource, &entry).is_ok_and(|object| selector.matches(&object)) {
                continue;
            }
        }
        selected.push((key, entry));
    }
    let mut rest = selected.into_iter();
    let mut running = FuturesOrdered::new();
    let mut deleted: Vec<Entry> = Vec::new();
    let mut failure = None;
    loop {
        // After a failure nothing more is begun, but what was begun ends with all that follows from it.
        while failure.is_none()
            && running.len() < AT_ONCE
            && let Some((key, entry)) = rest.next()
        {
            running.push_back(delete_one(cx, &options, key, entry));
        }
        match running.next().await {
            None => break,
            Some(Ok(entry)) => deleted.extend(entry),
            Some(Err(error)) => failure = failure.or(Some(error)),
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    let meta = respond::ListMeta { revision: range.revision, next: None, remaining: None };
    respond::list(cx, &deleted, &meta).await
}

/// Deletes an object of a collection; returns what was there.
async fn delete_one(cx: &Cx, options: &DeleteOptions, key: Key, entry: Entry) -> Result<Option<Entry>, ApiError> {
    let (namespace, name) = cx.resource.address_of(key.as_str());
    match delete_object(cx, namespace, name, options).await {
        Ok(_) => Ok(Some(entry)),
        Err(error) if error.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes every object of a resource for the server itself: a CRD's instances. One that can't be deleted does not
/// keep the others; the first failure is returned.
pub(super) async fn delete_all(cx: &Cx) -> Result<(), ApiError> {
    let range = cx.state.store.range(&Query::prefix(&cx.resource.prefix)).map_err(ApiError::internal)?;
    let options = DeleteOptions::default();
    let mut rest = range.entries.into_iter();
    let mut running = FuturesOrdered::new();
    let mut failure = Ok(());
    loop {
        while running.len() < AT_ONCE
            && let Some((key, entry)) = rest.next()
        {
            running.push_back(delete_one(cx, &options, key, entry));
        }
        match running.next().await {
            None => return failure,
            Some(done) => failure = failure.and(done.map(drop)),
        }
    }
}

async fn delete_object(cx: &Cx, namespace: &str, name: &str, options: &DeleteOptions) -> Result<Outcome, ApiError> {
    let resource = &*cx.resource;
    let key = resource.key(namespace, name);
    for _ in 0..TRIES {
        let Some(entry) = cx.state.store.get(&key) else {
            return Err(ApiError::not_found(&resource.plural, &resource.group, name));
        };
        if let Some(outcome) = attempt(cx, &key, name, &entry, options).await? {
            return Ok(outcome);
        }
    }
    Err(ApiError::modified(&resource.plural, &resource.group, name))
}

async fn attempt(
    cx: &Cx,
    key: &str,
    name: &str,
    entry: &Entry,
    options: &DeleteOptions,
) -> Result<Option<Outcome>, ApiError> {
    let resource = &*cx.resource;
    let old = match convert::read(resource, &conversion::one_in_version(cx, entry).await?) {
        Ok(old) => old,
        Err(error) => return remove_unreadable(cx, key, entry, options, &error).await,
    };
    preconditions(cx, name, &old, options)?;
    (kinds::hooks(resource).before_delete)(&old)?;
    let sides = admission::validate(cx, Operation::Delete, Some(&old), None, options.dry_run).await?;
    let mut new = old.clone();
    set_finalizers(&mut new, options.propagation);
    let grace_seconds = resource.builtin().and_then(|builtin| builtin.strategy.grace_seconds);
    let is_graceful = grace_seconds.is_some();
    let grace = grace_seconds.map_or(0, |seconds| seconds(&old, options.grace_seconds));
    let waits = grace > 0 || !object::finalizers(&new).is_empty() || holds(resource, &new);
    if waits {
        mark(cx, &old, &mut new, grace);
        if new == old || options.dry_run {
            return Ok(Some(Outcome::Marked(new)));
        }
        let put = cx.state.put(resource, key.to_owned(), &*conversion::to_stored(cx, &new).await?)?;
        let (mut compares, mut ops) = (vec![Compare::modified(key, entry.modified)], vec![put]);
        sides.join(&mut compares, &mut ops);
        return match cx.state.txn(compares, ops).await? {
            TxnResult::Failed { .. } => Ok(None),
            TxnResult::Done { revision } => {
                cx.state.set_revision(&mut new, revision);
                carry_out(&cx.state, after_write(cx, Some(&old), Some(&new))?).await?;
                Ok(Some(Outcome::Marked(new)))
            }
        };
    }
    if !options.dry_run {
        let mut compares = vec![Compare::modified(key, entry.modified)];
        let (_, mut ops) = (kinds::hooks(resource).reservations)(Some(&old), None);
        ops.push(Op::delete(key));
        sides.join(&mut compares, &mut ops);
        match cx.state.txn(compares, ops).await? {
            TxnResult::Failed { .. } => return Ok(None),
            TxnResult::Done { revision } if is_graceful => {
                // Clients see a pod go as marked first and then removed, also where both are one write.
                mark(cx, &old, &mut new, 0);
                cx.state.set_revision(&mut new, revision);
            }
            TxnResult::Done { .. } => {}
        }
        carry_out(&cx.state, after_write(cx, Some(&old), None)?).await?;
    }
    Ok(Some(if is_graceful { Outcome::RemovedShown(new) } else { Outcome::Removed(old) }))
}

/// Removes an object that can't be decoded: its finalizers are unknown, and nothing else can be done with it.
async fn remove_unreadable(
    cx: &Cx,
    key: &str,
    entry: &Entry,
    options: &DeleteOptions,
    error: &ApiError,
) -> Result<Option<Outcome>, ApiError> {
    let resource = &*cx.resource;
    let (namespace, name) = resource.address_of(key);
    let mut metadata = json!({"name": name, "resourceVersion": entry.modified.to_string()});
    if resource.namespaced {
        metadata["namespace"] = json!(namespace);
    }
    let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata});
    preconditions(cx, name, &object, options)?;
    admission::validate(cx, Operation::Delete, Some(&object), None, options.dry_run).await?;
    if !options.dry_run {
        let compares = vec![Compare::modified(key, entry.modified)];
        if let TxnResult::Failed { .. } = cx.state.txn(compares, vec![Op::delete(key)]).await? {
            return Ok(None);
        }
        tracing::warn!(key, error = error.message, "stored object that can't be decoded was deleted");
        carry_out(&cx.state, after_write(cx, Some(&object), None)?).await?;
    }
    Ok(Some(Outcome::Removed(object)))
}

fn preconditions(cx: &Cx, name: &str, old: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let resource = &*cx.resource;
    // Here a kube-apiserver names the kind where it elsewhere names the resource.
    let conflict = |why: String| {
        let mut error = ApiError::conflict(&resource.plural, &resource.group, name, &why);
        if let Some(details) = &mut error.details {
            details.kind.clone_from(&resource.kind);
        }
        error.message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.kind);
        error
    };
    let (uid, revision) = (object::meta_str(old, "uid"), object::meta_str(old, "resourceVersion"));
    if let Some(wanted) = options.uid.as_deref().filter(|w| *w != uid) {
        return Err(conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )));
    }
    if let Some(wanted) = options.revision.as_deref().filter(|w| *w != revision) {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({revision}). The object might have been modified"
        )));
    }
    Ok(())
}

/// The finalizers that a propagation policy takes away and adds.
fn set_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let has = |name| object::finalizers(object).contains(&name);
    // Without a policy, finalizers that ask for one stay in force.
    let (orphan, foreground) = match propagation {
        None => (has("orphan"), has("foregroundDeletion")),
        Some(Propagation::Background) => (false, false),
        Some(Propagation::Orphan) => (true, false),
        Some(Propagation::Foreground) => (false, true),
    };
    let mut list: Vec<String> = object::finalizers(object).into_iter().map(str::to_owned).collect();
    let before = list.clone();
    for (name, wanted) in [("orphan", orphan), ("foregroundDeletion", foreground)] {
        match (list.iter().position(|f| f == name), wanted) {
            (Some(at), false) => {
                list.remove(at);
            }
            (None, true) => list.push(name.to_owned()),
            _ => {}
        }
    }
    if list == before {
        return;
    }
    let metadata = object::metadata_mut(object);
    if list.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), json!(list));
    }
}

/// True when finalizers in the spec keep the object.
fn holds(resource: &Resource, object: &Value) -> bool {
    resource.has_spec_finalizers()
        && object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|f| !f.is_empty())
}

fn mark(cx: &Cx, old: &Value, new: &mut Value, grace: i64) {
    let before = object::metadata(old).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
    if object::terminating(old) && before.is_none_or(|b| b <= grace) {
        return;
    }
    let at = jiff::Timestamp::from_second(cx.state.seam.clock.wall().as_second().saturating_add(grace))
        .unwrap_or(jiff::Timestamp::MAX);
    let first = !object::terminating(old);
    let metadata = object::metadata_mut(new);
    metadata.insert("deletionTimestamp".into(), json!(at.to_string()));
    if !cx.resource.has_spec_finalizers() {
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    }
    if first {
        meta::bump_generation(new);
        (kinds::hooks(&cx.resource).on_deletion_timestamp)(&cx.state.now(), new);
    }
}
