//! Flags of the scheduler (specification/operations.md 8.3).

use ironclad_cli::report::Misused;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_scheduling::{Options, Plugins};
use jiff::SignedDuration;

use super::Period;

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
            ..Options::default()
        };
        Ok((options, warnings))
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
            options(&["--clear-unfit-result-after=0s"]).unwrap().0.clear_unfit_result_after,
            SignedDuration::ZERO
        );
    }
}
