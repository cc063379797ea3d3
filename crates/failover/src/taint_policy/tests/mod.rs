//! The rows of specification/failover.md 2.4 to 2.9 and of its behaviour table, and invariants 25 to 28.

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    Taint, Time,
    annotations::TAINT_OWNERS,
    cluster::Cluster,
    conditions::{self, cluster::READY},
    policy::{
        ClusterAffinity, ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition, PolicyTaint, TaintPolicyCluster,
        TaintState, TaintToAdd,
    },
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};
use serde_json::Value;

use super::{Decision, Effect, Memory, Seen, decide, is_recovering};
use crate::{
    taints::{Owners, TaintId},
    testkit::{at, cluster, ready, taint, when},
};

mod property;
mod rows;
mod several;

const KEY: &str = "example.com/down";

/// One cluster with policies in virtual time. Applies decisions and reconciles again when they ask for it.
struct World {
    cluster: Cluster,
    policies: Vec<Arc<ClusterTaintPolicy>>,
    memory: Option<Memory>,
    now: i64,
    writes: usize,
    events: Vec<String>,
    status: Vec<TaintPolicyCluster>,
    /// Second of the next timer.
    due: Option<i64>,
}

impl World {
    /// Creates a cluster that is ready since second 0; it is second 1.
    fn new(policies: Vec<ClusterTaintPolicy>) -> Self {
        let mut cluster = cluster("m1");
        cluster.metadata.uid = Some("m1-uid".into());
        cluster.metadata.creation_timestamp = Some(Time(at(0)));
        ready(&mut cluster, "True", 0);
        let policies = policies.into_iter().map(Arc::new).collect();
        let (writes, events, status) = (0, Vec::new(), Vec::new());
        let mut world = Self { cluster, policies, memory: None, now: 1, writes, events, status, due: None };
        world.reconcile();
        world
    }

    fn decision(&self) -> Decision {
        let seen = Seen { cluster: &self.cluster, policies: &self.policies, memory: self.memory.as_ref() };
        decide(&seen, at(self.now), Duration::from_secs(self.now.unsigned_abs()))
    }

    fn reconcile(&mut self) {
        let decision = self.decision();
        for effect in &decision.plan.effects {
            match effect {
                Effect::Patch(patch) => {
                    self.writes += 1;
                    let mut object = serde_json::to_value(&self.cluster).unwrap();
                    merge(&mut object, patch);
                    self.cluster = serde_json::from_value(object).unwrap();
                }
                Effect::Event(event) => self.events.push(event.reason.to_owned()),
            }
        }
        self.memory = Some(decision.memory);
        self.due = decision.next.map(|next| self.now + i64::try_from(next.as_millis().div_ceil(1_000)).unwrap());
        self.status = decision.status.into_values().collect();
        let again = self.decision();
        assert!(again.plan.is_quiet(), "not settled: {:?}", again.plan);
    }

    /// Advances the time to this second and reconciles at each timer.
    fn until(&mut self, second: i64) -> &mut Self {
        while let Some(due) = self.due.filter(|due| *due <= second) {
            self.now = due;
            self.reconcile();
        }
        self.now = second;
        self
    }

    /// Changes a condition at this second.
    fn set(&mut self, second: i64, type_: &str, status: &str) -> &mut Self {
        self.until(second);
        let condition = conditions::condition(type_, status, "Stored", "");
        conditions::set(&mut self.cluster.status.get_or_insert_default().conditions, condition, &Time(at(second)));
        self.reconcile();
        self
    }

    fn ready(&mut self, second: i64, status: &str) -> &mut Self {
        self.set(second, READY, status)
    }

    /// Changes the world at this second.
    fn edit(&mut self, second: i64, edit: impl FnOnce(&mut Self)) -> &mut Self {
        self.until(second);
        edit(self);
        self.reconcile();
        self
    }

    /// The taints with the second at which they were added.
    fn taints(&self) -> Vec<(String, Option<i64>)> {
        let one =
            |taint: &Taint| (ironclad_fleet::taint::text(taint), taint.time_added.as_ref().map(|t| t.0.as_second()));
        self.cluster.spec.taints.iter().map(one).collect()
    }

    fn has(&self, effect: &str) -> bool {
        self.cluster.spec.taints.iter().any(|taint| taint.effect == effect)
    }

    fn owners(&self, effect: &str) -> Vec<String> {
        Owners::of(&self.cluster).policies(&TaintId::new(KEY, effect)).map(str::to_owned).collect()
    }
}

fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    for (key, change) in patch {
        if change.is_null() {
            value.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut value[key], change);
        }
    }
}

fn named(name: &str, created: i64, spec: ClusterTaintPolicySpec) -> ClusterTaintPolicy {
    let mut policy = ClusterTaintPolicy::new(name, spec);
    policy.metadata.uid = Some(format!("{name}-uid"));
    policy.metadata.generation = Some(1);
    policy.metadata.creation_timestamp = Some(Time(at(created)));
    policy
}

fn down() -> Vec<MatchCondition> {
    vec![when(READY, "In", &["False", "Unknown"])]
}

fn item(effect: &str, add: i32, remove: i32) -> TaintToAdd {
    TaintToAdd {
        key: KEY.into(),
        effect: effect.into(),
        value: String::new(),
        add_on_match_seconds: Some(add),
        remove_on_mismatch_seconds: Some(remove),
    }
}

/// Policy with Ironclad's fields: Ready In [False, Unknown], 300 and 180 seconds, PreferNoExecute.
fn seed(name: &str) -> ClusterTaintPolicy {
    let taints_to_add = vec![item(PREFER_NO_EXECUTE, 300, 180)];
    named(name, 0, ClusterTaintPolicySpec { match_conditions: down(), taints_to_add, ..Default::default() })
}

/// Policy with Karmada's fields, without windows.
fn upstream(name: &str, created: i64, add: Vec<MatchCondition>, remove: Vec<MatchCondition>) -> ClusterTaintPolicy {
    let taints = vec![PolicyTaint { key: KEY.into(), effect: PREFER_NO_EXECUTE.into(), ..PolicyTaint::default() }];
    let spec =
        ClusterTaintPolicySpec { add_on_conditions: add, remove_on_conditions: remove, taints, ..Default::default() };
    named(name, created, spec)
}

fn up() -> Vec<MatchCondition> {
    vec![when(READY, "In", &["True"])]
}
