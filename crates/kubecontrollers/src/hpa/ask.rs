//! Questions to the cluster's metrics APIs.

use std::{collections::BTreeMap, sync::Arc};

use http::Request;
use ironclad_hpa::{
    metrics::{Answer, Merged, custom, external},
    options::Options,
    pods::PodKey,
    proposal::Reading,
    readings,
    samples::{self, Usage},
    source::{Asked, Source},
    spec::Spec,
};
use ironclad_runtime::Failure;
use jiff::Timestamp;
use k8s_openapi::{
    api::autoscaling::v2::{CrossVersionObjectReference, MetricIdentifier},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{Client, core::Selector};
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::{key_of, usage};
use crate::kinds::{Kinds, discover};

/// Asks for the metrics of autoscalers.
pub(super) struct Asker {
    client: Client,
    options: Options,
    /// Resources of the server when a metric of an object was last asked for.
    kinds: Mutex<Arc<Kinds>>,
}

impl Asker {
    pub(super) fn new(client: Client, options: Options) -> Self {
        Self { client, options, kinds: Mutex::default() }
    }

    /// Reads all metrics of the spec, in its order. `selector` is that of the workload's pods.
    pub(super) async fn readings(
        &self,
        namespace: &str,
        selector: &str,
        spec: &Spec<'_>,
        now: Timestamp,
    ) -> Vec<Result<Reading, String>> {
        let sources: Vec<Result<Source<'_>, String>> =
            spec.metrics.iter().map(|of| Source::of(of, &self.options).map_err(|invalid| invalid.message)).collect();
        let usage = if sources.iter().flatten().any(|source| source.resource().is_some()) {
            self.usage(namespace, selector).await
        } else {
            Ok(BTreeMap::new())
        };
        let mut readings = Vec::with_capacity(sources.len());
        for source in sources {
            readings.push(match source {
                Ok(source) => self.reading(namespace, selector, &source, &usage, now).await,
                Err(why) => Err(why),
            });
        }
        readings
    }

    async fn reading(
        &self,
        namespace: &str,
        pods: &str,
        source: &Source<'_>,
        usage: &Result<BTreeMap<PodKey, Usage>, String>,
        now: Timestamp,
    ) -> Result<Reading, String> {
        match source.asked {
            Asked::Usage { resource, container } => {
                let usage = usage.as_ref().map_err(Clone::clone)?;
                samples::of_resource(usage, resource, container, &self.options).map(Reading::Pods)
            }
            Asked::Pods(metric) => {
                let path = format!("namespaces/{namespace}/pods/*/{}", metric.name);
                readings::of_pods(&self.custom(&path, Some(pods), metric, Some(namespace)).await?)
            }
            Asked::Object(described, metric) => {
                let (path, namespace) = self.place(namespace, described, metric).await?;
                let values = self.custom(&path, None, metric, namespace).await?;
                readings::of_object(&values, Ok(custom::Merge::default()))
            }
            Asked::External(metric) => {
                let selector = selector_of(metric.selector.as_ref())?;
                let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{}", metric.name);
                let body = self.get("external", &path, &[("labelSelector", selector.as_deref())]).await?;
                let answer = external::read(body.as_bytes(), &metric.name).map_err(|e| unable("external", &e))?;
                readings::of_external(&one(answer), Ok(external::Merge::default()), now)
            }
        }
    }

    async fn usage(&self, namespace: &str, pods: &str) -> Result<BTreeMap<PodKey, Usage>, String> {
        let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
        let body = self.get("resource", &path, &[("labelSelector", Some(pods))]).await?;
        let list: Value = serde_json::from_str(&body).map_err(|e| unable("resource", &e))?;
        let items = list["items"].as_array().into_iter().flatten();
        Ok(items.filter_map(usage::parse).map(|(name, usage)| (key_of(&name), usage)).collect())
    }

    /// Returns the path of an object's metric below the version of the API, and the namespace of its values.
    async fn place<'a>(
        &self,
        namespace: &'a str,
        described: &CrossVersionObjectReference,
        metric: &MetricIdentifier,
    ) -> Result<(String, Option<&'a str>), String> {
        let api_version = described.api_version.as_deref().unwrap_or("v1");
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let (kind, name, metric) = (&described.kind, &described.name, &metric.name);
        if group.is_empty() && kind == "Namespace" {
            // The metrics of a namespace are those of the autoscaler's own.
            return Ok((format!("namespaces/{namespace}/metrics/{metric}"), None));
        }
        let known = self.kinds.lock().clone();
        let served = match find(&known, group, kind) {
            Some(served) => Some(served),
            None => find(&*self.discover().await?, group, kind),
        };
        let (resource, namespaced) =
            served.ok_or_else(|| format!("no matches for kind \"{kind}\" in group \"{group}\""))?;
        let path = format!("{resource}/{name}/{metric}");
        Ok(match namespaced {
            true => (format!("namespaces/{namespace}/{path}"), Some(namespace)),
            false => (path, None),
        })
    }

    async fn discover(&self) -> Result<Arc<Kinds>, String> {
        let found = discover(&self.client).await.map_err(|failure| unable("custom", &failure))?;
        let found = Arc::new(found);
        *self.kinds.lock() = found.clone();
        Ok(found)
    }

    /// Asks for values of a custom metric, in the version that the server prefers.
    async fn custom(
        &self,
        path: &str,
        pods: Option<&str>,
        metric: &MetricIdentifier,
        namespace: Option<&str>,
    ) -> Result<Merged<custom::Sample>, String> {
        let known = self.kinds.lock().clone();
        let version = match version(&known) {
            Some(version) => Some(version),
            None => version(&*self.discover().await?),
        };
        let group = custom::GROUP;
        let version =
            version.ok_or_else(|| unable("custom", &format!("no custom metrics API ({group}) registered")))?;
        let path = format!("/apis/{group}/{version}/{path}");
        let selector = selector_of(metric.selector.as_ref())?;
        let query = [("labelSelector", pods), ("metricLabelSelector", selector.as_deref())];
        let body = self.get("custom", &path, &query).await?;
        custom::read(body.as_bytes(), namespace, &metric.name).map(one).map_err(|e| unable("custom", &e))
    }

    async fn get(&self, api: &str, path: &str, query: &[(&str, Option<&str>)]) -> Result<String, String> {
        let given = query.iter().filter_map(|(name, value)| value.filter(|v| !v.is_empty()).map(|v| (name, v)));
        let given: Vec<String> =
            given.map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC))).collect();
        let uri = if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) };
        let request = Request::get(uri).body(Vec::new()).map_err(|e| unable(api, &e))?;
        self.client.request_text(request).await.map_err(|error| unable(api, &Failure::from(error)))
    }
}

/// Puts the failure of a request in the words of kube-controller-manager.
fn unable(api: &str, why: &dyn std::fmt::Display) -> String {
    format!("unable to fetch metrics from {api} metrics API: {why}")
}

/// The answer of the one cluster.
fn one<T>(answer: Answer<T>) -> Merged<T> {
    Merged::of([("".into(), Ok(Arc::new(answer)))])
}

/// Returns the resource of a kind, as custom metrics name it, and true if its objects are namespaced.
fn find(kinds: &Kinds, group: &str, kind: &str) -> Option<(String, bool)> {
    let mut of_group = kinds.iter().filter(|((of, _), _)| of == group).map(|(_, kind)| kind);
    let found = of_group.find(|served| served.resource.kind == kind)?;
    Some((found.group_resource(), found.namespaced))
}

/// Returns the version of the custom metrics API that the server prefers.
fn version(kinds: &Kinds) -> Option<String> {
    let mut of_group = kinds.iter().filter(|((of, _), _)| of == custom::GROUP);
    of_group.next().map(|(_, kind)| kind.resource.version.clone())
}

fn selector_of(selector: Option<&LabelSelector>) -> Result<Option<String>, String> {
    let Some(selector) = selector else { return Ok(None) };
    let parsed = Selector::try_from(selector.clone()).map_err(|error| format!("its selector is invalid: {error}"))?;
    Ok(Some(parsed.to_string()).filter(|text| !text.is_empty()))
}
