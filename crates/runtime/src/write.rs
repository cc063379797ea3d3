//! Writes: conditional, under our own field manager, and taken into the cache at once.

use std::{fmt::Debug, sync::Arc};

use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Failure, Informer, Key};

/// Writer of one controller, with field manager `ironclad-<controller>`.
#[derive(Debug, Clone)]
pub struct Writer {
    manager: Arc<str>,
}

impl Writer {
    /// A writer for this controller.
    #[must_use]
    pub fn new(controller: &str) -> Self {
        Self { manager: format!("ironclad-{controller}").into() }
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
    pub async fn create<K>(&self, api: &Api<K>, cache: Option<&Informer<K>>, object: &K) -> Result<K, Failure>
    where
        K: Resource + Clone + Serialize + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let creating = cache.map(Informer::creating);
        let created = api.create(&self.post(), object).await?;
        if let Some(creating) = creating {
            creating.answered(created.clone());
        }
        Ok(created)
    }

    /// Replaces the object; it must carry the resourceVersion that it is based on.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; the failure of the request.
    pub async fn replace<K>(&self, api: &Api<K>, cache: Option<&Informer<K>>, object: &K) -> Result<K, Failure>
    where
        K: Resource + Clone + Serialize + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let name = object.meta().name.clone().unwrap_or_default();
        let base = object.meta().resource_version.clone();
        let replaced = api.replace(&name, &self.post(), object).await?;
        if let (Some(cache), Some(base)) = (cache, base) {
            cache.written(Some(&base), replaced.clone());
        }
        Ok(replaced)
    }

    /// Merge-patches the main resource, provided that it is still the version seen.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; the failure of the request.
    pub async fn patch<K>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        seen: &K,
        patch: Value,
    ) -> Result<K, Failure>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (name, base) = (seen.name_any(), seen.resource_version().unwrap_or_default());
        let patch = conditional(patch, &base);
        let patched = api.patch(&name, &self.patch_params(), &Patch::Merge(&patch)).await?;
        if let Some(cache) = cache {
            cache.written(Some(&base), patched.clone());
        }
        Ok(patched)
    }

    /// Merge-patches the status, provided that the object is still the version seen.
    ///
    /// # Errors
    /// `Conflict` if it changed meanwhile; the failure of the request.
    pub async fn patch_status<K>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        name: &str,
        base: &str,
        status: Value,
    ) -> Result<K, Failure>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let patch = conditional(json!({ "status": status }), base);
        let patched = api.patch_status(name, &self.patch_params(), &Patch::Merge(&patch)).await?;
        if let Some(cache) = cache {
            cache.written(Some(base), patched.clone());
        }
        Ok(patched)
    }

    /// Deletes the object, provided that it is still the one with this uid. An object that does not exist is no error.
    ///
    /// # Errors
    /// `Conflict` if another object has that name; the failure of the request.
    pub async fn delete<K>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        seen: &K,
        propagation: PropagationPolicy,
    ) -> Result<(), Failure>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.delete_if(api, cache, seen, propagation, None).await
    }

    /// Deletes the object, provided that it is still the version seen. An object that does not exist is no error.
    ///
    /// # Errors
    /// `Conflict` if it changed or another object has that name; the failure of the request.
    pub async fn delete_unchanged<K>(&self, api: &Api<K>, cache: Option<&Informer<K>>, seen: &K) -> Result<(), Failure>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.delete_if(api, cache, seen, PropagationPolicy::Background, seen.resource_version()).await
    }

    async fn delete_if<K>(
        &self,
        api: &Api<K>,
        cache: Option<&Informer<K>>,
        seen: &K,
        propagation: PropagationPolicy,
        version: Option<String>,
    ) -> Result<(), Failure>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let uid = seen.uid().unwrap_or_default();
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: version }),
            ..DeleteParams::default()
        };
        match api.delete(&seen.name_any(), &params).await.map_err(Failure::from) {
            Ok(answer) => {
                // The watch shows an object that waits for finalizers; a removed object is removed from the cache now.
                if let (Some(cache), true) = (cache, answer.is_right()) {
                    cache.removed(&Key::of(seen), &uid);
                }
                Ok(())
            }
            Err(Failure::NotFound(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }
}

fn conditional(mut patch: Value, base: &str) -> Value {
    if !base.is_empty() {
        patch["metadata"]["resourceVersion"] = Value::from(base);
    }
    patch
}
