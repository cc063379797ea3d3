//! The application failover controller: moves workloads away from clusters in which they are unhealthy for too long
//! (specification/failover.md 5). It does not depend on gate `Failover`.

mod apply;
mod memory;
mod observe;

use std::sync::Arc;

use ironclad_failover::{
    application_failover::{self, Memory},
    wakes::application_failover::{Parts, turn},
};
use ironclad_fleet::Binding;
use ironclad_runtime::{Failure, Key, Next, Queue};

use self::{apply::Applier, memory::Memories, observe::Observer};
use crate::{
    bindings::{BindingChange, queue_key},
    controller::{Controller, Reconciler},
    groups::Fellow,
    setup::Setup,
};

struct ApplicationFailover {
    queue: Queue<Key>,
    memories: Arc<Memories>,
    observer: Observer,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let memories = Arc::new(Memories::new(&setup.seam.clock));
    let this = Arc::new(ApplicationFailover {
        queue: setup.queue(ApplicationFailover::NAME),
        observer: Observer::new(setup, memories.clone()),
        memories,
        applier: Applier::new(setup),
    });
    setup.bindings().on_change(&this, ApplicationFailover::on_binding);
    this.observer.pause.on_change(&this, ApplicationFailover::on_pause);
    let weak = Arc::downgrade(&this);
    setup.groups().on_fellow(move |fellow| {
        if let Some(this) = weak.upgrade() {
            this.on_fellow(fellow);
        }
    });
    this
}

impl Reconciler for ApplicationFailover {
    type Key = Key;
    const NAME: &'static str = "applicationFailover";
    /// Bindings that are reconciled at once.
    const WORKERS: usize = 5;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key) else {
            self.memories.set(key, Memory::default());
            return Ok(Next::Forget);
        };
        let now = self.memories.now();
        let mut decision = {
            let peers = self.observer.peers_that_stay(&observed, now);
            application_failover::decide(&observed.seen(&self.observer, peers.as_ref()), now)
        };
        self.memories.set(key, std::mem::take(&mut decision.memory));
        self.applier.apply(key, &observed, &decision).await
    }
}

impl ApplicationFailover {
    /// The clusters of a member of its group changed: an unhealthy binding may be free to leave now.
    fn on_fellow(&self, fellow: &Fellow) {
        let key = Key::new(&fellow.key.namespace, &fellow.key.name);
        if self.memories.contains(&key) {
            self.queue.add(key);
        }
    }

    fn on_pause(&self) {
        for key in self.memories.all() {
            self.queue.add(key);
        }
    }

    fn on_binding(&self, change: &BindingChange) {
        fn parts(binding: &Binding) -> Parts<'_> {
            (binding.spec(), binding.status())
        }
        let Some(any) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let key = queue_key(any);
        let (old, new) = (change.old.as_ref().map(parts), change.new.as_ref().map(parts));
        let turn = turn(old, new, self.memories.contains(&key));
        self.memories.note_asking(&key, turn.asking);
        if turn.look {
            self.queue.add(key);
        }
    }
}
