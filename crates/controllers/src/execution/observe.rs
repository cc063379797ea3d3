//! The snapshot of one Work and its object in the member.

use std::{sync::Arc, time::Duration};

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_fleet::{Gvk, ObjectKey, Plan};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{
    execution::{self, Comparison, Effect, Seen, Served, Space, WantedAgain},
    namespace,
    skipped_resources::Skipped,
};
use ironclad_runtime::{Api, Failure, Informer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ApiResource;
use serde_json::Value;

use super::{awaiting::Seen as NamespaceEvents, destination::Destination};
use crate::{
    bindings::Bindings, caches::NAMESPACES, index::binding_of, interpreter::Interpreters, mapper::Mapper,
    member_object::MemberObject, settings::Settings, setup::Setup, works::WorkStatus,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    works: Informer<Work>,
    work_status: WorkStatus,
    /// Bindings, which agents have no rights to read.
    bindings: Option<Bindings>,
    clusters: Informer<Cluster>,
    /// Namespaces of the control plane, which agents have no rights to read.
    namespaces: Option<Informer<Namespace>>,
    interpreters: Arc<Interpreters>,
    mapper: Arc<Mapper>,
    /// The settings, if the namespace controller runs.
    namespaces_synced: Option<Arc<Settings>>,
}

/// Time limit for the first list of a kind since its watch began, after which the one object is read instead.
const SYNC_DEADLINE: Duration = Duration::from_secs(2);

/// The snapshot.
pub(super) struct Observed {
    /// The Work; its version is the one to write over.
    pub(super) work: Arc<Work>,
    /// API and cache of its object, if the control plane knows the kind.
    pub(super) place: Option<Place>,
    /// The object in the member, as far as it is known.
    pub(super) object: Known,
    seen_work: Arc<Work>,
    /// Knowledge about whether the binding requires the copy again.
    pub(super) wanted_again: WantedAgain,
    /// True if new copies wait for the end of this one.
    is_awaited: bool,
    space: KnownSpace,
    /// Namespace events before anything of this was observed.
    pub(super) namespace_events: NamespaceEvents,
    cluster: Option<Arc<Cluster>>,
    /// Answers about kinds, for this decision.
    pub(super) interpreter: Interpreter,
}

/// The object's namespace, as far as it is known.
#[derive(Default)]
struct KnownSpace {
    work: Option<Arc<Work>>,
    namespace: Option<Value>,
    /// The settings, if the namespace controller runs: they name the namespaces that it skips.
    synced: Option<Arc<Settings>>,
    exists: bool,
}

impl KnownSpace {
    fn seen(&self) -> Space<'_> {
        let synced: Option<&Skipped> = self.synced.as_ref().map(|settings| &settings.propagation.skipped);
        Space { work: self.work.as_deref(), namespace: self.namespace.as_ref(), synced, exists: self.exists }
    }
}

/// An object in a member, as far as it is known.
pub(super) enum Known {
    Unknown,
    /// The cache does not have it.
    Uncached,
    /// A read found that it does not exist.
    Absent,
    /// The fields that the cache keeps.
    Partial {
        object: Value,
        found: Option<Comparison>,
    },
    /// The complete object.
    Present(Value),
}

impl Known {
    fn cached(object: Option<&MemberObject>) -> Result<Self, Failure> {
        Ok(match object {
            None => Self::Uncached,
            Some(object) if object.is_whole() => Self::Present(object.json()?),
            Some(object) => Self::Partial { object: object.json()?, found: object.found() },
        })
    }
}

/// API and cache of an object of a member.
pub(super) struct Place {
    pub(super) key: ObjectKey,
    pub(super) api: Api<MemberObject>,
    /// `None` for an API that is not watched.
    pub(super) cache: Option<Informer<MemberObject>>,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn decide(
        &self,
        now: Timestamp,
        decide: impl FnOnce(&Seen<'_>, Timestamp) -> Plan<Effect>,
    ) -> Plan<Effect> {
        let object = match &self.object {
            Known::Unknown => execution::Observed::Unknown,
            Known::Uncached => execution::Observed::Uncached,
            Known::Absent => execution::Observed::Absent,
            Known::Partial { object, found } => execution::Observed::Cached { object, found: *found },
            Known::Present(object) => execution::Observed::Present(object),
        };
        let seen = Seen {
            work: &self.seen_work,
            cluster: self.cluster.as_deref(),
            connected: true,
            object,
            served: if self.place.is_some() { Served::Yes } else { Served::No },
            wanted_again: self.wanted_again,
            is_awaited: self.is_awaited,
            namespace: self.space.seen(),
            interpreter: &self.interpreter,
        };
        decide(&seen, now)
    }
}

impl Observed {
    /// The API through which the object of a Work that is being deleted is found, if the member serves its kind in
    /// another version, or if the control plane does not serve the kind any more.
    fn other_api(&self, member: &Destination, key: &ObjectKey) -> Option<Api<MemberObject>> {
        self.work.metadata.deletion_timestamp.as_ref()?;
        let (gvk, plural) = execution::serving_api(self.cluster.as_deref()?, &key.gvk)?;
        if gvk == key.gvk && member.objects.serves(&gvk) {
            return None;
        }
        let resource = ApiResource {
            group: gvk.group.to_string(),
            version: gvk.version.to_string(),
            api_version: gvk.api_version(),
            kind: gvk.kind.to_string(),
            plural,
        };
        Some(if key.namespace.is_empty() {
            Api::all_with(member.client.clone(), &resource)
        } else {
            Api::namespaced_with(member.client.clone(), &key.namespace, &resource)
        })
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        let of_plane = setup.settings.agent_of.is_none();
        let synced = of_plane && setup.settings.controllers.enabled("namespace");
        Self {
            works: setup.works(),
            work_status: setup.work_status().clone(),
            bindings: of_plane.then(|| setup.bindings().clone()),
            clusters: setup.clusters().clone(),
            namespaces: of_plane.then(|| setup.caches.take(&NAMESPACES)),
            interpreters: setup.interpreters().clone(),
            mapper: setup.mapper.clone(),
            namespaces_synced: synced.then(|| setup.settings.clone()),
        }
    }

    pub(super) async fn observe(&self, member: &Destination, name: &str) -> Result<Option<Observed>, Failure> {
        let Some(work) = self.works.get(&names::execution_namespace(&member.name.0), name) else { return Ok(None) };
        let mut interpreter = self.interpreters.for_a_decision();
        if let Some(gvk) = execution::missing_replicas_path(&work, &interpreter) {
            self.interpreters.read_replicas_path(&self.mapper, &gvk).await?;
            interpreter = self.interpreters.for_a_decision();
        }
        let mut observed = Observed {
            seen_work: self.work_status.as_requested(&work),
            cluster: self.clusters.get("", &member.name.0),
            wanted_again: self.wanted_again(&work),
            is_awaited: self.is_awaited(&work),
            space: KnownSpace::default(),
            namespace_events: NamespaceEvents::default(),
            place: None,
            object: Known::Unknown,
            interpreter,
            work,
        };
        let Some(key) = execution::object_key(&observed.work) else { return Ok(Some(observed)) };
        if !key.namespace.is_empty() {
            observed.namespace_events = member.awaiting.begin(&key.namespace, name);
            observed.space = self.space(member, &key.namespace)?;
        }
        if let Some(api) = observed.other_api(member, &key) {
            observed.place = Some(Place { key, api, cache: None });
            return Ok(Some(observed));
        }
        if let Some(cache) = member.objects.informer(&key.gvk).await? {
            if member.objects.wait_for_list(&key.gvk, SYNC_DEADLINE).await {
                observed.object = Known::cached(cache.get(&key.namespace, &key.name).as_deref())?;
            }
            observed.place = member.objects.watched(&key.gvk).map(|(served, cache)| {
                let api = served.api(&member.client, &key.namespace);
                Place { key, api, cache: Some(cache) }
            });
        }
        Ok(Some(observed))
    }

    fn space(&self, member: &Destination, name: &str) -> Result<KnownSpace, Failure> {
        let [work, _] = namespace::work_names(name);
        let work = self.works.get(&names::execution_namespace(&member.name.0), &work);
        let work = work.map(|work| self.work_status.as_requested(&work));
        let key = ObjectKey { gvk: Gvk::from_manifest("v1", "Namespace"), namespace: "".into(), name: name.into() };
        let exists = member.objects.get(&key).is_some_and(|there| there.metadata.deletion_timestamp.is_none());
        // As a rule there is a Work, and the namespace is not needed.
        let namespace = if work.is_none() { self.namespaces.as_ref().and_then(|all| all.get("", name)) } else { None };
        Ok(KnownSpace {
            work,
            namespace: namespace
                .map(|namespace| serde_json::to_value(&*namespace))
                .transpose()
                .map_err(|error| Failure::Invalid(error.to_string()))?,
            synced: self.namespaces_synced.clone(),
            exists,
        })
    }

    fn wanted_again(&self, work: &Work) -> WantedAgain {
        let binding = || self.bindings.as_ref()?.get(&binding_of(work)?);
        let is_wanted = work.metadata.deletion_timestamp.is_some()
            && binding().is_some_and(|binding| execution::is_wanted_again(work, binding.view()));
        if is_wanted { WantedAgain::Cached } else { WantedAgain::No }
    }

    fn is_awaited(&self, work: &Work) -> bool {
        let binding = || self.bindings.as_ref()?.get(&binding_of(work)?);
        work.metadata.deletion_timestamp.is_some()
            && binding().is_some_and(|binding| execution::is_awaited(work, binding.view()))
    }
}
