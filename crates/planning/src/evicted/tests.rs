//! Explanations of evictions, and their text.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    Taint, Time,
    cluster::{APIEnablement, APIResource, Cluster, ClusterSpec},
    conditions::{self, cluster::READY},
    eviction::PRODUCER_TAINT_MANAGER,
    policy::{Placement, PurgeMode, ReplicaSchedulingStrategy, ReplicaSchedulingType, SpreadByField, SpreadConstraint},
    taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
    work::{
        GracefulEvictionTask, ObjectReference, ResourceBinding, ResourceBindingSpec, TargetCluster,
        WorkloadAffinityGroups,
    },
};
use ironclad_failover::{
    Flags,
    flags::eviction::Mode,
    taint_manager::{Row, Waiting},
};
use ironclad_fleet::{Binding, ClusterName};
use ironclad_scheduling::estimator::{Index, Node};
use jiff::Timestamp;

use super::*;
use crate::Settings;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cluster(name: &str, status: &str, taint: Option<&str>) -> (ClusterName, Arc<Cluster>) {
    let mut cluster = Cluster::new(name, ClusterSpec::default());
    let of = |effect: &str| Taint {
        key: "k".into(),
        effect: effect.to_owned(),
        value: None,
        time_added: Some(Time(at(1_000))),
    };
    cluster.spec.taints = taint.into_iter().map(of).collect();
    let ready = conditions::condition(READY, status, "Because", "");
    let resources = vec![APIResource { name: "deployments".into(), kind: "Deployment".into() }];
    let apis = vec![APIEnablement { group_version: "apps/v1".into(), resources }];
    let state = cluster.status.get_or_insert_default();
    (state.conditions, state.api_enablements) = (vec![ready], apis.into());
    state.resource_summary = serde_json::from_value(serde_json::json!({"allocatable": {"pods": "110"}})).unwrap();
    (name.into(), Arc::new(cluster))
}

fn binding() -> ResourceBinding {
    let spread = SpreadConstraint {
        spread_by_field: Some(SpreadByField::Cluster),
        min_groups: 1,
        ..SpreadConstraint::default()
    };
    let target = TargetCluster { name: "member1".into(), replicas: 2, components: vec![] };
    let resource = ObjectReference {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: "shop".into(),
        name: "web".into(),
        ..ObjectReference::default()
    };
    let mut binding = ResourceBinding::new(
        "web-deployment",
        ResourceBindingSpec {
            resource,
            replicas: 2,
            clusters: vec![target],
            placement: Some(Placement { spread_constraints: vec![spread], ..Placement::default() }.into()),
            ..ResourceBindingSpec::default()
        },
    );
    binding.metadata.namespace = Some("shop".into());
    binding.metadata.labels =
        Some([(ironclad_api::labels::PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "id".to_owned())].into());
    binding
}

fn world(effect: &str, binding: ResourceBinding) -> Objects {
    let clusters =
        [cluster("member1", "False", Some(effect)), cluster("member2", "True", None), cluster("member3", "True", None)];
    Objects {
        clusters: clusters.into_iter().collect(),
        policies: vec![],
        bindings: vec![Binding::from(Arc::new(binding))],
    }
}

/// Answers about the first binding, with what is known of the capacity of the fleet.
fn answers_with(seen: &Objects, fleet: &Fleet, queue: &[Row], judged: &Judged) -> Vec<Answer> {
    let mut decisions = Decisions::of(seen, fleet, Flags::default(), at(1_010));
    decisions.now = at(1_000);
    explain(&seen.bindings[0], &decisions, queue, judged, true)
}

fn answers(seen: &Objects, queue: &[Row]) -> Vec<Answer> {
    answers_with(seen, &seen.fleet(&Settings::default()), queue, &Judged::Unknown)
}

fn known(mode: Mode) -> Judged {
    Judged::Known { since: [("member1".into(), at(1_000))].into(), mode }
}

#[test]
fn bindings_are_told_as_the_leader_judged_them() {
    let leaves = || world(NO_EXECUTE, binding());
    let stays = || world(PREFER_NO_EXECUTE, binding());
    let now = ironclad_failover::Now { wall: at(1_010), mono: std::time::Duration::ZERO };
    let row = leaves().decisions(Flags::default(), at(1_010)).rows(now).remove(0);
    let off = || Judged::Off("no evictions are decided: feature gate Failover is off".into());
    let limit = Row { state: Waiting::Held, because: Some("--max-evictions-per-episode".into()), ..row.clone() };
    for (name, seen, row, judged, state, want) in [
        ("queued", leaves(), Some(&row), known(Mode::Enforce), "Queued", "because  k:NoExecute"),
        (
            "tolerated since the fault began: it leaves all the same",
            stays(),
            Some(&row),
            known(Mode::Enforce),
            "Queued",
            "judged   by its settings when the fault began; by those of now it would stay (",
        ),
        (
            "its toleration was removed since the fault began: it stays",
            leaves(),
            None,
            known(Mode::Enforce),
            "Stays",
            "because  the leader judged it by its settings of 1970-01-01T00:16:40Z, when the fault began",
        ),
        ("observed", leaves(), None, known(Mode::Observe), "Stays", "event WouldEvict reports what would leave"),
        ("the gate is off", leaves(), None, off(), "Stays", "because  no evictions are decided: feature gate"),
        ("the gate is off, tolerated", stays(), None, off(), "Stays", "because  no evictions are decided"),
        (
            "a fault that the leader has not seen yet",
            leaves(),
            None,
            Judged::Known { since: BTreeMap::new(), mode: Mode::Enforce },
            "Leaves",
            "because  k:NoExecute",
        ),
        ("no leader reports", leaves(), None, Judged::Unknown, "Leaves", "because  k:NoExecute"),
        ("held", leaves(), Some(&limit), known(Mode::Enforce), "Held", "try      remove the evicting taints of"),
    ] {
        let queue: Vec<Row> = row.cloned().into_iter().collect();
        let answers = answers_with(&seen, &seen.fleet(&Settings::default()), &queue, &judged);
        let text = answers[0].text(at(1_012));
        assert_eq!((answers.len(), answers[0].state.as_str()), (1, state), "{name}: {text}");
        assert!(text.contains(want), "{name}: {text}");
    }
}

#[test]
fn room_of_targets_is_that_of_the_account_that_decides() {
    let mut large = binding();
    large.spec.replica_requirements =
        serde_json::from_value(serde_json::json!({"resourceRequest": {"cpu": "3"}})).unwrap();
    let mut seen = world(NO_EXECUTE, large);
    let member = Arc::make_mut(seen.clusters.get_mut(&ClusterName::from("member2")).unwrap());
    member.spec.resource_models = serde_json::from_value(serde_json::json!([
        {"grade": 0, "ranges": [{"name": "cpu", "min": "0", "max": "2"}]},
        {"grade": 1, "ranges": [{"name": "cpu", "min": "2", "max": "64"}]},
    ]))
    .unwrap();
    member.status.as_mut().unwrap().resource_summary = serde_json::from_value(serde_json::json!({
        "allocatable": {"cpu": "8", "pods": "40"},
        "allocatableModelings": [{"grade": 0, "count": 4}, {"grade": 1, "count": 0}],
    }))
    .unwrap();
    let nodes = |cores: &[i64]| {
        let mut index = Index::default();
        for (n, cores) in cores.iter().enumerate() {
            let allocatable = [("cpu".to_owned(), cores * 1_000), ("pods".to_owned(), 100)].into();
            index.node(&format!("n{n}"), Some(Node { allocatable, ..Node::default() }));
        }
        Arc::new(index)
    };
    let asking = Settings::default().with_estimators(true);
    let blank = seen.fleet(&asking);
    let listed = |cores: &[i64]| Fleet { nodes: [("member2".into(), nodes(cores))].into(), ..blank.clone() };
    let told = |fits| {
        let mut fleet = blank.clone();
        fleet.accounts.insert(seen.bindings[0].key(), [("member2".into(), fits)].into());
        fleet
    };
    let limited = |mut fleet: Fleet, fits| {
        fleet.answers.insert(seen.bindings[0].key(), [("member2".into(), fits)].into());
        fleet
    };
    for (name, fleet, want, unasked) in [
        ("no accounts by node: grades", seen.fleet(&Settings::default()), " (room for 0 of 2 replicas)", ""),
        ("not asked yet", blank.clone(), " (room for 0 of 2 replicas)", "member2 member3"),
        ("nodes take it that the grades refuse", listed(&[4, 4]), "", "member3"),
        ("one node takes it", listed(&[4, 2, 2]), " (room for 1 of 2 replicas)", "member3"),
        ("the sum would, and no node does", listed(&[2, 2, 2]), " (room for 0 of 2 replicas)", "member3"),
        ("the leader's account", told(1), " (room for 1 of 2 replicas)", "member3"),
        ("the leader's account has room", told(5), "", "member3"),
        ("an estimator over gRPC limits it", limited(told(5), Some(1)), " (room for 1 of 2 replicas)", "member3"),
        ("one without opinion does not", limited(told(5), None), "", "member3"),
    ] {
        let answer = answers_with(&seen, &fleet, &[], &Judged::Unknown).remove(0);
        let want = format!("member2{want}, member3 (room for 0 of 2 replicas)");
        assert_eq!(answer.target.as_deref(), Some(&*want), "{name}");
        let names: Vec<String> = answer.unasked.iter().map(ToString::to_string).collect();
        assert_eq!(names.join(" "), unasked, "{name}");
    }
}

#[test]
fn clusters_that_can_not_take_it_are_named_with_the_reason() {
    let mut seen = world(NO_EXECUTE, binding());
    for (name, cluster) in [cluster("member2", "False", None), cluster("member3", "True", Some("NoSchedule"))] {
        seen.clusters.insert(name, cluster);
    }
    let answer = answers(&seen, &[]).remove(0);
    let want = "none: no other cluster that the affinity chooses can take it (member2 is not ready; member3 had untolerated taint {k:NoSchedule})";
    assert_eq!(answer.target.as_deref(), Some(want));
}

#[test]
fn groups_of_workloads_are_asked() {
    let grouped = |name: &str, on: &str| {
        let mut grouped = binding();
        grouped.metadata.name = Some(name.to_owned());
        grouped.spec.clusters[0].name = on.to_owned();
        grouped.spec.workload_affinity_groups =
            Some(WorkloadAffinityGroups { anti_affinity_group: "db".into(), ..WorkloadAffinityGroups::default() });
        Binding::from(Arc::new(grouped))
    };
    let flags = || {
        let mut flags = Flags::default();
        flags.scheduler.workload_affinity = true;
        flags
    };
    for (name, other_on, want) in [
        ("the other one stays where it is", "member2", "member3"),
        ("the other one leaves the same cluster", "member1", "member2, member3"),
    ] {
        let mut seen = world(NO_EXECUTE, binding());
        seen.bindings = vec![grouped("one", "member1"), grouped("other", other_on)];
        let fleet = seen.fleet(&Settings::default());
        let decisions = Decisions::of(&seen, &fleet, flags(), at(1_010));
        let answers = explain(&seen.bindings[0], &decisions, &[], &Judged::Unknown, true);
        assert_eq!(answers[0].target.as_deref(), Some(want), "{name}");
    }
}

#[test]
fn evictions_are_explained() {
    let seen = world(NO_EXECUTE, binding());
    let evictions = seen.decisions(Flags::default(), at(1_010));
    let now = ironclad_failover::Now { wall: at(1_010), mono: std::time::Duration::ZERO };
    let mut rows = evictions.rows(now);
    rows[0].expected = Some(at(1_052));
    let text = answers(&seen, &rows)[0].text(at(1_012));
    assert_eq!(
        text,
        "shop/web-deployment (apps/v1 Deployment web) leaves member1
  because  k:NoExecute
  state    Queued, position 1, for 2s
  due      1970-01-01T00:16:40Z (now)
  expected 1970-01-01T00:17:32Z (in 40s)
  copy     Gracefully
  target   member2, member3
  cancel   member1 recovers and its taints are removed
  cancel   `ironclad failover pause` holds it
"
    );
    let alone = &answers(&seen, &[])[0];
    assert_eq!(
        (alone.state.as_str(), alone.place, alone.expected),
        ("Leaves", None, None),
        "position and time are known by the leader only"
    );
    let by_objects = seen.rows(Flags::default(), at(1_010));
    let rebuilt = &answers(&seen, &by_objects)[0];
    assert_eq!(
        (rebuilt.state.as_str(), rebuilt.place, rebuilt.expected, rebuilt.rebuilt),
        ("Queued", Some(1), Some(at(1_050)), true),
        "a new leader warms up for 40 s"
    );
    let text = rebuilt.text(at(1_012));
    assert!(text.contains("  state    Queued, position 1 (by the objects; the leader was not asked)\n"), "{text}");
}

#[test]
fn bindings_that_are_not_evicted_are_explained() {
    let stays = answers(&world(PREFER_NO_EXECUTE, binding()), &[]);
    assert_eq!(stays[0].state, "Stays");
    assert!(stays[0].text(at(0)).contains("has no failover.cluster"), "{}", stays[0].text(at(0)));
    let mut nowhere = binding();
    nowhere.spec.placement.as_mut().unwrap().spread_constraints[0].min_groups = 3;
    let answers = answers(&world(NO_EXECUTE, nowhere), &[]);
    assert_eq!(answers[0].target.as_deref(), Some("none: its spread constraint wants 3 groups by cluster, left: 2"));
}

/// The backup in use is tainted, and the cluster of the first group is well again.
#[test]
fn earlier_affinity_groups_and_the_way_back_to_them_are_named() {
    let mut in_backup = binding();
    let group = |name: &str, cluster: &str| {
        serde_json::from_value(serde_json::json!({"affinityName": name, "clusterNames": [cluster]})).unwrap()
    };
    let placement = in_backup.spec.placement.as_mut().unwrap();
    placement.cluster_affinities = vec![group("primary", "member2"), group("backup", "member1")];
    in_backup.status.get_or_insert_default().scheduler_observed_affinity_name = "backup".into();
    let seen = world(NO_EXECUTE, in_backup);
    let rule = "member2 is chosen only by affinity group primary, before the one in use (backup): nothing goes back to \
                earlier groups by itself; a WorkloadRebalancer starts with the first";
    let target = answers(&seen, &[])[0].target.clone().unwrap();
    assert_eq!(target, format!("none: no other cluster that the affinity chooses can take it ({rule})"));
}

#[test]
fn finished_evictions_are_explained() {
    let mut left = binding();
    left.spec.clusters.clear();
    left.spec.graceful_eviction_tasks = vec![GracefulEvictionTask {
        from_cluster: "member1".into(),
        reason: "TaintUntolerated".into(),
        message: "taints k:NoExecute".into(),
        producer: PRODUCER_TAINT_MANAGER.into(),
        ..GracefulEvictionTask::default()
    }];
    let text = answers(&world(NO_EXECUTE, left.clone()), &[])[0].text(at(0));
    assert!(text.starts_with("shop/web-deployment (apps/v1 Deployment web) has left member1\n  because  TaintUntolerated: taints k:NoExecute\n"), "{text}");
    let strategy = ReplicaSchedulingStrategy {
        replica_scheduling_type: Some(ReplicaSchedulingType::Divided),
        ..ReplicaSchedulingStrategy::default()
    };
    left.spec.placement = Some(Placement { replica_scheduling: Some(strategy), ..Placement::default() }.into());
    left.spec.clusters = vec![TargetCluster { name: "member2".into(), replicas: 1, components: vec![] }];
    left.spec.graceful_eviction_tasks[0].purge_mode = Some(PurgeMode::Directly);
    let text = answers(&world(NO_EXECUTE, left), &[])[0].text(at(0));
    assert!(text.contains("taints k:NoExecute; 1 replica stays until others have room\n"), "{text}");
    assert!(text.contains("member1 recovers, or another cluster can take it"), "{text}");
}
