//! Clusters over which a HorizontalPodAutoscaler is divided
//! (specification/autoscaling.md 6.4.1).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{Taint, Toleration, cluster::Cluster, conditions, taints::NO_EXECUTE, work::ResourceBindingSpec};
use ironclad_fleet::{
    ClusterName, Clusters,
    because::distributed_hpa::Left,
    taint::{self, Failover},
};
use jiff::{SignedDuration, Timestamp};

use super::state;

/// A cluster of the binding.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    pub cluster: &'a Arc<Cluster>,
    /// Replicas that the binding gives it.
    pub replicas: i32,
}

/// Result: clusters of the binding that count, and the others with the reason.
#[derive(Debug, Clone, Default)]
pub struct Effective<'a> {
    /// Those that count.
    pub members: BTreeMap<ClusterName, Member<'a>>,
    /// Those that do not.
    pub left: BTreeMap<ClusterName, Left>,
    /// Time until the next of them is left for being unreachable.
    pub next: Option<SignedDuration>,
}

/// Rule for unreachable clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// Their shares go to the others once this time has passed.
    LeftAfter(SignedDuration),
    /// They keep their shares: annotation `federatedhpa.karmada.io/strict-max`.
    Stay,
}

/// Finds the effective clusters of a binding. `given_away` has the clusters whose shares others have already.
#[must_use]
pub fn effective<'a>(
    spec: &ResourceBindingSpec,
    clusters: &'a Clusters,
    unreachable: Unreachable,
    given_away: &BTreeSet<ClusterName>,
    now: Timestamp,
) -> Effective<'a> {
    let mut found = Effective::default();
    // As long as none could be reached, the control plane was cut off: that tells nothing about a single cluster.
    let reached = spec.clusters.iter().filter_map(|target| clusters.get(&ClusterName::from(target.name.as_str())));
    let reached_since = reached.filter_map(|cluster| ready_since(cluster)).min();
    let tolerations = spec.placement.as_ref().map(|placement| placement.cluster_tolerations.as_slice());
    for target in &spec.clusters {
        let name = ClusterName::from(target.name.as_str());
        let evicted = spec.graceful_eviction_tasks.iter().any(|task| task.from_cluster == target.name);
        let cluster = clusters.get(&name).filter(|cluster| cluster.metadata.deletion_timestamp.is_none());
        let left = match cluster {
            None => Some(Left::Gone),
            Some(_) if evicted => Some(Left::Evicted),
            Some(cluster) => {
                let repelled = repelled(cluster, tolerations.unwrap_or_default(), now);
                repelled.or_else(|| match (unreachable, not_ready_since(cluster)) {
                    (Unreachable::LeftAfter(_), Some(_)) if given_away.contains(&name) => Some(Left::NotReady),
                    (Unreachable::LeftAfter(grace), Some(since)) => {
                        match state::left(reached_since.map_or(since, |reached| reached.max(since)), grace, now) {
                            None => Some(Left::NotReady),
                            Some(left) => {
                                found.next = found.next.into_iter().chain([left]).min();
                                None
                            }
                        }
                    }
                    _ => None,
                })
            }
        };
        match (cluster, left) {
            (Some(cluster), None) => {
                found.members.insert(name, Member { cluster, replicas: target.replicas });
            }
            (_, left) => {
                found.left.insert(name, left.unwrap_or(Left::Gone));
            }
        }
    }
    // Copies that are being left run on outside of the result.
    for task in &spec.graceful_eviction_tasks {
        let name = ClusterName::from(task.from_cluster.as_str());
        if !found.members.contains_key(&name) {
            found.left.entry(name).or_insert(Left::Evicted);
        }
    }
    found
}

fn repelled(cluster: &Cluster, tolerations: &[Toleration], now: Timestamp) -> Option<Left> {
    let taints: Vec<Taint> = cluster.spec.taints.iter().filter(|taint| taint.effect == NO_EXECUTE).cloned().collect();
    let taint = taint::repelling_at(&taints, tolerations, Failover::Stays, now, None)?;
    Some(Left::Tainted { taint: taint::text(taint) })
}

/// Time since which a cluster has not been Ready; `None` if it is, or if nothing was reported about it.
#[must_use]
pub fn not_ready_since(cluster: &Cluster) -> Option<Timestamp> {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = conditions::get(conditions, conditions::cluster::READY)?;
    (ready.status != conditions::TRUE).then_some(ready.last_transition_time.0)
}

/// Time since which a cluster has been Ready; `None` if it is not.
fn ready_since(cluster: &Cluster) -> Option<Timestamp> {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = conditions::get(conditions, conditions::cluster::READY)?;
    (ready.status == conditions::TRUE).then_some(ready.last_transition_time.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(name: &str, ready: &str, since: i64, taints: &Value, deleted: bool) -> (ClusterName, Arc<Cluster>) {
        let since = Timestamp::from_second(since).unwrap();
        let deletion = deleted.then_some("2026-01-01T00:00:00Z");
        let cluster = serde_json::from_value(json!({
            "metadata": {"name": name, "deletionTimestamp": deletion}, "spec": {"syncMode": "Push", "taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "r", "message": "",
                "lastTransitionTime": since.to_string()}]}}))
        .unwrap();
        (name.into(), Arc::new(cluster))
    }

    fn spec(tolerations: &Value, tasks: &Value) -> ResourceBindingSpec {
        serde_json::from_value(json!({"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "clusters": [{"name": "A", "replicas": 1}, {"name": "B", "replicas": 2}],
            "gracefulEvictionTasks": tasks, "placement": {"clusterTolerations": tolerations}}))
        .unwrap()
    }

    #[test]
    fn clusters_that_count() {
        let (none, out) = (json!([]), json!([{"key": "k", "effect": "NoExecute"}]));
        let ready = |taints: &Value| cluster("A", "True", 0, taints, false);
        let down = |since| cluster("A", "False", since, &json!([]), false);
        let tolerated = json!([{"key": "k", "operator": "Exists"}]);
        let grace = Unreachable::LeftAfter(SignedDuration::from_secs(60));
        let evicted = json!([{"fromCluster": "A", "reason": "r", "producer": "p"}]);
        let new = |taint: &str| json!([{"key": "k", "effect": "NoExecute", "timeAdded": taint}]);
        let thirty = json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]);
        for (name, a, tolerations, tasks, rule, want) in [
            ("ready", Some(ready(&none)), &none, &none, grace, "A,B"),
            ("no such cluster", None, &none, &none, grace, "B; A Gone"),
            ("it is being unjoined", Some(cluster("A", "True", 0, &none, true)), &none, &none, grace, "B; A Gone"),
            ("NoExecute", Some(ready(&out)), &none, &none, grace, "B; A Tainted"),
            ("a tolerated one", Some(ready(&out)), &tolerated, &none, grace, "A,B"),
            ("tolerated for a while", Some(ready(&new("1970-01-01T00:01:11Z"))), &thirty, &none, grace, "A,B"),
            ("for no longer", Some(ready(&new("1970-01-01T00:01:10Z"))), &thirty, &none, grace, "B; A Tainted"),
            (
                "other effects",
                Some(ready(&json!([{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "PreferNoExecute"}]))),
                &none,
                &none,
                grace,
                "A,B",
            ),
            ("an eviction task", Some(ready(&none)), &none, &evicted, grace, "B; A Evicted"),
            ("not ready for a short time", Some(down(41)), &none, &none, grace, "A,B in 1"),
            ("for the grace period", Some(down(40)), &none, &none, grace, "B; A NotReady"),
            ("its clock is ahead", Some(down(900)), &none, &none, grace, "A,B in 60"),
            ("with strict-max it keeps its share", Some(down(0)), &none, &none, Unreachable::Stay, "A,B"),
            (
                "strict-max does not keep what is evicted",
                Some(ready(&none)),
                &none,
                &evicted,
                Unreachable::Stay,
                "B; A Evicted",
            ),
        ] {
            let clusters: Clusters = a.into_iter().chain([cluster("B", "True", 0, &none, false)]).collect();
            let (given, now) = (BTreeSet::new(), Timestamp::from_second(100).unwrap());
            let found = effective(&spec(tolerations, tasks), &clusters, rule, &given, now);
            let names: Vec<&str> = found.members.keys().map(|name| &*name.0).collect();
            let left: String = found.left.iter().map(|(name, left)| format!("; {name} {}", left.reason())).collect();
            let next = found.next.map(|next| format!(" in {}", next.as_secs())).unwrap_or_default();
            assert_eq!(format!("{}{left}{next}", names.join(",")), want, "{name}");
        }
    }

    #[test]
    fn copies_outside_of_the_result_are_left() {
        let spec = spec(&json!([]), &json!([{"fromCluster": "C", "reason": "r", "producer": "p"}]));
        let clusters: Clusters = ["A", "B"].map(|name| cluster(name, "True", 0, &json!([]), false)).into();
        let found = effective(&spec, &clusters, Unreachable::Stay, &BTreeSet::new(), Timestamp::UNIX_EPOCH);
        assert_eq!(found.left, [("C".into(), Left::Evicted)].into());
    }

    #[test]
    fn time_in_which_no_cluster_was_reached_does_not_count() {
        let none = json!([]);
        for (name, (a, a_since), (b, b_since), given, want) in [
            ("B is down, A was always reached", ("False", 40), ("True", 0), "", "B; A NotReady"),
            ("B has just come back", ("False", 0), ("True", 90), "", "A,B in 50"),
            ("and A not for the grace period after that", ("False", 0), ("True", 40), "", "B; A NotReady"),
            ("A was lost after B came back", ("False", 70), ("True", 60), "", "A,B in 30"),
            ("B has what A had, and was away for a moment", ("False", 0), ("True", 90), "A", "B; A NotReady"),
            ("A is back", ("True", 99), ("True", 90), "A", "A,B"),
            ("neither is reached", ("False", 0), ("Unknown", 0), "", "; A NotReady; B NotReady"),
        ] {
            let clusters: Clusters =
                [cluster("A", a, a_since, &none, false), cluster("B", b, b_since, &none, false)].into();
            let grace = Unreachable::LeftAfter(SignedDuration::from_secs(60));
            let given = given.split(',').filter(|name| !name.is_empty()).map(ClusterName::from).collect();
            let found = effective(&spec(&none, &none), &clusters, grace, &given, Timestamp::from_second(100).unwrap());
            let names: Vec<&str> = found.members.keys().map(|name| &*name.0).collect();
            let left: String = found.left.iter().map(|(name, left)| format!("; {name} {}", left.reason())).collect();
            let next = found.next.map(|next| format!(" in {}", next.as_secs())).unwrap_or_default();
            assert_eq!(format!("{}{left}{next}", names.join(",")), want, "{name}");
        }
    }
}
