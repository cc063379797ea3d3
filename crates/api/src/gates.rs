//! Feature gates (api.md 14).

/// How settled a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// May change or go.
    Alpha,
    /// Settled.
    Beta,
    /// Of this product alone.
    Ours,
}

/// A switch of `--feature-gates=Name=bool,…`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// Whether it is on unless somebody says otherwise.
    pub default: bool,
    /// How settled it is.
    pub stage: Stage,
}

/// Cluster failover as a whole.
pub const FAILOVER: Gate = Gate { name: "Failover", default: false, stage: Stage::Beta };
/// Accepted and ignored: the mode of an eviction comes from purgeMode.
pub const GRACEFUL_EVICTION: Gate = Gate { name: "GracefulEviction", default: true, stage: Stage::Beta };
/// Propagation of dependencies.
pub const PROPAGATE_DEPS: Gate = Gate { name: "PropagateDeps", default: true, stage: Stage::Beta };
/// Grades of nodes: their defaults and their use.
pub const CUSTOMIZED_CLUSTER_RESOURCE_MODELING: Gate =
    Gate { name: "CustomizedClusterResourceModeling", default: true, stage: Stage::Beta };
/// Preemption between policies.
pub const PROPAGATION_POLICY_PREEMPTION: Gate =
    Gate { name: "PropagationPolicyPreemption", default: false, stage: Stage::Alpha };
/// The controllers of MultiClusterService.
pub const MULTI_CLUSTER_SERVICE: Gate = Gate { name: "MultiClusterService", default: false, stage: Stage::Alpha };
/// The quota check of the estimator.
pub const RESOURCE_QUOTA_ESTIMATE: Gate = Gate { name: "ResourceQuotaEstimate", default: false, stage: Stage::Alpha };
/// Values of the old copy as labels of the new one.
pub const STATEFUL_FAILOVER_INJECTION: Gate =
    Gate { name: "StatefulFailoverInjection", default: false, stage: Stage::Alpha };
/// A scheduling queue by priority.
pub const PRIORITY_BASED_SCHEDULING: Gate = Gate { name: "PriorityBasedScheduling", default: true, stage: Stage::Beta };
/// Preemption between bindings.
pub const PRIORITY_BASED_PREEMPTIVE_SCHEDULING: Gate =
    Gate { name: "PriorityBasedPreemptiveScheduling", default: false, stage: Stage::Alpha };
/// The quota check at admission of bindings.
pub const FEDERATED_QUOTA_ENFORCEMENT: Gate =
    Gate { name: "FederatedQuotaEnforcement", default: false, stage: Stage::Alpha };
/// Workloads with several pod templates.
pub const MULTIPLE_POD_TEMPLATES_SCHEDULING: Gate =
    Gate { name: "MultiplePodTemplatesScheduling", default: false, stage: Stage::Alpha };
/// Recent changes come first when a controller starts.
pub const CONTROLLER_PRIORITY_QUEUE: Gate = Gate { name: "ControllerPriorityQueue", default: true, stage: Stage::Beta };
/// Co-location rules between workloads.
pub const WORKLOAD_AFFINITY: Gate = Gate { name: "WorkloadAffinity", default: false, stage: Stage::Alpha };
/// The scheduler remembers fresh placements.
pub const SCHEDULING_OVERCOMMIT_PROTECTION: Gate =
    Gate { name: "SchedulingOvercommitProtection", default: false, stage: Stage::Alpha };
/// External metrics in FederatedHPAs.
pub const FEDERATED_HPA_EXTERNAL_METRICS: Gate =
    Gate { name: "FederatedHPAExternalMetrics", default: true, stage: Stage::Ours };
/// FederatedHPAs down to no replicas.
pub const HPA_SCALE_TO_ZERO: Gate = Gate { name: "HPAScaleToZero", default: false, stage: Stage::Ours };
/// Kubernetes' own, accepted.
pub const LOGGING_ALPHA_OPTIONS: Gate = Gate { name: "LoggingAlphaOptions", default: false, stage: Stage::Alpha };
/// Kubernetes' own, accepted.
pub const LOGGING_BETA_OPTIONS: Gate = Gate { name: "LoggingBetaOptions", default: true, stage: Stage::Beta };
/// Kubernetes' own, accepted.
pub const CONTEXTUAL_LOGGING: Gate = Gate { name: "ContextualLogging", default: true, stage: Stage::Beta };

/// All gates, in the order of the reference.
pub const GATES: [Gate; 20] = [
    FAILOVER,
    GRACEFUL_EVICTION,
    PROPAGATE_DEPS,
    CUSTOMIZED_CLUSTER_RESOURCE_MODELING,
    PROPAGATION_POLICY_PREEMPTION,
    MULTI_CLUSTER_SERVICE,
    RESOURCE_QUOTA_ESTIMATE,
    STATEFUL_FAILOVER_INJECTION,
    PRIORITY_BASED_SCHEDULING,
    PRIORITY_BASED_PREEMPTIVE_SCHEDULING,
    FEDERATED_QUOTA_ENFORCEMENT,
    MULTIPLE_POD_TEMPLATES_SCHEDULING,
    CONTROLLER_PRIORITY_QUEUE,
    WORKLOAD_AFFINITY,
    SCHEDULING_OVERCOMMIT_PROTECTION,
    FEDERATED_HPA_EXTERNAL_METRICS,
    HPA_SCALE_TO_ZERO,
    LOGGING_ALPHA_OPTIONS,
    LOGGING_BETA_OPTIONS,
    CONTEXTUAL_LOGGING,
];
