//! Namespaces of the control plane, into every member (propagation.md 22).

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::{names, policy::ClusterOverridePolicy, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_propagation::{changes, namespace, new_ids::NewIds};
use ironclad_runtime::{Change, Failure, Next, run_workers};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use crate::{Context, index::cluster_of};

/// `--concurrent-namespace-syncs`.
const WORKERS: usize = 1;

/// A namespace, for one member or for all.
pub(crate) type Key = (Arc<str>, Option<ClusterName>);

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("namespace", &cx.seam.tasks, &cx.queues.namespace, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    let Some(observed) = observe::observe(cx, key)? else { return Ok(Next::Forget) };
    let ids = NewIds::from(cx.seam.rng.uuid());
    let plan = observed.with_seen(|seen| namespace::decide(seen, ids));
    apply::apply(cx, &observed, plan).await
}

/// A namespace came or changed; or a cluster's execution space came, and with it a member that lacks all of them.
pub(crate) fn on_namespace(cx: &Arc<Context>, change: &Change<Namespace>) {
    let Some(new) = change.new.as_deref() else { return };
    let name = new.name_any();
    if let Ok(cluster) = names::cluster_of_execution_namespace(&name) {
        if change.old.is_none() {
            enqueue_all(cx, Some(&cluster.into()));
        }
    } else if namespace::counts(change.old.as_deref().map(|n| &n.metadata), &new.metadata) {
        enqueue(cx, new, None);
    }
}

/// A Work of a namespace went, or was changed by somebody else.
pub(crate) fn on_work(cx: &Arc<Context>, change: &Change<Work>) {
    let Some(old) = change.old.as_deref().filter(|_| !change.ours) else { return };
    if change.new.as_deref().is_some_and(|new| !changes::work(Some(&old.metadata), &new.metadata)) {
        return;
    }
    let Some(name) = namespace::of_work(&old.metadata) else { return };
    let key = (name.into(), cluster_of(old));
    cx.queues.namespace.add_after(key, namespace::requeue_delay(change.new.is_none()));
}

/// An override of namespaces came, changed or went.
pub(crate) fn on_cluster_override(cx: &Arc<Context>, change: &Change<ClusterOverridePolicy>) {
    let (old, new) = (change.old.as_deref().map(|p| &p.spec), change.new.as_deref().map(|p| &p.spec));
    if old != new && [old, new].into_iter().flatten().any(namespace::is_overridden_by) {
        enqueue_all(cx, None);
    }
}

fn enqueue_all(cx: &Context, cluster: Option<&ClusterName>) {
    for namespace in cx.namespaces.list() {
        if names::cluster_of_execution_namespace(&namespace.name_any()).is_err() {
            enqueue(cx, &namespace, cluster);
        }
    }
}

fn enqueue(cx: &Context, namespace: &Namespace, cluster: Option<&ClusterName>) {
    cx.queues.namespace.add((namespace.name_any().into(), cluster.cloned()));
}
