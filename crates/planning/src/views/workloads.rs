//! Bindings: where each is placed, how it is there, and what is wrong with it.

use std::{cmp::Reverse, collections::BTreeSet};

use ironclad_api::{
    Condition, annotations,
    conditions::{self, TRUE, binding::FULLY_APPLIED},
    work::{AggregatedStatusItem, ObjectReference, ResourceHealth},
};
use ironclad_fleet::{BindingRef, ClusterName, targets, tree::LinkState};
use jiff::Timestamp;
use serde::Serialize;

/// A cluster of a binding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    #[serde(rename = "name")]
    pub cluster: String,
    /// Replicas that are to run there; 0 if it is no workload.
    pub replicas: i32,
    /// Ready replicas by its reported status, if it tells them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A binding of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingRow {
    /// Name of the binding itself.
    pub binding: String,
    /// The template: its namespace, empty if it has none.
    pub namespace: String,
    pub kind: String,
    pub name: String,
    /// Its type as `get` takes it, such as `deployment.apps`.
    #[serde(rename = "type")]
    pub word: String,
    /// Worst of what is told here.
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    pub reason: String,
    /// Since when, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Replicas that are placed in all clusters, or wanted while there are none; 0 if it is no workload.
    pub replicas: i32,
    /// Ready replicas in all clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<i64>,
    pub clusters: Vec<Place>,
    /// Clusters that it is leaving.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub leaving: Vec<String>,
    /// Name of its policy.
    pub policy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

impl Default for BindingRow {
    fn default() -> Self {
        Self {
            binding: String::new(),
            namespace: String::new(),
            kind: String::new(),
            name: String::new(),
            word: String::new(),
            state: LinkState::Ok,
            reason: String::new(),
            since: None,
            replicas: 0,
            ready: None,
            clusters: Vec::new(),
            leaving: Vec::new(),
            policy: String::new(),
            priority: None,
        }
    }
}

/// The rows of these bindings, with what is bad first. These clusters are not ready: what they report does not count.
#[must_use]
pub fn workloads<'a>(
    bindings: impl IntoIterator<Item = BindingRef<'a>>,
    unready: &BTreeSet<ClusterName>,
) -> Vec<BindingRow> {
    let mut rows: Vec<BindingRow> = bindings.into_iter().map(|binding| binding_row(binding, unready)).collect();
    rows.sort_by(|a, b| {
        let key = |row: &BindingRow| (Reverse(row.state), row.namespace.clone(), row.kind.clone(), row.name.clone());
        key(a).cmp(&key(b))
    });
    rows
}

/// The row of one binding.
#[must_use]
pub fn binding_row(binding: BindingRef<'_>, unready: &BTreeSet<ClusterName>) -> BindingRow {
    let (spec, resource) = (binding.spec(), &binding.spec().resource);
    let reported = binding.status().map_or(&[][..], |status| &status.aggregated_status);
    let clusters: Vec<Place> = targets::targets(spec)
        .into_iter()
        .map(|target| {
            let item = reported.iter().find(|item| *item.cluster_name == *target.cluster.0);
            place(&target.cluster.0, target.replicas, item, unready)
        })
        .collect();
    let leaving: Vec<String> = spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.clone()).collect();
    let (state, reason, since) = state(binding, &clusters, &leaving);
    let placed = clusters.iter().map(|place| place.replicas).reduce(i32::saturating_add);
    let ready = clusters.iter().filter_map(|place| place.ready).reduce(|sum, ready| sum + ready);
    BindingRow {
        binding: binding.key().name.to_string(),
        namespace: resource.namespace.clone(),
        kind: resource.kind.clone(),
        name: resource.name.clone(),
        word: word(resource),
        state,
        reason,
        since,
        replicas: placed.filter(|placed| *placed > 0).unwrap_or(spec.replicas),
        ready,
        clusters,
        leaving,
        policy: policy(binding),
        priority: spec.schedule_priority.as_ref().map(|priority| priority.priority),
    }
}

/// The type of a template as `get` takes it, such as `deployment.apps`.
pub(super) fn word(resource: &ObjectReference) -> String {
    let kind = resource.kind.to_lowercase();
    match resource.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind,
    }
}

fn place(cluster: &str, replicas: i32, item: Option<&AggregatedStatusItem>, unready: &BTreeSet<ClusterName>) -> Place {
    let status = item.and_then(|item| item.status.as_ref()).map(|status| status.value());
    let ready = status.as_ref().and_then(|status| status.get("readyReplicas")?.as_i64());
    let (state, detail) = match item {
        _ if is_lost(unready, cluster) => (LinkState::Broken, "the cluster is not ready"),
        None => (LinkState::Waiting, "not reported yet"),
        Some(item) if !item.applied && item.applied_message.is_empty() => (LinkState::Waiting, "not applied yet"),
        Some(item) if !item.applied => (LinkState::Broken, item.applied_message.as_str()),
        Some(item) => match item.health {
            Some(ResourceHealth::Unhealthy) => (LinkState::Broken, "unhealthy"),
            Some(ResourceHealth::Healthy) => (LinkState::Ok, ""),
            Some(ResourceHealth::Unknown) | None => (LinkState::Waiting, "health not known"),
        },
    };
    // A status that says no number of ready replicas although some are wanted says that none is.
    let ready = ready.or_else(|| status.filter(|status| status.get("replicas").is_some()).map(|_| 0));
    // What ran in a lost cluster may run no more.
    let ready = ready.filter(|_| !is_lost(unready, cluster));
    Place { cluster: cluster.to_owned(), replicas, ready, state, detail: detail.to_owned() }
}

/// True for a cluster whose copies do not count as running.
fn is_lost(unready: &BTreeSet<ClusterName>, cluster: &str) -> bool {
    unready.iter().any(|name| *name.0 == *cluster)
}

/// The worst that there is to say, in the order in which it would be looked into.
fn state(binding: BindingRef<'_>, places: &[Place], leaving: &[String]) -> (LinkState, String, Option<Timestamp>) {
    let since = |condition: &Condition| Some(condition.last_transition_time.0);
    let scheduled = binding.scheduled();
    if binding.is_deleting() {
        let at = binding.metadata().deletion_timestamp.as_ref().map(|time| time.0);
        return (LinkState::Waiting, "is being deleted".to_owned(), at);
    }
    if let Some(failed) = scheduled.filter(|condition| condition.status != TRUE) {
        let reason = match failed.message.as_str() {
            "" => failed.reason.clone(),
            message => format!("{}: {message}", failed.reason),
        };
        return (LinkState::Broken, reason, since(failed));
    }
    let of = |state: LinkState| {
        let found = places.iter().filter(|place| place.state == state);
        let told: Vec<String> = found.map(|place| format!("{}: {}", place.cluster, place.detail)).collect();
        (!told.is_empty()).then(|| told.join("; "))
    };
    if let Some(told) = of(LinkState::Broken) {
        let applied = conditions::get(binding.conditions(), FULLY_APPLIED).filter(|one| one.status != TRUE);
        return (LinkState::Broken, told, applied.and_then(since));
    }
    if !leaving.is_empty() {
        return (LinkState::Waiting, format!("leaves {}", leaving.join(", ")), None);
    }
    if binding.spec().scheduling_suspended() {
        return (LinkState::Waiting, "scheduling is suspended".to_owned(), None);
    }
    if scheduled.is_none() && binding.spec().required_by.is_empty() {
        return (LinkState::Waiting, "is not scheduled yet".to_owned(), None);
    }
    match of(LinkState::Waiting) {
        Some(told) => (LinkState::Waiting, told, None),
        None => (LinkState::Ok, String::new(), None),
    }
}

/// Name of the policy that claims the template, in its namespace if it has one.
fn policy(binding: BindingRef<'_>) -> String {
    let marks = binding.metadata().annotations.as_ref();
    let mark = |name: &str| marks.and_then(|all| all.get(name)).filter(|text| !text.is_empty());
    match (mark(annotations::PROPAGATION_POLICY_NAME), mark(annotations::CLUSTER_PROPAGATION_POLICY_NAME)) {
        (Some(name), _) => match mark(annotations::PROPAGATION_POLICY_NAMESPACE) {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.clone(),
        },
        (None, Some(name)) => name.clone(),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn binding(spec: Value, status: Value) -> ResourceBinding {
        let mut object = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"namespace": "shop", "name": "web-deployment",
                "annotations": {"propagationpolicy.karmada.io/name": "p", "propagationpolicy.karmada.io/namespace": "shop"}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "replicas": 3, "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2", "replicas": 1}]},
            "status": status});
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    fn scheduled(status: &str) -> Value {
        json!([{"type": "Scheduled", "status": status, "reason": "R", "message": "no cluster fits",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    #[test]
    fn the_worst_is_told() {
        let item = |cluster: &str, health: &str, ready: i64| {
            json!({"clusterName": cluster, "applied": true, "health": health,
                "status": {"replicas": ready, "readyReplicas": ready}})
        };
        let healthy = json!([item("m1", "Healthy", 2), item("m2", "Healthy", 1)]);
        let of = |spec: Value, conditions: Value, items: &Value| {
            (spec, json!({"conditions": conditions, "aggregatedStatus": items}))
        };
        let refused = json!([item("m1", "Healthy", 2), {"clusterName": "m2", "appliedMessage": "denied"}]);
        let leaving = json!({"gracefulEvictionTasks": [{"fromCluster": "m9", "reason": "r", "producer": "p"}]});
        for (name, (spec, status), unready, want) in [
            ("healthy", of(json!({}), scheduled("True"), &healthy), "", "Ok  3 [2 1]"),
            (
                "not scheduled",
                of(json!({"clusters": []}), scheduled("False"), &json!([])),
                "",
                "Broken R: no cluster fits - []",
            ),
            (
                "not seen by the scheduler",
                of(json!({"clusters": []}), json!([]), &json!([])),
                "",
                "Waiting is not scheduled yet - []",
            ),
            (
                "needed by others",
                of(
                    json!({"clusters": [], "requiredBy": [{"namespace": "shop", "name": "x",
                    "clusters": [{"name": "m1", "replicas": 2}]}]}),
                    json!([]),
                    &healthy,
                ),
                "",
                "Ok  2 [2]",
            ),
            (
                "a lost cluster is never green",
                of(json!({}), scheduled("True"), &healthy),
                "m2",
                "Broken m2: the cluster is not ready 2 [2 -]",
            ),
            ("refused by a member", of(json!({}), scheduled("True"), &refused), "", "Broken m2: denied 2 [2 -]"),
            (
                "unhealthy",
                of(json!({}), scheduled("True"), &json!([item("m1", "Unhealthy", 0), item("m2", "Healthy", 1)])),
                "",
                "Broken m1: unhealthy 1 [0 1]",
            ),
            ("leaves", of(leaving, scheduled("True"), &healthy), "", "Waiting leaves m9 3 [2 1]"),
            (
                "suspended",
                of(json!({"suspension": {"scheduling": true}}), scheduled("True"), &healthy),
                "",
                "Waiting scheduling is suspended 3 [2 1]",
            ),
            (
                "reports are missing",
                of(json!({}), scheduled("True"), &json!([item("m1", "Unknown", 2)])),
                "",
                "Waiting m1: health not known; m2: not reported yet 2 [2 -]",
            ),
            (
                "no ready replica is not an unknown number",
                of(
                    json!({}),
                    scheduled("True"),
                    &json!([{"clusterName": "m1", "applied": true, "health": "Healthy",
                    "status": {"replicas": 2}}]),
                ),
                "",
                "Waiting m2: not reported yet 0 [0 -]",
            ),
        ] {
            let object = binding(spec, status);
            let unready = unready.split_whitespace().map(ClusterName::from).collect();
            let row = binding_row(BindingRef::from(&object), &unready);
            let number = |ready: Option<i64>| ready.map_or_else(|| "-".to_owned(), |ready| ready.to_string());
            let places: Vec<String> = row.clusters.iter().map(|place| number(place.ready)).collect();
            let got = format!("{:?} {} {} [{}]", row.state, row.reason, number(row.ready), places.join(" "));
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn rows_name_the_template_and_its_policy() {
        let object = binding(json!({"schedulePriority": {"priority": 7}}), json!({}));
        let row = binding_row(BindingRef::from(&object), &BTreeSet::new());
        let names = [&row.binding, &row.namespace, &row.kind, &row.name, &row.word, &row.policy].map(String::as_str);
        assert_eq!(names, ["web-deployment", "shop", "Deployment", "web", "deployment.apps", "shop/p"]);
        assert_eq!((row.priority, row.replicas), (Some(7), 3));
        let mut plain = binding(json!({}), json!({}));
        plain.spec.resource.api_version = "v1".into();
        plain.spec.resource.kind = "ConfigMap".into();
        assert_eq!(binding_row(BindingRef::from(&plain), &BTreeSet::new()).word, "configmap");
    }

    #[test]
    fn unhealthy_ones_come_first() {
        let named = |name: &str, status: &str| {
            let mut object = binding(json!({"clusters": []}), json!({"conditions": scheduled(status)}));
            object.spec.resource.name = name.to_owned();
            object
        };
        let all = [named("b", "True"), named("c", "False"), named("a", "True")];
        let rows = workloads(all.iter().map(BindingRef::from), &BTreeSet::new());
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["c", "a", "b"]);
    }
}
