//! Groups of workloads that share or avoid each other's clusters (specification/scheduling.md 5.8).

use ironclad_api::work::{ResourceBinding, TargetCluster};
use ironclad_fleet::{BindingKey, BindingRef};
use ironclad_runtime::Change;
use ironclad_scheduling::Peers;
use parking_lot::{Mutex, MutexGuard};

/// The groups; nothing is kept while gate `WorkloadAffinity` is off.
pub(super) struct Groups(Option<Mutex<Peers>>);

impl Groups {
    pub(super) fn new(is_on: bool) -> Self {
        Self(is_on.then(Mutex::default))
    }

    /// Locks the groups for a decision. Do not hold it across an `.await`.
    pub(super) fn read(&self) -> Option<MutexGuard<'_, Peers>> {
        self.0.as_ref().map(Mutex::lock)
    }

    /// Takes in a changed binding. Returns the other members of its groups if its clusters or groups changed.
    pub(super) fn on_binding(&self, change: &Change<ResourceBinding>) -> Vec<BindingKey> {
        let Some(mut peers) = self.read() else { return Vec::new() };
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(key) = new.or(old).map(|binding| BindingRef::from(binding).key()) else { return Vec::new() };
        let before = peers.fellows(&key);
        match new {
            Some(new) => peers.update(new),
            None => peers.remove(&key),
        }
        let read =
            |binding: &ResourceBinding| (binding.spec.clusters.clone(), binding.spec.workload_affinity_groups.clone());
        if old.map(read) == new.map(read) { Vec::new() } else { before }
    }

    /// Records a result that is about to be written.
    pub(super) fn assign(&self, binding: BindingRef<'_>, targets: &[TargetCluster]) {
        if let Some(mut peers) = self.read() {
            peers.assign(&binding.key(), targets);
        }
    }

    /// Records that the write of a result ended.
    pub(super) fn assigned(&self, binding: BindingRef<'_>) {
        if let Some(mut peers) = self.read() {
            peers.assigned(&binding.key());
        }
    }
}
