//! Placement of a template and division of its replicas (specification/api.md 3.3).

use k8s_openapi::api::core::v1::Toleration;
use serde::{Deserialize, Serialize};

use super::ClusterAffinity;
use crate::{omit, schema::JsonSchema};

/// Clusters of a template and division of its replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Placement {
    /// Candidate clusters; not together with clusterAffinities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// Ordered groups of candidate clusters, of which the first that can be scheduled is used; not together with
    /// clusterAffinity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_affinities: Vec<ClusterAffinityTerm>,
    /// Tolerated NoSchedule and NoExecute taints of clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_tolerations: Vec<Toleration>,
    /// Number of groups of clusters to spread over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Division of replicas. Absent means Duplicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_scheduling: Option<ReplicaSchedulingStrategy>,
    /// Co-location rules between workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity: Option<WorkloadAffinity>,
}

impl Placement {
    /// Replica scheduling type: an absent `replicaScheduling` duplicates, an empty one divides.
    pub fn replica_scheduling_type(&self) -> ReplicaSchedulingType {
        match &self.replica_scheduling {
            None => ReplicaSchedulingType::Duplicated,
            Some(strategy) => strategy.replica_scheduling_type.unwrap_or_default(),
        }
    }

    /// Returns true if spread constraints are ignored: static weights list their clusters themselves, and without
    /// weights every cluster has the same (specification/scheduling.md 7.2).
    pub fn ignores_spread(&self) -> bool {
        let Some(strategy) = &self.replica_scheduling else { return false };
        let fixed = strategy
            .weight_preference
            .as_ref()
            .is_none_or(|preference| !preference.static_weight_list.is_empty() && preference.dynamic_weight.is_none());
        self.replica_scheduling_type() == ReplicaSchedulingType::Divided && strategy.is_weighted() && fixed
    }
}

/// One group of candidate clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinityTerm {
    /// Name of the group, a valid label key, unique in the list.
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// The clusters of the group.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
    /// Groups opened in order when this one lacks available replicas, and closed in reverse order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overflow_affinities: Vec<OverflowClusterAffinity>,
}

/// Group of clusters for replicas that do not fit elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverflowClusterAffinity {
    /// Name of the group, a valid label key, unique and different from its parent's.
    #[schemars(length(min = 1, max = 32))]
    pub affinity_name: String,
    /// The clusters of the group.
    #[serde(flatten)]
    pub affinity: ClusterAffinity,
}

/// A field of a Cluster by which clusters are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SpreadByField {
    /// Each cluster is a group.
    Cluster,
    /// By region.
    Region,
    /// By zone.
    Zone,
    /// By provider.
    Provider,
}

/// Number of groups of clusters to use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpreadConstraint {
    /// Groups by a field of the Cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_by_field: Option<SpreadByField>,
    /// Groups by a label of the Cluster; not together with spreadByField.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spread_by_label: String,
    /// Upper bound of groups; 0 means none.
    #[serde(default, skip_serializing_if = "omit::zero")]
    #[schemars(schema_with = "crate::schema::int")]
    pub max_groups: i64,
    /// Lower bound of groups; admission changes 0 to 1.
    #[serde(default, skip_serializing_if = "omit::zero")]
    #[schemars(schema_with = "crate::schema::int")]
    pub min_groups: i64,
}

/// Replicas are copied or divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaSchedulingType {
    /// Each cluster gets all replicas.
    Duplicated,
    /// The replicas are divided.
    #[default]
    Divided,
}

/// Preference in dividing replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ReplicaDivisionPreference {
    /// Over as few clusters as possible.
    Aggregated,
    /// By weight.
    Weighted,
}

/// Division of replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSchedulingStrategy {
    /// Duplicated copies the replicas to each cluster, Divided divides them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-ironclad-default" = "Divided"))]
    pub replica_scheduling_type: Option<ReplicaSchedulingType>,
    /// Few clusters, or by weight; admission sets Weighted when Divided has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_division_preference: Option<ReplicaDivisionPreference>,
    /// Weights of the clusters. Absent with Weighted means equal weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_preference: Option<ClusterPreferences>,
}

impl ReplicaSchedulingStrategy {
    /// Returns true if replicas are divided by weight; admission defaults to it.
    pub fn is_weighted(&self) -> bool {
        self.replica_division_preference.is_none_or(|preference| preference == ReplicaDivisionPreference::Weighted)
    }
}

/// Source of dynamic weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum DynamicWeight {
    /// The weight is the number of available replicas.
    AvailableReplicas,
}

/// Weights of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPreferences {
    /// Fixed weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub static_weight_list: Vec<StaticClusterWeight>,
    /// Weights from available replicas; takes precedence over staticWeightList.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_weight: Option<DynamicWeight>,
}

/// One fixed weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterWeight {
    /// The clusters with this weight.
    pub target_cluster: ClusterAffinity,
    /// The weight.
    #[schemars(range(min = 1))]
    pub weight: i64,
}

/// Hard co-location rules between the workloads of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinity {
    /// Workloads of one group run in the same clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<WorkloadAffinityTerm>,
    /// Workloads of one group run in different clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<WorkloadAffinityTerm>,
}

/// Grouping of workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityTerm {
    /// Label of the template whose value names the group.
    pub group_by_label_key: String,
}
