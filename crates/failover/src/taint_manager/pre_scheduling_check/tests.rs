use std::sync::Arc;

use ironclad_api::{
    Toleration,
    eviction::{APPLICATION_FAILURE, TAINT_UNTOLERATED},
    policy::{
        ClusterAffinity, ClusterAffinityTerm, ClusterFailoverBehavior, FailoverBehavior, ReplicaSchedulingStrategy,
        SuspendClusters,
    },
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
    work::{BindingSuspension, GracefulEvictionTask, ResourceBinding, ResourceBindingStatus, TargetCluster},
};

use super::*;
use crate::testkit::{apis, at, cluster, owned, ready, taint, task};

/// Clusters `m1` to `m5`; `m1` is not ready. Regions are those of the table in the specification.
fn fleet(change: impl Fn(&str, &mut Cluster)) -> Clusters {
    let one = |n: usize| {
        let name = format!("m{n}");
        let mut cluster = cluster(&name);
        ready(&mut cluster, if n == 1 { "False" } else { "True" }, 0);
        cluster.status.get_or_insert_default().api_enablements = apis(&["apps/v1"]).into();
        cluster.spec.region = ["r1", "r1", "r2", "r3", "r3"][n - 1].to_owned();
        change(&name, &mut cluster);
        (ClusterName::from(name.as_str()), Arc::new(cluster))
    };
    (1..=5).map(one).collect()
}

struct Case {
    affinity: &'static [&'static str],
    groups: &'static [(&'static str, &'static [&'static str])],
    divided: bool,
    workload: bool,
    spread: Vec<SpreadConstraint>,
    result: &'static [(&'static str, i32)],
}

fn case() -> Case {
    Case { affinity: &[], groups: &[], divided: false, workload: true, spread: vec![], result: &[("m1", 1)] }
}

fn binding(case: &Case) -> Binding {
    let names = |names: &[&str]| ClusterAffinity {
        cluster_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ClusterAffinity::default()
    };
    let term = |(name, clusters): &(&str, &[&str])| ClusterAffinityTerm {
        affinity_name: (*name).to_owned(),
        affinity: names(clusters),
        overflow_affinities: vec![],
    };
    let kind = if case.divided { ReplicaSchedulingType::Divided } else { ReplicaSchedulingType::Duplicated };
    let mut spec = ResourceBindingSpec {
        replicas: if case.workload { case.result.iter().map(|(_, n)| n).sum() } else { 0 },
        clusters: case
            .result
            .iter()
            .map(|(name, replicas)| TargetCluster { name: (*name).to_owned(), replicas: *replicas, components: vec![] })
            .collect(),
        placement: Some(
            Placement {
                cluster_affinity: (!case.affinity.is_empty()).then(|| names(case.affinity)),
                cluster_affinities: case.groups.iter().map(term).collect(),
                spread_constraints: case.spread.clone(),
                replica_scheduling: Some(ReplicaSchedulingStrategy {
                    replica_scheduling_type: Some(kind),
                    ..ReplicaSchedulingStrategy::default()
                }),
                ..Placement::default()
            }
            .into(),
        ),
        ..ResourceBindingSpec::default()
    };
    spec.resource.api_version = "apps/v1".into();
    spec.resource.kind = "Thing".into();
    let mut binding = ResourceBinding::new("web", spec);
    binding.metadata.labels = Some(owned());
    Binding::Namespaced(Arc::new(binding))
}

fn spread(field: SpreadByField, min: i64, max: i64) -> SpreadConstraint {
    SpreadConstraint { spread_by_field: Some(field), min_groups: min, max_groups: max, ..SpreadConstraint::default() }
}

fn passes(binding: &Binding, clusters: &Clusters, check: Check) -> bool {
    check_target(binding, clusters, check).is_ok()
}

/// Returns whether the binding may be evicted from m1 at second 100.
fn check_target(binding: &Binding, clusters: &Clusters, check: Check) -> Result<(), NoTarget> {
    let snapshot = Snapshot { clusters, scheduler: &Options::default(), peers: None, now: at(100) };
    has_target(binding, &BTreeSet::from(["m1".into()]), &snapshot, check)
}

#[test]
fn binding_that_would_not_be_scheduled_is_not_evicted() {
    let not_scheduled = |why: &str| Err(NoTarget::NotScheduled { why: why.into() });
    let foreign = |observed| {
        move |binding: &mut ResourceBinding| {
            binding.spec.scheduler_name = "another".into();
            binding.metadata.generation = Some(2);
            binding.status =
                Some(ResourceBindingStatus { scheduler_observed_generation: observed, ..Default::default() });
        }
    };
    let suspension = |change: fn(&mut BindingSuspension)| {
        move |binding: &mut ResourceBinding| {
            change(binding.spec.suspension.get_or_insert_default());
        }
    };
    let on = |name: &str| Some(SuspendClusters { cluster_names: vec![name.to_owned()] });
    let leaves = |reason: &'static str| {
        move |binding: &mut ResourceBinding| {
            binding.spec.graceful_eviction_tasks = vec![GracefulEvictionTask { reason: reason.into(), ..task("m2") }];
        }
    };
    // m2 has had taint k:NoExecute since second 50.
    let tolerates = |seconds: Option<i64>| {
        move |binding: &mut ResourceBinding| {
            binding.spec.placement.get_or_insert_default().cluster_tolerations = vec![Toleration {
                key: Some("k".into()),
                operator: Some("Exists".into()),
                effect: None,
                toleration_seconds: seconds,
                value: None,
            }];
        }
    };
    type Change = Box<dyn Fn(&mut ResourceBinding)>;
    let rows: Vec<(&str, Change, bool, Result<(), NoTarget>)> = vec![
        ("unchanged", Box::new(|_| {}), false, Ok(())),
        (
            "its policy was deleted",
            Box::new(|b| b.metadata.labels = None),
            false,
            not_scheduled("neither a policy nor a controller owns the binding"),
        ),
        (
            "scheduling is suspended",
            Box::new(suspension(|s| s.scheduling = Some(true))),
            false,
            not_scheduled("scheduling is suspended"),
        ),
        (
            "another scheduler that has not observed the spec",
            Box::new(foreign(1)),
            false,
            not_scheduled("the binding is scheduled by another"),
        ),
        ("another scheduler that has observed the spec", Box::new(foreign(2)), false, Ok(())),
        (
            "dispatching is suspended",
            Box::new(suspension(|s| s.dispatching = Some(true))),
            false,
            Err(NoTarget::NotDispatched),
        ),
        (
            "dispatching to the only other cluster is suspended",
            Box::new(move |b| b.spec.suspension.get_or_insert_default().dispatching_on_clusters = on("m2")),
            false,
            Err(NoTarget::NoCandidate),
        ),
        (
            "dispatching to a third cluster is suspended",
            Box::new(move |b| b.spec.suspension.get_or_insert_default().dispatching_on_clusters = on("m3")),
            false,
            Ok(()),
        ),
        (
            "its application failed in the only other cluster (IR-20)",
            Box::new(leaves(APPLICATION_FAILURE)),
            false,
            Err(NoTarget::NoCandidate),
        ),
        ("it was evicted from the other cluster by a taint", Box::new(leaves(TAINT_UNTOLERATED)), false, Ok(())),
        ("the other cluster is tainted", Box::new(|_| {}), true, Err(NoTarget::NoCandidate)),
        ("the taint is tolerated", Box::new(tolerates(None)), true, Ok(())),
        ("the taint is tolerated for one more second", Box::new(tolerates(Some(51))), true, Ok(())),
        ("the toleration has just expired", Box::new(tolerates(Some(50))), true, Err(NoTarget::NoCandidate)),
    ];
    for (name, change, tainted, want) in rows {
        let case = Case { affinity: &["m1", "m2"], divided: true, ..case() };
        let Binding::Namespaced(shared) = binding(&case) else { unreachable!() };
        let mut changed = (*shared).clone();
        change(&mut changed);
        let clusters = fleet(|at, cluster| {
            if tainted && at == "m2" {
                cluster.spec.taints = vec![taint("k", NO_EXECUTE, Some(50))];
            }
        });
        let binding = Binding::Namespaced(Arc::new(changed));
        for check in [Check::Strict, Check::Relaxed] {
            assert_eq!(check_target(&binding, &clusters, check), want, "{name}, {}", check.as_str());
        }
        assert_eq!(check_target(&binding, &clusters, Check::Off), Ok(()), "{name}, off");
    }
}

#[test]
fn evicted_replicas_must_fit_elsewhere() {
    // Available replicas in m2 to m5; -1 is unknown.
    type Row = (&'static str, Case, [i64; 4], Result<(), (i64, i64)>);
    let rows: [Row; 9] = [
        (
            "divided: the sum of all other clusters",
            Case { divided: true, result: &[("m1", 4)], ..case() },
            [1, 1, 1, 1],
            Ok(()),
        ),
        (
            "divided: one replica too many",
            Case { divided: true, result: &[("m1", 5)], ..case() },
            [1, 1, 1, 1],
            Err((5, 4)),
        ),
        (
            "divided: current targets count too",
            Case { affinity: &["m1", "m2"], divided: true, result: &[("m1", 3), ("m2", 1)], ..case() },
            [3, 9, 9, 9],
            Ok(()),
        ),
        (
            "divided: only evicted replicas must fit",
            Case { affinity: &["m1", "m2"], divided: true, result: &[("m1", 3), ("m2", 9)], ..case() },
            [2, 9, 9, 9],
            Err((3, 2)),
        ),
        (
            "duplicated: no cluster has room for a whole copy",
            Case { result: &[("m1", 2)], ..case() },
            [1, 1, 1, 1],
            Err((2, 1)),
        ),
        (
            "duplicated: one cluster has room for a whole copy",
            Case { result: &[("m1", 2)], ..case() },
            [1, 0, 2, 0],
            Ok(()),
        ),
        (
            "duplicated: no new cluster gets a copy",
            Case { affinity: &["m1", "m2"], result: &[("m1", 2), ("m2", 2)], ..case() },
            [0; 4],
            Ok(()),
        ),
        (
            "available replicas are unknown",
            Case { divided: true, result: &[("m1", 4)], ..case() },
            [0, 0, -1, 0],
            Ok(()),
        ),
        ("not a workload", Case { workload: false, result: &[("m1", 0)], ..case() }, [0; 4], Ok(())),
    ];
    for (name, case, available, want) in rows {
        let fits = |_: &ResourceBindingSpec, cluster: &ClusterName| {
            let at = ["m2", "m3", "m4", "m5"].iter().position(|name| **name == *cluster.0)?;
            Some(available[at]).filter(|fits| *fits >= 0)
        };
        let clusters = fleet(|_, _| {});
        let snapshot = Snapshot { clusters: &clusters, scheduler: &Options::default(), peers: None, now: at(100) };
        let got = has_capacity(&binding(&case), &"m1".into(), &BTreeSet::from(["m1".into()]), &snapshot, &fits);
        let want = want.map_err(|(wanted, found)| NoTarget::InsufficientCapacity { wanted, found });
        assert_eq!(got, want, "{name}");
    }
    let text = NoTarget::InsufficientCapacity { wanted: 3, found: 2 }.to_string();
    assert_eq!(text, "insufficient_capacity: 3 replicas to move, and only 2 would fit elsewhere");
}

#[test]
fn check_follows_the_table_of_6_9() {
    use SpreadByField::{Cluster as ByCluster, Region};
    let all_ready = || fleet(|_, _| {});
    let without = |lost: &'static str| {
        fleet(move |name, c| {
            if name == lost {
                ready(c, "False", 0)
            }
        })
    };
    let m12: &[&str] = &["m1", "m2"];
    let both: &[(&str, i32)] = &[("m1", 1), ("m2", 1)];
    for (name, case, clusters, strict, relaxed) in [
        (
            "m1,m2 Duplicated min 1 max 1",
            Case { affinity: m12, spread: vec![spread(ByCluster, 1, 1)], ..case() },
            all_ready(),
            true,
            true,
        ),
        ("m1,m2 Duplicated none", Case { affinity: m12, result: both, ..case() }, all_ready(), false, false),
        (
            "m1 Duplicated min 1",
            Case { affinity: &["m1"], spread: vec![spread(ByCluster, 1, 0)], ..case() },
            all_ready(),
            false,
            false,
        ),
        (
            "m1,m2 Duplicated min 2",
            Case { affinity: m12, spread: vec![spread(ByCluster, 2, 0)], result: both, ..case() },
            all_ready(),
            false,
            false,
        ),
        (
            "m1,m2,m3 Duplicated min 2 max 2",
            Case { affinity: &["m1", "m2", "m3"], spread: vec![spread(ByCluster, 2, 2)], result: both, ..case() },
            all_ready(),
            true,
            true,
        ),
        (
            "m1,m2 Duplicated min 1 max 2",
            Case { affinity: m12, spread: vec![spread(ByCluster, 1, 2)], result: both, ..case() },
            all_ready(),
            true,
            true,
        ),
        (
            "m1..m4 Duplicated region min 2",
            Case {
                affinity: &["m1", "m2", "m3", "m4"],
                spread: vec![spread(Region, 2, 0)],
                result: &[("m1", 1), ("m3", 1)],
                ..case()
            },
            all_ready(),
            true,
            true,
        ),
        (
            "the same, m4 down, region min 3",
            Case {
                affinity: &["m1", "m2", "m3", "m4"],
                spread: vec![spread(Region, 3, 0)],
                result: &[("m1", 1), ("m3", 1), ("m4", 1)],
                ..case()
            },
            without("m4"),
            false,
            false,
        ),
        (
            "m1,m2 Divided",
            Case { affinity: m12, divided: true, result: &[("m1", 2), ("m2", 1)], ..case() },
            all_ready(),
            false,
            true,
        ),
        (
            "m1,m2,m3 Divided",
            Case { affinity: &["m1", "m2", "m3"], divided: true, result: &[("m1", 2), ("m2", 1)], ..case() },
            all_ready(),
            true,
            true,
        ),
        (
            "m1,m2,m3 Divided, m3 not Ready",
            Case { affinity: &["m1", "m2", "m3"], divided: true, result: &[("m1", 2), ("m2", 1)], ..case() },
            without("m3"),
            false,
            true,
        ),
        ("all, Divided", Case { divided: true, result: &[("m1", 6)], ..case() }, all_ready(), true, true),
        (
            "primary, backup, Duplicated min 1",
            Case {
                groups: &[("primary", &["m1"]), ("backup", &["m2"])],
                spread: vec![spread(ByCluster, 1, 0)],
                ..case()
            },
            all_ready(),
            true,
            true,
        ),
        (
            "primary, backup, Divided",
            Case {
                groups: &[("primary", &["m1"]), ("backup", &["m2"])],
                divided: true,
                result: &[("m1", 3)],
                ..case()
            },
            all_ready(),
            true,
            true,
        ),
        (
            "m1,m2 Duplicated ConfigMap",
            Case { affinity: m12, workload: false, result: &[("m1", 0), ("m2", 0)], ..case() },
            all_ready(),
            false,
            false,
        ),
        // Cases that follow from the table.
        (
            "Divided without replicas is Duplicated",
            Case { divided: true, workload: false, result: &[("m1", 0)], ..case() },
            all_ready(),
            false,
            true,
        ),
        (
            "minGroups unset is 1",
            Case { affinity: m12, spread: vec![spread(ByCluster, 0, 0)], ..case() },
            all_ready(),
            true,
            true,
        ),
        ("Duplicated without constraint, one cluster outside the result", Case { ..case() }, all_ready(), false, true),
        (
            "every constraint must hold",
            Case { spread: vec![spread(Region, 3, 0), spread(ByCluster, 5, 0)], ..case() },
            all_ready(),
            false,
            false,
        ),
    ] {
        let binding = binding(&case);
        assert_eq!(passes(&binding, &clusters, Check::Strict), strict, "{name}, strict");
        assert_eq!(passes(&binding, &clusters, Check::Relaxed), relaxed, "{name}, relaxed");
        assert!(passes(&binding, &clusters, Check::Off), "{name}, off");
    }
}

#[test]
fn clusters_that_are_no_candidates() {
    type Change = fn(&mut Cluster);
    let opted_in = FailoverBehavior { application: None, cluster: Some(ClusterFailoverBehavior::default()) };
    let rows: [(&str, Change, bool, bool); 9] = [
        ("a ready cluster", |_| {}, true, true),
        ("being deleted", |c| c.metadata.deletion_timestamp = Some(ironclad_api::Time(at(0))), false, false),
        ("not ready", |c| ready(c, "False", 1), false, false),
        ("unknown", |c| ready(c, "Unknown", 1), false, false),
        ("NoSchedule", |c| c.spec.taints = vec![taint("k", NO_SCHEDULE, None)], false, false),
        ("NoExecute", |c| c.spec.taints = vec![taint("k", NO_EXECUTE, None)], false, false),
        (
            "PreferNoExecute excludes the cluster only for bindings with cluster failover",
            |c| c.spec.taints = vec![taint("k", PREFER_NO_EXECUTE, None)],
            true,
            false,
        ),
        (
            "without the API",
            |c| c.status.get_or_insert_default().api_enablements = apis(&["batch/v1"]).into(),
            false,
            false,
        ),
        ("another region", |c| c.spec.region = "r9".into(), true, true),
    ];
    for (name, change, plain, opted_in_too) in rows {
        let clusters = fleet(|at, c| {
            if at == "m2" {
                change(c)
            }
        });
        let case = Case { affinity: &["m1", "m2"], divided: true, ..case() };
        let Binding::Namespaced(shared) = binding(&case) else { unreachable!() };
        assert_eq!(passes(&Binding::Namespaced(shared.clone()), &clusters, Check::Strict), plain, "{name}");
        let mut with = (*shared).clone();
        with.spec.failover = Some(opted_in.clone().into());
        assert_eq!(
            passes(&Binding::Namespaced(Arc::new(with)), &clusters, Check::Strict),
            opted_in_too,
            "{name}, opted in"
        );
    }
}

#[test]
fn affinity_groups_before_the_observed_one_are_skipped() {
    let case = Case { groups: &[("primary", &["m2"]), ("backup", &["m1"])], divided: true, ..case() };
    let Binding::Namespaced(shared) = binding(&case) else { unreachable!() };
    let mut observed = (*shared).clone();
    observed.status = Some(ResourceBindingStatus {
        scheduler_observed_affinity_name: "backup".into(),
        ..ResourceBindingStatus::default()
    });
    let clusters = fleet(|_, _| {});
    assert!(passes(&Binding::Namespaced(shared), &clusters, Check::Strict), "never scheduled: all groups");
    let why = check_target(&Binding::Namespaced(Arc::new(observed)), &clusters, Check::Strict);
    assert_eq!(why, Err(NoTarget::NoCandidate), "an earlier group is not used again");
}

#[test]
fn refused_clusters_are_named_with_what_is_against_each() {
    let clusters = fleet(|at, c| match at {
        "m3" => c.spec.taints = vec![taint("k", NO_SCHEDULE, None)],
        "m4" => c.status.get_or_insert_default().api_enablements = apis(&["batch/v1"]).into(),
        _ => {}
    });
    let case = Case { affinity: &["m1", "m2", "m3", "m4"], result: &[("m2", 1)], ..case() };
    let (scheduler, left_out) = (Options::default(), BTreeSet::from([ClusterName::from("m2")]));
    let snapshot = Snapshot { clusters: &clusters, scheduler: &scheduler, peers: None, now: at(0) };
    let refused = refusals(&binding(&case), &left_out, &snapshot);
    let lines: Vec<String> = refused.iter().map(|(cluster, why)| format!("{cluster} {why}")).collect();
    assert_eq!(
        lines,
        ["m1 is not ready", "m3 had untolerated taint {k:NoSchedule}", "m4 did not have the API resource"],
        "m5, which its affinity does not choose, is not named"
    );
}
