//! Serving over TLS: connections, who is on them, and a clean end.

use std::{io, sync::Arc, time::Duration};

use http::{Request, header};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use ironclad_seam::Tasks;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{
    Identity, Server, UNAUTHENTICATED, auth,
    respond::{self, Reply},
};

/// Connections beyond this wait to be accepted.
const CONNECTIONS_MAX: usize = 4_096;
/// A TLS handshake, and the headers of a request, take no longer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const HEADERS_MAX: Duration = Duration::from_secs(30);
/// Open connections get so long to finish what they do at the end.
const GRACE: Duration = Duration::from_secs(5);
/// After a failed accept (no file descriptors), so long until the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// Serves connections until the server's tasks are asked to stop; then requests in flight are finished.
    ///
    /// # Errors
    /// The listener's address can't be read.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) -> io::Result<()> {
        self.serve_in(&self.seam.tasks, listener, tls).await
    }

    /// The same with connections as tasks of this group: its `stop` ends them cleanly, its `kill` cuts them off, while the
    /// server lives on.
    ///
    /// # Errors
    /// The listener's address can't be read.
    pub async fn serve_in(
        self: &Arc<Self>,
        tasks: &Tasks,
        listener: TcpListener,
        tls: Arc<rustls::ServerConfig>,
    ) -> io::Result<()> {
        let address = listener.local_addr()?;
        tracing::info!(%address, server = %self.options.name, "serving");
        let acceptor = TlsAcceptor::from(tls);
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let connections = tasks.child("connections");
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { break };
            let stream = tokio::select! {
                biased;
                () = tasks.stopping() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection");
                        self.seam.clock.sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let (server, acceptor) = (self.clone(), acceptor.clone());
            let group = connections.clone();
            connections.spawn("connection", async move {
                server.connection(stream, acceptor, &group).await;
                drop(slot);
            });
        }
        drop(listener);
        // Watches end on their own when stopping; whoever holds a connection open beyond the grace is cut off.
        let _ = tokio::time::timeout(GRACE, connections.ended()).await;
        connections.kill();
        Ok(())
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, acceptor: TlsAcceptor, tasks: &Tasks) {
        let _ = stream.set_nodelay(true);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await else { return };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let by_certificate = certificate.and_then(|c| identity_of(c));
        let server = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (server, identity) = (server.clone(), by_certificate.clone());
            async move { server.networked(request, identity).await }
        });
        let mut builder = auto::Builder::new(Streams(tasks.clone()));
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX);
        builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(HEADERS_MAX)).max_concurrent_streams(1_000);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            biased;
            done = connection.as_mut() => {
                if let Err(error) = done {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            () = tasks.stopping() => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }

    async fn networked(
        self: Arc<Self>,
        request: Request<Incoming>,
        by_certificate: Option<Identity>,
    ) -> io::Result<Reply> {
        let bearer = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let identity = match by_certificate {
            Some(identity) => identity,
            None => match auth::authenticate_token(&self, bearer) {
                Ok(identity) => identity,
                Err(error) => return Ok(self.finish(request.headers(), respond::error(&error), &[])),
            },
        };
        self.handle(request, identity).await.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset))
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
        self.0.spawn("stream", future);
    }
}

/// The user of a client certificate that the TLS layer has verified: CN is the name, O are the groups.
fn identity_of(certificate: &rustls::pki_types::CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = X509Certificate::from_der(certificate.as_ref()).ok()?;
    let user = parsed.subject().iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = parsed.subject().iter_organization().filter_map(|o| o.as_str().ok()).collect();
    (!groups.contains(&UNAUTHENTICATED)).then(|| Identity::user(user, &groups))
}
