//! Metrics of preemption between policies (specification/operations.md 6).

use ironclad_api::events;
use ironclad_fleet::Event;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use crate::metrics::ResultLabel;

/// The families. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PolicyMetrics {
    preempted: Family<ResultLabel, Counter>,
}

impl PolicyMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let preempted = Family::default();
        let help = "Templates that a policy of higher priority took over";
        registry.register("policy_preemption", help, preempted.clone());
        Self { preempted }
    }

    /// Counts an event if it reports the end of a preemption.
    pub(crate) fn count(&self, event: &Event) {
        let outcome = match event.reason {
            events::PREEMPT_POLICY_SUCCEED => Ok(()),
            events::PREEMPT_POLICY_FAILED => Err(()),
            _ => return,
        };
        self.preempted.get_or_create(&ResultLabel::of(&outcome)).inc();
    }
}
