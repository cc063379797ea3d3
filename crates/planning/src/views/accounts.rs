//! Accounts of clusters: what the scheduler counts as free, and what took the rest.

use std::{cmp::Reverse, collections::BTreeMap};

use ironclad_fleet::{ClusterName, Clusters, tree::LinkState};
use ironclad_scheduling::{Capacity, capacity::Account};
use serde::Serialize;

/// Resources of each cluster that nearly all workloads request.
const USUAL: [&str; 3] = ["cpu", "memory", "pods"];

/// The account of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountRow {
    pub name: String,
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    pub reason: String,
    /// By resource; empty if the cluster never reported its resources.
    pub resources: BTreeMap<String, Amounts>,
}

/// Amounts of one resource: millicores of `cpu`, whole units of everything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    /// Amount that nodes offer.
    pub offered: i64,
    /// Requests of pods.
    pub observed: i64,
    /// Promised to bindings, and not observed yet.
    pub promised: i64,
    /// Held for preemptors.
    pub held: i64,
    /// Amount that is left; negative where requests exceed what is offered.
    pub free: i64,
}

impl From<Account> for Amounts {
    fn from(account: Account) -> Self {
        let Account { offered, observed, promised, held } = account;
        Self { offered, observed, promised, held, free: account.free() }
    }
}

/// The rows of these clusters, with what is bad first. By node where the capacity knows nodes, else by summary.
#[must_use]
pub fn accounts(capacity: &Capacity, clusters: &Clusters) -> Vec<AccountRow> {
    let mut rows: Vec<AccountRow> = clusters.keys().map(|cluster| row(capacity, cluster)).collect();
    rows.sort_by(|a, b| (Reverse(a.state), &a.name).cmp(&(Reverse(b.state), &b.name)));
    rows
}

fn row(capacity: &Capacity, cluster: &ClusterName) -> AccountRow {
    let account = capacity.account(cluster);
    let full: Vec<&str> = USUAL
        .into_iter()
        .filter(|usual| account.as_ref().is_some_and(|all| all.get(*usual).is_some_and(|one| one.free() <= 0)))
        .collect();
    let (state, reason) = if capacity.is_silent(cluster) {
        (LinkState::Broken, "the cluster is not ready: its report may be old".to_owned())
    } else if account.is_none() {
        (LinkState::Waiting, "the cluster has not reported its resources".to_owned())
    } else if full.is_empty() {
        (LinkState::Ok, String::new())
    } else {
        (LinkState::Waiting, format!("no {} left", full.join(" and no ")))
    };
    let resources = account.unwrap_or_default().into_iter().map(|(resource, one)| (resource, one.into())).collect();
    AccountRow { name: cluster.to_string(), state, reason, resources }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, schedule::State, testkit::world_of};

    const FLEET: &str = r#"
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m1}
spec: {syncMode: Push}
status:
  conditions: [{type: Ready, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  resourceSummary:
    allocatable: {cpu: "10", memory: 8Gi, pods: "110"}
    allocated: {cpu: "4", memory: 1Gi, pods: "5"}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m2}
spec: {syncMode: Push}
status:
  conditions: [{type: Ready, status: "False", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  resourceSummary:
    allocatable: {cpu: "2", pods: "10"}
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m3}
spec: {syncMode: Push}
status:
  conditions: [{type: Ready, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
---
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: m4}
spec: {syncMode: Push}
status:
  conditions: [{type: Ready, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]
  resourceSummary:
    allocatable: {cpu: "2", memory: 1Gi, pods: "10", example.com/gpu: "3"}
    allocated: {cpu: "2", memory: 1Gi, example.com/gpu: "3"}
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {namespace: shop, name: waiting-deployment}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, namespace: shop, name: waiting}
  replicas: 3
  replicaRequirements: {resourceRequest: {cpu: "1"}}
  placement: {}
  schedulePriority: {priority: 9}
status:
  nominatedClusters: [{name: m1, replicas: 3}]
"#;

    #[test]
    fn accounts_say_what_took_the_rest() {
        let world = world_of(FLEET);
        let now = jiff::Timestamp::from_second(1_790_000_000).unwrap();
        let state = State::of(&world, &Settings::default(), &BTreeMap::new(), now);
        let rows = accounts(&state.capacity, &world.clusters);
        let told: Vec<String> = rows
            .iter()
            .map(|row| {
                let each = row.resources.iter().map(|(name, one)| {
                    format!("{name} {}-{}-{}-{}={}", one.offered, one.observed, one.promised, one.held, one.free)
                });
                let each: Vec<String> = each.collect();
                format!("{} {:?} {}: {}", row.name, row.state, row.reason, each.join(", "))
            })
            .collect();
        assert_eq!(
            told,
            [
                "m2 Broken the cluster is not ready: its report may be old: cpu 2000-0-0-0=2000, pods 10-0-0-0=10",
                "m3 Waiting the cluster has not reported its resources: ",
                "m4 Waiting no cpu and no memory left: cpu 2000-2000-0-0=0, example.com/gpu 3-3-0-0=0, memory \
                 1073741824-1073741824-0-0=0, pods 10-0-0-0=10",
                "m1 Ok : cpu 10000-4000-0-3000=3000, memory 8589934592-1073741824-0-0=7516192768, pods 110-5-0-3=102",
            ]
        );
    }
}
