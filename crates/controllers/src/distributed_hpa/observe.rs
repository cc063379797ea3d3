//! The snapshot of one distributed HorizontalPodAutoscaler.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    autoscaling::FederatedHPA,
    names,
    policy::{ClusterOverridePolicy, FederatedResourceQuota, OverridePolicy},
    work::{ResourceBinding, Work},
};
use ironclad_autoscaling::{
    distributed_hpa::{
        Options, Seen, Target, decides_in_members, is_enabled, is_kind, policy_name, quota::Quotas, reference_of,
        scaler::Scaler, target_key, work_keys,
    },
    idle,
    rivals::Rival,
};
use ironclad_fleet::{ClusterName, Clusters, ObjectKey, gates::Gate};
use ironclad_interpreter::replicas_pointer;
use ironclad_propagation::template::Identity;
use ironclad_runtime::{Failure, Informer, Key};
use ironclad_seam::Clock;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{ResourceExt as _, api::DynamicObject};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    bindings::Bindings,
    caches::{CLUSTER_OVERRIDES, FEDERATED_HPAS, OVERRIDES, QUOTAS},
    clusters::ClusterSnapshot,
    index::{BY_AUTOSCALER, BY_BINDING, BY_SCALED, BY_TEMPLATE, cluster_of, template_name},
    interpreter::Interpreters,
    mapper::Mapper,
    objects::Objects,
    scalers::Scalers,
    selected::may_select,
    settings::Settings,
    setup::Setup,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    pub(super) scalers: Scalers,
    pub(super) federated: Informer<FederatedHPA>,
    pub(super) bindings: Informer<ResourceBinding>,
    pub(super) overrides: Informer<OverridePolicy>,
    pub(super) cluster_overrides: Informer<ClusterOverridePolicy>,
    /// Quotas, if they are enforced.
    pub(super) quotas: Option<Informer<FederatedResourceQuota>>,
    all_bindings: Bindings,
    works: Informer<Work>,
    templates: Arc<Objects<DynamicObject>>,
    fleet: ClusterSnapshot,
    interpreters: Arc<Interpreters>,
    mapper: Arc<Mapper>,
    settings: Arc<Settings>,
    clock: Clock,
    memory: Mutex<Memory>,
}

/// The start of the controller, and the reports that came since then.
#[derive(Default)]
struct Memory {
    started: Option<Timestamp>,
    /// By uid of the autoscaler.
    reported: BTreeMap<String, BTreeSet<ClusterName>>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The object; its version is the one to write over.
    pub(super) scaler: Scaler,
    /// Its Works, and those under the names that it uses.
    pub(super) works: Vec<Arc<Work>>,
    /// The OverridePolicy under its name.
    pub(super) policy: Option<Arc<OverridePolicy>>,
    pub(super) own_binding: Option<Arc<ResourceBinding>>,
    target: Observation,
    binding: Option<Arc<ResourceBinding>>,
    rivals: Vec<Rival>,
    clusters: Arc<Clusters>,
    target_works: Vec<Arc<Work>>,
    cluster_overrides: Vec<Arc<ClusterOverridePolicy>>,
    overrides: Vec<Arc<OverridePolicy>>,
    shared: Shared,
    reported: BTreeSet<ClusterName>,
    started: Timestamp,
    options: Options,
    now: Timestamp,
}

/// Quotas of the namespace, and the objects that use them; all empty without quotas.
#[derive(Default)]
struct Shared {
    quotas: Vec<Arc<FederatedResourceQuota>>,
    bindings: Vec<Arc<ResourceBinding>>,
    overrides: Vec<Arc<OverridePolicy>>,
    autoscalers: Vec<Arc<HorizontalPodAutoscaler>>,
}

enum Observation {
    Missing,
    NoScale,
    Found { template: Value, replicas: String },
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let target = match &self.target {
            Observation::Missing => Target::Missing,
            Observation::NoScale => Target::NoScale,
            Observation::Found { template, replicas } => Target::Found { template, replicas },
        };
        decide(&Seen {
            scaler: &self.scaler,
            rivals: &self.rivals,
            target,
            binding: self.binding.as_deref(),
            own_binding: self.own_binding.as_deref(),
            clusters: &self.clusters,
            works: &self.works,
            target_works: &self.target_works,
            policy: self.policy.as_deref(),
            cluster_overrides: &self.cluster_overrides,
            overrides: &self.overrides,
            quotas: Quotas {
                quotas: &self.shared.quotas,
                bindings: &self.shared.bindings,
                overrides: &self.shared.overrides,
                autoscalers: &self.shared.autoscalers,
            },
            reported: &self.reported,
            started: self.started,
            options: &self.options,
            now: self.now,
        })
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            scalers: Scalers::new(setup),
            federated: setup.caches.take(&FEDERATED_HPAS),
            bindings: setup.bindings().namespaced.clone(),
            overrides: setup.caches.take(&OVERRIDES),
            cluster_overrides: setup.caches.take(&CLUSTER_OVERRIDES),
            quotas: setup.settings.gates.enabled(Gate::FederatedQuotaEnforcement).then(|| setup.caches.take(&QUOTAS)),
            all_bindings: setup.bindings().clone(),
            works: setup.works(),
            templates: setup.templates().clone(),
            fleet: setup.fleet().clone(),
            interpreters: setup.interpreters().clone(),
            mapper: setup.mapper.clone(),
            settings: setup.settings.clone(),
            clock: setup.seam.clock.clone(),
            memory: Mutex::default(),
        }
    }

    /// Notes the start of the controller.
    pub(super) fn starts_at(&self, now: Timestamp) {
        self.memory.lock().started = Some(now);
    }

    /// Notes that a report came.
    pub(super) fn note_report(&self, work: &Work) {
        let uid = ironclad_autoscaling::distributed_hpa::of_work(work).into_iter().next();
        if let (Some(uid), Some(cluster)) = (uid, cluster_of(work)) {
            self.memory.lock().reported.entry(uid).or_default().insert(cluster);
        }
    }

    pub(super) async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, Failure> {
        let now = self.clock.wall_seconds();
        let Some(scaler) = self.scalers.get(key) else { return Ok(None) };
        let hpa = scaler.hpa.clone();
        let uid = hpa.uid().unwrap_or_default();
        let mut works = self.works.by_index(BY_AUTOSCALER, &uid);
        if !decides_in_members(&hpa) && works.is_empty() {
            self.memory.lock().reported.remove(&uid);
            return Ok(None);
        }
        let key = target_key(&hpa);
        let target = self.target(&key).await?;
        let binding = self.binding_of(&key);
        let named = binding.iter().flat_map(|binding| work_keys(&scaler, binding));
        let named = named.filter_map(|key| self.works.get(&names::execution_namespace(&key.cluster.0), &key.name));
        let named: Vec<Arc<Work>> =
            named.filter(|found| !works.iter().any(|work| work.metadata.uid == found.metadata.uid)).collect();
        works.extend(named);
        let namespace = hpa.namespace().unwrap_or_default();
        let (started, reported) = {
            let memory = self.memory.lock();
            (memory.started.unwrap_or(now), memory.reported.get(&uid).cloned().unwrap_or_default())
        };
        let (cluster_overrides, overrides) = self.overrides_of(&scaler, &namespace, &target);
        Ok(Some(Observed {
            works,
            policy: self.overrides.get(&namespace, &policy_name(&scaler)),
            own_binding: self.binding_of(&scaler.key()),
            rivals: self.rivals(&scaler, &key),
            target_works: binding.as_deref().map(|binding| self.works_of(binding)).unwrap_or_default(),
            target,
            binding,
            clusters: self.fleet.all(),
            cluster_overrides,
            overrides,
            shared: self.shared(&namespace),
            reported,
            started,
            options: self.settings.distributed_hpa.clone(),
            now,
            scaler,
        }))
    }

    /// The verdict on a HorizontalPodAutoscaler that is not distributed.
    pub(super) fn idle(&self, key: &ObjectKey) -> Option<idle::Verdict> {
        if !is_kind(&key.gvk) {
            return None;
        }
        let hpa = self.scalers.get(key)?.hpa;
        let template = self.templates.get(&target_key(&hpa));
        let labels = template.as_ref().map(|template| template.labels());
        let is_propagated = self.binding_of(key).is_some();
        Some(idle::verdict(idle::Seen { hpa: &hpa, is_propagated, target: labels, now: self.clock.wall_seconds() }))
    }

    /// True if quotas are enforced in a namespace.
    pub(super) fn has_quota(&self, namespace: &str) -> bool {
        self.quotas.as_ref().is_some_and(|quotas| !quotas.namespace(namespace).is_empty())
    }

    fn shared(&self, namespace: &str) -> Shared {
        let quotas = self.quotas.as_ref().map(|quotas| quotas.namespace(namespace)).unwrap_or_default();
        if quotas.is_empty() {
            return Shared::default();
        }
        Shared {
            quotas,
            bindings: self.bindings.namespace(namespace),
            overrides: self.overrides.namespace(namespace),
            autoscalers: self.scalers.of_namespace(namespace).into_iter().map(|scaler| scaler.hpa).collect(),
        }
    }

    async fn target(&self, key: &ObjectKey) -> Result<Observation, Failure> {
        let Some(template) = self.templates.read(key).await? else { return Ok(Observation::Missing) };
        let path = self.interpreters.replicas_path(&self.mapper, &key.gvk).await?;
        Ok(path.map_or(Observation::NoScale, |path| Observation::Found { template, replicas: replicas_pointer(&path) }))
    }

    fn binding_of(&self, template: &ObjectKey) -> Option<Arc<ResourceBinding>> {
        let all = self.bindings.by_index(BY_TEMPLATE, &template_name(template));
        all.into_iter().find(|binding| binding.metadata.namespace.as_deref() == Some(&template.namespace))
    }

    fn works_of(&self, binding: &ResourceBinding) -> Vec<Arc<Work>> {
        let key = Key::of(binding);
        let binding = self.all_bindings.get(&key);
        let id = binding.as_ref().and_then(|binding| binding.view().permanent_id().map(str::to_owned));
        id.map(|id| self.works.by_index(BY_BINDING, &id)).unwrap_or_default()
    }

    fn rivals(&self, scaler: &Scaler, target: &ObjectKey) -> Vec<Rival> {
        let distributed = self.scalers.of_target(target).into_iter().filter(|other| {
            let metadata = &other.hpa.metadata;
            metadata.uid != scaler.hpa.metadata.uid && is_enabled(metadata) && metadata.deletion_timestamp.is_none()
        });
        let federated = self.federated.by_index(BY_SCALED, &template_name(target));
        let federated = federated.iter().filter(|other| other.metadata.deletion_timestamp.is_none());
        let distributed = distributed.map(|other| Rival::from(&other));
        distributed.chain(federated.map(|other| Rival::from(&**other))).collect()
    }

    /// The override policies that may select the object or its target.
    fn overrides_of(
        &self,
        scaler: &Scaler,
        namespace: &str,
        target: &Observation,
    ) -> (Vec<Arc<ClusterOverridePolicy>>, Vec<Arc<OverridePolicy>>) {
        let about = reference_of(scaler);
        let identity = Identity {
            api_version: &about.api_version,
            kind: &about.kind,
            namespace,
            name: &about.name,
            uid: &about.uid,
            labels: scaler.hpa.metadata.labels.clone().unwrap_or_default(),
        };
        let cluster_overrides = may_select(&self.cluster_overrides, "", &identity);
        let mut overrides = may_select(&self.overrides, namespace, &identity);
        if let Observation::Found { template, .. } = target {
            let of_target = may_select(&self.overrides, namespace, &Identity::of(template));
            overrides.extend(of_target);
            overrides.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            overrides.dedup_by(|a, b| a.metadata.name == b.metadata.name);
        }
        (cluster_overrides, overrides)
    }
}
