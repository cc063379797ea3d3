//! Shared informers of a cluster's controllers: one watch for each kind that a controller needs.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ironclad_runtime::{Indexer, Informer, Key, WatchScope};
use ironclad_seam::Seam;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    certificates::v1::CertificateSigningRequest,
    core::v1::{
        ConfigMap, Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
        ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
    rbac::v1::ClusterRole,
};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::{
    owner::{BY_CONTROLLER, ORPHANS, index_by_controller, index_orphans},
    pods::node_of,
};

/// The index of pods by the node that they run on.
pub const BY_NODE: &str = "node";

/// The index of volumes by `NAMESPACE/NAME` of the claim that they are for.
pub const BY_CLAIM: &str = "claim";

fn index_by_claim(volume: &PersistentVolume) -> Vec<String> {
    let claim = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    let key = |r: &ObjectReference| {
        Key::new(r.namespace.as_deref().unwrap_or(""), r.name.as_deref().unwrap_or("")).to_string()
    };
    claim.map(key).into_iter().collect()
}

/// Informers of one cluster. Cheap to clone. Take the informer of a kind and add handlers first, then call
/// [`Caches::start`]: no event is missed.
#[derive(Clone)]
pub struct Caches(Arc<Kinds>);

struct Kinds {
    pods: Lazy<Pod>,
    nodes: Lazy<Node>,
    namespaces: Lazy<Namespace>,
    service_accounts: Lazy<ServiceAccount>,
    root_cas: Lazy<ConfigMap>,
    token_secrets: Lazy<Secret>,
    replica_sets: Lazy<ReplicaSet>,
    deployments: Lazy<Deployment>,
    stateful_sets: Lazy<StatefulSet>,
    daemon_sets: Lazy<DaemonSet>,
    revisions: Lazy<ControllerRevision>,
    jobs: Lazy<Job>,
    cron_jobs: Lazy<CronJob>,
    claims: Lazy<PersistentVolumeClaim>,
    volumes: Lazy<PersistentVolume>,
    services: Lazy<Service>,
    endpoint_slices: Lazy<EndpointSlice>,
    disruption_budgets: Lazy<PodDisruptionBudget>,
    cluster_roles: Lazy<ClusterRole>,
    autoscalers: Lazy<HorizontalPodAutoscaler>,
    certificate_requests: Lazy<CertificateSigningRequest>,
}

struct Lazy<K> {
    name: &'static str,
    informer: Informer<K>,
    scope: WatchScope,
    wanted: AtomicBool,
}

impl<K> Lazy<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    fn new(name: &'static str, indexes: &[Indexer<K>]) -> Self {
        let scope = WatchScope::default();
        Self { name, informer: Informer::new(indexes), scope, wanted: AtomicBool::new(false) }
    }

    /// Creates an informer of the object with this name.
    fn named(name: &'static str, object: &str) -> Self {
        Self::with_field(name, &format!("metadata.name={object}"))
    }

    /// Creates an informer of objects with this field.
    fn with_field(name: &'static str, field: &str) -> Self {
        let scope = WatchScope { fields: Some(field.to_owned()), labels: None };
        Self { scope, ..Self::new(name, &[]) }
    }

    fn informer(&self) -> Informer<K> {
        self.wanted.store(true, Ordering::Relaxed);
        self.informer.clone()
    }

    fn start(&self, client: &Client, seam: &Seam) {
        if self.wanted.load(Ordering::Relaxed) {
            self.informer.start(self.name, seam, &seam.tasks, Api::all(client.clone()), &self.scope);
        }
    }
}

impl Default for Caches {
    fn default() -> Self {
        Self(Arc::new(Kinds {
            pods: Lazy::new(
                "pods",
                &[
                    (BY_CONTROLLER, index_by_controller),
                    (ORPHANS, index_orphans),
                    (BY_NODE, |pod| {
                        Some(node_of(pod)).filter(|n| !n.is_empty()).map(str::to_owned).into_iter().collect()
                    }),
                ],
            ),
            nodes: Lazy::new("nodes", &[]),
            namespaces: Lazy::new("namespaces", &[]),
            service_accounts: Lazy::named("serviceaccounts", crate::namespace::DEFAULT_SERVICE_ACCOUNT),
            root_cas: Lazy::named("configmaps", crate::namespace::ROOT_CA),
            token_secrets: Lazy::with_field("secrets", &format!("type={}", crate::token::SECRET_TYPE)),
            replica_sets: Lazy::new("replicasets", &[(BY_CONTROLLER, index_by_controller), (ORPHANS, index_orphans)]),
            deployments: Lazy::new("deployments", &[]),
            stateful_sets: Lazy::new("statefulsets", &[]),
            daemon_sets: Lazy::new("daemonsets", &[]),
            revisions: Lazy::new("controllerrevisions", &[(BY_CONTROLLER, index_by_controller)]),
            cron_jobs: Lazy::new("cronjobs", &[]),
            claims: Lazy::new("persistentvolumeclaims", &[]),
            volumes: Lazy::new("persistentvolumes", &[(BY_CLAIM, index_by_claim)]),
            jobs: Lazy::new("jobs", &[(BY_CONTROLLER, index_by_controller)]),
            services: Lazy::new("services", &[]),
            endpoint_slices: Lazy::new("endpointslices", &[(BY_CONTROLLER, index_by_controller)]),
            disruption_budgets: Lazy::new("poddisruptionbudgets", &[]),
            cluster_roles: Lazy::new("clusterroles", &[]),
            autoscalers: Lazy::new("horizontalpodautoscalers", &[]),
            certificate_requests: Lazy::new("certificatesigningrequests", &[]),
        }))
    }
}

impl Caches {
    /// Pods, also [`BY_NODE`].
    #[must_use]
    pub fn pods(&self) -> Informer<Pod> {
        self.0.pods.informer()
    }

    /// Nodes.
    #[must_use]
    pub fn nodes(&self) -> Informer<Node> {
        self.0.nodes.informer()
    }

    /// Claims for storage.
    #[must_use]
    pub fn claims(&self) -> Informer<PersistentVolumeClaim> {
        self.0.claims.informer()
    }

    /// Volumes, also [`BY_CLAIM`].
    #[must_use]
    pub fn volumes(&self) -> Informer<PersistentVolume> {
        self.0.volumes.informer()
    }

    pub(crate) fn namespaces(&self) -> Informer<Namespace> {
        self.0.namespaces.informer()
    }

    pub(crate) fn service_accounts(&self) -> Informer<ServiceAccount> {
        self.0.service_accounts.informer()
    }

    pub(crate) fn root_cas(&self) -> Informer<ConfigMap> {
        self.0.root_cas.informer()
    }

    pub(crate) fn token_secrets(&self) -> Informer<Secret> {
        self.0.token_secrets.informer()
    }

    pub(crate) fn replica_sets(&self) -> Informer<ReplicaSet> {
        self.0.replica_sets.informer()
    }

    pub(crate) fn deployments(&self) -> Informer<Deployment> {
        self.0.deployments.informer()
    }

    pub(crate) fn stateful_sets(&self) -> Informer<StatefulSet> {
        self.0.stateful_sets.informer()
    }

    pub(crate) fn daemon_sets(&self) -> Informer<DaemonSet> {
        self.0.daemon_sets.informer()
    }

    pub(crate) fn revisions(&self) -> Informer<ControllerRevision> {
        self.0.revisions.informer()
    }

    pub(crate) fn jobs(&self) -> Informer<Job> {
        self.0.jobs.informer()
    }

    pub(crate) fn cron_jobs(&self) -> Informer<CronJob> {
        self.0.cron_jobs.informer()
    }

    pub(crate) fn services(&self) -> Informer<Service> {
        self.0.services.informer()
    }

    pub(crate) fn endpoint_slices(&self) -> Informer<EndpointSlice> {
        self.0.endpoint_slices.informer()
    }

    pub(crate) fn disruption_budgets(&self) -> Informer<PodDisruptionBudget> {
        self.0.disruption_budgets.informer()
    }

    pub(crate) fn certificate_requests(&self) -> Informer<CertificateSigningRequest> {
        self.0.certificate_requests.informer()
    }

    pub(crate) fn cluster_roles(&self) -> Informer<ClusterRole> {
        self.0.cluster_roles.informer()
    }

    pub(crate) fn autoscalers(&self) -> Informer<HorizontalPodAutoscaler> {
        self.0.autoscalers.informer()
    }

    /// Starts the watches of all requested kinds, as tasks of this seam.
    pub fn start(&self, client: &Client, seam: &Seam) {
        self.0.pods.start(client, seam);
        self.0.nodes.start(client, seam);
        self.0.namespaces.start(client, seam);
        self.0.service_accounts.start(client, seam);
        self.0.root_cas.start(client, seam);
        self.0.token_secrets.start(client, seam);
        self.0.replica_sets.start(client, seam);
        self.0.deployments.start(client, seam);
        self.0.stateful_sets.start(client, seam);
        self.0.daemon_sets.start(client, seam);
        self.0.revisions.start(client, seam);
        self.0.jobs.start(client, seam);
        self.0.cron_jobs.start(client, seam);
        self.0.claims.start(client, seam);
        self.0.volumes.start(client, seam);
        self.0.services.start(client, seam);
        self.0.endpoint_slices.start(client, seam);
        self.0.disruption_budgets.start(client, seam);
        self.0.certificate_requests.start(client, seam);
        self.0.cluster_roles.start(client, seam);
        self.0.autoscalers.start(client, seam);
    }
}
