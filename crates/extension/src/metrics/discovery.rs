//! Discovery of the metrics APIs, plain and aggregated.

use ironclad_apiserver::ApiResource;
use ironclad_membermetrics::MetricResource;
use serde_json::{Value, json};

use super::address::Group;

/// The resources of `metrics.k8s.io`.
pub(crate) fn resource_metrics() -> Vec<ApiResource> {
    let resource = |name: &str, kind: &str, namespaced| ApiResource {
        name: name.to_owned(),
        kind: kind.to_owned(),
        namespaced,
        verbs: vec!["get".to_owned(), "list".to_owned()],
    };
    vec![resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)]
}

/// The resources of the other groups: the metrics that members list.
pub(crate) fn metrics<'a>(group: Group, found: impl IntoIterator<Item = &'a MetricResource>) -> Vec<ApiResource> {
    let kind = if group == Group::Custom { "MetricValueList" } else { "ExternalMetricValueList" };
    let resource = |metric: &MetricResource| ApiResource {
        name: metric.name.clone(),
        kind: kind.to_owned(),
        namespaced: metric.namespaced,
        verbs: vec!["get".to_owned()],
    };
    found.into_iter().map(resource).collect()
}

/// `/apis`.
pub(crate) fn groups(groups: &[Group]) -> Value {
    let groups: Vec<Value> = groups.iter().map(|group| api_group(*group)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`.
pub(crate) fn group(group: Group) -> Value {
    let mut value = api_group(group);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    value
}

fn api_group(group: Group) -> Value {
    let version = |v: &&str| json!({"groupVersion": format!("{}/{v}", group.name()), "version": v});
    let versions: Vec<Value> = group.versions().iter().map(version).collect();
    json!({"name": group.name(), "preferredVersion": versions.first(), "versions": versions})
}

/// `/apis/GROUP/VERSION`.
pub(crate) fn resources(group: Group, version: &str, resources: &[ApiResource]) -> Value {
    let resource = |r: &ApiResource| {
        json!({
            "name": r.name, "singularName": "", "namespaced": r.namespaced, "kind": r.kind, "verbs": r.verbs,
        })
    };
    let resources: Vec<Value> = resources.iter().map(resource).collect();
    let group_version = format!("{}/{version}", group.name());
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
}
