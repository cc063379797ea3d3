//! Flags and gates of the scheduler.

use ironclad_api::{
    policy::{DEFAULT_SCHEDULER_NAME, Placement, SpreadByField, SpreadConstraint},
    work::ResourceBindingSpec,
};
use ironclad_fleet::gates::{Gate, Gates};
use jiff::SignedDuration;

use crate::{
    Plugins,
    preempt::{Limits, Mode},
};

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

/// Returns whether complete sets of several pod templates are placed on one cluster (specification/scheduling.md 9).
pub(crate) fn schedules_component_sets(options: &Options, spec: &ResourceBindingSpec, placement: &Placement) -> bool {
    let on_one = |c: &SpreadConstraint| {
        c.spread_by_field == Some(SpreadByField::Cluster) && c.min_groups <= 1 && c.max_groups == 1
    };
    options.component_scheduling && !spec.components.is_empty() && placement.spread_constraints.iter().any(on_one)
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
