//! The fault layer between a client and a server in the simulation.
//!
//! Every request gets a random virtual delay, which explores the interleavings, and is written into the history.
//! The [`FaultPlan`] of the process decides about faults; module `watch` applies those of watches.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use ironclad_seam::{Seam, Tasks};
use kube::client::Body;
use sha2::{Digest as _, Sha256};
use tower::{BoxError, Service};

use super::{
    History,
    faults::{Fault, FaultPlan},
    watch,
};

/// The longest virtual delay of one direction of a request.
const DELAY_MAX: Duration = Duration::from_millis(4);

#[derive(Clone)]
pub struct Link<S> {
    inner: S,
    name: Arc<str>,
    seam: Seam,
    process: Tasks,
    faults: FaultPlan,
    history: History,
}

impl<S> Link<S> {
    /// A link of this name (`controllers->plane`). `process` is what a fault kills; delays come from the seam.
    pub fn new(inner: S, name: &str, seam: &Seam, process: Tasks, faults: FaultPlan, history: History) -> Self {
        Self { inner, name: name.into(), seam: seam.clone(), process, faults, history }
    }
}

pub(super) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

impl<S, B> Service<Request<Body>> for Link<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<AnyBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fresh = self.inner.clone();
        // Call the clone that is ready.
        let inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(pass(
            inner,
            request,
            self.name.clone(),
            self.seam.clone(),
            self.process.clone(),
            self.faults.clone(),
            self.history.clone(),
        ))
    }
}

async fn pass<S, B>(
    mut inner: S,
    request: Request<Body>,
    name: Arc<str>,
    seam: Seam,
    process: Tasks,
    faults: FaultPlan,
    history: History,
) -> Result<Response<AnyBody>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let delays = seam.rng.stream(&format!("delay/{name}"));
    let (parts, body) = request.into_parts();
    let bytes = body.collect().await.map_err(BoxError::from)?.to_bytes();
    let what = format!("{name} {} {}", parts.method, parts.uri);
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    let is_watch =
        is_read && parts.uri.query().is_some_and(|q| q.split('&').any(|p| matches!(p, "watch=true" | "watch=1")));
    // Heartbeats get no faults by number and do not count as activity.
    let is_write = !is_read && !parts.uri.path().contains("/leases");
    let is_event = parts.uri.path().contains("/events");
    let (number, fault) = if is_write { faults.next_write(is_event) } else { (0, None) };
    faults.stalled(&seam.clock).await;
    seam.clock.sleep(delays.duration_up_to(DELAY_MAX)).await;
    if is_write {
        history.log(format!("{what} #{number} body {}", digest(&bytes)));
    } else {
        history.log(&what);
    }
    if fault == Some(Fault::Conflict) {
        history.log(format!("{what} #{number} faulted with 409"));
        return Ok(conflict());
    }
    let response = inner.call(Request::from_parts(parts, Body::from(bytes))).await.map_err(Into::into)?;
    seam.clock.sleep(delays.duration_up_to(DELAY_MAX)).await;
    history.log(format!("{what} -> {}", response.status().as_u16()));
    match fault {
        Some(Fault::KillBeforeAnswer) => {
            history.log(format!("{} killed before the answer to write #{number}", process.name()));
            process.kill();
            std::future::pending().await
        }
        Some(Fault::KillAfterAnswer) => {
            history.log(format!("{} killed after the answer to write #{number}", process.name()));
            // The caller gets one poll to handle the answer before the process ends.
            let dying = process.clone();
            let clock = seam.clock.clone();
            seam.tasks.spawn("kill", async move {
                clock.sleep(Duration::from_micros(1)).await;
                dying.kill();
            });
            Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
        }
        Some(Fault::LoseAnswer) => {
            history.log(format!("{what} #{number} answer lost"));
            Err("connection reset by the simulation".into())
        }
        Some(Fault::Conflict) | None => {
            let response = response.map(|body| body.map_err(Into::into).boxed_unsync());
            if !is_watch || !response.status().is_success() {
                return Ok(response);
            }
            let clock = seam.clock.clone();
            Ok(response.map(|body| watch::disturbed(body, &what, clock, faults, history)))
        }
    }
}

fn conflict() -> Response<AnyBody> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Conflict", "code": 409,
        "message": "the object has been modified; please apply your changes to the latest version and try again",
    });
    let body = Full::new(Bytes::from(status.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::CONFLICT;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(6).map(|b| format!("{b:02x}")).collect()
}
