//! The server: what it is opened with, and the way of a request through it.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body::Body as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use ironclad_seam::Seam;
use ironclad_store::Store;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{
    ApiError, Connects, Identity, OpenError, Options, Served, ServedApi, admission, aggregation, api_services, auth,
    bootstrap,
    context::Cx,
    crd::lifecycle,
    discovery, health,
    kinds::{self, kind::Hooks},
    negotiate::{self, Shape},
    openapi::{self, OpenApi},
    registry::Lookup,
    request::{self, Query, Verb},
    respond::{self, Reply},
    route::{RequestBody, Route},
    state::State,
    verbs::{create, delete, follow_up, modify::UpdateScope, patch, read, review, subresource, update, watch},
};

/// The most bytes of a request's body.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// A request that isn't a watch is answered within this time.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
/// The most texts in `Warning` headers, and the most characters of each.
const WARNINGS_MAX: usize = 16;
const WARNING_CHARS_MAX: usize = 256;

/// Marks the answer to a request whose client broke its body off: it counts as given up.
#[derive(Clone, Copy)]
pub(crate) struct BrokenOff;

/// An API server over a store.
pub struct Server {
    pub(crate) state: Arc<State>,
    discovery: discovery::Cache,
    openapi: openapi::Cache,
    routes: RwLock<Vec<Arc<dyn Route>>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.state.options.name).finish_non_exhaustive()
    }
}

/// The method as a label, of which there are few whatever clients send.
fn method(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

impl Server {
    /// Opens a server on a store: reads the CRDs, writes the first objects, resumes unfinished deletions.
    ///
    /// # Errors
    /// The store refuses writes, or its content can't be read.
    pub async fn open(options: Options, store: Store, seam: Seam) -> Result<Arc<Self>, OpenError> {
        let state = Arc::new(State::new(options, store, seam, kinds::groups()));
        let name = || state.options.name.clone();
        let unreadable = |e: ApiError| OpenError::Unreadable { server: name(), message: e.message };
        for crd in lifecycle::resume(&state).map_err(unreadable)? {
            follow_up::clean_up_crd(&state, crd);
        }
        if state.options.bootstrap {
            bootstrap::run(&state).await.map_err(|source| OpenError::Store { server: name(), source })?;
        }
        api_services::sync(&state).await.map_err(|source| OpenError::Store { server: name(), source })?;
        if state.options.forwarder.is_some() {
            let followed = state.clone();
            state.seam.tasks.spawn("aggregation", async move { aggregation::follow(followed).await });
        }
        let reaper = state.clone();
        state.seam.tasks.spawn("reap", async move { reap(&reaper).await });
        Ok(Arc::new(Self {
            state,
            discovery: discovery::Cache::default(),
            openapi: openapi::Cache::default(),
            routes: RwLock::default(),
        }))
    }

    /// The store behind the server.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Number of objects that were decoded for the selectors of watches since the server was opened: one for each state
    /// of an event, however many watches select by it.
    #[must_use]
    pub fn decoded_for_watches(&self) -> u64 {
        self.state.decoded_for_watches.load(Ordering::Relaxed)
    }

    /// Number of requests that were answered, by verb (the method, or `WATCH`) and code of the answer.
    #[must_use]
    pub fn answered(&self) -> BTreeMap<(&'static str, u16), u64> {
        self.state.answered.lock().clone()
    }

    /// Puts a route in front of the server; routes that were mounted earlier have precedence.
    pub fn mount(&self, route: Arc<dyn Route>) {
        self.routes.write().push(route);
    }

    /// Adds a route that takes its paths before all others that are there.
    pub fn mount_in_front(&self, route: Arc<dyn Route>) {
        self.routes.write().insert(0, route);
    }

    /// Adds a subresource that a route answers to discovery.
    ///
    /// # Errors
    /// The store's content can't be read.
    pub fn announce_subresource(&self, connects: &'static Connects) -> Result<(), ApiError> {
        self.state.registry.connect(connects);
        self.state.definitions.lock().clear();
        lifecycle::refresh_registry(&self.state)
    }

    /// Adds a group that a route answers to discovery.
    ///
    /// # Errors
    /// The store's content can't be read.
    pub fn announce(&self, served: &Served) -> Result<(), ApiError> {
        self.state.registry.announce(served.group());
        lifecycle::refresh_registry(&self.state)
    }

    /// Adds a version of a group that a route answers to discovery, or replaces its resources. APIServices with a
    /// service take precedence over the route.
    pub fn announce_api(&self, api: ServedApi) {
        let registered = api.registered;
        if self.state.aggregation.announce(api) && registered {
            let state = self.state.clone();
            self.state.seam.tasks.spawn("api-services", async move {
                if let Err(error) = api_services::sync(&state).await {
                    tracing::warn!(%error, "creating the APIService of a route");
                }
            });
        }
    }

    /// Publishes the OpenAPI documents of groups that routes answer, instead of those published before.
    pub fn publish_open_api(&self, documents: OpenApi) {
        self.openapi.publish(documents);
    }

    /// The route that answers requests of this path: APIServices with a service take precedence.
    pub(crate) fn route_of(&self, path: &str) -> Option<Arc<dyn Route>> {
        let route = self.routes.read().iter().find(|r| r.takes(path)).cloned();
        route.filter(|_| self.state.aggregation.apis().remote(path).is_none())
    }

    /// Answers a request of this user.
    ///
    /// It runs as a task of the server: dropping the future cuts nothing in half, but requests of routes, which end. A
    /// server that was killed answers with `None`.
    pub async fn handle<B>(self: &Arc<Self>, request: Request<B>, identity: Identity) -> Option<Reply>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let request = request.map(|body| body.map_err(io::Error::other).boxed_unsync());
        let route = self.route_of(request.uri().path());
        self.handle_counted(request, identity, route, None).await
    }

    /// The same. The permit is returned when the answer is complete, not when the client disconnects, because the work
    /// continues.
    pub(crate) async fn handle_counted(
        self: &Arc<Self>,
        request: Request<RequestBody>,
        identity: Identity,
        route: Option<Arc<dyn Route>>,
        permit: Option<Arc<OwnedSemaphorePermit>>,
    ) -> Option<Reply> {
        let server = self.clone();
        // Dropped with this future.
        let (_waits, gone) = oneshot::channel::<Infallible>();
        let task = self.state.seam.tasks.spawn("request", async move {
            let is_ordinary = route.is_none();
            let answer = server.answer(request, identity, route, permit);
            if is_ordinary {
                return Some(answer.await);
            }
            tokio::select! {
                biased;
                reply = answer => Some(reply),
                _ = gone => None,
            }
        });
        match task.await {
            Ok(reply) => reply,
            Err(_) if self.state.seam.tasks.is_dead() => None,
            Err(_) => Some(respond::error(&ApiError::internal("the request's handler panicked"))),
        }
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<RequestBody>,
        identity: Identity,
        route: Option<Arc<dyn Route>>,
        permit: Option<Arc<OwnedSemaphorePermit>>,
    ) -> Reply {
        let headers = request.headers().clone();
        let pretty = respond::is_pretty(&Query::parse(request.uri().query()), &headers);
        let is_watch = request.method() == Method::GET && Query::parse(request.uri().query()).flag("watch");
        let verb = if is_watch { "WATCH" } else { method(request.method()) };
        let unlimited =
            is_watch || route.is_some() || self.state.aggregation.apis().remote(request.uri().path()).is_some();
        let (server, of_request) = (self.clone(), headers.clone());
        let mut answered = Box::pin(async move {
            let _permit = permit;
            match server.route(request, identity, route).await {
                Ok(done) => done,
                Err(error) => (refusal(&of_request, pretty, &error), vec![]),
            }
        });
        let (mut reply, warnings) = if unlimited {
            answered.await
        } else {
            match tokio::time::timeout(REQUEST_TIME_MAX, &mut answered).await {
                Ok(done) => done,
                Err(_) => {
                    // The client need not wait, but a write that was begun ends with all that follows from it.
                    drop(self.state.seam.tasks.spawn("late request", answered));
                    (respond::error(&ApiError::timeout()), vec![])
                }
            }
        };
        *self.state.answered.lock().entry((verb, reply.status().as_u16())).or_default() += 1;
        respond::compress(&headers, &mut reply).await;
        self.finish(&headers, reply, &warnings)
    }

    /// Adds the headers that every answer has.
    pub(crate) fn finish(&self, request: &HeaderMap, mut reply: Reply, warnings: &[String]) -> Reply {
        let audit = match request.get("audit-id") {
            Some(given) => given.clone(),
            None => HeaderValue::from_str(&self.state.seam.rng.stream("audit").uuid())
                .unwrap_or_else(|_| HeaderValue::from_static("unknown")),
        };
        let headers = reply.headers_mut();
        headers.insert("audit-id", audit);
        if !headers.contains_key(header::CACHE_CONTROL) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
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
        request: Request<RequestBody>,
        identity: Identity,
        route: Option<Arc<dyn Route>>,
    ) -> Result<(Reply, Vec<String>), ApiError> {
        let (parts, body) = request.into_parts();
        let identity = auth::impersonated(&self.state, identity, &parts.headers)?;
        let query = Query::parse(parts.uri.query());
        let path = parts.uri.path();
        let address = request::parse_path(path);
        if route.as_ref().is_none_or(|route| !route.authorizes(path)) {
            self.authorize_address(&identity, &parts.method, path, address.as_ref(), &query)?;
        }
        if let Some(route) = route {
            let warnings = match (route.connects(), &address) {
                (Some(connects), Some(address)) => self.review_connection(&parts, address, &identity, connects).await?,
                _ => vec![],
            };
            return Ok((route.call(Request::from_parts(parts, body), identity).await, warnings));
        }
        // Whoever may not send a body can't make the server wait for it.
        let body = match tokio::time::timeout(self.state.options.bounds.body, read_body(body)).await {
            Ok(Ok(body)) => body,
            Ok(Err(error)) => {
                let mut reply = respond::error(&error);
                if error.code == 400 {
                    reply.extensions_mut().insert(BrokenOff);
                }
                return Ok((reply, vec![]));
            }
            Err(_) => return Ok((respond::error(&ApiError::timeout()), vec![])),
        };
        if let Some(api) = self.state.aggregation.apis().remote(path) {
            let request = Request::from_parts(parts, body);
            return Ok((aggregation::forward(&self.state, &api, request, &identity).await?, vec![]));
        }
        let Some(address) = address else { return Ok((self.other_path(&parts, path, &query), vec![])) };
        let verb = request::verb(&parts.method, &address, &query);
        let resource = match self.state.registry.find(&address.group, &address.version, &address.resource) {
            Lookup::Resource(resource) => resource,
            // For an unknown resource in a group of CRDs a kube-apiserver answers as for any unknown path.
            Lookup::NoResource if self.state.registry.custom().groups.iter().any(|g| g.name == address.group) => {
                return Ok((respond::page_not_found(), vec![]));
            }
            Lookup::NoResource => return Err(ApiError::no_resource()),
            Lookup::NoGroup => return Ok((respond::page_not_found(), vec![])),
        };
        if address.namespace.is_some() && !resource.namespaced {
            return Err(ApiError::no_resource());
        }
        let verb = verb.ok_or_else(ApiError::method_not_allowed)?;
        let accept = parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok());
        let mut accept = negotiate::accept(accept)?;
        if verb == Verb::Delete {
            accept.shape = Shape::Object;
        }
        let pretty = respond::is_pretty(&query, &parts.headers);
        let cx = Arc::new(Cx {
            state: self.state.clone(),
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
        if let Some(builtin) = cx.resource.builtin().filter(|builtin| !builtin.strategy.deprecated.is_empty()) {
            cx.warn(builtin.strategy.deprecated);
        }
        let reply = dispatch(&cx, &body).await;
        let warnings = std::mem::take(&mut *cx.warnings.lock());
        Ok((reply.unwrap_or_else(|e| respond::error_for(&cx.headers, pretty, &e)), warnings))
    }

    /// Reviews a connection by webhooks and policies. Returns their warnings.
    async fn review_connection(
        &self,
        parts: &http::request::Parts,
        address: &request::ResourcePath,
        identity: &Identity,
        connects: &Connects,
    ) -> Result<Vec<String>, ApiError> {
        let is_one = address.group == connects.group
            && address.resource == connects.resource
            && address.subresource.as_deref() == Some(connects.subresource);
        let found = self.state.registry.find(&address.group, &address.version, &address.resource);
        let Lookup::Resource(resource) = found else { return Ok(vec![]) };
        if !is_one || !admission::reviews_any(&self.state) {
            return Ok(vec![]);
        }
        let query = Query::parse(parts.uri.query());
        let cx = Cx {
            state: self.state.clone(),
            resource,
            path: address.clone(),
            verb: Verb::Create,
            query,
            headers: parts.headers.clone(),
            identity: identity.clone(),
            accept: negotiate::accept(None)?,
            pretty: false,
            warnings: Mutex::default(),
        };
        let path = format!("/{}", address.tail.as_deref().unwrap_or_default());
        admission::connect(&cx, connects.options, &path).await?;
        Ok(std::mem::take(&mut *cx.warnings.lock()))
    }

    /// Returns whether the user may send such a request, by its method and path alone.
    ///
    /// # Errors
    /// 403 with the reason.
    pub fn authorize(&self, identity: &Identity, method: &Method, path: &str) -> Result<(), ApiError> {
        let address = request::parse_path(path);
        self.authorize_address(identity, method, path, address.as_ref(), &Query::default())
    }

    fn authorize_address(
        &self,
        identity: &Identity,
        method: &Method,
        path: &str,
        address: Option<&request::ResourcePath>,
        query: &Query,
    ) -> Result<(), ApiError> {
        let Some(address) = address else { return auth::authorize_path(&self.state, identity, path, method) };
        auth::authorize(&self.state, identity, address, request::authorized_verb(method, address, query), query)
    }

    /// Paths that name no resource.
    fn other_path(&self, parts: &http::request::Parts, path: &str, query: &Query) -> Reply {
        let get = parts.method == Method::GET;
        match path.trim_end_matches('/') {
            "/version" if get => health::version(),
            "/healthz" | "/livez" | "/readyz" => {
                health::check(path.trim_matches('/'), query, self.state.store.refuses_writes().as_ref())
            }
            p if p.starts_with("/healthz/") || p.starts_with("/livez/") || p.starts_with("/readyz/") => {
                health::single(p, self.state.store.refuses_writes().as_ref())
            }
            "/.well-known/openid-configuration" | "/openid/v1/jwks" if get => auth::openid(&self.state, parts),
            "/openapi/v2" if get => openapi::swagger(&parts.headers),
            "/openapi/v3" if get => self.openapi.index(&self.state, &parts.headers),
            p if get && p.starts_with("/openapi/v3/") => {
                self.openapi.document(&self.state, &p["/openapi/v3/".len()..], query, &parts.headers)
            }
            "/api" | "/apis" | "" if get => self.discovery.root(&self.state, path, &parts.headers),
            p if get && (p.starts_with("/api/") || p.starts_with("/apis/")) => {
                discovery::below(&self.state, p, &parts.headers)
            }
            _ => respond::page_not_found(),
        }
    }
}

/// An error of a request that was not dispatched.
fn refusal(headers: &HeaderMap, pretty: bool, error: &ApiError) -> Reply {
    let mut reply = respond::error_for(headers, pretty, error);
    // A kube-apiserver writes refusals for the user before it negotiates types.
    if matches!(error.code, 400 | 403) {
        reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    reply
}

/// Deletes expired objects, each minute.
async fn reap(state: &State) {
    const EVERY: Duration = Duration::from_secs(60);
    loop {
        tokio::select! {
            biased;
            () = state.seam.tasks.stopping() => return,
            () = state.seam.clock.sleep(EVERY) => {}
        }
        while matches!(state.store.reap().await, Ok(1..)) {}
    }
}

/// The whole body of a request; one that says or turns out to be too large is not read to its end.
///
/// # Errors
/// 413 beyond 3 MiB, 400 if it ends too early.
pub async fn read_body(body: RequestBody) -> Result<Bytes, ApiError> {
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
        Verb::Create => match kinds::hooks(resource) {
            Hooks { binds_pod: true, .. } => subresource::binding(cx, body).await,
            Hooks { review: Some(answer), .. } => review::create(cx, body, *answer),
            _ => create::create(cx, body).await,
        },
        Verb::Get => read::get(cx).await,
        Verb::List => read::list(cx).await,
        Verb::Watch => watch::watch(cx.clone()),
        Verb::Update => update::update(cx, body, UpdateScope::Object).await,
        Verb::Patch => patch::patch(cx, body, UpdateScope::Object).await,
        Verb::Delete => delete::delete(cx, body).await,
        Verb::DeleteCollection => delete::delete_collection(cx, body).await,
    }
}
