//! Groups of workloads that share or avoid each other's clusters (specification/scheduling.md 5.8), as the scheduler
//! assumes them between its cycles.

use std::sync::Arc;

use ironclad_api::work::{ResourceBinding, TargetCluster};
use ironclad_fleet::{BindingKey, BindingRef};
use ironclad_runtime::{Change, Informer};
use ironclad_scheduling::{Peers, wakes::binding::concerns_fellows};
use parking_lot::{Mutex, MutexGuard, RwLock};

type OnFellow = Box<dyn Fn(&Fellow) + Send + Sync>;

/// Another member of the groups of a binding that changed.
pub(crate) struct Fellow {
    pub(crate) key: BindingKey,
    /// True if a group has members in other clusters than before.
    pub(crate) group_moved: bool,
}

/// The groups; nothing is kept while gate `WorkloadAffinity` is off. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Groups(Option<Arc<Shared>>);

#[derive(Default)]
struct Shared {
    peers: Mutex<Peers>,
    handlers: RwLock<Vec<OnFellow>>,
}

impl Groups {
    /// The groups of all ResourceBindings, if they count.
    pub(crate) fn follow(bindings: &Informer<ResourceBinding>, is_on: bool) -> Self {
        let groups = Self(is_on.then(Arc::default));
        if let Some(shared) = groups.0.clone() {
            bindings.on_change(move |change| shared.on_binding(change));
        }
        groups
    }

    /// Locks the groups for a decision. Do not hold it across an `.await`.
    pub(crate) fn read(&self) -> Option<MutexGuard<'_, Peers>> {
        self.0.as_ref().map(|shared| shared.peers.lock())
    }

    /// Calls this with the other members of a group when the clusters or the groups of one change. It must not wait.
    pub(crate) fn on_fellow(&self, handler: impl Fn(&Fellow) + Send + Sync + 'static) {
        if let Some(shared) = &self.0 {
            shared.handlers.write().push(Box::new(handler));
        }
    }

    /// Records a result that is about to be written.
    pub(crate) fn assign(&self, binding: BindingRef<'_>, targets: &[TargetCluster]) {
        if let Some(mut peers) = self.read() {
            peers.assign(&binding.key(), targets);
        }
    }

    /// Records that the write of a result ended.
    pub(crate) fn assigned(&self, binding: BindingRef<'_>) {
        if let Some(mut peers) = self.read() {
            peers.assigned(&binding.key());
        }
    }
}

impl Shared {
    fn on_binding(&self, change: &Change<ResourceBinding>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(key) = new.or(old).map(|binding| BindingRef::from(binding).key()) else { return };
        let (fellows, group_moved) = {
            let mut peers = self.peers.lock();
            let before = (peers.fellows(&key), peers.moves(&key, new));
            match new {
                Some(new) => peers.update(new),
                None => peers.remove(&key),
            }
            before
        };
        if !concerns_fellows(old, new) {
            return;
        }
        let handlers = self.handlers.read();
        for key in fellows {
            let fellow = Fellow { key, group_moved };
            handlers.iter().for_each(|handler| handler(&fellow));
        }
    }
}
