//! Input of the scheduler's decision: one binding, all clusters, capacity, and options.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_fleet::{BindingRef, ClusterName, Clusters};

use crate::{
    Capacity, Index, Options, Peers,
    preempt::{Placed, Preemptors},
};

/// Further replicas (or component sets) of one binding per cluster, by the estimators that were called for this
/// binding (specification/scheduling.md 10.1). Clusters without an estimate are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Available {
    /// Answers that bindings with the same question share.
    shared: Option<Arc<BTreeMap<ClusterName, i64>>>,
    /// Answers for this binding alone.
    own: BTreeMap<ClusterName, i64>,
    /// Answers of the leader's account, where this process does not keep it.
    exact: BTreeMap<ClusterName, i64>,
}

impl Available {
    /// No answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers that other bindings use, too.
    #[must_use]
    pub fn shared(shared: Arc<BTreeMap<ClusterName, i64>>) -> Self {
        Self { shared: Some(shared), ..Self::default() }
    }

    /// Adds an answer for this binding. The least answer for a cluster counts.
    pub fn limit(&mut self, cluster: &ClusterName, fits: i64) {
        self.own.entry(cluster.clone()).and_modify(|least| *least = fits.min(*least)).or_insert(fits);
    }

    /// Adds an answer of the leader's account, which counts instead of one of this process.
    pub fn account(&mut self, cluster: &ClusterName, fits: i64) {
        self.exact.insert(cluster.clone(), fits);
    }

    /// Returns whether the leader's account answered for a cluster.
    #[must_use]
    pub fn is_exact(&self, cluster: &ClusterName) -> bool {
        self.exact.contains_key(cluster)
    }

    /// Answer of the leader's account for a cluster.
    #[must_use]
    pub(crate) fn exact(&self, cluster: &ClusterName) -> Option<i64> {
        self.exact.get(cluster).copied()
    }

    /// Least answer for a cluster.
    #[must_use]
    pub fn get(&self, cluster: &ClusterName) -> Option<i64> {
        let shared = self.shared.as_ref().and_then(|shared| shared.get(cluster));
        [shared, self.own.get(cluster)].into_iter().flatten().min().copied()
    }
}

impl FromIterator<(ClusterName, i64)> for Available {
    fn from_iter<I: IntoIterator<Item = (ClusterName, i64)>>(answers: I) -> Self {
        Self::shared(Arc::new(answers.into_iter().collect()))
    }
}

impl<const N: usize> From<[(ClusterName, i64); N]> for Available {
    fn from(answers: [(ClusterName, i64); N]) -> Self {
        answers.into_iter().collect()
    }
}

/// Snapshot for one scheduling decision.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Binding to schedule.
    pub binding: BindingRef<'a>,
    /// Every cluster, including those that are being deleted.
    pub clusters: &'a Clusters,
    /// Answers of the estimators.
    pub available: &'a Available,
    /// Capacity by the clusters' own reports.
    pub capacity: &'a Capacity,
    /// Flags and gates.
    pub options: &'a Options,
    /// Changes since the last cycle that the snapshot does not show.
    pub since: Since,
    /// Input of a preemption; `None` if this decision preempts nobody.
    pub preempting: Option<Preempting<'a>>,
    /// Groups of workloads; `None` if gate `WorkloadAffinity` is off.
    pub peers: Option<&'a Peers>,
    /// Index of the same clusters. The decision is the same without it, but reads every cluster and gives a reason for
    /// and against each.
    pub index: Option<&'a Index>,
}

/// Changes of clusters since the last cycle of a binding ([`crate::wakes::cluster::enqueues`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Since {
    /// A cluster that did not serve the binding's kind serves it.
    pub api_appeared: bool,
    /// Labels changed while the binding is in a later affinity group than the first.
    pub relabelled: bool,
}

impl Since {
    /// Both changes.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { api_appeared: self.api_appeared || other.api_appeared, relabelled: self.relabelled || other.relabelled }
    }
}

/// Input of a decision on preemption beside the snapshot of the cycle.
#[derive(Debug, Clone, Copy)]
pub struct Preempting<'a> {
    /// The bindings by the clusters that they run on.
    pub placed: &'a Placed,
    /// Attempts and nominations so far.
    pub preemptors: &'a Preemptors,
    /// Message of the quota that would refuse the binding's replicas; `None` if enough is left for all of them.
    pub over_quota: Option<&'a str>,
    /// A person paused evictions: nobody else is preempted.
    pub paused: bool,
}
