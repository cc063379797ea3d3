//! Webhook server: TLS, bounded bodies, one review per request (specification/admission.md 1).

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use ironclad_admission::{Config, convert, review::Review, table};
use ironclad_apiserver::pki::Pair;
use ironclad_seam::{Seam, Tasks};
use kube::Client;
use parking_lot::RwLock;
use rustls::{
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_rustls::TlsAcceptor;

use super::lookup::{Failed, apply_effects, look_up};

/// A review holds an object twice, and an object has no more than three megabytes.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A conversion holds a page of a list.
const CONVERSION_BYTES_MAX: usize = 64 * 1024 * 1024;
const CONNECTIONS_MAX: usize = 256;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const HEADERS_MAX: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Attempts of a review while a quota changes concurrently, and the pause before the second one.
const CHARGES: u32 = 5;
const CHARGE_PAUSE: Duration = Duration::from_millis(10);

/// Current certificate. It can be replaced while connections are open.
#[derive(Debug, Default)]
pub(crate) struct InUse(RwLock<Option<Arc<CertifiedKey>>>);

impl InUse {
    /// Uses this one from now on.
    ///
    /// # Errors
    /// A certificate or key that can't be read.
    pub(crate) fn set(&self, pair: &Pair) -> Result<(), String> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|e| e.to_string())?;
        let key = any_supported_type(&key).map_err(|e| e.to_string())?;
        *self.0.write() = Some(Arc::new(CertifiedKey::new(chain, key)));
        Ok(())
    }
}

impl ResolvesServerCert for InUse {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
    }
}

/// Answers kube-apiservers.
#[derive(Clone)]
pub(crate) struct Webhooks {
    pub(crate) config: Arc<Config>,
    pub(crate) client: Client,
    pub(crate) seam: Seam,
}

impl Webhooks {
    /// Serves until the tasks are stopped.
    pub(crate) async fn serve(self, listener: TcpListener, certificate: Arc<InUse>) -> io::Result<()> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let tasks = self.seam.tasks.child("webhooks");
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { break };
            let stream = tokio::select! {
                biased;
                () = self.seam.tasks.stopping() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "webhook listener failed to accept a connection");
                        self.seam.clock.sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let (webhooks, acceptor, group) = (self.clone(), acceptor.clone(), tasks.clone());
            tasks.spawn("webhook-connection", async move {
                let _ = stream.set_nodelay(true);
                if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let webhooks = webhooks.clone();
                        async move { Ok::<_, Infallible>(webhooks.answer(request).await) }
                    });
                    let mut builder = auto::Builder::new(Streams(group));
                    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX);
                    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                        tracing::debug!(%error, "webhook connection failed");
                    }
                }
                drop(slot);
            });
        }
        Ok(())
    }

    /// Answers one request.
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        match path.trim_end_matches('/') {
            "/readyz" | "/healthz" | "/livez" => return text(StatusCode::OK, "ok"),
            _ => {}
        }
        let webhook = table::at_path(&path);
        if webhook.is_none() && path != "/convert" {
            let hint = json!({"error": format!("no webhook {path:?} is served: is the configuration newer than this program?")});
            return reply(StatusCode::NOT_FOUND, &hint);
        }
        if request.method() != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is possible");
        }
        let limit = if webhook.is_some() { BODY_BYTES_MAX } else { CONVERSION_BYTES_MAX };
        let Ok(body) = Limited::new(request.into_body(), limit).collect().await else {
            return text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or was cut off");
        };
        let body = body.to_bytes();
        let webhooks = self.clone();
        // Run as a separate task, so that a panic becomes an error response.
        let task = self.seam.tasks.spawn("review", async move {
            match webhook {
                Some(webhook) => webhooks.review(webhook, &body).await,
                None => match serde_json::from_slice::<Value>(&body) {
                    Ok(review) => reply(StatusCode::OK, &convert::review(&review)),
                    Err(error) => text(StatusCode::BAD_REQUEST, &error.to_string()),
                },
            }
        });
        match task.await {
            Ok(answer) => answer,
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "the review failed; the log says why"),
        }
    }

    async fn review(&self, webhook: &'static table::Webhook, body: &[u8]) -> Response<Full<Bytes>> {
        let review = match Review::parse(body) {
            Ok(review) => review,
            Err(error) => return text(StatusCode::BAD_REQUEST, &error),
        };
        for charge in 0..CHARGES {
            let lookups = look_up(&self.client, review.needs(webhook, &self.config), &self.seam).await;
            let (answer, verdict) = review.answer(webhook, &lookups, &self.config);
            if verdict.effects.is_empty() || review.request().dry_run {
                return reply(StatusCode::OK, &answer);
            }
            match apply_effects(&self.client, verdict.effects).await {
                Ok(()) => return reply(StatusCode::OK, &answer),
                Err(Failed::Conflict) => self.seam.clock.sleep(CHARGE_PAUSE * 2_u32.pow(charge)).await,
                Err(Failed::Other(error)) => return reply(StatusCode::OK, &review.failed(&error)),
            }
        }
        let message = "the quota changes too fast to be charged; try again";
        reply(StatusCode::OK, &review.failed(message))
    }
}

/// Runs the streams of HTTP/2 connections as tasks of a group.
#[derive(Clone)]
struct Streams(Tasks);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn("webhook-stream", future);
    }
}

fn reply(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    respond(status, "application/json", Bytes::from(body.to_string()))
}

fn text(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", Bytes::from(body.to_owned()))
}

fn respond(status: StatusCode, kind: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
