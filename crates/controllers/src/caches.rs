//! The kinds of the control plane that controllers watch. A controller takes those that it reads.

use std::fmt::Debug;

use ironclad_api::{
    apps::WorkloadRebalancer,
    autoscaling::{CronFederatedHPA, FederatedHPA},
    cluster::Cluster,
    config::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration},
    namespaces,
    policy::{
        ClusterOverridePolicy, ClusterPropagationPolicy, ClusterTaintPolicy, FederatedResourceQuota, OverridePolicy,
        PropagationPolicy,
    },
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use ironclad_autoscaling::distributed_hpa;
use ironclad_failover::taint_manager::PAUSE_CONFIG_MAP;
use ironclad_propagation::{dependencies::dependents, quota};
use ironclad_runtime::{CacheSpec, Indexer, WatchScope};
use k8s_openapi::{
    api::{
        autoscaling::v2::HorizontalPodAutoscaler,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace, Secret},
        rbac::v1::{ClusterRole, ClusterRoleBinding},
        scheduling::v1::PriorityClass,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, Resource, core::PartialObjectMeta};
use serde::de::DeserializeOwned;

use crate::{
    index::{
        BY_AUTOSCALER, BY_BINDING, BY_DEPENDENCY, BY_DEPENDENT, BY_EVICTION, BY_POLICY, BY_PREEMPTOR, BY_QUOTA,
        BY_SCALED, BY_TARGET, BY_TEMPLATE, binding_ids, evicting, policy_ids, preemptors, scaled, scaled_by,
        target_names, template_of,
    },
    selected::BY_SELECTED,
};

/// A CustomResourceDefinition without its schemas, which are most of it.
pub(crate) type Definition = PartialObjectMeta<CustomResourceDefinition>;

/// All objects of a kind.
const fn all<K>(name: &'static str, indexes: &'static [Indexer<K>]) -> CacheSpec<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    CacheSpec { name, api: everywhere, scope: WatchScope::default, indexes }
}

fn everywhere<K: Resource<DynamicType = ()>>(client: &Client) -> Api<K> {
    Api::all(client.clone())
}

macro_rules! by_selected {
    () => {
        &[(BY_SELECTED, |policy| crate::selected::values(policy))]
    };
}

pub(crate) static POLICIES: CacheSpec<PropagationPolicy> = all("propagationpolicies", by_selected!());
pub(crate) static CLUSTER_POLICIES: CacheSpec<ClusterPropagationPolicy> =
    all("clusterpropagationpolicies", by_selected!());
pub(crate) static OVERRIDES: CacheSpec<OverridePolicy> = all("overridepolicies", by_selected!());
pub(crate) static CLUSTER_OVERRIDES: CacheSpec<ClusterOverridePolicy> = all("clusteroverridepolicies", by_selected!());
pub(crate) static CLUSTERS: CacheSpec<Cluster> = all("clusters", &[]);
pub(crate) static NAMESPACES: CacheSpec<Namespace> = all("namespaces", &[]);
pub(crate) static TAINT_POLICIES: CacheSpec<ClusterTaintPolicy> = all("clustertaintpolicies", &[]);
pub(crate) static BINDINGS: CacheSpec<ResourceBinding> = all(
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
);
pub(crate) static CLUSTER_BINDINGS: CacheSpec<ClusterResourceBinding> = all(
    "clusterresourcebindings",
    &[
        (BY_TEMPLATE, |b| vec![template_of(&b.spec)]),
        (BY_POLICY, |b| policy_ids(b)),
        (BY_DEPENDENCY, |b| dependents::recorded(&b.metadata)),
        (BY_EVICTION, |b| evicting(&b.spec)),
        (BY_TARGET, |b| target_names(&b.spec)),
    ],
);
pub(crate) static WORKS: CacheSpec<Work> =
    all("works", &[(BY_BINDING, binding_ids), (BY_QUOTA, quota::of_work), (BY_AUTOSCALER, distributed_hpa::of_work)]);
pub(crate) static PRIORITY_CLASSES: CacheSpec<PriorityClass> = all("priorityclasses", &[]);
pub(crate) static DEFINITIONS: CacheSpec<Definition> = all("customresourcedefinitions", &[]);
pub(crate) static CLUSTER_ROLES: CacheSpec<ClusterRole> = all("clusterroles", &[]);
pub(crate) static CLUSTER_ROLE_BINDINGS: CacheSpec<ClusterRoleBinding> = all("clusterrolebindings", &[]);
pub(crate) static QUOTAS: CacheSpec<FederatedResourceQuota> = all("federatedresourcequotas", &[]);
pub(crate) static REBALANCERS: CacheSpec<WorkloadRebalancer> = all("workloadrebalancers", &[]);
pub(crate) static CRON_FEDERATED_HPAS: CacheSpec<CronFederatedHPA> = all("cronfederatedhpas", &[]);
/// By the workload that they scale.
pub(crate) static FEDERATED_HPAS: CacheSpec<FederatedHPA> =
    all("federatedhpas", &[(BY_SCALED, |hpa| vec![scaled(hpa)])]);
/// By the workload that they scale.
pub(crate) static HORIZONTAL_POD_AUTOSCALERS: CacheSpec<HorizontalPodAutoscaler> =
    all("horizontalpodautoscalers", &[(BY_SCALED, |hpa| vec![scaled_by(hpa, &hpa.spec.scale_target_ref)])]);
pub(crate) static CUSTOMIZATIONS: CacheSpec<ResourceInterpreterCustomization> =
    all("resourceinterpretercustomizations", &[]);
pub(crate) static INTERPRETER_WEBHOOKS: CacheSpec<ResourceInterpreterWebhookConfiguration> =
    all("resourceinterpreterwebhookconfigurations", &[]);
/// Credentials of members.
pub(crate) static SECRETS: CacheSpec<Secret> =
    CacheSpec { api: |client| Api::namespaced(client.clone(), namespaces::CLUSTER), ..all("secrets", &[]) };
/// Leases of agents.
pub(crate) static LEASES: CacheSpec<Lease> =
    CacheSpec { api: |client| Api::namespaced(client.clone(), namespaces::CLUSTER), ..all("leases", &[]) };
/// The ConfigMap by which people pause evictions.
pub(crate) static EVICTION_PAUSE: CacheSpec<ConfigMap> = CacheSpec {
    name: "failover pause",
    api: |client| Api::namespaced(client.clone(), namespaces::SYSTEM),
    scope: || WatchScope { labels: None, fields: Some(format!("metadata.name={PAUSE_CONFIG_MAP}")) },
    indexes: &[],
};
