//! The life cycle of CRDs: they rebuild the registry, and a deleted one remains until its last instance is removed.

use std::sync::Arc;

use ironclad_store::{Compare, Op, Query, TxnResult};
use serde_json::Value;

use super::Definition;
use crate::{api_services, crd, meta, object, registry::Resource, state::State, status::ApiError};

const CRD_PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// All CRDs by name. Only those written since the last call are parsed.
pub(crate) fn crds(state: &State) -> Result<Vec<Arc<Definition>>, ApiError> {
    let mut cache = state.definitions.lock();
    let range = state.store.range(&Query::prefix(CRD_PREFIX)).map_err(ApiError::internal)?;
    let mut all = Vec::with_capacity(range.entries.len());
    for (key, entry) in &range.entries {
        let same = cache.get(key).filter(|known| known.modified == entry.modified);
        let known = match same {
            Some(known) => known.clone(),
            None => {
                let crd = match object::decode(&entry.value, entry.modified) {
                    Ok(crd) => crd,
                    // The others are served all the same, and it can be deleted.
                    Err(error) => {
                        tracing::error!(key = key.as_str(), %error, "stored CustomResourceDefinition can't be decoded");
                        continue;
                    }
                };
                Arc::new(Definition::new(crd, entry.modified, state.options.converter, &state.registry))
            }
        };
        all.push((key.clone(), known));
    }
    let crds = all.iter().map(|(_, known)| known.clone()).collect();
    *cache = all.into_iter().collect();
    Ok(crds)
}

/// Rebuilds the registry from the CRDs; watches of changed resources end.
pub(crate) fn refresh_registry(state: &State) -> Result<(), ApiError> {
    // One at a time, and each from the newest CRDs: a late one must not undo a later one.
    let _guard = state.refreshing.lock();
    state.registry.set_custom(crd::groups(&crds(state)?));
    state.registry_changed.notify_waiters();
    Ok(())
}

/// The resource that a CRD serves, if it serves any.
pub(crate) fn resource_of(state: &State, crd: &str) -> Option<Arc<Resource>> {
    let custom = state.registry.custom();
    let versions = custom.groups.iter().flat_map(|g| &g.versions);
    let mut resources = versions.flat_map(|(_, resources)| resources.values());
    resources.find(|r| r.custom().is_some_and(|c| c.crd == crd)).cloned()
}

/// Removes the finalizer of a CRD without instances, which deletes it.
pub(crate) async fn release(state: &State, name: &str) -> Result<(), ApiError> {
    let key = format!("{CRD_PREFIX}{name}");
    loop {
        let Some(entry) = state.store.get(&key) else { return Ok(()) };
        let mut value = object::decode(&entry.value, entry.modified).map_err(ApiError::internal)?;
        let group = value.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default().to_owned();
        let plural = value.pointer("/spec/names/plural").and_then(Value::as_str).unwrap_or_default();
        let prefix = format!("/registry/{group}/{plural}/");
        let one = Query { limit: Some(1), ..Query::prefix(&prefix) };
        let served = crd::condition(&value, "Established");
        if !object::terminating(&value)
            || (served && !state.store.range(&one).map_err(ApiError::internal)?.entries.is_empty())
        {
            return Ok(());
        }
        let metadata = object::metadata_mut(&mut value);
        if let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) {
            list.retain(|f| f != crd::CLEANUP_FINALIZER);
        }
        let op = if object::finalizers(&value).is_empty() {
            Op::delete(key.as_str())
        } else {
            meta::bump_generation(&mut value);
            Op::put(key.as_str(), object::encode(&value))
        };
        let removed = object::finalizers(&value).is_empty();
        if let TxnResult::Done { .. } =
            state.txn(vec![Compare::modified(key.as_str(), entry.modified)], vec![op]).await?
        {
            if removed {
                set_conditions_of_group(state, &group).await?;
            }
            refresh_registry(state)?;
            return api_services::sync(state).await.map_err(ApiError::internal);
        }
    }
}

/// Shows in the condition Terminating why instances of a CRD remain. A concurrent write has precedence.
pub(crate) async fn note_failed_clean_up(state: &State, name: &str, error: &ApiError) {
    let key = format!("{CRD_PREFIX}{name}");
    let Some(entry) = state.store.get(&key) else { return };
    let Ok(mut value) = object::decode(&entry.value, entry.modified) else { return };
    let message = format!("could not issue all deletes: {}", error.message);
    let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
    let is_recorded = conditions.is_some_and(|list| list.iter().any(|c| c["message"] == message.as_str()));
    if is_recorded || !object::terminating(&value) {
        return;
    }
    crd::set_terminating(&mut value, "InstanceDeletionFailed", &message, &state.now());
    let compare = Compare::modified(key.as_str(), entry.modified);
    let put = Op::put(key.as_str(), object::encode(&value));
    if let Err(error) = state.txn(vec![compare], vec![put]).await {
        tracing::warn!(crd = name, %error, "writing the condition Terminating");
    }
}

/// Sets the conditions of CRDs in conflict again, since names of their group became free. A concurrent write of one of
/// them sets them as well.
async fn set_conditions_of_group(state: &State, group: &str) -> Result<(), ApiError> {
    let all = crds(state)?;
    let in_conflict = |one: &&Value| {
        !crd::condition(one, "NamesAccepted")
            && !object::terminating(one)
            && one.pointer("/spec/group").and_then(Value::as_str) == Some(group)
    };
    for one in all.iter().map(|one| &one.head).filter(in_conflict) {
        let key = format!("{CRD_PREFIX}{}", object::meta_str(one, "name"));
        let Some(entry) = state.store.get(&key) else { continue };
        let old = object::decode(&entry.value, entry.modified).map_err(ApiError::internal)?;
        let mut new = old.clone();
        crd::set_conditions(&mut new, &crds(state)?, &state.now());
        if new != old {
            let compare = Compare::modified(key.as_str(), entry.modified);
            state.txn(vec![compare], vec![Op::put(key.as_str(), object::encode(&new))]).await?;
        }
    }
    Ok(())
}

/// Rebuilds the registry from the store. Returns the CRDs whose deletion a crash interrupted.
pub(crate) fn resume(state: &State) -> Result<Vec<String>, ApiError> {
    refresh_registry(state)?;
    let terminating = crds(state)?.into_iter().filter(|c| object::terminating(&c.head));
    Ok(terminating.map(|c| object::meta_str(&c.head, "name").to_owned()).collect())
}
