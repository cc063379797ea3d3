//! The scheduler: bindings to clusters (scheduling.md 2). One binding is decided on at a time, so that each pass sees the one
//! before; for the answers to what it writes it does not wait.

mod apply;
mod observe;
mod state;

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    work::{ClusterResourceBinding, ResourceBinding},
};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use ironclad_scheduling::{
    self as scheduling, Binding, Decision,
    trigger::{Wakes, concerns, is_unsettled, may_fit, wakes},
};
use kube::ResourceExt as _;

pub(crate) use self::state::{State, Waiting};
use crate::{AnyBinding, Context, metrics::scheduler::Incoming};

/// A cluster that has more room now gives a turn to at most so many of those that wait for room, and looks at as many more;
/// the rest follow with its next growth, or by their own time.
const WOKEN_MAX: usize = 100;
const LOOKED_AT_MAX: usize = 1_000;
/// Results that are being written at once.
const WRITES_MAX: usize = 16;
/// Growth of several clusters within this time gives a binding one turn (16.3).
const WAKE_DELAY: Duration = Duration::from_secs(1);

/// Starts the workers.
pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("scheduler", &cx.seam.tasks, &cx.queues.scheduler, WRITES_MAX, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, key).await }
    });
}

async fn reconcile(cx: &Context, key: Key) -> Result<Next, Failure> {
    cx.scheduler.waiting().leave(&key);
    let turn = cx.scheduler.turn().await;
    let Some(observed) = observe::observe(cx, &key) else { return Ok(Next::Forget) };
    cx.scheduler.expire();
    let mut attempt = cx.metrics.scheduler.attempt(&cx.seam.clock);
    let decision = {
        let capacity = cx.scheduler.capacity();
        let seen = observed.seen(&capacity, &cx.scheduler.options);
        scheduling::decide_timed(&seen, cx.seam.clock.wall_seconds(), &mut |tick| attempt.tick(tick))
    };
    let assumed = decision.result().map(|targets| cx.scheduler.assume(&observed.binding.for_scheduler(), targets));
    drop(turn);
    let outcome = apply::apply(cx, &key, &observed, &decision, assumed).await;
    attempt.ended(decision.attempt(), outcome.is_ok());
    wait(cx, &key, &decision, outcome.is_ok());
    outcome
}

/// Where a binding whose attempt failed waits.
fn wait(cx: &Context, key: &Key, decision: &Decision, written: bool) {
    match decision.next {
        _ if !written => cx.scheduler.waiting().backs_off(key),
        scheduling::Next::WhenRoom => cx.scheduler.waiting().for_room(key),
        scheduling::Next::Recheck => cx.scheduler.waiting().for_fit(key),
        scheduling::Next::Backoff => cx.scheduler.waiting().backs_off(key),
        scheduling::Next::OnEvent | scheduling::Next::At(_) => return,
    }
    cx.metrics.scheduler.incoming(Incoming::ScheduleAttemptFailure);
}

/// Gives a changed binding a turn; what only its status tells, and the echo of our own result, does not.
pub(crate) fn on_binding(cx: &Context, change: &Change<ResourceBinding>) {
    cx.scheduler.on_binding(change);
    changed(cx, change.old.as_deref().map(Binding::from), change.new.as_deref().map(Binding::from));
}

/// The same for bindings of cluster-scoped templates.
pub(crate) fn on_cluster_binding(cx: &Context, change: &Change<ClusterResourceBinding>) {
    changed(cx, change.old.as_deref().map(Binding::from), change.new.as_deref().map(Binding::from));
}

fn changed(cx: &Context, old: Option<Binding<'_>>, new: Option<Binding<'_>>) {
    let Some(new) = new else {
        if let Some(old) = old {
            let key = old.key();
            cx.scheduler.waiting().leave(&Key::new(&key.namespace, &key.name));
        }
        return;
    };
    let ours = |binding: &Binding<'_>| scheduling::trigger::responsible(binding, &cx.scheduler.options).is_ok();
    let was_ours = old.as_ref().is_some_and(ours);
    let moved = old.as_ref().is_none_or(|old| old.generation() != new.generation()) || !was_ours;
    if moved && ours(&new) {
        let key = new.key();
        push(
            cx,
            Key::new(&key.namespace, &key.name),
            if was_ours { Incoming::BindingUpdate } else { Incoming::BindingAdd },
        );
    }
}

/// A turn as soon as may be; whatever it waited for, it waits no longer.
fn push(cx: &Context, key: Key, event: Incoming) {
    cx.scheduler.waiting().leave(&key);
    cx.metrics.scheduler.incoming(event);
    match event {
        Incoming::ClusterChanged => cx.queues.scheduler.add_replay(key),
        _ => cx.queues.scheduler.add(key),
    }
}

/// Gives the bindings that a change of a cluster concerns a turn.
pub(crate) fn on_cluster(cx: &Context, change: &Change<Cluster>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let Some(name) = new.or(old).map(|cluster| ClusterName::from(cluster.name_any().as_str())) else { return };
    let grown = cx.scheduler.on_cluster(&name, change);
    if !grown.is_empty() {
        crate::taint_manager::on_room(cx);
    }
    for cluster in &grown {
        wake_for_room(cx, cluster);
    }
    let wakes = wakes(old, new);
    if wakes == Wakes::Nobody {
        return;
    }
    for binding in cx.bindings.list() {
        let view = binding.for_scheduler();
        let concerned = [old, new].into_iter().flatten().any(|cluster| concerns(&view, cluster, &cx.scheduler.options));
        if concerned && (wakes == Wakes::Concerned || is_unsettled(&view)) {
            let key = view.key();
            push(cx, Key::new(&key.namespace, &key.name), Incoming::ClusterChanged);
        }
    }
}

/// Gives a turn to those that wait for room and may find some in this cluster: the first of the line first.
fn wake_for_room(cx: &Context, cluster: &ClusterName) {
    let clusters = cx.all_clusters();
    let Some(cluster) = clusters.get(cluster) else { return };
    let first = cx.scheduler.waiting().first(LOOKED_AT_MAX);
    let bindings: Vec<_> = first.into_iter().filter_map(|key| Some((cx.bindings.get(&key)?, key))).collect();
    let woken: Vec<Key> = {
        let capacity = cx.scheduler.capacity();
        let may = |b: &AnyBinding| may_fit(&b.for_scheduler(), cluster, &capacity, &cx.scheduler.options);
        bindings.into_iter().filter(|(b, _)| may(b)).map(|(_, key)| key).take(WOKEN_MAX).collect()
    };
    for key in woken {
        cx.metrics.scheduler.incoming(Incoming::ClusterChanged);
        cx.queues.scheduler.add_after(key, WAKE_DELAY);
    }
}
