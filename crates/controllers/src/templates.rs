//! Templates that wait to be claimed: the queue of the detector, which policies fill, too.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_fleet::ObjectKey;
use ironclad_propagation::{detector::Waiting, policy, policy_match::Policy, wakes::changes};
use ironclad_runtime::{Change, Queue};
use kube::api::DynamicObject;
use parking_lot::Mutex;

/// The queue, and the templates that found no policy. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TemplateQueue {
    /// Templates to be claimed and bound.
    pub(crate) queue: Queue<ObjectKey>,
    /// In memory only: the first listing after a start makes it again (specification/propagation.md 5.2).
    waiting: Arc<Mutex<BTreeMap<ObjectKey, Waiting>>>,
}

impl TemplateQueue {
    pub(crate) fn new(queue: Queue<ObjectKey>) -> Self {
        Self { queue, waiting: Arc::default() }
    }

    /// The reason for which this template waits, if it does.
    pub(crate) fn waiting(&self, key: &ObjectKey) -> Option<Waiting> {
        self.waiting.lock().get(key).copied()
    }

    /// Notes that the template waits for a policy.
    pub(crate) fn wait(&self, key: &ObjectKey, what: Waiting) {
        self.waiting.lock().insert(key.clone(), what);
    }

    /// Notes that the template waits no longer.
    pub(crate) fn stop_waiting(&self, key: &ObjectKey) {
        self.waiting.lock().remove(key);
    }

    /// The waiting templates that the policy may select.
    pub(crate) fn selected(&self, policy: Policy<'_>) -> Vec<ObjectKey> {
        self.waiting.lock().keys().filter(|key| policy::may_select(policy, key)).cloned().collect()
    }
}

/// Returns true if a change of a template matters ([`changes::template`]).
pub(crate) fn counts(change: &Change<DynamicObject>) -> bool {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    changes::template(old.map(|old| (&old.metadata, &old.data)), new.map(|new| (&new.metadata, &new.data)))
}
