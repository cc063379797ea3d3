//! Flags of autoscalers (specification/autoscaling.md 2.1).

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

/// Flags and gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `--horizontal-pod-autoscaler-sync-period`.
    pub sync_period: SignedDuration,
    /// `--horizontal-pod-autoscaler-tolerance`.
    pub tolerance: Tolerance,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`.
    pub downscale_stabilization: SignedDuration,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`: pods younger than this may use more CPU than later.
    pub cpu_initialization_period: SignedDuration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`: a pod that became unready within this time after its
    /// start was never ready.
    pub initial_readiness_delay: SignedDuration,
    /// Age from which a sample counts as missing.
    pub stale_after: Option<SignedDuration>,
    /// Meaning of pods without the container of a metric.
    pub absent_container: AbsentContainer,
    /// Gate `FederatedHPAExternalMetrics`.
    pub external_metrics: bool,
    /// Gate `HPAScaleToZero`: replicas that the autoscaler set to zero itself are scaled up again.
    pub scale_to_zero: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sync_period: SignedDuration::from_secs(15),
            tolerance: Tolerance::DEFAULT,
            downscale_stabilization: SignedDuration::from_secs(300),
            cpu_initialization_period: SignedDuration::from_secs(300),
            initial_readiness_delay: SignedDuration::from_secs(30),
            stale_after: Some(SignedDuration::from_secs(300)),
            absent_container: AbsentContainer::FailsMetric,
            external_metrics: true,
            scale_to_zero: false,
        }
    }
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
