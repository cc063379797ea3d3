//! Pods of members as autoscalers count them, watched in each member that an autoscaler asks for.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use ironclad_api::ObjectMeta;
use ironclad_fleet::ClusterName;
use ironclad_hpa::pods::Pod;
use ironclad_runtime::{Api, Informer, WatchScope};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Pod as CorePod;
use kube::{Resource, core::NamespaceResourceScope};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};

use crate::members::Member;

/// A Pod without the fields that no decision reads: there may be a hundred thousand.
#[derive(Debug, Clone)]
pub(super) struct CachedPod {
    metadata: ObjectMeta,
    /// The fields that decisions read.
    pub(super) pod: Arc<Pod>,
}

impl<'de> Deserialize<'de> for CachedPod {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let whole = CorePod::deserialize(from)?;
        let pod = Arc::new(Pod::from(&whole));
        let ObjectMeta { name, namespace, uid, resource_version, .. } = whole.metadata;
        let metadata = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, pod })
    }
}

ironclad_runtime::objects! { read: CachedPod }

impl Resource for CachedPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Cache of the pods of one connection, which it does not keep alive once it has ended.
type OfConnection = (Weak<Member>, Informer<CachedPod>);

/// One cache for each connection of a member, from the first question on.
pub(super) struct PodCaches {
    seam: Seam,
    by_member: Mutex<BTreeMap<ClusterName, OfConnection>>,
}

impl PodCaches {
    pub(super) fn new(seam: &Seam) -> Self {
        Self { seam: seam.clone(), by_member: Mutex::default() }
    }

    /// The pods of a member. The watch ends with the connection.
    pub(super) fn of(&self, member: &Arc<Member>) -> Informer<CachedPod> {
        let mut caches = self.by_member.lock();
        let this = Arc::downgrade(member);
        if let Some((connection, pods)) = caches.get(&member.name)
            && connection.ptr_eq(&this)
        {
            return pods.clone();
        }
        let pods = Informer::new(&[]);
        let api = Api::all(member.client.clone());
        pods.start("autoscaled pods", &self.seam, &member.tasks, api, &WatchScope::default());
        let watched = pods.clone();
        member.also_retry(move || watched.retry_now());
        caches.retain(|_, (connection, _)| connection.strong_count() > 0);
        caches.insert(member.name.clone(), (this, pods.clone()));
        pods
    }
}
