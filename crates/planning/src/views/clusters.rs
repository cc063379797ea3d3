//! Clusters: health with its age, capacity, and how much depends on each.

use std::{borrow::Borrow, cmp::Reverse, collections::BTreeMap};

use ironclad_api::{ResourceList, cluster::Cluster, conditions, quantity::Amount};
use ironclad_failover::{taint_manager::Row, taints::evicts};
use ironclad_fleet::{taint, tree::LinkState};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{BindingRow, workloads::Place};

/// A cluster that was not heard of for so long is told with the time. Younger times change with every heartbeat.
const SILENT: SignedDuration = SignedDuration::from_secs(60);

/// CPU, memory and pods of a list of resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Thousandths of a core.
    pub cpu_millis: i64,
    /// Bytes.
    pub memory_bytes: i64,
    pub pods: i64,
}

/// Resources of the nodes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    pub allocatable: Counts,
    /// Requests of pods on nodes.
    pub requested: Counts,
    /// Requests of pods that wait for a node.
    pub waiting: Counts,
}

/// Nodes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    pub ready: i32,
    pub total: i32,
}

/// A cluster of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    pub name: String,
    /// Worst of what is told here.
    pub state: LinkState,
    /// Status of condition Ready; `Unknown` if nobody has set it.
    pub ready: String,
    pub reason: String,
    pub message: String,
    /// Since when it has this readiness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The last heartbeat, if it is old: everything else about the cluster is at least as old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_since: Option<Timestamp>,
    /// True if it is being removed from the fleet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// `Push` or `Pull`.
    pub mode: String,
    pub version: String,
    pub provider: String,
    pub region: String,
    pub zones: Vec<String>,
    /// `key=value:Effect`.
    pub taints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
    /// `None` if it never reported its resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Bindings that are placed there.
    pub workloads: usize,
    /// Those of them that are not healthy there.
    pub unhealthy: usize,
    /// Replicas that are placed there.
    pub replicas: i64,
    /// Evictions from there that wait.
    pub evictions: usize,
}

/// The rows of these clusters, with what is bad first. `heard` tells the last heartbeats that are known.
#[must_use]
pub fn clusters(
    all: &[impl Borrow<Cluster>],
    bindings: &[BindingRow],
    queue: &[Row],
    heard: &BTreeMap<String, Timestamp>,
    now: Timestamp,
) -> Vec<ClusterRow> {
    let mut rows: Vec<ClusterRow> = all
        .iter()
        .map(|cluster| {
            let mut row = cluster_row(cluster.borrow(), now);
            let heard = heard.get(&row.name).copied();
            row.silent_since = heard.filter(|at| now.duration_since(*at) > SILENT);
            row
        })
        .collect();
    // Looked up once for each place: a fleet has thousands of bindings.
    let places: BTreeMap<String, usize> = rows.iter().enumerate().map(|(i, row)| (row.name.clone(), i)).collect();
    for Place { cluster, replicas, state, .. } in bindings.iter().flat_map(|binding| &binding.clusters) {
        let Some(row) = places.get(cluster).and_then(|place| rows.get_mut(*place)) else { continue };
        row.workloads += 1;
        row.replicas += i64::from(*replicas);
        row.unhealthy += usize::from(*state == LinkState::Broken);
    }
    for waiting in queue {
        if let Some(row) = places.get(&*waiting.cluster.0).and_then(|place| rows.get_mut(*place)) {
            row.evictions += 1;
        }
    }
    rows.sort_by(|a, b| (Reverse(a.state), &a.name).cmp(&(Reverse(b.state), &b.name)));
    rows
}

/// The row of one cluster, without what others tell about it.
#[must_use]
pub fn cluster_row(cluster: &Cluster, now: Timestamp) -> ClusterRow {
    let status = cluster.status.as_ref();
    let conditions = status.map_or(&[][..], |status| &status.conditions);
    let ready = conditions::get(conditions, conditions::cluster::READY);
    let leaving = cluster.metadata.deletion_timestamp.is_some();
    let created = cluster.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let state = match ready.map(|condition| condition.status.as_str()) {
        Some(conditions::TRUE) if leaving || cluster.spec.taints.iter().any(evicts) => LinkState::Waiting,
        Some(conditions::TRUE) => LinkState::Ok,
        Some(_) => LinkState::Broken,
        None => LinkState::Waiting,
    };
    ClusterRow {
        name: cluster.metadata.name.clone().unwrap_or_default(),
        state,
        ready: ready.map_or(conditions::UNKNOWN, |condition| &condition.status).to_owned(),
        reason: ready.map_or("NotHeardOf", |condition| &condition.reason).to_owned(),
        message: ready.map(|condition| condition.message.clone()).unwrap_or_default(),
        since: ready.map(|condition| condition.last_transition_time.0).or(created).filter(|at| *at <= now),
        silent_since: None,
        leaving,
        mode: format!("{:?}", cluster.spec.sync_mode),
        version: status.map(|status| status.kubernetes_version.clone()).unwrap_or_default(),
        provider: cluster.spec.provider.clone(),
        region: cluster.spec.region.clone(),
        zones: cluster.spec.zones.clone(),
        taints: cluster.spec.taints.iter().map(taint::text).collect(),
        nodes: status
            .and_then(|status| status.node_summary.as_ref())
            .map(|nodes| Nodes { ready: nodes.ready_num, total: nodes.total_num }),
        capacity: capacity(cluster),
        workloads: 0,
        unhealthy: 0,
        replicas: 0,
        evictions: 0,
    }
}

/// Resources of a cluster by its summary; `None` if it never reported them.
#[must_use]
pub fn capacity(cluster: &Cluster) -> Option<Capacity> {
    let summary = cluster.status.as_ref()?.resource_summary.as_ref()?;
    (!summary.allocatable.is_empty()).then(|| Capacity {
        allocatable: amounts(&summary.allocatable),
        requested: amounts(&summary.allocated),
        waiting: amounts(&summary.allocating),
    })
}

/// The amounts in a list of resources. What is no quantity counts nothing.
#[must_use]
pub fn amounts(list: &ResourceList) -> Counts {
    let amount = |name: &str| list.get(name).and_then(|one| Amount::try_from(one).ok()).unwrap_or(Amount::ZERO);
    Counts {
        cpu_millis: amount("cpu").milli_value(),
        memory_bytes: amount("memory").value(),
        pods: amount("pods").value(),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_failover::taint_manager::Waiting;
    use ironclad_fleet::BindingKey;
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn cluster(name: &str, ready: Option<&str>, spec: Value, status: Value) -> Cluster {
        let mut object = json!({"metadata": {"name": name, "creationTimestamp": at(0)},
            "spec": {"syncMode": "Push"}, "status": status});
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let conditions = ready.map(|status| {
            json!([{"type": "Ready", "status": status, "reason": "R", "message": "m",
            "lastTransitionTime": at(10)}])
        });
        object["status"]["conditions"] = conditions.unwrap_or_else(|| json!([]));
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn what_is_bad_comes_first() {
        let evicting = json!({"taints": [{"key": "a", "value": "b", "effect": "NoExecute"}]});
        let cordoned = json!({"taints": [{"key": "c", "effect": "NoSchedule"}]});
        let all = [
            cluster("a-ready", Some("True"), cordoned, json!({})),
            cluster("b-silent", Some("Unknown"), json!({}), json!({})),
            cluster("c-new", None, json!({}), json!({})),
            cluster("d-down", Some("False"), json!({}), json!({})),
            cluster("e-evicting", Some("True"), evicting, json!({})),
        ];
        let rows = clusters(&all, &[], &[], &BTreeMap::new(), at(60));
        let told: Vec<String> = rows
            .iter()
            .map(|row| format!("{} {:?} {} {:?} {}", row.name, row.state, row.ready, row.since, row.taints.join(",")))
            .collect();
        let (changed, made) = (Some(at(10)), Some(at(0)));
        assert_eq!(
            told,
            [
                format!("b-silent Broken Unknown {changed:?} "),
                format!("d-down Broken False {changed:?} "),
                format!("c-new Waiting Unknown {made:?} "),
                format!("e-evicting Waiting True {changed:?} a=b:NoExecute"),
                format!("a-ready Ok True {changed:?} c:NoSchedule"),
            ]
        );
        assert_eq!((rows[2].reason.as_str(), rows[0].message.as_str()), ("NotHeardOf", "m"));
    }

    #[test]
    fn rows_tell_what_depends_on_a_cluster() {
        let status = json!({"kubernetesVersion": "v1.36.0", "nodeSummary": {"readyNum": 2, "totalNum": 3},
            "resourceSummary": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "allocated": {"cpu": "1500m", "memory": "1Gi", "pods": "7"}, "allocating": {"cpu": "x"}}});
        let all = [cluster("m1", Some("True"), json!({}), status), cluster("m2", Some("True"), json!({}), json!({}))];
        let place = |cluster: &str, replicas, state| Place {
            cluster: cluster.into(),
            replicas,
            ready: None,
            state,
            detail: String::new(),
        };
        let binding = |places: Vec<Place>| BindingRow { clusters: places, ..BindingRow::default() };
        let bindings = [
            binding(vec![place("m1", 2, LinkState::Ok), place("m2", 1, LinkState::Broken)]),
            binding(vec![place("m1", 3, LinkState::Waiting), place("gone", 9, LinkState::Ok)]),
        ];
        let row = |cluster: &str| Row {
            binding: BindingKey { namespace: "shop".into(), name: "web".into() },
            resource: "r".into(),
            cluster: cluster.into(),
            state: Waiting::Queued,
            position: Some(1),
            rebuilt: false,
            since: None,
            due: at(0),
            causes: vec![],
            purge_mode: "Gracefully".into(),
            expected: None,
            attempts: 0,
            because: None,
        };
        let heard = [("m1".to_owned(), at(0)), ("m2".to_owned(), at(30))].into();
        let rows = clusters(&all, &bindings, &[row("m2"), row("gone")], &heard, at(61));
        let told: Vec<_> = rows
            .iter()
            .map(|row| (&*row.name, row.workloads, row.unhealthy, row.replicas, row.evictions, row.silent_since))
            .collect();
        assert_eq!(told, [("m1", 2, 0, 5, 0, Some(at(0))), ("m2", 1, 1, 1, 1, None)]);
        let capacity = rows[0].capacity.unwrap();
        assert_eq!(capacity.allocatable, Counts { cpu_millis: 4_000, memory_bytes: 8 << 30, pods: 110 });
        assert_eq!(capacity.requested, Counts { cpu_millis: 1_500, memory_bytes: 1 << 30, pods: 7 });
        assert_eq!((capacity.waiting, rows[1].capacity), (Counts::default(), None));
        assert_eq!(rows[0].nodes, Some(Nodes { ready: 2, total: 3 }));
    }
}
