//! Flags of FederatedHPAs (specification/autoscaling.md 2.1).

use std::time::Duration;

use ironclad_hpa::{options::Options, ratio::Tolerance};
use jiff::SignedDuration;

use ironclad_cli::Period;

#[derive(clap::Args, Debug)]
pub(super) struct AutoscalingArgs {
    /// Time between two evaluations of a FederatedHPA
    #[arg(long, env = "IRONCLAD_HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD", default_value_t = Period(Duration::from_secs(15)), value_name = "DURATION")]
    horizontal_pod_autoscaler_sync_period: Period,
    /// Distance of a metric from its target, as a share of it, within which FederatedHPAs do not scale
    #[arg(long, env = "IRONCLAD_HORIZONTAL_POD_AUTOSCALER_TOLERANCE", default_value = "0.1", value_name = "SHARE")]
    horizontal_pod_autoscaler_tolerance: String,
    /// Time for which FederatedHPAs keep the largest recommendation before they scale down, unless their behavior says
    #[arg(long, env = "IRONCLAD_HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION", default_value_t = Period(Duration::from_secs(300)), value_name = "DURATION")]
    horizontal_pod_autoscaler_downscale_stabilization: Period,
    /// Age up to which CPU usage of a Pod may be left out, as Pods use more while they start
    #[arg(long, env = "IRONCLAD_HORIZONTAL_POD_AUTOSCALER_CPU_INITIALIZATION_PERIOD", default_value_t = Period(Duration::from_secs(300)), value_name = "DURATION")]
    horizontal_pod_autoscaler_cpu_initialization_period: Period,
    /// Time after its start within which a Pod that becomes unready was never ready
    #[arg(long, env = "IRONCLAD_HORIZONTAL_POD_AUTOSCALER_INITIAL_READINESS_DELAY", default_value_t = Period(Duration::from_secs(30)), value_name = "DURATION")]
    horizontal_pod_autoscaler_initial_readiness_delay: Period,
}

impl AutoscalingArgs {
    /// Returns the options; the error names the flag.
    pub(super) fn options(&self) -> Result<Options, String> {
        let signed = |period: Period| SignedDuration::try_from(period.0).unwrap_or(SignedDuration::MAX);
        if self.horizontal_pod_autoscaler_sync_period.0.is_zero() {
            return Err("--horizontal-pod-autoscaler-sync-period must be greater than 0".to_owned());
        }
        let given = &self.horizontal_pod_autoscaler_tolerance;
        let tolerance = Tolerance::parse(given).ok_or_else(|| {
            format!("--horizontal-pod-autoscaler-tolerance {given:?} is not a number from 0 on, such as 0.1")
        })?;
        Ok(Options {
            sync_period: signed(self.horizontal_pod_autoscaler_sync_period),
            tolerance,
            downscale_stabilization: signed(self.horizontal_pod_autoscaler_downscale_stabilization),
            cpu_initialization_period: signed(self.horizontal_pod_autoscaler_cpu_initialization_period),
            initial_readiness_delay: signed(self.horizontal_pod_autoscaler_initial_readiness_delay),
            ..Options::default()
        })
    }
}
