//! ResourceQuotas at work: a write that uses more than before is charged to the quotas of its namespace, in the same
//! transaction (specification/apiserver.md 21).
//!
//! Usage is lowered and limits are taken over by the controller alone, as in Kubernetes.

pub(crate) mod turns;

use std::sync::Arc;

use ironclad_quota::{Counted, Write, check, to_json};
use ironclad_store::{Compare, Entry, Op, Query, TxnResult};
use serde_json::Value;

use crate::{context::Cx, object, registry::Resource, schema, state::State, status::ApiError};

/// Attempts against other writers of a quota: its controller and its owner, as charges take turns.
const TRIES: usize = 64;
/// Field manager of charges, as a kube-apiserver names itself.
const MANAGER: &str = "kube-apiserver";

/// Checks a dry run against the quotas of its namespace. Nothing is charged.
///
/// # Errors
/// A quota refuses the write.
pub(crate) fn check_dry_run(cx: &Cx, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    let Some(namespace) = cx.namespace() else { return Ok(()) };
    let Some(kind) = counted(cx, old, new) else { return Ok(()) };
    charges(cx, &kind, namespace, old, new).map(drop)
}

/// Writes an object, and charges what it uses in addition to the quotas of its namespace. `TxnResult::Failed` has the
/// entries of `compares` only.
///
/// # Errors
/// A quota refuses the write, or the store.
pub(crate) async fn txn(
    cx: &Cx,
    old: Option<&Value>,
    new: &Value,
    compares: Vec<Compare>,
    ops: Vec<Op>,
) -> Result<TxnResult, ApiError> {
    let Some(namespace) = cx.namespace() else { return cx.state.txn(compares, ops).await };
    let Some(kind) = counted(cx, old, new) else { return cx.state.txn(compares, ops).await };
    let _turn = cx.state.quota_turns.take(namespace).await;
    for _ in 0..TRIES {
        let charges = charges(cx, &kind, namespace, old, new)?;
        let (all_compares, all_ops) =
            ([compares.clone(), charges.compares].concat(), [ops.clone(), charges.ops].concat());
        match cx.state.txn(all_compares, all_ops).await? {
            TxnResult::Failed { mut current, revision } => {
                current.truncate(compares.len());
                if current.iter().zip(&compares).any(|(entry, compare)| !holds(compare, entry.as_ref())) {
                    return Ok(TxnResult::Failed { current, revision });
                }
            }
            done @ TxnResult::Done { .. } => return Ok(done),
        }
    }
    Err(ApiError::new(
        409,
        "Conflict",
        format!("the ResourceQuotas of namespace {namespace:?} are being changed: try again"),
    ))
}

fn holds(compare: &Compare, entry: Option<&Entry>) -> bool {
    entry.map(|entry| entry.modified) == compare.modified
}

/// The kind of the object, if the write may use more and the namespace has quotas.
fn counted(cx: &Cx, old: Option<&Value>, new: &Value) -> Option<Counted> {
    let kind = Counted::of(&cx.resource.group, &cx.resource.plural).filter(|_| cx.resource.namespaced)?;
    let write = Write { kind: &kind, subresource: cx.subresource().unwrap_or_default(), old, new };
    let counts = write.is_counted() && !quotas(&cx.state, cx.namespace()?).1.is_empty();
    counts.then_some(kind)
}

/// The quotas of a namespace by name, and their resource.
fn quotas(state: &State, namespace: &str) -> (Option<Arc<Resource>>, Vec<(String, Entry)>) {
    let Some(resource) = state.registry.builtin("", "resourcequotas") else { return (None, vec![]) };
    let found = state.store.range(&Query::prefix(&resource.prefix_of(Some(namespace))));
    let entries = found.map(|range| range.entries).unwrap_or_default();
    let entries = entries.into_iter().map(|(key, entry)| (key.as_str().to_owned(), entry)).collect();
    (Some(resource), entries)
}

/// Part of a transaction that concerns the quotas of its namespace.
struct Charges {
    /// The quotas as they were read, also those that are not charged: their limits may come into force meanwhile.
    compares: Vec<Compare>,
    /// The writes of what is used.
    ops: Vec<Op>,
}

fn charges(cx: &Cx, kind: &Counted, namespace: &str, old: Option<&Value>, new: &Value) -> Result<Charges, ApiError> {
    let mut out = Charges { compares: vec![], ops: vec![] };
    let (Some(resource), entries) = quotas(&cx.state, namespace) else { return Ok(out) };
    let (mut keys, mut read) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
    for (key, entry) in entries {
        // A quota that can't be decoded limits nothing: it can still be deleted.
        let Ok(quota) = object::decode(&entry.value, entry.modified) else { continue };
        out.compares.push(Compare::modified(key.as_str(), entry.modified));
        keys.push(key);
        read.push(quota);
    }
    let write = Write { kind, subresource: cx.subresource().unwrap_or_default(), old, new };
    let charged = check(&read, &write, cx.state.seam.clock.wall()).map_err(|refusal| {
        let name = object::meta_str(new, "name");
        ApiError::forbidden(&cx.resource.plural, &cx.resource.group, name, &refusal.to_string())
    })?;
    for charge in charged {
        let (key, before) = (&keys[charge.quota], &read[charge.quota]);
        let mut quota = before.clone();
        quota["status"]["used"] = to_json(&charge.used);
        if cx.state.options.managed_fields || object::metadata(before).contains_key("managedFields") {
            let now = cx.state.now();
            schema::with_tracker(&resource, "status", |tracker| {
                tracker.update(Some(before), &mut quota, MANAGER, &now)
            });
        }
        out.ops.push(cx.state.put(&resource, key.clone(), &quota)?);
    }
    Ok(out)
}
