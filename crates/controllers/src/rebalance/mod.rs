//! The WorkloadRebalancer controller: has bindings scheduled afresh (specification/propagation.md 26).

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::apps::WorkloadRebalancer;
use ironclad_propagation::rebalance;
use ironclad_runtime::{Change, Failure, Key, Next, Queue, run_workers};
use ironclad_seam::Seam;

use self::{apply::Applier, observe::Observer};
use crate::{
    caches::REBALANCERS,
    controller::Controller,
    setup::{Setup, on_change},
};

/// Rebalancers that are reconciled at once.
const WORKERS: usize = 1;

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
        queue: setup.queue("workloadRebalancer"),
        observer: Observer::new(setup, rebalancers.clone()),
        applier: Applier::new(setup, rebalancers.clone()),
    });
    on_change(&rebalancers, &this, Rebalancer::on_rebalancer);
    this
}

impl Controller for Rebalancer {
    fn start(self: Arc<Self>) {
        let this = self.clone();
        run_workers("workloadRebalancer", &self.seam.tasks, &self.queue, WORKERS, move |key| {
            let this = this.clone();
            async move { this.reconcile(&key).await }
        });
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_idle() && self.applier.is_quiet()
    }
}

impl Rebalancer {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key) else { return Ok(Next::Forget) };
        let plan = observed.with_seen(self.seam.clock.wall(), rebalance::decide);
        self.applier.apply(key, &observed, plan).await
    }

    /// A written status counts, too: the time to live begins with it.
    fn on_rebalancer(&self, change: &Change<WorkloadRebalancer>) {
        if let Some(rebalancer) = &change.new {
            self.queue.add(Key::of(&**rebalancer));
        }
    }
}
