//! WorkloadRebalancers: bindings are told to be placed afresh (propagation.md 26).

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::apps::WorkloadRebalancer;
use ironclad_propagation::rebalance;
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};

use crate::Context;

/// Rebalancers worked on at once.
const WORKERS: usize = 1;

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("workloadRebalancer", &cx.seam.tasks, &cx.queues.rebalancer, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    let Some(observed) = observe::observe(cx, key) else { return Ok(Next::Forget) };
    let plan = observed.with_seen(cx.seam.clock.wall(), rebalance::decide);
    apply::apply(cx, key, &observed, plan).await
}

/// It came, was edited, or its record was written, from which the time of its end follows.
pub(crate) fn on_rebalancer(cx: &Arc<Context>, change: &Change<WorkloadRebalancer>) {
    if let Some(rebalancer) = &change.new {
        cx.queues.rebalancer.add(Key::of(&**rebalancer));
    }
}
