//! Policies: what they select is watched and gets a turn, and what they leave is let go (propagation.md 6).

mod apply;
mod observe;

use std::{sync::Arc, time::Duration};

use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy};
use ironclad_propagation::policy;
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use kube::Resource;

use crate::Context;

/// A kind that nobody serves is looked for again after this time (propagation.md 2).
const KIND_AGAIN: Duration = Duration::from_secs(30);

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("policy", &cx.seam.tasks, &cx.queues.policy, 1, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
    // What is bound is watched, whatever its policy says by now.
    for binding in cx.all_bindings() {
        cx.queues.detector.add_replay(binding.template());
    }
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    let Some(observed) = observe::observe(cx, key).await? else { return Ok(Next::Forget) };
    let rng = cx.seam.rng.clone();
    let plan = observed.with_seen(|seen| policy::decide(seen, || rng.uuid()));
    match apply::apply(cx, &observed, plan).await? {
        Next::Forget if observed.lacks_kinds => Ok(Next::After(KIND_AGAIN)),
        next => Ok(next),
    }
}

pub(crate) fn on_policy(cx: &Arc<Context>, change: &Change<PropagationPolicy>) {
    changed(cx, change.old.as_deref(), change.new.as_deref());
}

pub(crate) fn on_cluster_policy(cx: &Arc<Context>, change: &Change<ClusterPropagationPolicy>) {
    changed(cx, change.old.as_deref(), change.new.as_deref());
}

fn changed<K: Resource>(cx: &Context, old: Option<&K>, new: Option<&K>) {
    let Some(policy) = new.or(old) else { return };
    let of = |policy: &K| (policy.meta().generation, policy.meta().deletion_timestamp.is_some());
    if old.map(of) != new.map(of) {
        cx.queues.policy.add(Key::of(policy));
    }
}
