//! The kinds that a cluster's controllers watch. A controller takes those that it reads from
//! [`crate::Cluster::caches`].

use ironclad_runtime::{Api, CacheSpec, Indexer, Key, Scope, WatchScope};
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    certificates::v1::CertificateSigningRequest,
    core::v1::{
        ConfigMap, Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
        ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    },
    discovery::v1::EndpointSlice,
    networking::v1::Ingress,
    policy::v1::PodDisruptionBudget,
    rbac::v1::ClusterRole,
};
use kube::{Client, Resource, core::PartialObjectMeta};

use crate::{
    bootstrap::names::{self, CLUSTER_INFO, INFO_NAMESPACE, TOKEN_NAMESPACE},
    namespace::{DEFAULT_SERVICE_ACCOUNT, ROOT_CA},
    owner::{BY_CONTROLLER, ORPHANS, index_by_controller, index_orphans},
    pods::node_of,
    token::SECRET_TYPE,
};

/// The index of pods by the node that they run on.
pub const BY_NODE: &str = "node";

/// The index of volumes by `NAMESPACE/NAME` of the claim that they are for.
pub const BY_CLAIM: &str = "claim";

fn index_by_node(pod: &Pod) -> Vec<String> {
    Some(node_of(pod)).filter(|node| !node.is_empty()).map(str::to_owned).into_iter().collect()
}

fn index_by_claim(volume: &PersistentVolume) -> Vec<String> {
    let claim = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    let key = |r: &ObjectReference| {
        Key::new(r.namespace.as_deref().unwrap_or(""), r.name.as_deref().unwrap_or("")).to_string()
    };
    claim.map(key).into_iter().collect()
}

/// All objects of a kind.
const fn all<K>(name: &'static str, indexes: &'static [Indexer<K>]) -> CacheSpec<K>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    CacheSpec { name, api: everywhere, scope: |_| WatchScope::default(), indexes, transform: None }
}

/// The objects of a kind that a field selector selects.
const fn some<K>(name: &'static str, scope: fn(&Scope) -> WatchScope) -> CacheSpec<K>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    CacheSpec { name, api: everywhere, scope, indexes: &[], transform: None }
}

fn everywhere<K: Resource<DynamicType = ()>>(client: &Client, _: &Scope) -> Api<K> {
    Api::all(client.clone())
}

fn bootstrap_tokens(client: &Client, _: &Scope) -> Api<Secret> {
    Api::namespaced(client.clone(), TOKEN_NAMESPACE)
}

fn cluster_infos(client: &Client, _: &Scope) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), INFO_NAMESPACE)
}

fn with_field(name: &str, value: &str) -> WatchScope {
    WatchScope { fields: Some(format!("{name}={value}")), labels: None }
}

/// Pods, also [`BY_NODE`].
pub static PODS: CacheSpec<Pod> =
    all("pods", &[(BY_CONTROLLER, index_by_controller), (ORPHANS, index_orphans), (BY_NODE, index_by_node)]);
pub static NODES: CacheSpec<Node> = all("nodes", &[]);
pub static CLAIMS: CacheSpec<PersistentVolumeClaim> = all("persistentvolumeclaims", &[]);
/// PersistentVolumes, also [`BY_CLAIM`].
pub static VOLUMES: CacheSpec<PersistentVolume> = all("persistentvolumes", &[(BY_CLAIM, index_by_claim)]);
pub(crate) static NAMESPACES: CacheSpec<Namespace> = all("namespaces", &[]);
pub(crate) static SERVICE_ACCOUNTS: CacheSpec<ServiceAccount> =
    some("serviceaccounts", |_| with_field("metadata.name", DEFAULT_SERVICE_ACCOUNT));
pub(crate) static ROOT_CAS: CacheSpec<ConfigMap> = some("configmaps", |_| with_field("metadata.name", ROOT_CA));
pub(crate) static TOKEN_SECRETS: CacheSpec<Secret> = some("secrets", |_| with_field("type", SECRET_TYPE));
/// Secrets of bootstrap tokens.
pub(crate) static BOOTSTRAP_TOKENS: CacheSpec<Secret> = CacheSpec {
    name: "secrets/bootstrap-tokens",
    api: bootstrap_tokens,
    scope: |_| with_field("type", names::SECRET_TYPE),
    indexes: &[],
    transform: None,
};
/// The ConfigMap `kube-public/cluster-info`.
pub(crate) static CLUSTER_INFOS: CacheSpec<ConfigMap> = CacheSpec {
    name: "configmaps/cluster-info",
    api: cluster_infos,
    scope: |_| with_field("metadata.name", CLUSTER_INFO),
    indexes: &[],
    transform: None,
};
pub(crate) static RESOURCE_QUOTAS: CacheSpec<ResourceQuota> = all("resourcequotas", &[]);
pub(crate) static REPLICA_SETS: CacheSpec<ReplicaSet> =
    all("replicasets", &[(BY_CONTROLLER, index_by_controller), (ORPHANS, index_orphans)]);
pub(crate) static REPLICATION_CONTROLLERS: CacheSpec<ReplicationController> =
    all("replicationcontrollers", &[(BY_CONTROLLER, index_by_controller)]);
pub(crate) static DEPLOYMENTS: CacheSpec<Deployment> = all("deployments", &[]);
pub(crate) static STATEFUL_SETS: CacheSpec<StatefulSet> = all("statefulsets", &[]);
pub(crate) static DAEMON_SETS: CacheSpec<DaemonSet> = all("daemonsets", &[]);
pub(crate) static REVISIONS: CacheSpec<ControllerRevision> =
    all("controllerrevisions", &[(BY_CONTROLLER, index_by_controller)]);
pub(crate) static JOBS: CacheSpec<Job> = all("jobs", &[(BY_CONTROLLER, index_by_controller)]);
pub(crate) static CRON_JOBS: CacheSpec<CronJob> = all("cronjobs", &[]);
pub static SERVICES: CacheSpec<Service> = all("services", &[]);
pub static INGRESSES: CacheSpec<Ingress> = all("ingresses", &[]);
/// ConfigMaps without their data.
pub static CONFIG_MAP_NAMES: CacheSpec<PartialObjectMeta<ConfigMap>> = all("configmaps/metadata", &[]);
/// Secrets without their data.
pub static SECRET_NAMES: CacheSpec<PartialObjectMeta<Secret>> = all("secrets/metadata", &[]);
pub(crate) static ENDPOINT_SLICES: CacheSpec<EndpointSlice> =
    all("endpointslices", &[(BY_CONTROLLER, index_by_controller)]);
pub(crate) static DISRUPTION_BUDGETS: CacheSpec<PodDisruptionBudget> = all("poddisruptionbudgets", &[]);
pub(crate) static CLUSTER_ROLES: CacheSpec<ClusterRole> = all("clusterroles", &[]);
pub(crate) static AUTOSCALERS: CacheSpec<HorizontalPodAutoscaler> = all("horizontalpodautoscalers", &[]);
pub(crate) static CERTIFICATE_REQUESTS: CacheSpec<CertificateSigningRequest> = all("certificatesigningrequests", &[]);
