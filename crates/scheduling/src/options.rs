//! Flags and gates of the scheduler.

use ironclad_api::{
    policy::{DEFAULT_SCHEDULER_NAME, Placement, SpreadByField, SpreadConstraint},
    work::ResourceBindingSpec,
};
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_options::{Value, options, typed};
use jiff::SignedDuration;

use crate::{
    Plugins,
    preempt::{Limits, Mode},
};

options! {
/// Flags and gates of the scheduler (specification/scheduling.md 13.4, 16; specification/operations.md 8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options under "Scheduler" {
    /// Schedule only bindings that name this scheduler
    scheduler_name: String = DEFAULT_SCHEDULER_NAME.to_owned() => "NAME", announced: true;
    /// Filter and score plugins: `*` all, `name` this one, `-name` not this one
    plugins: Plugins = Plugins::default() => "LIST", announced: true;
    /// Time for which a schedule result is kept after no cluster fits any more; 0 clears it immediately
    clear_unfit_result_after: SignedDuration = SignedDuration::from_mins(5) => "DURATION", announced: true;
    /// Place workloads with 0 replicas, too
    enable_empty_workload_propagation: bool = false => "BOOL", announced: true;
    /// Effect of gate PriorityBasedPreemptiveScheduling: `evict` bindings of lower priority, `observe` only and tell in
    /// conditions what would be evicted, or `off`
    preemption_mode: Mode = Mode::Evict => "MODE", announced: true;
    /// Bindings that one preemption evicts at most; a plan that needs more is not carried out
    preemption_max_victims: usize = Limits::default().victims => "COUNT", announced: true;
    /// Evictions by preemption within a minute at most
    preemption_max_evictions_per_minute: usize = Limits::default().evictions_per_minute => "COUNT", announced: true;
}
besides {
    /// Gate `MultiplePodTemplatesScheduling`.
    component_scheduling: bool = false;
    /// Gate `SchedulingOvercommitProtection`: assumed replicas are subtracted for all bindings.
    overcommit_protection: bool = false;
    /// Gate `WorkloadAffinity`: affinity and anti-affinity groups of workloads filter clusters.
    workload_affinity: bool = false;
    /// Gate `PriorityBasedPreemptiveScheduling`.
    preempts: bool = false;
    /// True if the search continues with the earlier affinity groups after the last
    /// (specification/scheduling.md 16.16).
    wrap_around_groups: bool = true;
    /// True if a divided binding is scheduled again when its affinity does not select a target any more
    /// (specification/scheduling.md 16.9).
    follow_drift: bool = false;
}
}

typed! {
    Plugins, of Options: this => Value::Words(this.names()),
        Value::Words(given) => Self::parse(given.iter().map(String::as_str)).map_err(|error| error.to_string());
    Mode, of Options: this => Value::Word(this.as_str().to_owned()), Value::Word(given) => Self::parse(&given);
}

impl Options {
    /// The flags with the effect of gates (specification/scheduling.md 13.4).
    #[must_use]
    pub fn with_gates(&self, gates: &Gates) -> Self {
        Self {
            component_scheduling: self.component_scheduling || gates.enabled(Gate::MultiplePodTemplatesScheduling),
            overcommit_protection: self.overcommit_protection || gates.enabled(Gate::SchedulingOvercommitProtection),
            workload_affinity: self.workload_affinity || gates.enabled(Gate::WorkloadAffinity),
            preempts: self.preempts || gates.enabled(Gate::PriorityBasedPreemptiveScheduling),
            ..self.clone()
        }
    }

    /// The mode of preemption under its gate.
    #[must_use]
    pub fn preemption(&self) -> Mode {
        if self.preempts { self.preemption_mode } else { Mode::Off }
    }

    /// Limits of preemption.
    #[must_use]
    pub fn preemption_limits(&self) -> Limits {
        Limits { victims: self.preemption_max_victims, evictions_per_minute: self.preemption_max_evictions_per_minute }
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
        let preempts = Gates::default().with(Gate::PriorityBasedPreemptiveScheduling, true);
        for (preemption_mode, gates, want) in [
            (Mode::Observe, &Gates::default(), Mode::Off),
            (Mode::Observe, &preempts, Mode::Observe),
            (Mode::Off, &preempts, Mode::Off),
            (Mode::Evict, &preempts, Mode::Evict),
        ] {
            let flags = Options { preemption_mode, ..Options::default() };
            assert_eq!(flags.with_gates(gates).preemption(), want, "{preemption_mode:?}");
        }
    }
}
