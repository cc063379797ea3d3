//! The algorithm of horizontal pod autoscalers, and the metrics that they ask for, read and merged
//! (specification/autoscaling.md 2, 3).
//!
//! FederatedHPAs and the HorizontalPodAutoscalers of simulated members decide by the same functions over plain values:
//! nothing here knows the kinds of the control plane. A round is [`decide`]. Reading pods, asking for metrics, and
//! writing replicas, is the task of controllers.

pub mod calibration;
pub mod combine;
pub mod conditions;
pub mod events;
pub mod grouping;
pub mod history;
pub mod metrics;
pub mod normalize;
pub mod notice;
pub mod options;
pub mod plan;
pub mod pods;
pub mod proposal;
pub mod quantity;
pub mod rates;
pub mod ratio;
pub mod readings;
mod round;
pub mod samples;
pub mod selecting;
pub mod source;
pub mod spec;
pub mod status;
#[cfg(test)]
mod testkit;

pub use self::{
    notice::Notice,
    plan::Plan,
    round::{SETTLING_MAX, Snapshot, Trace, decide, explain, needs_metrics},
};
