//! Paths that are answered in front of the server, such as proxies to other clusters.

use std::{future::Future, io, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use ironclad_seam::Tasks;
use tokio::sync::OwnedSemaphorePermit;

use crate::{ApiError, Identity, ResponseBody, connections::Connection};

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

    /// Answers a request, without the time limit of ordinary requests. The future is dropped when the client goes, and
    /// later the body of the answer. [`crate::read_body`] reads the body as a whole, [`Upgrade::of`] takes the
    /// connection over.
    fn call(&self, request: Request<RequestBody>, identity: Identity) -> RouteFuture;
}

/// The connection that a request came over.
#[derive(Clone)]
pub(crate) struct Carrier {
    pub(crate) tasks: Tasks,
    pub(crate) connection: Arc<Connection>,
    /// Counts it among the open streams of routes; members of `system:masters` need none.
    pub(crate) _permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// A connection that its client asked to upgrade, to WebSocket or SPDY.
pub struct Upgrade {
    connection: OnUpgrade,
    carrier: Carrier,
}

impl Upgrade {
    /// Takes the connection out of a request; what the answer 101 says of protocols is the route's.
    ///
    /// # Errors
    /// If the client didn't ask for it, or not over HTTP/1.1, or has no connection, as clients in the same process.
    pub fn of(request: &mut Request<RequestBody>) -> Result<Self, ApiError> {
        let connection = request.extensions_mut().remove::<OnUpgrade>();
        let carrier = request.extensions_mut().remove::<Carrier>();
        let (Some(connection), Some(carrier)) = (connection, carrier) else {
            return Err(ApiError::bad_request(
                "the connection can't be upgraded: send the request over HTTP/1.1, with the headers Connection and Upgrade",
            ));
        };
        Ok(Self { connection, carrier })
    }

    /// Runs this with the connection once the answer 101 was sent. It counts as a connection and as a stream of a route
    /// until it ends, and ends when the server is stopped.
    pub fn run<F, R>(self, carry: F)
    where
        F: FnOnce(TokioIo<Upgraded>) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let Self { connection, carrier } = self;
        let mut underway = carrier.connection.begin();
        let tasks = carrier.tasks.clone();
        carrier.tasks.clone().spawn("upgraded", async move {
            let carried = async {
                match connection.await {
                    Ok(upgraded) => carry(TokioIo::new(upgraded)).await,
                    Err(error) => tracing::debug!(%error, "upgrading a connection"),
                }
            };
            tokio::select! {
                biased;
                () = tasks.stopping() => {}
                () = carried => {}
            }
            underway.iter_mut().for_each(crate::connections::Underway::answered);
            drop(carrier);
        });
    }
}
