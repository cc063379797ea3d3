//! Plans of small fleets, row by row; and that every plan keeps the rate and loses nobody.

use std::{sync::Arc, time::Duration};

use ironclad_api::Taint;
use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::{ClusterName, World, gates::Gates};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Change, FailoverPlan, MoveStatus, Options, Script, Settings, plan_failover, testkit::nodes_of};

const S: fn(u64) -> Duration = Duration::from_secs;
const START: i64 = 1_790_000_000;

fn start() -> Timestamp {
    Timestamp::from_second(START).unwrap()
}

/// A fleet of so many ready clusters.
fn fleet(clusters: usize) -> World {
    let mut world = World::default();
    for n in 1..=clusters {
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
            "metadata": {"name": format!("m{n}"), "uid": format!("m{n}"), "generation": 1,
                "finalizers": ["karmada.io/cluster-controller"]},
            "spec": {"syncMode": "Push"},
            "status": {
                "resourceSummary": {"allocatable": {"cpu": "100", "memory": "100Gi", "pods": "1000"}},
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        });
        world.insert_cluster(serde_json::from_value(cluster).unwrap());
    }
    world
}

/// A workload with this placement, failover and result.
fn bind(world: &mut World, name: &str, placement: &Value, failover: Value, on: &[(&str, i32)]) {
    let clusters: Vec<Value> = on.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
    let divided = placement["replicaScheduling"]["replicaSchedulingType"] == "Divided";
    let replicas: i32 =
        if divided { on.iter().map(|(_, n)| n).sum() } else { on.iter().map(|(_, n)| *n).max().unwrap_or(1) };
    let reports: Vec<Value> = on
        .iter()
        .map(|(name, n)| json!({"clusterName": name, "applied": true, "health": "Healthy", "status": {"readyReplicas": n}}))
        .collect();
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "p"},
            "annotations": {"policy.karmada.io/applied-placement": placement.to_string()}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name, "uid": name},
            "replicas": replicas, "replicaRequirements": {}, "clusters": clusters, "placement": placement,
            "failover": failover,
        },
        "status": {
            "schedulerObservedGeneration": 1, "aggregatedStatus": reports,
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    });
    world.insert_binding(serde_json::from_value(binding).unwrap());
}

/// Whatever is not Ready for so long is tainted.
fn policy(world: &mut World, effect: &str, add: i64, remove: i64) {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy",
        "metadata": {"name": "failing", "uid": "failing", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "targetCluster": {},
            "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}],
            "taintsToAdd": [{"key": "failing", "effect": effect, "addOnMatchSeconds": add, "removeOnMismatchSeconds": remove}],
        },
    });
    world.insert_taint_policy(serde_json::from_value(policy).unwrap());
}

fn one_copy(names: &[&str]) -> Value {
    json!({"clusterAffinity": {"clusterNames": names},
           "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]})
}

fn divided() -> Value {
    json!({"clusterAffinity": {},
           "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}})
}

fn lost(names: &[&str], back: Option<u64>) -> Script {
    let names: Vec<ClusterName> = names.iter().map(|name| ClusterName::from(*name)).collect();
    Script::cluster_loss(&names, back.map(S))
}

fn tainted(name: &str, effect: &str, back: Option<u64>) -> Script {
    let taint = Taint { key: "k".into(), value: None, effect: effect.into(), time_added: None };
    Script::taint(&name.into(), &taint, back.map(S))
}

fn edit(world: &mut World, name: &str, change: impl FnOnce(&mut Value)) {
    let mut cluster = json!(*world.clusters[&ClusterName::from(name)]);
    change(&mut cluster);
    world.insert_cluster(serde_json::from_value(cluster).unwrap());
}

fn rebind(world: &mut World, name: &str, change: impl FnOnce(&mut Value)) {
    let found = world.bindings.values().find(|binding| binding.metadata.name.as_deref() == Some(name)).unwrap();
    let mut binding = json!(**found);
    change(&mut binding);
    world.insert_binding(serde_json::from_value(binding).unwrap());
}

fn statuses(found: &FailoverPlan) -> Vec<(String, MoveStatus)> {
    found.moves.iter().map(|one| (one.binding.name.to_string(), one.status)).collect()
}

#[test]
fn copies_that_can_not_start_are_no_moves() {
    let replicas = |cpu: &str, replicas: i32, extra: Value| {
        let mut world = fleet(2);
        for cluster in world.clusters.values_mut() {
            let cluster = Arc::make_mut(cluster);
            let summary = json!({"allocatable": {"cpu": "4", "memory": "100Gi", "pods": "1000"}});
            let status = cluster.status.get_or_insert_default();
            status.resource_summary = Some(serde_json::from_value(summary).unwrap());
        }
        policy(&mut world, "NoExecute", 300, 180);
        bind(&mut world, "web", &one_copy(&["m1", "m2"]), Value::Null, &[("m1", replicas)]);
        let key = world.bindings.keys().next().unwrap().clone();
        let mut binding = json!(*world.bindings[&key]);
        binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": cpu}});
        if !extra.is_null() {
            binding["spec"]["suspension"] = extra;
        }
        world.insert_binding(serde_json::from_value(binding).unwrap());
        let mut options = Options::default();
        options.flags.eviction.pre_scheduling_check = Check::Off;
        let found = plan_failover(&world, &lost(&["m1"], None), &options, start());
        let one = found.moves.first().unwrap();
        (one.status, one.because.clone(), one.cleared)
    };
    for (name, cpu, n, suspension, want) in [
        ("it fits", "2", 2, Value::Null, None),
        ("larger than the cluster", "6", 1, Value::Null, Some("1 replica to start in m2, and only 0 would fit")),
        ("one too many", "1500m", 3, Value::Null, Some("3 replicas to start in m2, and only 2 would fit")),
        ("not dispatched", "1", 1, json!({"dispatching": true}), Some("dispatching to m2 is suspended")),
    ] {
        let (status, because, cleared) = replicas(cpu, n, suspension);
        let status_wanted = if want.is_some() { MoveStatus::NotRunning } else { MoveStatus::Moved };
        assert_eq!((status, because.as_deref(), cleared.is_some()), (status_wanted, want, want.is_none()), "{name}");
    }
}

#[test]
fn replicas_that_may_not_fit_on_the_nodes_are_named() {
    let models = json!([
        {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "4"}]},
        {"grade": 1, "ranges": [{"name": "cpu", "min": "4", "max": "8"}]},
        {"grade": 2, "ranges": [{"name": "cpu", "min": "8", "max": "64"}]},
    ]);
    for (replicas, want) in [
        (3, None),
        (4, Some("of 4 replicas to start in m2, only 3 certainly fit on its nodes")),
        (5, Some("5 replicas to start in m2, and only 4 would fit")),
    ] {
        let mut world = fleet(2);
        for cluster in world.clusters.values_mut() {
            let cluster = Arc::make_mut(cluster);
            cluster.spec.resource_models = serde_json::from_value(models.clone()).unwrap();
            // Of 16 CPUs on two nodes, 3 are used on one of them.
            let summary = json!({"allocatable": {"cpu": "16", "pods": "1000"}, "allocated": {"cpu": "3"},
                "allocatableModelings": [{"grade": 0, "count": 0}, {"grade": 1, "count": 1}, {"grade": 2, "count": 1}]});
            cluster.status.get_or_insert_default().resource_summary = Some(serde_json::from_value(summary).unwrap());
        }
        bind(&mut world, "web", &one_copy(&["m1", "m2"]), Value::Null, &[("m1", replicas)]);
        rebind(&mut world, "web", |binding| {
            binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "3"}});
        });
        let mut options = Options::default();
        options.flags.eviction.pre_scheduling_check = Check::Off;
        let found = plan_failover(&world, &tainted("m1", "NoExecute", None), &options, start());
        let one = found.moves.first().unwrap();
        let status = if replicas < 5 { MoveStatus::Moved } else { MoveStatus::NotRunning };
        assert_eq!((one.status, one.because.as_deref()), (status, want), "{replicas}: {:?}", found.moves);
    }
}

/// The nodes of members count where the leader keeps accounts by node.
#[test]
fn nodes_of_members_that_were_asked_count() {
    let small: &[(&str, &[i64])] = &[("m2", &[2, 2, 2, 2]), ("m3", &[3, 3])];
    for (name, estimators, nodes, ends, unasked) in [
        ("nobody asks", false, &[][..], &[("m2", 2)][..], ""),
        ("both are to be asked", true, &[], &[("m2", 2)], "m2 m3"),
        ("only one node of m3 is large enough for each", true, small, &[("m3", 2)], ""),
    ] {
        let mut world = fleet(3);
        for cluster in world.clusters.values_mut() {
            let summary = json!({"allocatable": {"cpu": "8", "pods": "1000"}});
            let status = Arc::make_mut(cluster).status.get_or_insert_default();
            status.resource_summary = Some(serde_json::from_value(summary).unwrap());
        }
        bind(&mut world, "web", &divided(), Value::Null, &[("m1", 2)]);
        rebind(&mut world, "web", |binding| {
            binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "3"}});
        });
        let nodes = nodes.iter().map(|(cluster, cores)| ((*cluster).into(), nodes_of(cores))).collect();
        let options = Options { estimators, nodes, ..Options::default() };
        let found = plan_failover(&world, &tainted("m1", "NoExecute", None), &options, start());
        let one = found.moves.first().unwrap();
        let want = ends.iter().map(|(cluster, replicas)| ((*cluster).to_owned(), *replicas)).collect();
        assert_eq!((&one.ends, one.status, &one.because), (&want, MoveStatus::Moved, &None), "{name}");
        let still: Vec<String> = found.unasked.iter().map(ToString::to_string).collect();
        assert_eq!(still.join(" "), unasked, "{name}");
    }
}

#[test]
fn a_pod_larger_than_each_node_does_not_start() {
    let mut world = fleet(2);
    for cluster in world.clusters.values_mut() {
        let cluster = Arc::make_mut(cluster);
        cluster.spec.resource_models = serde_json::from_value(json!([
            {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
            {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "64"}]},
        ]))
        .unwrap();
        let summary = json!({"allocatable": {"cpu": "100", "pods": "1000"},
            "allocatableModelings": [{"grade": 0, "count": 50}, {"grade": 1, "count": 0}]});
        let status = cluster.status.get_or_insert_default();
        status.resource_summary = Some(serde_json::from_value(summary).unwrap());
    }
    policy(&mut world, "NoExecute", 300, 180);
    bind(&mut world, "web", &one_copy(&["m1", "m2"]), Value::Null, &[("m1", 2)]);
    let key = world.bindings.keys().next().unwrap().clone();
    let mut binding = json!(*world.bindings[&key]);
    binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "3"}});
    world.insert_binding(serde_json::from_value(binding).unwrap());
    let mut options = Options::default();
    options.flags.eviction.pre_scheduling_check = Check::Off;
    let found = plan_failover(&world, &lost(&["m1"], None), &options, start());
    let because = found.moves.first().and_then(|one| one.because.as_deref());
    // One copy in one cluster does not depend on capacity: the scheduler places it, and nothing starts.
    assert_eq!(because, Some("2 replicas to start in m2, and only 0 would fit"), "{:?}", found.moves);
}

#[test]
fn pods_that_wait_for_a_node_take_nothing_from_what_may_start() {
    for (taken, want) in [("allocating", MoveStatus::Moved), ("allocated", MoveStatus::NotRunning)] {
        let mut world = fleet(2);
        let summary = json!({"allocatable": {"cpu": "4", "pods": "1000"}, taken: {"cpu": "3"}});
        edit(&mut world, "m2", |cluster| cluster["status"]["resourceSummary"] = summary.clone());
        bind(&mut world, "web", &one_copy(&["m1", "m2"]), Value::Null, &[("m1", 2)]);
        rebind(&mut world, "web", |binding| {
            binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "2"}});
        });
        let mut options = Options::default();
        options.flags.eviction.pre_scheduling_check = Check::Off;
        let found = plan_failover(&world, &tainted("m1", "NoExecute", None), &options, start());
        assert_eq!(statuses(&found), [("web".to_owned(), want)], "{taken}: {:?}", found.moves);
    }
}

#[test]
fn a_workload_that_is_not_healthy_where_it_has_room_is_not_expected_to_be_healthy_elsewhere() {
    let report = |health: &str, since: i64| {
        let since = Timestamp::from_second(START - since).unwrap().to_string();
        json!([{"clusterName": "m1", "applied": true, "health": health, "healthTransitionTime": since}])
    };
    let room = json!({"allocatable": {"cpu": "100", "pods": "1000"}});
    let full = json!({"allocatable": {"cpu": "100", "pods": "1000"}, "allocated": {"cpu": "100"},
        "allocating": {"cpu": "2", "pods": "1"}});
    let own = json!({"allocatable": {"cpu": "2", "pods": "1000"}, "allocated": {"cpu": "2"}});
    for (name, reports, summary, want) in [
        ("healthy", report("Healthy", 3_600), &room, MoveStatus::Moved),
        ("not healthy for an hour", report("Unhealthy", 3_600), &room, MoveStatus::NotRunning),
        ("not healthy, and it had no time to start", report("Unhealthy", 5), &room, MoveStatus::Moved),
        ("not healthy, since its cluster is full", report("Unhealthy", 3_600), &full, MoveStatus::Moved),
        ("not healthy, and its own pods fill the cluster", report("Unhealthy", 3_600), &own, MoveStatus::NotRunning),
        ("unknown", report("Unknown", 3_600), &room, MoveStatus::Moved),
        ("no report", json!([]), &room, MoveStatus::Moved),
    ] {
        let mut world = fleet(2);
        edit(&mut world, "m1", |cluster| cluster["status"]["resourceSummary"] = summary.clone());
        bind(&mut world, "web", &one_copy(&["m1", "m2"]), Value::Null, &[("m1", 1)]);
        rebind(&mut world, "web", |binding| {
            binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "2"}});
            binding["status"]["aggregatedStatus"] = reports.clone();
        });
        let found = plan_failover(&world, &tainted("m1", "NoExecute", None), &Options::default(), start());
        assert_eq!(statuses(&found), [("web".to_owned(), want)], "{name}: {:?}", found.moves);
    }
}

/// Capacity is the same everywhere, so that who counts what nobody reports goes to m3.
#[test]
fn replicas_that_no_cluster_reports_are_assumed_for_five_minutes() {
    let now = tainted("m1", "NoExecute", None);
    for (name, scheduled, script, want) in [
        ("scheduled just now", 10, &now, "m3"),
        ("scheduled an hour ago", 3_600, &now, "m2"),
        ("they expire before the eviction", 10, &lost(&["m1"], None), "m2"),
    ] {
        let mut world = fleet(3);
        policy(&mut world, "NoExecute", 300, 180);
        bind(&mut world, "db", &one_copy(&["m2"]), Value::Null, &[("m2", 50)]);
        bind(&mut world, "web", &one_copy(&["m1", "m2", "m3"]), Value::Null, &[("m1", 1)]);
        for workload in ["db", "web"] {
            rebind(&mut world, workload, |binding| {
                binding["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "1"}});
            });
        }
        rebind(&mut world, "db", |binding| {
            binding["status"]["aggregatedStatus"] = json!([]);
            binding["status"]["lastScheduledTime"] =
                Timestamp::from_second(START - scheduled).unwrap().to_string().into();
        });
        let found = plan_failover(&world, script, &Options::default(), start());
        let ends: Vec<&str> = found.moves[0].ends.keys().map(String::as_str).collect();
        assert_eq!(ends, [want], "{name}");
    }
}

#[test]
fn who_waits_for_a_member_of_its_group_follows_it() {
    let mut world = fleet(3);
    bind(&mut world, "a", &json!({"clusterAffinity": {}}), Value::Null, &[("m1", 1)]);
    bind(&mut world, "b", &one_copy(&["m1", "m2", "m3"]), Value::Null, &[("m1", 1)]);
    for workload in ["a", "b"] {
        rebind(&mut world, workload, |binding| {
            binding["spec"]["workloadAffinityGroups"] = json!({"affinityGroup": "tier=gold"});
        });
    }
    let mut options = Options::default();
    options.scheduling.workload_affinity = true;
    options.flags.eviction.pre_scheduling_check = Check::Off;
    let found = plan_failover(&world, &tainted("m1", "NoExecute", None), &options, start());
    let ends: Vec<Vec<&String>> = found.moves.iter().map(|one| one.ends.keys().collect()).collect();
    assert_eq!(ends, [["m2"], ["m2"]], "{:?}", found.timeline);
}

#[test]
fn groups_of_workloads_decide_where_who_leaves_goes() {
    let mut world = fleet(3);
    policy(&mut world, "NoExecute", 300, 180);
    bind(&mut world, "db", &one_copy(&["m2"]), Value::Null, &[("m2", 1)]);
    bind(&mut world, "web", &one_copy(&["m1", "m2", "m3"]), Value::Null, &[("m1", 1)]);
    for key in world.bindings.keys().cloned().collect::<Vec<_>>() {
        let mut binding = json!(*world.bindings[&key]);
        binding["spec"]["workloadAffinityGroups"] = json!({"antiAffinityGroup": "tier=gold"});
        world.insert_binding(serde_json::from_value(binding).unwrap());
    }
    let ends = |gate: bool| {
        let mut options = Options::default();
        options.scheduling.workload_affinity = gate;
        let found = plan_failover(&world, &lost(&["m1"], None), &options, start());
        found.moves[0].ends.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(ends(true), ["m3"], "db is in m2");
    assert_eq!(ends(false), ["m2"], "the gate is off");
}

#[test]
fn a_cluster_that_stays_lost() {
    let mut world = fleet(3);
    policy(&mut world, "NoExecute", 300, 180);
    bind(&mut world, "web", &one_copy(&["m1", "m2"]), Value::Null, &[("m1", 2)]);
    bind(&mut world, "pinned", &one_copy(&["m1"]), Value::Null, &[("m1", 2)]);
    bind(&mut world, "elsewhere", &one_copy(&["m2"]), Value::Null, &[("m2", 2)]);
    let found = plan_failover(&world, &lost(&["m1"], None), &Options::default(), start());
    assert_eq!(statuses(&found), [("web".to_owned(), MoveStatus::Moved)], "{found:#?}");
    let one = &found.moves[0];
    // Noticed after 30 s of failed probes, tainted 300 s later; the copy is healthy 10 s after it was placed.
    assert_eq!((one.evicted, one.placed, one.cleared), (S(330), Some(S(330)), Some(S(340))), "{found:#?}");
    assert_eq!(one.ends, [("m2".to_owned(), 2)].into());
    assert_eq!(found.waits.len(), 1);
    assert_eq!((&*found.waits[0].binding.name, &*found.waits[0].state), ("pinned", "Parked"));
    assert_eq!((found.peak_rate, found.peak_per_minute, found.cut_off), (0.5, 1, false));
}

#[test]
fn rows() {
    let opted_in = json!({"cluster": {"purgeMode": "Gracefully", "tolerationSeconds": 60}});
    let free = one_copy(&["m1", "m2", "m3"]);
    let off = || Options { gate: false, ..Options::default() };
    let unchecked = || {
        let mut options = Options::default();
        options.flags.eviction.pre_scheduling_check = Check::Off;
        options
    };
    let everyday = Options::default;
    type Row<'a> = (&'a str, &'a Value, Value, Script, Options, &'a [MoveStatus]);
    let rows: [Row<'_>; 9] = [
        ("gate off (B1)", &free, Value::Null, tainted("m1", "NoExecute", None), off(), &[]),
        ("NoSchedule moves nothing", &free, Value::Null, tainted("m1", "NoSchedule", None), everyday(), &[]),
        ("not opted in (B14)", &free, Value::Null, tainted("m1", "PreferNoExecute", None), everyday(), &[]),
        (
            "opted in (B15)",
            &free,
            opted_in.clone(),
            tainted("m1", "PreferNoExecute", None),
            everyday(),
            &[MoveStatus::Moved],
        ),
        ("in time (B23)", &free, opted_in.clone(), tainted("m1", "PreferNoExecute", Some(59)), everyday(), &[]),
        (
            "too late (B24)",
            &free,
            opted_in,
            tainted("m1", "PreferNoExecute", Some(61)),
            everyday(),
            &[MoveStatus::Moved],
        ),
        ("at once (B20)", &free, Value::Null, tainted("m1", "NoExecute", None), everyday(), &[MoveStatus::Moved]),
        (
            "nothing takes it, unchecked (B31)",
            &one_copy(&["m1"]),
            Value::Null,
            tainted("m1", "NoExecute", None),
            unchecked(),
            &[MoveStatus::Unschedulable],
        ),
        (
            "and its cluster recovers (B32)",
            &one_copy(&["m1"]),
            Value::Null,
            tainted("m1", "NoExecute", Some(120)),
            unchecked(),
            &[MoveStatus::Returned],
        ),
    ];
    for (name, placement, failover, script, options, want) in rows {
        let mut world = fleet(3);
        bind(&mut world, "w", placement, failover, &[("m1", 1)]);
        let found = plan_failover(&world, &script, &options, start());
        let got: Vec<MoveStatus> = found.moves.iter().map(|one| one.status).collect();
        assert_eq!(got, want, "{name}: {found:#?}");
    }
}

#[test]
fn a_plan_without_moves_says_why() {
    let free = one_copy(&["m1", "m2", "m3"]);
    let tolerates =
        json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}, "clusterTolerations": [{"operator": "Exists"}]});
    let opted_in = json!({"cluster": {"purgeMode": "Gracefully", "tolerationSeconds": 60}});
    let prefer = |back| tainted("m1", "PreferNoExecute", back);
    let off = Options { gate: false, ..Options::default() };
    let on = Options::default();
    type Row<'a> = (&'a Value, Value, bool, Script, &'a Options, Option<&'a str>);
    let rows: [Row<'_>; 8] = [
        (&free, Value::Null, true, tainted("m1", "NoExecute", None), &off, Some("feature gate Failover is off")),
        (&free, Value::Null, false, lost(&["m1"], None), &on, Some("there is no ClusterTaintPolicy")),
        (&free, Value::Null, true, lost(&["m1"], Some(120)), &on, Some("or not so soon")),
        (&free, Value::Null, true, tainted("m3", "NoExecute", None), &on, Some("no workload is on m3")),
        (&free, Value::Null, true, prefer(None), &on, Some("spec.failover.cluster")),
        (&free, opted_in, true, prefer(Some(59)), &on, None),
        (&tolerates, Value::Null, true, lost(&["m1"], None), &on, Some("every workload on m1 tolerates")),
        (&free, Value::Null, true, lost(&["m1"], None), &on, None),
    ];
    for (number, (placement, failover, with_policy, script, options, want)) in rows.into_iter().enumerate() {
        let mut world = fleet(3);
        if with_policy {
            policy(&mut world, "NoExecute", 300, 180);
        }
        bind(&mut world, "w", placement, failover, &[("m1", 1)]);
        let found = plan_failover(&world, &script, options, start());
        let got = found.quiet_because.as_deref();
        assert_eq!(got.is_none(), want.is_none(), "row {number}: {found:#?}");
        assert!(got.unwrap_or_default().contains(want.unwrap_or_default()), "row {number}: {got:?}");
    }
}

#[test]
fn a_divided_workload_gets_its_replicas_back() {
    let mut world = fleet(3);
    bind(&mut world, "w", &divided(), Value::Null, &[("m1", 2), ("m2", 1)]);
    let found = plan_failover(&world, &tainted("m1", "NoExecute", None), &Options::default(), start());
    assert_eq!(statuses(&found), [("w".to_owned(), MoveStatus::Moved)], "{found:#?}");
    assert_eq!(found.moves[0].ends.values().sum::<i32>(), 3);
    assert!(!found.moves[0].ends.contains_key("m1"));
}

#[test]
fn recovery_abandons_what_waits() {
    // B47: 100 bindings are queued, and the cluster is well again after 60 s.
    let mut world = fleet(3);
    for n in 0..100 {
        bind(&mut world, &format!("w{n:03}"), &divided(), Value::Null, &[("m1", 1)]);
    }
    let found = plan_failover(&world, &tainted("m1", "NoExecute", Some(60)), &Options::default(), start());
    assert_eq!(found.moves.len(), 30, "one at once and one every two seconds, until just before 60 s");
    assert_eq!(found.abandoned, 70);
    assert_eq!(found.waits.iter().filter(|one| one.state == "Abandoned").count(), 70);
}

#[test]
fn too_many_clusters_at_once_hold_everything() {
    // B42: two of three.
    let mut world = fleet(3);
    for n in 1..=2 {
        bind(&mut world, &format!("w{n}"), &divided(), Value::Null, &[(&format!("m{n}"), 1)]);
    }
    let mut script = tainted("m1", "NoExecute", None);
    script.0.extend(tainted("m2", "NoExecute", Some(600)).0);
    let found = plan_failover(&world, &script, &Options::default(), start());
    assert_eq!(found.moves.len(), 1, "{found:#?}");
    assert_eq!(found.moves[0].evicted, S(600), "when the second one recovers (B43)");
    let halted = Script(script.0.into_iter().filter(|(at, _)| at.is_zero()).collect());
    let found = plan_failover(&world, &halted, &Options::default(), start());
    assert!(found.is_quiet() && found.waits.len() == 2, "{found:#?}");
}

#[test]
fn a_large_fleet_goes_on_slowly() {
    // B44, B45: one every ten seconds, or every two.
    for (lost, interval) in [(7, 10), (6, 2)] {
        let mut world = fleet(12);
        for n in 1..=lost {
            bind(&mut world, &format!("w{n}"), &divided(), Value::Null, &[(&format!("m{n}"), 1)]);
        }
        let mut script = Script::default();
        for n in 1..=lost {
            script.0.extend(tainted(&format!("m{n}"), "NoExecute", None).0);
        }
        let found = plan_failover(&world, &script, &Options::default(), start());
        let times: Vec<u64> = found.moves.iter().map(|one| one.evicted.as_secs()).collect();
        assert_eq!(times.len(), lost);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == interval), "{times:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Every plan ends; divided workloads keep their replicas; the rate is kept; a second run is the same; nothing of
    /// the world that was given is changed.
    #[test]
    fn plans_are_sound(
        clusters in 2usize..8,
        places in proptest::collection::vec((0usize..8, 1i32..5, any::<bool>()), 1..12),
        happenings in proptest::collection::vec((0u64..900, 0usize..8, 0usize..4), 1..8),
        rate in 1u32..20,
    ) {
        let mut world = fleet(clusters);
        policy(&mut world, "NoExecute", 60, 30);
        for (n, (place, replicas, divides)) in places.iter().enumerate() {
            let placement = if *divides { divided() } else { one_copy(&["m1", "m2", "m3", "m4"]) };
            let on = format!("m{}", place % clusters.min(4) + 1);
            bind(&mut world, &format!("w{n}"), &placement, json!({"cluster": {}}), &[(&on, *replicas)]);
        }
        let taint = |effect: &str| Taint { key: "k".into(), value: None, effect: effect.into(), time_added: None };
        let script = Script(happenings.iter().map(|(at, cluster, what)| {
            let name = ClusterName::from(format!("m{}", cluster % clusters + 1).as_str());
            let change = match what {
                0 => Change::Lost(name),
                1 => Change::Restored(name),
                2 => Change::Taint(name, taint("PreferNoExecute")),
                _ => Change::Untaint(name, taint("PreferNoExecute")),
            };
            (S(*at), change)
        }).collect());
        let mut options = Options::default();
        options.flags.eviction.resource_eviction_rate = f64::from(rate) / 10.0;
        let before: Vec<_> = world.bindings.values().map(Arc::clone).collect();
        let found = plan_failover(&world, &script, &options, start());
        prop_assert!(!found.cut_off, "{:#?}", found.timeline.last());
        let interval = Duration::from_secs_f64(10.0 / f64::from(rate));
        let times: Vec<Duration> = found.moves.iter().map(|one| one.evicted).collect();
        prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] + Duration::from_millis(1) >= interval), "{times:?}");
        for one in found.moves.iter().filter(|one| one.status == MoveStatus::Moved) {
            prop_assert!(!one.ends.is_empty());
            let (_, replicas, _) = places[one.binding.name[1..].parse::<usize>().unwrap()];
            prop_assert_eq!(one.ends.values().sum::<i32>(), replicas);
        }
        prop_assert_eq!(&found, &plan_failover(&world, &script, &options, start()));
        prop_assert!(before.iter().zip(world.bindings.values()).all(|(a, b)| Arc::ptr_eq(a, b)));
    }
}

/// Workloads whose state can't be handed over stay, as they do in the leader with the gate.
#[test]
fn what_has_no_readable_state_is_not_promised_to_move() {
    let mut world = fleet(2);
    let state = |path: &str| json!({"cluster": {"purgeMode": "Directly", "statePreservation": {"rules": [{"aliasLabelName": "n", "jsonPath": path}]}}});
    bind(&mut world, "read", &one_copy(&[]), state("{.readyReplicas}"), &[("m1", 1)]);
    bind(&mut world, "unread", &one_copy(&[]), state("{.none}"), &[("m1", 1)]);
    let found = |gates: &str| {
        let settings = Settings::new(Gates::parse(gates).unwrap().0, &Default::default());
        let flags = ironclad_failover::Flags::default().under(&settings.gates, &settings.scheduler);
        plan_failover(&world, &tainted("m1", "NoExecute", None), &Options { flags, ..Options::default() }, start())
    };
    let moved = |plan: &FailoverPlan| plan.moves.iter().map(|one| one.binding.name.to_string()).collect::<Vec<_>>();
    let on = found("StatefulFailoverInjection=true");
    assert_eq!((moved(&on), on.cut_off), (vec!["read".to_owned()], false));
    let waits: Vec<_> = on.waits.iter().map(|one| (&*one.binding.name, &*one.state)).collect();
    assert_eq!(waits, [("unread", "Retrying")]);
    assert!(on.waits[0].because.contains("the state to preserve can't be read"), "{}", on.waits[0].because);
    assert_eq!(moved(&found("")).len(), 2, "without the gate no state is handed over");
}
