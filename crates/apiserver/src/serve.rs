//! Serving over TLS: connections, who is on them, and a clean end.

use std::{io, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use ironclad_seam::Tasks;
use ironclad_serving::{Answer, Bounds as OfConnection, Connection as Served};
use jiff::fmt::rfc2822::DateTimePrinter;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{
    Bounds, Identity, Server, UNAUTHENTICATED, auth,
    connections::{Connection, Connections, Sending},
    respond::{self, Reply},
    route::Carrier,
    server::BrokenOff,
    status::ApiError,
};

/// Open connections get so long to finish what they do at the end.
const GRACE: Duration = Duration::from_secs(5);
/// A connection that is closed for another gets so long.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// After a failed accept (no file descriptors), so long until the next, unless a connection ends before.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Least time between log lines about failed accepts.
const ACCEPT_LOG_INTERVAL: Duration = Duration::from_secs(10);

impl Server {
    /// Serves connections until the server's tasks are stopped; then requests in flight are finished.
    ///
    /// # Errors
    /// The listener's address can't be read.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) -> io::Result<()> {
        self.serve_in(&self.state.seam.tasks, listener, tls).await
    }

    /// The same with connections as tasks of this group: its `stop` ends them cleanly, its `kill` cuts them off, while
    /// the server lives on.
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
        tracing::info!(%address, server = %self.state.options.name, "serving");
        let acceptor = TlsAcceptor::from(tls);
        let open = Connections::new(self.state.options.bounds.connections, self.state.seam.clock.clone());
        let permits = Permits::new(self.state.options.bounds);
        let connections = tasks.child("connections");
        let mut logged_at = None;
        loop {
            // Evict an idle connection only after a new one arrived.
            let stream = tokio::select! {
                biased;
                () = tasks.stopping() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        let now = self.state.seam.clock.mono();
                        if logged_at.is_none_or(|at| now - at >= ACCEPT_LOG_INTERVAL) {
                            tracing::warn!(%error, "accepting a connection");
                            logged_at = Some(now);
                        }
                        // Most likely no file descriptors are left: closing a connection frees one.
                        open.close_longest_idle();
                        let _ = timeout(ACCEPT_PAUSE, open.connection_ended()).await;
                        continue;
                    }
                },
            };
            let slot = tokio::select! {
                biased;
                () = tasks.stopping() => break,
                slot = open.admit() => slot,
            };
            let (server, acceptor, permits) = (self.clone(), acceptor.clone(), permits.clone());
            let group = connections.clone();
            connections.spawn("connection", async move {
                server.connection(stream, acceptor, &group, &Arc::new(slot), permits).await;
            });
        }
        drop(listener);
        // Watches end on their own when stopping; connections that stay open beyond the grace are cut off.
        let _ = tokio::time::timeout(GRACE, connections.ended()).await;
        connections.kill();
        Ok(())
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        acceptor: TlsAcceptor,
        tasks: &Tasks,
        slot: &Arc<Connection>,
        permits: Permits,
    ) {
        let bounds = self.state.options.bounds;
        let _ = stream.set_nodelay(true);
        let accepted = tokio::select! {
            biased;
            () = slot.closing() => return,
            accepted = timeout(bounds.handshake, acceptor.accept(stream)) => accepted,
        };
        let Ok(Ok(stream)) = accepted else { return };
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let by_certificate = certificate.and_then(|c| identity_of(c));
        let carrier = Carrier { tasks: tasks.clone(), connection: Some(slot.clone()), _permit: None };
        let server = self.clone();
        let counted = slot.clone();
        let answer = Answer::new(move |request: Request<Incoming>| {
            let (server, identity, permits) = (server.clone(), by_certificate.clone(), permits.clone());
            let (underway, carrier) = (counted.begin(), carrier.clone());
            async move {
                let mut underway = underway.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted))?;
                let (mut reply, permit) = server.clone().networked(request, identity, permits, carrier).await?;
                reply.headers_mut().extend(server.date());
                if reply.extensions().get::<BrokenOff>().is_none() {
                    underway.answered();
                }
                Ok(reply.map(|body| Sending::new(body, underway, permit).boxed_unsync()))
            }
        });
        // The first request has a bound of its own below.
        let of_connection = OfConnection { begin: None, head: Some(bounds.head), ..OfConnection::default() };
        let mut connection = Served::new(stream, of_connection, tasks, answer);
        let first_request = self.state.seam.clock.sleep(bounds.head);
        tokio::pin!(first_request);
        let mut waited = false;
        let checked = self.state.seam.clock.sleep(bounds.send / 2);
        tokio::pin!(checked);
        let grace = loop {
            tokio::select! {
                biased;
                done = &mut connection => {
                    if let Err(error) = done {
                        tracing::debug!(%error, "connection ended");
                    }
                    return;
                }
                () = tasks.stopping() => break GRACE,
                () = slot.closing() => break CLOSE_GRACE,
                () = checked.as_mut() => {
                    if slot.is_stalled(bounds.send) {
                        tracing::debug!("connection is closed: its client does not read an answer");
                        return;
                    }
                    checked.set(self.state.seam.clock.sleep(bounds.send / 2));
                }
                // Before the first byte, the protocol isn't known and no other time-out runs.
                () = first_request.as_mut(), if !waited => {
                    waited = true;
                    if !slot.had_request() {
                        return;
                    }
                }
            }
        };
        connection.finish();
        let _ = timeout(grace, connection).await;
    }

    /// The header Date. The one that hyper would add stands still after the clock was set back.
    fn date(&self) -> Option<(HeaderName, HeaderValue)> {
        let now = DateTimePrinter::new().timestamp_to_rfc9110_string(&self.state.seam.clock.wall()).ok()?;
        Some((header::DATE, HeaderValue::try_from(now).ok()?))
    }

    async fn networked(
        self: Arc<Self>,
        request: Request<Incoming>,
        by_certificate: Option<Identity>,
        permits: Permits,
        carrier: Carrier,
    ) -> io::Result<(Reply, Option<Arc<OwnedSemaphorePermit>>)> {
        let bearer = request.headers().get(header::AUTHORIZATION).map(|v| String::from_utf8_lossy(v.as_bytes()));
        let identity = match by_certificate {
            Some(identity) => identity,
            None => match auth::authenticate_token(&self.state, bearer.as_deref()) {
                Ok(identity) => identity,
                Err(error) => return Ok((self.finish(request.headers(), respond::error(&error), &[]), None)),
            },
        };
        let route = self.route_of(request.uri().path());
        let permits = if route.is_some() { permits.streams } else { permits.requests };
        let permit = permits.try_acquire_owned().ok().map(Arc::new);
        if permit.is_none() && !identity.is_master() {
            return Ok((self.finish(request.headers(), respond::error(&ApiError::too_many_requests()), &[]), None));
        }
        let mut request = request.map(|body| body.map_err(io::Error::other).boxed_unsync());
        if route.is_some() {
            request.extensions_mut().insert(Carrier { _permit: permit.clone(), ..carrier });
        }
        let reply: Option<Response<_>> = self.handle_counted(request, identity, route, permit.clone()).await;
        let reply = reply.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset))?;
        Ok((reply, permit))
    }
}

/// Permits of the requests under way on a listener.
#[derive(Clone)]
struct Permits {
    requests: Arc<Semaphore>,
    /// Of routes.
    streams: Arc<Semaphore>,
}

impl Permits {
    fn new(bounds: Bounds) -> Self {
        Self { requests: Arc::new(Semaphore::new(bounds.requests)), streams: Arc::new(Semaphore::new(bounds.streams)) }
    }
}

/// The user of a client certificate that the TLS layer has verified: CN is the name, O are the groups.
fn identity_of(certificate: &rustls::pki_types::CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = X509Certificate::from_der(certificate.as_ref()).ok()?;
    let user = parsed.subject().iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = parsed.subject().iter_organization().filter_map(|o| o.as_str().ok()).collect();
    (!groups.contains(&UNAUTHENTICATED)).then(|| Identity::user(user, &groups))
}
