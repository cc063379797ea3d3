//! Tunnels: streams that agents hold open, over which the control plane reaches members that it has no way to.
//!
//! An agent upgrades a connection to the control plane. HTTP/2 runs over it with the roles reversed: the control plane
//! opens streams with `CONNECT`, and each is a connection over HTTP/1.1 to the agent, which passes requests on to its
//! member. So requests, watches and upgrades need nothing of their own, and no credentials of the member leave it.

use std::{
    collections::BTreeMap,
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
    client::legacy::connect::{Connected, Connection},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use ironclad_seam::Tasks;
use ironclad_serving::{Answer, Bounds, Connection as Served};
use parking_lot::RwLock;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tower::Service;

/// Name of the protocol in the header Upgrade.
pub const TUNNEL: &str = "ironclad-tunnel";
/// Header of the answer to an agent: the process of the control plane in which the tunnel ends, if there may be
/// several.
pub const REPLICA: HeaderName = HeaderName::from_static("ironclad-replica");
/// Header of an agent's request: the processes to which it holds tunnels, between commas. One that finds itself among
/// them answers 409.
pub const HELD: HeaderName = HeaderName::from_static("ironclad-tunnels-held");
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
/// Bounds of a tunnel and of the connections over it, whose client is the control plane.
const BOUNDS: Bounds =
    Bounds { head: None, keep_alive: KEEP_ALIVE, streams: STREAMS_MAX, windows: Some(WINDOW), head_bytes: None };

/// Time for one direction of a carried connection after the other broke.
const REST_OF_A_CONNECTION: Duration = Duration::from_secs(60);

type OnChange = Box<dyn Fn(&str) + Send + Sync>;

/// The tunnels that end in this process, by the name of the cluster. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tunnels(Arc<Shared>);

#[derive(Default)]
struct Shared {
    replica: Option<Arc<str>>,
    open: RwLock<BTreeMap<String, Open>>,
    made: AtomicU64,
    handlers: RwLock<Vec<OnChange>>,
}

struct Open {
    id: u64,
    streams: SendRequest<Empty<Bytes>>,
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

    /// True while the agent of this cluster holds a tunnel open.
    #[must_use]
    pub fn is_open(&self, cluster: &str) -> bool {
        self.0.open.read().contains_key(cluster)
    }

    /// Calls this with the name of each cluster whose tunnel is opened, or ends.
    pub fn on_change(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.0.handlers.write().push(Box::new(handler));
    }

    /// Keeps a tunnel of a cluster until it ends. The newest of a cluster is the one that is used.
    ///
    /// # Errors
    /// If the stream breaks.
    pub async fn carry<T>(&self, cluster: &str, stream: T) -> io::Result<()>
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
        let (streams, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let id = self.0.made.fetch_add(1, Ordering::Relaxed);
        self.0.open.write().insert(cluster.to_owned(), Open { id, streams });
        let _open = Registered { tunnels: self, cluster, id };
        self.changed(cluster);
        connection.await.map_err(io::Error::other)
    }

    fn changed(&self, cluster: &str) {
        self.0.handlers.read().iter().for_each(|handler| handler(cluster));
    }

    /// Opens a connection to the agent of a cluster.
    async fn open(&self, cluster: &str) -> io::Result<Upgraded> {
        let streams = self.0.open.read().get(cluster).map(|open| open.streams.clone());
        let mut streams =
            streams.ok_or_else(|| io::Error::new(io::ErrorKind::NotConnected, "its agent holds no tunnel open"))?;
        let mut request = Request::new(Empty::new());
        *request.method_mut() = Method::CONNECT;
        *request.uri_mut() = Uri::from_static("member:443");
        let opening = async {
            streams.ready().await.map_err(io::Error::other)?;
            let answer = streams.send_request(request).await.map_err(io::Error::other)?;
            if answer.status() != StatusCode::OK {
                return Err(io::Error::other(format!("its agent answers {}", answer.status())));
            }
            hyper::upgrade::on(answer).await.map_err(io::Error::other)
        };
        let opened = tokio::time::timeout(OPEN_MAX, opening).await;
        opened.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "its agent does not answer"))?
    }

    /// Makes connections to the agent of a cluster.
    pub(crate) fn connector(&self, cluster: &str) -> TunnelConnector {
        TunnelConnector { tunnels: self.clone(), cluster: cluster.into() }
    }
}

/// A tunnel that is known until this is dropped.
struct Registered<'a> {
    tunnels: &'a Tunnels,
    cluster: &'a str,
    id: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        {
            let mut open = self.tunnels.0.open.write();
            if open.get(self.cluster).is_some_and(|open| open.id == self.id) {
                open.remove(self.cluster);
            }
        }
        self.tunnels.changed(self.cluster);
    }
}

/// Opens connections over the tunnel of one cluster.
#[derive(Clone)]
pub(crate) struct TunnelConnector {
    tunnels: Tunnels,
    cluster: Arc<str>,
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
    let served = Served::new(stream, BOUNDS, &group, opened).await;
    group.kill();
    served
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::Streams;

    /// An agent whose member answers with the path, and counts.
    async fn agent(stream: tokio::io::DuplexStream, tasks: Tasks) {
        let answer = Answer::new(|request: Request<Incoming>| async move {
            let text = format!("{} {}", request.method(), request.uri().path());
            Ok(Response::new(Full::new(Bytes::from(text)).map_err(|e| match e {}).boxed_unsync()))
        });
        let _ = serve_tunnel(stream, &tasks, answer).await;
    }

    async fn asked(streams: &Streams, path: &str) -> Result<String, String> {
        let mut request = Request::new(Empty::new().map_err(|e| match e {}).boxed_unsync());
        *request.uri_mut() = path.parse().map_err(|_| path.to_owned())?;
        let body = streams.send(request).await?.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
    }

    /// A side that can't be written to any more.
    struct Closed;

    impl AsyncWrite for Closed {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn what_one_direction_carries_arrives_though_the_other_broke() {
        let sent = vec![7; 1 << 16];
        let (mut near, far) = tokio::io::duplex(16);
        near.write_all(b"nobody reads this").now_or_never();
        let tasks = Tasks::new("carriers");
        let content = std::io::Cursor::new(sent.clone());
        let carried = tasks.spawn("carry", carry_both(tokio::io::join(content, Closed), far));
        let mut arrived = Vec::new();
        near.read_to_end(&mut arrived).await.unwrap();
        assert!(arrived == sent, "{} bytes of {}", arrived.len(), sent.len());
        drop(near);
        assert_eq!(carried.await.unwrap(), (sent.len() as u64, 0));
    }

    #[tokio::test]
    async fn requests_pass_a_tunnel_and_the_newest_of_a_cluster_counts() {
        let tunnels = Tunnels::default();
        let streams = Streams::through(&tunnels, "m1");
        let refused = asked(&streams, "/a").await.unwrap_err();
        assert!(refused.contains("holds no tunnel open"), "{refused}");
        let (near, far) = tokio::io::duplex(1 << 16);
        let (carriers, one, other) = (Tasks::new("carriers"), Tasks::new("one agent"), Tasks::new("other agent"));
        let (carried, of_agent) = (tunnels.clone(), agent(far, one.clone()));
        let first = carriers.spawn("first", async move { carried.carry("m1", near).await });
        drop(one.spawn("serve", of_agent));
        while !tunnels.is_open("m1") {
            tokio::task::yield_now().await;
        }
        for path in ["/api/v1/pods", "/version"] {
            assert_eq!(asked(&streams, path).await.unwrap(), format!("GET {path}"));
        }
        // A second tunnel takes over, and the end of the first changes nothing.
        let (near, far) = tokio::io::duplex(1 << 16);
        let (carried, of_agent) = (tunnels.clone(), agent(far, other.clone()));
        let second = carriers.spawn("second", async move { carried.carry("m1", near).await });
        drop(other.spawn("serve", of_agent));
        while tunnels.0.open.read().get("m1").map(|open| open.id) != Some(1) {
            tokio::task::yield_now().await;
        }
        one.kill();
        let _ = first.await;
        assert!(tunnels.is_open("m1"));
        // A connection over the first may be found broken once.
        let mut answer = asked(&streams, "/b").await;
        if answer.is_err() {
            answer = asked(&streams, "/b").await;
        }
        assert_eq!(answer.unwrap(), "GET /b");
        other.kill();
        let _ = second.await;
        assert!(!tunnels.is_open("m1"));
    }
}
