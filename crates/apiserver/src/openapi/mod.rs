//! OpenAPI v3: what kubectl validates, merges and explains by (specification/apiserver.md 5).

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use self::descriptions::Descriptions;
use crate::{
    discovery::hex,
    negotiate::{self, Format},
    registry::{Resource, Resources, group_version},
    request::Query,
    respond::{self, Reply, ResponseBody},
    state::State,
};

mod descriptions;
mod schemas;

/// A document and the hash in its address. All of them are some megabytes of text, so each is kept packed.
#[derive(Debug, Clone)]
struct Document {
    packed: Bytes,
    hash: String,
}

impl Document {
    fn new(body: &[u8]) -> Self {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        // Writing to memory never fails.
        let packed = packer.write_all(body).and_then(|()| packer.finish()).unwrap_or_default();
        Self { packed: packed.into(), hash: hex(&Sha512::digest(body)) }
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Err(error) = flate2::read::GzDecoder::new(&*self.packed).read_to_end(&mut out) {
            tracing::error!(%error, "unpacking an OpenAPI document");
        }
        out
    }
}

/// The documents by path (`api/v1`, `apis/apps/v1`), each made when first asked for; those of custom groups for one
/// state of the registry.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    custom: Mutex<(u64, BTreeMap<String, Document>)>,
    /// Those of groups that routes answer.
    published: Mutex<OpenApi>,
}

/// OpenAPI of one version of a group of which nothing is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApiVersion {
    /// API group.
    pub group: &'static str,
    /// Version in the group.
    pub version: &'static str,
    /// Paths with their operations.
    pub paths: Map<String, Value>,
    /// Schemas by name. They may refer to schemas of built-in kinds, which are added.
    pub schemas: Map<String, Value>,
}

/// The OpenAPI documents of groups of which nothing is stored. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct OpenApi(Arc<BTreeMap<String, Document>>);

impl OpenApi {
    /// Makes the documents.
    #[must_use]
    pub fn new(versions: &[OpenApiVersion]) -> Self {
        let document = |of: &OpenApiVersion| {
            let mut schemas = schemas::Schemas::new(Descriptions::get());
            of.schemas.iter().for_each(|(name, schema)| schemas.add_published(name, schema));
            (path_of(of.group, of.version), whole(of.paths.clone(), schemas))
        };
        Self(Arc::new(versions.iter().map(document).collect()))
    }

    /// Answers `GET /openapi/v3` and the paths below it for a server that serves these groups and no others.
    #[must_use]
    pub fn answer(&self, path: &str, query: Option<&str>, request: &HeaderMap) -> Option<Response<ResponseBody>> {
        let below = path.trim_end_matches('/').strip_prefix("/openapi/v3")?;
        if below.is_empty() {
            return Some(index(self.0.iter().map(|(path, document)| (path.clone(), document.hash.clone()))));
        }
        let path = below.strip_prefix('/')?;
        Some(reply(self.0.get(path).cloned(), path, &Query::parse(query), request))
    }
}

/// The documents of the built-in groups, made once for all servers.
static BUILTIN: Mutex<BTreeMap<String, Document>> = Mutex::new(BTreeMap::new());

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

impl Cache {
    /// `GET /openapi/v3`.
    pub(crate) fn index(&self, state: &State, _request: &HeaderMap) -> Reply {
        let custom = state.registry.custom();
        // Keep the texts unpacked for all documents that are built now.
        let _texts = Descriptions::get();
        let stored = state.registry.builtin_groups().iter().chain(&custom.groups);
        let stored = stored.flat_map(|group| group.versions.iter().map(|(version, _)| path_of(&group.name, version)));
        let published = self.published.lock().clone();
        let paths = stored.chain(published.0.keys().cloned());
        index(paths.filter_map(|path| {
            let hash = self.get(state, &path)?.hash;
            Some((path, hash))
        }))
    }

    /// Replaces the documents of groups that routes answer.
    pub(crate) fn publish(&self, documents: OpenApi) {
        *self.published.lock() = documents;
    }

    /// `GET /openapi/v3/{path}`.
    pub(crate) fn document(&self, state: &State, path: &str, query: &Query, request: &HeaderMap) -> Reply {
        reply(self.get(state, path), path, query, request)
    }

    fn get(&self, state: &State, path: &str) -> Option<Document> {
        let (group, version) = match path.split('/').collect::<Vec<_>>().as_slice() {
            ["api", version] => (String::new(), (*version).to_owned()),
            ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
            _ => return None,
        };
        if let Some(found) = state.registry.builtin_groups().iter().find(|g| g.name == group) {
            let resources = found.version(&version)?;
            return Some(
                BUILTIN.lock().entry(path.to_owned()).or_insert_with(|| make(&group, &version, resources)).clone(),
            );
        }
        let custom = state.registry.custom();
        if let Some(published) = self.published.lock().0.get(path).cloned() {
            // A server that a user brings instead has documents of its own.
            let is_ours = !custom.groups.iter().any(|g| g.name == group)
                && state.aggregation.apis().remote(&format!("/{path}")).is_none();
            return is_ours.then_some(published);
        }
        let mut cache = self.custom.lock();
        if cache.0 != custom.generation {
            *cache = (custom.generation, BTreeMap::new());
        }
        let resources = custom.groups.iter().find(|g| g.name == group)?.version(&version)?;
        if resources.values().all(|r| r.is_served()) {
            return None;
        }
        Some(cache.1.entry(path.to_owned()).or_insert_with(|| make(&group, &version, resources)).clone())
    }
}

/// The index of documents, by path and hash.
fn index(documents: impl Iterator<Item = (String, String)>) -> Reply {
    let url = |path: &str, hash: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
    let paths: BTreeMap<String, Value> = documents
        .map(|(path, hash)| {
            let url = url(&path, &hash);
            (path, url)
        })
        .collect();
    let mut body = json!({"paths": paths}).to_string();
    body.push('\n');
    respond::text(200, body)
}

/// A document as the client asks for it.
fn reply(document: Option<Document>, path: &str, query: &Query, request: &HeaderMap) -> Reply {
    let Some(document) = document else {
        let mut reply = respond::text(404, "");
        reply.headers_mut().remove(header::CONTENT_TYPE);
        return reply;
    };
    let accept = request.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    if !matches!(negotiate::plain(accept), Some(Format::Json)) && !speaks_proto(accept) {
        let mut reply = respond::text(406, "");
        reply.headers_mut().remove(header::CONTENT_TYPE);
        reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
        return reply;
    }
    let etag = format!("\"{}\"", document.hash);
    let mut reply = match query.text("hash") {
        Some(hash) if hash != document.hash => {
            let mut reply = respond::reply(301, "application/json", "");
            let location = format!("/openapi/v3/{path}?hash={}", document.hash);
            if let Ok(location) = HeaderValue::from_str(&location) {
                reply.headers_mut().insert(header::LOCATION, location);
            }
            if let Ok(etag) = HeaderValue::from_str(&etag) {
                reply.headers_mut().insert(header::ETAG, etag);
            }
            reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
            return reply;
        }
        _ if request.get(header::IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == etag.as_bytes()) => {
            respond::reply(304, "application/json", "")
        }
        _ => respond::reply(200, "application/json", document.body()),
    };
    if query.text("hash").is_some() {
        reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        reply.headers_mut().insert(header::ETAG, etag);
    }
    reply.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    reply
}

/// `GET /openapi/v2`: a document of the old version that describes no kind, which to clients means that they have
/// nothing to check an object by before they send it. Without it kubectl refuses every manifest of kind `List`
/// (decision 21).
pub(crate) fn swagger(request: &HeaderMap) -> Reply {
    let accept = request.get(header::ACCEPT).and_then(|v| v.to_str().ok());
    let (title, version) = ("Kubernetes", crate::health::GIT_VERSION);
    if speaks_proto(accept) {
        // gnostic's openapi.v2.Document: swagger is field 1, info field 2, paths field 8; in info title is 1, version
        // 2.
        let text = |number: u8, text: &[u8]| [&[number << 3 | 2, u8::try_from(text.len()).unwrap_or(0)], text].concat();
        let info = [text(1, title.as_bytes()), text(2, version.as_bytes())].concat();
        let document = [text(1, b"2.0"), text(2, &info), text(8, b"")].concat();
        return respond::reply(200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", document);
    }
    respond::json(200, &json!({"swagger": "2.0", "info": {"title": title, "version": version}, "paths": {}}))
}

/// Old clients ask for a protobuf document first; they read the JSON that they get.
fn speaks_proto(accept: Option<&str>) -> bool {
    accept.is_some_and(|a| {
        negotiate::clauses(a).any(|(media, _)| media.starts_with("application/com.github.proto-openapi"))
    })
}

fn make(group: &str, version: &str, resources: &Resources) -> Document {
    let mut paths = Map::new();
    let mut schemas = schemas::Schemas::new(Descriptions::get());
    for resource in resources.values() {
        if resource.verbs.contains(&"create") {
            paths.insert(format!("{}/{{name}}", collection_path(resource)), operations(resource, group, version));
        }
        schemas.add(resource);
    }
    whole(paths, schemas)
}

fn whole(paths: Map<String, Value>, schemas: schemas::Schemas) -> Document {
    let document = json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": crate::health::GIT_VERSION},
        "paths": paths, "components": {"schemas": schemas.finish()},
    });
    Document::new(document.to_string().as_bytes())
}

fn collection_path(resource: &Resource) -> String {
    let root = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        _ => format!("/apis/{}", group_version(&resource.group, &resource.version)),
    };
    let namespace = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    format!("{root}{namespace}/{}", resource.plural)
}

fn operations(resource: &Resource, group: &str, version: &str) -> Value {
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let kind = json!({"group": group, "version": version, "kind": resource.kind});
    json!({
        "patch": {
            "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": kind,
            "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation"), parameter("force")],
            "responses": {"200": {"description": "OK"}},
        },
    })
}
