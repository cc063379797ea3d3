//! Discovery: which groups, versions and resources there are, legacy and aggregated (specification/apiserver.md 4).

use std::sync::{Arc, OnceLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};

use crate::{
    aggregation::{ServedApi, apis::Aggregation, documents::AggregatedGroup},
    negotiate,
    registry::{Group, Resource, Resources},
    respond::{self, Reply, ResponseBody},
    state::State,
    status::ApiError,
};

/// The media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A document and its etag.
#[derive(Debug, Clone)]
struct Document {
    body: Bytes,
    etag: String,
}

impl Document {
    fn new(value: &Value) -> Self {
        let mut body = value.to_string();
        body.push('\n');
        let etag = hex(&Sha512::digest(body.as_bytes()));
        Self { body: body.into(), etag }
    }
}

/// Digits of a hash, upper case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02X}")).collect()
}

/// The aggregated document of `/apis` for one state of the registry and of aggregated groups.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<Option<((u64, u64), Document)>>);

fn paths(state: &State) -> Value {
    let mut out = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    let custom = state.registry.custom();
    for group in state.registry.builtin_groups().iter().skip(1).chain(&custom.groups) {
        out.push(format!("/apis/{}", group.name));
        out.extend(group.versions.iter().map(|(v, _)| format!("/apis/{}/{v}", group.name)));
    }
    for group in state.aggregation.apis().groups(|name| is_own(state, &custom.groups, name)) {
        out.push(format!("/apis/{}", group.name));
        out.extend(group.versions.iter().map(|(v, _)| format!("/apis/{}/{v}", group.name)));
    }
    out.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    out.sort();
    json!({"paths": out})
}

fn legacy_root(state: &State, path: &str) -> Value {
    if path == "/api" {
        let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}]);
        return json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses});
    }
    let custom = state.registry.custom();
    let mut groups: Vec<Value> =
        state.registry.builtin_groups().iter().skip(1).chain(&custom.groups).map(api_group).collect();
    let apis = state.aggregation.apis();
    groups.extend(apis.groups(|name| is_own(state, &custom.groups, name)).iter().map(AggregatedGroup::api_group));
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// True for a group that is served from the store, or that [`crate::Served`] announces.
fn is_own(state: &State, custom: &[Group], name: &str) -> bool {
    state.registry.builtin_groups().iter().chain(custom).any(|group| group.name == name)
}

fn api_group(group: &Group) -> Value {
    let version = |v: &str| json!({"groupVersion": format!("{}/{v}", group.name), "version": v});
    let versions: Vec<Value> = group.versions.iter().map(|(v, _)| version(v)).collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/apis/{group}`, `/apis/{group}/{version}` and `/api/v1`.
pub(crate) fn below(state: &State, path: &str, request: &HeaderMap) -> Reply {
    if let Err(error) = untransformed(request) {
        return respond::error_for(request, false, &error);
    }
    let custom = state.registry.custom();
    let groups = || state.registry.builtin_groups().iter().chain(&custom.groups);
    match path.trim_start_matches('/').split('/').collect::<Vec<_>>().as_slice() {
        ["api", "v1"] => match state.registry.builtin_groups().first().and_then(|g| g.version("v1")) {
            Some(resources) => respond::json(200, &resource_list("v1", resources)),
            None => respond::page_not_found(),
        },
        ["apis", name] => match groups().find(|g| g.name == **name && !g.name.is_empty()) {
            Some(group) => {
                let mut value = api_group(group);
                value["kind"] = json!("APIGroup");
                value["apiVersion"] = json!("v1");
                respond::json(200, &value)
            }
            None => match state.aggregation.apis().groups(|_| false).iter().find(|g| g.name == *name) {
                Some(group) => {
                    let mut value = group.api_group();
                    value["kind"] = json!("APIGroup");
                    value["apiVersion"] = json!("v1");
                    respond::json(200, &value)
                }
                None => respond::page_not_found(),
            },
        },
        ["apis", name, version] => {
            let Some(group) = groups().find(|g| g.name == **name && !g.name.is_empty()) else {
                return respond::page_not_found();
            };
            match group.version(version) {
                Some(resources) => respond::json(200, &resource_list(&format!("{name}/{version}"), resources)),
                None if custom.groups.iter().any(|g| g.name == **name) => respond::page_not_found(),
                None => respond::error(&ApiError::no_resource()),
            }
        }
        // Other versions of core are known not to be.
        ["api", _] => respond::error(&ApiError::no_resource()),
        _ => respond::page_not_found(),
    }
}

/// These lists come in one shape only.
fn untransformed(request: &HeaderMap) -> Result<(), ApiError> {
    let accept = request.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    if negotiate::plain(accept).is_some() {
        return Ok(());
    }
    let json = accept.is_some_and(|a| negotiate::clauses(a).any(|(media, _)| media == "application/json"));
    Err(if json { negotiate::unacceptable_parameters() } else { negotiate::unacceptable() })
}

fn resource_list(group_version: &str, resources: &Resources) -> Value {
    let mut list = Vec::new();
    for resource in resources.values() {
        let mut one = json!({
            "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": resource.verbs,
        });
        if !resource.short_names.is_empty() {
            one["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            one["categories"] = json!(resource.categories);
        }
        match storage_hash(resource) {
            hash if hash.is_empty() => {}
            hash => one["storageVersionHash"] = json!(hash),
        }
        list.push(one);
        for sub in &resource.subresources {
            let mut one = json!({
                "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": sub.kind, "verbs": sub.verbs,
            });
            if !sub.version.is_empty() {
                one["group"] = json!(sub.group);
                one["version"] = json!(sub.version);
            }
            list.push(one);
        }
    }
    let mut out = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": list});
    // A kube-apiserver leaves it out for core.
    if group_version.contains('/') {
        out["apiVersion"] = json!("v1");
    }
    out
}

fn storage_hash(resource: &Resource) -> String {
    if resource.is_served() {
        return String::new();
    }
    let same = |r: &&ironclad_patch::builtin::Resource| {
        r.group == resource.group && r.version == resource.version && r.resource == resource.plural
    };
    if let Some(published) = ironclad_patch::builtin::resources().iter().find(same) {
        return published.storage_version_hash.clone().unwrap_or_default();
    }
    let digest = Sha256::digest(format!("{}/{}/{}", resource.group, resource.version, resource.kind));
    STANDARD.encode(&digest[..8])
}

fn core_document(state: &State) -> &'static Document {
    static CORE: OnceLock<Document> = OnceLock::new();
    CORE.get_or_init(|| Document::new(&group_list(state.registry.builtin_groups().iter().take(1))))
}

/// The items of the built-in groups but core, made once for all servers.
fn builtin_items(state: &State) -> &'static [Value] {
    static ITEMS: OnceLock<Vec<Value>> = OnceLock::new();
    ITEMS.get_or_init(|| state.registry.builtin_groups().iter().skip(1).map(discovery_group).collect())
}

impl Cache {
    /// `/api`, `/apis` and `/`.
    pub(crate) fn root(&self, state: &State, path: &str, request: &HeaderMap) -> Reply {
        let path = path.trim_end_matches('/');
        if path.is_empty() {
            return respond::json(200, &paths(state));
        }
        match Shape::of(request) {
            Ok(Shape::Aggregated) if path == "/api" => aggregated(core_document(state).clone(), request),
            Ok(Shape::Aggregated) => aggregated(self.groups(state), request),
            Ok(Shape::Plain) => respond::json(200, &legacy_root(state, path)),
            Err(error) => respond::error_for(request, false, &error),
        }
    }

    fn groups(&self, state: &State) -> Document {
        let (custom, apis) = (state.registry.custom(), state.aggregation.apis());
        let generations = (custom.generation, apis.generation);
        let mut slot = self.0.lock();
        if let Some((of, document)) = &*slot
            && *of == generations
        {
            return document.clone();
        }
        let mut items: Vec<Value> =
            builtin_items(state).iter().cloned().chain(custom.groups.iter().map(discovery_group)).collect();
        let aggregated = apis.groups(|name| is_own(state, &custom.groups, name));
        items.extend(aggregated.iter().map(AggregatedGroup::discovery));
        let document = Document::new(&list_of(items));
        *slot = Some((generations, document.clone()));
        document
    }
}

/// Shape of the answer at the root of discovery.
enum Shape {
    /// All groups with their resources.
    Aggregated,
    /// Names and versions of groups.
    Plain,
}

impl Shape {
    fn of(request: &HeaderMap) -> Result<Self, ApiError> {
        let accept = request.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("application/json");
        let mut known_media = false;
        for (media, parameters) in negotiate::clauses(accept) {
            known_media |= media == "application/json";
            let get = |key| parameters.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
            match (media, get("g"), get("v"), get("as")) {
                ("application/json", Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) => {
                    return Ok(Self::Aggregated);
                }
                ("application/json" | "*/*", None, None, None) => return Ok(Self::Plain),
                _ => {}
            }
        }
        Err(if known_media { negotiate::unacceptable_parameters() } else { negotiate::unacceptable() })
    }
}

/// Answers `GET /apis` of a server that serves these groups and no others.
#[must_use]
pub fn served_groups(apis: Vec<ServedApi>, request: &HeaderMap) -> Response<ResponseBody> {
    let shape = match Shape::of(request) {
        Ok(shape) => shape,
        Err(error) => return respond::error_for(request, false, &error),
    };
    let aggregation = Aggregation::default();
    for api in apis {
        aggregation.announce(api);
    }
    let apis = aggregation.apis();
    let groups = apis.groups(|_| false);
    match shape {
        Shape::Aggregated => {
            let items = groups.iter().map(AggregatedGroup::discovery).collect();
            aggregated(Document::new(&list_of(items)), request)
        }
        Shape::Plain => {
            let groups: Vec<Value> = groups.iter().map(AggregatedGroup::api_group).collect();
            respond::json(200, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
    }
}

fn aggregated(document: Document, request: &HeaderMap) -> Reply {
    let etag = format!("\"{}\"", document.etag);
    let unchanged = request.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok()).is_some_and(|v| v == etag);
    let mut reply =
        if unchanged { respond::reply(304, AGGREGATED, "") } else { respond::reply(200, AGGREGATED, document.body) };
    let headers = reply.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(value) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, value);
    }
    reply
}

fn group_list<'a>(groups: impl Iterator<Item = &'a Group>) -> Value {
    list_of(groups.map(discovery_group).collect())
}

fn list_of(items: Vec<Value>) -> Value {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn discovery_group(group: &Group) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|(version, resources)| {
            let resources: Vec<Value> = resources.values().map(discovery_resource).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn discovery_resource(resource: &Arc<Resource>) -> Value {
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    // Response kinds of CRDs carry group and version, those of built-in groups omit them.
    let (group, version) = match resource.builtin() {
        None => (resource.group.as_str(), resource.version.as_str()),
        Some(_) => ("", ""),
    };
    let mut out = json!({
        "resource": resource.plural, "responseKind": kind(group, version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        out["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
    if !resource.subresources.is_empty() {
        let subs = resource.subresources.iter().map(|s| {
            let (group, version) = if s.version.is_empty() { (group, version) } else { (s.group, s.version) };
            json!({"subresource": s.name, "responseKind": kind(group, version, &s.kind), "verbs": s.verbs})
        });
        out["subresources"] = subs.collect();
    }
    out
}
