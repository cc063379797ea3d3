//! Keeps the taints of clusters as ClusterTaintPolicies want them (failover.md 2). Runs while gate `Failover` is on.

mod apply;
mod observe;
mod status;

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, policy::ClusterTaintPolicy};
use ironclad_failover::taint_policy::{self, Memory};
use ironclad_fleet::{ClusterName, gates::Gate};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::Context;

/// Clusters looked at at once.
const WORKERS: usize = 3;

/// What is remembered from one look at a cluster to the next.
#[derive(Default)]
pub(crate) struct State {
    /// The moment that monotonic time is counted from.
    began: Mutex<Option<Instant>>,
    memories: Mutex<BTreeMap<ClusterName, Memory>>,
    reports: status::Reports,
}

fn runs(cx: &Context) -> bool {
    cx.settings.gates.enabled(Gate::Failover) && cx.settings.controllers.enabled("clustertaintpolicy")
}

pub(crate) fn start(cx: &Arc<Context>) {
    if !runs(cx) {
        return;
    }
    let worker = cx.clone();
    run_workers("taint policy", &cx.seam.tasks, &cx.queues.taint_policy, WORKERS, move |name| {
        let cx = worker.clone();
        async move { reconcile(&cx, name).await }
    });
    status::start(cx);
}

async fn reconcile(cx: &Arc<Context>, name: ClusterName) -> Result<Next, Failure> {
    let state = &cx.taint_policy;
    let Some(seen) = observe::observe(cx, &name) else {
        state.memories.lock().remove(&name);
        status::report(cx, &name, BTreeMap::new());
        return Ok(Next::Forget);
    };
    let mono = cx.seam.clock.mono();
    let mono = mono - *state.began.lock().get_or_insert(mono);
    let decision = taint_policy::decide(&seen.seen(), cx.seam.clock.wall(), mono);
    let done = apply::apply(cx, &seen, &decision.plan).await;
    let memory = if done.is_ok() { decision.memory } else { decision.memory.untold() };
    state.memories.lock().insert(name.clone(), memory);
    done?;
    status::report(cx, &name, decision.status);
    Ok(decision.next.map_or(Next::Forget, Next::After))
}

/// What policies look at may have changed.
pub(crate) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
    if runs(cx) && observe::matters(change) {
        cx.queues.taint_policy.add(cluster.name_any().as_str().into());
    }
}

/// A policy came, went or says something else. Every cluster may be meant, also one that it does not select any more.
pub(crate) fn on_policy(cx: &Arc<Context>, change: &Change<ClusterTaintPolicy>) {
    let Some(policy) = change.new.as_ref().or(change.old.as_ref()) else { return };
    let same = |old: &ClusterTaintPolicy, new: &ClusterTaintPolicy| {
        old.spec == new.spec
            && old.metadata.uid == new.metadata.uid
            && old.metadata.generation == new.metadata.generation
            && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    };
    if !runs(cx) || change.old.as_ref().zip(change.new.as_ref()).is_some_and(|(old, new)| same(old, new)) {
        return;
    }
    for cluster in cx.clusters.list() {
        cx.queues.taint_policy.add(cluster.name_any().as_str().into());
    }
    status::on_policy(cx, Key::of(&**policy), change.new.is_some());
}
