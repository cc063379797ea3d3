//! The checker finds wrong preemptions and accepts right ones.

use std::sync::Arc;

use ironclad_api::cluster::Cluster;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::{
    super::{Changed, machines::Held},
    *,
};

const S: fn(u64) -> Duration = Duration::from_secs;

/// Two members of eight cores.
struct Hall {
    checker: Checker,
    fleet: Fleet,
}

impl Hall {
    fn new(preemption: Preemption) -> Self {
        let checker = Checker::new(Rules { preemption: Some(preemption), ..Rules::default() });
        let mut hall = Self { checker, fleet: Fleet::default() };
        for name in ["m1", "m2"] {
            hall.cluster(0, name, 0);
        }
        hall
    }

    fn cluster(&mut self, at: u64, name: &str, allocated: i64) {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name}, "spec": {"syncMode": "Push"},
            "status": {
                "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "resourceSummary": {"allocatable": {"cpu": "8"}, "allocated": {"cpu": format!("{allocated}")}},
            },
        }))
        .unwrap();
        let node: Node = serde_json::from_value(json!({"status": {"allocatable": {"cpu": "8"}}})).unwrap();
        let (cluster_name, new) = (ClusterName::from(name), Some(Arc::new(node)));
        self.see(at, Changed::Node { cluster: cluster_name, name: "node".to_owned(), new });
        let (name, new) = (ClusterName::from(name), Arc::new(cluster));
        let old = self.fleet.clusters.insert(name.clone(), new.clone());
        assert_eq!(self.see(at, Changed::Cluster { name, old, new: Some(new) }), Vec::<String>::new());
    }

    fn see(&mut self, at: u64, what: Changed) -> Vec<String> {
        self.checker.see(&Write { at: S(at), wall: at as i64, what }, &self.fleet)
    }

    /// Writes a binding whose replicas request a core each. `more` is merged into it.
    fn binding(&mut self, at: u64, name: &str, priority: i32, clusters: &[(&str, i32)], more: Value) -> Vec<String> {
        let targets: Vec<Value> =
            clusters.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect();
        let mut binding = json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "default", "name": name},
                "replicas": 4, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "clusters": targets,
                "schedulePriority": {"priority": priority, "preemptionPolicy": "PreemptLowerPriority"},
                "placement": {
                    "clusterAffinity": {},
                    "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
                    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
                },
            },
        });
        merge(&mut binding, &more);
        let key = BindingKey { namespace: "default".into(), name: name.into() };
        let new: Arc<ResourceBinding> = Arc::new(serde_json::from_value(binding).unwrap());
        let old = self.fleet.bindings.insert(key.clone(), new.clone());
        self.see(at, Changed::Binding { key, old, new: Some(new) })
    }

    /// A fleet in which these bindings of the first member are the only ones, for so long that all know it.
    fn settled(preemption: Preemption, running: &[(&str, i32, i32)]) -> Self {
        let mut hall = Self::new(preemption);
        for (name, priority, replicas) in running {
            let placed =
                hall.binding(1, name, *priority, &[("m1", *replicas)], json!({"spec": {"replicas": replicas}}));
            assert_eq!(placed, Vec::<String>::new());
        }
        hall.binding(1, "full", 9_000, &[("m2", 8)], json!({"spec": {"replicas": 8}}));
        hall.cluster(2, "m1", running.iter().map(|(.., replicas)| i64::from(*replicas)).sum());
        hall.cluster(2, "m2", 8);
        running.iter().for_each(|(name, _, replicas)| hall.pods("m1", name, *replicas));
        hall.pods("m2", "full", 8);
        hall
    }

    fn pods(&mut self, cluster: &str, app: &str, replicas: i32) {
        for number in 0..replicas {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"labels": {"app": app}},
                "spec": {"nodeName": "node", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            }))
            .unwrap();
            let (cluster, name) = (ClusterName::from(cluster), format!("default/{app}-{number}"));
            self.see(2, Changed::Pod { cluster, name, new: Held::of(&pod) });
        }
    }

    fn nominate(&mut self, at: u64) -> Vec<String> {
        self.binding(at, "high", 10, &[], json!({}));
        let held = json!({"status": {"nominatedClusters": [{"name": "m1", "replicas": 4}]}});
        self.binding(at, "high", 10, &[], held)
    }

    fn evict(&mut self, at: u64, name: &str, priority: i32) -> Vec<String> {
        self.binding(at, name, priority, &[], tasks(json!({})))
    }
}

fn merge(into: &mut Value, patch: &Value) {
    let (Some(into), Some(patch)) = (into.as_object_mut(), patch.as_object()) else { return };
    for (field, value) in patch {
        match into.get_mut(field).filter(|present| present.is_object() && value.is_object()) {
            Some(present) => merge(present, value),
            None => drop(into.insert(field.clone(), value.clone())),
        }
    }
}

/// The task of a binding that `high` preempted from the first member.
fn tasks(change: Value) -> Value {
    let mut task = json!({
        "fromCluster": "m1", "purgeMode": "Directly", "reason": "BindingPreempted", "producer": "Scheduler",
        "gracePeriodSeconds": 300, "message": "preempted by default/high (priority 10)",
    });
    merge(&mut task, &change);
    json!({"spec": {"gracefulEvictionTasks": [task]}})
}

fn allowed() -> Preemption {
    Preemption { mode: Mode::Evict, limits: Limits::default() }
}

fn found(broken: &[String], what: &str) -> bool {
    broken.iter().any(|b| b.contains(what))
}

/// Free are two cores of the first member, and four are asked for.
const RUNNING: [(&str, i32, i32); 3] = [("a", 0, 1), ("b", 1, 2), ("c", 2, 3)];

#[test]
fn only_a_higher_priority_preempts_by_its_own_task() {
    let mut hall = Hall::settled(allowed(), &RUNNING);
    assert_eq!(hall.nominate(100), Vec::<String>::new());
    assert_eq!(hall.evict(101, "b", 1), Vec::<String>::new());
    assert!(hall.checker.noted().contains("the number of victims is compared with all sets"));

    let wrong = |priority: i32, tasks: Value, what: &str| {
        let mut hall = Hall::settled(allowed(), &[("a", 0, 1), ("b", priority, 2), ("c", 2, 3)]);
        hall.nominate(100);
        let broken = hall.binding(101, "b", priority, &[], tasks);
        assert!(found(&broken, what), "{what}: {broken:?}");
    };
    wrong(10, tasks(json!({})), "which may not");
    wrong(1, tasks(json!({"message": "preempted by default/nobody (priority 10)"})), "which may not");
    wrong(1, tasks(json!({"message": "because"})), "does not name its preemptor");
    wrong(1, tasks(json!({"purgeMode": "Gracefully"})), "another task");
    let suspended = json!({"spec": {"suspension": {"scheduling": true}}});
    let mut hall = Hall::settled(allowed(), &RUNNING);
    hall.binding(50, "b", 1, &[("m1", 2)], suspended);
    hall.nominate(100);
    assert!(found(&hall.evict(101, "b", 1), "no possible victim"));

    let mut hall = Hall::settled(Preemption { mode: Mode::Observe, ..allowed() }, &RUNNING);
    assert!(found(&hall.nominate(100), "in mode Observe"));
    let mut hall = Hall::settled(allowed(), &RUNNING);
    assert!(found(&hall.evict(101, "b", 1), "nothing is held"));
}

#[test]
fn nobody_leaves_who_need_not() {
    let mut hall = Hall::settled(allowed(), &RUNNING);
    hall.nominate(100);
    assert_eq!(hall.evict(101, "a", 0), Vec::<String>::new(), "one of two, so far");
    assert!(found(&hall.evict(102, "b", 1), "Some(1) would do"));

    // What somebody may not know yet excuses it.
    let mut hall = Hall::settled(allowed(), &RUNNING);
    hall.binding(95, "c", 2, &[("m1", 1)], json!({"spec": {"replicas": 1}}));
    hall.nominate(100);
    hall.evict(101, "a", 0);
    assert_eq!(hall.evict(102, "b", 1), Vec::<String>::new());

    let mut hall = Hall::settled(allowed(), &RUNNING);
    let several = json!({"spec": {"placement": {"spreadConstraints": []}}, "status": {"nominatedClusters": [
        {"name": "m1", "replicas": 4}]}});
    hall.binding(100, "high", 10, &[], several);
    assert_eq!(hall.evict(101, "b", 1), Vec::<String>::new());
    assert!(found(&hall.evict(102, "a", 0), "need not preempt"));
}

#[test]
fn limits_of_preemption() {
    let limits = Limits { victims: 16, evictions_per_minute: 1 };
    for (at, broken) in [(140, true), (165, false)] {
        let mut hall = Hall::settled(Preemption { limits, ..allowed() }, &[("a", 0, 3), ("b", 1, 3), ("c", 2, 2)]);
        hall.nominate(100);
        hall.evict(101, "a", 0);
        assert_eq!(found(&hall.evict(at, "b", 1), "within a minute"), broken, "{at}");
    }
    let limits = Limits { victims: 1, evictions_per_minute: 60 };
    let mut hall = Hall::settled(Preemption { limits, ..allowed() }, &[("a", 0, 3), ("b", 1, 3), ("c", 2, 2)]);
    hall.nominate(100);
    hall.evict(101, "a", 0);
    assert!(found(&hall.evict(102, "b", 1), "at most 1"));
}

#[test]
fn capacity_is_promised_once() {
    let mut hall = Hall::settled(allowed(), &RUNNING);
    let two = json!({"spec": {"replicas": 2}});
    assert_eq!(hall.binding(10, "d", 0, &[("m1", 2)], two.clone()), Vec::<String>::new());
    assert!(found(&hall.binding(11, "e", 0, &[("m1", 2)], two.clone()), "10000m of 8000m"));

    for (name, priority, at, wrong) in [
        ("a lower priority", 9, 110, true),
        ("the same priority", 10, 110, true),
        ("a higher priority", 11, 110, false),
        ("decided on before", 9, 102, false),
    ] {
        let mut hall = Hall::settled(allowed(), &RUNNING);
        hall.nominate(100);
        hall.evict(101, "b", 1);
        hall.binding(at, "d", priority, &[("m1", 2)], two.clone());
        let broken = hall.binding(at + 30, "d", priority, &[("m1", 2)], two.clone());
        assert_eq!(found(&broken, "held for others"), wrong, "{name}: {broken:?}");
    }

    let mut hall = Hall::settled(allowed(), &RUNNING);
    hall.checker.quota_set(S(5), Some(15_000));
    assert!(
        !found(&hall.binding(6, "d", 0, &[("m1", 2)], two.clone()), "more than the quota"),
        "it is not counted yet"
    );
    hall.binding(7, "d", 0, &[], two.clone());
    assert!(found(&hall.binding(100, "d", 0, &[("m1", 2)], two), "more than the quota"));
}

#[test]
fn priorities_are_those_of_the_classes() {
    let class = |value, never| Some(Class { value, never });
    let mut hall = Hall::new(allowed());
    hall.checker.class_set(S(0), "gold", class(10, false));
    for binding in ["a", "b", "c", "d"] {
        hall.checker.class_named(S(1), binding.to_owned(), Some("gold"));
    }
    assert_eq!(hall.binding(2, "a", 10, &[], json!({})), Vec::<String>::new());
    assert!(found(&hall.binding(2, "b", 11, &[], json!({})), "its class says"));
    let never = json!({"spec": {"schedulePriority": {"preemptionPolicy": "Never"}}});
    assert!(found(&hall.binding(2, "c", 10, &[], never.clone()), "its class says"));
    hall.checker.class_set(S(100), "gold", None);
    assert_eq!(hall.binding(101, "d", 10, &[], json!({})), Vec::<String>::new(), "a view may be old");
    assert!(found(&hall.binding(200, "d", 11, &[], json!({})), "its class says"));
    assert_eq!(hall.binding(201, "d", 0, &[], never), Vec::<String>::new(), "the default of a missing class");
    assert_eq!(hall.binding(202, "a", 10, &[("m1", 4)], json!({})), Vec::<String>::new(), "nothing changes it");
}
