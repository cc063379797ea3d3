//! Makers for the tests of this crate: they take only what matters to a row.

use ironclad_api::{
    Condition, Taint, Time,
    cluster::{APIEnablement, APIResource, Cluster, ClusterSpec},
    conditions::{self, cluster::READY},
    eviction::{PRODUCER_TAINT_MANAGER, TAINT_UNTOLERATED},
    finalizers::CLUSTER_CONTROLLER,
    labels::PROPAGATION_POLICY_PERMANENT_ID,
    policy::{MatchCondition, PurgeMode},
    work::{AggregatedStatusItem, GracefulEvictionTask, ResourceBindingSpec, ResourceHealth, TargetCluster},
};
use jiff::Timestamp;

/// Labels of a binding that a policy owns.
pub(crate) fn owned() -> std::collections::BTreeMap<String, String> {
    [(PROPAGATION_POLICY_PERMANENT_ID.to_owned(), "id".to_owned())].into()
}

/// Time in seconds since the epoch.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A cluster with its finalizer.
pub(crate) fn cluster(name: &str) -> Cluster {
    let mut cluster = Cluster::new(name, ClusterSpec::default());
    cluster.metadata.finalizers = Some(vec![CLUSTER_CONTROLLER.to_owned()]);
    cluster
}

/// Sets the Ready condition, changed at this second.
pub(crate) fn ready(cluster: &mut Cluster, status: &str, since: i64) {
    let condition = conditions::condition(READY, status, "Stored", "");
    conditions::set(&mut cluster.status.get_or_insert_default().conditions, condition, &Time(at(since)));
}

/// API enablements with one resource in each of these group versions.
pub(crate) fn apis(group_versions: &[&str]) -> Vec<APIEnablement> {
    let one = |group_version: &&str| APIEnablement {
        group_version: (*group_version).to_owned(),
        resources: vec![APIResource { name: "things".into(), kind: "Thing".into() }],
    };
    group_versions.iter().map(one).collect()
}

/// A taint without a value, added at this second.
pub(crate) fn taint(key: &str, effect: &str, added: Option<i64>) -> Taint {
    let time_added = added.map(|second| Time(at(second)));
    Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added }
}

/// A binding's spec with this result and these tasks.
pub(crate) fn spec(result: &[(&str, i32)], tasks: Vec<GracefulEvictionTask>) -> ResourceBindingSpec {
    let target = |(name, replicas): &(&str, i32)| TargetCluster {
        name: (*name).to_owned(),
        replicas: *replicas,
        components: Vec::new(),
    };
    let clusters: Vec<_> = result.iter().map(target).collect();
    let replicas = clusters.iter().map(|target| target.replicas).sum();
    ResourceBindingSpec { clusters, replicas, graceful_eviction_tasks: tasks, ..ResourceBindingSpec::default() }
}

/// Eviction task that was created at second 0 because of a taint.
pub(crate) fn task(from: &str) -> GracefulEvictionTask {
    GracefulEvictionTask {
        from_cluster: from.to_owned(),
        purge_mode: Some(PurgeMode::Gracefully),
        reason: TAINT_UNTOLERATED.to_owned(),
        producer: PRODUCER_TAINT_MANAGER.to_owned(),
        creation_timestamp: Some(Time(at(0))),
        ..GracefulEvictionTask::default()
    }
}

/// Status item of a cluster: applied, with this health and this many ready replicas.
pub(crate) fn line(cluster: &str, health: ResourceHealth, ready: i64) -> AggregatedStatusItem {
    AggregatedStatusItem {
        cluster_name: cluster.to_owned(),
        status: Some((&serde_json::json!({ "readyReplicas": ready })).into()),
        applied: true,
        applied_message: String::new(),
        health: Some(health),
        health_transition_time: None,
    }
}

/// Condition of a cluster, changed at this second.
pub(crate) fn condition(type_: &str, status: &str, since: i64) -> Condition {
    let mut condition = conditions::condition(type_, status, "Stored", "");
    condition.last_transition_time = Time(at(since));
    condition
}

/// Match condition of a policy.
pub(crate) fn when(type_: &str, operator: &str, values: &[&str]) -> MatchCondition {
    let status_values = values.iter().map(|value| (*value).to_owned()).collect();
    MatchCondition { condition_type: type_.to_owned(), operator: operator.to_owned(), status_values }
}
