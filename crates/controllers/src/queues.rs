//! Who waits for a turn.

use ironclad_fleet::{ClusterName, ObjectKey};
use ironclad_runtime::{Key, Queue, WorkMetrics};
use ironclad_seam::Seam;

/// The queues of the control plane's reconcilers; those of members are in [`crate::Members`].
#[derive(Clone)]
pub struct Queues {
    /// Templates to be claimed and bound.
    pub detector: Queue<ObjectKey>,
    /// Policies to be applied to what they select; the namespace is empty for cluster policies.
    pub policy: Queue<Key>,
    /// Bindings to be scheduled.
    pub scheduler: Queue<Key>,
    /// Bindings to be turned into Works.
    pub binding: Queue<Key>,
    /// Namespaces to be copied into members.
    pub(crate) namespace: Queue<crate::namespace::Key>,
    /// Bindings whose dependencies are to be attached or released.
    pub dependencies: Queue<Key>,
    /// Clusters whose rights to impersonate are to be mirrored.
    pub unified_auth: Queue<ClusterName>,
    /// Quotas to be assigned and added up.
    pub quota: Queue<Key>,
    /// Rebalancers to be carried out.
    pub rebalancer: Queue<Key>,
    /// Bindings whose Works' status is to be added up.
    pub binding_status: Queue<Key>,
    /// Bindings whose workloads may fail.
    pub application_failover: Queue<Key>,
    /// Bindings whose eviction tasks are to be assessed.
    pub graceful_eviction: Queue<Key>,
    /// Templates whose status is to be added up.
    pub template_status: Queue<ObjectKey>,
    /// Clusters to be connected, prepared or taken apart.
    pub cluster: Queue<ClusterName>,
    /// Clusters whose taints are to be compared with what policies want.
    pub taint_policy: Queue<ClusterName>,
    /// ClusterTaintPolicies whose status is to be told.
    pub taint_policy_status: Queue<Key>,
}

impl Queues {
    pub(crate) fn new(seam: &Seam, work: &WorkMetrics) -> Self {
        fn queue<T>(seam: &Seam, work: &WorkMetrics, name: &'static str) -> Queue<T>
        where
            T: Ord + Clone + std::fmt::Debug + Send + Sync + 'static,
        {
            Queue::new(seam.clock.clone(), seam.rng.stream(&format!("jitter/{name}"))).measured(name, work)
        }
        Self {
            detector: queue(seam, work, "detector"),
            policy: queue(seam, work, "policy"),
            scheduler: queue(seam, work, "scheduler"),
            binding: queue(seam, work, "binding"),
            namespace: queue(seam, work, "namespace"),
            dependencies: queue(seam, work, "dependencies"),
            unified_auth: queue(seam, work, "unifiedAuth"),
            quota: queue(seam, work, "federatedResourceQuota"),
            rebalancer: queue(seam, work, "rebalancer"),
            binding_status: queue(seam, work, "bindingStatus"),
            application_failover: queue(seam, work, "applicationFailover"),
            graceful_eviction: queue(seam, work, "gracefulEviction"),
            template_status: queue(seam, work, "templateStatus"),
            cluster: queue(seam, work, "cluster"),
            taint_policy: queue(seam, work, "taintPolicy"),
            taint_policy_status: queue(seam, work, "taintPolicyStatus"),
        }
    }

    /// True if nobody waits for anything: used to know that all is quiet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.detector.is_empty()
            && self.policy.is_empty()
            && self.scheduler.is_idle()
            && self.binding.is_empty()
            && self.namespace.is_empty()
            && self.dependencies.is_empty()
            && self.unified_auth.is_empty()
            && self.quota.is_idle()
            && self.rebalancer.is_idle()
            && self.binding_status.is_empty()
            && self.template_status.is_empty()
            && self.cluster.is_empty()
            // Windows that run for minutes are no work.
            && self.taint_policy.is_idle()
            && self.taint_policy_status.is_empty()
            && self.application_failover.is_idle()
            && self.graceful_eviction.is_idle()
    }
}
