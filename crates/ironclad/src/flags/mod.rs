//! The flags that `up` and `run` share, one file an area; their meaning and checks are the controllers' and the core's.

mod admission;
mod eviction;
mod graceful;
mod health;
mod propagation;
mod scheduler;

pub(crate) use admission::{AdmissionFlags, WebhookFlags};
use ironclad_cli::report::Misused;
use ironclad_controllers::{ControllerList, Settings};
use ironclad_failover::{Flags, flags::FailoverGate};
use ironclad_fleet::gates::{Gate, Gates};

/// Which controllers and features run.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct ControllerFlags {
    /// Which controllers run: `*` all that are on by default, `name` this one, `-name` not this one
    #[arg(long, env = "IRONCLAD_CONTROLLERS", default_value = "*", value_name = "LIST", allow_hyphen_values = true)]
    controllers: String,
    /// Features to switch on or off, as `Failover=true,PropagateDeps=false`
    #[arg(long, env = "IRONCLAD_FEATURE_GATES", default_value = "", hide_default_value = true, value_name = "GATES")]
    feature_gates: String,
    #[command(flatten)]
    propagation: propagation::PropagationFlags,
    #[command(flatten)]
    health: health::HealthArgs,
    #[command(flatten)]
    graceful: graceful::GracefulArgs,
    #[command(flatten)]
    scheduler: scheduler::SchedulerArgs,
    #[command(flatten)]
    eviction: eviction::EvictionArgs,
}

impl ControllerFlags {
    /// What the flags say, with a warning for each that says nothing any more.
    ///
    /// # Errors
    /// If a flag has a value that it can't have.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let misused = |error: String| Misused(format!("{error}\n  see: --help"));
        let (gates, warnings) = Gates::parse(&self.feature_gates).map_err(|error| misused(error.to_string()))?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let mut controllers = ControllerList::parse(&self.controllers).map_err(|error| misused(error.to_string()))?;
        let mut failover = Flags::default();
        self.health.put_into(&mut failover);
        let mut told = self.graceful.put_into(&mut failover, &mut controllers).map_err(|e| misused(e.to_string()))?;
        let (scheduler, warnings) = self.scheduler.options(&gates)?;
        told.extend(warnings);
        self.eviction.put_into(&mut failover);
        let errors: Vec<String> = failover.errors().iter().map(ToString::to_string).collect();
        if !errors.is_empty() {
            return Err(misused(errors.join("\n  and ")).into());
        }
        let gate = if gates.enabled(Gate::Failover) { FailoverGate::On } else { FailoverGate::Off };
        for line in failover.at_start(gate) {
            tracing::info!("{line}");
        }
        for warning in told.into_iter().chain(failover.warnings()) {
            tracing::warn!("{warning}");
        }
        Ok(Settings { gates, controllers, propagation: self.propagation.settings()?, scheduler, failover })
    }
}
