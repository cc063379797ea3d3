//! The scheduler: bindings to clusters (scheduling.md 2). One binding at a time, so that each pass sees the one before.

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use ironclad_scheduling::{self as scheduling, Binding};

use crate::Context;

/// Starts the one worker.
pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("scheduler", &cx.seam.tasks, &cx.queues.scheduler, 1, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, key).await }
    });
}

async fn reconcile(cx: &Context, key: Key) -> Result<Next, Failure> {
    let Some(observed) = observe::observe(cx, &key) else { return Ok(Next::Forget) };
    let decision = scheduling::decide(&observed.seen(), cx.seam.clock.wall_seconds());
    apply::apply(cx, &key, &observed, &decision).await
}

/// Gives a changed binding a turn; what only its status tells, and the echo of our own result, does not.
pub(crate) fn on_binding(cx: &Context, change: &Change<ResourceBinding>) {
    changed(cx, change.old.as_deref().map(Binding::from), change.new.as_deref().map(Binding::from));
}

/// The same for bindings of cluster-scoped templates.
pub(crate) fn on_cluster_binding(cx: &Context, change: &Change<ClusterResourceBinding>) {
    changed(cx, change.old.as_deref().map(Binding::from), change.new.as_deref().map(Binding::from));
}

fn changed(cx: &Context, old: Option<Binding<'_>>, new: Option<Binding<'_>>) {
    let Some(new) = new else { return };
    let options = &cx.settings.scheduler;
    let ours = |binding: &Binding<'_>| scheduling::trigger::responsible(binding, options).is_ok();
    let moved = old.as_ref().is_none_or(|old| old.generation() != new.generation() || !ours(old));
    if moved && ours(&new) {
        let key = new.key();
        cx.queues.scheduler.add(Key::new(&key.namespace, &key.name));
    }
}

/// Gives the bindings that a change of a cluster concerns a turn.
pub(crate) fn on_cluster(cx: &Context, change: &Change<Cluster>) {
    use scheduling::trigger::{Wakes, concerns, is_unsettled, wakes};
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let wakes = wakes(old, new);
    if wakes == Wakes::Nobody {
        return;
    }
    let options = &cx.settings.scheduler;
    for binding in cx.all_bindings() {
        let view = binding.for_scheduler();
        let concerned = [old, new].into_iter().flatten().any(|cluster| concerns(&view, cluster, options));
        if concerned && (wakes == Wakes::Concerned || is_unsettled(&view)) {
            let key = view.key();
            cx.queues.scheduler.add_replay(Key::new(&key.namespace, &key.name));
        }
    }
}
