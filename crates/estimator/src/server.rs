//! gRPC server of `ironclad estimator`.

use std::{io, sync::Arc};

use http_body_util::BodyExt as _;
use ironclad_seam::{Clock, Tasks};
use ironclad_serving::{Bounds, Front, Listener, Settings};
use tokio::net::TcpListener;
use tonic::body::Body;

use crate::{
    Service,
    tls::{ServerTls, TlsError},
};

/// Calls that one connection runs at once.
const CALLS_MAX: u32 = 64;

/// A server that is about to run.
pub struct Serve {
    /// Where it listens.
    pub listener: TcpListener,
    /// TLS; `None`: plain connections.
    pub tls: Option<ServerTls>,
    /// Service to serve.
    pub service: Service,
}

/// Serves until the tasks are stopped, and then until the calls that have begun have ended.
///
/// # Errors
/// If the certificate, its key or the authority of clients is invalid.
pub async fn serve(serve: Serve, clock: &Clock, tasks: &Tasks) -> Result<(), TlsError> {
    let Serve { listener, tls, service } = serve;
    let tls = tls.map(|tls| tls.config().map(Arc::new)).transpose()?;
    let settings = tls.map(|config| Arc::new(move || config.clone()) as Settings);
    let bounds = Bounds { streams: CALLS_MAX, ..Bounds::default() };
    let listener = Listener { bounds, ..Listener::new(listener, settings, "estimator") };
    let front = Front::new(move |request, _peer| {
        let service = service.clone();
        async move {
            let answer = service.answer(request.map(Body::new)).await;
            answer.map(|body| body.map_err(io::Error::other).boxed_unsync())
        }
    });
    listener.serve(clock, tasks, front).await;
    Ok(())
}
