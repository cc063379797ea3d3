//! The snapshot of one binding on its way to Works.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    gates::Gate,
    names,
    policy::{ClusterOverridePolicy, FederatedResourceQuota, OverridePolicy},
    work::Work,
};
use ironclad_autoscaling::distributed_hpa::scaler::Scaler;
use ironclad_fleet::{Binding, ClusterName, Clusters, ObjectKey, WorkKey};
use ironclad_interpreter::{Interpreter, MemberReplicas, replicas_pointer};
use ironclad_propagation::{
    binding::{Options, Seen, first_names},
    template::Identity,
    work::{Owner, key_of, owner},
};
use ironclad_runtime::{Failure, Informer, Key};
use ironclad_seam::Clock;
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

use super::waits::SchedulerWaits;
use crate::{
    bindings::Bindings,
    caches::{CLUSTER_OVERRIDES, OVERRIDES, QUOTAS},
    clusters::ClusterSnapshot,
    index::BY_BINDING,
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
    bindings: Bindings,
    works: Informer<Work>,
    templates: Arc<Objects<DynamicObject>>,
    fleet: ClusterSnapshot,
    pub(super) overrides: Informer<OverridePolicy>,
    pub(super) cluster_overrides: Informer<ClusterOverridePolicy>,
    quotas: Informer<FederatedResourceQuota>,
    /// Gate `FederatedQuotaEnforcement`.
    quotas_are_enforced: bool,
    interpreters: Arc<Interpreters>,
    mapper: Arc<Mapper>,
    pub(super) scalers: Scalers,
    waits: Arc<SchedulerWaits>,
    clock: Clock,
    namespace_sync: Option<Arc<Settings>>,
    options: Options,
}

/// The snapshot.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: Binding,
    /// The Works that carry its permanent id.
    pub(super) works: Vec<Arc<Work>>,
    /// The Works under the names that it would use.
    pub(super) named: Vec<Arc<Work>>,
    owned: Vec<(WorkKey, Owner)>,
    template: Option<Value>,
    clusters: Arc<Clusters>,
    cluster_overrides: Vec<Arc<ClusterOverridePolicy>>,
    overrides: Vec<Arc<OverridePolicy>>,
    limits: Vec<Arc<FederatedResourceQuota>>,
    /// Answers about kinds, for this decision.
    pub(super) interpreter: Interpreter,
    member_replicas: Option<String>,
    members_may_rest: bool,
    /// The settings, if the namespace controller runs.
    namespace_sync: Option<Arc<Settings>>,
    options: Options,
    waited: Duration,
    now: Timestamp,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        decide(&Seen {
            binding: self.binding.view(),
            template: self.template.as_ref(),
            works: &self.works,
            named: &self.named,
            owned: &self.owned,
            clusters: &self.clusters,
            cluster_overrides: &self.cluster_overrides,
            overrides: &self.overrides,
            quotas: &self.limits,
            interpreter: &self.interpreter,
            member_replicas: self.member_replicas.as_deref(),
            members_may_rest: self.members_may_rest,
            namespace_sync: self.namespace_sync.as_ref().map(|settings| &settings.propagation.skipped),
            options: &self.options,
            waited: self.waited,
            now: self.now,
        })
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup, waits: Arc<SchedulerWaits>) -> Self {
        Self {
            bindings: setup.bindings().clone(),
            works: setup.works(),
            templates: setup.templates().clone(),
            fleet: setup.fleet().clone(),
            overrides: setup.caches.take(&OVERRIDES),
            cluster_overrides: setup.caches.take(&CLUSTER_OVERRIDES),
            quotas: setup.caches.take(&QUOTAS),
            quotas_are_enforced: setup.settings.gates.enabled(Gate::FederatedQuotaEnforcement),
            interpreters: setup.interpreters().clone(),
            mapper: setup.mapper.clone(),
            scalers: Scalers::new(setup),
            waits,
            clock: setup.seam.clock.clone(),
            namespace_sync: setup.settings.controllers.enabled("namespace").then(|| setup.settings.clone()),
            options: Options { state_injection: setup.settings.gates.enabled(Gate::StatefulFailoverInjection) },
        }
    }

    pub(super) async fn observe(&self, key: &Key) -> Result<Option<Observed>, Failure> {
        let Some(binding) = self.bindings.get(key) else {
            self.waits.end(key);
            return Ok(None);
        };
        let template = self.templates.read(&binding.template()).await?;
        let works = binding.view().permanent_id().map(|id| self.works.by_index(BY_BINDING, id)).unwrap_or_default();
        let named: Vec<Arc<Work>> = first_names(binding.spec())
            .iter()
            .filter_map(|work| self.works.get(&names::execution_namespace(&work.cluster.0), &work.name))
            .collect();
        let id = binding.view().permanent_id();
        let owned = named.iter().filter_map(|work| Some((key_of(work)?, owner(work)?)));
        let owned = owned.filter(|(_, owner)| self.is_other_and_exists(owner, id)).collect();
        let identity = template.as_ref().map(Identity::of);
        let cluster_overrides =
            identity.as_ref().map(|id| may_select(&self.cluster_overrides, "", id)).unwrap_or_default();
        let overrides = identity
            .filter(|id| !id.namespace.is_empty())
            .map(|id| may_select(&self.overrides, id.namespace, &id))
            .unwrap_or_default();
        // A copy without overrides asks for what its binding was charged.
        let overridden = !overrides.is_empty() || !cluster_overrides.is_empty();
        let limits = match self.quotas_are_enforced && overridden {
            true => self.quotas.namespace(&binding.template().namespace),
            false => Vec::new(),
        };
        let (member_replicas, members_may_rest) = self.member_replicas(&binding.template(), &works).await?;
        Ok(Some(Observed {
            member_replicas,
            members_may_rest,
            works,
            named,
            owned,
            template,
            clusters: self.fleet.all(),
            cluster_overrides,
            overrides,
            limits,
            interpreter: self.interpreters.for_a_decision(),
            namespace_sync: self.namespace_sync.clone(),
            options: self.options.clone(),
            waited: self.waits.waited(key, self.clock.mono()),
            now: self.clock.wall_seconds(),
            binding,
        }))
    }

    /// The place of the template's replicas, if an autoscaler in each member decides them, and true if it goes to zero
    /// and comes back.
    async fn member_replicas(
        &self,
        template: &ObjectKey,
        works: &[Arc<Work>],
    ) -> Result<(Option<String>, bool), Failure> {
        if let Err(failure) = self.scalers.listed().await {
            // It is not known now who decides. Copies that members decide on keep their mark; all others do not wait.
            let manifests = works.iter().flat_map(|work| &work.spec.workload.manifests);
            if manifests.into_iter().any(|manifest| MemberReplicas::of(&manifest.object()).is_some()) {
                return Err(failure);
            }
        }
        let scalers = self.scalers.of_target(template);
        if scalers.is_empty() {
            return Ok((None, false));
        }
        let path = self.interpreters.replicas_path(&self.mapper, &template.gvk).await?;
        Ok((path.map(|path| replicas_pointer(&path)), scalers.iter().any(Scaler::may_rest)))
    }

    /// True if the owner is not the binding with this permanent id, and exists.
    fn is_other_and_exists(&self, owner: &Owner, id: Option<&str>) -> bool {
        match owner {
            Owner::Binding { id: of_work, .. } if Some(of_work.as_str()) == id => false,
            Owner::Binding { key, id } => {
                let found = self.bindings.get(&Key::new(&key.namespace, &key.name));
                found.is_some_and(|binding| binding.view().permanent_id() == Some(id))
            }
            Owner::Quota { namespace, name } => self.quotas.get(namespace, name).is_some(),
            Owner::Autoscaler { namespace, name } => {
                let all = self.scalers.of_namespace(namespace);
                all.iter().any(|scaler| scaler.hpa.metadata.name.as_ref() == Some(name))
            }
            Owner::Cluster { name } => self.fleet.all().contains_key(&ClusterName::from(name.as_str())),
        }
    }
}
