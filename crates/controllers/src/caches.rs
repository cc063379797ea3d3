//! The kinds of the control plane that controllers watch. A controller takes those that it reads.

use ironclad_api::{
    HasSpec,
    apps::WorkloadRebalancer,
    autoscaling::{CronFederatedHPA, FederatedHPA},
    cluster::Cluster,
    config::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration},
    labels,
    multicluster::{ServiceExport, ServiceImport},
    names, namespaces,
    networking::{MultiClusterIngress, MultiClusterService},
    policy::{
        ClusterOverridePolicy, ClusterPropagationPolicy, ClusterTaintPolicy, FederatedResourceQuota, OverridePolicy,
        PropagationPolicy,
    },
    remedy::Remedy,
    shared::{BindingPools, ClusterPools},
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, Work},
};
use ironclad_autoscaling::distributed_hpa::{self, target_keys};
use ironclad_failover::taint_manager::PAUSE_CONFIG_MAP;
use ironclad_propagation::{dependencies::dependents, quota, services};
use ironclad_runtime::{Api, CacheSpec, Indexer, Scope, Transform, WatchScope};
use k8s_openapi::{
    api::{
        autoscaling::v2::HorizontalPodAutoscaler,
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace, Secret},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
        scheduling::v1::PriorityClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Client, Resource,
    core::{ClusterResourceScope, NamespaceResourceScope, PartialObjectMeta},
};
use parking_lot::Mutex;

use crate::{
    index::{
        BY_AUTOSCALER, BY_BINDING, BY_DEPENDENCY, BY_DEPENDENT, BY_EVICTION, BY_EXPORT, BY_POLICY, BY_PREEMPTOR,
        BY_QUOTA, BY_SCALED, BY_SERVICE, BY_TARGET, BY_TEMPLATE, binding_ids, evicting, policy_ids, preemptors, scaled,
        target_names, template_name, template_of,
    },
    selected::BY_SELECTED,
};

/// A CustomResourceDefinition without its schemas, which are most of it.
pub(crate) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// All objects of a kind without namespaces.
const fn all<K>(name: &'static str, indexes: &'static [Indexer<K>]) -> CacheSpec<K>
where
    K: ironclad_runtime::Object + Resource<DynamicType = (), Scope = ClusterResourceScope>,
{
    CacheSpec { name, api: everywhere, scope: everything, indexes, transform: None }
}

/// The objects of a kind in the namespaces that the process reads.
const fn within<K>(name: &'static str, indexes: &'static [Indexer<K>]) -> CacheSpec<K>
where
    K: ironclad_runtime::Object + Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    CacheSpec { name, api: within_scope, scope: everything, indexes, transform: None }
}

fn everything(_: &Scope) -> WatchScope {
    WatchScope::default()
}

fn everywhere<K: Resource<DynamicType = ()>>(client: &Client, _: &Scope) -> Api<K> {
    Api::all(client.clone())
}

fn within_scope<K>(client: &Client, scope: &Scope) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    scope.api(client)
}

/// Of all clusters in a control plane, its own in an agent.
fn own_cluster(scope: &Scope) -> WatchScope {
    let own = match scope {
        Scope::All => None,
        Scope::Namespace(space) => names::cluster_of_execution_namespace(space).ok(),
    };
    WatchScope { labels: None, fields: own.map(|cluster| format!("metadata.name={cluster}")) }
}

/// Bindings of one policy share its placement, and those of similar workloads their requirements.
fn share_in_bindings<K: HasSpec<Spec = ResourceBindingSpec>>() -> Transform<K> {
    let pools = Mutex::new(BindingPools::default());
    Box::new(move |new, before| pools.lock().share(new.spec_mut(), before.map(HasSpec::spec)))
}

/// Clusters of one version share what they serve.
fn share_in_clusters() -> Transform<Cluster> {
    let pools = Mutex::new(ClusterPools::default());
    Box::new(move |new, before| pools.lock().share(new, before))
}

/// Objects that belong to the control plane.
fn of_the_system(_: &Scope) -> WatchScope {
    WatchScope { labels: Some(format!("{}={}", labels::SYSTEM, labels::TRUE)), fields: None }
}

macro_rules! by_selected {
    () => {
        &[(BY_SELECTED, |policy| crate::selected::values(policy))]
    };
}

pub(crate) static POLICIES: CacheSpec<PropagationPolicy> = within("propagationpolicies", by_selected!());
pub(crate) static CLUSTER_POLICIES: CacheSpec<ClusterPropagationPolicy> =
    all("clusterpropagationpolicies", by_selected!());
pub(crate) static OVERRIDES: CacheSpec<OverridePolicy> = within("overridepolicies", by_selected!());
pub(crate) static CLUSTER_OVERRIDES: CacheSpec<ClusterOverridePolicy> = all("clusteroverridepolicies", by_selected!());
pub(crate) static CLUSTERS: CacheSpec<Cluster> =
    CacheSpec { transform: Some(share_in_clusters), scope: own_cluster, ..all("clusters", &[]) };
pub(crate) static NAMESPACES: CacheSpec<Namespace> = all("namespaces", &[]);
pub(crate) static TAINT_POLICIES: CacheSpec<ClusterTaintPolicy> = all("clustertaintpolicies", &[]);
pub(crate) static BINDINGS: CacheSpec<ResourceBinding> = CacheSpec {
    transform: Some(share_in_bindings),
    ..within(
        "resourcebindings",
        &[
            (BY_TEMPLATE, |b| vec![template_of(&b.spec)]),
            (BY_POLICY, |b| policy_ids(b)),
            (BY_DEPENDENCY, |b| dependents::recorded(&b.metadata)),
            (BY_DEPENDENT, |b| dependents::edges(&b.metadata)),
            (BY_EVICTION, |b| evicting(&b.spec)),
            (BY_PREEMPTOR, |b| preemptors(&b.spec)),
            (BY_TARGET, |b| target_names(&b.spec)),
        ],
    )
};
pub(crate) static CLUSTER_BINDINGS: CacheSpec<ClusterResourceBinding> = CacheSpec {
    transform: Some(share_in_bindings),
    ..all(
        "clusterresourcebindings",
        &[
            (BY_TEMPLATE, |b| vec![template_of(&b.spec)]),
            (BY_POLICY, |b| policy_ids(b)),
            (BY_DEPENDENCY, |b| dependents::recorded(&b.metadata)),
            (BY_EVICTION, |b| evicting(&b.spec)),
            (BY_TARGET, |b| target_names(&b.spec)),
        ],
    )
};
pub(crate) static WORKS: CacheSpec<Work> = within(
    "works",
    &[
        (BY_BINDING, binding_ids),
        (BY_QUOTA, quota::of_work),
        (BY_AUTOSCALER, distributed_hpa::of_work),
        (BY_SERVICE, |work| services::mcs_of(work).iter().map(ToString::to_string).collect()),
        (BY_EXPORT, |work| services::export::of_work(work).iter().map(ToString::to_string).collect()),
    ],
);
pub(crate) static PRIORITY_CLASSES: CacheSpec<PriorityClass> = all("priorityclasses", &[]);
pub(crate) static DEFINITIONS: CacheSpec<Definition> = all("customresourcedefinitions", &[]);
pub(crate) static CLUSTER_ROLES: CacheSpec<ClusterRole> = all("clusterroles", &[]);
pub(crate) static CLUSTER_ROLE_BINDINGS: CacheSpec<ClusterRoleBinding> = all("clusterrolebindings", &[]);
pub(crate) static QUOTAS: CacheSpec<FederatedResourceQuota> = within("federatedresourcequotas", &[]);
pub(crate) static MULTI_CLUSTER_SERVICES: CacheSpec<MultiClusterService> = within("multiclusterservices", &[]);
pub(crate) static MULTI_CLUSTER_INGRESSES: CacheSpec<MultiClusterIngress> = within("multiclusteringresses", &[]);
pub(crate) static SERVICE_EXPORTS: CacheSpec<ServiceExport> = within("serviceexports", &[]);
pub(crate) static SERVICE_IMPORTS: CacheSpec<ServiceImport> = within("serviceimports", &[]);
pub(crate) static REMEDIES: CacheSpec<Remedy> = all("remedies", &[]);
pub(crate) static REBALANCERS: CacheSpec<WorkloadRebalancer> = all("workloadrebalancers", &[]);
pub(crate) static CRON_FEDERATED_HPAS: CacheSpec<CronFederatedHPA> = within("cronfederatedhpas", &[]);
/// By the workload that they scale.
pub(crate) static FEDERATED_HPAS: CacheSpec<FederatedHPA> =
    within("federatedhpas", &[(BY_SCALED, |hpa| vec![scaled(hpa)])]);
/// By the workload that they scale.
pub(crate) static HORIZONTAL_POD_AUTOSCALERS: CacheSpec<HorizontalPodAutoscaler> =
    within("horizontalpodautoscalers", &[(BY_SCALED, |hpa| target_keys(hpa).iter().map(template_name).collect())]);
pub(crate) static CUSTOMIZATIONS: CacheSpec<ResourceInterpreterCustomization> =
    all("resourceinterpretercustomizations", &[]);
pub(crate) static INTERPRETER_WEBHOOKS: CacheSpec<ResourceInterpreterWebhookConfiguration> =
    all("resourceinterpreterwebhookconfigurations", &[]);
/// Credentials of members.
pub(crate) static SECRETS: CacheSpec<Secret> =
    CacheSpec { api: |client, _| Api::namespaced(client.clone(), namespaces::CLUSTER), ..within("secrets", &[]) };
/// Leases of agents.
pub(crate) static LEASES: CacheSpec<Lease> =
    CacheSpec { api: |client, _| Api::namespaced(client.clone(), namespaces::CLUSTER), ..within("leases", &[]) };
pub(crate) static CERTIFICATE_REQUESTS: CacheSpec<CertificateSigningRequest> = all("certificatesigningrequests", &[]);
/// Roles of agents.
pub(crate) static SYSTEM_ROLES: CacheSpec<Role> =
    CacheSpec { scope: of_the_system, ..within("roles of the system", &[]) };
/// Bindings of these roles.
pub(crate) static SYSTEM_ROLE_BINDINGS: CacheSpec<RoleBinding> =
    CacheSpec { scope: of_the_system, ..within("rolebindings of the system", &[]) };
/// The ConfigMap by which people pause evictions.
pub(crate) static EVICTION_PAUSE: CacheSpec<ConfigMap> = CacheSpec {
    name: "failover pause",
    api: |client, _| Api::namespaced(client.clone(), namespaces::SYSTEM),
    scope: |_| WatchScope { labels: None, fields: Some(format!("metadata.name={PAUSE_CONFIG_MAP}")) },
    indexes: &[],
    transform: None,
};

#[cfg(test)]
mod tests {
    use ironclad_api::{
        Shared,
        policy::{Placement, SpreadConstraint},
        work::ReplicaRequirements,
    };
    use ironclad_runtime::Caches;
    use ironclad_seam::Seam;
    use serde_json::json;

    use super::*;

    fn binding(name: &str, version: &str, groups: i64) -> ResourceBinding {
        let placement = Placement {
            spread_constraints: vec![SpreadConstraint { min_groups: groups, ..SpreadConstraint::default() }],
            ..Placement::default()
        };
        let requests = json!({"resourceRequest": {"cpu": "100m"}});
        let requirements: ReplicaRequirements = serde_json::from_value(requests).unwrap();
        let spec = ResourceBindingSpec {
            placement: Some(placement.into()),
            replica_requirements: Some(requirements.into()),
            ..ResourceBindingSpec::default()
        };
        let mut binding = ResourceBinding::new(name, spec);
        binding.metadata.namespace = Some("shop".into());
        binding.metadata.uid = Some(name.into());
        binding.metadata.resource_version = Some(version.into());
        binding
    }

    #[test]
    fn cached_bindings_share_equal_placements_and_requirements_also_after_a_change() {
        let cache = Caches::new(Scope::All, &Seam::system("test")).take(&BINDINGS);
        let shared = |one: &str, other: &str| {
            let (one, other) = (cache.get("shop", one).unwrap(), cache.get("shop", other).unwrap());
            let is_same = |pair: (&Option<Shared<Placement>>, &Option<Shared<Placement>>)| {
                pair.0.as_ref().unwrap().is_same(pair.1.as_ref().unwrap())
            };
            let (a, b) = (one.spec.replica_requirements.as_ref(), other.spec.replica_requirements.as_ref());
            (is_same((&one.spec.placement, &other.spec.placement)), a.unwrap().is_same(b.unwrap()))
        };
        for (name, groups) in [("a", 1), ("b", 1), ("c", 2)] {
            cache.written(None, binding(name, "1", groups));
        }
        assert_eq!(shared("a", "b"), (true, true));
        assert_eq!(shared("a", "c"), (false, true), "another placement, equal requirements");
        cache.written(Some("1"), binding("b", "2", 1));
        assert_eq!(shared("a", "b"), (true, true), "a later version with an equal placement");
        cache.written(Some("2"), binding("b", "3", 2));
        assert_eq!((shared("a", "b"), shared("b", "c")), ((false, true), (true, true)), "the placement changed");
    }

    #[test]
    fn cached_clusters_share_what_they_serve_and_their_resource_models() {
        let cache = Caches::new(Scope::All, &Seam::system("test")).take(&CLUSTERS);
        for (name, kind) in [("m1", "Deployment"), ("m2", "Deployment"), ("m3", "Job")] {
            let cluster = json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
                "spec": {"syncMode": "Push", "resourceModels": [{"grade": 0, "ranges": []}]},
                "status": {"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "x", "kind": kind}]}]},
            });
            cache.written(None, serde_json::from_value(cluster).unwrap());
        }
        let shared = |one: &str, other: &str| {
            let (one, other) = (cache.get("", one).unwrap(), cache.get("", other).unwrap());
            let served = |cluster: &Cluster| cluster.status.as_ref().unwrap().api_enablements.clone();
            (served(&one).is_same(&served(&other)), one.spec.resource_models.is_same(&other.spec.resource_models))
        };
        assert_eq!((shared("m1", "m2"), shared("m1", "m3")), ((true, true), (false, true)));
    }
}
