//! The server: what it is opened with, and the way of a request through it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ironclad_seam::Seam;
use ironclad_store::{Compare, Key, Op, Revision, Store, StoreError, TxnResult};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::{
    Bounds, Identity, TokenKey, WebhookCaller,
    admission::{Admission, OWN_USER},
    auth,
    cached::Cached,
    context::Cx,
    convert::Converter,
    crd::Definition,
    discovery, health,
    negotiate::{self, Accept},
    object, openapi,
    policies::Policies,
    registry::{Found, Registry, Resource},
    request::{self, Query, ResourcePath, Verb},
    respond::{self, Reply},
    route::Route,
    status::ApiError,
    verbs::{create, delete, modify::Part, patch, read, subresource, update, watch},
    webhooks::Hooks,
};

/// The most bytes of a request's body.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// A request that isn't a watch is answered within this time.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// The most texts in `Warning` headers, and the most characters of each.
const WARNINGS_MAX: usize = 16;
const WARNING_CHARS_MAX: usize = 256;

/// What a server is opened with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server's name in logs.
    pub name: String,
    /// Refuse pods whose ServiceAccount doesn't exist, as a kube-apiserver does. Needs somebody who makes the default
    /// ServiceAccounts.
    pub service_account_admission: bool,
    /// Bearer tokens and whose they are.
    pub tokens: Vec<Token>,
    /// What signs the tokens of ServiceAccounts; without it, a key of this process.
    pub token_key: Option<TokenKey>,
    /// Make the namespaces, roles and bindings that every cluster has.
    pub bootstrap: bool,
    /// Keep an APIService for each group and version that is served: for servers that people look at.
    pub api_services: bool,
    /// Note in `metadata.managedFields` who set which field, at every write. Off, only objects that somebody applies to from
    /// the server's side are tracked: cheaper, for servers that nobody inspects.
    pub managed_fields: bool,
    /// Who carries calls to the admission webhooks of users; without anybody, such calls fail.
    pub webhooks: Option<Arc<dyn WebhookCaller>>,
    /// Who reviews writes besides the server itself.
    pub admission: Option<Arc<dyn Admission>>,
    /// Converts objects of CRDs that name a conversion webhook: it is not called, this is.
    pub converter: Option<Converter>,
    /// What clients over the network may take.
    pub bounds: Bounds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "apiserver".into(),
            service_account_admission: false,
            tokens: vec![],
            token_key: None,
            bootstrap: true,
            api_services: false,
            managed_fields: true,
            webhooks: None,
            admission: None,
            converter: None,
            bounds: Bounds::default(),
        }
    }
}

/// A bearer token.
#[derive(Clone)]
pub struct Token {
    /// The secret.
    pub token: String,
    /// Whose it is.
    pub identity: Identity,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// A server that can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store refused the first objects.
    #[error("writing the first objects of server {server}")]
    Store {
        /// The server's name.
        server: String,
        /// What the store said.
        #[source]
        source: StoreError,
    },
    /// What the store holds can't be read.
    #[error("reading the objects of server {server}: {message}; restore the data directory from a backup")]
    Unreadable {
        /// The server's name.
        server: String,
        /// What is wrong.
        message: String,
    },
}

/// An API server over a store.
pub struct Server {
    pub(crate) options: Options,
    pub(crate) store: Store,
    pub(crate) seam: Seam,
    pub(crate) registry: Registry,
    /// Woken when CRDs change what is served.
    pub(crate) registry_changed: Arc<Notify>,
    /// Held while the registry is made anew.
    pub(crate) refreshing: Mutex<()>,
    /// The CRDs as they were last read, by key.
    pub(crate) definitions: Mutex<BTreeMap<Key, Arc<Definition>>>,
    pub(crate) token_key: TokenKey,
    pub(crate) webhooks: Cached<Hooks>,
    pub(crate) policies: Cached<Policies>,
    pub(crate) rbac: auth::rbac::Cache,
    pub(crate) discovery: discovery::Cache,
    pub(crate) openapi: openapi::Cache,
    pub(crate) routes: RwLock<Vec<Arc<dyn Route>>>,
    pub(crate) me: Weak<Server>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.options.name).finish_non_exhaustive()
    }
}

impl Server {
    /// Opens a server on a store: reads the CRDs, makes the first objects, goes on with unfinished deletions.
    ///
    /// # Errors
    /// A store that takes no writes or holds what can't be read.
    pub async fn open(options: Options, store: Store, seam: Seam) -> Result<Arc<Self>, OpenError> {
        let token_key = options.token_key.clone().unwrap_or_else(|| {
            let mut secret = [0; 32];
            seam.rng.stream("token-key").fill(&mut secret);
            TokenKey::secret(&secret)
        });
        let server = Arc::new_cyclic(|me| Self {
            options,
            store,
            seam,
            registry: Registry::default(),
            registry_changed: Arc::new(Notify::new()),
            refreshing: Mutex::new(()),
            definitions: Mutex::default(),
            token_key,
            webhooks: Cached::default(),
            policies: Cached::default(),
            rbac: auth::rbac::Cache::default(),
            discovery: discovery::Cache::default(),
            openapi: openapi::Cache::default(),
            routes: RwLock::default(),
            me: me.clone(),
        });
        let name = || server.options.name.clone();
        server.resume_crds().map_err(|e| OpenError::Unreadable { server: name(), message: e.message })?;
        if server.options.bootstrap {
            server.bootstrap().await.map_err(|source| OpenError::Store { server: name(), source })?;
        }
        server.settle_api_services().await.map_err(|source| OpenError::Store { server: name(), source })?;
        let reaper = server.clone();
        server.seam.tasks.spawn("reap", async move { reaper.reap().await });
        Ok(server)
    }

    async fn bootstrap(&self) -> Result<(), StoreError> {
        let Some(resource) = Registry::builtin("", "namespaces") else { return Ok(()) };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let key = resource.key("", name);
            if self.store.get(&key).is_some() {
                continue;
            }
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {
                    "name": name, "uid": self.uid(), "creationTimestamp": self.now(),
                    "labels": {"kubernetes.io/metadata.name": name},
                },
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            let put = Op::put(key.as_str(), object::encode(&namespace));
            self.store.txn(vec![Compare::absent(key)], vec![put]).await?;
        }
        self.bootstrap_rbac().await
    }

    /// Deletes what has expired, each minute.
    async fn reap(&self) {
        const EVERY: Duration = Duration::from_secs(60);
        loop {
            tokio::select! {
                biased;
                () = self.seam.tasks.stopping() => return,
                () = self.seam.clock.sleep(EVERY) => {}
            }
            while matches!(self.store.reap().await, Ok(1..)) {}
        }
    }

    /// The store behind the server.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The wall clock in whole seconds, as metadata carries it.
    pub(crate) fn now(&self) -> String {
        self.seam.clock.wall_seconds().to_string()
    }

    pub(crate) fn uid(&self) -> String {
        self.seam.rng.uuid()
    }

    /// Five letters for generateName.
    pub(crate) fn suffix(&self) -> String {
        self.seam.rng.stream("names").suffix(5)
    }

    pub(crate) fn set_revision(&self, value: &mut Value, revision: Revision) {
        object::metadata_mut(value).insert("resourceVersion".into(), json!(revision.to_string()));
    }

    pub(crate) async fn txn(&self, compares: Vec<Compare>, ops: Vec<Op>) -> Result<TxnResult, ApiError> {
        self.store.txn(compares, ops).await.map_err(|e| match e {
            StoreError::ValueTooLarge { .. } => ApiError::unclassified("etcdserver: request is too large"),
            StoreError::Closed => ApiError::new(503, "ServiceUnavailable", e.to_string()),
            StoreError::ReadOnly { .. } => ApiError::internal(health::chain(&e)),
            other => ApiError::internal(other),
        })
    }

    /// True while this very version of a resource is served.
    pub(crate) fn still_served(&self, resource: &Resource) -> bool {
        let Some(custom) = resource.custom() else { return true };
        match self.registry.find(&resource.group, &resource.version, &resource.plural) {
            Found::Resource(now) => now.custom().is_some_and(|c| c.identity == custom.identity || c.terminating),
            _ => false,
        }
    }

    /// A request of the server to itself.
    pub(crate) fn own_request(&self, resource: Arc<Resource>) -> Option<Cx> {
        let path = ResourcePath {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            ..ResourcePath::default()
        };
        Some(Cx {
            server: self.me.upgrade()?,
            resource,
            path,
            verb: Verb::DeleteCollection,
            query: Query::default(),
            headers: HeaderMap::new(),
            identity: Identity::admin(OWN_USER),
            accept: Accept::JSON,
            pretty: false,
            warnings: Mutex::default(),
        })
    }

    /// Answers a request of this user.
    ///
    /// It runs as a task of the server: dropping the future cuts nothing in half. A server that was killed answers
    /// with `None`.
    pub async fn handle<B>(self: &Arc<Self>, request: Request<B>, identity: Identity) -> Option<Reply>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let body = read_body(body).await;
        self.handle_read(parts, body, identity, None).await
    }

    /// Answers a request whose body was read, or could not be. Its permit is given back when the answer is made, not when
    /// somebody stops waiting for it: the work goes on all the same.
    pub(crate) async fn handle_read(
        self: &Arc<Self>,
        parts: http::request::Parts,
        body: Result<Bytes, ApiError>,
        identity: Identity,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<Reply> {
        let server = self.clone();
        let task = self.seam.tasks.spawn("request", async move {
            let _permit = permit;
            match body {
                Ok(body) => server.answer(Request::from_parts(parts, body), identity).await,
                Err(error) => server.finish(&parts.headers, respond::error(&error), &[]),
            }
        });
        match task.await {
            Ok(reply) => Some(reply),
            Err(_) if self.seam.tasks.is_dead() => None,
            Err(_) => Some(respond::error(&ApiError::internal("the request's handler panicked"))),
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Bytes>, identity: Identity) -> Reply {
        let headers = request.headers().clone();
        let pretty = respond::is_pretty(&Query::parse(request.uri().query()), &headers);
        let unlimited = self.route_of(request.uri().path()).is_some()
            || (Query::parse(request.uri().query()).flag("watch") && request.method() == Method::GET);
        let answered = async {
            match self.route(request, identity).await {
                Ok(done) => done,
                Err(error) => {
                    let mut reply = respond::error_for(&headers, pretty, &error);
                    // What is refused for who asks is written before anything looks at types.
                    if matches!(error.code, 400 | 403) {
                        let nosniff = HeaderValue::from_static("nosniff");
                        reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
                    }
                    (reply, vec![])
                }
            }
        };
        let (reply, warnings) = if unlimited {
            answered.await
        } else {
            match tokio::time::timeout(REQUEST_TIME_MAX, answered).await {
                Ok(done) => done,
                Err(_) => (respond::error(&ApiError::timeout()), vec![]),
            }
        };
        self.finish(&headers, reply, &warnings)
    }

    /// Adds the headers that every answer has.
    pub(crate) fn finish(&self, request: &HeaderMap, mut reply: Reply, warnings: &[String]) -> Reply {
        let audit = match request.get("audit-id") {
            Some(given) => given.clone(),
            None => HeaderValue::from_str(&self.seam.rng.stream("audit").uuid())
                .unwrap_or_else(|_| HeaderValue::from_static("unknown")),
        };
        let compressed = respond::compress(request, &mut reply);
        let headers = reply.headers_mut();
        headers.insert("audit-id", audit);
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        }
        if compressed {
            headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        for text in warnings.iter().take(WARNINGS_MAX) {
            let text: String = text.chars().take(WARNING_CHARS_MAX).collect();
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                headers.append(header::WARNING, value);
            }
        }
        reply
    }

    async fn route(
        self: &Arc<Self>,
        request: Request<Bytes>,
        identity: Identity,
    ) -> Result<(Reply, Vec<String>), ApiError> {
        let (parts, body) = request.into_parts();
        let identity = auth::impersonated(self, identity, &parts.headers)?;
        let query = Query::parse(parts.uri.query());
        let path = parts.uri.path();
        let route = self.route_of(path);
        let Some(address) = request::parse_path(path) else {
            auth::authorize_path(self, &identity, path, &parts.method)?;
            if let Some(route) = route {
                return Ok((route.call(Request::from_parts(parts, body), identity).await, vec![]));
            }
            return Ok((self.other_path(&parts, path, &query), vec![]));
        };
        let verb = request::verb(&parts.method, &address, &query);
        auth::authorize(self, &identity, &address, verb, &query)?;
        if let Some(route) = route {
            return Ok((route.call(Request::from_parts(parts, body), identity).await, vec![]));
        }
        let resource = match self.registry.find(&address.group, &address.version, &address.resource) {
            Found::Resource(resource) => resource,
            // Of a group of CRDs, a kube-apiserver knows no more than of any path.
            Found::NoResource if self.registry.custom().groups.iter().any(|g| g.name == address.group) => {
                return Ok((respond::page_not_found(), vec![]));
            }
            Found::NoResource => return Err(ApiError::no_resource()),
            Found::NoGroup => return Ok((respond::page_not_found(), vec![])),
        };
        if address.namespace.is_some() && !resource.namespaced {
            return Err(ApiError::no_resource());
        }
        let verb = verb.ok_or_else(ApiError::method_not_allowed)?;
        let accept = parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
        let mut accept = negotiate::accept(accept)?;
        if verb == Verb::Delete {
            accept.shape = negotiate::Shape::Object;
        }
        let pretty = respond::is_pretty(&query, &parts.headers);
        let cx = Arc::new(Cx {
            server: self.clone(),
            resource,
            path: address,
            verb,
            query,
            headers: parts.headers,
            identity,
            accept,
            pretty,
            warnings: Mutex::default(),
        });
        if let Some(text) = cx.resource.custom().and_then(|c| c.deprecated.clone()) {
            cx.warn(text);
        }
        if cx.resource.is("", "Endpoints") {
            cx.warn("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
        } else if cx.resource.is("", "ComponentStatus") {
            cx.warn("v1 ComponentStatus is deprecated in v1.19+");
        }
        let reply = dispatch(&cx, &body).await;
        let warnings = std::mem::take(&mut *cx.warnings.lock());
        Ok((reply.unwrap_or_else(|e| respond::error_for(&cx.headers, pretty, &e)), warnings))
    }

    /// Paths that name no resource.
    fn other_path(&self, parts: &http::request::Parts, path: &str, query: &Query) -> Reply {
        let get = parts.method == Method::GET;
        match path.trim_end_matches('/') {
            "/version" if get => health::version(),
            "/healthz" | "/livez" | "/readyz" => {
                health::check(path.trim_matches('/'), query, self.store.refuses_writes().as_ref())
            }
            p if p.starts_with("/healthz/") || p.starts_with("/livez/") || p.starts_with("/readyz/") => {
                health::single(p, self.store.refuses_writes().as_ref())
            }
            "/.well-known/openid-configuration" | "/openid/v1/jwks" if get => auth::openid(self, parts),
            "/openapi/v2" if get => openapi::swagger(&parts.headers),
            "/openapi/v3" if get => self.openapi.index(self, &parts.headers),
            p if get && p.starts_with("/openapi/v3/") => {
                self.openapi.document(self, &p["/openapi/v3/".len()..], query, &parts.headers)
            }
            "/api" | "/apis" | "" if get => discovery::root(self, path, &parts.headers),
            p if get && (p.starts_with("/api/") || p.starts_with("/apis/")) => {
                discovery::below(self, p, &parts.headers)
            }
            _ => respond::page_not_found(),
        }
    }
}

/// The whole body of a request; one that says or turns out to be too large is not read to its end.
pub(crate) async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let too_large = || ApiError::too_large(format!("Request entity too large: limit is {BODY_BYTES_MAX}"));
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(e) if e.downcast_ref::<LengthLimitError>().is_some() => Err(too_large()),
        Err(e) => Err(ApiError::bad_request(format!("the body of the request could not be read: {e}"))),
    }
}

async fn dispatch(cx: &Arc<Cx>, body: &[u8]) -> Result<Reply, ApiError> {
    let resource = &*cx.resource;
    if cx.path.subresource.is_some() {
        return subresource::handle(cx, body).await;
    }
    if !resource.verbs.contains(&cx.verb.as_str()) {
        return Err(ApiError::method_not_allowed());
    }
    if resource.namespaced && cx.namespace().is_none() && !matches!(cx.verb, Verb::List | Verb::Watch) {
        return Err(ApiError::method_not_allowed());
    }
    match cx.verb {
        Verb::Create if resource.kind == "Binding" && resource.group.is_empty() => subresource::binding(cx, body).await,
        Verb::Create if create::is_review(resource) => auth::review(cx, body),
        Verb::Create => create::create(cx, body).await,
        Verb::Get => read::get(cx).await,
        Verb::List => read::list(cx).await,
        Verb::Watch => watch::watch(cx.clone()),
        Verb::Update => update::update(cx, body, Part::Main).await,
        Verb::Patch => patch::patch(cx, body, Part::Main).await,
        Verb::Delete => delete::delete(cx, body).await,
        Verb::DeleteCollection => delete::delete_collection(cx, body).await,
    }
}
