//! Admission webhooks whose answer depends on the last word of their path, and which record their requests.
//!
//! `allow`, `warn`; `deny`, `deny-plain`, `deny-reason`; `uid`, `absent`, `boom`, `slow`, `garbage`, `old` answer
//! wrongly; `label`, `seen`, `bad-patch`, `patch-type`, `rename`, `invalid`, `unknown` change the object; `scale` a
//! Scale, `hour` a TokenRequest.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{rt::TokioExecutor, rt::TokioIo, server::conn::auto};
use ironclad_seam::Seam;
use k8s_openapi::ByteString;
use parking_lot::Mutex;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Asked = Arc<Mutex<BTreeMap<String, Value>>>;

#[derive(Debug)]
pub struct Webhooks {
    seam: Seam,
    url: String,
    authority: String,
    asked: Asked,
}

impl Webhooks {
    pub async fn start() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "localhost".to_owned()])?;
        let certificate = params.self_signed(&key)?;
        let authority = serde_json::to_value(ByteString(certificate.pem().into_bytes()))?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], der)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for webhooks")?;
        let url = format!("https://{}", listener.local_addr()?);
        let seam = Seam::system("webhooks");
        let asked = Asked::default();
        let (tasks, log) = (seam.tasks.clone(), asked.clone());
        seam.tasks.spawn("webhooks", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, log) = (acceptor.clone(), log.clone());
                tasks.spawn("webhook", async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| answer(log.clone(), request));
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { seam, url, authority: authority.as_str().unwrap_or_default().to_owned(), asked })
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The certificate to trust: PEM in base64.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The last request to a path: its query, headers and review.
    pub fn asked(&self, path: &str) -> Option<Value> {
        self.asked.lock().remove(path)
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.seam.tasks.kill();
    }
}

async fn answer(log: Asked, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    let headers: BTreeMap<&str, String> =
        ["content-type", "accept", "user-agent"].into_iter().map(|name| (name, header(name))).collect();
    let noted = json!({"query": parts.uri.query(), "headers": headers, "review": review});
    log.lock().insert(path.clone(), noted);
    let word = path.rsplit('/').next().unwrap_or_default();
    let (code, body) = match word {
        "slow" => std::future::pending().await,
        "boom" => (500, "boom".to_owned()),
        "garbage" => (200, "{".to_owned()),
        "absent" => (200, json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}).to_string()),
        _ => {
            let mut response = response(word, &review["request"]);
            if response["uid"].is_null() {
                response["uid"] = review["request"]["uid"].clone();
            }
            let version = if word == "old" { "v1beta1" } else { "v1" };
            let api_version = format!("admission.k8s.io/{version}");
            (200, json!({"kind": "AdmissionReview", "apiVersion": api_version, "response": response}).to_string())
        }
    };
    Ok(Response::builder().status(code).header("content-type", "application/json").body(Full::new(body.into()))?)
}

fn patch(operations: &Value) -> Value {
    let bytes = ByteString(operations.to_string().into_bytes());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": bytes})
}

fn response(word: &str, request: &Value) -> Value {
    match word {
        "warn" => json!({"allowed": true, "warnings": ["careful now", "really"]}),
        "deny" => json!({"allowed": false, "status": {"code": 418, "message": "nope!", "reason": "Teapot"}}),
        "deny-plain" => json!({"allowed": false}),
        "deny-reason" => json!({"allowed": false, "status": {"reason": "Forbidden"}}),
        "uid" => json!({"allowed": true, "uid": "zzz"}),
        "label" => patch(&json!([{"op": "add", "path": "/metadata/labels/by", "value": "hook"}])),
        "seen" => {
            let by = request.pointer("/object/metadata/labels/by").cloned().unwrap_or(json!("nobody"));
            patch(&json!([{"op": "add", "path": "/data", "value": {"seen": by}}]))
        }
        "bad-patch" => patch(&json!([{"op": "remove", "path": "/nope"}])),
        "patch-type" => json!({"allowed": true, "patch": ByteString(b"[]".to_vec())}),
        "rename" => patch(&json!([{"op": "replace", "path": "/metadata/name", "value": "other"}])),
        "invalid" => patch(&json!([{"op": "add", "path": "/metadata/labels/by", "value": "no label!"}])),
        "unknown" => patch(&json!([{"op": "add", "path": "/bogus", "value": 1}])),
        "scale" => patch(&json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])),
        "hour" => patch(&json!([{"op": "replace", "path": "/spec/expirationSeconds", "value": 4000}])),
        _ => json!({"allowed": true}),
    }
}
