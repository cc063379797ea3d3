//! State of this process's controllers, for the group `explain.ironclad.io`.

use std::time::Duration;

use ironclad_controllers::{Controllers, QueuedBinding};
use ironclad_extension::explain::Leader;
use ironclad_failover::taint_manager::{Report, Row};
use ironclad_fleet::BindingKey;
use ironclad_planning::leader::{self, Configuration, EstimatorAnswer};
use ironclad_runtime::QueuedState;
use serde_json::Value;

use crate::term::Present;

/// The controllers of `up`; none while another process leads.
pub(crate) struct Here(pub(crate) Present<Controllers>);

impl Leader for Here {
    fn evictions(&self) -> Option<(Report, Vec<Row>)> {
        let controllers = self.0.lock().clone();
        controllers?.explain_evictions()
    }

    fn autoscaler(&self, namespace: &str, name: &str) -> Option<Value> {
        let controllers = self.0.lock().clone();
        serde_json::to_value(&*controllers?.explain_autoscaler(namespace, name)?).ok()
    }

    fn configuration(&self) -> Option<Configuration> {
        let controllers = self.0.lock().clone();
        Some(controllers?.configuration())
    }

    fn estimates(&self, binding: &BindingKey) -> Vec<EstimatorAnswer> {
        let controllers = self.0.lock().clone();
        controllers.map_or_else(Vec::new, |controllers| controllers.explain_estimates(binding))
    }

    fn scheduling_queue(&self) -> Vec<leader::QueuedBinding> {
        let Some(controllers) = self.0.lock().clone() else { return Vec::new() };
        let waiting =
            controllers.explain_scheduling_queue().into_iter().enumerate().map(|(index, (binding, waiting))| {
                let QueuedBinding { queued, is_unschedulable } = waiting;
                let (state, cause, wait) = match queued.state {
                    QueuedState::Working => ("Scheduling", "Change", None),
                    QueuedState::Ready => ("Active", "Change", None),
                    QueuedState::LowPriority => ("Active", "Replay", None),
                    QueuedState::Delayed(wait) if is_unschedulable => ("Unschedulable", "Change", Some(wait)),
                    QueuedState::Delayed(wait) => ("Backoff", "Change", Some(wait)),
                };
                let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
                let message = controllers.explain_scheduling(&binding);
                let (position, wait_ms, attempts) = (index + 1, wait.map(millis), queued.failures);
                let (cause, state, priority) = (cause.to_owned(), state.to_owned(), queued.rank);
                leader::QueuedBinding { binding, position, priority, cause, state, wait_ms, attempts, message }
            });
        waiting.collect()
    }
}
