//! Discovery of the metrics APIs, plain and aggregated.

use ironclad_apiserver::{ApiResource, ServedApi};
use ironclad_membermetrics::MetricResource;
use serde_json::{Value, json};

use super::address::Group;

/// The resources of a group that are known without asking members.
pub(crate) fn known(group: Group) -> Vec<ApiResource> {
    if group == Group::Resource { resource_metrics() } else { Vec::new() }
}

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

/// The versions of a group as a server announces them.
pub(crate) fn served(group: Group, resources: &[ApiResource]) -> Vec<ServedApi> {
    let (group_priority, version_priority) = group.priority();
    let of = |version: &&str| ServedApi {
        group: group.name().to_owned(),
        version: (*version).to_owned(),
        group_priority,
        version_priority,
        // Users bring these themselves, with KEDA for example, and an APIService of ours would be in their way.
        registered: group != Group::External,
        resources: resources.to_vec(),
    };
    group.versions().iter().map(of).collect()
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
