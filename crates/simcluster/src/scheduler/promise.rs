//! Pods get their node as they are made: one that fits is stored with its node, and its binding is a write less.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use ironclad_apiserver::{Admission, Admitted, ApiError, Objects, Operation, Review};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Scheduler, fit::Placement, is_ours, ledger::Ledger};

/// How long a place is kept for a pod that no cache shows: whoever reviews its creation later may refuse it.
const KEPT: Duration = Duration::from_secs(30);

/// The scheduler as the server asks it about new pods; nobody while the member is down.
#[derive(Default)]
pub(crate) struct Placing(Mutex<Weak<Scheduler>>);

impl Placing {
    /// From now on this scheduler is asked.
    pub(super) fn by(&self, scheduler: &Arc<Scheduler>) {
        *self.0.lock() = Arc::downgrade(scheduler);
    }
}

impl fmt::Debug for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Placing")
    }
}

impl Admission for Placing {
    fn mutate(&self, review: &Review<'_>, _: &Objects<'_>) -> Result<Option<Value>, ApiError> {
        let is_new = review.operation == Operation::Create && !review.dry_run;
        if !is_new || (review.group, review.resource, review.subresource) != ("", "pods", "") {
            return Ok(None);
        }
        let (Some(object), Some(scheduler)) = (review.object, self.0.lock().upgrade()) else { return Ok(None) };
        // What is no pod is told so by the schema.
        let Ok(pod) = Pod::deserialize(object) else { return Ok(None) };
        let Some(node) = scheduler.promise(&pod) else { return Ok(None) };
        let mut placed = object.clone();
        placed["spec"]["nodeName"] = node.into();
        let now = scheduler.cluster.seam.clock.wall_seconds();
        placed["status"]["conditions"] = json!([
            {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now},
        ]);
        Ok(Some(placed))
    }

    fn validate(&self, _: &Review<'_>, _: &Objects<'_>) -> Result<Admitted, ApiError> {
        Ok(Admitted::default())
    }
}

impl Scheduler {
    /// The node that a new pod is to run on, which is its own from now on; `None` leaves it to the queue, which says why.
    fn promise(&self, pod: &Pod) -> Option<String> {
        if !is_ours(pod) {
            return None;
        }
        let now = self.cluster.seam.clock.mono();
        let mut state = self.state.lock();
        if !state.knows_all {
            return None;
        }
        let state = &mut *state;
        state.promises.forget(now, &mut state.ledger);
        let Placement::On(node) = state.place(pod) else { return None };
        state.promises.0.push_back((now, pod.metadata.uid.clone().unwrap_or_default()));
        Some(node)
    }
}

/// Pods that were given a node as they were made, oldest first.
#[derive(Default)]
pub(super) struct Promises(VecDeque<(Instant, String)>);

impl Promises {
    /// Until when places are kept for pods that have not come yet; `None` if all came.
    pub(super) fn kept_until(&self, ledger: &Ledger) -> Option<Instant> {
        self.0.iter().find(|(_, uid)| ledger.is_assumed(uid)).map(|(since, _)| *since + KEPT)
    }

    /// Takes back what was given to pods that never came.
    pub(super) fn forget(&mut self, now: Instant, ledger: &mut Ledger) {
        while let Some((since, uid)) = self.0.front()
            && now.saturating_duration_since(*since) >= KEPT
        {
            if ledger.is_assumed(uid) {
                ledger.free(uid);
            }
            self.0.pop_front();
        }
    }
}
