//! Fixtures of this crate's tests.

use std::sync::Arc;

use ironclad_api::{
    Condition, Taint, Time, Toleration,
    annotations::{APPLIED_PLACEMENT, DRAINING},
    cluster::{APIEnablement, APIResource, Cluster, ClusterSpec, ClusterStatus},
    conditions::{
        self, TRUE,
        binding::{PODS_UNSCHEDULABLE, SCHEDULED},
    },
    labels::PROPAGATION_POLICY_PERMANENT_ID,
    policy::{
        ClusterAffinity, ClusterAffinityTerm, ClusterFailoverBehavior, ClusterPreferences, DynamicWeight,
        FailoverBehavior, OverflowClusterAffinity, Placement, ReplicaDivisionPreference, ReplicaSchedulingStrategy,
        ReplicaSchedulingType, SpreadByField, SpreadConstraint, StaticClusterWeight,
    },
    reasons::binding::UNSCHEDULABLE,
    work::{
        GracefulEvictionTask, ObjectReference, PreemptionPolicy, ReplicaRequirements, ResolvedPriority,
        ResourceBinding, ResourceBindingSpec, ResourceBindingStatus, TargetCluster,
    },
};
use jiff::Timestamp;

use ironclad_fleet::{BindingRef, Clusters, StatusPart};
use serde_json::Value;

use crate::{Available, Candidate, Capacity, Decision, Effect, Index, Options, Seen, Since, decide};

/// Feasible cluster with this score and capacity, and no assigned replicas.
pub(crate) fn candidate(name: &str, score: i64, allocatable: i64) -> Candidate {
    Candidate {
        name: name.into(),
        groups: Vec::new(),
        tier: 0,
        score,
        allocatable,
        estimated: true,
        assigned: 0,
        suspended: false,
    }
}

/// Timestamp, in seconds.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Cluster that serves Deployments.
pub(crate) fn cluster(name: &str) -> Cluster {
    let mut cluster = Cluster::new(name, ClusterSpec::default());
    let deployments = APIResource { name: "deployments".into(), kind: "Deployment".into() };
    let apps = APIEnablement { group_version: "apps/v1".into(), resources: vec![deployments] };
    cluster.metadata.generation = Some(1);
    cluster.status = Some(ClusterStatus { api_enablements: vec![apps].into(), ..ClusterStatus::default() });
    cluster
}

/// The same while somebody drains it.
pub(crate) fn draining(name: &str) -> Cluster {
    let mut cluster = cluster(name);
    cluster.metadata.annotations = Some([(DRAINING.to_owned(), "now".to_owned())].into());
    cluster
}

/// Clusters with these names.
pub(crate) fn clusters(names: &[&str]) -> Clusters {
    names.iter().map(|name| ((*name).into(), Arc::new(cluster(name)))).collect()
}

/// Deployment `default/web` with these replicas and this result, without a placement.
pub(crate) fn binding(name: &str, replicas: i32, result: &[(&str, i32)]) -> ResourceBinding {
    let resource = ObjectReference {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: "default".into(),
        name: name.into(),
        uid: "uid-2".into(),
        resource_version: String::new(),
    };
    let spec = ResourceBindingSpec { resource, replicas, clusters: targets(result), ..ResourceBindingSpec::default() };
    let mut binding = ResourceBinding::new(&format!("{name}-deployment"), spec);
    binding.metadata.namespace = Some("default".into());
    binding.metadata.generation = Some(1);
    binding.metadata.labels = Some([(PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "id".to_owned())].into());
    binding
}

pub(crate) fn targets(result: &[(&str, i32)]) -> Vec<TargetCluster> {
    let target = |(name, replicas): &(&str, i32)| TargetCluster {
        name: (*name).to_owned(),
        replicas: *replicas,
        components: Vec::new(),
    };
    result.iter().map(target).collect()
}

pub(crate) fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint { key: key.into(), value: Some(value.into()), effect: effect.into(), time_added: None }
}

/// A toleration without a value or seconds.
pub(crate) fn toleration(key: &str, operator: &str, effect: &str) -> Toleration {
    let text = |text: &str| Some(text.to_owned());
    Toleration {
        key: text(key),
        operator: text(operator),
        value: None,
        effect: text(effect),
        toleration_seconds: Some(30),
    }
}

/// Opt-in to leave clusters with PreferNoExecute taints.
pub(crate) fn failover() -> FailoverBehavior {
    FailoverBehavior { application: None, cluster: Some(ClusterFailoverBehavior::default()) }
}

pub(crate) fn task(from: &str, reason: &str, replicas: Option<i32>) -> GracefulEvictionTask {
    let (from_cluster, reason) = (from.to_owned(), reason.to_owned());
    GracefulEvictionTask { from_cluster, reason, replicas, producer: "test".into(), ..GracefulEvictionTask::default() }
}

/// An affinity for clusters by name.
pub(crate) fn affinity(names: &[&str]) -> ClusterAffinity {
    ClusterAffinity { cluster_names: names.iter().map(|n| (*n).to_owned()).collect(), ..ClusterAffinity::default() }
}

/// An ordered affinity group.
pub(crate) fn group(name: &str, clusters: &[&str]) -> ClusterAffinityTerm {
    ClusterAffinityTerm { affinity_name: name.into(), affinity: affinity(clusters), overflow_affinities: Vec::new() }
}

/// An overflow tier.
pub(crate) fn overflow(name: &str, clusters: &[&str]) -> OverflowClusterAffinity {
    OverflowClusterAffinity { affinity_name: name.into(), affinity: affinity(clusters) }
}

pub(crate) fn spread(field: SpreadByField, min_groups: i64, max_groups: i64) -> SpreadConstraint {
    SpreadConstraint { spread_by_field: Some(field), spread_by_label: String::new(), min_groups, max_groups }
}

/// Placement with the whole count on every cluster.
pub(crate) fn duplicated() -> Placement {
    Placement::default()
}

fn divided(preference: ReplicaDivisionPreference, weights: Option<ClusterPreferences>) -> Placement {
    let strategy = ReplicaSchedulingStrategy {
        replica_scheduling_type: Some(ReplicaSchedulingType::Divided),
        replica_division_preference: Some(preference),
        weight_preference: weights,
    };
    Placement { replica_scheduling: Some(strategy), ..Placement::default() }
}

/// Placement divided by static weights; an empty list weighs all clusters the same.
pub(crate) fn weighted(weights: &[(&str, i64)]) -> Placement {
    let list: Vec<_> = weights
        .iter()
        .map(|(name, weight)| StaticClusterWeight { target_cluster: affinity(&[name]), weight: *weight })
        .collect();
    let preference = ClusterPreferences { static_weight_list: list, dynamic_weight: None };
    divided(ReplicaDivisionPreference::Weighted, (!weights.is_empty()).then_some(preference))
}

/// Placement divided by capacity.
pub(crate) fn dynamic() -> Placement {
    let preference =
        ClusterPreferences { static_weight_list: Vec::new(), dynamic_weight: Some(DynamicWeight::AvailableReplicas) };
    divided(ReplicaDivisionPreference::Weighted, Some(preference))
}

/// Placement divided over as few clusters as possible.
pub(crate) fn aggregated() -> Placement {
    divided(ReplicaDivisionPreference::Aggregated, None)
}

/// Binding whose result was made for its placement.
pub(crate) fn settled(placement: Placement, replicas: i32, result: &[(&str, i32)]) -> ResourceBinding {
    let mut binding = binding("web", replicas, result);
    let text = serde_json::to_string(&placement).unwrap();
    binding.metadata.annotations = Some([(APPLIED_PLACEMENT.to_owned(), text)].into());
    binding.spec.placement = Some(placement.into());
    let status = binding.status.get_or_insert_default();
    status.conditions = vec![scheduled("True", "Success", 1)];
    status.last_scheduled_time = Some(Time(at(10)));
    binding
}

/// Binding that may preempt others, with condition `PodsUnschedulable` of this message unless it is empty.
pub(crate) fn preemptor(result: &[(&str, i32)], condition: &str) -> ResourceBinding {
    let mut binding = binding("web", 3, result);
    let requirements: ReplicaRequirements =
        serde_json::from_value(serde_json::json!({"resourceRequest": {"cpu": "1"}})).unwrap();
    binding.spec.replica_requirements = Some(requirements.into());
    let policy = Some(PreemptionPolicy::PreemptLowerPriority);
    binding.spec.schedule_priority = Some(ResolvedPriority { priority: 9, preemption_policy: policy });
    if !condition.is_empty() {
        let condition = conditions::condition(PODS_UNSCHEDULABLE, TRUE, UNSCHEDULABLE, condition);
        binding.status =
            Some(ResourceBindingStatus { conditions: vec![condition], ..ResourceBindingStatus::default() });
    }
    binding
}

/// Condition `Scheduled` with this transition time, in seconds.
pub(crate) fn scheduled(status: &str, reason: &str, since: i64) -> Condition {
    let mut condition = conditions::condition(SCHEDULED, status, reason, "");
    condition.last_transition_time = Time(at(since));
    condition
}

/// Decision on the binding in this fleet; `available` lists estimates by cluster.
pub(crate) fn decide_in(
    binding: &ResourceBinding,
    clusters: &Clusters,
    available: &Available,
    options: &Options,
    now: i64,
) -> Decision {
    let capacity = Capacity::default();
    decide_both(
        &Seen {
            binding: BindingRef::from(binding),
            clusters,
            available,
            capacity: &capacity,
            options,
            since: Since::default(),
            preempting: None,
            peers: None,
            index: None,
        },
        now,
    )
}

/// Decision without an index; the one with an index must be the same.
pub(crate) fn decide_both(seen: &Seen<'_>, now: i64) -> Decision {
    let decision = decide(seen, at(now));
    let index = Index::of(seen.clusters);
    assert_eq!(without_clusters(&decision), decide(&Seen { index: Some(&index), ..*seen }, at(now)));
    decision
}

/// Binding after its effects were applied by the server and the status writer.
pub(crate) fn applied(binding: &ResourceBinding, decision: &Decision) -> ResourceBinding {
    let mut object = serde_json::to_value(binding).unwrap();
    for effect in &decision.plan.effects {
        match effect {
            Effect::Result { patch, targets } => {
                let before = object["spec"].clone();
                merge(&mut object, patch);
                let written: ResourceBinding = serde_json::from_value(object.clone()).unwrap();
                assert_eq!(written.spec.clusters, *targets, "what is assumed is what is written");
                if object["spec"] != before {
                    object["metadata"]["generation"] = (object["metadata"]["generation"].as_i64().unwrap() + 1).into();
                }
            }
            Effect::Status(part) => object["status"] = StatusPart::applied(&object["status"], &[part]),
            Effect::Event(_) | Effect::Preempt(_) => {}
        }
    }
    serde_json::from_value(object).unwrap()
}

pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let object = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            merge(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The decision without reasons about single clusters, as it is with an index.
pub(crate) fn without_clusters(decision: &Decision) -> Decision {
    let mut decision = decision.clone();
    let of_cluster = ["ClusterLeaving", "Refused", "Missing", "Fits", "Target", "NoShare", "NotSelected"];
    decision.plan.because.retain(|because| !of_cluster.contains(&because.reason()));
    decision
}

/// Reasons and effects of a decision as text, one per line.
pub(crate) fn lines(decision: &Decision) -> Vec<String> {
    decision.plan.because.iter().map(ToString::to_string).collect()
}
