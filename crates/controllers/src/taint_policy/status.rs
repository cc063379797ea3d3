//! Tells in the status of each policy where it stands on its clusters (failover.md 2.9): at most one write every five
//! seconds, by workers of its own, so that it never delays a taint.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::policy::{ClusterTaintPolicy, ClusterTaintPolicyStatus, TaintPolicyCluster};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Failure, Key, Next, Writer, run_workers};
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Context, targets::json};

/// From one write of a policy's status to the next.
const EVERY: Duration = Duration::from_secs(5);
/// What belongs together comes within this time.
const GATHER: Duration = Duration::from_millis(500);

/// What is known of each policy, by its name.
#[derive(Default)]
pub(super) struct Reports(Mutex<BTreeMap<Key, Report>>);

#[derive(Default)]
struct Report {
    clusters: BTreeMap<ClusterName, TaintPolicyCluster>,
    written: Option<Instant>,
}

pub(super) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("taint policy status", &cx.seam.tasks, &cx.queues.taint_policy_status, 1, move |policy| {
        let cx = worker.clone();
        async move { flush(&cx, policy).await }
    });
}

/// What the policies that select a cluster say of it now.
pub(super) fn report(cx: &Context, cluster: &ClusterName, mut said: BTreeMap<String, TaintPolicyCluster>) {
    let mut changed = Vec::new();
    let mut reports = cx.taint_policy.reports.0.lock();
    for (policy, report) in reports.iter_mut() {
        let before = report.clusters.get(cluster);
        let now = said.remove(&*policy.name);
        if before == now.as_ref() {
            continue;
        }
        match now {
            Some(now) => report.clusters.insert(cluster.clone(), now),
            None => report.clusters.remove(cluster),
        };
        changed.push(policy.clone());
    }
    for (policy, now) in said {
        let key = Key::new("", &policy);
        reports.entry(key.clone()).or_default().clusters.insert(cluster.clone(), now);
        changed.push(key);
    }
    drop(reports);
    for policy in changed {
        cx.queues.taint_policy_status.add_after(policy, GATHER);
    }
}

/// A policy came, went or says something else.
pub(super) fn on_policy(cx: &Context, policy: Key, exists: bool) {
    if exists {
        cx.queues.taint_policy_status.add_after(policy, GATHER);
    } else {
        cx.taint_policy.reports.0.lock().remove(&policy);
    }
}

async fn flush(cx: &Context, key: Key) -> Result<Next, Failure> {
    let Some(policy) = cx.taint_policies.get_key(&key) else { return Ok(Next::Forget) };
    let now = cx.seam.clock.mono();
    let clusters = {
        let reports = cx.taint_policy.reports.0.lock();
        let report = reports.get(&key);
        let since = report.and_then(|report| report.written).map(|written| now - written);
        if let Some(since) = since.filter(|since| *since < EVERY) {
            return Ok(Next::After(EVERY - since));
        }
        report.map(|report| report.clusters.values().cloned().collect()).unwrap_or_default()
    };
    let wanted =
        ClusterTaintPolicyStatus { observed_generation: policy.metadata.generation.unwrap_or_default(), clusters };
    if policy.status.as_ref() == Some(&wanted) {
        return Ok(Next::Forget);
    }
    let api: Api<ClusterTaintPolicy> = Api::all(cx.plane.clone());
    let base = policy.resource_version().unwrap_or_default();
    let mut status = json(&Some(&wanted));
    if wanted.clusters.is_empty() {
        // A merge patch leaves alone what it does not name.
        status["clusters"] = serde_json::Value::Null;
    }
    let writer = Writer::new("clustertaintpolicy");
    match writer.patch_status(&api, Some(&cx.taint_policies), &key.name, &base, status).await {
        Ok(_) => {}
        Err(Failure::NotFound(_)) => return Ok(Next::Forget),
        Err(failure) => return Err(failure),
    }
    cx.taint_policy.reports.0.lock().entry(key).or_default().written = Some(now);
    Ok(Next::Forget)
}
