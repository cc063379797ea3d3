//! Input of the scheduler's decision: one binding, all clusters, capacity, and options.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::policy::DEFAULT_SCHEDULER_NAME;
use ironclad_fleet::{
    BindingRef, ClusterName, Clusters,
    gates::{Gate, Gates},
};
use jiff::SignedDuration;

use crate::{
    Capacity, Index, Peers, Plugins,
    preempt::{Limits, Mode, Placed, Preemptors},
};

/// Further replicas (or component sets) of one binding per cluster, by the estimators that were called for this
/// binding (specification/scheduling.md 10.1). Clusters without an estimate are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Available {
    /// Answers that bindings with the same question share.
    shared: Option<Arc<BTreeMap<ClusterName, i64>>>,
    /// Answers for this binding alone.
    own: BTreeMap<ClusterName, i64>,
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
        Self { shared: Some(shared), own: BTreeMap::new() }
    }

    /// Adds an answer for this binding. The least answer for a cluster counts.
    pub fn limit(&mut self, cluster: &ClusterName, fits: i64) {
        self.own.entry(cluster.clone()).and_modify(|least| *least = fits.min(*least)).or_insert(fits);
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
    /// True if a cluster that did not serve the binding's kind serves it since the last cycle
    /// ([`crate::trigger::api_appears`]).
    pub api_appeared: bool,
    /// Input of a preemption; `None` if this decision preempts nobody.
    pub preempting: Option<Preempting<'a>>,
    /// Groups of workloads; `None` if gate `WorkloadAffinity` is off.
    pub peers: Option<&'a Peers>,
    /// Index of the same clusters. The decision is the same without it, but reads every cluster and gives a reason for
    /// and against each.
    pub index: Option<&'a Index>,
}

/// Flags and gates of the scheduler (specification/scheduling.md 13.4, 16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `--scheduler-name`: bindings with this name belong to this scheduler.
    pub scheduler_name: String,
    /// `--enable-empty-workload-propagation`: selected clusters without a share become targets with 0 replicas.
    pub empty_workload_propagation: bool,
    /// Gate `MultiplePodTemplatesScheduling`.
    pub component_scheduling: bool,
    /// Gate `SchedulingOvercommitProtection`: assumed replicas are subtracted for all bindings.
    pub overcommit_protection: bool,
    /// `--clear-unfit-result-after`: how long a result is kept after no cluster fits any more; zero clears it at once
    /// (specification/scheduling.md 16.1).
    pub clear_unfit_result_after: SignedDuration,
    /// True if the search continues with the earlier affinity groups after the last
    /// (specification/scheduling.md 16.16).
    pub wrap_around_groups: bool,
    /// `--plugins`: enabled filters and scores.
    pub plugins: Plugins,
    /// True if a divided binding is scheduled again when its affinity does not select a target any more
    /// (specification/scheduling.md 16.9).
    pub follow_drift: bool,
    /// Gate `WorkloadAffinity`: affinity and anti-affinity groups of workloads filter clusters.
    pub workload_affinity: bool,
    /// Gate `PriorityBasedPreemptiveScheduling` with flag `--preemption-mode`.
    pub preemption: Mode,
    /// Flags `--preemption-max-victims` and `--preemption-max-evictions-per-minute`.
    pub preemption_limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler_name: DEFAULT_SCHEDULER_NAME.to_owned(),
            empty_workload_propagation: false,
            component_scheduling: false,
            overcommit_protection: false,
            clear_unfit_result_after: SignedDuration::from_mins(5),
            wrap_around_groups: true,
            plugins: Plugins::default(),
            follow_drift: false,
            workload_affinity: false,
            preemption: Mode::Off,
            preemption_limits: Limits::default(),
        }
    }
}

impl Options {
    /// The flags with the effect of gates (specification/scheduling.md 13.4).
    #[must_use]
    pub fn with_gates(&self, gates: &Gates) -> Self {
        Self {
            component_scheduling: self.component_scheduling || gates.enabled(Gate::MultiplePodTemplatesScheduling),
            overcommit_protection: self.overcommit_protection || gates.enabled(Gate::SchedulingOvercommitProtection),
            workload_affinity: self.workload_affinity || gates.enabled(Gate::WorkloadAffinity),
            preemption: if gates.enabled(Gate::PriorityBasedPreemptiveScheduling) {
                self.preemption
            } else {
                Mode::Off
            },
            ..self.clone()
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_change_the_options_of_the_scheduler() {
        let on = |gate| Options::default().with_gates(&Gates::default().with(gate, true));
        assert_eq!(Options::default().with_gates(&Gates::default()), Options::default(), "both gates are off");
        assert!(on(Gate::MultiplePodTemplatesScheduling).component_scheduling);
        assert!(on(Gate::SchedulingOvercommitProtection).overcommit_protection);
        assert!(on(Gate::WorkloadAffinity).workload_affinity);
        let flags = Options { preemption: Mode::Observe, ..Options::default() };
        let gates = Gates::default();
        assert_eq!(flags.with_gates(&gates).preemption, Mode::Off, "the gate is off");
        let gates = gates.with(Gate::PriorityBasedPreemptiveScheduling, true);
        assert_eq!(flags.with_gates(&gates).preemption, Mode::Observe);
    }
}
