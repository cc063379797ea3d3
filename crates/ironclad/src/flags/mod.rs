//! The flags that `up` and `run` share, one file an area; their meaning and checks are the controllers' and the core's.

pub(crate) mod accepted;
mod admission;
pub(crate) mod aggregated;
pub(crate) mod bind;
pub(crate) mod dashboard;
mod estimators;
mod graceful;
pub(crate) mod metrics;
mod propagation;
#[cfg(test)]
mod reference;
mod scheduler;
mod zone;

use std::time::Duration;

pub(crate) use admission::{AdmissionFlags, WebhookFlags};
use ironclad_autoscaling::{cron, distributed_hpa};
use ironclad_cli::{Period, given::Given, report::Misused};
use ironclad_controllers::{ControllerList, Settings};
use ironclad_failover::{
    Flags,
    flags::{EvictionFlags, HealthFlags},
};
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_options::Table as _;
use jiff::SignedDuration;

/// Controller flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Controllers")]
pub(crate) struct ControllerFlags {
    /// Controllers to run: `*` all that are on by default, `name` this one, `-name` not this one
    #[arg(long, env = "IRONCLAD_CONTROLLERS", default_value = "*", value_name = "LIST", allow_hyphen_values = true)]
    controllers: String,
    /// Features to switch on or off, as `Failover=true,PropagateDeps=false`
    #[arg(long, env = "IRONCLAD_FEATURE_GATES", default_value = "", hide_default_value = true, value_name = "GATES")]
    feature_gates: String,
    /// Also write Karmada's success events, once per change, for tools that wait for them
    #[arg(long, env = "IRONCLAD_SUCCESS_EVENTS", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    success_events: bool,
    /// Executions of CronFederatedHPAs that are late by more are not made up for
    #[arg(long, env = "IRONCLAD_CRON_FEDERATED_HPA_STARTING_DEADLINE", default_value_t = Period(Duration::from_secs(100)), value_name = "DURATION")]
    cron_federated_hpa_starting_deadline: Period,
    /// A cluster that is not Ready for longer gives its share of a distributed HorizontalPodAutoscaler to the others
    #[arg(long, env = "IRONCLAD_FEDERATED_HPA_CLUSTER_FAILURE_GRACE", default_value_t = Period(Duration::from_secs(60)), value_name = "DURATION")]
    federated_hpa_cluster_failure_grace: Period,
    #[command(flatten)]
    autoscaling: Given<ironclad_hpa::options::Options>,
    #[command(flatten)]
    propagation: propagation::PropagationFlags,
    #[command(flatten)]
    health: Given<HealthFlags>,
    #[command(flatten)]
    graceful: graceful::GracefulArgs,
    #[command(flatten)]
    scheduler: Given<ironclad_scheduling::Options>,
    #[command(flatten)]
    estimators: estimators::EstimatorArgs,
    #[command(flatten)]
    eviction: Given<EvictionFlags>,
    #[command(flatten)]
    accepted: accepted::AcceptedArgs,
}

impl ControllerFlags {
    /// Returns the settings, and logs a warning for each flag without an effect.
    ///
    /// # Errors
    /// A flag has an invalid value.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        let remedy = |error: &str| if error.contains("\n  try: ") { "" } else { "\n  try: --help" };
        let misused = |error: String| Misused(format!("{error}{}", remedy(&error)));
        let (gates, warnings) = Gates::parse(&self.feature_gates).map_err(|error| misused(error.to_string()))?;
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        let mut controllers = ControllerList::parse(&self.controllers).map_err(|error| misused(error.to_string()))?;
        let mut failover = Flags::default();
        let mut warned = self.graceful.apply_to(&mut failover, &mut controllers).map_err(|e| misused(e.to_string()))?;
        let (scheduler, warnings) = scheduler::options(&self.scheduler, &gates).map_err(misused)?;
        let (estimators, descheduler) = self.estimators.settings()?;
        warned.extend(warnings);
        warned.extend(controllers.warnings());
        let mut federated_hpa = ironclad_hpa::options::Options::default();
        let mut wrong = self.autoscaling.apply_to(&mut federated_hpa);
        wrong.extend(self.health.apply_to(&mut failover.health));
        wrong.extend(self.eviction.apply_to(&mut failover.eviction));
        if !failover.eviction.enable_no_execute_taint_eviction {
            // Without these evictions the flag has no effect, so its value is not judged, as upstream.
            wrong.retain(|(field, _)| *field != "no_execute_taint_eviction_purge_mode");
        }
        if let Some((_, error)) = wrong.into_iter().next() {
            return Err(misused(error).into());
        }
        let errors = failover.errors().into_iter().chain(federated_hpa.faults());
        let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
        if !errors.is_empty() {
            return Err(misused(errors.join("\n  and ")).into());
        }
        log_failover(&failover, &gates);
        for warning in warned.into_iter().chain(failover.warnings()).chain(self.accepted.warnings()) {
            tracing::warn!("{warning}");
        }
        Ok(Settings {
            gates,
            controllers,
            agent_of: None,
            agent_report: std::sync::Arc::default(),
            propagation: self.propagation.settings()?,
            cron: cron::Options {
                starting_deadline: self
                    .cron_federated_hpa_starting_deadline
                    .0
                    .try_into()
                    .unwrap_or(SignedDuration::MAX),
                zone: zone::of_process(),
            },
            federated_hpa,
            distributed_hpa: distributed_hpa::Options {
                failure_grace: self.federated_hpa_cluster_failure_grace.0.try_into().unwrap_or(SignedDuration::MAX),
            },
            scheduler,
            estimators,
            descheduler,
            failover,
            success_events: self.success_events,
            member_metrics: ironclad_membermetrics::Options::default(),
            running_scripts: None,
            history: None,
        })
    }

    /// Switches a feature gate on, unless the command line says otherwise.
    pub(crate) fn prefer(&mut self, gate: Gate) {
        self.feature_gates = format!("{}=true,{}", gate.name(), self.feature_gates);
    }
}

/// Logs whether taints move workloads, and how fast: the first question of an operator after a migration.
fn log_failover(failover: &Flags, gates: &Gates) {
    if !gates.enabled(Gate::Failover) {
        tracing::info!("failover is off (feature gate Failover): taints evict no workload");
        return;
    }
    let eviction = &failover.eviction;
    tracing::info!(
        no_execute_taint_eviction = eviction.enable_no_execute_taint_eviction,
        purge_mode = ?eviction.no_execute_taint_eviction_purge_mode,
        evictions_per_second = %eviction.primary(),
        secondary_evictions_per_second = %eviction.secondary(),
        evict_plugins = failover.evict_plugins.names().join(","),
        pre_scheduling_check = eviction.pre_scheduling_check.as_str(),
        mode = eviction.failover_mode.as_str(),
        "failover is on"
    );
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: ControllerFlags,
    }

    /// Parses a command line and checks its values.
    fn answer(flag: &str) -> Result<(), String> {
        let line = Line::try_parse_from(["x", flag]).map_err(|error| error.to_string())?;
        line.flags.settings().map(drop).map_err(|error| error.to_string())
    }

    /// Every flag of specification/failover.md 1.5, 6.6 and 6.10, at its bounds and beyond them.
    #[test]
    fn invalid_values_are_rejected() {
        for (flag, want) in [
            (
                "--cluster-status-update-frequency=0s",
                "--cluster-status-update-frequency: Invalid value: \"0s\": must be greater than 0",
            ),
            ("--cluster-status-update-frequency=-1s", "--cluster-status-update-frequency"),
            (
                "--horizontal-pod-autoscaler-sync-period=0s",
                "--horizontal-pod-autoscaler-sync-period: Invalid value: \"0s\": must be greater than 0",
            ),
            (
                "--horizontal-pod-autoscaler-tolerance=NaN",
                "--horizontal-pod-autoscaler-tolerance \"NaN\" is not a number",
            ),
            ("--horizontal-pod-autoscaler-tolerance=0.05", ""),
            ("--cluster-success-threshold=-1s", "--cluster-success-threshold"),
            ("--cluster-success-threshold=0s", ""),
            ("--cluster-failure-threshold=-1s", "--cluster-failure-threshold"),
            ("--cluster-failure-threshold=0s", ""),
            ("--cluster-monitor-period=0", "--cluster-monitor-period: Invalid value: \"0s\": must be greater than 0"),
            (
                "--cluster-monitor-grace-period=0s",
                "--cluster-monitor-grace-period: Invalid value: \"0s\": must be greater than 0",
            ),
            (
                "--cluster-startup-grace-period=0s",
                "--cluster-startup-grace-period: Invalid value: \"0s\": must be greater than 0",
            ),
            ("--cluster-cache-sync-timeout=soon", "\"soon\" is not a duration (write it like 90s, 5m or 1h30m)"),
            (
                "--connectivity-witnesses=here",
                "--connectivity-witnesses: Invalid value: \"here\": must be an http or https URL with a host",
            ),
            ("--nodes-ready-ratio=1.5", "--nodes-ready-ratio: Invalid value: 1.5: must be between 0 and 1"),
            ("--nodes-ready-ratio=NaN", "--nodes-ready-ratio: Invalid value: \"NaN\": must be between 0 and 1"),
            ("--resource-eviction-rate=-1", "--resource-eviction-rate: Invalid value: -1.0: must be non-negative"),
            (
                "--resource-eviction-rate=NaN",
                "--resource-eviction-rate: Invalid value: \"NaN\": must be a finite number",
            ),
            (
                "--resource-eviction-rate=inf",
                "--resource-eviction-rate: Invalid value: \"inf\": must be a finite number",
            ),
            ("--resource-eviction-rate=fast", "--resource-eviction-rate"),
            ("--resource-eviction-rate=0", ""),
            (
                "--secondary-resource-eviction-rate=-0.1",
                "--secondary-resource-eviction-rate: Invalid value: -0.1: must be non-negative",
            ),
            (
                "--secondary-resource-eviction-rate=-inf",
                "--secondary-resource-eviction-rate: Invalid value: \"-inf\": must be a finite number",
            ),
            ("--secondary-resource-eviction-rate=7", ""),
            (
                "--unhealthy-cluster-threshold=1.01",
                "--unhealthy-cluster-threshold: Invalid value: 1.01: must be between 0 and 1",
            ),
            (
                "--unhealthy-cluster-threshold=-0.01",
                "--unhealthy-cluster-threshold: Invalid value: -0.01: must be between 0 and 1",
            ),
            (
                "--unhealthy-cluster-threshold=NaN",
                "--unhealthy-cluster-threshold: Invalid value: \"NaN\": must be between 0 and 1",
            ),
            (
                "--large-cluster-num-threshold=-1",
                "--large-cluster-num-threshold: Invalid value: -1: must be non-negative",
            ),
            ("--large-cluster-num-threshold=9999999999", "--large-cluster-num-threshold"),
            ("--enable-no-execute-taint-eviction=maybe", "--enable-no-execute-taint-eviction"),
            (
                "--no-execute-taint-eviction-purge-mode=Never",
                "--no-execute-taint-eviction-purge-mode: Invalid value: \"Never\": Invalid mode",
            ),
            (
                "--pre-scheduling-check=loose",
                "--pre-scheduling-check: Unsupported value: \"loose\": supported values: \"strict\", \"relaxed\", \"off\"",
            ),
            (
                "--concurrent-binding-eviction-syncs=0",
                "--concurrent-binding-eviction-syncs: Invalid value: 0: must be greater than 0",
            ),
            ("--concurrent-binding-eviction-syncs=-1", "--concurrent-binding-eviction-syncs"),
            ("--mass-failure-hold=-60s", "--mass-failure-hold"),
            ("--mass-failure-hold=0", ""),
            ("--eviction-warm-up=-1s", "--eviction-warm-up"),
            ("--max-evictions-per-episode=-1", "--max-evictions-per-episode"),
            (
                "--failover-mode=dry",
                "--failover-mode: Unsupported value: \"dry\": supported values: \"enforce\", \"observe\"",
            ),
            (
                "--rate-limiter-base-delay=2000s",
                "--rate-limiter-base-delay: Invalid value: \"33m20s\": must be less than or equal to --rate-limiter-max-delay",
            ),
            ("--rate-limiter-qps=0", "--rate-limiter-qps: Invalid value: 0.0: must be greater than 0"),
            ("--rate-limiter-qps=NaN", "--rate-limiter-qps: Invalid value: \"NaN\": must be a finite number"),
            ("--rate-limiter-bucket-size=0", "--rate-limiter-bucket-size: Invalid value: 0: must be greater than 0"),
            ("--feature-gates=Failver=true", "unknown feature gate \"Failver\"\n  try: Failover, "),
            ("--controllers=foo", "--controllers names \"foo\", which is none\n  try: one of "),
            ("--evict-plugins=Nope", "unknown evict plugin \"Nope\""),
            ("--failover-eviction-timeout=5m", "--failover-eviction-timeout"),
        ] {
            match answer(flag) {
                Ok(()) => assert_eq!(want, "", "{flag} is taken"),
                Err(message) => {
                    assert!(!want.is_empty() && message.contains(want), "{flag}: {message}");
                    let remedies = message.matches("\n  try: ").count() + message.matches("try '--help'").count();
                    assert_eq!(remedies, 1, "{flag}: {message}");
                }
            }
        }
    }
}
