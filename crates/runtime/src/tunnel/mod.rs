//! Tunnels: streams that agents hold open, over which the control plane reaches members that it has no way to.
//!
//! An agent upgrades a connection to the control plane. HTTP/2 runs over it with the roles reversed: the control plane
//! opens streams with `CONNECT`, and each is a connection over HTTP/1.1 to the agent, which passes requests on to its
//! member. So requests, watches and upgrades need nothing of their own, and no credentials of the member leave it.

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod links;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{
    FutureExt as _,
    future::{BoxFuture, Either, select},
};
use http::{HeaderName, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::{body::Incoming, client::conn::http2::SendRequest, upgrade::Upgraded};
use hyper_util::{
    client::legacy::{
        self,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use ironclad_seam::Tasks;
use ironclad_serving::{Answer, Bounds, Connection as Served};
use parking_lot::{Mutex, RwLock};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    sync::Notify,
};
use tower::Service;

use crate::StreamBody;

/// Name of the protocol in the header Upgrade.
pub const TUNNEL: &str = "ironclad-tunnel";
/// Header of the answer to an agent: the process of the control plane in which the tunnel ends, if there may be
/// several.
pub const REPLICA: HeaderName = HeaderName::from_static("ironclad-replica");
/// Header of an agent's request: the processes to which it holds tunnels, between commas. One that finds itself among
/// them answers 409.
pub const HELD: HeaderName = HeaderName::from_static("ironclad-tunnels-held");
/// Header of an agent's request: its name among the agents of the cluster.
pub const AGENT: HeaderName = HeaderName::from_static("ironclad-agent");
/// Interval of the probes by which both ends find that the other is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time for the answer to a probe.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for the agent to accept a connection.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// Bytes of one connection, and of all, that may be under way.
const WINDOW: (u32, u32) = (1 << 20, 8 << 20);
/// Connections over one tunnel at once.
const STREAMS_MAX: u32 = 1_024;
/// Time for the control plane to begin once it has accepted a tunnel.
const BEGIN_MAX: Duration = Duration::from_secs(30);
/// Bounds of the connections over a tunnel, whose client is the control plane.
const BOUNDS: Bounds =
    Bounds { head: None, keep_alive: KEEP_ALIVE, streams: STREAMS_MAX, windows: Some(WINDOW), ..Bounds::DEFAULT };
/// Bounds of a tunnel, over which only HTTP/2 is spoken.
const BOUNDS_OF_TUNNEL: Bounds = Bounds { begin: Some(BEGIN_MAX), only_http2: true, ..BOUNDS };

/// Time for one direction of a carried connection after the other broke.
const REST_OF_A_CONNECTION: Duration = Duration::from_secs(60);

/// Tunnels of one cluster at once: a replica of its agent holds one each, and one that is half open counts until this
/// end finds out. Beyond it the oldest ends.
const SESSIONS_MAX: usize = 4;

type OnChange = Box<dyn Fn(&str) + Send + Sync>;

/// The tunnels that end in this process, by the name of the cluster. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tunnels(Arc<Shared>);

#[derive(Default)]
struct Shared {
    replica: Option<Arc<str>>,
    /// The sessions of each cluster, the newest last.
    open: RwLock<BTreeMap<String, Vec<Session>>>,
    made: AtomicU64,
    handlers: RwLock<Vec<OnChange>>,
}

/// A tunnel that is open.
struct Session {
    id: u64,
    agent: String,
    streams: SendRequest<Empty<Bytes>>,
    place: Arc<Place>,
}

/// The standing of a session, for those who wait for a change.
struct Place {
    standing: Mutex<Standing>,
    changed: Notify,
}

impl Place {
    fn set(&self, standing: Standing) {
        let before = std::mem::replace(&mut *self.standing.lock(), standing);
        if before != standing {
            self.changed.notify_waiters();
        }
    }

    async fn until(&self, wanted: impl Fn(Standing) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if wanted(*self.standing.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// The place of a session among those of its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It is the newest: connections are opened over it.
    Used,
    /// It is used once the newer ones have ended; what is under way over it goes on.
    Spare,
    /// There are too many newer ones.
    TooMany,
}

impl Tunnels {
    /// Tunnels to a process beside which there may be others, of this name among them.
    #[must_use]
    pub fn of_replica(name: &str) -> Self {
        Self(Arc::new(Shared { replica: Some(name.into()), ..Shared::default() }))
    }

    /// Name of the process among its replicas; none if there is only one.
    #[must_use]
    pub fn replica(&self) -> Option<Arc<str>> {
        self.0.replica.clone()
    }

    /// True while an agent of this cluster holds a tunnel open.
    #[must_use]
    pub fn is_open(&self, cluster: &str) -> bool {
        self.0.open.read().contains_key(cluster)
    }

    /// The agents that hold tunnels of this cluster, by the names that they gave, each once.
    #[must_use]
    pub fn agents(&self, cluster: &str) -> Vec<String> {
        let open = self.0.open.read();
        let names: BTreeSet<&String> = open.get(cluster).into_iter().flatten().map(|session| &session.agent).collect();
        names.into_iter().filter(|name| !name.is_empty()).cloned().collect()
    }

    /// Calls this with the name of each cluster whose tunnel is opened, or ends.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.0.handlers.write().push(Box::new(handler));
    }

    /// Keeps a tunnel of a cluster, which an agent of this name opened, until it ends. The newest of a cluster is the
    /// one that is used; the one before is kept, and used once the newest has ended.
    ///
    /// # Errors
    /// If the stream breaks, or there are too many newer tunnels of the cluster.
    pub async fn carry<T>(&self, cluster: &str, agent: &str, stream: T) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW.0)
            .initial_connection_window_size(WINDOW.1);
        let handshake = tokio::time::timeout(OPEN_MAX, builder.handshake(TokioIo::new(stream))).await;
        let handshake = handshake.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "its agent takes nothing"))?;
        let (streams, connection) = handshake.map_err(io::Error::other)?;
        let id = self.0.made.fetch_add(1, Ordering::Relaxed);
        let place = Arc::new(Place { standing: Mutex::new(Standing::Used), changed: Notify::new() });
        let session = Session { id, agent: agent.to_owned(), streams, place: place.clone() };
        self.arranged(cluster, |sessions| sessions.push(session));
        let _open = Registered { tunnels: self, cluster, id };
        self.changed(cluster);
        tokio::select! {
            biased;
            ended = connection => ended.map_err(io::Error::other),
            () = place.until(|standing| standing == Standing::TooMany) => {
                Err(io::Error::other(format!("its agents opened more than {SESSIONS_MAX} tunnels to this process")))
            }
        }
    }

    /// Changes the sessions of a cluster, and tells each how it stands then.
    fn arranged(&self, cluster: &str, change: impl FnOnce(&mut Vec<Session>)) {
        let mut open = self.0.open.write();
        let sessions = open.entry(cluster.to_owned()).or_default();
        change(sessions);
        let count = sessions.len();
        for (n, session) in sessions.iter().enumerate() {
            let standing = match count - n {
                1 => Standing::Used,
                newest if newest <= SESSIONS_MAX => Standing::Spare,
                _ => Standing::TooMany,
            };
            session.place.set(standing);
        }
        if count == 0 {
            open.remove(cluster);
        }
    }

    fn changed(&self, cluster: &str) {
        self.0.handlers.read().iter().for_each(|handler| handler(cluster));
    }

    /// The session over which connections to the agent of a cluster are opened.
    fn newest<T>(&self, cluster: &str, of: impl FnOnce(&Session) -> T) -> Option<T> {
        self.0.open.read().get(cluster).and_then(|sessions| sessions.last()).map(of)
    }

    /// Opens a connection to the agent of a cluster. No request was sent over it yet: where the session is replaced
    /// meanwhile, the next one is used.
    async fn open(&self, cluster: &str) -> io::Result<Upgraded> {
        let opening = async {
            loop {
                let newest = |session: &Session| (session.id, session.streams.clone(), session.place.clone());
                let Some((id, streams, place)) = self.newest(cluster, newest) else {
                    return Err(io::Error::new(io::ErrorKind::NotConnected, "its agent holds no tunnel open"));
                };
                tokio::select! {
                    biased;
                    opened = connect(streams) => match opened {
                        Err(_) if self.newest(cluster, |session| session.id).is_some_and(|newest| newest != id) => {}
                        opened => return opened,
                    },
                    () = place.until(|standing| standing != Standing::Used) => {}
                }
            }
        };
        let opened = tokio::time::timeout(OPEN_MAX, opening).await;
        opened.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "its agent does not answer"))?
    }

    /// Connections to the agent of a cluster, which requests share.
    pub(crate) fn through(&self, cluster: &str) -> ThroughTunnel {
        let connector = TunnelConnector { tunnels: self.clone(), cluster: cluster.into() };
        ThroughTunnel { connections: Arc::new(Mutex::new((None, connector.connections()))), connector }
    }
}

/// Opens a connection over a session.
async fn connect(mut streams: SendRequest<Empty<Bytes>>) -> io::Result<Upgraded> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = Method::CONNECT;
    *request.uri_mut() = Uri::from_static("member:443");
    streams.ready().await.map_err(io::Error::other)?;
    let answer = streams.send_request(request).await.map_err(io::Error::other)?;
    if answer.status() != StatusCode::OK {
        return Err(io::Error::other(format!("its agent answers {}", answer.status())));
    }
    hyper::upgrade::on(answer).await.map_err(io::Error::other)
}

/// A tunnel that is known until this is dropped.
struct Registered<'a> {
    tunnels: &'a Tunnels,
    cluster: &'a str,
    id: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.tunnels.arranged(self.cluster, |sessions| sessions.retain(|session| session.id != self.id));
        self.tunnels.changed(self.cluster);
    }
}

type Shareable = legacy::Client<TunnelConnector, StreamBody>;

/// Sends requests to the agent of one cluster.
#[derive(Clone)]
pub(crate) struct ThroughTunnel {
    connector: TunnelConnector,
    /// The connections over one session: those over another are not used again, as nobody may be there any more.
    connections: Arc<Mutex<(Option<u64>, Shareable)>>,
}

impl Service<Request<StreamBody>> for ThroughTunnel {
    type Response = Response<Incoming>;
    type Error = legacy::Error;
    type Future = legacy::ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<StreamBody>) -> Self::Future {
        let TunnelConnector { tunnels, cluster } = &self.connector;
        let newest = tunnels.newest(cluster, |session| session.id);
        let mut connections = self.connections.lock();
        if newest.is_some() && connections.0 != newest {
            *connections = (newest, self.connector.connections());
        }
        connections.1.request(request)
    }
}

/// Opens connections over the tunnel of one cluster.
#[derive(Clone)]
pub(crate) struct TunnelConnector {
    tunnels: Tunnels,
    cluster: Arc<str>,
}

impl TunnelConnector {
    fn connections(&self) -> Shareable {
        legacy::Client::builder(TokioExecutor::new()).build(self.clone())
    }
}

impl Service<Uri> for TunnelConnector {
    type Response = TunnelStream;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TunnelStream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { tunnels, cluster } = self.clone();
        async move { tunnels.open(&cluster).await.map(TunnelStream) }.boxed()
    }
}

/// A connection over a tunnel.
pub(crate) struct TunnelStream(Upgraded);

impl Connection for TunnelStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for TunnelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl hyper::rt::Write for TunnelStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Carries bytes both ways between two connections until both directions have ended. Each ends by itself: where one
/// breaks, the other has a minute for what it still carries. Returns the bytes from the first to the second, and back;
/// those of a direction that broke are not counted.
pub async fn carry_both<A, B>(a: A, b: B) -> (u64, u64)
where
    A: AsyncRead + AsyncWrite,
    B: AsyncRead + AsyncWrite,
{
    async fn one_way(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> io::Result<u64> {
        let copied = tokio::io::copy(&mut from, &mut to).await;
        // The other side may be gone already.
        let _ = to.shutdown().await;
        copied
    }
    /// The bytes of both directions, once the other has ended, too.
    async fn both(first: io::Result<u64>, rest: impl Future<Output = io::Result<u64>>) -> (u64, u64) {
        match first {
            Ok(carried) => (carried, rest.await.unwrap_or_default()),
            Err(error) => {
                tracing::debug!(%error, "one direction of a carried connection broke");
                (0, tokio::time::timeout(REST_OF_A_CONNECTION, rest).await.map_or(0, Result::unwrap_or_default))
            }
        }
    }
    let ((from_a, to_a), (from_b, to_b)) = (tokio::io::split(a), tokio::io::split(b));
    match select(Box::pin(one_way(from_a, to_b)), Box::pin(one_way(from_b, to_a))).await {
        Either::Left((there, back)) => both(there, back).await,
        Either::Right((back, there)) => {
            let (back, there) = both(back, there).await;
            (there, back)
        }
    }
}

/// Serves the requests of the control plane over a tunnel until it ends: `answer` passes each on to the member. An
/// answer 101 takes its connection over by [`hyper::upgrade::on`]. Connections over the tunnel are tasks of the group.
///
/// # Errors
/// If the stream breaks.
pub async fn serve_tunnel(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    tasks: &Tasks,
    answer: Answer,
) -> io::Result<()> {
    let group = tasks.child("tunnel");
    let of_connections = group.clone();
    let opened = Answer::new(move |mut request: Request<Incoming>| {
        let (group, answer) = (of_connections.clone(), answer.clone());
        async move {
            let mut response = Response::new(Empty::new().map_err(|e| match e {}).boxed_unsync());
            if request.method() != Method::CONNECT {
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                return Ok(response);
            }
            let connection = hyper::upgrade::on(&mut request);
            let streams = group.clone();
            group.spawn("connection", async move {
                let Ok(connection) = connection.await else { return };
                if let Err(error) = Served::new(TokioIo::new(connection), BOUNDS, &streams, answer).await {
                    tracing::debug!(%error, "a connection over the tunnel ended");
                }
            });
            Ok(response)
        }
    });
    let served = Served::new(stream, BOUNDS_OF_TUNNEL, &group, opened).await;
    group.kill();
    served
}
