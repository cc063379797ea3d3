//! What every reconciler of one process shares: caches, writers of status, members and queues.

use std::{ops::Deref, sync::Arc};

use ironclad_api::{
    apps::WorkloadRebalancer,
    policy::{
        ClusterOverridePolicy, ClusterPropagationPolicy, ClusterTaintPolicy, FederatedResourceQuota, OverridePolicy,
        PropagationPolicy,
    },
};
use ironclad_interpreter::Interpreter;
use ironclad_runtime::{Informer, StatusWriter, Writer};
use ironclad_scheduling::Clusters;
use ironclad_seam::Seam;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Secret},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
    scheduling::v1::PriorityClass,
};
use kube::{Api, Client};
use prometheus_client::registry::Registry;

use crate::{
    Queues, Settings,
    application_failover::Memories,
    binding::Held,
    caches::{
        CLUSTER_OVERRIDES, CLUSTER_POLICIES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, DEFINITIONS, Definition, LEASES,
        NAMESPACES, OVERRIDES, POLICIES, PRIORITY_CLASSES, QUOTAS, REBALANCERS, SECRETS, TAINT_POLICIES,
    },
    detector::WaitingTemplates,
    members::Connector,
    setup::Setup,
    taint_manager, taint_policy,
    targets::{Typed, json},
};

/// What the reconcilers share. Everything that runs is a task of `seam.tasks`.
pub struct Context {
    setup: Setup,
    /// All PropagationPolicies.
    pub(crate) policies: Informer<PropagationPolicy>,
    /// All ClusterPropagationPolicies.
    pub(crate) cluster_policies: Informer<ClusterPropagationPolicy>,
    /// All OverridePolicies.
    pub(crate) overrides: Informer<OverridePolicy>,
    /// All ClusterOverridePolicies.
    pub(crate) cluster_overrides: Informer<ClusterOverridePolicy>,
    /// The credentials of members: Secrets of namespace `karmada-cluster`.
    pub(crate) secrets: Informer<Secret>,
    /// All Namespaces: the execution spaces among them.
    pub(crate) namespaces: Informer<Namespace>,
    /// All PriorityClasses of the control plane.
    pub(crate) priority_classes: Informer<PriorityClass>,
    /// All CustomResourceDefinitions, by name only.
    pub(crate) definitions: Informer<Definition>,
    /// All ClusterRoles of the control plane.
    pub(crate) cluster_roles: Informer<ClusterRole>,
    /// All ClusterRoleBindings of the control plane.
    pub(crate) cluster_role_bindings: Informer<ClusterRoleBinding>,
    /// All FederatedResourceQuotas.
    pub(crate) quotas: Informer<FederatedResourceQuota>,
    /// All WorkloadRebalancers.
    pub(crate) rebalancers: Informer<WorkloadRebalancer>,
    /// All ClusterTaintPolicies.
    pub(crate) taint_policies: Informer<ClusterTaintPolicy>,
    /// The leases of agents: those of namespace `karmada-cluster`.
    pub(crate) leases: Informer<Lease>,
    /// The bindings whose Works wait for the scheduler.
    pub(crate) held: Held,
    /// For how long quotas have been counted as they are.
    pub(crate) counts: crate::quota::Counts,
    /// Of which clusters it was told that impersonation could not be set up.
    pub(crate) impersonation_fails: crate::unified_auth::Failing,
    /// The templates that wait for a policy.
    pub(crate) waiting: WaitingTemplates,
    /// Writes the status of FederatedResourceQuotas.
    pub(crate) quota_status: StatusWriter<Typed<FederatedResourceQuota>>,
    /// Writes the status of WorkloadRebalancers.
    pub(crate) rebalancer_status: StatusWriter<Typed<WorkloadRebalancer>>,
    /// Who waits for what.
    pub queues: Queues,
    /// Who says whether this process has a network.
    pub(crate) witnesses: crate::cluster::witness::Witnesses,
    /// When agents were heard of.
    pub(crate) heard: crate::cluster::monitor::Heard,
    /// What is remembered of taint policies.
    pub(crate) taint_policy: taint_policy::State,
    pub(crate) unhealthy: Memories,
    /// What is remembered of evictions.
    pub(crate) taint_manager: taint_manager::State,
    /// What the scheduler remembers: the room of the fleet, and who waits for it.
    pub(crate) scheduler: crate::scheduler::State,
}

impl Deref for Context {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        &self.setup
    }
}

impl Context {
    /// Makes caches and writers; watches run from [`Context::start_informers`] on.
    #[must_use]
    pub fn new(plane: Client, seam: Seam, connector: Arc<dyn Connector>, settings: Settings) -> Arc<Self> {
        let setup = Setup::new(plane.clone(), seam.clone(), connector, settings);
        let unhealthy = Memories::new(&seam.clock);
        let queues = Queues::new(&seam, &setup.metrics.work);
        setup.metrics.scheduler.watch(&queues.scheduler);
        let scheduler =
            crate::scheduler::State::new(&setup.settings, seam.clock.clone(), setup.metrics.scheduler.waiting());
        let taken = &setup.caches;
        let rebalancers = taken.take(&REBALANCERS);
        let quotas = taken.take(&QUOTAS);
        let quota_status = StatusWriter::start(
            "status/quotas",
            &seam,
            Typed {
                client: plane.clone(),
                cache: quotas.clone(),
                writer: Writer::new("federatedResourceQuota"),
                api: |client, namespace| Api::namespaced(client.clone(), namespace),
                status: |q: &FederatedResourceQuota| json(&q.status),
            },
        );
        let rebalancer_status = StatusWriter::start(
            "status/rebalancers",
            &seam,
            Typed {
                client: plane,
                cache: rebalancers.clone(),
                writer: Writer::new("workloadRebalancer"),
                api: |client, _| Api::all(client.clone()),
                status: |r: &WorkloadRebalancer| json(&r.status),
            },
        );
        let settings = setup.settings.clone();
        Arc::new(Self {
            policies: taken.take(&POLICIES),
            cluster_policies: taken.take(&CLUSTER_POLICIES),
            overrides: taken.take(&OVERRIDES),
            cluster_overrides: taken.take(&CLUSTER_OVERRIDES),
            secrets: taken.take(&SECRETS),
            namespaces: taken.take(&NAMESPACES),
            cluster_roles: taken.take(&CLUSTER_ROLES),
            cluster_role_bindings: taken.take(&CLUSTER_ROLE_BINDINGS),
            quotas,
            priority_classes: taken.take(&PRIORITY_CLASSES),
            definitions: taken.take(&DEFINITIONS),
            taint_policies: taken.take(&TAINT_POLICIES),
            leases: taken.take(&LEASES),
            held: Held::default(),
            counts: crate::quota::Counts::default(),
            impersonation_fails: crate::unified_auth::Failing::default(),
            rebalancers,
            witnesses: crate::cluster::witness::Witnesses::new(&settings.failover.health.connectivity_witnesses),
            heard: crate::cluster::monitor::Heard::default(),
            taint_policy: taint_policy::State::default(),
            taint_manager: taint_manager::State::new(setup.metrics.eviction.source()),
            scheduler,
            waiting: WaitingTemplates::default(),
            quota_status,
            rebalancer_status,
            queues,
            unhealthy,
            setup,
        })
    }

    /// Starts the watches of the fixed kinds and waits until their first lists are complete.
    pub(crate) async fn start_informers(&self) {
        self.caches.start(&self.plane, &self.seam);
        self.caches.synced().await;
    }

    /// True once every fixed kind is listed.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.caches.is_synced()
    }

    /// What `/metrics` shows.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.setup.metrics.registry()
    }

    /// Answers what a kind's replicas, health and status are, for one decision.
    pub(crate) fn interpreter(&self) -> Interpreter {
        self.interpreters.for_a_decision()
    }

    /// All clusters by name, as decisions take them: one snapshot, made anew when a cluster changes.
    pub(crate) fn all_clusters(&self) -> Arc<Clusters> {
        self.fleet.all()
    }

    /// True if no reconciler has anything to do and no status waits to be written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        // Bindings that no cluster fits look again after minutes, to find what they know.
        self.queues.is_empty()
            && self.queues.scheduler.len() <= self.scheduler.waiting().unfit()
            && self.bindings.is_quiet()
            && self.work_status.is_quiet()
            && self.cluster_status.is_quiet()
            && self.quota_status.is_quiet()
            && self.rebalancer_status.is_quiet()
            && self.template_status.is_quiet()
            && self.evictions_are_quiet()
            && self.members.list().iter().all(|m| m.works.is_empty() && m.statuses.is_empty())
    }
}
