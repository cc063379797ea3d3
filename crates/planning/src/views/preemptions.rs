//! Preemptions: for whom capacity is held, who left for it, and where that one runs now.

use std::{
    borrow::Borrow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use ironclad_api::{
    events::BINDING_PREEMPTED,
    work::{ResourceBinding, TargetCluster},
};
use ironclad_fleet::{BindingKey, BindingRef, eviction_task, tree::LinkState};
use jiff::Timestamp;
use serde::Serialize;

use super::{timeline::Entry, workloads::word};

/// A binding of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    pub namespace: String,
    /// Name of the template; of the binding, if that is gone.
    pub name: String,
    /// Empty if the binding is gone.
    pub kind: String,
    /// Its type as `get` takes it, such as `deployment.apps`; empty likewise.
    #[serde(rename = "type")]
    pub word: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// Replicas in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Share {
    #[serde(rename = "name")]
    pub cluster: String,
    pub replicas: i32,
}

/// A binding for which others leave, or left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionRow {
    #[serde(flatten)]
    pub preemptor: Workload,
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    pub reason: String,
    /// Clusters in which capacity is held for it.
    pub held: Vec<Share>,
    pub victims: Vec<Victim>,
}

/// A binding that leaves a cluster for another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
    #[serde(flatten)]
    pub workload: Workload,
    /// The cluster that it leaves.
    pub from: String,
    /// Replicas that it had there, if its task tells them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Clusters that have it now; empty if it has no place.
    pub clusters: Vec<Share>,
}

/// The preemptions that are under way, with what is bad first.
#[must_use]
pub fn preemptions(bindings: &[impl Borrow<ResourceBinding>]) -> Vec<PreemptionRow> {
    let bindings = || bindings.iter().map(Borrow::borrow);
    let known: BTreeMap<BindingKey, &ResourceBinding> =
        bindings().map(|binding| (BindingRef::from(binding).key(), binding)).collect();
    let mut victims = BTreeMap::<BindingKey, Vec<Victim>>::new();
    for binding in bindings() {
        for task in &binding.spec.graceful_eviction_tasks {
            let Some(preemptor) = eviction_task::preemptor(task) else { continue };
            victims.entry(preemptor).or_default().push(Victim {
                workload: workload(binding),
                from: task.from_cluster.clone(),
                replicas: task.replicas,
                since: task.creation_timestamp.as_ref().map(|time| time.0),
                clusters: shares(&binding.spec.clusters),
            });
        }
    }
    let nominated = known.iter().filter(|(_, binding)| !held(binding).is_empty()).map(|(key, _)| key);
    let all: BTreeSet<BindingKey> = nominated.chain(victims.keys()).cloned().collect();
    let mut rows: Vec<PreemptionRow> = all
        .into_iter()
        .map(|key| {
            let binding = known.get(&key).copied();
            let gone =
                || Workload { namespace: key.namespace.to_string(), name: key.name.to_string(), ..Workload::default() };
            let mut victims = victims.remove(&key).unwrap_or_default();
            victims.sort_by_key(|victim| (victim.workload.priority, victim.from.clone(), victim.workload.name.clone()));
            let held = binding.map(|binding| shares(held(binding))).unwrap_or_default();
            let (state, reason) = state(binding, &held, &victims);
            PreemptionRow { preemptor: binding.map_or_else(gone, workload), state, reason, held, victims }
        })
        .collect();
    let order = |row: &PreemptionRow| {
        let Workload { namespace, name, priority, .. } = row.preemptor.clone();
        (Reverse(row.state), Reverse(priority), namespace, name)
    };
    rows.sort_by_cached_key(order);
    rows
}

/// The entries that tell of preempted workloads, without those that tell the same of their bindings.
#[must_use]
pub fn preempted(entries: Vec<Entry>) -> Vec<Entry> {
    let tells = |entry: &Entry| entry.reason == BINDING_PREEMPTED && !entry.object.starts_with("ResourceBinding ");
    entries.into_iter().filter(tells).collect()
}

fn held(binding: &ResourceBinding) -> &[TargetCluster] {
    binding.status.as_ref().map_or(&[], |status| &status.nominated_clusters)
}

fn workload(binding: &ResourceBinding) -> Workload {
    let resource = &binding.spec.resource;
    Workload {
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        kind: resource.kind.clone(),
        word: word(resource),
        priority: binding.spec.schedule_priority.as_ref().map(|priority| priority.priority),
    }
}

fn shares(targets: &[TargetCluster]) -> Vec<Share> {
    targets.iter().map(|target| Share { cluster: target.name.clone(), replicas: target.replicas }).collect()
}

/// The worst that there is to say.
fn state(binding: Option<&ResourceBinding>, held: &[Share], victims: &[Victim]) -> (LinkState, String) {
    let homeless = victims.iter().filter(|victim| victim.clusters.is_empty()).count();
    if homeless > 0 {
        let reason = match homeless {
            1 => "1 workload that it preempted has no place".to_owned(),
            number => format!("{number} workloads that it preempted have no place"),
        };
        return (LinkState::Broken, reason);
    }
    if binding.is_none() {
        return (LinkState::Waiting, "it is gone".to_owned());
    }
    match (held, victims.len()) {
        ([], _) => (LinkState::Ok, String::new()),
        (_, 0) => (LinkState::Waiting, "capacity is held until it is placed".to_owned()),
        (_, 1) => (LinkState::Waiting, "waits until 1 workload has left".to_owned()),
        (_, number) => (LinkState::Waiting, format!("waits until {number} workloads have left")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn binding(name: &str, priority: i32, clusters: &[(&str, i32)], tasks: Value, status: Value) -> ResourceBinding {
        let clusters: Vec<Value> =
            clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": format!("{name}-deployment")},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
                "schedulePriority": {"priority": priority}, "clusters": clusters, "gracefulEvictionTasks": tasks},
            "status": status}))
        .unwrap()
    }

    fn tasks(by: &str, from: &str) -> Value {
        json!([{"fromCluster": from, "replicas": 2, "reason": "BindingPreempted", "producer": "Scheduler",
            "message": format!("preempted by shop/{by}-deployment (priority 9)"), "creationTimestamp": "2026-01-01T00:00:00Z"}])
    }

    fn told(row: &PreemptionRow) -> String {
        let shares = |all: &[Share]| {
            all.iter().map(|one| format!("{}:{}", one.cluster, one.replicas)).collect::<Vec<_>>().join("+")
        };
        let victims: Vec<String> = row
            .victims
            .iter()
            .map(|one| format!("{} from {} to {}", one.workload.name, one.from, shares(&one.clusters)))
            .collect();
        format!("{} {:?} {} [{}] {}", row.preemptor.name, row.state, row.reason, shares(&row.held), victims.join(", "))
    }

    #[test]
    fn preemptors_are_told_with_their_victims() {
        let nominated = json!({"nominatedClusters": [{"name": "m1", "replicas": 4}]});
        let (none, nothing) = (json!([]), json!({}));
        let big = || binding("big", 9, &[], none.clone(), nominated.clone());
        let other = json!([{"fromCluster": "m1", "reason": "ClusterDrain", "producer": "Drain"}]);
        for (name, bindings, want) in [
            ("nothing happens", vec![binding("web", 0, &[("m1", 1)], other, nothing.clone())], vec![]),
            (
                "victims leave, the lowest priority first",
                vec![
                    binding("b", 2, &[("m2", 2)], tasks("big", "m1"), nothing.clone()),
                    binding("a", 1, &[("m3", 2)], tasks("big", "m1"), nothing.clone()),
                    big(),
                ],
                vec!["big Waiting waits until 2 workloads have left [m1:4] a from m1 to m3:2, b from m1 to m2:2"],
            ),
            ("all have left", vec![big()], vec!["big Waiting capacity is held until it is placed [m1:4] "]),
            (
                "it has its place, and a victim has none",
                vec![
                    binding("big", 9, &[("m1", 4)], none.clone(), nothing.clone()),
                    binding("a", 1, &[], tasks("big", "m1"), nothing.clone()),
                ],
                vec!["big Broken 1 workload that it preempted has no place [] a from m1 to "],
            ),
            (
                "what is bad comes first",
                vec![
                    binding("a", 1, &[], tasks("gone", "m1"), nothing.clone()),
                    binding("b", 1, &[("m2", 1)], tasks("lost", "m1"), nothing.clone()),
                    big(),
                ],
                vec![
                    "gone-deployment Broken 1 workload that it preempted has no place [] a from m1 to ",
                    "big Waiting capacity is held until it is placed [m1:4] ",
                    "lost-deployment Waiting it is gone [] b from m1 to m2:1",
                ],
            ),
            (
                "over",
                vec![
                    binding("big", 9, &[("m1", 4)], none.clone(), nothing.clone()),
                    binding("a", 1, &[("m2", 2)], tasks("big", "m1"), nothing.clone()),
                ],
                vec!["big Ok  [] a from m1 to m2:2"],
            ),
        ] {
            assert_eq!(preemptions(&bindings).iter().map(told).collect::<Vec<_>>(), want, "{name}");
        }
    }

    #[test]
    fn former_preemptions_are_told_once() {
        let entry = |reason: &str, object: &str| Entry {
            at: Timestamp::UNIX_EPOCH,
            first: None,
            count: 1,
            class: "Warning".into(),
            reason: reason.into(),
            message: String::new(),
            object: object.into(),
            namespace: "shop".into(),
            source: String::new(),
        };
        let all = vec![
            entry("BindingPreempted", "Deployment shop/web"),
            entry("BindingPreempted", "ResourceBinding shop/web-deployment"),
            entry("ScheduleBindingSucceed", "Deployment shop/web"),
        ];
        let told: Vec<_> = preempted(all).into_iter().map(|entry| entry.object).collect();
        assert_eq!(told, ["Deployment shop/web"]);
    }
}
