//! Drain of a cluster on a person's request (specification/failover.md 9.4): which bindings move, which can't, how
//! fast.
//!
//! Independent of the gate `Failover`: a drain is no reaction to a failure and uses no taint. The scheduler
//! chooses the targets.

use std::{collections::BTreeSet, time::Duration};

use ironclad_api::{
    JsonText, Time,
    cluster::Cluster,
    eviction::{CLUSTER_DRAIN, PRODUCER_DRAIN},
    labels::BINDING_MANAGED_BY,
    policy::{Placement, PurgeMode, ReplicaSchedulingType},
    work::{ResourceBindingSpec, ResourceBindingStatus},
};
use ironclad_fleet::{
    Binding, BindingKey, ClusterName,
    because::{eviction::NoTarget, migration::Reason},
    eviction_task::{self, Why},
};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    flags::eviction::{Check, EvictionFlags},
    taint_manager::guards::{ClusterHealth, Fleet},
    taint_manager::is_ready,
    taint_manager::pre_scheduling_check::{Snapshot, has_target},
    taint_manager::rate::{Counts, State, formula, interval},
};

/// Verdict of a drain on a binding on the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is moved away.
    Moves,
    /// Its copy goes, and whole copies in other clusters stay.
    Leaves,
    /// It stays, and nothing is lost with it: what it ran has ended.
    Finished,
    /// It is not evicted unless forced: it has no target, or a person pinned it.
    Stuck(Reason),
    /// It is not the drain's to move: it follows others.
    Follows,
}

/// Verdict of a drain on this binding; `None` if it is not on the cluster, or is leaving already.
#[must_use]
pub fn judge(binding: &Binding, cluster: &ClusterName, snapshot: &Snapshot<'_>, check: Check) -> Option<Verdict> {
    let spec = binding.spec();
    if binding.metadata().deletion_timestamp.is_some() {
        return None;
    }
    if spec.target(&cluster.0).is_none() {
        let follows = spec.required_by.iter().any(|owner| owner.clusters.iter().any(|t| t.name == *cluster.0));
        return follows.then_some(Verdict::Follows);
    }
    if spec.placement.is_none() || follows_owner(binding) {
        return Some(Verdict::Follows);
    }
    if has_finished(spec, binding.status(), &cluster.0) {
        return Some(Verdict::Finished);
    }
    if let Some(by) = pinned(spec) {
        return Some(Verdict::Stuck(Reason::Pinned { by }));
    }
    Some(match has_target(binding, &BTreeSet::from([cluster.clone()]), snapshot, check) {
        Ok(()) => Verdict::Moves,
        Err(NoTarget::AllInUse { .. } | NoTarget::NoSpreadConstraint) if has_other_copy(spec, cluster, snapshot) => {
            Verdict::Leaves
        }
        Err(why) => Verdict::Stuck(Reason::NowhereToGo { why: why.to_string() }),
    })
}

/// True if a whole copy of the template is in another cluster that is ready.
fn has_other_copy(spec: &ResourceBindingSpec, cluster: &ClusterName, snapshot: &Snapshot<'_>) -> bool {
    let divided = |placement: &Placement| placement.replica_scheduling_type() == ReplicaSchedulingType::Divided;
    let is_shared_out = spec.is_workload() && spec.placement.as_deref().is_some_and(divided);
    let mut others = spec.clusters.iter().filter(|target| *target.name != *cluster.0);
    !is_shared_out && others.any(|target| is_ready(snapshot.clusters, &target.name.as_str().into()))
}

/// True if a Job or Pod has ended in the cluster: moved away it would run once more.
#[must_use]
pub fn has_finished(spec: &ResourceBindingSpec, status: Option<&ResourceBindingStatus>, cluster: &str) -> bool {
    let reports = status.map_or(&[][..], |status| &status.aggregated_status);
    let report = reports.iter().find(|report| report.cluster_name == cluster);
    let Some(told) = report.and_then(|report| report.status.as_ref()).map(JsonText::value) else { return false };
    match (spec.resource.api_version.as_str(), spec.resource.kind.as_str()) {
        ("v1", "Pod") => ["Succeeded", "Failed"].iter().any(|phase| told["phase"] == **phase),
        ("batch/v1", "Job") => told["conditions"].as_array().is_some_and(|conditions| {
            let has_ended =
                |one: &Value| (one["type"] == "Complete" || one["type"] == "Failed") && one["status"] == "True";
            conditions.iter().any(has_ended)
        }),
        _ => false,
    }
}

/// Bindings that another controller keeps are moved by it.
fn follows_owner(binding: &Binding) -> bool {
    binding.metadata().labels.as_ref().is_some_and(|labels| labels.contains_key(BINDING_MANAGED_BY))
}

/// User's setting that pins a binding: with it the scheduler could not act on an eviction, or the
/// object would remain in the member.
fn pinned(spec: &ResourceBindingSpec) -> Option<&'static str> {
    let suspension = spec.suspension.as_ref();
    if spec.scheduling_suspended() {
        return Some("spec.suspension.scheduling");
    }
    if suspension.is_some_and(|s| s.dispatching == Some(true)) {
        return Some("spec.suspension.dispatching");
    }
    spec.preserve_resources_on_deletion.unwrap_or(false).then_some("spec.preserveResourcesOnDeletion")
}

/// The order in which bindings are moved: the oldest first, so that a run is the same twice.
#[must_use]
pub fn order(binding: &Binding) -> (Option<Time>, bool, BindingKey) {
    let is_cluster = matches!(binding, Binding::Cluster(_));
    (binding.metadata().creation_timestamp.clone(), is_cluster, binding.key())
}

/// The merge patch that moves a binding away; `None` if it is not on the cluster.
#[must_use]
pub fn patch(spec: &ResourceBindingSpec, cluster: &ClusterName, purge_mode: PurgeMode) -> Option<Value> {
    let message = Reason::Drains { cluster: cluster.clone() }.to_string();
    let why = Why { purge_mode, reason: CLUSTER_DRAIN, producer: PRODUCER_DRAIN, message };
    eviction_task::patch(spec, &[eviction_task::task(spec, cluster, &why)])
}

/// True if the old copy of a binding that was drained is still there.
#[must_use]
pub fn is_under_way(spec: &ResourceBindingSpec, cluster: &ClusterName) -> bool {
    spec.eviction(&cluster.0).is_some_and(|task| task.reason == CLUSTER_DRAIN)
}

/// Rate of a drain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// From one eviction to the next; `None`: none for now.
    pub interval: Option<Duration>,
    /// Which line of the rate formula holds, as for any eviction.
    pub state: State,
    /// Input of the rate formula.
    pub counts: Counts,
}

/// The fleet's health, as a drain sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// It slows and halts the drain as it does any eviction.
    Heeded,
    /// It does not: `--ignore-health`.
    Ignored,
}

/// The pace at `rate` evictions per second in this fleet. The cluster that is drained does not count (6.5).
#[must_use]
pub fn pace<'a>(
    rate: f64,
    clusters: impl IntoIterator<Item = (&'a ClusterName, &'a Cluster)>,
    drained: &ClusterName,
    health: Health,
    startup_grace: Duration,
    now: Timestamp,
) -> Pace {
    let mut fleet = Fleet::default();
    for (name, cluster) in clusters.into_iter().filter(|(name, _)| *name != drained) {
        fleet.set(name, Some(ClusterHealth::of(cluster, startup_grace)));
    }
    let counts = fleet.counts(now);
    let flags = EvictionFlags { resource_eviction_rate: rate, ..EvictionFlags::default() };
    let (allowed, state) = formula(counts, &flags);
    match health {
        Health::Heeded => Pace { interval: interval(allowed), state, counts },
        Health::Ignored => Pace { interval: interval(rate), state, counts },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ironclad_api::{
        conditions::{FALSE, TRUE},
        policy::{ClusterAffinity, Placement, SpreadByField, SpreadConstraint},
        work::{BindingSnapshot, BindingSuspension, ResourceBinding, TargetCluster},
    };

    use ironclad_fleet::Clusters;
    use ironclad_scheduling::Options;

    use super::*;
    use crate::testkit::{apis, at, cluster, owned, ready, spec, task};

    fn fleet(names: &[(&str, &str)]) -> Clusters {
        let one = |(name, status): &(&str, &str)| {
            let mut cluster = cluster(name);
            ready(&mut cluster, status, 0);
            cluster.status.get_or_insert_default().api_enablements = apis(&["apps/v1"]).into();
            (ClusterName::from(*name), Arc::new(cluster))
        };
        names.iter().map(one).collect()
    }

    /// Binding on `m1` that may run in these clusters, with `minGroups` 1.
    fn binding(affinity: &[&str]) -> ResourceBinding {
        let mut spec = spec(&[("m1", 2)], vec![]);
        (spec.resource.api_version, spec.resource.kind) = ("apps/v1".into(), "Thing".into());
        let constraint =
            SpreadConstraint { spread_by_field: Some(SpreadByField::Cluster), min_groups: 1, ..Default::default() };
        spec.placement = Some(
            Placement {
                cluster_affinity: Some(ClusterAffinity {
                    cluster_names: affinity.iter().map(|n| (*n).to_owned()).collect(),
                    ..ClusterAffinity::default()
                }),
                spread_constraints: vec![constraint],
                ..Placement::default()
            }
            .into(),
        );
        let mut binding = ResourceBinding::new("web-deployment", spec);
        binding.metadata.namespace = Some("default".into());
        binding.metadata.labels = Some(owned());
        binding
    }

    #[test]
    fn drain_moves_bindings_that_can_be_scheduled_elsewhere() {
        let clusters = fleet(&[("m1", TRUE), ("m2", TRUE), ("m3", FALSE)]);
        let with = |affinity: &[&str], change: &dyn Fn(&mut ResourceBinding)| {
            let mut binding = binding(affinity);
            change(&mut binding);
            let scheduler = Options::default();
            let snapshot = Snapshot { clusters: &clusters, scheduler: &scheduler, peers: None, now: at(0) };
            judge(&binding.into_binding(), &"m1".into(), &snapshot, Check::Strict)
        };
        let pinned = |by| Some(Verdict::Stuck(Reason::Pinned { by }));
        let suspended =
            |suspension: BindingSuspension| with(&["m1", "m2"], &|b| b.spec.suspension = Some(suspension.clone()));
        let none = |_: &mut ResourceBinding| {};
        assert_eq!(with(&["m1", "m2"], &none), Some(Verdict::Moves));
        let stuck = with(&["m1"], &none);
        assert!(matches!(&stuck, Some(Verdict::Stuck(Reason::NowhereToGo { .. }))), "{stuck:?}");
        assert!(matches!(with(&["m1", "m3"], &none), Some(Verdict::Stuck(_))), "m3 is not ready");
        for (name, got, want) in [
            ("not there", with(&["m1", "m2"], &|b| b.spec.clusters[0].name = "m2".into()), None),
            ("being deleted", with(&["m1", "m2"], &|b| b.metadata.deletion_timestamp = Some(Time(at(1)))), None),
            ("a dependency", with(&["m1", "m2"], &|b| b.spec.placement = None), Some(Verdict::Follows)),
            (
                "a workload in the cluster depends on it",
                with(&["m2"], &|b| {
                    b.spec.clusters.clear();
                    let target = TargetCluster { name: "m1".into(), ..TargetCluster::default() };
                    b.spec.required_by = vec![BindingSnapshot {
                        name: "a".into(),
                        clusters: vec![target],
                        ..BindingSnapshot::default()
                    }];
                }),
                Some(Verdict::Follows),
            ),
            (
                "owned by another controller",
                with(&["m1", "m2"], &|b| {
                    b.metadata.labels = Some([(BINDING_MANAGED_BY.to_owned(), "x".to_owned())].into())
                }),
                Some(Verdict::Follows),
            ),
            (
                "scheduling suspended",
                suspended(BindingSuspension { scheduling: Some(true), ..Default::default() }),
                pinned("spec.suspension.scheduling"),
            ),
            (
                "its policy was deleted: it would not be scheduled",
                with(&["m1", "m2"], &|b| b.metadata.labels = None),
                Some(Verdict::Stuck(Reason::NowhereToGo {
                    why: "it would not be scheduled anew: neither a policy nor a controller owns the binding".into(),
                })),
            ),
            (
                "dispatching suspended",
                suspended(BindingSuspension { dispatching: Some(true), ..Default::default() }),
                pinned("spec.suspension.dispatching"),
            ),
            (
                "its object would stay in the cluster",
                with(&["m1", "m2"], &|b| b.spec.preserve_resources_on_deletion = Some(true)),
                pinned("spec.preserveResourcesOnDeletion"),
            ),
        ] {
            assert_eq!(got, want, "{name}");
        }
    }

    /// A drain moves what failover moves, and neither whole copies that others have nor ended work keeps a cluster.
    #[test]
    fn a_drain_keeps_only_what_would_be_lost() {
        use Check::{Relaxed, Strict};
        let clusters = fleet(&[("m1", TRUE), ("m2", TRUE), ("m3", TRUE), ("m4", FALSE)]);
        let on = |names: &[&str], change: &dyn Fn(&mut ResourceBinding)| {
            let mut binding = binding(&["m1", "m2", "m3", "m4"]);
            binding.spec.clusters = names
                .iter()
                .map(|name| TargetCluster { name: (*name).into(), replicas: 2, ..Default::default() })
                .collect();
            binding.spec.placement.as_mut().unwrap().spread_constraints.clear();
            change(&mut binding);
            binding
        };
        let all = ["m1", "m2", "m3", "m4"];
        let divided = |binding: &mut ResourceBinding| {
            let strategy = serde_json::json!({"replicaSchedulingType": "Divided"});
            let placement = binding.spec.placement.as_mut().unwrap();
            placement.replica_scheduling = serde_json::from_value(strategy).unwrap();
        };
        let config = |binding: &mut ResourceBinding| binding.spec.replicas = 0;
        let three = |binding: &mut ResourceBinding| {
            let constraint =
                SpreadConstraint { spread_by_field: Some(SpreadByField::Cluster), min_groups: 4, ..Default::default() };
            binding.spec.placement.as_mut().unwrap().spread_constraints = vec![constraint];
        };
        let ended = |api_version: &str, kind: &str, status: &str| {
            let (api_version, kind, status) = (api_version.to_owned(), kind.to_owned(), status.to_owned());
            move |binding: &mut ResourceBinding| {
                let resource = &mut binding.spec.resource;
                (resource.api_version, resource.kind) = (api_version.clone(), kind.clone());
                let report = serde_json::json!({"clusterName": "m1", "applied": true,
                    "status": serde_json::from_str::<Value>(&status).unwrap()});
                binding.status.get_or_insert_default().aggregated_status =
                    vec![serde_json::from_value(report).unwrap()];
            }
        };
        let complete = r#"{"conditions": [{"type": "Complete", "status": "True"}]}"#;
        let failed = r#"{"conditions": [{"type": "Failed", "status": "True"}]}"#;
        let active = r#"{"active": 1, "conditions": [{"type": "Complete", "status": "False"}]}"#;
        let rows: Vec<(&str, ResourceBinding, Check, &str)> = vec![
            ("divided among all", on(&all, &divided), Relaxed, "moves"),
            ("divided among all, strictly", on(&all, &divided), Strict, "stuck"),
            ("divided among some, strictly", on(&["m1", "m2"], &divided), Strict, "moves"),
            ("a whole copy in each", on(&all, &|_| ()), Relaxed, "leaves"),
            ("a whole copy in each, strictly", on(&all, &|_| ()), Strict, "leaves"),
            ("a whole copy in some", on(&["m1", "m2"], &|_| ()), Relaxed, "moves"),
            ("one whole copy without spread constraints, strictly", on(&["m1"], &|_| ()), Strict, "stuck"),
            ("the same, relaxed", on(&["m1"], &|_| ()), Relaxed, "moves"),
            ("configuration in each", on(&all, &config), Relaxed, "leaves"),
            (
                "configuration is not divided",
                on(&all, &|b| {
                    config(b);
                    divided(b);
                }),
                Relaxed,
                "leaves",
            ),
            (
                "the other copy is in a cluster that is not ready",
                on(&["m1", "m4"], &|b| {
                    let affinity =
                        ClusterAffinity { cluster_names: vec!["m1".into(), "m4".into()], ..Default::default() };
                    b.spec.placement.as_mut().unwrap().cluster_affinity = Some(affinity);
                }),
                Relaxed,
                "stuck",
            ),
            ("fewer clusters than it requires remain", on(&all, &three), Relaxed, "stuck"),
            ("a Job that is complete", on(&["m1"], &ended("batch/v1", "Job", complete)), Relaxed, "finished"),
            ("a Job that failed", on(&["m1"], &ended("batch/v1", "Job", failed)), Strict, "finished"),
            ("a Job that runs, strictly", on(&["m1"], &ended("batch/v1", "Job", active)), Strict, "stuck"),
            ("a Pod that ended", on(&["m1"], &ended("v1", "Pod", r#"{"phase": "Succeeded"}"#)), Relaxed, "finished"),
            ("a Pod that runs, strictly", on(&["m1"], &ended("v1", "Pod", r#"{"phase": "Running"}"#)), Strict, "stuck"),
            ("another kind with such a condition", on(&["m1"], &ended("x/v1", "Job", complete)), Strict, "stuck"),
        ];
        for (name, binding, check, want) in rows {
            let scheduler = Options::default();
            let snapshot = Snapshot { clusters: &clusters, scheduler: &scheduler, peers: None, now: at(0) };
            let got = match judge(&binding.into_binding(), &"m1".into(), &snapshot, check) {
                Some(Verdict::Moves) => "moves",
                Some(Verdict::Leaves) => "leaves",
                Some(Verdict::Finished) => "finished",
                Some(Verdict::Stuck(_)) => "stuck",
                Some(Verdict::Follows) | None => "nothing",
            };
            assert_eq!(got, want, "{name}");
        }
    }

    trait IntoBinding {
        fn into_binding(self) -> Binding;
    }

    impl IntoBinding for ResourceBinding {
        fn into_binding(self) -> Binding {
            Binding::from(Arc::new(self))
        }
    }

    #[test]
    fn drain_patch_adds_a_task_once() {
        let moved = patch(&binding(&["m1"]).spec, &"m1".into(), PurgeMode::Directly).unwrap();
        let written = &moved["spec"]["gracefulEvictionTasks"][0];
        assert_eq!((&written["reason"], &written["producer"]), (&"ClusterDrain".into(), &"Drain".into()));
        assert_eq!((&written["purgeMode"], &written["replicas"]), (&"Directly".into(), &2.into()));
        assert_eq!(written["message"], "cluster m1 is drained");
        assert_eq!(patch(&binding(&["m1"]).spec, &"m2".into(), PurgeMode::Directly), None);
        let drained = |reason: &str| {
            let mut task = task("m1");
            task.reason = reason.to_owned();
            is_under_way(&spec(&[], vec![task]), &"m1".into())
        };
        assert!(drained("ClusterDrain") && !drained("TaintUntolerated"));
    }

    #[test]
    fn unhealthy_clusters_slow_and_halt_a_drain() {
        let names: Vec<String> = (1..=13).map(|n| format!("m{n}")).collect();
        let fleet_of = |total: usize, lost: usize| {
            let status = |i: usize| if i >= total - lost { FALSE } else { TRUE };
            let rows: Vec<(&str, &str)> = (0..total).map(|i| (names[i].as_str(), status(i))).collect();
            fleet(&rows)
        };
        let at_pace = |total, lost, health| {
            let clusters = fleet_of(total, lost);
            let all = clusters.iter().map(|(name, cluster)| (name, &**cluster));
            let pace = pace(0.5, all, &"m1".into(), health, Duration::from_secs(60), at(1_000));
            (pace.interval.map(|i| i.as_secs()), pace.state, pace.counts.total)
        };
        for (name, total, lost, health, want) in [
            ("no unhealthy cluster (B63)", 3, 0, Health::Heeded, (Some(2), State::Normal, 2)),
            ("above the threshold in a small fleet", 4, 2, Health::Heeded, (None, State::Halted, 3)),
            ("the drained cluster does not count", 4, 1, Health::Heeded, (Some(2), State::Normal, 3)),
            ("above the threshold in a large fleet", 13, 7, Health::Heeded, (Some(10), State::Secondary, 12)),
            ("nobody cares", 4, 2, Health::Ignored, (Some(2), State::Halted, 3)),
        ] {
            assert_eq!(at_pace(total, lost, health), want, "{name}");
        }
    }
}
