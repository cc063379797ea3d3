//! Webhook server: TLS, bounded bodies, one review per request (specification/admission.md 1).

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use ironclad_admission::{Config, convert, review::Review, table};
use ironclad_seam::Seam;
use ironclad_serving::{Front, Listener};
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::lookup::{Failed, apply_effects, look_up};
use crate::tls::{self, InUse};

/// A review holds an object twice, and an object has no more than three megabytes.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// A conversion holds a page of a list.
const CONVERSION_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Attempts of a review while a quota changes concurrently, and the pause before the second one.
const CHARGES: u32 = 5;
const CHARGE_PAUSE: Duration = Duration::from_millis(10);

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
        let config = Arc::new(tls::server_config(certificate, None).map_err(io::Error::other)?);
        let seam = self.seam.clone();
        let front = Front::new(move |request, _peer| {
            let webhooks = self.clone();
            async move { webhooks.answer(request).await.map(|body| body.map_err(|e| match e {}).boxed_unsync()) }
        });
        let settings = Arc::new(move || config.clone());
        Listener::new(listener, Some(settings), "webhook").serve(&seam.clock, &seam.tasks, front).await;
        Ok(())
    }

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
            let lookups = look_up(&self.client, webhook, review.needs(webhook, &self.config), &self.seam).await;
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
