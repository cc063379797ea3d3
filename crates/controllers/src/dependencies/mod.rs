//! What a workload refers to goes where the workload goes (propagation.md 8).

mod apply;
mod observe;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::work::{ClusterResourceBinding, ResourceBinding};
use ironclad_fleet::Gvk;
use ironclad_propagation::{
    dependencies::{self, dependents},
    detector::binding::Binding,
    new_ids::NewIds,
};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, run_workers};
use kube::api::DynamicObject;

use crate::{Context, index::BY_DEPENDENCY};

/// `--concurrent-dependent-resource-syncs`.
const WORKERS: usize = 2;

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("dependencies", &cx.seam.tasks, &cx.queues.dependencies, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    let Some(observed) = observe::observe(cx, key).await? else { return Ok(Next::Forget) };
    let ids = NewIds::from(cx.seam.rng.uuid());
    let decide = || observed.with_seen(|seen| dependencies::decide(seen, ids.clone()));
    let settled = cx.interpreters.resolve(&observed.interpreter, decide).await;
    let next = apply::apply(cx, key, &observed, settled.plan).await?;
    Ok(settled.retry.next(next))
}

pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    let (old, new) = (change.old.as_deref().map(Binding::from), change.new.as_deref().map(Binding::from));
    changed(cx, old, new, cx.bindings.namespaced.is_synced());
    // An attached binding that went is made anew by whoever needs it.
    if let (Some(gone), None) = (&change.old, &change.new) {
        for referrer in &gone.spec.required_by {
            cx.queues.dependencies.add(Key::new(&referrer.namespace, &referrer.name));
        }
    }
}

/// The same for bindings of cluster-scoped templates.
pub(crate) fn on_cluster_binding(cx: &Arc<Context>, change: &Change<ClusterResourceBinding>) {
    let (old, new) = (change.old.as_deref().map(Binding::from), change.new.as_deref().map(Binding::from));
    changed(cx, old, new, cx.bindings.cluster_scoped.is_synced());
}

fn changed(cx: &Context, old: Option<Binding<'_>>, new: Option<Binding<'_>>, synced: bool) {
    let Some(binding) = new.filter(|new| dependents::binding_counts(old, *new)) else { return };
    let key = binding.key();
    let key = Key::new(&key.namespace, &key.name);
    if synced { cx.queues.dependencies.add(key) } else { cx.queues.dependencies.add_replay(key) }
}

/// Gives the bindings whose dependencies an object is a turn, found by what they recorded.
#[derive(Clone)]
pub(crate) struct Wakes {
    pub(crate) queue: Queue<Key>,
    pub(crate) bindings: Informer<ResourceBinding>,
    pub(crate) cluster_bindings: Informer<ClusterResourceBinding>,
}

impl Wakes {
    /// An object came, changed or went.
    pub(crate) fn object(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let identities = [&change.old, &change.new].into_iter().flatten();
        let values: BTreeSet<String> =
            identities.clone().flat_map(|object| dependents::of_object(gvk, &object.metadata)).collect();
        let mut woken = BTreeSet::new();
        for value in &values {
            woken.extend(self.bindings.by_index(BY_DEPENDENCY, value).iter().map(|b| Key::of(&**b)));
            woken.extend(self.cluster_bindings.by_index(BY_DEPENDENCY, value).iter().map(|b| Key::of(&**b)));
        }
        for key in woken {
            self.queue.add(key);
        }
    }
}
