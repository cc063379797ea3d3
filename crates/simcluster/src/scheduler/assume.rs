//! Assumed placements of pods that are being created: the node is booked before the pod is stored.

use std::collections::VecDeque;

use k8s_openapi::{
    api::core::v1::{Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use tokio::time::Instant;

use super::{Scheduler, fit::Placement, is_ours, ledger::Ledger};
use crate::placing::ASSUME_EXPIRY;

impl Scheduler {
    /// Assumes a node for a new pod, and returns it with the pod's conditions; `None` leaves the pod to the queue,
    /// which reports why.
    pub(crate) fn assume(&self, pod: &Pod) -> Option<(String, PodCondition)> {
        if !is_ours(pod) {
            return None;
        }
        let now = self.cluster.seam.clock.mono();
        let mut state = self.state.lock();
        if !state.knows_all {
            return None;
        }
        let state = &mut *state;
        state.assumed.forget(now, &mut state.ledger);
        let Placement::On(node) = state.place(pod) else { return None };
        state.assumed.0.push_back((now, pod.metadata.uid.clone().unwrap_or_default()));
        let scheduled = PodCondition {
            type_: "PodScheduled".into(),
            status: "True".into(),
            last_transition_time: Some(Time(self.cluster.seam.clock.wall_seconds())),
            ..PodCondition::default()
        };
        Some((node, scheduled))
    }
}

/// Expiry and uid of pods that got a node at their creation, oldest first.
#[derive(Default)]
pub(super) struct AssumedPlacements(VecDeque<(Instant, String)>);

impl AssumedPlacements {
    /// Earliest expiry of placements whose pods are not in the cache yet; `None` if there are none.
    pub(super) fn next_expiry(&self, ledger: &Ledger) -> Option<Instant> {
        self.0.iter().find(|(_, uid)| ledger.is_assumed(uid)).map(|(since, _)| *since + ASSUME_EXPIRY)
    }

    /// Frees expired placements of pods that were never created.
    pub(super) fn forget(&mut self, now: Instant, ledger: &mut Ledger) {
        while let Some((since, uid)) = self.0.front()
            && now.saturating_duration_since(*since) >= ASSUME_EXPIRY
        {
            if ledger.is_assumed(uid) {
                ledger.free(uid);
            }
            self.0.pop_front();
        }
    }
}
