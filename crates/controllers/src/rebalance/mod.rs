//! The WorkloadRebalancer controller: has bindings scheduled afresh (specification/propagation.md 26).

mod apply;

use std::sync::Arc;

use ironclad_api::apps::{ObjectReference, WorkloadRebalancer};
use ironclad_fleet::{Binding, BindingRef, Gvk, ObjectKey};
use ironclad_propagation::rebalance::{Seen, decide};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::Seam;

use self::apply::Applier;
use crate::{
    bindings::Bindings,
    caches::REBALANCERS,
    controller::{Controller, Reconciler},
    setup::{Setup, on_change},
};

struct Rebalancer {
    seam: Seam,
    queue: Queue<Key>,
    rebalancers: Informer<WorkloadRebalancer>,
    bindings: Bindings,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let rebalancers = setup.caches.take(&REBALANCERS);
    let this = Arc::new(Rebalancer {
        seam: setup.seam.clone(),
        queue: setup.queue(Rebalancer::NAME),
        bindings: setup.bindings().clone(),
        applier: Applier::new(setup, rebalancers.clone()),
        rebalancers,
    });
    on_change(&this.rebalancers, &this, Rebalancer::on_rebalancer);
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
        let Some(rebalancer) = self.rebalancers.get_key(key) else { return Ok(Next::Forget) };
        let binding = |workload: &ObjectReference| {
            self.bindings.of_template(&ObjectKey {
                gvk: Gvk::from_manifest(&workload.api_version, &workload.kind),
                namespace: workload.namespace.as_str().into(),
                name: workload.name.as_str().into(),
            })
        };
        let bindings: Vec<Option<Binding>> = rebalancer.spec.workloads.iter().map(binding).collect();
        let views: Vec<Option<BindingRef<'_>>> = bindings.iter().map(|b| b.as_ref().map(Binding::view)).collect();
        let seen = Seen { rebalancer: &rebalancer, bindings: &views, now: self.seam.clock.wall() };
        self.applier.apply(&rebalancer, &bindings, decide(&seen)).await
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
