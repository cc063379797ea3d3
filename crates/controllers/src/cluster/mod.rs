//! Clusters: connected, given their execution space, and taken apart when they leave (failover.md 9.5).

mod apply;
mod collect;
mod connect;
mod health;
pub(crate) mod monitor;
mod observe;
mod taints;
pub(crate) mod witness;

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    cluster::Cluster,
    names,
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus},
};
use ironclad_failover::membership;
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::ResourceExt as _;

use crate::Context;

/// Clusters prepared at once.
const WORKERS: usize = 5;
/// What many bindings say at once of a cluster that they can't leave is one look.
const GATHER: Duration = Duration::from_secs(1);

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("cluster", &cx.seam.tasks, &cx.queues.cluster, WORKERS, move |name| {
        let cx = worker.clone();
        async move { reconcile(&cx, name).await }
    });
    monitor::start(cx);
}

async fn reconcile(cx: &Arc<Context>, name: ClusterName) -> Result<Next, Failure> {
    let Some(cluster) = cx.clusters.get("", &name.0) else {
        cx.members.remove(&name);
        return Ok(Next::Forget);
    };
    connect::connect(cx, &name, &cluster);
    let observed = observe::observe(cx, &name, cluster);
    let plan = membership::decide(&observed.seen(), cx.seam.clock.wall_seconds());
    apply::apply(cx, &observed, &plan).await?;
    cx.members.look(&name);
    Ok(Next::Forget)
}

pub(crate) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    monitor::on_cluster(cx, change);
    if let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) {
        cx.queues.cluster.add(cluster.name_any().as_str().into());
    }
}

/// Credentials came, went or were renewed: whoever names them is connected anew.
pub(crate) fn on_secret(cx: &Arc<Context>, change: &Change<Secret>) {
    let Some(secret) = change.new.as_ref().or(change.old.as_ref()) else { return };
    let key = Key::of(&**secret);
    for cluster in cx.clusters.list() {
        let named = cluster.spec.secret_ref.as_ref();
        if named.is_some_and(|r| *r.name == *key.name && *r.namespace == *key.namespace) {
            cx.queues.cluster.add(cluster.name_any().as_str().into());
        }
    }
}

/// An execution space came or went.
pub(crate) fn on_namespace(cx: &Arc<Context>, change: &Change<Namespace>) {
    let Some(namespace) = change.new.as_ref().or(change.old.as_ref()) else { return };
    if let Ok(cluster) = names::cluster_of_execution_namespace(&namespace.name_any()) {
        cx.queues.cluster.add(cluster.into());
    }
}

/// What keeps a leaving cluster from leaving may have gone.
pub(crate) fn wake_leaving(cx: &Context) {
    for name in cx.fleet.terminating() {
        cx.queues.cluster.add(name);
    }
}

/// A binding found no other place, or found one.
pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    said(cx, old.and_then(|b| b.status.as_ref()), new.map(|b| (&b.spec, b.status.as_ref())));
}

/// The same for bindings of cluster-scoped templates.
pub(crate) fn on_cluster_binding(cx: &Arc<Context>, change: &Change<ClusterResourceBinding>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    said(cx, old.and_then(|b| b.status.as_ref()), new.map(|b| (&b.spec, b.status.as_ref())));
}

fn said(
    cx: &Context,
    old: Option<&ResourceBindingStatus>,
    new: Option<(&ResourceBindingSpec, Option<&ResourceBindingStatus>)>,
) {
    let leaving = cx.fleet.terminating();
    let Some((spec, status)) = new.filter(|_| !leaving.is_empty()) else { return };
    if membership::says_other(old, status) {
        for name in leaving.into_iter().filter(|name| spec.target(&name.0).is_some()) {
            cx.queues.cluster.add_after(name, GATHER);
        }
    }
}
