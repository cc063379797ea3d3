//! FederatedHPAs (specification/autoscaling.md 2): what they add to the rounds of the crate `ironclad-hpa`, by which
//! they decide.

pub mod merge;
pub mod placed;
pub mod report;
pub mod target;

use ironclad_api::autoscaling::FederatedHPASpec;
use ironclad_fleet::gates::{Gate, Gates};
use ironclad_hpa::{options::Options, spec::Spec};

/// Returns the spec of a FederatedHPA as rounds read it.
#[must_use]
pub fn spec(of: &FederatedHPASpec) -> Spec<'_> {
    Spec {
        target: &of.scale_target_ref,
        min: of.min_replicas.unwrap_or(1),
        max: of.max_replicas,
        metrics: &of.metrics,
        behavior: of.behavior.as_ref(),
        scaled_to_zero: None,
    }
}

/// Returns the flags of FederatedHPAs with what feature gates switch.
#[must_use]
pub fn with_gates(flags: Options, gates: &Gates) -> Options {
    let external_metrics = gates.enabled(Gate::FederatedHPAExternalMetrics);
    Options { external_metrics, scale_to_zero: gates.enabled(Gate::HPAScaleToZero), ..flags }
}
