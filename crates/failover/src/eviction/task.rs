//! The task that an eviction writes (failover.md 6.7 step 7, 7.1).

use std::collections::BTreeMap;

use ironclad_api::{
    eviction::PRODUCER_TAINT_MANAGER,
    policy::PurgeMode,
    work::{GracefulEvictionTask, ResourceBindingSpec},
};

use super::rows::in_words;
use crate::{Now, queue::Element};

/// Admission refuses longer messages.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The task for leaving a cluster. `creationTimestamp` is left to the graceful eviction controller.
#[must_use]
pub fn task(
    from: &str,
    spec: &ResourceBindingSpec,
    element: &Element,
    preserved: BTreeMap<String, String>,
    now: Now,
) -> GracefulEvictionTask {
    let replicas =
        spec.target(from).map(|target| target.replicas).filter(|replicas| *replicas > 0 && spec.is_workload());
    GracefulEvictionTask {
        from_cluster: from.to_owned(),
        purge_mode: Some(element.wanted.purge_mode),
        replicas,
        reason: element.wanted.causes.task_reason().to_owned(),
        message: message(element, now),
        producer: PRODUCER_TAINT_MANAGER.to_owned(),
        grace_period_seconds: None,
        suppress_deletion: (element.wanted.purge_mode == PurgeMode::Never).then_some(true),
        preserved_label_state: preserved,
        creation_timestamp: None,
        clusters_before_failover: spec.clusters.iter().map(|target| target.name.clone()).collect(),
    }
}

/// What a person reads in the task: the taints, when it was due, how long it waited.
#[must_use]
pub fn message(element: &Element, now: Now) -> String {
    let causes = &element.wanted.causes;
    let waited = now.mono.saturating_sub(element.enqueued_at.unwrap_or(now.mono));
    let due = causes.due();
    let text = format!("taints {}; due {due}; waited {} in the queue", causes.taints().join(", "), in_words(waited));
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
