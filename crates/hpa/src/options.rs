//! Flags of autoscalers (specification/autoscaling.md 2.1).

use ironclad_options::{Rule, Value, flag, options, typed};
use jiff::SignedDuration;

use crate::ratio::Tolerance;

/// Meaning of a pod that has no container of the name that a metric gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsentContainer {
    /// The metric fails: FederatedHPAs.
    FailsMetric,
    /// The pod has no sample: HorizontalPodAutoscalers, as in kube-controller-manager.
    IsMissing,
}

options! {
/// Flags and gates of autoscalers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options under "Controllers" {
    /// Time between two evaluations of a FederatedHPA
    sync_period: SignedDuration = SignedDuration::from_secs(15) => "DURATION",
        name: "horizontal_pod_autoscaler_sync_period", rule: Some(Rule::Positive), announced: true;
    /// Distance of a metric from its target, as a share of it, within which FederatedHPAs do not scale
    tolerance: Tolerance = Tolerance::DEFAULT => "SHARE", name: TOLERANCE, announced: true;
    /// Time for which FederatedHPAs keep the largest recommendation before they scale down, unless their behavior says
    downscale_stabilization: SignedDuration = SignedDuration::from_secs(300) => "DURATION",
        name: "horizontal_pod_autoscaler_downscale_stabilization", announced: true;
    /// Age up to which CPU usage of a Pod may be left out, as Pods use more while they start
    cpu_initialization_period: SignedDuration = SignedDuration::from_secs(300) => "DURATION",
        name: "horizontal_pod_autoscaler_cpu_initialization_period", announced: true;
    /// Time after its start within which a Pod that becomes unready was never ready
    initial_readiness_delay: SignedDuration = SignedDuration::from_secs(30) => "DURATION",
        name: "horizontal_pod_autoscaler_initial_readiness_delay", announced: true;
}
besides {
    /// Age from which a sample counts as missing.
    stale_after: Option<SignedDuration> = Some(SignedDuration::from_secs(300));
    /// Meaning of pods without the container of a metric.
    absent_container: AbsentContainer = AbsentContainer::FailsMetric;
    /// Gate `FederatedHPAExternalMetrics`.
    external_metrics: bool = true;
    /// Gate `HPAScaleToZero`: replicas that the autoscaler set to zero itself are scaled up again.
    scale_to_zero: bool = false;
}
}

/// The field whose flag is not a number for the command line, but a quantity.
const TOLERANCE: &str = "horizontal_pod_autoscaler_tolerance";

typed! {
    Tolerance, of Options: this => Value::Word(this.to_string()), Value::Word(given) => Self::parse(&given)
        .ok_or_else(|| format!("{} {given:?} is not a number from 0 on, such as 0.1", flag(TOLERANCE)));
}

impl Options {
    /// Flags of the HorizontalPodAutoscalers of one cluster, as kube-controller-manager has them.
    #[must_use]
    pub fn of_one_cluster() -> Self {
        Self::default().in_one_cluster()
    }

    /// Returns these flags for the HorizontalPodAutoscalers of one cluster: its samples are used whatever their age,
    /// and a pod without the container of a metric is missing.
    #[must_use]
    pub fn in_one_cluster(self) -> Self {
        Self { stale_after: None, absent_container: AbsentContainer::IsMissing, external_metrics: true, ..self }
    }
}
