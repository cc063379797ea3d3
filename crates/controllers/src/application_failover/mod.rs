//! The application failover controller: moves workloads away from clusters in which they are unhealthy for too long
//! (specification/failover.md 5). It does not depend on gate `Failover`.

mod apply;
mod memory;
mod observe;

use std::sync::Arc;

use ironclad_api::work::{ClusterResourceBinding, ResourceBinding};
use ironclad_failover::application_failover::{self, Memory, Parts};
use ironclad_runtime::{Change, Failure, Key, Next, Queue, run_workers};
use ironclad_seam::Seam;
use kube::Resource;

use self::{apply::Applier, memory::Memories, observe::Observer};
use crate::{
    controller::Controller,
    setup::{Setup, on_change},
};

/// Bindings that are reconciled at once.
const WORKERS: usize = 5;

struct ApplicationFailover {
    seam: Seam,
    queue: Queue<Key>,
    memories: Arc<Memories>,
    observer: Observer,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let memories = Arc::new(Memories::new(&setup.seam.clock));
    let this = Arc::new(ApplicationFailover {
        seam: setup.seam.clone(),
        queue: setup.queue("applicationFailover"),
        observer: Observer::new(setup, memories.clone()),
        memories,
        applier: Applier::new(setup),
    });
    on_change(&setup.bindings.namespaced, &this, ApplicationFailover::on_binding);
    on_change(&setup.bindings.cluster_scoped, &this, ApplicationFailover::on_cluster_binding);
    this
}

impl Controller for ApplicationFailover {
    fn start(self: Arc<Self>) {
        let this = self.clone();
        run_workers("applicationFailover", &self.seam.tasks, &self.queue, WORKERS, move |key| {
            let this = this.clone();
            async move { this.reconcile(&key).await }
        });
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_idle()
    }
}

impl ApplicationFailover {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key) else {
            self.memories.set(key, Memory::default());
            return Ok(Next::Forget);
        };
        let mut decision = application_failover::decide(&observed.seen(&self.observer), self.memories.now());
        self.memories.set(key, std::mem::take(&mut decision.memory));
        self.applier.apply(key, &observed, &decision).await
    }

    fn on_binding(&self, change: &Change<ResourceBinding>) {
        self.changed(change, |b| (&b.spec, b.status.as_ref()));
    }

    fn on_cluster_binding(&self, change: &Change<ClusterResourceBinding>) {
        self.changed(change, |b| (&b.spec, b.status.as_ref()));
    }

    fn changed<K: Resource>(&self, change: &Change<K>, parts: impl Fn(&K) -> Parts<'_>) {
        let Some(any) = change.new.as_deref().or(change.old.as_deref()) else { return };
        let key = Key::of(any);
        let (old, new) = (change.old.as_deref().map(&parts), change.new.as_deref().map(&parts));
        let turn = application_failover::turn(old, new, self.memories.contains(&key));
        self.memories.note_asking(&key, turn.asking);
        if turn.look {
            self.queue.add(key);
        }
    }
}
