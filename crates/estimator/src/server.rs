//! gRPC server of `ironclad estimator`.

use tokio::net::TcpListener;
use tonic::transport::{Server, server::TcpIncoming};

use crate::{Service, tls::ServerTls};

/// Calls that one connection runs at once.
const CALLS_MAX: usize = 64;

/// A server that is about to run.
pub struct Serve {
    /// Where it listens.
    pub listener: TcpListener,
    /// TLS; `None`: plain connections.
    pub tls: Option<ServerTls>,
    /// Service to serve.
    pub service: Service,
}

/// Serves until `stop` completes, and then until the calls that have begun have ended.
///
/// # Errors
/// If the certificate is invalid or the listener fails.
pub async fn serve(serve: Serve, stop: impl Future<Output = ()>) -> Result<(), tonic::transport::Error> {
    let mut server = Server::builder().concurrency_limit_per_connection(CALLS_MAX);
    if let Some(tls) = &serve.tls {
        server = server.tls_config(tls.config())?;
    }
    let incoming = TcpIncoming::from(serve.listener).with_nodelay(Some(true));
    server.serve_with_incoming_shutdown(serve.service, incoming, stop).await
}
