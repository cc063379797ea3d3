//! What the server itself does around writes of a few kinds: CRDs change the registry, system namespaces stay,
//! namespaces get a phase.

use std::sync::Arc;

use ironclad_store::{Compare, Op, Query, TxnResult};
use serde_json::{Value, json};

use crate::{
    Server, api_services,
    auth::rbac,
    context::Cx,
    crd::{self, Definition},
    meta, object,
    status::ApiError,
    verbs::delete,
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
        api_services::judge(None, value, &cx.server.now());
    }
    if is_crd(cx) {
        crd::settle(value, &cx.server.crds()?, &cx.server.now());
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
        api_services::judge(Some(old), new, &cx.server.now());
    }
    if is_crd(cx) && (old.get("spec") != new.get("spec") || new.pointer("/status/conditions").is_none()) {
        crd::settle(new, &cx.server.crds()?, &cx.server.now());
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
        let now = cx.server.now();
        crd::set_terminating(
            object,
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            &now,
        );
    }
}

/// After a write is durable. `old` is absent after a create, `new` after a removal.
pub(crate) async fn after_write(cx: &Cx, old: Option<&Value>, new: Option<&Value>) -> Result<(), ApiError> {
    if cx.resource.builtin().is_some() && cx.resource.group == rbac::GROUP {
        cx.server.rbac.changed();
    }
    if cx.resource.builtin().is_some() && cx.resource.group == "admissionregistration.k8s.io" {
        cx.server.webhooks.changed();
        cx.server.policies.changed();
    }
    if is_crd(cx) {
        cx.server.refresh_registry()?;
        if new.is_some_and(object::terminating) && !old.is_some_and(object::terminating) {
            cx.server.clean_up_crd(object::meta_str(new.unwrap_or(&Value::Null), "name"));
        }
    }
    // One of the server's own that somebody deletes comes back.
    if is_crd(cx) || is_api_service(cx) && new.is_none() {
        cx.server.settle_api_services().await.map_err(ApiError::internal)?;
    }
    if let (Some(custom), None) = (cx.resource.custom(), new)
        && custom.terminating
    {
        cx.server.release_crd(&custom.crd).await?;
    }
    Ok(())
}

impl Server {
    /// All CRDs, by name. Only those are read and parsed that were written since the last time.
    pub(crate) fn crds(&self) -> Result<Vec<Arc<Definition>>, ApiError> {
        let mut kept = self.definitions.lock();
        let range = self.store.range(&Query::prefix(CRD_PREFIX)).map_err(ApiError::internal)?;
        let mut all = Vec::with_capacity(range.entries.len());
        for (key, entry) in &range.entries {
            let same = kept.get(key).filter(|known| known.modified == entry.modified);
            let known = match same {
                Some(known) => known.clone(),
                None => {
                    let crd = object::decode(&entry.value, entry.modified).map_err(ApiError::internal)?;
                    Arc::new(Definition::new(crd, entry.modified, self.options.converter))
                }
            };
            all.push(known);
        }
        *kept = range.entries.into_iter().map(|(key, _)| key).zip(all.iter().cloned()).collect();
        Ok(all)
    }

    /// Makes the registry what the CRDs say; ends the watches of what changed.
    pub(crate) fn refresh_registry(&self) -> Result<(), ApiError> {
        // One at a time, and each from the newest CRDs: a late one must not undo a later one.
        let _guard = self.refreshing.lock();
        self.registry.set_custom(crd::groups(&self.crds()?));
        self.registry_changed.notify_waiters();
        Ok(())
    }

    /// Deletes the instances of a CRD that is being deleted, as a task of the server; the last one lets it go.
    pub(crate) fn clean_up_crd(&self, name: &str) {
        let Some(server) = self.me.upgrade() else { return };
        let name = name.to_owned();
        self.seam.tasks.spawn("crd-cleanup", async move {
            if let Err(error) = server.clean_up(&name).await {
                tracing::warn!(crd = %name, %error, "instances of a deleted CustomResourceDefinition remain");
            }
        });
    }

    async fn clean_up(&self, name: &str) -> Result<(), ApiError> {
        let custom = self.registry.custom();
        let resource = custom
            .groups
            .iter()
            .flat_map(|g| &g.versions)
            .flat_map(|(_, resources)| resources.values())
            .find(|r| r.custom().is_some_and(|c| c.crd == name))
            .cloned();
        if let Some(resource) = resource
            && let Some(cx) = self.own_request(resource)
        {
            delete::delete_all(&cx).await?;
        }
        self.release_crd(name).await
    }

    /// Takes the finalizer off a CRD that has no instances left, which removes it.
    pub(crate) async fn release_crd(&self, name: &str) -> Result<(), ApiError> {
        let key = format!("{CRD_PREFIX}{name}");
        loop {
            let Some(entry) = self.store.get(&key) else { return Ok(()) };
            let mut value = object::decode(&entry.value, entry.modified).map_err(ApiError::internal)?;
            let group = value.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default().to_owned();
            let plural = value.pointer("/spec/names/plural").and_then(Value::as_str).unwrap_or_default();
            let prefix = format!("/registry/{group}/{plural}/");
            let one = Query { limit: Some(1), ..Query::prefix(&prefix) };
            let served = crd::condition(&value, "Established");
            if !object::terminating(&value)
                || (served && !self.store.range(&one).map_err(ApiError::internal)?.entries.is_empty())
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
            let gone = object::finalizers(&value).is_empty();
            if let TxnResult::Done { .. } =
                self.txn(vec![Compare::modified(key.as_str(), entry.modified)], vec![op]).await?
            {
                if gone {
                    self.resettle(&group).await?;
                }
                self.refresh_registry()?;
                return self.settle_api_services().await.map_err(ApiError::internal);
            }
        }
    }

    /// Looks again at the CRDs of a group that wanted names of others: some are free now. Whoever writes one of them
    /// meanwhile looks, too.
    async fn resettle(&self, group: &str) -> Result<(), ApiError> {
        let all = self.crds()?;
        let waits = |one: &&Value| {
            !crd::condition(one, "NamesAccepted")
                && !object::terminating(one)
                && one.pointer("/spec/group").and_then(Value::as_str) == Some(group)
        };
        for one in all.iter().map(|one| &one.head).filter(waits) {
            let key = format!("{CRD_PREFIX}{}", object::meta_str(one, "name"));
            let Some(entry) = self.store.get(&key) else { continue };
            let old = object::decode(&entry.value, entry.modified).map_err(ApiError::internal)?;
            let mut new = old.clone();
            crd::settle(&mut new, &self.crds()?, &self.now());
            if new != old {
                let compare = Compare::modified(key.as_str(), entry.modified);
                self.txn(vec![compare], vec![Op::put(key.as_str(), object::encode(&new))]).await?;
            }
        }
        Ok(())
    }

    /// Goes on with what a crash interrupted.
    pub(crate) fn resume_crds(&self) -> Result<(), ApiError> {
        self.refresh_registry()?;
        for crd in self.crds()?.iter().map(|c| &c.head).filter(|c| object::terminating(c)) {
            self.clean_up_crd(object::meta_str(crd, "name"));
        }
        Ok(())
    }
}

const CRD_PREFIX: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
