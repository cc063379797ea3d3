//! Preview of a preemption: who would leave which cluster for a binding, and where each of them would go
//! (specification/scheduling.md 15, 15.8).

use std::collections::BTreeSet;

use ironclad_api::{
    eviction::BINDING_PREEMPTED,
    work::{GracefulEvictionTask, PreemptionPolicy, ResolvedPriority, ResourceBinding, TargetCluster},
};
use ironclad_fleet::{Binding, BindingKey, BindingRef, ClusterName, World};
use ironclad_scheduling::{
    self as scheduling, Available, Options, Seen,
    preempt::{Mode, Outcome, Placed, Preempting, Preemptors},
};
use jiff::Timestamp;
use serde::Serialize;

use crate::schedule::capacity;

/// Preemption for a binding, as it would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionPlan {
    /// The binding.
    pub binding: BindingKey,
    /// Its priority, or the one that was asked about.
    pub priority: i32,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// Answer of the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all_fields = "camelCase")]
pub enum Answer {
    /// It needs no preemption.
    Fits {
        /// Its clusters.
        clusters: Vec<TargetCluster>,
    },
    /// Bindings would leave clusters.
    Preempts {
        /// They, the lowest priority first.
        victims: Vec<Leaving>,
        /// Clusters and replicas that would be held for it.
        nominated: Vec<TargetCluster>,
    },
    /// It would wait, and nobody would leave.
    Waits {
        /// Message of its condition `Scheduled`.
        message: String,
    },
}

/// A binding that would leave a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaving {
    /// The binding.
    pub binding: BindingKey,
    /// The cluster.
    pub from: ClusterName,
    /// Its priority.
    pub priority: i32,
    /// Clusters that would have it afterwards; empty if it has no other.
    pub clusters: Vec<TargetCluster>,
    /// Why the scheduler would find no place for what left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homeless: Option<String>,
}

/// Plans the preemption for a binding as if its policy were `PreemptLowerPriority`, and its priority this one if it is
/// given. `None` if the world has no such ResourceBinding.
#[must_use]
pub fn preemption(world: &World, key: &BindingKey, priority: Option<i32>, now: Timestamp) -> Option<PreemptionPlan> {
    let Binding::Namespaced(pending) = world.binding(key)? else { return None };
    let mut pending = ResourceBinding::clone(&pending);
    let priority = priority.unwrap_or_else(|| scheduling::priority(&pending.spec));
    let policy = PreemptionPolicy::PreemptLowerPriority;
    pending.spec.schedule_priority = Some(ResolvedPriority { priority, preemption_policy: Some(policy) });
    let options = Options { preemption: Mode::Evict, ..Options::default() };
    let namespaced: Vec<_> = world
        .all_bindings()
        .filter_map(|binding| match binding {
            Binding::Namespaced(binding) => Some(binding),
            Binding::Cluster(_) => None,
        })
        .collect();
    let placed = Placed::of(namespaced.iter().map(|binding| &**binding));
    let mut free = capacity(&world.clusters);
    let (available, preemptors) = (Available::new(), Preemptors::default());
    let seen = Seen {
        binding: BindingRef::from(&pending),
        clusters: &world.clusters,
        available: &available,
        capacity: &free,
        options: &options,
        api_appeared: false,
        preempting: Some(Preempting { placed: &placed, preemptors: &preemptors }),
        peers: None,
    };
    let decision = scheduling::decide(&seen, now);
    let answer = match (decision.preemption, decision.failure) {
        (Some(Outcome::Nominated(plan)), _) => {
            free.nominate(&pending, &plan.nominated, &options);
            let leaving = |victim: &scheduling::preempt::Victim| {
                let Some(Binding::Namespaced(binding)) = world.binding(&victim.key) else { return None };
                let (clusters, homeless) = afterwards(&binding, &victim.cluster, world, &free, &options);
                let (binding, from) = (victim.key.clone(), victim.cluster.clone());
                Some(Leaving { binding, from, priority: victim.priority, clusters, homeless })
            };
            Answer::Preempts { victims: plan.victims.iter().filter_map(leaving).collect(), nominated: plan.nominated }
        }
        (_, Some(failure)) => {
            let message =
                decision.plan.because.last().map_or_else(|| failure.to_string(), |why| format!("{failure} ({why})"));
            Answer::Waits { message }
        }
        (_, None) => {
            let result = decision.plan.effects.iter().find_map(|effect| match effect {
                scheduling::Effect::Result { targets, .. } => Some(targets.clone()),
                _ => None,
            });
            Answer::Fits { clusters: result.unwrap_or_else(|| pending.spec.clusters.clone()) }
        }
    };
    Some(PreemptionPlan { binding: key.clone(), priority, answer })
}

/// Clusters of a victim once it left this one, beside what is held for the preemptor; with the reason if the scheduler
/// finds no place for what left.
fn afterwards(
    victim: &ResourceBinding,
    from: &ClusterName,
    world: &World,
    free: &scheduling::Capacity,
    options: &Options,
) -> (Vec<TargetCluster>, Option<String>) {
    let mut left = victim.clone();
    left.spec.clusters.retain(|target| *target.name != *from.0);
    left.spec.graceful_eviction_tasks.push(GracefulEvictionTask {
        from_cluster: from.to_string(),
        reason: BINDING_PREEMPTED.to_owned(),
        ..GracefulEvictionTask::default()
    });
    let available = Available::new();
    let seen = Seen {
        binding: BindingRef::from(&left),
        clusters: &world.clusters,
        available: &available,
        capacity: free,
        options,
        api_appeared: false,
        preempting: None,
        peers: None,
    };
    match scheduling::dry_run(&seen, &BTreeSet::new()).0 {
        Ok(found) => (found.targets, None),
        Err(failure) => (left.spec.clusters.clone(), Some(failure.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::world_of;

    /// A member with this many free cores of 100.
    fn member(name: &str, free: i64) -> Value {
        json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "generation": 1},
            "spec": {"syncMode": "Push"},
            "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "resourceSummary": {"allocatable": {"cpu": "100", "pods": "500"}, "allocated": {"cpu": (100 - free).to_string()}},
            },
        })
    }

    fn workload(name: &str, priority: i32, replicas: i32, on: Option<&str>) -> Value {
        let clusters: Vec<Value> = on.iter().map(|name| json!({"name": name, "replicas": replicas})).collect();
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1,
                "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name, "uid": name},
                "replicas": replicas, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}, "clusters": clusters,
                "schedulePriority": {"priority": priority, "preemptionPolicy": "Never"},
                "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}},
            },
        })
    }

    fn world() -> World {
        let objects = [
            member("m1", 0),
            member("m2", 3),
            workload("small", 1, 3, Some("m1")),
            workload("large", 2, 9, Some("m1")),
            workload("new", 5, 5, None),
        ];
        world_of(&objects.map(|object| object.to_string()).join("\n---\n"))
    }

    fn plan(name: &str, priority: Option<i32>) -> Value {
        let key = BindingKey { namespace: "shop".into(), name: name.into() };
        json!(preemption(&world(), &key, priority, Timestamp::UNIX_EPOCH).unwrap())
    }

    #[test]
    fn who_would_leave_and_where_to() {
        let planned = plan("new", None);
        assert_eq!(planned["outcome"], "Preempts");
        // Three of five fit on m2; two more need somebody to leave m1.
        assert_eq!(planned["nominated"], json!([{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 3}]));
        let victims: Vec<_> =
            planned["victims"].as_array().unwrap().iter().map(|v| (&v["binding"]["name"], &v["from"])).collect();
        assert_eq!(victims, [(&json!("small"), &json!("m1"))]);
        assert_eq!(planned["victims"][0]["clusters"], json!([]));
        let homeless = planned["victims"][0]["homeless"].as_str().unwrap();
        assert!(homeless.contains("Clusters available replicas 0 are not enough"), "{homeless}");
    }

    #[test]
    fn another_priority_and_what_fits() {
        let low = plan("new", Some(1));
        assert_eq!((&low["outcome"], &low["priority"]), (&json!("Waits"), &json!(1)));
        assert!(low["message"].as_str().unwrap().contains("no lower priority bindings"), "{low}");
        let placed = plan("small", None);
        assert_eq!((&placed["outcome"], &placed["clusters"][0]["name"]), (&json!("Fits"), &json!("m1")));
        let missing = BindingKey { namespace: "shop".into(), name: "gone".into() };
        assert_eq!(preemption(&world(), &missing, None, Timestamp::UNIX_EPOCH), None);
    }
}
