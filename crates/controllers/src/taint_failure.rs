//! Event of a write of taints that failed.

use ironclad_api::{cluster::Cluster, events::TAINT_CLUSTER_FAILED};
use ironclad_failover::taints;
use ironclad_fleet::{Event, cluster_reference};
use ironclad_runtime::Failure;
use serde_json::Value;

/// The event for a failed write of a Cluster, if the write was about taints. A conflict is no failure: it is decided
/// again.
pub(crate) fn event(cluster: &Cluster, patch: &Value, failure: &Failure) -> Option<Event> {
    if failure.is_conflict() || failure.is_not_found() || patch.pointer("/spec/taints").is_none() {
        return None;
    }
    Some(Event::warning(cluster_reference(cluster), TAINT_CLUSTER_FAILED, taints::failure_message(failure)))
}
