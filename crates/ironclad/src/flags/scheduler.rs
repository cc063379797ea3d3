//! Flags of the scheduler (specification/operations.md 8.3).

use ironclad_cli::report::Misused;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_scheduling::{
    Options, Plugins,
    preempt::{Limits, Mode},
};
use jiff::SignedDuration;

use ironclad_cli::Period;

/// Scheduler flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Scheduler")]
pub(crate) struct SchedulerArgs {
    /// Schedule only bindings that name this scheduler
    #[arg(long, env = "IRONCLAD_SCHEDULER_NAME", default_value_t = Options::default().scheduler_name, value_name = "NAME")]
    scheduler_name: String,
    /// Filter and score plugins: `*` all, `name` this one, `-name` not this one
    #[arg(long, env = "IRONCLAD_PLUGINS", default_value = "*", value_name = "LIST", allow_hyphen_values = true)]
    plugins: String,
    /// Time for which a schedule result is kept after no cluster fits any more; 0 clears it immediately
    #[arg(long, env = "IRONCLAD_CLEAR_UNFIT_RESULT_AFTER", default_value_t = Period(Options::default().clear_unfit_result_after.unsigned_abs()), value_name = "DURATION")]
    clear_unfit_result_after: Period,
    /// Place workloads with 0 replicas, too
    #[arg(long, env = "IRONCLAD_ENABLE_EMPTY_WORKLOAD_PROPAGATION", default_value_t = Options::default().empty_workload_propagation, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    enable_empty_workload_propagation: bool,
    /// Effect of gate PriorityBasedPreemptiveScheduling: `evict` bindings of lower priority, or `observe` only and tell
    /// in conditions what would be evicted
    #[arg(long, env = "IRONCLAD_PREEMPTION_MODE", default_value = "evict", value_name = "MODE")]
    preemption_mode: PreemptionMode,
    /// Bindings that one preemption evicts at most; a plan that needs more is not carried out
    #[arg(long, env = "IRONCLAD_PREEMPTION_MAX_VICTIMS", default_value_t = Limits::default().victims, value_name = "COUNT")]
    preemption_max_victims: usize,
    /// Evictions by preemption within a minute at most
    #[arg(long, env = "IRONCLAD_PREEMPTION_MAX_EVICTIONS_PER_MINUTE", default_value_t = Limits::default().evictions_per_minute, value_name = "COUNT")]
    preemption_max_evictions_per_minute: usize,
}

/// Values of `--preemption-mode`.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum PreemptionMode {
    Evict,
    Observe,
}

impl SchedulerArgs {
    /// Returns the options, and warnings.
    ///
    /// # Errors
    /// A plugin is unknown.
    pub(crate) fn options(&self, gates: &Gates) -> anyhow::Result<(Options, Vec<String>)> {
        let (plugins, warnings) = Plugins::parse(self.plugins.split(',')).map_err(|e| Misused(e.to_string()))?;
        let options = Options {
            scheduler_name: self.scheduler_name.clone(),
            empty_workload_propagation: self.enable_empty_workload_propagation,
            component_scheduling: gates.enabled(Gate::MultiplePodTemplatesScheduling),
            clear_unfit_result_after: SignedDuration::try_from(self.clear_unfit_result_after.0)?,
            plugins,
            workload_affinity: gates.enabled(Gate::WorkloadAffinity),
            preemption: self.preemption(gates)?,
            preemption_limits: Limits {
                victims: self.preemption_max_victims,
                evictions_per_minute: self.preemption_max_evictions_per_minute,
            },
            ..Options::default()
        };
        Ok((options, warnings))
    }

    fn preemption(&self, gates: &Gates) -> anyhow::Result<Mode> {
        if !gates.enabled(Gate::PriorityBasedPreemptiveScheduling) {
            return Ok(Mode::Off);
        }
        if !gates.enabled(Gate::PriorityBasedScheduling) {
            let message = "--feature-gates: PriorityBasedPreemptiveScheduling needs PriorityBasedScheduling, which is \
                           off: switch both on, or the first one off";
            return Err(Misused(message.to_owned()).into());
        }
        Ok(match self.preemption_mode {
            PreemptionMode::Evict => Mode::Evict,
            PreemptionMode::Observe => Mode::Observe,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: SchedulerArgs,
    }

    #[test]
    fn without_flags_they_are_the_defaults_of_the_scheduler() {
        let options = |line: &[&str]| {
            let line = Line::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap();
            line.args.options(&Gates::default())
        };
        assert_eq!(options(&[]).unwrap(), (Options::default(), vec![]));
        let (retired, warnings) = options(&["--plugins=*,ClusterEviction"]).unwrap();
        assert_eq!((retired, warnings.len()), (Options::default(), 1), "accepted with a warning");
        assert!(options(&["--plugins=*,Nope"]).is_err());
        assert_eq!(
            options(&["--preemption-mode=observe"]).unwrap().0.preemption,
            Mode::Off,
            "the gate decides whether there is preemption"
        );
        let gated = |line: &[&str], gates: &Gates| {
            let line = Line::try_parse_from(std::iter::once("x").chain(line.iter().copied())).unwrap();
            line.args.options(gates).map(|(options, _)| options.preemption).map_err(|error| error.to_string())
        };
        let on = Gates::default().with(Gate::PriorityBasedPreemptiveScheduling, true);
        assert_eq!(gated(&[], &on), Ok(Mode::Evict));
        assert_eq!(gated(&["--preemption-mode=observe"], &on), Ok(Mode::Observe));
        let error = gated(&[], &on.with(Gate::PriorityBasedScheduling, false)).unwrap_err();
        assert!(error.contains("needs PriorityBasedScheduling"), "{error}");
        assert_eq!(
            options(&["--clear-unfit-result-after=0s"]).unwrap().0.clear_unfit_result_after,
            SignedDuration::ZERO
        );
    }
}
