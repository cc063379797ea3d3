//! The group behind a kube-apiserver.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use ironclad_admission::stored::{served_text, stored_path};
use ironclad_api::cluster::{GROUP_VERSION, STORED_GROUP_VERSION, STORED_USERS};
use ironclad_apiserver::{ApiError, RequestBody, ResponseBody, Route as _, extra_key, passed_on, read_body};
use ironclad_runtime::Tunnels;
use ironclad_seam::{Clock, Seam};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::BoxError;

use super::backed::send;
use crate::{
    CertificateExpiry,
    admission::WebhookError,
    aggregated::{
        self, AggregatedApi, Registration, Sender, ServedVersion, ServerNames, ServerService, delegated::User, failure,
    },
    proxy::{CONNECTS, ClusterProxy, ProxyObserved},
};

const GROUP: &str = "cluster.karmada.io";
const VERSION: &str = "v1alpha1";
const DOCUMENTS: &str = "/openapi/v3";
/// Interval between looks whether the kube-apiserver's documents have changed, and until it has one at all.
const DOCUMENT_CHECK: Duration = Duration::from_secs(30);
const DOCUMENT_WAIT: Duration = Duration::from_secs(1);

/// Parts of the server of the group.
pub struct ClusterServer {
    /// A client that sees Clusters as they are stored, with all their fields.
    pub stored: Client,
    /// A client that sees them as they are served ([`super::of_stored`]).
    pub served: Client,
    pub listener: TcpListener,
    pub service: ServerService,
    pub tunnels: Tunnels,
    pub observed: ProxyObserved,
    pub expiry: CertificateExpiry,
    /// True once Clusters are stored, and while this process leads.
    pub registers: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Serves the group, which the leader registers once Clusters are stored. Certificates and registration are maintained
/// until the tasks are stopped.
///
/// # Errors
/// The control plane rejects the Secret, the Service or the APIService.
pub async fn serve_clusters(server: ClusterServer, seam: &Seam) -> Result<Registration, WebhookError> {
    let ClusterServer { stored, served, listener, service, tunnels, observed, expiry, registers } = server;
    let rights = crate::proxy::asked(served.clone(), seam).await.map_err(WebhookError::Certificate)?;
    let proxy = ClusterProxy::new(served.clone(), rights, seam, tunnels, observed);
    let clusters = Clusters(Arc::new(Shared { stored, proxy, registers, document: Mutex::default() }));
    let (keeper, clock, tasks) = (clusters.clone(), seam.clock.clone(), seam.tasks.clone());
    seam.tasks.spawn("openapi", async move {
        tokio::select! {
            biased;
            () = tasks.stopping() => {}
            () = keeper.follow_document(&clock) => {}
        }
    });
    aggregated::serve(served, listener, Arc::new(clusters), service, &expiry, seam).await
}

#[derive(Clone)]
struct Clusters(Arc<Shared>);

struct Shared {
    stored: Client,
    proxy: ClusterProxy,
    registers: Box<dyn Fn() -> bool + Send + Sync>,
    document: Mutex<Option<Document>>,
}

/// A document of OpenAPI about served Clusters.
#[derive(Clone)]
struct Document {
    /// Its entry in the index, with a hash.
    entry: Value,
    text: Bytes,
}

impl AggregatedApi for Clusters {
    fn names(&self) -> ServerNames {
        ServerNames {
            server: "ironclad-clusters",
            secret: "ironclad-clusters-certificates",
            authority: "ironclad-clusters-ca",
            flag: "--clusters-service",
        }
    }

    fn versions(&self) -> Vec<ServedVersion> {
        vec![ServedVersion { group: GROUP, version: VERSION, priority: (2000, 10) }]
    }

    fn registers(&self) -> bool {
        (self.0.registers)()
    }

    fn answer(&self, request: Request<RequestBody>, by: Sender) -> BoxFuture<'static, Response<ResponseBody>> {
        let this = self.clone();
        Box::pin(async move {
            let Sender::Client(user) = by else { return failure(&ApiError::no_resource()) };
            if this.0.proxy.takes(request.uri().path()) {
                return this.0.proxy.call(request, user.into()).await;
            }
            this.respond(request, user).await.unwrap_or_else(|error| failure(&error))
        })
    }
}

impl Clusters {
    async fn respond(&self, request: Request<RequestBody>, user: User) -> Result<Response<ResponseBody>, ApiError> {
        let path = request.uri().path_and_query().map_or("", |path| path.as_str()).to_owned();
        if let Some(stored) = stored_path(&path) {
            return self.pass_on(request, user, &stored).await;
        }
        let body = match request.uri().path().trim_end_matches('/') {
            "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group()]}),
            "/apis/cluster.karmada.io" => {
                let mut group = group();
                (group["kind"], group["apiVersion"]) = ("APIGroup".into(), "v1".into());
                group
            }
            "/apis/cluster.karmada.io/v1alpha1" => resources(),
            document => return self.document(document),
        };
        Ok(json_answer(body.to_string().into()))
    }

    /// The index of OpenAPI, or the one document in it. A kube-apiserver asks for them while its own documents are
    /// locked: whoever asked it for one meanwhile would wait for himself.
    fn document(&self, path: &str) -> Result<Response<ResponseBody>, ApiError> {
        let of_version = format!("apis/{GROUP_VERSION}");
        let is_index = path == DOCUMENTS;
        if !is_index && path != format!("{DOCUMENTS}/{of_version}") {
            return Err(ApiError::no_resource());
        }
        let Some(Document { entry, text }) = self.0.document.lock().clone() else {
            let why = "the kube-apiserver has not published the schema of Clusters yet: ask again";
            return Err(ApiError::new(503, "ServiceUnavailable", why.to_owned()));
        };
        Ok(json_answer(if is_index { json!({"paths": {of_version: entry}}).to_string().into() } else { text }))
    }

    /// Keeps the document as the kube-apiserver publishes it about stored Clusters.
    async fn follow_document(&self, clock: &Clock) {
        loop {
            let before = self.0.document.lock().clone();
            match self.published(before.as_ref()).await {
                Ok(Some(document)) => *self.0.document.lock() = Some(document),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "the schema of Clusters was not read"),
            }
            clock.sleep(if self.0.document.lock().is_some() { DOCUMENT_CHECK } else { DOCUMENT_WAIT }).await;
        }
    }

    /// The document that is published by now; `None` if it is the one before, or there is none.
    async fn published(&self, before: Option<&Document>) -> Result<Option<Document>, BoxError> {
        let ask = async |path: &str| {
            let request = Request::get(path).header(header::ACCEPT, "application/json").body(Vec::new())?;
            Ok::<_, BoxError>(self.0.stored.request_text(request).await?)
        };
        let version = format!("apis/{STORED_GROUP_VERSION}");
        let index: Value = serde_json::from_str(&ask(DOCUMENTS).await?)?;
        let Some(entry) = index["paths"].get(&version) else { return Ok(None) };
        let entry: Value = serde_json::from_str(&served_text(&entry.to_string()))?;
        if before.is_some_and(|before| before.entry == entry) {
            return Ok(None);
        }
        let text = served_text(&ask(&format!("{DOCUMENTS}/{version}")).await?).into();
        Ok(Some(Document { entry, text }))
    }

    /// Passes a request on to where Clusters are stored, as its user, with the right to all that is stored: what the
    /// user may was authorized for what is served.
    async fn pass_on(
        &self,
        request: Request<RequestBody>,
        user: User,
        stored: &str,
    ) -> Result<Response<ResponseBody>, ApiError> {
        let (mut parts, body) = request.into_parts();
        let body = read_body(body).await?;
        parts.headers = headers(&parts.headers, &user);
        let answer = send(&self.0.stored, parts, stored, &body).await;
        let answer = answer.map_err(|error| {
            ApiError::new(503, "ServiceUnavailable", format!("the kube-apiserver that stores Clusters: {error}"))
        })?;
        let (parts, body) = answer.into_parts();
        let mut passed = Response::new(ResponseBody::boxed(body));
        *passed.status_mut() = parts.status;
        *passed.headers_mut() = passed_on(&parts.headers);
        Ok(passed)
    }
}

/// Headers of a request that is passed on: those of the client, and who it is.
fn headers(sent: &HeaderMap, user: &User) -> HeaderMap {
    let mut out = HeaderMap::new();
    for name in [header::CONTENT_TYPE, header::ACCEPT, header::USER_AGENT] {
        if let Some(value) = sent.get(&name) {
            out.insert(name, value.clone());
        }
    }
    let mut add = |name: &str, value: &str| {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            out.append(name, value);
        }
    };
    add("impersonate-user", &user.name);
    user.groups.iter().for_each(|group| add("impersonate-group", group));
    add("impersonate-group", STORED_USERS);
    if !user.uid.is_empty() {
        add("impersonate-uid", &user.uid);
    }
    for (key, values) in &user.extra {
        values.iter().for_each(|value| add(&format!("impersonate-extra-{}", extra_key(key)), value));
    }
    out
}

fn json_answer(body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn group() -> Value {
    let version = json!({"groupVersion": GROUP_VERSION, "version": VERSION});
    json!({"name": GROUP, "versions": [version], "preferredVersion": version})
}

fn resources() -> Value {
    let of = |name: &str, verbs: &[&str]| {
        let singular = if name == "clusters" { "cluster" } else { "" };
        json!({"name": name, "singularName": singular, "namespaced": false, "kind": "Cluster", "verbs": verbs})
    };
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION,
        "resources": [
            of("clusters", &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]),
            of("clusters/proxy", CONNECTS.verbs),
            of("clusters/status", &["get", "patch", "update"]),
        ],
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_passed_on_names_the_user_once() {
        let mut sent = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("impersonate-user", "root"),
            ("x-remote-user", "root"),
            ("content-type", "application/json"),
            ("user-agent", "kubectl"),
        ] {
            sent.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_static(value));
        }
        let user = User {
            name: "ann".into(),
            uid: "7".into(),
            groups: vec!["devs".into()],
            extra: BTreeMap::from([("example.com/Team".to_owned(), vec!["t".to_owned()])]),
        };
        let got = headers(&sent, &user);
        let mut lines: Vec<String> =
            got.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                "content-type: application/json",
                "impersonate-extra-example.com%2fteam: t",
                "impersonate-group: devs",
                "impersonate-group: system:ironclad:stored-clusters",
                "impersonate-uid: 7",
                "impersonate-user: ann",
                "user-agent: kubectl",
            ]
        );
    }
}
