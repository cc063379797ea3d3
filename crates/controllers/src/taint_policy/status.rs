//! Status of each taint policy: the outcome on each of its clusters (specification/failover.md 2.9). It is written at
//! most every five seconds, by a worker of its own, so that it never delays a taint.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::policy::{ClusterTaintPolicy, ClusterTaintPolicyStatus, TaintPolicyCluster};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Api, Failure, Informer, Key, Next, Queue, Writer};
use ironclad_seam::Seam;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{controller::Reconciler, setup::Setup, targets::json};

/// Time from one write of a policy's status to the next.
const EVERY: Duration = Duration::from_secs(5);
/// Changes within this time are written together.
const GATHER: Duration = Duration::from_millis(500);

/// The outcomes by policy, and the worker that writes them.
pub(super) struct Reports {
    seam: Seam,
    plane: Client,
    writer: Writer,
    policies: Informer<ClusterTaintPolicy>,
    queue: Queue<Key>,
    reports: Mutex<BTreeMap<Key, Report>>,
}

#[derive(Default)]
struct Report {
    clusters: BTreeMap<ClusterName, TaintPolicyCluster>,
    written: Option<Instant>,
}

impl Reports {
    pub(super) fn new(setup: &Setup, policies: Informer<ClusterTaintPolicy>) -> Arc<Self> {
        Arc::new(Self {
            seam: setup.seam.clone(),
            plane: setup.plane.clone(),
            writer: Writer::new("clustertaintpolicy"),
            policies,
            queue: setup.queue(Self::NAME),
            reports: Mutex::default(),
        })
    }

    /// Notes the outcomes on one cluster of the policies that select it now.
    pub(super) fn report(&self, cluster: &ClusterName, mut outcomes: BTreeMap<String, TaintPolicyCluster>) {
        let mut changed = Vec::new();
        let mut reports = self.reports.lock();
        for (policy, report) in reports.iter_mut() {
            let before = report.clusters.get(cluster);
            let now = outcomes.remove(&*policy.name);
            if before == now.as_ref() {
                continue;
            }
            match now {
                Some(now) => report.clusters.insert(cluster.clone(), now),
                None => report.clusters.remove(cluster),
            };
            changed.push(policy.clone());
        }
        for (policy, now) in outcomes {
            let key = Key::new("", &policy);
            reports.entry(key.clone()).or_default().clusters.insert(cluster.clone(), now);
            changed.push(key);
        }
        drop(reports);
        for policy in changed {
            self.queue.add_after(policy, GATHER);
        }
    }

    /// Notes that a policy was created, changed or deleted.
    pub(super) fn on_policy(&self, policy: Key, exists: bool) {
        if exists {
            self.queue.add_after(policy, GATHER);
        } else {
            self.reports.lock().remove(&policy);
        }
    }
}

impl Reconciler for Reports {
    type Key = Key;
    const NAME: &'static str = "taintPolicyStatus";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(policy) = self.policies.get_key(key) else { return Ok(Next::Forget) };
        let now = self.seam.clock.mono();
        let clusters = {
            let reports = self.reports.lock();
            let report = reports.get(key);
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
        let api: Api<ClusterTaintPolicy> = Api::all(self.plane.clone());
        let base = policy.resource_version().unwrap_or_default();
        let mut status = json(&Some(&wanted));
        if wanted.clusters.is_empty() {
            // A merge patch does not change a field that it does not name.
            status["clusters"] = serde_json::Value::Null;
        }
        match self.writer.patch_status(&api, Some(&self.policies), &key.name, &base, status).await {
            Ok(_) => {}
            Err(Failure::NotFound(_)) => return Ok(Next::Forget),
            Err(failure) => return Err(failure),
        }
        self.reports.lock().entry(key.clone()).or_default().written = Some(now);
        Ok(Next::Forget)
    }
}
