//! Bindings to Works, one for each target cluster (propagation.md 9).

mod apply;
mod held;
mod observe;

use std::sync::Arc;

use ironclad_api::{
    policy::{ClusterOverridePolicy, OverridePolicy},
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use ironclad_propagation::{binding, changes, new_ids::NewIds, overrides};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use kube::Resource;

use crate::{Context, cluster, index::binding_of, interpreter::Resolved, metrics::result};

/// `--concurrent-resourcebinding-syncs`.
const WORKERS: usize = 5;

pub(crate) use held::Held;

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("binding", &cx.seam.tasks, &cx.queues.binding, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
}

async fn reconcile(cx: &Arc<Context>, key: &Key) -> Result<Next, Failure> {
    if !crate::runs(cx, "binding") {
        return Ok(Next::Forget);
    }
    let Some(observed) = observe::observe(cx, key).await? else { return Ok(Next::Forget) };
    let ids = NewIds::from(cx.seam.rng.uuid());
    let decide = || observed.with_seen(|seen| binding::decide(seen, ids.clone()));
    let Resolved { plan, retry } = cx.interpreters.resolve(&observed.interpreter, decide).await;
    let (began, writes) = (cx.seam.clock.mono(), !plan.is_quiet());
    let applied = apply::apply(cx, key, &observed, plan).await;
    if writes {
        cx.metrics.road.synced_work(cx.seam.clock.mono() - began, result(&applied));
    }
    applied.map(|next| retry.next(next))
}

pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    changed(cx, change.old.as_deref(), change.new.as_deref());
}

pub(crate) fn on_cluster_binding(cx: &Arc<Context>, change: &Change<ClusterResourceBinding>) {
    changed(cx, change.old.as_deref(), change.new.as_deref());
}

/// Only what the spec or the life of a binding tells: its status is not ours to act on.
fn changed<K: Resource>(cx: &Context, old: Option<&K>, new: Option<&K>) {
    let Some(new) = new else {
        cluster::wake_leaving(cx);
        return;
    };
    if changes::binding(old.map(Resource::meta), new.meta()) {
        cx.queues.binding.add(Key::of(new));
        cluster::wake_leaving(cx);
    }
}

/// A Work that went, or was changed by somebody else, gives its binding a turn; its status does not.
pub(crate) fn on_work(cx: &Arc<Context>, change: &Change<Work>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let Some(before) = old else { return };
    if new.is_none_or(|new| changes::work(Some(&before.metadata), &new.metadata)) {
        if let Some(key) = binding_of(before) {
            cx.queues.binding.add(key);
        }
        if new.is_none() {
            cluster::wake_leaving(cx);
        }
    }
}

/// An override changed: the bindings of its namespace whose templates it may take, or took, get a turn.
pub(crate) fn on_override(cx: &Arc<Context>, change: &Change<OverridePolicy>) {
    let Some(policy) = change.new.as_ref().or(change.old.as_ref()) else { return };
    if change.old.as_ref().map(|p| &p.spec) == change.new.as_ref().map(|p| &p.spec) {
        return;
    }
    let told = [&change.old, &change.new];
    for binding in cx.bindings.namespaced.namespace(policy.metadata.namespace.as_deref().unwrap_or_default()) {
        let about = |policy: &Arc<OverridePolicy>| overrides::may_take(&policy.spec, &binding.spec.resource);
        if told.into_iter().flatten().any(about) {
            cx.queues.binding.add_replay(Key::of(&*binding));
        }
    }
}

/// A cluster-wide override changed: the bindings whose templates it may take, or took, get a turn.
pub(crate) fn on_cluster_override(cx: &Arc<Context>, change: &Change<ClusterOverridePolicy>) {
    if change.old.as_ref().map(|p| &p.spec) == change.new.as_ref().map(|p| &p.spec) {
        return;
    }
    let told = [&change.old, &change.new];
    for binding in cx.bindings.list() {
        let about = |policy: &Arc<ClusterOverridePolicy>| overrides::may_take(&policy.spec, &binding.spec().resource);
        if told.into_iter().flatten().any(about) {
            let key = binding.view().key();
            cx.queues.binding.add_replay(Key::new(&key.namespace, &key.name));
        }
    }
}
