//! State of this process's controllers, for the group `explain.ironclad.io`.

use std::{sync::Arc, time::Duration};

use ironclad_controllers::Controllers;
use ironclad_extension::explain::{Leader, Waiting};
use ironclad_failover::taint_manager::{Report, Row};
use ironclad_runtime::QueuedState;

/// The controllers of `up`, which is always its own leader.
pub(crate) struct Here(pub(crate) Arc<Controllers>);

impl Leader for Here {
    fn evictions(&self) -> Option<(Report, Vec<Row>)> {
        self.0.explain_evictions()
    }

    fn scheduling_queue(&self) -> Vec<Waiting> {
        let waiting = self.0.explain_scheduling_queue().into_iter().enumerate().map(|(index, (binding, queued))| {
            let (state, priority, wait) = match queued.state {
                QueuedState::Working => ("Scheduling", "High", None),
                QueuedState::Ready => ("Active", "High", None),
                QueuedState::LowPriority => ("Active", "Low", None),
                QueuedState::Delayed(wait) => ("Backoff", "High", Some(wait)),
            };
            let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let message = self.0.explain_scheduling(&binding);
            let (position, wait_ms, attempts) = (index + 1, wait.map(millis), queued.failures);
            Waiting { binding, position, priority, state, wait_ms, attempts, message }
        });
        waiting.collect()
    }
}
