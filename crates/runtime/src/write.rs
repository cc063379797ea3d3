//! Writes: conditional, under our own field manager, and taken into the cache at once.

use std::{
    hash::{DefaultHasher, Hasher as _},
    sync::Arc,
};

use ironclad_kinds::{Encode, Object};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use serde_json::{Value, json};

use crate::{Api, Deleted, Failure, HotLoop, HotLoops, Informer, Key};

/// Field managers of controllers begin with this.
const MANAGER_PREFIX: &str = "ironclad-";

/// Writer of one controller, with field manager `ironclad-<controller>`.
#[derive(Debug, Clone)]
pub struct Writer {
    manager: Arc<str>,
    hot_loops: Option<HotLoops>,
}

impl Writer {
    /// A writer for this controller.
    #[must_use]
    pub fn new(controller: &str) -> Self {
        Self { manager: format!("{MANAGER_PREFIX}{controller}").into(), hot_loops: None }
    }

    /// The same writer with a guard over its creates, patches and deletes: one that is sent again and again with the
    /// same content has to wait.
    #[must_use]
    pub fn guarded(self, hot_loops: &HotLoops) -> Self {
        Self { hot_loops: Some(hot_loops.clone()), ..self }
    }

    /// Checks that the write is not sent again and again. `source` is what the write comes from.
    /// Returns the key under which the write was counted.
    fn guard<K: Encode>(&self, api: &Api<K>, object: &K, source: &[u8]) -> Result<Option<String>, Failure> {
        let Some(hot_loops) = &self.hot_loops else { return Ok(None) };
        let meta = object.meta();
        // Rare: the kind is only known to the serialized object.
        self.attempt(hot_loops, api.resource_url(), meta, source, &|| object.encode().ok())
    }

    fn attempt(
        &self,
        hot_loops: &HotLoops,
        url: &str,
        meta: &ObjectMeta,
        source: &[u8],
        encoded: &dyn Fn() -> Option<Vec<u8>>,
    ) -> Result<Option<String>, Failure> {
        let controller = self.controller();
        let (namespace, name) = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let about = || {
            let json: Value = serde_json::from_slice(&encoded()?).ok()?;
            let text = |field: &str| json[field].as_str().unwrap_or_default().to_owned();
            Some(HotLoop {
                controller: controller.to_owned(),
                api_version: text("apiVersion"),
                kind: text("kind"),
                namespace,
                name: name.clone(),
                uid: meta.uid.clone().unwrap_or_default(),
            })
        };
        let key = format!("{url}/{name}");
        let attempt = hot_loops.attempt(controller, key.clone(), hash(source), about);
        attempt.map(|()| Some(key)).map_err(|after| Failure::HotLoop { after })
    }

    fn controller(&self) -> &str {
        self.manager.strip_prefix(MANAGER_PREFIX).unwrap_or(&self.manager)
    }

    /// Takes back a counted write that failed.
    fn retract<T>(&self, counted: Option<String>, outcome: &kube::Result<T>) {
        if let (Some(hot_loops), Some(key), Err(_)) = (&self.hot_loops, counted, outcome) {
            hot_loops.retract(self.controller(), &key);
        }
    }

    fn post(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.to_string()), ..PostParams::default() }
    }

    fn patch_params(&self) -> PatchParams {
        PatchParams { field_manager: Some(self.manager.to_string()), ..PatchParams::default() }
    }

    /// Creates the object.
    ///
    /// # Errors
    /// The failure of the request.
    pub async fn create<K: Encode>(&self, api: &Api<K>, cache: Option<&Informer<K>>, object: &K) -> Result<K, Failure> {
        let json = object.encode().map_err(kube::Error::SerdeError)?;
        let counted = self.guard(api, object, &json)?;
        let creating = cache.map(Informer::creating);
        let created = api.create_json(&self.post(), json).await;
        self.retract(counted, &created);
        let created = created?;
        if let Some(creating) = creating {
            creating.answered(created.clone().erase());
        }
        Ok(created)
    }

    /// Replaces the object; it must carry the resourceVersion that it is based on.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; the failure of the request.
    pub async fn replace<K: Encode>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        object: &K,
    ) -> Result<K, Failure> {
        let name = object.meta().name.clone().unwrap_or_default();
        let base = object.meta().resource_version.clone();
        let replaced = api.replace(&name, &self.post(), object).await?;
        if let (Some(cache), Some(base)) = (cache, base) {
            cache.written(Some(&base), replaced.clone());
        }
        Ok(replaced)
    }

    /// Replaces a subresource that is answered with the object; it must carry the resourceVersion that it is based on.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; the failure of the request.
    pub async fn replace_subresource<K: Encode>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        subresource: &str,
        object: &K,
    ) -> Result<K, Failure> {
        let name = object.meta().name.clone().unwrap_or_default();
        let base = object.meta().resource_version.clone();
        let replaced = api.replace_subresource(subresource, &name, &self.post(), object).await?;
        if let (Some(cache), Some(base)) = (cache, base) {
            cache.written(Some(&base), replaced.clone());
        }
        Ok(replaced)
    }

    /// Merge-patches the main resource, provided that it is still the version seen.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; the failure of the request.
    pub async fn patch<K: Encode>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        seen: &K,
        patch: Value,
    ) -> Result<K, Failure> {
        let counted = self.guard(api, seen, patch.to_string().as_bytes())?;
        let (name, base) = (seen.name_any(), seen.resource_version().unwrap_or_default());
        let patch = conditional(patch, &base);
        let patched = api.patch(&name, &self.patch_params(), &Patch::Merge(&patch)).await;
        self.retract(counted, &patched);
        let patched = patched?;
        if let Some(cache) = cache {
            cache.written(Some(&base), patched.clone());
        }
        Ok(patched)
    }

    /// Merge-patches the status, provided that the object is still the version seen.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; the failure of the request.
    pub async fn patch_status<K: Object>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        name: &str,
        base: &str,
        status: Value,
    ) -> Result<K, Failure> {
        let patch = conditional(json!({ "status": status }), base);
        let patched = api.patch_status(name, &self.patch_params(), &Patch::Merge(&patch)).await?;
        if let Some(cache) = cache {
            cache.written(Some(base), patched.clone());
        }
        Ok(patched)
    }

    /// Sets the replicas of an object through its scale subresource, whatever its version is.
    ///
    /// # Errors
    /// `NotFound` if there is no such object, or it has no such subresource; the failure of the request.
    pub async fn scale<K: Object>(&self, api: &Api<K>, name: &str, replicas: i32) -> Result<(), Failure> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        api.patch_scale(name, &self.patch_params(), &patch).await?;
        Ok(())
    }

    /// Deletes the object, provided that it is still the one with this uid. An object that does not exist is no error.
    ///
    /// # Errors
    /// `Conflict` if another object has that name; the failure of the request.
    pub async fn delete<K: Encode>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        seen: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), Failure> {
        self.delete_if(api, cache, seen, propagation, None).await
    }

    /// Deletes the object, provided that it is still the version seen. An object that does not exist is no error.
    ///
    /// # Errors
    /// `Conflict` if it changed or another object has that name; the failure of the request.
    pub async fn delete_unchanged<K: Encode>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        seen: &K,
    ) -> Result<(), Failure> {
        self.delete_if(api, cache, seen, PropagationPolicy::Background, seen.resource_version()).await
    }

    async fn delete_if<K: Encode>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        seen: &K,
        propagation: PropagationPolicy,
        version: Option<String>,
    ) -> Result<(), Failure> {
        let uid = seen.uid().unwrap_or_default();
        let counted = self.guard(api, seen, format!("delete {uid}").as_bytes())?;
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: version }),
            ..DeleteParams::default()
        };
        let deleted = api.delete(&seen.name_any(), &params).await;
        self.retract(counted, &deleted);
        match deleted.map_err(Failure::from) {
            Ok(answer) => {
                // The watch shows an object that waits for finalizers; a removed object is removed from the cache now.
                if let (Some(cache), true) = (cache, answer == Deleted::Gone) {
                    cache.removed(&Key::of(seen), &uid);
                }
                Ok(())
            }
            Err(Failure::NotFound(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }
}

fn hash(source: &[u8]) -> u64 {
    // Without keys of its own, it is the same in every process.
    let mut hasher = DefaultHasher::new();
    hasher.write(source);
    hasher.finish()
}

fn conditional(mut patch: Value, base: &str) -> Value {
    if !base.is_empty() {
        patch["metadata"]["resourceVersion"] = Value::from(base);
    }
    patch
}
