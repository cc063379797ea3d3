//! The controllers of services over clusters: MultiClusterService, ServiceExport and ServiceImport
//! (specification/mcs.md).

pub(crate) mod claim;
pub(crate) mod collect;
pub(crate) mod dispatch;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod imported;
pub(crate) mod ingress;

use std::sync::Arc;

use ironclad_api::networking::MultiClusterService;
use ironclad_fleet::{ClusterName, Gvk, ObjectKey, StatusPart};
use ironclad_propagation::services::{SLICE_API_VERSION, SLICE_KIND, ServiceKey};
use ironclad_runtime::{Api, Failure, Informer, Key, StatusWriter, Writer};
use kube::{Client, ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use crate::{
    caches::MULTI_CLUSTER_SERVICES,
    objects::Objects,
    setup::Setup,
    targets::{Typed, json},
};

/// MultiClusterServices with the one writer of their status. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MultiClusterServices {
    pub(crate) cache: Informer<MultiClusterService>,
    status: StatusWriter<Typed<MultiClusterService>>,
}

impl MultiClusterServices {
    pub(crate) fn start(setup: &Setup) -> Self {
        let cache = setup.caches.take(&MULTI_CLUSTER_SERVICES);
        let target = Typed {
            client: setup.plane.clone(),
            cache: cache.clone(),
            writer: Writer::new("multiClusterServiceStatus"),
            events: setup.events.clone(),
            api: |client, namespace| Api::namespaced(client.clone(), namespace),
            status: |mcs: &MultiClusterService| json(&mcs.status),
        };
        Self { cache, status: StatusWriter::start("status/multiclusterservices", &setup.seam, target) }
    }

    /// It with its status as it will be once all requests are written.
    fn as_requested(&self, key: &Key) -> Option<MultiClusterService> {
        let found = self.cache.get_key(key)?;
        let mut mcs = (*found).clone();
        if let Some(status) = self.status.read(key, &found.uid().unwrap_or_default(), || json(&found.status)) {
            mcs.status = serde_json::from_value(status).ok();
        }
        Some(mcs)
    }

    fn request(&self, key: &Key, contributor: &'static str, part: StatusPart) {
        let uid = self.cache.get_key(key).and_then(|mcs| mcs.uid()).unwrap_or_default();
        self.status.request(key, &uid, contributor, part, false);
    }

    /// Keys of all.
    fn keys(&self) -> Vec<Key> {
        self.cache.list().iter().map(|mcs| Key::of(&**mcs)).collect()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.status.is_quiet()
    }
}

/// Objects of the control plane of the kinds that these controllers write. Their watches start with the first use.
struct Plane {
    client: Client,
    templates: Arc<Objects<DynamicObject>>,
    writer: Writer,
}

/// An object and its JSON.
struct Read {
    object: Arc<DynamicObject>,
    json: Arc<Value>,
}

fn service_kind() -> Gvk {
    Gvk::from_manifest("v1", "Service")
}

fn slice_kind() -> Gvk {
    Gvk::from_manifest(SLICE_API_VERSION, SLICE_KIND)
}

fn is_service(gvk: &Gvk) -> bool {
    gvk.group.is_empty() && &*gvk.kind == "Service"
}

impl Plane {
    fn new(setup: &Setup, controller: &'static str) -> Self {
        Self { client: setup.plane.clone(), templates: setup.templates().clone(), writer: setup.writer(controller) }
    }

    async fn service(&self, namespace: &str, name: &str) -> Result<Option<Read>, Failure> {
        let Some(informer) = self.templates.listed(&service_kind()).await? else { return Ok(None) };
        informer.get(namespace, name).map(read).transpose()
    }

    /// The EndpointSlices of a namespace.
    async fn slices(&self, namespace: &str) -> Result<Vec<Read>, Failure> {
        let Some(informer) = self.templates.listed(&slice_kind()).await? else { return Ok(Vec::new()) };
        informer.namespace(namespace).into_iter().map(read).collect()
    }

    fn api(&self, gvk: &Gvk, namespace: &str) -> Result<(Api<DynamicObject>, Informer<DynamicObject>), Failure> {
        let watched = self.templates.watched(gvk);
        let (served, cache) = watched.ok_or_else(|| Failure::NotFound(format!("{gvk} is not served")))?;
        Ok((served.api(&self.client, namespace), cache))
    }

    async fn create(&self, gvk: &Gvk, namespace: &str, object: Value) -> Result<(), Failure> {
        let (api, cache) = self.api(gvk, namespace)?;
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|error| Failure::Invalid(error.to_string()))?;
        self.writer.create(&api, Some(&cache), &object).await.map(drop)
    }

    async fn patch(&self, gvk: &Gvk, seen: &Read, patch: Value) -> Result<(), Failure> {
        let (api, cache) = self.api(gvk, &seen.object.namespace().unwrap_or_default())?;
        self.writer.patch(&api, Some(&cache), &*seen.object, patch).await.map(drop)
    }

    async fn delete(&self, gvk: &Gvk, seen: &Read) -> Result<(), Failure> {
        let (api, cache) = self.api(gvk, &seen.object.namespace().unwrap_or_default())?;
        self.writer.delete(&api, Some(&cache), &*seen.object, kube::api::PropagationPolicy::Background).await
    }
}

fn read(object: Arc<DynamicObject>) -> Result<Read, Failure> {
    let json = serde_json::to_value(&*object).map_err(|error| Failure::Invalid(error.to_string()))?;
    Ok(Read { object, json: Arc::new(json) })
}

fn service_key(key: &Key) -> ServiceKey {
    ServiceKey { namespace: key.namespace.clone(), name: key.name.clone() }
}

fn queue_key(key: &ServiceKey) -> Key {
    Key::new(&key.namespace, &key.name)
}

fn service_object(key: &Key) -> ObjectKey {
    ObjectKey { gvk: service_kind(), namespace: key.namespace.clone(), name: key.name.clone() }
}

/// The clusters with an execution space, by the Namespaces of the control plane.
fn spaces(namespaces: &Informer<k8s_openapi::api::core::v1::Namespace>) -> std::collections::BTreeSet<ClusterName> {
    let names = namespaces.list();
    let cluster = |name: String| {
        let cluster = ironclad_api::names::cluster_of_execution_namespace(&name).ok()?;
        Some(ClusterName::from(cluster))
    };
    names.iter().filter_map(|namespace| cluster(namespace.name_any())).collect()
}
