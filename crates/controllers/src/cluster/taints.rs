//! What is told when a write of taints did not go through.

use ironclad_api::{cluster::Cluster, events::TAINT_CLUSTER_FAILED};
use ironclad_failover::{membership, taints};
use ironclad_fleet::Event;
use ironclad_runtime::Failure;
use serde_json::Value;

use crate::Context;

impl Context {
    /// A write of the Cluster failed. If it was about taints the Cluster's events say so; a conflict is no failure: it
    /// is decided again.
    pub(crate) fn tell_untainted(&self, cluster: &Cluster, patch: &Value, failure: &Failure) {
        if failure.is_conflict() || failure.is_not_found() || patch.pointer("/spec/taints").is_none() {
            return;
        }
        let message = taints::failure_message(failure);
        self.events.record(&Event::warning(membership::about(cluster), TAINT_CLUSTER_FAILED, message));
    }
}
