//! Ends the tasks of bindings that left a cluster, once the copy that is left there may go (failover.md 7).
//!
//! Not behind the gate `Failover`: what was begun is finished even if the gate is switched off meanwhile.

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::{
    ObjectMeta,
    cluster::Cluster,
    work::{ClusterResourceBinding, GracefulEvictionTask, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus},
};
use ironclad_failover::graceful;
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use kube::ResourceExt as _;

use crate::{
    AnyBinding, Context,
    index::{BY_EVICTION, BY_TARGET},
};

/// Its name in `--controllers`.
const NAME: &str = "gracefulEviction";
/// Bindings assessed at once.
const WORKERS: usize = 5;

/// Starts the workers.
pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers(NAME, &cx.seam.tasks, &cx.queues.graceful_eviction, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    if !crate::runs(cx, NAME) {
        return Ok(Next::Forget);
    }
    let Some(observed) = observe::observe(cx, key) else { return Ok(Next::Forget) };
    let decision = graceful::decide(&observed.seen(cx), cx.seam.clock.wall_seconds());
    apply::apply(cx, key, &observed, &decision).await
}

/// A binding with tasks came or changed.
pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    fn parts(binding: &ResourceBinding) -> Parts<'_> {
        (&binding.metadata, &binding.spec, binding.status.as_ref())
    }
    changed(cx, change.old.as_deref().map(parts), change.new.as_deref().map(parts));
}

/// The same for bindings of cluster-scoped templates.
pub(crate) fn on_cluster_binding(cx: &Arc<Context>, change: &Change<ClusterResourceBinding>) {
    fn parts(binding: &ClusterResourceBinding) -> Parts<'_> {
        (&binding.metadata, &binding.spec, binding.status.as_ref())
    }
    changed(cx, change.old.as_deref().map(parts), change.new.as_deref().map(parts));
}

type Parts<'a> = (&'a ObjectMeta, &'a ResourceBindingSpec, Option<&'a ResourceBindingStatus>);

fn changed(cx: &Context, old: Option<Parts<'_>>, new: Option<Parts<'_>>) {
    fn tasks(parts: Option<Parts<'_>>) -> &[GracefulEvictionTask] {
        parts.map(|(_, spec, _)| spec.graceful_eviction_tasks.as_slice()).unwrap_or_default()
    }
    cx.metrics.graceful.moved(tasks(old), tasks(new));
    let Some((metadata, spec, status)) = new.filter(|(_, spec, _)| !spec.graceful_eviction_tasks.is_empty()) else {
        return;
    };
    let of_interest = |metadata: &ObjectMeta| (metadata.generation, metadata.annotations.clone());
    let same = old.is_some_and(|(before, spec_before, status_before)| {
        of_interest(before) == of_interest(metadata) && spec_before == spec && status_before == status
    });
    if !same {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        cx.queues.graceful_eviction.add(Key::new(&text(&metadata.namespace), &text(&metadata.name)));
    }
}

/// What a cluster says counts only while it is ready, so the bindings that wait on it look again when that changes: those that
/// leave it, and those that leave another one for it.
pub(crate) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    let ready = |cluster: &Option<Arc<Cluster>>| cluster.as_ref().and_then(|c| c.ready().map(str::to_owned));
    let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
    if ready(&change.old) == ready(&change.new) {
        return;
    }
    let name = cluster.name_any();
    let moving = |binding: &AnyBinding| !binding.spec().graceful_eviction_tasks.is_empty();
    let arriving = cx.bindings.by_index(BY_TARGET, &name).into_iter().filter(moving);
    for binding in cx.bindings.by_index(BY_EVICTION, &name).into_iter().chain(arriving) {
        cx.queues.graceful_eviction.add(binding.key());
    }
}
