//! Group `policy.karmada.io/v1alpha1`: propagation, overrides, taints and quotas (specification/api.md 1, 3 to 6).

mod affinity;
mod failover;
mod overrides;
mod placement;
mod propagation;
mod quota;
mod taint;

pub use affinity::{ClusterAffinity, FieldSelector, ResourceSelector};
pub use failover::{
    ApplicationFailoverBehavior, ClusterFailoverBehavior, DecisionConditions, FailoverBehavior, PurgeMode,
    StatePreservation, StatePreservationRule,
};
pub use overrides::{
    ClusterOverridePolicy, CommandArgsOverrider, FieldOverrider, ImageComponent, ImageOverrider, ImagePredicate,
    LabelAnnotationOverrider, OverridePolicy, OverrideSpec, OverriderOperator, Overriders, PlaintextOverrider,
    RuleWithCluster, SequenceOperator, ValuePatch,
};
pub use placement::{
    ClusterAffinityTerm, ClusterPreferences, DynamicWeight, OverflowClusterAffinity, Placement,
    ReplicaDivisionPreference, ReplicaSchedulingStrategy, ReplicaSchedulingType, SpreadByField, SpreadConstraint,
    StaticClusterWeight, WorkloadAffinity, WorkloadAffinityTerm,
};
pub use propagation::{
    ActivationPreference, ClusterPropagationPolicy, ConflictResolution, PolicyPreemption, PriorityClassSource,
    PropagationPolicy, PropagationSpec, SchedulePriority, SuspendClusters, Suspension,
};
pub use quota::{
    ClusterQuotaStatus, FederatedResourceQuota, FederatedResourceQuotaSpec, FederatedResourceQuotaStatus,
    StaticClusterAssignment,
};
pub use taint::{
    ClusterTaintPolicy, ClusterTaintPolicySpec, ClusterTaintPolicyStatus, MatchCondition, PolicyTaint,
    TaintPolicyCluster, TaintPolicyTaint, TaintState, TaintToAdd,
};

/// Scheduler of policies that name none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";
