//! Paths that are answered in front of the server, such as proxies to other clusters.

use std::{future::Future, io, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ironclad_seam::Tasks;
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    ApiError, Identity, ResponseBody,
    connections::{Connection, Underway},
    registry::Connects,
};

/// Body of a request, which arrives as it is read: a client is not heard faster than its route reads.
pub type RequestBody = UnsyncBoxBody<Bytes, io::Error>;

/// The future answer of a route.
pub type RouteFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

/// Answers certain paths of a server.
///
/// It is called after authentication, impersonation and authorization of the path, before a byte of the body is read.
pub trait Route: Send + Sync {
    /// True for the paths of this route.
    fn takes(&self, path: &str) -> bool;

    /// True for paths of this route that it authorizes itself, by [`crate::Server::authorize`].
    fn authorizes(&self, _: &str) -> bool {
        false
    }

    /// The subresource of a stored kind that this route answers, if any: requests to it are reviewed as connections.
    fn connects(&self) -> Option<&'static Connects> {
        None
    }

    /// Answers a request, without the time limit of ordinary requests. The future is dropped when the client goes, and
    /// later the body of the answer. [`crate::read_body`] reads the body as a whole, [`Upgrade::of`] takes the
    /// connection over.
    fn call(&self, request: Request<RequestBody>, identity: Identity) -> RouteFuture;
}

/// The connection that a request came over.
#[derive(Clone)]
pub(crate) struct Carrier {
    pub(crate) tasks: Tasks,
    /// `None` on a listener that is not this server's.
    pub(crate) connection: Option<Arc<Connection>>,
    /// Counts it among the open streams of routes; members of `system:masters` need none.
    pub(crate) _permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// A connection that its client asked to upgrade, to WebSocket or SPDY.
pub struct Upgrade {
    connection: OnUpgrade,
    carrier: Carrier,
}

impl Upgrade {
    /// Lets a route that is served on a listener of its own take the connection of this request over, as a task of
    /// this group.
    pub fn allow(request: &mut Request<RequestBody>, tasks: &Tasks) {
        request.extensions_mut().insert(Carrier { tasks: tasks.clone(), connection: None, _permit: None });
    }

    /// Takes the connection out of a request.
    ///
    /// # Errors
    /// If the client didn't ask for it, or not over HTTP/1.1, or has no connection, as clients in the same process. A
    /// body is refused, because what is left of it would be taken for the first bytes of the other protocol.
    pub fn of(request: &mut Request<RequestBody>) -> Result<Self, ApiError> {
        let options = request.headers().get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
        let is_asked =
            options.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
        let extensions = request.extensions_mut();
        match (extensions.remove(), extensions.remove()) {
            (Some(connection), Some(carrier)) if is_asked && request.body().is_end_stream() => {
                Ok(Self { connection, carrier })
            }
            _ => Err(ApiError::bad_request(
                "the connection can't be upgraded: send the request over HTTP/1.1, with the headers Connection and \
                 Upgrade and without a body",
            )),
        }
    }

    /// The answer 101, to which the route may add headers. Once it was sent, this runs with the connection. It counts
    /// as a connection and as a stream of a route until it ends, and is dropped when the server is stopped.
    pub fn switch<F, R>(self, protocol: HeaderValue, carry: F) -> Response<ResponseBody>
    where
        F: FnOnce(TokioIo<Upgraded>) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let Self { connection, carrier } = self;
        let mut underway = carrier.connection.as_ref().and_then(|connection| connection.begin());
        carrier.tasks.clone().spawn("upgraded", async move {
            let carried = async {
                match connection.await {
                    Ok(upgraded) => carry(TokioIo::new(upgraded)).await,
                    Err(error) => tracing::debug!(%error, "upgrading a connection"),
                }
            };
            tokio::select! {
                biased;
                () = carrier.tasks.stopping() => {}
                () = carried => {}
            }
            underway.iter_mut().for_each(Underway::answered);
            // Named as a whole, so that the task owns the permit too.
            drop(carrier);
        });
        let mut switching = Response::new(ResponseBody::full(""));
        *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        switching.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        switching.headers_mut().insert(header::UPGRADE, protocol);
        switching
    }
}
