//! `metrics.k8s.io/v1beta1` of a member: usage of its running pods, and of its nodes as their sums.

use std::collections::BTreeMap;

use ironclad_apiserver::ApiError;
use ironclad_kubecontrollers::{
    BY_NODE, Cluster, NODES, PODS,
    pods::{node_of, phase},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::Query;
use crate::usage::{Rules, Usage};

pub(super) const GROUP: &str = "metrics.k8s.io";
pub(super) const VERSION: &str = "v1beta1";
const API_VERSION: &str = "metrics.k8s.io/v1beta1";
/// Window that metrics report, that of metrics-server.
const WINDOW: &str = "15s";
/// Field selectors of an object's name and namespace.
const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

pub(super) fn pods(
    cluster: &Cluster,
    rules: &Rules,
    namespace: Option<&str>,
    name: Option<&str>,
    query: &Query,
) -> Result<Value, ApiError> {
    let now = now(cluster);
    let pods = cluster.caches.take(&PODS);
    if let (Some(namespace), Some(name)) = (namespace, name) {
        let pod = pods.get(namespace, name).filter(|p| is_measured(p));
        let pod = pod.ok_or_else(|| ApiError::not_found("pods", GROUP, &format!("{namespace}/{name}")))?;
        return Ok(whole(of_pod(&pod, rules, &now), "PodMetrics"));
    }
    let selector = query.selector()?;
    let fields = fields(query)?;
    let all = match namespace {
        Some(namespace) => pods.namespace(namespace),
        None => pods.list(),
    };
    let wanted = all.iter().filter(|pod| {
        let labels = pod.metadata.labels.as_ref();
        is_measured(pod)
            && selector.matches(|key| labels.and_then(|l| l.get(key)).map(String::as_str))
            && fields.iter().all(|(field, value)| match *field {
                NAME => pod.metadata.name.as_deref() == Some(value),
                _ => pod.metadata.namespace.as_deref() == Some(value),
            })
    });
    Ok(list("PodMetricsList", wanted.map(|pod| of_pod(pod, rules, &now)).collect()))
}

pub(super) fn nodes(cluster: &Cluster, rules: &Rules, name: Option<&str>, query: &Query) -> Result<Value, ApiError> {
    let now = now(cluster);
    let (nodes, pods) = (cluster.caches.take(&NODES), cluster.caches.take(&PODS));
    let of = |node: &Node| {
        let pods = pods.by_index(BY_NODE, &node.name_any());
        let used = pods.iter().filter(|p| is_measured(p)).map(|p| rules.usage(p)).fold(Usage::default(), Usage::plus);
        json!({
            "metadata": metadata(&node.metadata, &now), "timestamp": now, "window": WINDOW, "usage": amounts(used),
        })
    };
    if let Some(name) = name {
        let node = nodes.get("", name).ok_or_else(|| ApiError::not_found("nodes", GROUP, name))?;
        return Ok(whole(of(&node), "NodeMetrics"));
    }
    let selector = query.selector()?;
    let fields = fields(query)?;
    let all = nodes.list();
    let wanted = all.iter().filter(|node| {
        let labels = node.metadata.labels.as_ref();
        selector.matches(|key| labels.and_then(|l| l.get(key)).map(String::as_str))
            && fields.iter().all(|(field, value)| *field == NAME && node.metadata.name.as_deref() == Some(value))
    });
    Ok(list("NodeMetricsList", wanted.map(|node| of(node)).collect()))
}

/// Returns `true` if the pod has metrics: its containers run.
fn is_measured(pod: &Pod) -> bool {
    phase(pod) == "Running" && !node_of(pod).is_empty()
}

fn of_pod(pod: &Pod, rules: &Rules, now: &str) -> Value {
    let used = rules.usage(pod);
    let containers = pod.spec.as_ref().map(|s| s.containers.as_slice()).unwrap_or_default();
    let each = containers.iter().enumerate().map(
        |(number, container)| json!({"name": container.name, "usage": amounts(used.part(number, containers.len()))}),
    );
    json!({
        "metadata": metadata(&pod.metadata, now), "timestamp": now, "window": WINDOW,
        "containers": each.collect::<Vec<_>>(),
    })
}

fn metadata(of: &kube::api::ObjectMeta, now: &str) -> Value {
    let mut metadata: BTreeMap<&str, Value> = BTreeMap::new();
    metadata.insert("name", json!(of.name));
    if let Some(namespace) = &of.namespace {
        metadata.insert("namespace", json!(namespace));
    }
    if let Some(labels) = &of.labels {
        metadata.insert("labels", json!(labels));
    }
    metadata.insert("creationTimestamp", json!(now));
    json!(metadata)
}

fn amounts(used: Usage) -> Value {
    let memory = match used.memory_bytes {
        bytes if bytes % 1024 == 0 => format!("{}Ki", bytes / 1024),
        bytes => bytes.to_string(),
    };
    json!({"cpu": format!("{}m", used.cpu_millis), "memory": memory})
}

fn whole(mut value: Value, kind: &str) -> Value {
    value["kind"] = json!(kind);
    value["apiVersion"] = json!(API_VERSION);
    value
}

fn list(kind: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": API_VERSION, "metadata": {}, "items": items})
}

fn now(cluster: &Cluster) -> String {
    cluster.seam.clock.wall_seconds().to_string()
}

/// Parses a field selector such as `metadata.name=a,metadata.namespace=b`.
fn fields(query: &Query) -> Result<Vec<(&str, &str)>, ApiError> {
    let text = query.get("fieldSelector").unwrap_or_default();
    let term = |term| match str::split_once(term, '=') {
        Some((field @ (NAME | NAMESPACE), value)) => Ok((field, value.trim_start_matches('='))),
        _ => Err(ApiError::bad_request(format!("field label not supported: {term}"))),
    };
    text.split(',').filter(|t| !t.is_empty()).map(term).collect()
}
