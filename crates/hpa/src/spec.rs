//! Fields that FederatedHPAs and HorizontalPodAutoscalers have in common.

use jiff::SignedDuration;
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HPAScalingRules, HorizontalPodAutoscalerBehavior, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus, MetricSpec,
};

use crate::{
    conditions,
    options::Options,
    ratio::{Tolerance, Tolerances},
};

/// Longest stabilization window, and longest period of a policy, in seconds.
const LONGEST: i32 = 3_600;

/// Spec of an autoscaler.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// The workload.
    pub target: &'a CrossVersionObjectReference,
    /// Lower bound.
    pub min: i32,
    /// Upper bound.
    pub max: i32,
    pub metrics: &'a [MetricSpec],
    /// Rules for the rate of scaling.
    pub behavior: Option<&'a HorizontalPodAutoscalerBehavior>,
    /// True if the autoscaler set zero replicas itself, false if somebody else did. `None` if that is not known: then
    /// the minimum decides.
    pub scaled_to_zero: Option<bool>,
}

impl<'a> From<&'a HorizontalPodAutoscalerSpec> for Spec<'a> {
    fn from(spec: &'a HorizontalPodAutoscalerSpec) -> Self {
        Self {
            target: &spec.scale_target_ref,
            min: spec.min_replicas.unwrap_or(1),
            max: spec.max_replicas,
            metrics: spec.metrics.as_deref().unwrap_or_default(),
            behavior: spec.behavior.as_ref(),
            scaled_to_zero: None,
        }
    }
}

impl<'a> Spec<'a> {
    /// Returns the spec with what condition `ScaledToZero` of the status says.
    #[must_use]
    pub fn with_status(self, status: Option<&HorizontalPodAutoscalerStatus>, options: &Options) -> Self {
        Self { scaled_to_zero: Some(options.scale_to_zero && conditions::is_scaled_to_zero(status)), ..self }
    }

    /// Returns true if a template without replicas is scaled up by its metrics. Otherwise the user switched the
    /// autoscaler off.
    pub(crate) fn leaves_zero(&self) -> bool {
        match self.scaled_to_zero {
            None => self.min == 0,
            Some(by_autoscaler) => by_autoscaler && (self.min != 0 || self.has_metric_without_pods()),
        }
    }

    /// Returns true if a metric is measured although no pods run.
    pub(crate) fn has_metric_without_pods(&self) -> bool {
        self.metrics.iter().any(|metric| metric.type_ == "Object" || metric.type_ == "External")
    }

    /// Returns the rules of scaling up, if they are given.
    pub(crate) fn up(&self) -> Option<&'a HPAScalingRules> {
        self.behavior?.scale_up.as_ref()
    }

    /// Returns the rules of scaling down, if they are given.
    pub(crate) fn down(&self) -> Option<&'a HPAScalingRules> {
        self.behavior?.scale_down.as_ref()
    }

    /// Returns the tolerance of each direction: its own, or that of the flag.
    #[must_use]
    pub fn tolerances(&self, options: &Options) -> Tolerances {
        let of = |rules: Option<&HPAScalingRules>| {
            rules.and_then(|rules| Tolerance::parse(&rules.tolerance.as_ref()?.0)).unwrap_or(options.tolerance)
        };
        Tolerances { up: of(self.up()), down: of(self.down()) }
    }

    /// Returns the stabilization windows of scaling up and of scaling down.
    #[must_use]
    pub fn windows(&self, options: &Options) -> (SignedDuration, SignedDuration) {
        let of = |rules: Option<&HPAScalingRules>, otherwise: SignedDuration| {
            let given = rules.and_then(|rules| rules.stabilization_window_seconds);
            given.map_or(otherwise, |seconds| SignedDuration::from_secs(i64::from(seconds.clamp(0, LONGEST))))
        };
        (of(self.up(), SignedDuration::ZERO), of(self.down(), options.downscale_stabilization))
    }

    /// Returns the longer one of the stabilization windows.
    #[must_use]
    pub fn longest_window(&self, options: &Options) -> SignedDuration {
        let (up, down) = self.windows(options);
        up.max(down)
    }

    /// Returns the longest period of a policy; zero without rules, as changes do not matter then.
    pub(crate) fn longest_period(&self) -> SignedDuration {
        if self.behavior.is_none() {
            return SignedDuration::ZERO;
        }
        let of =
            |rules: Option<&HPAScalingRules>| crate::rates::policies(rules, true).map(|policy| policy.period).max();
        of(self.up()).max(of(self.down())).unwrap_or(crate::rates::DEFAULT_PERIOD)
    }
}
