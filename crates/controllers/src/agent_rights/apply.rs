//! Writes the rights of an agent. The failure of one object does not stop the writes of the others.

use std::sync::Arc;

use ironclad_admission::agents::rights::{Due, Repair, repair};
use ironclad_api::labels;
use ironclad_patch::text_at;
use ironclad_runtime::{Api, Encode, Failure, Informer, Next, Writer};
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Client, ResourceExt as _, api::PropagationPolicy};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    caches::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, NAMESPACES, SYSTEM_ROLE_BINDINGS, SYSTEM_ROLES},
    setup::Setup,
};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    namespaces: Informer<Namespace>,
    cluster_roles: Informer<ClusterRole>,
    cluster_role_bindings: Informer<ClusterRoleBinding>,
    roles: Informer<Role>,
    role_bindings: Informer<RoleBinding>,
}

/// The write that an object needs.
#[derive(Clone, Copy)]
enum Wanted {
    /// It has to exist with this content.
    There,
    Gone,
}

impl Applier {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            writer: setup.writer("agentRights"),
            plane: setup.plane.clone(),
            namespaces: setup.caches.take(&NAMESPACES),
            cluster_roles: setup.caches.take(&CLUSTER_ROLES),
            cluster_role_bindings: setup.caches.take(&CLUSTER_ROLE_BINDINGS),
            roles: setup.caches.take(&SYSTEM_ROLES),
            role_bindings: setup.caches.take(&SYSTEM_ROLE_BINDINGS),
        }
    }

    pub(super) async fn apply(&self, due: Due) -> Result<Next, Failure> {
        let (objects, wanted, again) = match due {
            Due::AsTheyAre => return Ok(Next::Forget),
            Due::Removed(objects) => (objects, Wanted::Gone, None),
            Due::Made { namespaces, objects, again } => {
                for namespace in &namespaces {
                    self.make_namespace(namespace).await?;
                }
                (objects, Wanted::There, again)
            }
        };
        let mut failed = None;
        for object in &objects {
            if let Err(failure) = self.write(object, wanted).await {
                tracing::debug!(name = text_at(object, "/metadata/name"), %failure, "rights of an agent were not written");
                failed.get_or_insert(failure);
            }
        }
        failed.map_or(Ok(again.map_or(Next::Forget, Next::After)), Err)
    }

    async fn make_namespace(&self, object: &Value) -> Result<(), Failure> {
        let namespace: Namespace = decoded(object)?;
        if self.namespaces.get("", &namespace.name_any()).is_some() {
            return Ok(());
        }
        match self.writer.create(&Api::all(self.plane.clone()), Some(&self.namespaces), &namespace).await {
            Ok(_) | Err(Failure::AlreadyExists(_)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    async fn write(&self, object: &Value, wanted: Wanted) -> Result<(), Failure> {
        let (plane, namespace) = (self.plane.clone(), text_at(object, "/metadata/namespace"));
        if !namespace.is_empty() && !self.is_open(namespace) {
            return Ok(());
        }
        match text_at(object, "/kind") {
            "ClusterRole" => self.one(&Api::all(plane), &self.cluster_roles, object, wanted).await,
            "ClusterRoleBinding" => self.one(&Api::all(plane), &self.cluster_role_bindings, object, wanted).await,
            "Role" => self.one(&Api::namespaced(plane, namespace), &self.roles, object, wanted).await,
            "RoleBinding" => self.one(&Api::namespaced(plane, namespace), &self.role_bindings, object, wanted).await,
            other => Err(Failure::Invalid(format!("{other} is no kind of rights"))),
        }
    }

    /// True if objects can be made in the namespace. Its deletion takes its objects with it.
    fn is_open(&self, namespace: &str) -> bool {
        let found = self.namespaces.get("", namespace);
        found.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none())
    }

    async fn one<K>(&self, api: &Api<K>, cache: &Informer<K>, object: &Value, wanted: Wanted) -> Result<(), Failure>
    where
        K: Encode + Serialize + DeserializeOwned,
    {
        let made: K = decoded(object)?;
        let cached = cache.get(made.namespace().as_deref().unwrap_or_default(), &made.name_any());
        match (wanted, cached) {
            (Wanted::Gone, Some(found)) if found.labels().get(labels::SYSTEM).is_some_and(|v| v == labels::TRUE) => {
                self.writer.delete(api, Some(cache), &found, PropagationPolicy::Background).await
            }
            (Wanted::Gone, _) => Ok(()),
            (Wanted::There, Some(found)) => self.repair(api, cache, &found, &made).await,
            (Wanted::There, None) => match self.writer.create(api, Some(cache), &made).await {
                // Without our label it is not in the cache.
                Err(Failure::AlreadyExists(_)) => {
                    let found = Arc::new(api.get(&made.name_any()).await?);
                    self.repair(api, cache, &found, &made).await
                }
                other => other.map(drop),
            },
        }
    }

    async fn repair<K>(&self, api: &Api<K>, cache: &Informer<K>, found: &Arc<K>, made: &K) -> Result<(), Failure>
    where
        K: Encode + Serialize,
    {
        match repair(&encoded(&**found)?, &encoded(made)?) {
            Repair::Nothing => Ok(()),
            Repair::Patch(patch) => self.writer.patch(api, Some(cache), &**found, patch).await.map(drop),
            Repair::Remake => {
                self.writer.delete(api, Some(cache), &**found, PropagationPolicy::Background).await?;
                self.writer.create(api, Some(cache), made).await.map(drop)
            }
        }
    }
}

fn decoded<K: DeserializeOwned>(object: &Value) -> Result<K, Failure> {
    serde_json::from_value(object.clone()).map_err(|error| Failure::Invalid(error.to_string()))
}

fn encoded<K: Serialize>(object: &K) -> Result<Value, Failure> {
    serde_json::to_value(object).map_err(|error| Failure::Invalid(error.to_string()))
}
