//! Feature gates (specification/api.md 14).

/// Maturity of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// May change or be removed; `AllAlpha` switches it.
    Alpha,
    /// Stable; `AllBeta` switches it.
    Beta,
    /// Specific to Ironclad.
    Ours,
}

macro_rules! gates {
    ($($name:ident $stage:ident $default:literal $doc:literal;)+) => {
        /// A feature that can be switched on or off with `--feature-gates`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Gate {
            $(#[doc = $doc] $name,)+
        }

        impl Gate {
            /// All gates, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Name in `--feature-gates`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// Default of the gate.
            pub fn default_on(self) -> bool {
                match self { $(Self::$name => $default,)+ }
            }

            /// Maturity of the gate.
            pub fn stage(self) -> Stage {
                match self { $(Self::$name => Stage::$stage,)+ }
            }
        }
    };
}

gates! {
    Failover Beta false "Cluster failover: taints by policy, the eviction queue (failover.md).";
    GracefulEviction Beta true "Accepted and ignored: the mode of an eviction comes from purgeMode.";
    PropagateDeps Beta true "Dependencies follow their workload (propagation.md 8).";
    CustomizedClusterResourceModeling Beta true "Resource models of clusters whose pods are not watched.";
    PropagationPolicyPreemption Alpha false "A policy of higher priority takes over templates (propagation.md 6.3).";
    MultiClusterService Alpha false "Services over clusters by MultiClusterServices (mcs.md).";
    ResourceQuotaEstimate Alpha false "`ironclad estimator` heeds ResourceQuotas; accounts of watched clusters always do (scheduling.md 10.6).";
    StatefulFailoverInjection Alpha false "State is preserved over a failover (failover.md 5.4).";
    PriorityBasedScheduling Beta true "Bindings are scheduled by priority (scheduling.md 14).";
    PriorityBasedPreemptiveScheduling Alpha false "Bindings of high priority evict those of low priority (scheduling.md 15).";
    FederatedQuotaEnforcement Alpha false "FederatedResourceQuota limits what is scheduled.";
    MultiplePodTemplatesScheduling Alpha false "Workloads of several pod templates are scheduled by component.";
    ControllerPriorityQueue Beta true "Changes by users go before what a restart replays.";
    WorkloadAffinity Alpha false "Affinity and anti-affinity between workloads.";
    SchedulingOvercommitProtection Alpha false "Accepted without effect: what was assigned and is not seen yet always counts (scheduling.md 11).";
    FederatedHPAExternalMetrics Ours true "External metrics for FederatedHPA.";
    HPAScaleToZero Ours false "FederatedHPA may scale to zero.";
    LoggingAlphaOptions Alpha false "Kubernetes' own, accepted.";
    LoggingBetaOptions Beta true "Kubernetes' own, accepted.";
    ContextualLogging Beta true "Kubernetes' own, accepted.";
}

impl Gate {
    /// Returns true if the gate has no effect and is only accepted for existing command lines.
    pub fn is_without_meaning(self) -> bool {
        use Gate::{ContextualLogging, GracefulEviction, LoggingAlphaOptions, LoggingBetaOptions};
        matches!(self, GracefulEviction | LoggingAlphaOptions | LoggingBetaOptions | ContextualLogging)
    }
}
