//! Preview of a preemption: who would leave which cluster for a binding, and where each of them would go
//! (specification/scheduling.md 15, 15.8).

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use ironclad_api::{
    eviction::BINDING_PREEMPTED,
    policy::FederatedResourceQuota,
    work::{GracefulEvictionTask, PreemptionPolicy, ResolvedPriority, ResourceBinding, TargetCluster},
};
use ironclad_fleet::{
    Because, Binding, BindingKey, BindingRef, ClusterName, ObjectKey, World,
    because::schedule::{Reason, Unhelpful},
    gates::Gate,
};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{detector::claim::Claim, priority, quota::usage};
use ironclad_scheduling::{
    self as scheduling, Options, Seen,
    preempt::{Mode, Outcome, Placed, Preempting, Preemptors},
};
use jiff::Timestamp;
use serde::Serialize;

use crate::{
    Fleet,
    replay::Replay,
    schedule::{self, State},
};

/// Preemption for a binding, as it would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionPlan {
    pub binding: BindingKey,
    /// Its priority, or the one that was asked about.
    pub priority: i32,
    #[serde(flatten)]
    pub answer: Answer,
    /// Clusters whose nodes decide on it or on its victims, and that were not asked for them.
    #[serde(skip)]
    pub unasked: BTreeSet<ClusterName>,
}

/// Answer of the scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all_fields = "camelCase")]
pub enum Answer {
    /// It needs no preemption.
    Fits { clusters: Vec<TargetCluster> },
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
    pub binding: BindingKey,
    pub from: ClusterName,
    pub priority: i32,
    /// Clusters that would have it afterwards; empty if it has no other.
    pub clusters: Vec<TargetCluster>,
    /// Why the scheduler would find no place for what left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homeless: Option<String>,
}

/// Workloads of a PriorityClass, and what they would preempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassPlan {
    /// Name of the class.
    pub class: String,
    pub value: i32,
    /// False if its `preemptionPolicy` is `Never`: nobody would leave for its workloads.
    pub preempts: bool,
    /// Number of its workloads that need no change.
    pub placed: usize,
    /// Its other workloads, in the order of the scheduler's queue.
    pub waiting: Vec<PreemptionPlan>,
    /// Clusters whose nodes decide on any of its workloads, and that were not asked for them.
    #[serde(skip)]
    pub unasked: BTreeSet<ClusterName>,
}

/// Plans for all ResourceBindings whose policy takes the priority from this class, as if each were written anew now.
/// `None` if there is no such class.
#[must_use]
pub fn of_class(fleet: Fleet, class: &str, interpreter: &Interpreter, now: Timestamp) -> Option<ClassPlan> {
    let found = fleet.priority_classes.iter().flatten().find(|one| one.name == class)?.clone();
    let mut replay = Replay::new(fleet, interpreter, now);
    let templates: Vec<ObjectKey> = replay.fleet.world.templates.keys().cloned().collect();
    let mut bindings = Vec::new();
    for key in templates {
        let fleet = &replay.fleet;
        let (Some(template), Some(binding)) = (fleet.world.templates.get(&key), fleet.world.binding_of(&key)) else {
            continue;
        };
        let policy = Claim::of_template(template).and_then(|claim| fleet.policy(&claim.policy()));
        let priority = policy.and_then(|policy| policy.spec().schedule_priority.as_ref());
        let classes = fleet.priority_classes.as_deref().unwrap_or_default();
        if priority.is_some_and(|one| priority::resolve(one, template, classes).class.as_deref() == Some(class)) {
            replay.claim(&key);
            bindings.push(binding.key());
        }
    }
    let preempts = found.preemption_policy.as_deref() != Some("Never");
    let (all, world) = (bindings.len(), &replay.fleet.world);
    let mut waiting = of_bindings(&replay.fleet, bindings, As::default(), now);
    let unasked = waiting.iter().flat_map(|plan| plan.unasked.iter().cloned()).collect();
    waiting.retain(|plan| match &plan.answer {
        Answer::Fits { clusters } => world.binding(&plan.binding).is_none_or(|one| one.spec().clusters != *clusters),
        _ => true,
    });
    let (class, value) = (class.to_owned(), found.value);
    Some(ClassPlan { class, value, preempts, placed: all - waiting.len(), waiting, unasked })
}

/// Plans for several bindings, the highest priority first, each by itself over the fleet as it is.
pub(crate) fn of_bindings(
    fleet: &Fleet,
    mut bindings: Vec<BindingKey>,
    given: As,
    now: Timestamp,
) -> Vec<PreemptionPlan> {
    let own =
        |key: &BindingKey| fleet.world.binding(key).map_or(i32::MIN, |binding| scheduling::priority(binding.spec()));
    bindings.sort_by_cached_key(|key| (Reverse(own(key)), key.clone()));
    bindings.iter().filter_map(|key| preemption(fleet, key, given, now)).collect()
}

/// Priority and policy that a plan assumes instead of the binding's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct As {
    pub priority: Option<i32>,
    /// `preemptionPolicy`.
    pub preemption_policy: Option<PreemptionPolicy>,
}

/// Plans the preemption for a binding, whether or not the scheduler preempts. `None` if the fleet has no such
/// ResourceBinding. Quotas of the fleet count with gate `FederatedQuotaEnforcement`.
#[must_use]
pub fn preemption(fleet: &Fleet, key: &BindingKey, given: As, now: Timestamp) -> Option<PreemptionPlan> {
    let world = &fleet.world;
    let Binding::Namespaced(pending) = world.binding(key)? else { return None };
    let mut pending = ResourceBinding::clone(&pending);
    let priority = given.priority.unwrap_or_else(|| scheduling::priority(&pending.spec));
    let own = pending.spec.schedule_priority.as_ref().and_then(|own| own.preemption_policy);
    let preemption_policy = given.preemption_policy.or(own);
    pending.spec.schedule_priority = Some(ResolvedPriority { priority, preemption_policy });
    let options = Options { preempts: true, preemption_mode: Mode::Evict, ..fleet.settings.scheduler.clone() };
    let namespaced: Vec<_> = world
        .all_bindings()
        .filter_map(|binding| match binding {
            Binding::Namespaced(binding) => Some(binding),
            Binding::Cluster(_) => None,
        })
        .collect();
    let placed = Placed::of(namespaced.iter().map(|binding| &**binding));
    let mut state = State::of_fleet(fleet, now);
    state.ask(BindingRef::from(&pending), &options);
    let preemptors = Preemptors::default();
    let over_quota = over_quota(fleet, &pending);
    let preempting =
        Preempting { placed: &placed, preemptors: &preemptors, over_quota: over_quota.as_deref(), paused: false };
    let seen = state.seen(BindingRef::from(&pending), &world.clusters, &options);
    let seen = Seen { preempting: Some(preempting), ..seen };
    let decision = scheduling::decide(&seen, now);
    let mut unasked = unasked_of(fleet, &pending, &state, &options, now);
    let answer = match (decision.preemption, decision.failure) {
        (Some(Outcome::Nominated(plan)), _) => {
            state.capacity.nominate(&pending, &plan.nominated, &options);
            let mut leaving = |victim: &scheduling::preempt::Victim| {
                let Some(Binding::Namespaced(binding)) = world.binding(&victim.key) else { return None };
                let left = without(&binding, &victim.cluster);
                let (clusters, homeless) = afterwards(&left, world, &mut state, &options);
                unasked.append(&mut unasked_of(fleet, &left, &state, &options, now));
                let (binding, from) = (victim.key.clone(), victim.cluster.clone());
                Some(Leaving { binding, from, priority: victim.priority, clusters, homeless })
            };
            Answer::Preempts {
                victims: plan.victims.iter().filter_map(&mut leaving).collect(),
                nominated: plan.nominated,
            }
        }
        (_, Some(failure)) => {
            let because = decision.plan.because.last().map(|why| match (why, &over_quota) {
                (Because::Schedule(Reason::NotPreempting { because: Unhelpful::OverQuota }), Some(quota)) => {
                    format!("{why}: {quota}")
                }
                _ => why.to_string(),
            });
            Answer::Waits { message: because.map_or_else(|| failure.to_string(), |why| format!("{failure} ({why})")) }
        }
        (_, None) => {
            let result = decision.plan.effects.iter().find_map(|effect| match effect {
                scheduling::Effect::Result { targets, .. } => Some(targets.clone()),
                _ => None,
            });
            Answer::Fits { clusters: result.unwrap_or_else(|| pending.spec.clusters.clone()) }
        }
    };
    Some(PreemptionPlan { binding: key.clone(), priority, answer, unasked })
}

/// Message of the quota that would refuse the replicas that a binding lacks, where quotas are enforced.
fn over_quota(fleet: &Fleet, binding: &ResourceBinding) -> Option<String> {
    let enforced = fleet.settings.gates.enabled(Gate::FederatedQuotaEnforcement);
    let is_beside = |quota: &&Arc<FederatedResourceQuota>| quota.metadata.namespace == binding.metadata.namespace;
    let quotas = fleet.quotas.iter().filter(|_| enforced).filter(is_beside);
    usage::over_quota(&binding.spec, quotas.map(|quota| &**quota))
}

/// Clusters whose nodes decide on a binding, and that were not asked for them.
fn unasked_of(
    fleet: &Fleet,
    binding: &ResourceBinding,
    state: &State,
    options: &Options,
    now: Timestamp,
) -> BTreeSet<ClusterName> {
    if !fleet.settings.estimators {
        return BTreeSet::new();
    }
    let binding = Binding::Namespaced(Arc::new(binding.clone()));
    let scheduling = schedule::schedule(&binding, &fleet.world.clusters, state, options, now);
    schedule::unasked(fleet, binding.view(), &scheduling)
}

/// A victim that has left this cluster.
fn without(victim: &ResourceBinding, from: &ClusterName) -> ResourceBinding {
    let mut left = victim.clone();
    left.spec.clusters.retain(|target| *target.name != *from.0);
    left.spec.graceful_eviction_tasks.push(GracefulEvictionTask {
        from_cluster: from.to_string(),
        reason: BINDING_PREEMPTED.to_owned(),
        ..GracefulEvictionTask::default()
    });
    left
}

/// Clusters of a victim that has left one, beside what is held for the preemptor; with the reason if the scheduler
/// finds no place for what left.
fn afterwards(
    left: &ResourceBinding,
    world: &World,
    state: &mut State,
    options: &Options,
) -> (Vec<TargetCluster>, Option<String>) {
    state.ask(BindingRef::from(left), options);
    let seen = state.seen(BindingRef::from(left), &world.clusters, options);
    match scheduling::dry_run(&seen, &BTreeSet::new()).0 {
        Ok(found) => (found.targets, None),
        Err(failure) => (left.spec.clusters.clone(), Some(failure.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::nodes_of;

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
            "status": {"schedulerObservedGeneration": 1},
        })
    }

    fn small_fleet() -> Fleet {
        let objects = [
            member("m1", 0),
            member("m2", 3),
            workload("small", 1, 3, Some("m1")),
            workload("large", 2, 9, Some("m1")),
            workload("new", 5, 5, None),
        ];
        let mut fleet = Fleet::default();
        objects.into_iter().for_each(|object| fleet.insert(object).unwrap());
        fleet
    }

    fn plan(name: &str, priority: Option<i32>) -> Value {
        plan_of(&small_fleet(), name, priority)
    }

    fn plan_of(fleet: &Fleet, name: &str, priority: Option<i32>) -> Value {
        let key = BindingKey { namespace: "shop".into(), name: name.into() };
        let preemption_policy = Some(PreemptionPolicy::PreemptLowerPriority);
        let given = As { priority, preemption_policy };
        json!(preemption(fleet, &key, given, Timestamp::UNIX_EPOCH).unwrap())
    }

    fn quota(namespace: &str, cpu: &str) -> Value {
        json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "FederatedResourceQuota",
            "metadata": {"namespace": namespace, "name": "q"},
            "spec": {"overall": {"cpu": cpu}}, "status": {"overallUsed": {"cpu": "12"}}})
    }

    #[test]
    fn nobody_leaves_for_what_a_quota_would_refuse() {
        let quota_of = |enforced: bool, namespace: &str, cpu: &str| {
            let mut fleet = small_fleet();
            fleet.settings.gates = fleet.settings.gates.with(Gate::FederatedQuotaEnforcement, enforced);
            fleet.insert(quota(namespace, cpu)).unwrap();
            plan_of(&fleet, "new", None)
        };
        let refused = quota_of(true, "shop", "16");
        assert_eq!(refused["outcome"], "Waits");
        let message = refused["message"].as_str().unwrap();
        let why = "a quota would refuse the result: FederatedResourceQuota(shop/q) exceeded for resource cpu: \
                   requested sum 17, limit 16";
        assert!(message.contains(why), "{message}");
        for (name, planned) in [
            ("enough is left", quota_of(true, "shop", "17")),
            ("the quota of another namespace", quota_of(true, "other", "16")),
            ("quotas are not enforced", quota_of(false, "shop", "16")),
        ] {
            assert_eq!(planned["outcome"], "Preempts", "{name}");
        }
    }

    /// Nodes of members count where the leader keeps accounts by node.
    #[test]
    fn nodes_decide_where_they_are_known() {
        let planned = |nodes: &[(&str, &[i64])]| {
            let mut fleet = small_fleet();
            fleet.settings.estimators = true;
            for (cluster, cores) in nodes {
                fleet.nodes.insert((*cluster).into(), nodes_of(cores));
            }
            let key = BindingKey { namespace: "shop".into(), name: "new".into() };
            let given = As { priority: None, preemption_policy: Some(PreemptionPolicy::PreemptLowerPriority) };
            let plan = preemption(&fleet, &key, given, Timestamp::UNIX_EPOCH).unwrap();
            let unasked: Vec<String> = plan.unasked.iter().map(ToString::to_string).collect();
            let Answer::Preempts { nominated, .. } = plan.answer else { panic!("{:?}", plan.answer) };
            let nominated: Vec<String> = nominated.iter().map(|one| format!("{}:{}", one.name, one.replicas)).collect();
            (nominated.join(" "), unasked.join(" "))
        };
        let owned = |nominated: &str, unasked: &str| (nominated.to_owned(), unasked.to_owned());
        assert_eq!(planned(&[]), owned("m1:2 m2:3", "m1 m2"), "by the summaries");
        assert_eq!(planned(&[("m2", &[1, 1])]), owned("m1:3 m2:2", "m1"), "m2 has three cores, and two on nodes");
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
        assert_eq!(preemption(&small_fleet(), &missing, As::default(), Timestamp::UNIX_EPOCH), None);
    }

    fn class(value: i32, policy: &str) -> Value {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"},
            "value": value, "preemptionPolicy": policy})
    }

    fn policy(workload: &str) -> Value {
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "shop", "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": workload}],
                "schedulePriority": {"priorityClassSource": "KubePriorityClass", "priorityClassName": "gold"},
                "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}},
            },
        })
    }

    fn deployment(name: &str, replicas: i32, claimed: bool) -> Value {
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"replicas": replicas, "template": {"spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}},
        });
        if claimed {
            object["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "p"});
            object["metadata"]["annotations"] =
                json!({"propagationpolicy.karmada.io/name": "p", "propagationpolicy.karmada.io/namespace": "shop"});
        }
        object
    }

    fn fleet(more: impl IntoIterator<Item = Value>) -> Fleet {
        let objects = [member("m1", 0), member("m2", 3), workload("small", 1, 3, Some("m1"))];
        let mut fleet = Fleet::default();
        objects.into_iter().chain(more).for_each(|object| fleet.insert(object).unwrap());
        fleet
    }

    fn victims(plan: &PreemptionPlan) -> Vec<&str> {
        let Answer::Preempts { victims, .. } = &plan.answer else { return Vec::new() };
        victims.iter().map(|victim| &*victim.binding.name).collect()
    }

    #[test]
    fn a_workload_that_does_not_exist_yet() {
        let interpreter = Interpreter::default();
        let planned = |value: i32, policy_of_class: &str, replicas: i32| {
            let file = [class(value, policy_of_class), policy("new"), deployment("new", replicas, false)];
            let applied = file.into_iter().map(|object| (None, object)).collect();
            let planned = crate::apply::Planned::new(fleet([]), applied).unwrap();
            planned.preemptions(As::default(), &interpreter, Timestamp::UNIX_EPOCH)
        };
        let plans = planned(7, "PreemptLowerPriority", 5);
        assert_eq!(
            plans.iter().map(|plan| (&*plan.binding.name, plan.priority)).collect::<Vec<_>>(),
            [("new-deployment", 7)]
        );
        assert_eq!(victims(&plans[0]), ["small"]);
        // Its class may not preempt, is too low, or there is room.
        assert!(matches!(planned(7, "Never", 5)[0].answer, Answer::Waits { .. }));
        assert!(matches!(planned(1, "PreemptLowerPriority", 5)[0].answer, Answer::Waits { .. }));
        assert!(matches!(planned(7, "PreemptLowerPriority", 3)[0].answer, Answer::Fits { .. }));
    }

    #[test]
    fn the_workloads_of_a_class() {
        let interpreter = Interpreter::default();
        let of = |more: Vec<Value>| of_class(fleet(more), "gold", &interpreter, Timestamp::UNIX_EPOCH);
        // The binding was written with another number; the class counts.
        let waiting = || workload("web-deployment", 0, 5, None);
        let mut waiting = waiting();
        waiting["spec"]["resource"]["name"] = "web".into();
        waiting["spec"]["resource"]["uid"] = "web".into();
        let all = |value| {
            vec![class(value, "PreemptLowerPriority"), policy("web"), deployment("web", 5, true), waiting.clone()]
        };
        let plan = of(all(7)).unwrap();
        assert_eq!((plan.value, plan.preempts, plan.placed), (7, true, 0));
        assert_eq!(
            plan.waiting.iter().map(|plan| (plan.priority, victims(plan))).collect::<Vec<_>>(),
            [(7, vec!["small"])]
        );
        let low = of(all(1)).unwrap();
        assert!(matches!(low.waiting[0].answer, Answer::Waits { .. }), "{low:?}");
        assert_eq!(of(Vec::new()), None);
        assert_eq!(of(vec![class(7, "Never")]).map(|plan| (plan.preempts, plan.waiting)), Some((false, Vec::new())));
    }
}
