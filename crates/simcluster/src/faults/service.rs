//! A member's server as the control plane reaches it: a tower service that honours the faults.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use ironclad_apiserver::{InProcess, Unreachable};
use tower::Service;

use super::{Link, Network, body};

/// Reason why a request to a member got no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The member is down.
    #[error("connection refused: the member is down")]
    Refused,
    /// The network broke during the request: the server may have handled it.
    #[error("connection reset by peer: the network to the member was cut")]
    Reset,
}

impl From<Unreachable> for FaultError {
    fn from(_: Unreachable) -> Self {
        Self::Refused
    }
}

/// Calls a member's server as one user, through the member's faults. Cheap to clone; fits
/// `ironclad_runtime::in_process_client` and `kube::Client::new`.
#[derive(Clone)]
pub struct Faulted {
    server: InProcess,
    link: Link,
}

impl Faulted {
    pub(crate) fn new(server: InProcess, link: Link) -> Self {
        Self { server, link }
    }
}

impl<B> Service<Request<B>> for Faulted
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<UnsyncBoxBody<Bytes, FaultError>>;
    type Error = FaultError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, FaultError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), FaultError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let link = self.link.clone();
        let breaks = link.breaks();
        let answer = match link.network() {
            Network::Open { .. } => Some(self.server.call(request)),
            Network::Refused => return Box::pin(async { Err(FaultError::Refused) }),
            // The request does not reach the member; when the network recovers, the caller gets a reset.
            Network::Silent => None,
        };
        Box::pin(async move {
            let Some(answer) = answer else {
                return Err(link.lost(breaks.wrapping_sub(1)).await);
            };
            let through = async {
                let answer = answer.await?;
                if let Network::Open { latency } = link.network()
                    && latency > Duration::ZERO
                {
                    link.0.clock.sleep(latency).await;
                }
                if !link.network().is_open() {
                    // The member responded, and the response is lost.
                    std::future::pending::<()>().await;
                }
                Ok::<_, FaultError>(answer)
            };
            let answer = tokio::select! {
                biased;
                lost = link.lost(breaks) => return Err(lost),
                answer = through => answer?,
            };
            Ok(answer.map(|inner| body::through(inner, link, breaks)))
        })
    }
}
