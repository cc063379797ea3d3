//! Answers of the metrics APIs as JSON.

use std::{collections::BTreeMap, time::Duration};

use ironclad_api::annotations::{QUERY_FAILED_CLUSTERS, QUERY_FROM_CLUSTER};
use ironclad_hpa::metrics::{
    OfCluster, custom, external,
    resource::{NodeSample, PodSample, Usage},
};
use ironclad_quantity::Amount;
use serde_json::{Map, Value, json};

const RESOURCE_VERSION: &str = "metrics.k8s.io/v1beta1";

/// Metadata of a list, with the clusters that are missing in it.
pub(crate) fn list_metadata(incomplete: Option<&str>) -> Value {
    match incomplete {
        None => json!({}),
        Some(clusters) => json!({"annotations": {QUERY_FAILED_CLUSTERS: clusters}}),
    }
}

pub(crate) fn list(kind: &str, api_version: &str, incomplete: Option<&str>, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": api_version, "metadata": list_metadata(incomplete), "items": items})
}

/// One object, with kind and version.
pub(crate) fn whole(mut value: Value, kind: &str) -> Value {
    value["kind"] = json!(kind);
    value["apiVersion"] = json!(RESOURCE_VERSION);
    value
}

pub(crate) fn pod(of: &OfCluster<PodSample>) -> Value {
    let sample = &of.sample;
    let containers: Vec<Value> =
        sample.containers.iter().map(|c| json!({"name": c.name, "usage": usage(&c.usage)})).collect();
    json!({
        "metadata": metadata(&sample.name, &sample.namespace, &sample.labels, &sample.timestamp, &of.cluster),
        "timestamp": sample.timestamp.to_string(), "window": go_duration(sample.window), "containers": containers,
    })
}

pub(crate) fn node(of: &OfCluster<NodeSample>) -> Value {
    let sample = &of.sample;
    json!({
        "metadata": metadata(&sample.name, "", &sample.labels, &sample.timestamp, &of.cluster),
        "timestamp": sample.timestamp.to_string(), "window": go_duration(sample.window), "usage": usage(&sample.usage),
    })
}

fn metadata(
    name: &str,
    namespace: &str,
    labels: &BTreeMap<String, String>,
    measured: &jiff::Timestamp,
    cluster: &str,
) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), json!(name));
    if !namespace.is_empty() {
        metadata.insert("namespace".into(), json!(namespace));
    }
    if !labels.is_empty() {
        metadata.insert("labels".into(), json!(labels));
    }
    // As metrics-server does: the measurement is the object.
    let created = jiff::Timestamp::from_second(measured.as_second()).unwrap_or_default();
    metadata.insert("creationTimestamp".into(), json!(created.to_string()));
    metadata.insert("annotations".into(), json!({QUERY_FROM_CLUSTER: cluster}));
    Value::Object(metadata)
}

fn usage(usage: &Usage) -> Value {
    usage.iter().map(|(resource, amount)| (resource.clone(), json!(amount.to_string()))).collect::<Map<_, _>>().into()
}

pub(crate) fn custom(value: &custom::Combined, version: custom::Version) -> Value {
    let sample = &value.sample;
    let described = &sample.described;
    let mut object = json!({"kind": described.kind, "name": described.name, "apiVersion": described.api_version});
    if !described.namespace.is_empty() {
        object["namespace"] = json!(described.namespace);
    }
    let mut out = json!({
        "describedObject": object, "timestamp": sample.timestamp.to_string(), "value": sample.value.to_string(),
    });
    if let Some(window) = sample.window {
        let field = match version {
            custom::Version::V1Beta1 => "window",
            custom::Version::V1Beta2 => "windowSeconds",
        };
        out[field] = json!(window.as_secs());
    }
    match version {
        custom::Version::V1Beta1 => {
            out["metricName"] = json!(sample.metric);
            out["selector"] = json!(sample.selector);
        }
        custom::Version::V1Beta2 => out["metric"] = json!({"name": sample.metric, "selector": sample.selector}),
    }
    out
}

pub(crate) fn external(of: &OfCluster<external::Sample>) -> Value {
    let sample = &of.sample;
    let mut out = json!({
        "metricName": sample.metric, "metricLabels": sample.labels, "timestamp": sample.timestamp.to_string(),
        "value": sample.value.to_string(),
    });
    if let Some(window) = sample.window {
        out["window"] = json!(window.as_secs());
    }
    out
}

/// The columns and cells of metrics-server, and the cluster.
pub(crate) fn pod_table(pods: &[OfCluster<PodSample>], incomplete: Option<&str>) -> Value {
    let rows = pods.iter().map(|of| {
        let mut sum: Usage = BTreeMap::new();
        for (resource, amount) in of.sample.containers.iter().flat_map(|container| &container.usage) {
            let entry = sum.entry(resource.clone()).or_insert(Amount::ZERO);
            *entry += *amount;
        }
        Row { cluster: &of.cluster, name: &of.sample.name, usage: sum, window: of.sample.window, object: pod(of) }
    });
    table(rows.collect(), incomplete)
}

/// The same of nodes.
pub(crate) fn node_table(nodes: &[OfCluster<NodeSample>], incomplete: Option<&str>) -> Value {
    let rows = nodes.iter().map(|of| Row {
        cluster: &of.cluster,
        name: &of.sample.name,
        usage: of.sample.usage.clone(),
        window: of.sample.window,
        object: node(of),
    });
    table(rows.collect(), incomplete)
}

struct Row<'a> {
    cluster: &'a str,
    name: &'a str,
    usage: Usage,
    window: Duration,
    object: Value,
}

fn table(rows: Vec<Row<'_>>, incomplete: Option<&str>) -> Value {
    let mut resources: Vec<&str> = rows.iter().flat_map(|row| row.usage.keys()).map(String::as_str).collect();
    resources.sort_unstable();
    resources.dedup();
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    let mut columns =
        vec![column("Name", "name", "Name of the resource"), column("Cluster", "", "Cluster that it was measured in")];
    columns.extend(resources.iter().map(|name| column(name, "quantity", "")));
    columns.push(column("Window", "duration", ""));
    let cells = |row: &Row<'_>| {
        let mut cells = vec![json!(row.name), json!(row.cluster)];
        cells.extend(
            resources.iter().map(|name| json!(row.usage.get(*name).copied().unwrap_or(Amount::ZERO).to_string())),
        );
        cells.push(json!(go_duration(row.window)));
        cells
    };
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let object = json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": row.object["metadata"],
            });
            json!({"cells": cells(row), "object": object})
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_metadata(incomplete),
        "columnDefinitions": columns, "rows": rows,
    })
}

/// A duration as Go prints it: `15s`, `1m0.5s`, `2h0m0s`.
pub(crate) fn go_duration(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if seconds == 0 && nanos > 0 {
        let (unit, size) = match nanos {
            1_000_000.. => ("ms", 1_000_000),
            1_000.. => ("µs", 1_000),
            _ => ("ns", 1),
        };
        return format!("{}{}{unit}", nanos / size, fraction(nanos % size, size));
    }
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let mut out = String::new();
    if hours > 0 {
        out.push_str(&format!("{hours}h"));
    }
    if seconds >= 60 {
        out.push_str(&format!("{minutes}m"));
    }
    format!("{out}{}{}s", seconds % 60, fraction(nanos, 1_000_000_000))
}

/// `.5` of 500 parts in a thousand; nothing of none.
fn fraction(part: u32, whole: u32) -> String {
    if part == 0 {
        return String::new();
    }
    let width = whole.ilog10() as usize;
    format!(".{}", format!("{part:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ironclad_hpa::metrics::Merged;

    use super::*;

    #[test]
    fn windows_have_the_name_of_their_version() {
        let sample = |list: &str, group: &str| {
            format!(
                r#"{{"kind": "{list}", "apiVersion": "{group}", "items": [
            {{"describedObject": {{"kind": "Pod", "namespace": "a", "name": "p", "apiVersion": "v1"}}, "metricName": "qps",
            "metric": {{"name": "qps"}}, "metricLabels": {{}}, "timestamp": "2026-09-21T14:13:20Z", "window": 30, "value": "1"}}]}}"#
            )
        };
        let text = sample("MetricValueList", "custom.metrics.k8s.io/v1beta1");
        let answer = custom::read(text.as_bytes(), Some("a"), "qps").unwrap();
        let merged = Merged::of([("m1".into(), Ok(Arc::new(answer)))]);
        let values = custom::combine(&merged.items, custom::Merge::Sum);
        for (version, name) in [(custom::Version::V1Beta1, "window"), (custom::Version::V1Beta2, "windowSeconds")] {
            let shown = custom(&values[0], version);
            let keys = shown.as_object().unwrap().keys().map(String::as_str);
            let windows: Vec<&str> = keys.filter(|key| key.starts_with("window")).collect();
            assert_eq!((windows, &shown[name]), (vec![name], &json!(30)), "{version:?}");
        }
        let text = sample("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1");
        let answer = external::read(text.as_bytes(), "qps").unwrap();
        let merged = Merged::of([("m1".into(), Ok(Arc::new(answer)))]);
        let shown = external(&merged.items[0]);
        assert_eq!((&shown["window"], shown.get("windowSeconds")), (&json!(30), None), "{shown}");
    }

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        for (nanos, want) in [
            (0, "0s"),
            (15_000_000_000, "15s"),
            (60_000_000_000, "1m0s"),
            (60_500_000_000, "1m0.5s"),
            (3_600_000_000_000, "1h0m0s"),
            (3_661_000_000_001, "1h1m1.000000001s"),
            (1_500_000, "1.5ms"),
            (2_000, "2µs"),
            (7, "7ns"),
        ] {
            assert_eq!(go_duration(Duration::from_nanos(nanos)), want);
        }
    }
}
