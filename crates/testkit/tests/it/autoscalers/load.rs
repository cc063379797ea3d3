//! Metrics APIs whose answers a scenario sets, for a real cluster and for a simulated one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::BoxFuture;
use http::{Request, Response};
use ironclad_apiserver::{Identity, RequestBody, ResponseBody, Route, RouteFuture, Served, ServedResource};
use ironclad_seam::Clock;
use ironclad_testkit::real::MetricsAnswers;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Value, json};

const RESOURCE: &str = "metrics.k8s.io";
const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";
/// Stands for all pods that are not named.
const OTHERS: &str = "*";

/// Quantities by container and resource.
type Containers = BTreeMap<String, BTreeMap<String, String>>;

/// Metrics of a namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Load {
    /// Usage by pod, container and resource; null for a pod without a sample.
    usage: BTreeMap<String, Option<Containers>>,
    /// Millicores that the running pods share, as behind a load balancer.
    shared: Option<i64>,
    /// Values of pods by metric and pod.
    pods: BTreeMap<String, BTreeMap<String, String>>,
    /// Values by `RESOURCE/NAME/METRIC`; `metrics/METRIC` for the namespace.
    objects: BTreeMap<String, String>,
    /// Series of external metrics.
    external: BTreeMap<String, Vec<String>>,
    /// Groups that answer 503.
    failing: BTreeSet<String>,
}

impl Load {
    /// An external metric `depth` with this value.
    pub(crate) fn queue(depth: u32) -> Self {
        let external = [("depth".to_owned(), vec![depth.to_string()])].into();
        Self { external, ..Self::default() }
    }

    /// A metric of one object, at `RESOURCE/NAME/METRIC`.
    pub(crate) fn object(place: &str, value: u32) -> Self {
        Self { objects: [(place.to_owned(), value.to_string())].into(), ..Self::default() }
    }

    /// Millicores that the running pods of the namespace share.
    pub(crate) fn shared(millicores: i64) -> Self {
        Self { shared: Some(millicores), ..Self::default() }
    }
}

/// Metrics of a cluster, by namespace. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics(Arc<Shared>);

struct Shared {
    client: Client,
    clock: Clock,
    loads: Mutex<BTreeMap<String, Load>>,
}

impl Metrics {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self(Arc::new(Shared { client, clock, loads: Mutex::default() }))
    }

    pub(crate) fn set(&self, namespace: &str, load: Load) {
        self.0.loads.lock().insert(namespace.to_owned(), load);
    }

    /// The groups that a server of a simulated cluster announces.
    pub(crate) fn groups() -> [Served; 2] {
        let group = |group, version, plural, kind| Served {
            group,
            version,
            resources: vec![ServedResource { plural, kind, namespaced: true, verbs: vec!["get", "list"] }],
        };
        [
            group(CUSTOM, "v1beta2", "pods", "MetricValueList"),
            group(EXTERNAL, "v1beta1", "depth", "ExternalMetricValueList"),
        ]
    }

    async fn respond(&self, path: &str, query: Option<&str>) -> anyhow::Result<(u16, Value)> {
        let path = percent_decode_str(path).decode_utf8()?.into_owned();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let ["apis", group, version, rest @ ..] = parts.as_slice() else { return Ok(not_found(&path)) };
        let (plural, kind) = match *group {
            RESOURCE => ("pods", "PodMetrics"),
            CUSTOM => ("pods/qps", "MetricValueList"),
            _ => ("depth", "ExternalMetricValueList"),
        };
        let ["namespaces", namespace, rest @ ..] = rest else {
            let resource =
                json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get", "list"]});
            let list = json!({"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": format!("{group}/{version}"), "resources": [resource]});
            return Ok((200, list));
        };
        let load = self.0.loads.lock().get(*namespace).cloned().unwrap_or_default();
        if load.failing.contains(*group) {
            let message = "the server is currently unable to handle the request";
            return Ok(failure(503, "ServiceUnavailable", message));
        }
        let now = self.0.clock.wall_seconds().to_string();
        match (*group, rest) {
            (RESOURCE, ["pods"]) => {
                let pods = self.selected(namespace, query).await?;
                let list = json!({"kind": "PodMetricsList", "apiVersion": format!("{group}/{version}"),
                    "metadata": {}, "items": load.usage_of(&pods, &now)});
                Ok((200, list))
            }
            (CUSTOM, ["pods", "*", metric]) => {
                let pods = self.selected(namespace, query).await?;
                let Some(values) = load.pods.get(*metric) else { return Ok(not_found(metric)) };
                let value = |pod: &Pod| {
                    let name = pod.name_any();
                    let value = values.get(&name).or_else(|| values.get(OTHERS))?;
                    Some(custom("Pod", namespace, &name, metric, value, &now))
                };
                Ok((200, list("MetricValueList", CUSTOM, version, pods.iter().filter_map(value).collect())))
            }
            (CUSTOM, [of @ .., metric]) => {
                let Some(value) = load.objects.get(&rest.join("/")) else { return Ok(not_found(metric)) };
                let (kind, name) = match of {
                    [_, name] => ("Service", *name),
                    _ => ("Namespace", *namespace),
                };
                let items = vec![custom(kind, namespace, name, metric, value, &now)];
                Ok((200, list("MetricValueList", CUSTOM, version, items)))
            }
            (EXTERNAL, [metric]) => {
                let Some(values) = load.external.get(*metric) else { return Ok(not_found(metric)) };
                let series = values.iter().enumerate().map(|(n, value)| {
                    json!({"metricName": metric, "metricLabels": {"queue": n.to_string()}, "timestamp": now, "value": value})
                });
                Ok((200, list("ExternalMetricValueList", EXTERNAL, version, series.collect())))
            }
            _ => Ok(not_found(&path)),
        }
    }

    async fn selected(&self, namespace: &str, query: Option<&str>) -> anyhow::Result<Vec<Pod>> {
        let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let selector = pairs.find(|(name, _)| *name == "labelSelector").map_or("", |(_, value)| value);
        let selector = percent_decode_str(selector).decode_utf8()?;
        let api: Api<Pod> = Api::namespaced(self.0.client.clone(), namespace);
        Ok(api.list(&ListParams::default().labels(&selector)).await?.items)
    }
}

impl Load {
    fn usage_of(&self, pods: &[Pod], now: &str) -> Vec<Value> {
        let runs = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let running = pods.iter().filter(runs).count();
        let mut items = Vec::new();
        for pod in pods.iter().filter(runs) {
            let name = pod.name_any();
            let named = self.usage.get(&name).or_else(|| self.usage.get(OTHERS));
            let each = match (named, self.shared) {
                (Some(Some(containers)), _) => json!(containers),
                (None, Some(shared)) => {
                    let part = shared / i64::try_from(running).unwrap_or(i64::MAX).max(1);
                    json!({"c": {"cpu": format!("{part}m"), "memory": "8Mi"}})
                }
                _ => continue,
            };
            let containers = each.as_object().into_iter().flatten();
            let containers: Vec<Value> =
                containers.map(|(name, usage)| json!({"name": name, "usage": usage})).collect();
            items.push(json!({
                "metadata": {"name": name, "namespace": pod.namespace(), "labels": pod.labels()},
                "timestamp": now, "window": "1s", "containers": containers,
            }));
        }
        items
    }
}

fn list(kind: &str, group: &str, version: &str, items: Vec<Value>) -> Value {
    json!({"kind": kind, "apiVersion": format!("{group}/{version}"), "metadata": {}, "items": items})
}

fn custom(kind: &str, namespace: &str, name: &str, metric: &str, value: &str, now: &str) -> Value {
    json!({
        "describedObject": {"kind": kind, "namespace": namespace, "name": name, "apiVersion": "v1"},
        "metric": {"name": metric}, "timestamp": now, "value": value,
    })
}

fn not_found(what: &str) -> (u16, Value) {
    failure(404, "NotFound", &format!("{what} is not measured"))
}

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason,
        "message": message, "code": code});
    (code, status)
}

impl MetricsAnswers for Metrics {
    fn answer<'a>(&'a self, path: &'a str, query: Option<&'a str>) -> BoxFuture<'a, anyhow::Result<(u16, Value)>> {
        Box::pin(self.respond(path, query))
    }
}

impl Route for Metrics {
    fn takes(&self, path: &str) -> bool {
        let group = path.strip_prefix("/apis/").and_then(|path| path.split('/').next()).unwrap_or_default();
        [RESOURCE, CUSTOM, EXTERNAL].contains(&group) && path.contains("/namespaces/")
    }

    fn call(&self, request: Request<RequestBody>, _: Identity) -> RouteFuture {
        let own = self.clone();
        Box::pin(async move {
            let (code, body) = match own.respond(request.uri().path(), request.uri().query()).await {
                Ok(answer) => answer,
                Err(error) => failure(500, "InternalError", &error.to_string()),
            };
            let mut response = Response::new(ResponseBody::full(body.to_string()));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
            let json = http::HeaderValue::from_static("application/json");
            response.headers_mut().insert(http::header::CONTENT_TYPE, json);
            response
        })
    }
}
