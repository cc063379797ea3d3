//! The WorkloadRebalancer controller: has bindings scheduled afresh (specification/propagation.md 26).

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::apps::WorkloadRebalancer;
use ironclad_propagation::rebalance;
use ironclad_runtime::{Change, Failure, Key, Next, Queue};
use ironclad_seam::Seam;

use self::{apply::Applier, observe::Observer};
use crate::{
    caches::REBALANCERS,
    controller::{Controller, Reconciler},
    setup::{Setup, on_change},
};

struct Rebalancer {
    seam: Seam,
    queue: Queue<Key>,
    observer: Observer,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let rebalancers = setup.caches.take(&REBALANCERS);
    let this = Arc::new(Rebalancer {
        seam: setup.seam.clone(),
        queue: setup.queue(Rebalancer::NAME),
        observer: Observer::new(setup, rebalancers.clone()),
        applier: Applier::new(setup, rebalancers.clone()),
    });
    on_change(&rebalancers, &this, Rebalancer::on_rebalancer);
    this
}

impl Reconciler for Rebalancer {
    type Key = Key;
    const NAME: &'static str = "workloadRebalancer";
    /// Rebalancers that are reconciled at once.
    const WORKERS: usize = 1;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key) else { return Ok(Next::Forget) };
        let plan = observed.with_seen(self.seam.clock.wall(), rebalance::decide);
        self.applier.apply(key, &observed, plan).await
    }

    fn is_quiet_beside(&self) -> bool {
        self.applier.is_quiet()
    }
}

impl Rebalancer {
    /// A written status counts, too: the time to live begins with it.
    fn on_rebalancer(&self, change: &Change<WorkloadRebalancer>) {
        if let Some(rebalancer) = &change.new {
            self.queue.add(Key::of(&**rebalancer));
        }
    }
}
