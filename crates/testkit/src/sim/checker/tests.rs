//! The checker finds violations and accepts correct histories.

use std::sync::Arc;

use ironclad_api::work::ResourceBinding;
use ironclad_fleet::BindingKey;
use serde_json::{Value, json};

use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;

#[test]
fn assigned_replicas_of_what_members_scale_are_not_taken_back() {
    let binding = |replicas: i32, clusters: &[(&str, i32)]| -> ResourceBinding {
        let clusters: Vec<Value> =
            clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        serde_json::from_value(json!({"metadata": {"name": "b"}, "spec": {"replicas": replicas, "clusters": clusters,
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "b"}}}))
        .unwrap()
    };
    let key = |name: &str| BindingKey { namespace: "default".into(), name: name.into() };
    let rules = Rules { scaled_in_members: [key("b")].into(), ..Rules::default() };
    let before = binding(6, &[("m1", 3), ("m2", 3)]);
    for (name, of, after, want) in [
        ("taken back", "b", binding(6, &[("m1", 1), ("m2", 3)]), true),
        ("all of a cluster", "b", binding(6, &[("m1", 0), ("m2", 3)]), true),
        ("assigned elsewhere", "b", binding(6, &[("m1", 1), ("m2", 5)]), false),
        ("the workload has fewer", "b", binding(4, &[("m1", 1), ("m2", 3)]), false),
        ("the cluster left", "b", binding(6, &[("m2", 3)]), false),
        ("another workload", "c", binding(6, &[("m1", 1), ("m2", 3)]), false),
    ] {
        let mut broken = Vec::new();
        scaled::see(&key(of), Some(&before), Some(&after), &rules, &mut broken);
        assert_eq!(!broken.is_empty(), want, "{name}: {broken:?}");
    }
}

#[test]
fn rate_by_number_of_unhealthy_clusters() {
    let rates = Rates::default();
    // total, unhealthy, evictions per second: the table of specification/failover.md 6.4.
    let rows = [
        (0, 0, 0.5),
        (1, 1, 0.0),
        (2, 1, 0.5),
        (3, 1, 0.5),
        (3, 2, 0.0),
        (9, 5, 0.0),
        (10, 5, 0.5),
        (10, 6, 0.0),
        (11, 6, 0.5),
        (11, 7, 0.1),
        (20, 11, 0.5),
        (20, 12, 0.1),
        (100, 55, 0.5),
        (100, 56, 0.1),
        (100, 100, 0.0),
    ];
    for (total, unhealthy, want) in rows {
        assert_eq!(rates.of(total, unhealthy), want, "{unhealthy} of {total}");
    }
    assert_eq!(Rates { secondary: 0.0, ..rates }.of(40, 23), 0.0);
}

#[test]
fn evictions_within_a_window_are_limited() {
    let mut log = rate::Log::default();
    log.allow(S(0), 0.5);
    assert_eq!(log.evicted(S(100), S(0)), None);
    assert_eq!(log.evicted(S(102), S(0)), None, "exactly the interval later");
    assert_eq!(log.evicted(S(102) + Duration::from_millis(1_800), S(0)), None, "within the slack");
    let early = log.evicted(S(105) + Duration::from_millis(400), S(0));
    assert!(early.unwrap().starts_with("invariant 1: 2 evictions"), "two fifths of a second too early");
    log.allow(S(200), 0.0);
    assert!(log.evicted(S(260), S(3)).unwrap().starts_with("invariant 2"));
    log.allow(S(300), 0.5);
    log.allow(S(400), 0.0);
    assert_eq!(log.evicted(S(402), S(3)), None, "a view may be three seconds old");
    assert!(log.evicted(S(404), S(3)).is_some());
}

struct Court {
    checker: Checker,
    fleet: Fleet,
    clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    binding: Option<Arc<ResourceBinding>>,
}

impl Court {
    fn new(rules: Rules) -> Self {
        let mut court =
            Self { checker: Checker::new(rules), fleet: Fleet::default(), clusters: BTreeMap::new(), binding: None };
        for name in ["m1", "m2", "m3"] {
            court.cluster(0, name, "True", json!([]));
        }
        court
    }

    fn cluster(&mut self, at: u64, name: &str, ready: &str, taints: Value) -> Vec<String> {
        let cluster: Cluster = serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "uid": name},
            "spec": {"syncMode": "Push", "taints": taints},
            "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap();
        let (name, new) = (ClusterName::from(name), Arc::new(cluster));
        self.fleet.clusters.insert(name.clone(), new.clone());
        let old = self.clusters.insert(name.clone(), new.clone());
        let what = Changed::Cluster { name, old, new: Some(new) };
        self.checker.see(&Write { at: S(at), wall: at as i64, what }, &self.fleet)
    }

    fn binding(&mut self, at: u64, clusters: &[&str], tasks: Value, failover: Value) -> Vec<String> {
        self.bound(at, clusters, tasks, failover, &Value::Null)
    }

    /// Writes a binding whose placement the scheduler has applied.
    fn binding_placed(&mut self, at: u64, clusters: &[&str], placement: &Value) {
        self.bound(at, clusters, json!([]), Value::Null, placement);
    }

    fn bound(&mut self, at: u64, clusters: &[&str], tasks: Value, failover: Value, placement: &Value) -> Vec<String> {
        let targets: Vec<Value> = clusters.iter().map(|name| json!({"name": name, "replicas": 1})).collect();
        let applied = json!({ironclad_api::annotations::APPLIED_PLACEMENT: placement.to_string()});
        let binding: ResourceBinding = serde_json::from_value(json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": "b", "namespace": "n", "uid": "b", "annotations": applied,
                "labels": {ironclad_api::labels::PROPAGATION_POLICY_PERMANENT_ID: "p"}},
            "spec": {
                "placement": placement,
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "b"}, "replicas": 1,
                "clusters": targets, "gracefulEvictionTasks": tasks, "failover": failover,
            },
        }))
        .unwrap();
        let new = Some(Arc::new(binding));
        let old = std::mem::replace(&mut self.binding, new.clone());
        let key = BindingKey { namespace: "n".into(), name: "b".into() };
        self.fleet.bindings.extend(new.clone().map(|binding| (key.clone(), binding)));
        let what = Changed::Binding { key, old, new };
        self.checker.see(&Write { at: S(at), wall: at as i64, what }, &self.fleet)
    }
}

fn rules() -> Rules {
    Rules { gate: true, asked_taints: BTreeSet::from([("k".into(), "NoExecute".into())]), ..Rules::default() }
}

fn taint(effect: &str, added: &str) -> Value {
    json!([{"key": "k", "effect": effect, "timeAdded": format!("1970-01-01T00:{added}Z")}])
}

fn task() -> Value {
    json!([{"fromCluster": "m1", "reason": "TaintUntolerated", "producer": "TaintManager", "purgeMode": "Gracefully"}])
}

fn found(broken: &[String], what: &str) -> bool {
    broken.iter().any(|b| b.contains(what))
}

#[test]
fn an_eviction_needs_a_cause_that_is_due_and_a_gate() {
    let mut court = Court::new(rules());
    court.binding(1, &["m1"], json!([]), Value::Null);
    court.cluster(100, "m1", "True", taint("NoExecute", "01:40"));
    assert_eq!(court.binding(102, &[], task(), Value::Null), Vec::<String>::new());
    assert_eq!(court.checker.evictions().len(), 1);

    let mut court = Court::new(rules());
    court.binding(1, &["m1"], json!([]), Value::Null);
    assert!(found(&court.binding(102, &[], task(), Value::Null), "without a cause"));

    let mut court = Court::new(Rules { gate: false, ..rules() });
    court.binding(1, &["m1"], json!([]), Value::Null);
    court.cluster(100, "m1", "True", taint("NoExecute", "01:40"));
    assert!(found(&court.binding(102, &[], task(), Value::Null), "invariant 4"));

    let mut court = Court::new(rules());
    court.binding(1, &["m1"], json!([]), Value::Null);
    court.cluster(100, "m1", "True", taint("PreferNoExecute", "01:40"));
    assert!(found(&court.binding(500, &[], task(), Value::Null), "invariants 6"), "it did not opt in");

    let opted_in = json!({"cluster": {"purgeMode": "Gracefully", "tolerationSeconds": 60}});
    for (at, early) in [(158, true), (160, false)] {
        let mut court = Court::new(rules());
        court.binding(1, &["m1"], json!([]), opted_in.clone());
        court.cluster(100, "m1", "True", taint("PreferNoExecute", "01:40"));
        assert_eq!(found(&court.binding(at, &[], task(), opted_in.clone()), "invariants 8, 9"), early, "{at}");
    }
}

#[test]
fn taints_and_conditions_over_time() {
    let mut court = Court::new(rules());
    assert!(court.cluster(10, "m1", "True", taint("NoExecute", "00:10")).is_empty());
    assert!(found(&court.cluster(20, "m1", "True", taint("NoExecute", "00:20")), "invariant 28"));
    let other = json!([{"key": "other", "effect": "NoExecute"}]);
    assert!(found(&court.cluster(30, "m2", "True", other), "invariant 5"));
    assert!(found(&court.cluster(40, "m2", "Unknown", json!([])), "invariant 30"));
    assert!(found(&court.cluster(50, "m2", "True", json!([])), "invariant 29"), "ten seconds after the flip before");
    assert!(!found(&court.cluster(90, "m2", "False", json!([])), "invariant 29"));
    court.checker.agent_started(&"m2".into(), S(95));
    assert!(!found(&court.cluster(97, "m2", "True", json!([])), "invariant 29"), "its agent started anew");
    assert!(found(&court.cluster(100, "m2", "False", json!([])), "invariant 29"), "and had started before");
}

#[test]
fn task_ends_when_the_new_copies_are_healthy_and_never_with_an_empty_result() {
    let mut court = Court::new(rules());
    court.binding(1, &["m1"], json!([]), Value::Null);
    court.cluster(100, "m1", "True", taint("NoExecute", "01:40"));
    court.binding(102, &[], task(), Value::Null);
    assert!(found(&court.binding(110, &[], json!([]), Value::Null), "invariant 22"));

    let mut court = Court::new(rules());
    court.binding(1, &["m1"], json!([]), Value::Null);
    court.cluster(100, "m1", "True", taint("NoExecute", "01:40"));
    court.binding(102, &[], task(), Value::Null);
    court.binding(103, &["m2"], task(), Value::Null);
    assert!(found(&court.binding(110, &["m2"], json!([]), Value::Null), "invariant 17"));

    let mut court = Court::new(rules());
    court.binding(1, &["m1"], json!([]), Value::Null);
    court.cluster(100, "m1", "True", taint("NoExecute", "01:40"));
    court.binding(102, &[], task(), Value::Null);
    court.binding(103, &["m1"], task(), Value::Null);
    assert!(court.binding(110, &["m1"], json!([]), Value::Null).is_empty(), "it is back where it was");
    let twice = json!([task()[0], task()[0]]);
    assert!(found(&court.binding(111, &["m2"], twice, Value::Null), "invariant 11"));
}

#[test]
fn a_binding_is_evicted_once_per_episode() {
    let mut court = Court::new(rules());
    court.binding(1, &["m1"], json!([]), Value::Null);
    court.cluster(100, "m1", "True", taint("NoExecute", "01:40"));
    court.binding(102, &[], task(), Value::Null);
    court.binding(120, &["m1"], json!([]), Value::Null);
    assert!(found(&court.binding(130, &[], task(), Value::Null), "invariant 21"));
}

#[test]
fn a_binding_is_evicted_once_while_the_taints_are_unchanged() {
    for (name, changed, again) in
        [("long before", 110, true), ("too late to be seen", 129, false), ("after it", 135, false)]
    {
        let mut court = Court::new(rules());
        court.binding(1, &["m1"], json!([]), Value::Null);
        court.cluster(100, "m1", "True", taint("NoExecute", "01:40"));
        let changes = |court: &mut Court| drop(court.cluster(changed, "m1", "True", taint("NoExecute", "01:41")));
        if changed < 130 {
            changes(&mut court);
        }
        court.binding(130, &[], task(), Value::Null);
        if changed > 130 {
            changes(&mut court);
        }
        court.binding(140, &["m1"], json!([]), Value::Null);
        assert_eq!(found(&court.binding(160, &[], task(), Value::Null), "invariant 21"), again, "{name}");
    }
}

/// Creates a binding on m1 that needs one cluster and must leave it from second 200 on.
fn overdue(rules: Rules) -> Court {
    let mut court = Court::new(Rules { late: true, warm_up: S(40), ..rules });
    court.checker.started(S(0));
    let placement = json!({"clusterAffinity": {}, "spreadConstraints": [
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]});
    court.binding_placed(50, &["m1"], &placement);
    court.cluster(200, "m1", "True", taint("NoExecute", "03:20"));
    court
}

#[test]
fn missing_eviction_is_found() {
    // At 0.5/s: two seconds, thirty of tolerance, and three of stale views.
    type Change = fn(&mut Court);
    let rows: [(&str, u64, Change, bool); 9] = [
        ("possible for 31 s", 234, |_| {}, false),
        ("possible for too long", 236, |_| {}, true),
        ("gate off", 400, |court| court.checker.rules.gate = false, false),
        ("a process was killed meanwhile", 250, |court| court.checker.disturbed(S(215)), false),
        ("long ago", 315, |court| court.checker.disturbed(S(215)), true),
        ("a leader began meanwhile", 300, |court| court.checker.started(S(220)), false),
        (
            "the other clusters are not healthy",
            400,
            |court| {
                for name in ["m2", "m3"] {
                    court.cluster(201, name, "True", json!([{"key": "k", "effect": "NoSchedule"}]));
                }
            },
            false,
        ),
        (
            "most clusters are faulty: no rate",
            400,
            |court| {
                court.cluster(201, "m2", "True", taint("NoExecute", "03:21"));
            },
            false,
        ),
        ("another eviction in between", 236, |court| court.checker.late.evicted(S(210)), false),
    ];
    for (name, at, change, late) in rows {
        let mut court = overdue(rules());
        change(&mut court);
        let said = court.checker.look(S(at), at as i64, &court.fleet);
        assert_eq!(said.as_ref().is_some_and(|said| said.starts_with("invariant 8")), late, "{name}: {said:?}");
    }
    let mut court = overdue(rules());
    court.binding(210, &["m2"], task(), Value::Null);
    assert_eq!(court.checker.look(S(400), 400, &court.fleet), None, "the binding has moved");
}
