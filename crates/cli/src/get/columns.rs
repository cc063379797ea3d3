//! Columns of `-o wide` for our kinds, computed here because a server can't print them.

use std::collections::BTreeMap;

use ironclad_api::labels;
use serde_json::Value;

use super::table::text;

/// A column computed from the object.
pub(super) struct Extra {
    /// Its heading.
    pub(super) name: &'static str,
    /// Its cell.
    pub(super) read: fn(&Value) -> String,
}

const BINDING: [Extra; 3] = [
    Extra { name: "PLACEMENT", read: placement },
    Extra { name: "HEALTH", read: health },
    Extra { name: "REASON", read: reason },
];
const CLUSTER: [Extra; 1] = [Extra { name: "TAINTS", read: taints }];

/// The additional columns of a kind.
pub(super) fn of(kind: &str) -> &'static [Extra] {
    match kind {
        "ResourceBinding" | "ClusterResourceBinding" => &BINDING,
        "Cluster" => &CLUSTER,
        _ => &[],
    }
}

/// True if the control plane propagated the object. Not meaningful for Pods, nor in the control plane itself.
pub(super) fn adoption(kind: &str, in_plane: bool, object: &Value) -> String {
    if in_plane || kind == "Pod" {
        return "-".to_owned();
    }
    let managed = object.pointer("/metadata/labels").and_then(|all| all.get(labels::MANAGED));
    if managed.and_then(Value::as_str) == Some(labels::TRUE) { "Y" } else { "N" }.to_owned()
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Clusters with their replicas, `member1:2,member2:1`; clusters that are being evicted are marked.
pub(crate) fn placement(binding: &Value) -> String {
    let mut all: Vec<String> = targets(binding)
        .into_iter()
        .map(|(name, replicas)| if replicas == 0 { name } else { format!("{name}:{replicas}") })
        .collect();
    all.extend(
        items(binding, "/spec/gracefulEvictionTasks").map(|task| format!("{}(leaving)", text(task, "/fromCluster"))),
    );
    if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
}

/// Clusters in which a binding is to run, with the replicas of its result: its own, and those of the workloads that
/// need it.
fn targets(binding: &Value) -> BTreeMap<String, i64> {
    let needed = items(binding, "/spec/requiredBy").flat_map(|by| items(by, "/clusters"));
    let needed = needed.map(|target| (text(target, "/name"), 0));
    let own = items(binding, "/spec/clusters")
        .map(|target| (text(target, "/name"), target["replicas"].as_i64().unwrap_or(0)));
    needed.chain(own).collect()
}

/// Number of clusters in which it is healthy, of those in which it is to run: `2/3 healthy`.
fn health(binding: &Value) -> String {
    let targets = targets(binding);
    let healthy = items(binding, "/status/aggregatedStatus").filter(|item| item["health"] == "Healthy");
    let healthy = healthy.filter(|item| targets.contains_key(&text(item, "/clusterName"))).count();
    format!("{healthy}/{} healthy", targets.len())
}

/// Reason of the first condition that is not True, otherwise of condition Scheduled.
fn reason(binding: &Value) -> String {
    let all: Vec<&Value> = items(binding, "/status/conditions").collect();
    let broken =
        all.iter().find(|c| c["status"] == "False" && c["type"] != "EvictionPending" && c["type"] != "Preempted");
    let said = broken.or_else(|| all.iter().find(|c| c["type"] == "Scheduled"));
    said.map(|condition| text(condition, "/reason")).unwrap_or_else(|| "<none>".to_owned())
}

/// `key=value:Effect`, joined.
fn taints(cluster: &Value) -> String {
    let all: Vec<String> = items(cluster, "/spec/taints")
        .map(|taint| match text(taint, "/value") {
            value if value.is_empty() => format!("{}:{}", text(taint, "/key"), text(taint, "/effect")),
            value => format!("{}={value}:{}", text(taint, "/key"), text(taint, "/effect")),
        })
        .collect();
    if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_of_bindings() {
        let binding = json!({
            "spec": {"clusters": [{"name": "m1", "replicas": 2}, {"name": "m2"}], "gracefulEvictionTasks": [{"fromCluster": "m3"}]},
            "status": {"conditions": [{"type": "Scheduled", "status": "True", "reason": "Success"},
                    {"type": "FullyApplied", "status": "False", "reason": "FullyAppliedFailed"}],
                "aggregatedStatus": [{"clusterName": "m1", "health": "Healthy"}, {"clusterName": "m2", "health": "Unhealthy"}]}});
        let cells: Vec<String> = of("ResourceBinding").iter().map(|column| (column.read)(&binding)).collect();
        assert_eq!(cells, ["m1:2,m2,m3(leaving)", "1/2 healthy", "FullyAppliedFailed"]);
        let leaving = json!({
            "spec": {"clusters": [{"name": "m2", "replicas": 2}], "gracefulEvictionTasks": [{"fromCluster": "m1"}]},
            "status": {"aggregatedStatus": [{"clusterName": "m1", "health": "Healthy"}, {"clusterName": "m2", "health": "Unhealthy"}]}});
        assert_eq!(health(&leaving), "0/1 healthy", "the old copy is none of those that are to run");
        let needed = json!({
            "spec": {"requiredBy": [{"clusters": [{"name": "m1", "replicas": 2}]}, {"clusters": [{"name": "m1"}, {"name": "m2"}]}]},
            "status": {"aggregatedStatus": [{"clusterName": "m1", "health": "Healthy"}]}});
        assert_eq!((placement(&needed), health(&needed)), ("m1,m2".to_owned(), "1/2 healthy".to_owned()));
        let new: Vec<String> = of("ResourceBinding").iter().map(|column| (column.read)(&json!({}))).collect();
        assert_eq!(new, ["<none>", "0/0 healthy", "<none>"]);
    }

    #[test]
    fn columns_of_clusters_show_taints() {
        let cluster = json!({"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoExecute"}, {"key": "c", "effect": "NoSchedule"}]}});
        assert_eq!(taints(&cluster), "a=b:NoExecute,c:NoSchedule");
        assert_eq!(taints(&json!({})), "<none>");
    }
}
