//! What every reconciler of one process shares: caches, writers of status, members and queues.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    apps::WorkloadRebalancer,
    cluster::Cluster,
    labels, names, namespaces,
    policy::{
        ClusterOverridePolicy, ClusterPropagationPolicy, ClusterTaintPolicy, FederatedResourceQuota, OverridePolicy,
        PropagationPolicy,
    },
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, Work},
};
use ironclad_fleet::{ClusterName, Event, EventType, ObjectKey, StatusPart};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{dependencies::dependents, quota};
use ironclad_runtime::{
    Change, EventAbout, EventType as RecordedType, Indexer, Informer, Key, Recorder, StatusWriter, WatchScope, Writer,
};
use ironclad_scheduling::Clusters;
use ironclad_seam::Seam;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Secret},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
    scheduling::v1::PriorityClass,
};
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::RwLock;

use crate::{
    Queues,
    application_failover::Memories,
    binding::Held,
    binding_status::binding_of,
    bindings::json,
    detector::WaitingTemplates,
    interpreter::Interpreters,
    kinds::Definition,
    mapper::Mapper,
    members::{Connector, Members},
    metrics::Metrics,
    objects::Objects,
    selected,
    settings::Settings,
    taint_manager, taint_policy,
    targets::{Templates, Typed},
};

/// Works of one binding, by its permanent id.
pub(crate) const BY_BINDING: &str = "binding";
/// Bindings of one template, by `apiVersion/kind/namespace/name`; objects claimed by one policy, by its permanent id.
pub(crate) const BY_TEMPLATE: &str = "template";
/// Bindings claimed by one policy, by its permanent id.
pub(crate) const BY_POLICY: &str = "policy";
/// Bindings that are leaving clusters, by the clusters that they leave and those that they go to.
pub(crate) const LEAVING: &str = "leaving";

/// Bindings by the clusters of their result.
pub(crate) const BY_TARGET: &str = "target";
/// Bindings by what they recorded as dependencies ([`dependents::recorded`]).
pub(crate) const BY_DEPENDENCY: &str = "dependency";
/// Works of one FederatedResourceQuota, by its namespace and name.
pub(crate) const BY_QUOTA: &str = "quota";
/// Attached bindings by the labels that name who needs them.
pub(crate) const BY_DEPENDENT: &str = "dependent";

/// What the reconcilers share. Everything that runs is a task of `seam.tasks`.
pub struct Context {
    /// Time, chance and the owner of all tasks.
    pub seam: Seam,
    /// The control plane.
    pub plane: Client,
    /// Which kinds the control plane serves.
    pub mapper: Arc<Mapper>,
    /// Makes clients of members.
    pub connector: Arc<dyn Connector>,
    /// Answers what a kind's replicas, health and status are: read through [`Context::interpreter`].
    pub interpreters: Interpreters,

    /// All PropagationPolicies.
    pub policies: Informer<PropagationPolicy>,
    /// All ClusterPropagationPolicies.
    pub cluster_policies: Informer<ClusterPropagationPolicy>,
    /// All OverridePolicies.
    pub overrides: Informer<OverridePolicy>,
    /// All ClusterOverridePolicies.
    pub cluster_overrides: Informer<ClusterOverridePolicy>,
    /// All ResourceBindings.
    pub bindings: Informer<ResourceBinding>,
    /// All ClusterResourceBindings.
    pub cluster_bindings: Informer<ClusterResourceBinding>,
    /// All Works.
    pub works: Informer<Work>,
    /// All Clusters.
    pub clusters: Informer<Cluster>,
    /// The credentials of members: Secrets of namespace `karmada-cluster`.
    pub secrets: Informer<Secret>,
    /// All Namespaces: the execution spaces among them.
    pub namespaces: Informer<Namespace>,
    /// All PriorityClasses of the control plane.
    pub priority_classes: Informer<PriorityClass>,
    /// All CustomResourceDefinitions, by name only.
    pub(crate) definitions: Informer<Definition>,
    /// All ClusterRoles of the control plane.
    pub cluster_roles: Informer<ClusterRole>,
    /// All ClusterRoleBindings of the control plane.
    pub cluster_role_bindings: Informer<ClusterRoleBinding>,
    /// All FederatedResourceQuotas.
    pub quotas: Informer<FederatedResourceQuota>,
    /// All WorkloadRebalancers.
    pub rebalancers: Informer<WorkloadRebalancer>,
    /// All ClusterTaintPolicies.
    pub taint_policies: Informer<ClusterTaintPolicy>,
    /// The leases of agents: those of namespace `karmada-cluster`.
    pub leases: Informer<Lease>,
    /// Templates of the kinds that some policy or binding names.
    pub templates: Arc<Objects>,
    /// The bindings whose Works wait for the scheduler.
    pub(crate) held: Held,
    /// For how long quotas have been counted as they are.
    pub(crate) counts: crate::quota::Counts,
    /// Of which clusters it was told that impersonation could not be set up.
    pub(crate) impersonation_fails: crate::unified_auth::Failing,
    /// The templates that wait for a policy.
    pub waiting: WaitingTemplates,
    /// The members that can be reached.
    pub members: Members,

    /// Writes the status of ResourceBindings.
    pub binding_status: StatusWriter<Typed<ResourceBinding>>,
    /// Writes the status of ClusterResourceBindings.
    pub cluster_binding_status: StatusWriter<Typed<ClusterResourceBinding>>,
    /// Writes the status of Works.
    pub work_status: StatusWriter<Typed<Work>>,
    /// Writes the status of Clusters.
    pub cluster_status: StatusWriter<Typed<Cluster>>,
    /// Writes the status of FederatedResourceQuotas.
    pub quota_status: StatusWriter<Typed<FederatedResourceQuota>>,
    /// Writes the status of WorkloadRebalancers.
    pub rebalancer_status: StatusWriter<Typed<WorkloadRebalancer>>,
    /// Writes the status of templates.
    pub template_status: StatusWriter<Templates>,
    /// Writes events.
    pub recorder: Recorder,

    /// What the flags say.
    pub settings: Arc<Settings>,
    /// What is counted and measured.
    pub metrics: Metrics,

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
    clusters_by_name: RwLock<Arc<Clusters>>,
    leaving: RwLock<BTreeSet<ClusterName>>,
}

impl Context {
    /// Makes caches and writers; watches run from [`Context::start_informers`] on.
    #[must_use]
    pub fn new(plane: Client, seam: Seam, connector: Arc<dyn Connector>, settings: Settings) -> Arc<Self> {
        let metrics = Metrics::new();
        let interpreters = Interpreters::new(&seam, &metrics.interpreter);
        let mapper = Arc::new(Mapper::new(plane.clone(), seam.clock.clone()));
        let unhealthy = Memories::new(&seam.clock);
        let queues = Queues::new(&seam, &metrics.work);
        metrics.scheduler.watch(&queues.scheduler);
        let scheduler = crate::scheduler::State::new(&settings, seam.clock.clone(), metrics.scheduler.waiting());
        let settings = Arc::new(settings);
        let by_template: Indexer<ResourceBinding> = (BY_TEMPLATE, |b| vec![template_of(&b.spec)]);
        let bindings: Informer<ResourceBinding> = Informer::new(&[
            by_template,
            (BY_POLICY, |b| policy_ids(b)),
            (BY_DEPENDENCY, |b| dependents::recorded(&b.metadata)),
            (BY_DEPENDENT, |b| dependents::edges(&b.metadata)),
            (LEAVING, |b| leaving(&b.spec)),
            (BY_TARGET, |b| target_names(&b.spec)),
        ]);
        let by_template: Indexer<ClusterResourceBinding> = (BY_TEMPLATE, |b| vec![template_of(&b.spec)]);
        let cluster_bindings: Informer<ClusterResourceBinding> = Informer::new(&[
            by_template,
            (BY_POLICY, |b| policy_ids(b)),
            (BY_DEPENDENCY, |b| dependents::recorded(&b.metadata)),
            (LEAVING, |b| leaving(&b.spec)),
            (BY_TARGET, |b| target_names(&b.spec)),
        ]);
        let dependents = crate::dependencies::Wakes {
            queue: queues.dependencies.clone(),
            bindings: bindings.clone(),
            cluster_bindings: cluster_bindings.clone(),
        };
        let templates = Arc::new(Objects::new(
            plane.clone(),
            mapper.clone(),
            &seam,
            seam.tasks.child("templates"),
            WatchScope::default(),
            crate::detector::on_template(queues.clone(), settings.clone(), dependents),
            Box::new(crate::objects::templates),
        ));
        let rebalancers = Informer::new(&[]);
        let works_by_binding: Indexer<Work> = (BY_BINDING, binding_ids);
        let works = Informer::new(&[works_by_binding, (BY_QUOTA, quota::of_work)]);
        let clusters = Informer::new(&[]);
        let typed = |name: &str| Writer::new(name);
        let binding_status = StatusWriter::start(
            "status/bindings",
            &seam,
            Typed {
                client: plane.clone(),
                cache: bindings.clone(),
                writer: typed("bindingStatus"),
                api: |client, namespace| Api::namespaced(client.clone(), namespace),
                status: |b: &ResourceBinding| json(&b.status),
            },
        );
        let cluster_binding_status = StatusWriter::start(
            "status/clusterbindings",
            &seam,
            Typed {
                client: plane.clone(),
                cache: cluster_bindings.clone(),
                writer: typed("bindingStatus"),
                api: |client, _| Api::all(client.clone()),
                status: |b: &ClusterResourceBinding| json(&b.status),
            },
        );
        let work_status = StatusWriter::start(
            "status/works",
            &seam,
            Typed {
                client: plane.clone(),
                cache: works.clone(),
                writer: typed("workStatus"),
                api: |client, namespace| Api::namespaced(client.clone(), namespace),
                status: |w: &Work| json(&w.status),
            },
        );
        let cluster_status = StatusWriter::start(
            "status/clusters",
            &seam,
            Typed {
                client: plane.clone(),
                cache: clusters.clone(),
                writer: typed("clusterStatus"),
                api: |client, _| Api::all(client.clone()),
                status: |c: &Cluster| json(&c.status),
            },
        );
        let quotas = Informer::new(&[]);
        let quota_status = StatusWriter::start(
            "status/quotas",
            &seam,
            Typed {
                client: plane.clone(),
                cache: quotas.clone(),
                writer: typed("federatedResourceQuota"),
                api: |client, namespace| Api::namespaced(client.clone(), namespace),
                status: |q: &FederatedResourceQuota| json(&q.status),
            },
        );
        let rebalancer_status = StatusWriter::start(
            "status/rebalancers",
            &seam,
            Typed {
                client: plane.clone(),
                cache: rebalancers.clone(),
                writer: typed("workloadRebalancer"),
                api: |client, _| Api::all(client.clone()),
                status: |r: &WorkloadRebalancer| json(&r.status),
            },
        );
        let template_status = StatusWriter::start(
            "status/templates",
            &seam,
            Templates { objects: templates.clone(), writer: typed("bindingStatus") },
        );
        Arc::new(Self {
            recorder: Recorder::new(plane.clone(), &seam, "ironclad"),
            seam,
            plane,
            mapper,
            connector,
            interpreters,
            policies: selected::informer(),
            cluster_policies: selected::informer(),
            overrides: selected::informer(),
            cluster_overrides: selected::informer(),
            bindings,
            cluster_bindings,
            works,
            clusters,
            secrets: Informer::new(&[]),
            namespaces: Informer::new(&[]),
            cluster_roles: Informer::new(&[]),
            cluster_role_bindings: Informer::new(&[]),
            quotas,
            priority_classes: Informer::new(&[]),
            definitions: Informer::new(&[]),
            held: Held::default(),
            counts: crate::quota::Counts::default(),
            impersonation_fails: crate::unified_auth::Failing::default(),
            rebalancers,
            taint_policies: Informer::new(&[]),
            leases: Informer::new(&[]),
            witnesses: crate::cluster::witness::Witnesses::new(&settings.failover.health.connectivity_witnesses),
            heard: crate::cluster::monitor::Heard::default(),
            taint_policy: taint_policy::State::default(),
            taint_manager: taint_manager::State::new(metrics.eviction.source()),
            scheduler,
            templates,
            waiting: WaitingTemplates::default(),
            members: Members::default(),
            binding_status,
            cluster_binding_status,
            work_status,
            cluster_status,
            quota_status,
            rebalancer_status,
            template_status,
            settings,
            metrics,
            queues,
            unhealthy,
            clusters_by_name: RwLock::default(),
            leaving: RwLock::default(),
        })
    }

    /// Starts the watches of the fixed kinds and waits until their first lists are complete.
    pub async fn start_informers(&self) {
        let (seam, tasks, all) = (&self.seam, &self.seam.tasks, WatchScope::default());
        self.policies.start("propagationpolicies", seam, tasks, Api::all(self.plane.clone()), &all);
        self.cluster_policies.start("clusterpropagationpolicies", seam, tasks, Api::all(self.plane.clone()), &all);
        self.overrides.start("overridepolicies", seam, tasks, Api::all(self.plane.clone()), &all);
        self.cluster_overrides.start("clusteroverridepolicies", seam, tasks, Api::all(self.plane.clone()), &all);
        self.clusters.start("clusters", seam, tasks, Api::all(self.plane.clone()), &all);
        let secrets = Api::namespaced(self.plane.clone(), namespaces::CLUSTER);
        self.secrets.start("secrets", seam, tasks, secrets, &all);
        self.namespaces.start("namespaces", seam, tasks, Api::all(self.plane.clone()), &all);
        self.taint_policies.start("clustertaintpolicies", seam, tasks, Api::all(self.plane.clone()), &all);
        let leases = Api::namespaced(self.plane.clone(), namespaces::CLUSTER);
        self.leases.start("leases", seam, tasks, leases, &all);
        self.bindings.start("resourcebindings", seam, tasks, Api::all(self.plane.clone()), &all);
        let cluster_bindings = Api::all(self.plane.clone());
        self.cluster_bindings.start("clusterresourcebindings", seam, tasks, cluster_bindings, &all);
        self.works.start("works", seam, tasks, Api::all(self.plane.clone()), &all);
        self.priority_classes.start("priorityclasses", seam, tasks, Api::all(self.plane.clone()), &all);
        self.definitions.start("customresourcedefinitions", seam, tasks, Api::all(self.plane.clone()), &all);
        self.cluster_roles.start("clusterroles", seam, tasks, Api::all(self.plane.clone()), &all);
        let role_bindings = Api::all(self.plane.clone());
        self.cluster_role_bindings.start("clusterrolebindings", seam, tasks, role_bindings, &all);
        self.quotas.start("federatedresourcequotas", seam, tasks, Api::all(self.plane.clone()), &all);
        self.rebalancers.start("workloadrebalancers", seam, tasks, Api::all(self.plane.clone()), &all);
        self.interpreters.start(seam, &self.plane);
        self.interpreters.synced().await;
        self.policies.synced().await;
        self.cluster_policies.synced().await;
        self.overrides.synced().await;
        self.cluster_overrides.synced().await;
        self.clusters.synced().await;
        self.secrets.synced().await;
        self.namespaces.synced().await;
        self.taint_policies.synced().await;
        self.leases.synced().await;
        self.bindings.synced().await;
        self.cluster_bindings.synced().await;
        self.works.synced().await;
        self.rebalancers.synced().await;
        self.cluster_roles.synced().await;
        self.cluster_role_bindings.synced().await;
        self.quotas.synced().await;
        self.priority_classes.synced().await;
        self.definitions.synced().await;
    }

    /// True once every fixed kind is listed.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.interpreters.is_synced()
            && self.policies.is_synced()
            && self.cluster_policies.is_synced()
            && self.overrides.is_synced()
            && self.cluster_overrides.is_synced()
            && self.clusters.is_synced()
            && self.secrets.is_synced()
            && self.namespaces.is_synced()
            && self.taint_policies.is_synced()
            && self.leases.is_synced()
            && self.bindings.is_synced()
            && self.cluster_bindings.is_synced()
            && self.works.is_synced()
            && self.rebalancers.is_synced()
            && self.cluster_roles.is_synced()
            && self.cluster_role_bindings.is_synced()
            && self.quotas.is_synced()
            && self.priority_classes.is_synced()
            && self.definitions.is_synced()
    }

    /// Answers what a kind's replicas, health and status are, for one decision.
    #[must_use]
    pub fn interpreter(&self) -> Interpreter {
        self.interpreters.for_a_decision()
    }

    /// All clusters by name, as decisions take them: one snapshot, made anew when a cluster changes.
    #[must_use]
    pub fn all_clusters(&self) -> Arc<Clusters> {
        self.clusters_by_name.read().clone()
    }

    /// Takes one changed cluster into the snapshot; the map is copied only while a decision still reads the one before.
    pub(crate) fn refresh_cluster(&self, change: &Change<Cluster>) {
        let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let name = ClusterName::from(cluster.name_any().as_str());
        let leaves = change.new.as_ref().is_some_and(|c| c.metadata.deletion_timestamp.is_some());
        let mut leaving = self.leaving.write();
        if leaves {
            leaving.insert(name.clone())
        } else {
            leaving.remove(&name)
        };
        let mut all = self.clusters_by_name.write();
        let all = Arc::make_mut(&mut all);
        match &change.new {
            Some(new) => all.insert(name, new.clone()),
            None => all.remove(&name),
        };
    }

    /// The clusters that are being deleted.
    pub(crate) fn leaving_clusters(&self) -> BTreeSet<ClusterName> {
        self.leaving.read().clone()
    }

    /// The Work with its status as it will stand once what is held back is written.
    #[must_use]
    pub fn work_as_written(&self, work: &Arc<Work>) -> Arc<Work> {
        let uid = work.metadata.uid.as_deref().unwrap_or_default();
        match self.work_status.read(&Key::of(&**work), uid, || json(&work.status)) {
            None => work.clone(),
            Some(status) => Arc::new(Work { status: serde_json::from_value(status).ok(), ..(**work).clone() }),
        }
    }

    /// Has a part of a Work's status written. Its binding gets a turn at once: it reads back what is still held.
    pub(crate) fn want_work_status(&self, work: &Work, contributor: &'static str, part: StatusPart, urgent: bool) {
        let uid = work.metadata.uid.as_deref().unwrap_or_default();
        self.work_status.want(&Key::of(work), uid, contributor, part, urgent);
        if let Some(binding) = binding_of(work) {
            self.queues.binding_status.add(binding);
        }
    }

    /// Has an event written.
    pub fn emit(&self, event: &Event) {
        let about = EventAbout {
            api_version: event.about.api_version.clone(),
            kind: event.about.kind.clone(),
            namespace: event.about.namespace.clone(),
            name: event.about.name.clone(),
            uid: event.about.uid.clone(),
        };
        let type_ = match event.type_ {
            EventType::Normal => RecordedType::Normal,
            EventType::Warning => RecordedType::Warning,
        };
        self.recorder.record(&about, type_, event.reason, &event.message);
    }

    /// True if no reconciler has anything to do and no status waits to be written.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        // Bindings that no cluster fits look again after minutes, to find what they know.
        self.queues.is_empty()
            && self.queues.scheduler.len() <= self.scheduler.waiting().unfit()
            && self.binding_status.is_quiet()
            && self.cluster_binding_status.is_quiet()
            && self.work_status.is_quiet()
            && self.cluster_status.is_quiet()
            && self.quota_status.is_quiet()
            && self.rebalancer_status.is_quiet()
            && self.template_status.is_quiet()
            && self.evictions_are_quiet()
            && self.members.list().iter().all(|m| m.works.is_empty() && m.statuses.is_empty())
    }
}

/// The clusters of a binding's result.
fn target_names(spec: &ResourceBindingSpec) -> Vec<String> {
    spec.clusters.iter().map(|target| target.name.clone()).collect()
}

/// How a binding's template is named in the index.
#[must_use]
pub(crate) fn template_of(spec: &ResourceBindingSpec) -> String {
    let r = &spec.resource;
    index_name(&r.api_version, &r.kind, &r.namespace, &r.name)
}

/// How a template is named in the index.
#[must_use]
pub(crate) fn template_name(key: &ObjectKey) -> String {
    index_name(&key.gvk.api_version(), &key.gvk.kind, &key.namespace, &key.name)
}

fn index_name(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{api_version}/{kind}/{namespace}/{name}")
}

/// The cluster whose execution space holds the Work.
#[must_use]
pub(crate) fn cluster_of(work: &Work) -> Option<ClusterName> {
    names::cluster_of_execution_namespace(work.metadata.namespace.as_deref()?).ok().map(ClusterName::from)
}

/// The clusters that a binding with eviction tasks leaves, and those that it goes to.
fn leaving(spec: &ResourceBindingSpec) -> Vec<String> {
    let left = spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.clone());
    let mut all: Vec<String> = left.collect();
    if !all.is_empty() {
        all.extend(spec.clusters.iter().map(|target| target.name.clone()));
        all.sort();
        all.dedup();
    }
    all
}

/// The ids of the policies that claim an object.
pub(crate) fn policy_ids<K: Resource>(object: &K) -> Vec<String> {
    let mut ids = label(object, labels::PROPAGATION_POLICY_PERMANENT_ID);
    ids.extend(label(object, labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID));
    ids
}

/// The permanent ids of the binding that a Work belongs to.
fn binding_ids(work: &Work) -> Vec<String> {
    let mut ids = label(work, labels::RESOURCE_BINDING_PERMANENT_ID);
    ids.extend(label(work, labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID));
    ids
}

/// The value of a label as an index wants it.
pub(crate) fn label<K: Resource>(object: &K, label: &str) -> Vec<String> {
    object.labels().get(label).filter(|v| !v.is_empty()).cloned().into_iter().collect()
}
