//! Objects wait for their namespace while it is being propagated (specification/propagation.md 22,
//! specification/propagation.md 13.2).

use std::time::Duration;

use ironclad_api::{ObjectMeta, conditions, work::Work};
use jiff::{SignedDuration, Timestamp};

use super::snapshot::{Context, Space};
use crate::{namespace::is_synced, template};

/// Longest wait of an object for its namespace, from the creation of the later of both. Then the object is sent, and
/// the member's answer is reported.
pub const NAMESPACE_WAIT_MAX: SignedDuration = SignedDuration::from_secs(120);

/// Remaining wait of the object for its namespace, which is being propagated and has neither succeeded nor failed yet.
/// `None` if there is no reason to wait.
pub(super) fn wait(cx: &Context<'_>) -> Option<Duration> {
    let Space { work, namespace, synced, exists } = cx.seen.namespace;
    if exists {
        return None;
    }
    let cluster = cx.seen.cluster;
    let sets_out = match (work, namespace, synced) {
        (Some(work), _, _) => is_being_propagated(work).then(|| created(&work.metadata)),
        // Namespace sync is slower than the propagation of an object: its Work follows.
        (None, Some(namespace), Some(skipped)) => {
            let stays = cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
            let since = || template::text(namespace, "/metadata/creationTimestamp").parse().ok();
            (stays && is_synced(namespace, skipped)).then(since)
        }
        (None, ..) => None,
    };
    let sets_out = sets_out?;
    let own = created(&cx.seen.work.metadata);
    let came_back = cluster.and_then(|cluster| {
        let conditions = &cluster.status.as_ref()?.conditions;
        conditions::get(conditions, conditions::cluster::READY).map(|ready| ready.last_transition_time.0)
    });
    let since = [sets_out, own, came_back].into_iter().flatten().max()?;
    let left = NAMESPACE_WAIT_MAX - cx.now.duration_since(since);
    // Clocks differ: an object that seems to be created in the future does not wait longer.
    left.is_positive().then(|| left.min(NAMESPACE_WAIT_MAX).unsigned_abs())
}

/// Returns true if a Work is about to be applied for the first time.
pub(crate) fn is_being_propagated(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    work.metadata.deletion_timestamp.is_none()
        && work.spec.suspend_dispatching != Some(true)
        && conditions::get(conditions, conditions::work::APPLIED).is_none()
}

fn created(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|time| time.0)
}
