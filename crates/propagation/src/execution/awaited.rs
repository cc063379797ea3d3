//! What goes into a namespace waits for it, if somebody brings it (specification/propagation.md 22; 13.2).

use std::time::Duration;

use ironclad_api::{
    ObjectMeta, conditions,
    work::{Named, Work},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Road;
use crate::{namespace::is_synced, skipped_resources::Skipped, template};

/// How long an object waits at most for its namespace, from the moment in which the last of both could set out. After that it is
/// tried: what the member says of it is told.
pub const NAMESPACE_WAIT_MAX: SignedDuration = SignedDuration::from_secs(120);

/// What is known of how the object's namespace comes to the member. Nothing, for objects without one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Space<'a> {
    /// The Work that brings the namespace to this member: of namespace sync, or of a binding.
    pub work: Option<&'a Work>,
    /// The Namespace in the control plane. It need not be looked up where there is a Work.
    pub namespace: Option<&'a Value>,
    /// What namespace sync does not send; `None` if it does not run.
    pub synced: Option<&'a Skipped>,
    /// The member's cache has the namespace, and it is not about to end. One that is not managed is in no cache: its Work tells.
    pub stands: bool,
}

/// How long the object waits for its namespace still: it was sent for, or is about to be, and nothing came of it yet, good or
/// bad. `None` if nobody waits.
pub(super) fn wait(road: &Road<'_>) -> Option<Duration> {
    let Space { work, namespace, synced, stands } = road.seen.namespace;
    if stands {
        return None;
    }
    let cluster = road.seen.cluster;
    let sets_out = match (work, namespace, synced) {
        (Some(work), _, _) => is_on_its_way(work).then(|| created(&work.metadata)),
        // Namespace sync is slower than the road: its Work follows.
        (None, Some(namespace), Some(skipped)) => {
            let stays = cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
            let since = || template::text(namespace, "/metadata/creationTimestamp").parse().ok();
            (stays && is_synced(namespace, skipped)).then(since)
        }
        (None, ..) => None,
    };
    let sets_out = sets_out?;
    let own = created(&road.seen.work.metadata);
    let came_back = cluster.and_then(|cluster| {
        let conditions = &cluster.status.as_ref()?.conditions;
        conditions::get(conditions, conditions::cluster::READY).map(|ready| ready.last_transition_time.0)
    });
    let since = [sets_out, own, came_back].into_iter().flatten().max()?;
    let left = NAMESPACE_WAIT_MAX - road.now.duration_since(since);
    // Clocks differ: what was made a little after now does not wait for longer.
    left.is_positive().then(|| left.min(NAMESPACE_WAIT_MAX).unsigned_abs())
}

/// The namespace of which a Work's event says what came of it: the Work brings it, was on its way, and is not any more. Whatever
/// waits for the namespace has to look.
#[must_use]
pub fn settles_namespace(old: Option<&Work>, new: Option<&Work>) -> Option<String> {
    // Before there was a Work, it was about to be made.
    let settles = old.is_none_or(is_on_its_way) && !new.is_some_and(is_on_its_way);
    if settles { namespace_of(new.or(old)?) } else { None }
}

fn namespace_of(work: &Work) -> Option<String> {
    let [manifest] = work.spec.workload.manifests.as_slice() else { return None };
    let Named { api_version, kind, metadata } = manifest.named();
    (api_version == "v1" && kind == "Namespace" && !metadata.name.is_empty()).then_some(metadata.name)
}

fn is_on_its_way(work: &Work) -> bool {
    let conditions = work.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    work.metadata.deletion_timestamp.is_none()
        && work.spec.suspend_dispatching != Some(true)
        && conditions::get(conditions, conditions::work::APPLIED).is_none()
}

fn created(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|time| time.0)
}
