//! The server as a tower service: a client without a socket.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};

use crate::{Identity, ResponseBody, Server};

/// Calls a server in its own process, as one user. Cheap to clone; fits `kube::Client::new`.
#[derive(Debug, Clone)]
pub struct InProcess {
    server: Arc<Server>,
    identity: Identity,
}

/// The server's tasks were killed: what a client of a dead process sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("connection refused: the server no longer runs")]
pub struct Unreachable;

impl Server {
    /// A service that calls this server as this user.
    #[must_use]
    pub fn in_process(self: &Arc<Self>, identity: Identity) -> InProcess {
        InProcess { server: self.clone(), identity: identity.in_process() }
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Unreachable;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Unreachable>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unreachable>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (server, identity) = (self.server.clone(), self.identity.clone());
        Box::pin(async move { server.handle(request, identity).await.ok_or(Unreachable) })
    }
}
