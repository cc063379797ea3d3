//! Answers to requests for metrics, whoever carries them.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use ironclad_apiserver::{ApiError, ApiResource, OpenApi, ResponseBody, ServedApi, served_groups};
use ironclad_hpa::metrics::{
    Merged, OfCluster, custom, external,
    resource::{NodeSample, PodSample},
};
use ironclad_membermetrics::{CustomQuery, ExternalQuery, Fleet, Member, MetricResources, Observed};
use ironclad_patch::selector::LabelSelector;
use serde_json::Value;

use super::{
    address::{Address, Group},
    discovery, open_api, render,
};

/// The most texts in `Warning` headers, and the most characters of each.
const WARNINGS_MAX: usize = 16;
const WARNING_CHARS_MAX: usize = 256;

/// Options of the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsOptions {
    /// Serve `external.metrics.k8s.io`: gate `FederatedHPAExternalMetrics`.
    pub external: bool,
}

/// The metrics APIs over all members. Cheap to clone.
#[derive(Clone)]
pub struct MetricsAdapter {
    fleet: Arc<Fleet>,
    options: MetricsOptions,
    open_api: Arc<OnceLock<OpenApi>>,
}

/// An answer, with what the client is warned of.
struct Answered {
    body: Value,
    warnings: Vec<String>,
}

impl From<Value> for Answered {
    fn from(body: Value) -> Self {
        Self { body, warnings: Vec::new() }
    }
}

/// The query of a request.
struct Query(Vec<(String, String)>);

impl MetricsAdapter {
    /// Answers with the metrics of these members.
    #[must_use]
    pub fn new(fleet: Arc<Fleet>, options: MetricsOptions) -> Self {
        Self { fleet, options, open_api: Arc::default() }
    }

    /// Metrics of the requests to members.
    #[must_use]
    pub fn observed(&self) -> Observed {
        self.fleet.metrics().observed()
    }

    /// The groups that are served.
    pub(crate) fn groups(&self) -> Vec<Group> {
        Group::ALL.into_iter().filter(|group| *group != Group::External || self.options.external).collect()
    }

    /// OpenAPI documents of the groups that are served.
    pub(crate) fn open_api(&self) -> &OpenApi {
        self.open_api.get_or_init(|| open_api::documents(&self.groups()))
    }

    /// The groups with their present resources, as a server announces them.
    pub(crate) async fn apis(&self) -> Vec<ServedApi> {
        let groups = self.groups().into_iter().map(|group| async move {
            let (resources, _) = self.resources(group).await;
            discovery::served(group, &resources)
        });
        join_all(groups).await.into_iter().flatten().collect()
    }

    /// Answers a request that was authorized.
    pub(crate) async fn answer(&self, request: &Request<Bytes>) -> Response<ResponseBody> {
        let (uri, headers) = (request.uri(), request.headers());
        if request.method() == Method::GET {
            if let Some(document) = self.open_api().answer(uri.path(), uri.query(), headers) {
                return document;
            }
            if Address::of(uri.path()) == Some(Address::Groups) {
                return served_groups(self.apis().await, headers);
            }
        }
        let answered = match Address::of(request.uri().path()) {
            Some(address) if address.group().is_none_or(|group| self.groups().contains(&group)) => {
                self.answer_address(request, address).await
            }
            _ => Err(ApiError::no_resource()),
        };
        match answered {
            Ok(Answered { body, warnings }) => respond(200, &body, &warnings),
            Err(error) => respond(error.code, &error.status(), &[]),
        }
    }

    async fn answer_address(&self, request: &Request<Bytes>, address: Address) -> Result<Answered, ApiError> {
        let query = Query::of(request.uri().query());
        if request.method() != Method::GET || query.flag("watch") {
            return Err(ApiError::method_not_allowed());
        }
        let accept = request.headers().get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let table = wants_table(accept);
        match address {
            Address::Groups => Err(ApiError::method_not_allowed()),
            Address::Group(group) => Ok(discovery::group(group).into()),
            Address::Resources(group, version) => {
                let (resources, warnings) = self.resources(group).await;
                Ok(Answered { body: discovery::resources(group, version, &resources), warnings })
            }
            Address::Pods { namespace } => self.pods(namespace.as_deref(), &query, table).await,
            Address::Pod { namespace, name } => self.pod(&namespace, &name, &query, table).await,
            Address::Nodes => self.nodes(&query, table).await,
            Address::Node { name } => self.node(&name, &query, table).await,
            Address::Custom { version, namespace, resource, name, metric } => {
                let asked = CustomQuery {
                    labels: name.is_none().then(|| query.text("labelSelector")).flatten(),
                    metric_labels: query.text("metricLabelSelector"),
                    namespace,
                    resource,
                    name,
                    metric,
                };
                self.custom(&asked, version, &query).await
            }
            Address::External { namespace, metric } => {
                let asked = ExternalQuery { namespace, metric, labels: query.text("labelSelector") };
                self.external(&asked, &query).await
            }
        }
    }

    /// The resources of a group as discovery lists them, and warnings.
    pub(crate) async fn resources(&self, group: Group) -> (Vec<ApiResource>, Vec<String>) {
        let metrics = self.fleet.metrics();
        let found = match group {
            Group::Resource => return (discovery::resource_metrics(), Vec::new()),
            Group::Custom => metrics.custom_metrics(&self.fleet.serving(group.name())).await,
            Group::External => metrics.external_metrics(&self.fleet.serving(group.name())).await,
        };
        let MetricResources { all, failed } = found;
        let warnings = failed.iter().map(|(cluster, why)| format!("no metrics of cluster {cluster}: {why}"));
        (discovery::metrics(group, &all), warnings.collect())
    }

    async fn pods(&self, namespace: Option<&str>, query: &Query, table: bool) -> Result<Answered, ApiError> {
        let (labels, fields) = (query.labels()?, query.fields(&["metadata.name", "metadata.namespace"])?);
        let namespace = namespace.or(fields.namespace.as_deref());
        let members = self.chosen(self.fleet.with_pods(namespace, &labels), query)?;
        let metrics = self.fleet.metrics();
        let mut merged = metrics.pods(&members, namespace, query.text("labelSelector").as_deref()).await;
        merged.items.retain(|pod| {
            fields.name.as_ref().is_none_or(|name| *name == pod.sample.name)
                && fields.namespace.as_ref().is_none_or(|namespace| *namespace == pod.sample.namespace)
        });
        Ok(of_pods(&merged, table))
    }

    async fn pod(&self, namespace: &str, name: &str, query: &Query, table: bool) -> Result<Answered, ApiError> {
        let members = self.chosen(self.fleet.with_pod(namespace, name), query)?;
        let merged = self.fleet.metrics().pod(&members, namespace, name).await;
        let missing = || ApiError::not_found("pods", "metrics.k8s.io", &format!("{namespace}/{name}"));
        let found = only(&merged, "pods", name, missing)?;
        let body = match table {
            true => render::pod_table(std::slice::from_ref(found), None),
            false => render::whole(render::pod(found), "PodMetrics"),
        };
        Ok(Answered { body, warnings: merged.warnings() })
    }

    async fn nodes(&self, query: &Query, table: bool) -> Result<Answered, ApiError> {
        let (labels, fields) = (query.labels()?, query.fields(&["metadata.name"])?);
        let members = self.chosen(self.fleet.with_nodes(&labels), query)?;
        let mut merged = self.fleet.metrics().nodes(&members, query.text("labelSelector").as_deref()).await;
        merged.items.retain(|node| fields.name.as_ref().is_none_or(|name| *name == node.sample.name));
        Ok(of_nodes(&merged, table))
    }

    async fn node(&self, name: &str, query: &Query, table: bool) -> Result<Answered, ApiError> {
        let members = self.chosen(self.fleet.with_node(name), query)?;
        let merged = self.fleet.metrics().node(&members, name).await;
        let missing = || ApiError::not_found("nodes", "metrics.k8s.io", name);
        let found = only(&merged, "nodes", name, missing)?;
        let body = match table {
            true => render::node_table(std::slice::from_ref(found), None),
            false => render::whole(render::node(found), "NodeMetrics"),
        };
        Ok(Answered { body, warnings: merged.warnings() })
    }

    async fn custom(&self, asked: &CustomQuery, version: custom::Version, query: &Query) -> Result<Answered, ApiError> {
        query.labels()?;
        let members = self.chosen(self.fleet.members(), query)?;
        let merged = self.fleet.metrics().custom(&members, asked).await;
        let values = custom::combine(&merged.items, custom::Merge::Sum);
        if values.is_empty() {
            let of = match &asked.name {
                Some(name) => format!("{} {name}", asked.resource),
                None => asked.resource.clone(),
            };
            return Err(nothing(&merged, format!("the server could not find the metric {} for {of}", asked.metric)));
        }
        let items = values.iter().map(|value| render::custom(value, version)).collect();
        let api_version = format!("{}/{}", custom::GROUP, version.as_str());
        let body = render::list("MetricValueList", &api_version, merged.incomplete().as_deref(), items);
        Ok(Answered { body, warnings: merged.warnings() })
    }

    async fn external(&self, asked: &ExternalQuery, query: &Query) -> Result<Answered, ApiError> {
        query.labels()?;
        let members = self.chosen(self.fleet.members(), query)?;
        let merged = self.fleet.metrics().external(&members, asked).await;
        let series = external::select(&merged.items, external::Merge::Freshest, self.fleet.clock().wall());
        if series.is_empty() && !merged.failed.is_empty() {
            return Err(nothing(&merged, format!("external metric {} has no values", asked.metric)));
        }
        let items = series.iter().map(render::external).collect();
        let api_version = format!("{}/{}", external::GROUP, external::VERSION);
        let body = render::list("ExternalMetricValueList", &api_version, merged.incomplete().as_deref(), items);
        Ok(Answered { body, warnings: merged.warnings() })
    }

    /// Those of the members that the request names by `cluster`, or all.
    fn chosen(&self, mut members: Vec<Member>, query: &Query) -> Result<Vec<Member>, ApiError> {
        let Some(named) = query.text("cluster") else { return Ok(members) };
        let named: BTreeSet<&str> = named.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let known = self.fleet.members();
        if let Some(unknown) = named.iter().find(|name| !known.iter().any(|member| *member.name.0 == ***name)) {
            return Err(ApiError::not_found("clusters", "cluster.karmada.io", unknown));
        }
        members.retain(|member| named.contains(&*member.name.0));
        Ok(members)
    }
}

fn of_pods(merged: &Merged<PodSample>, table: bool) -> Answered {
    let incomplete = merged.incomplete();
    let body = match table {
        true => render::pod_table(&merged.items, incomplete.as_deref()),
        false => {
            let items = merged.items.iter().map(render::pod).collect();
            render::list("PodMetricsList", "metrics.k8s.io/v1beta1", incomplete.as_deref(), items)
        }
    };
    Answered { body, warnings: merged.warnings() }
}

fn of_nodes(merged: &Merged<NodeSample>, table: bool) -> Answered {
    let incomplete = merged.incomplete();
    let body = match table {
        true => render::node_table(&merged.items, incomplete.as_deref()),
        false => {
            let items = merged.items.iter().map(render::node).collect();
            render::list("NodeMetricsList", "metrics.k8s.io/v1beta1", incomplete.as_deref(), items)
        }
    };
    Answered { body, warnings: merged.warnings() }
}

/// The one measurement of this name. Several clusters may have an object of the name.
fn only<'a, T>(
    merged: &'a Merged<T>,
    resource: &str,
    name: &str,
    missing: impl FnOnce() -> ApiError,
) -> Result<&'a OfCluster<T>, ApiError> {
    match merged.items.as_slice() {
        [one] => Ok(one),
        [] => {
            let mut error = missing();
            if let Some(silent) = merged.incomplete() {
                error.message = format!("{}, and these clusters did not answer: {silent}", error.message);
            }
            Err(error)
        }
        several => {
            let clusters: Vec<&str> = several.iter().map(|one| &*one.cluster).collect();
            let why = format!(
                "found in more than one clusters: {}; name one with the query parameter cluster",
                clusters.join(", ")
            );
            Err(ApiError::conflict(resource, "metrics.k8s.io", name, &why))
        }
    }
}

/// The error where no member has a value: 404 if all answered, else 503, since nobody knows.
fn nothing<T>(merged: &Merged<T>, what: String) -> ApiError {
    match merged.incomplete() {
        None => ApiError::new(404, "NotFound", what),
        Some(silent) => {
            ApiError::new(503, "ServiceUnavailable", format!("{what}, and these clusters did not answer: {silent}"))
        }
    }
}

/// True if the client prefers a Table.
fn wants_table(accept: &str) -> bool {
    let first = accept.split(',').map(str::trim).find(|clause| {
        let media = clause.split(';').next().unwrap_or_default().trim();
        matches!(media, "application/json" | "*/*")
    });
    first.is_some_and(|clause| {
        let has = |parameter: &str| clause.split(';').any(|part| part.trim() == parameter);
        has("as=Table") && (has("v=v1") || !clause.contains("v="))
    })
}

/// Exact matches of a field selector.
#[derive(Debug, Default, PartialEq, Eq)]
struct Fields {
    name: Option<String>,
    namespace: Option<String>,
}

impl Query {
    fn of(text: Option<&str>) -> Self {
        let decoded =
            |s: &str| percent_encoding::percent_decode_str(&s.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = text.unwrap_or_default().split('&').filter(|p| !p.is_empty());
        Self(pairs.map(|p| p.split_once('=').unwrap_or((p, ""))).map(|(k, v)| (decoded(k), decoded(v))).collect())
    }

    fn text(&self, key: &str) -> Option<String> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone()).filter(|v| !v.is_empty())
    }

    fn flag(&self, key: &str) -> bool {
        self.text(key).is_some_and(|value| value != "false" && value != "0")
    }

    fn labels(&self) -> Result<LabelSelector, ApiError> {
        let text = self.text("labelSelector").unwrap_or_default();
        LabelSelector::parse(&text).map_err(|e| ApiError::bad_request(format!("unable to parse requirement: {e}")))
    }

    fn fields(&self, known: &[&str]) -> Result<Fields, ApiError> {
        let mut fields = Fields::default();
        let text = self.text("fieldSelector").unwrap_or_default();
        for term in text.split(',').filter(|term| !term.is_empty()) {
            let (field, value) = term.split_once('=').unwrap_or((term, ""));
            let value = value.trim_start_matches('=').to_owned();
            match field {
                "metadata.name" if known.contains(&field) => fields.name = Some(value),
                "metadata.namespace" if known.contains(&field) => fields.namespace = Some(value),
                _ => return Err(ApiError::bad_request(format!("field label not supported: {field}"))),
            }
        }
        Ok(fields)
    }
}

fn respond(code: u16, body: &Value, warnings: &[String]) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body.to_string() + "\n"));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for text in warnings.iter().take(WARNINGS_MAX) {
        let text: String = text.chars().filter(|c| !c.is_control()).take(WARNING_CHARS_MAX).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            headers.append(header::WARNING, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_for_clients_that_prefer_them() {
        for (accept, want) in [
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", true),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io", false),
            ("application/vnd.kubernetes.protobuf,application/json", false),
            ("application/json, */*", false),
            ("", false),
        ] {
            assert_eq!(wants_table(accept), want, "{accept}");
        }
    }

    #[test]
    fn field_selectors_name_objects() {
        let fields = |text: &str| Query::of(Some(&format!("fieldSelector={text}"))).fields(&["metadata.name"]);
        assert_eq!(fields("metadata.name%3Da").unwrap(), Fields { name: Some("a".into()), namespace: None });
        assert_eq!(fields("metadata.name%3D%3Da").unwrap().name, Some("a".into()));
        for refused in ["metadata.namespace%3Da", "spec.x%3D1", "a"] {
            let error = fields(refused).unwrap_err();
            assert_eq!(error.code, 400, "{refused}");
        }
        assert!(Query::of(Some("labelSelector=a%3D%3D%3D")).labels().is_err());
    }
}
