//! HTTP/1.1 and HTTP/2 servers of all listeners. Streams, answers and bodies are boxed here, so that what serves a
//! connection is compiled once, whatever is served.

mod beginning;
mod busy;

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{body::Incoming, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use ironclad_seam::{Clock, Tasks};
use rustls::{ServerConfig, pki_types::CertificateDer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use crate::{beginning::Beginning, busy::Busy};

/// Connections of one [`Listener`] at once.
const CONNECTIONS_MAX: usize = 256;
/// Time for a TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Time for the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Time without a request after which a connection of HTTP/2 ends. Over HTTP/1.1 it is that for the next head.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// Interval of HTTP/2 pings, which detect vanished peers.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Streams of HTTP/2 that may be open at once on a connection.
const STREAMS_MAX: u32 = 1_000;
/// Streams that a client reset before they were begun, and streams reset for errors of the client's: beyond so many,
/// the connection ends with GOAWAY.
const RESETS_PENDING: usize = 64;
const RESETS_FOR_ERRORS: usize = 256;
/// Open connections get so long to finish what they do at the end.
const GRACE: Duration = Duration::from_secs(5);
/// Time until the next attempt after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes of an answer.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;
/// The certificates that a client presented; none if it presented none.
pub type Peer = Arc<Vec<CertificateDer<'static>>>;
/// The TLS settings of new connections.
pub type Settings = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

type Answering = BoxFuture<'static, io::Result<Response<Body>>>;

/// Answers the requests of a connection. Cheap to clone.
#[derive(Clone)]
pub struct Answer(Arc<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>);

impl Answer {
    /// Answers with this function; an error breaks the request off.
    pub fn new<F>(answer: impl Fn(Request<Incoming>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Response<Body>>> + Send + 'static,
    {
        Self(Arc::new(move |request| answer(request).boxed()))
    }
}

impl Service<Request<Incoming>> for Answer {
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        (self.0)(request)
    }
}

/// Answers requests by the certificates of their clients. Cheap to clone.
#[derive(Clone)]
pub struct Front(Arc<dyn Fn(Request<Incoming>, Peer) -> Answering + Send + Sync>);

impl Front {
    /// Answers with this function.
    pub fn new<F>(answer: impl Fn(Request<Incoming>, Peer) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<Body>> + Send + 'static,
    {
        Self(Arc::new(move |request, peer| answer(request, peer).map(Ok).boxed()))
    }

    fn of(self, peer: Peer, busy: Busy) -> Answer {
        Answer(Arc::new(move |request| busy.until_answered((self.0)(request, peer.clone()))))
    }
}

/// Bounds of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time until a client has said which protocol it speaks; none for as long as it likes.
    pub begin: Option<Duration>,
    /// True where clients speak HTTP/2 alone.
    pub only_http2: bool,
    /// Time for the head of a request over HTTP/1.1; none for clients that are trusted to keep connections.
    pub head: Option<Duration>,
    /// Interval of HTTP/2 pings.
    pub keep_alive: Duration,
    /// Streams of HTTP/2 that may be open at once.
    pub streams: u32,
    /// Bytes that may be under way over HTTP/2, of one stream and of all.
    pub windows: Option<(u32, u32)>,
    /// Bytes of the head of a request; none for what the library allows.
    pub head_bytes: Option<usize>,
}

impl Bounds {
    /// The usual bounds.
    pub const DEFAULT: Self = Self {
        begin: Some(HEAD_MAX),
        only_http2: false,
        head: Some(HEAD_MAX),
        keep_alive: KEEP_ALIVE,
        streams: STREAMS_MAX,
        windows: None,
        head_bytes: None,
    };
}

impl Default for Bounds {
    fn default() -> Self {
        Self::DEFAULT
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

type Inner = auto::UpgradeableConnection<'static, TokioIo<Box<dyn Stream>>, Answer, Executor>;

trait Served: Future<Output = io::Result<()>> + Send {
    fn finish(self: Pin<&mut Self>);
}

/// The connection under a name of its own, so that its code is made here alone.
struct Whole(Pin<Box<Inner>>);

impl Future for Whole {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll(cx).map_err(io::Error::other)
    }
}

impl Served for Whole {
    fn finish(mut self: Pin<&mut Self>) {
        self.0.as_mut().graceful_shutdown();
    }
}

/// An open connection: a future that ends with it. Protocols are told apart by what comes first.
pub struct Connection(Pin<Box<dyn Served>>);

impl Connection {
    /// Serves this stream. Streams of HTTP/2 are tasks of the group.
    ///
    /// The future ends with an error if the stream breaks, or the client breaks the protocol or a bound.
    pub fn new(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        bounds: Bounds,
        tasks: &Tasks,
        answer: Answer,
    ) -> Self {
        Self::boxed(Box::new(stream), bounds, tasks, answer)
    }

    fn boxed(stream: Box<dyn Stream>, bounds: Bounds, tasks: &Tasks, answer: Answer) -> Self {
        let mut builder = auto::Builder::new(Executor(tasks.clone()));
        builder.http1().timer(TokioTimer::new()).header_read_timeout(bounds.head);
        if let Some(bytes) = bounds.head_bytes {
            builder.http1().max_buf_size(bytes);
            builder.http2().max_header_list_size(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(bounds.keep_alive))
            .max_concurrent_streams(bounds.streams)
            .max_pending_accept_reset_streams(RESETS_PENDING)
            .max_local_error_reset_streams(RESETS_FOR_ERRORS)
            .initial_stream_window_size(bounds.windows.map(|(stream, _)| stream))
            .initial_connection_window_size(bounds.windows.map(|(_, all)| all));
        let stream: Box<dyn Stream> = match Beginning::of(&bounds) {
            Some(beginning) => Box::new(beginning.before(stream)),
            None => stream,
        };
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), answer);
        Self(Box::pin(Whole(Box::pin(connection.into_owned()))))
    }

    /// Begins no further request, and ends once those under way are answered.
    pub fn finish(&mut self) {
        self.0.as_mut().finish();
    }
}

impl Future for Connection {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll(cx)
    }
}

/// A listener that serves connections of its own.
pub struct Listener {
    /// Where it listens.
    pub listener: TcpListener,
    /// TLS settings; none for plain connections.
    pub tls: Option<Settings>,
    /// Name in logs.
    pub name: &'static str,
    /// Bounds of each connection.
    pub bounds: Bounds,
    /// Time without a request after which a connection ends.
    pub idle: Duration,
}

impl Listener {
    /// A listener with the usual bounds.
    pub fn new(listener: TcpListener, tls: Option<Settings>, name: &'static str) -> Self {
        Self { listener, tls, name, bounds: Bounds::default(), idle: IDLE_MAX }
    }

    /// Serves until the tasks are stopped; then requests under way are finished. Each connection begins with the TLS
    /// settings of its time.
    pub async fn serve(self, clock: &Clock, tasks: &Tasks, front: Front) {
        let Self { listener, tls, name, bounds, idle } = self;
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let connections = tasks.child(name);
        loop {
            let Ok(slot) = slots.clone().acquire_owned().await else { break };
            let stream = tokio::select! {
                biased;
                () = tasks.stopping() => break,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, listener = name, "accepting a connection failed");
                        clock.sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
            };
            let (settings, group, front) = (tls.as_ref().map(|tls| tls()), connections.clone(), front.clone());
            let clock = clock.clone();
            connections.spawn("connection", async move {
                let busy = Busy::default();
                let accepted = accepted(stream, settings, bounds, &group, front, &busy).await;
                let Some(mut connection) = accepted else { return };
                let ended = tokio::select! {
                    biased;
                    ended = &mut connection => Some(ended),
                    () = group.stopping() => None,
                    () = busy.idle_for(idle, &clock) => None,
                };
                let ended = match ended {
                    Some(ended) => ended,
                    None => {
                        connection.finish();
                        timeout(GRACE, connection).await.unwrap_or(Ok(()))
                    }
                };
                if let Err(error) = ended {
                    tracing::debug!(%error, listener = name, "a connection failed");
                }
                drop(slot);
            });
        }
        drop(listener);
        let _ = timeout(GRACE, connections.ended()).await;
        connections.kill();
    }
}

/// The connection once its handshake is done; `None` if it fails.
async fn accepted(
    stream: TcpStream,
    settings: Option<Arc<ServerConfig>>,
    bounds: Bounds,
    tasks: &Tasks,
    front: Front,
    busy: &Busy,
) -> Option<Connection> {
    let _ = stream.set_nodelay(true);
    let Some(settings) = settings else {
        return Some(Connection::new(stream, bounds, tasks, front.of(Peer::default(), busy.clone())));
    };
    let stream = timeout(HANDSHAKE_MAX, TlsAcceptor::from(settings).accept(stream)).await.ok()?.ok()?;
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Arc::new(certificates.iter().map(|c| c.clone().into_owned()).collect());
    Some(Connection::new(stream, bounds, tasks, front.of(peer, busy.clone())))
}

/// Runs the streams of HTTP/2 connections as tasks of a group.
#[derive(Clone)]
struct Executor(Tasks);

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn("stream", future);
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::{BodyExt as _, Full, StreamBody};
    use hyper::body::Frame;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::Notify,
    };

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

    #[tokio::test]
    async fn requests_under_way_are_finished_at_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tasks, clock) = (Tasks::new("test"), Clock::system());
        let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (of_begin, of_end) = (begun.clone(), go_on.clone());
        let front = Front::new(move |_, peer: Peer| {
            let (begun, go_on) = (of_begin.clone(), of_end.clone());
            async move {
                begun.notify_one();
                go_on.notified().await;
                let text = format!("{} certificates", peer.len());
                Response::new(Full::from(text).map_err(|never| match never {}).boxed_unsync())
            }
        });
        let group = tasks.clone();
        let served = tasks
            .spawn("serve", async move { Listener::new(listener, None, "test").serve(&clock, &group, front).await });
        let mut idle = TcpStream::connect(address).await.unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        begun.notified().await;
        tasks.stop();
        go_on.notify_one();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("0 certificates"), "{answer}");
        assert_eq!(idle.read(&mut [0; 1]).await.unwrap_or(0), 0, "a connection without a request ends");
        served.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    }

    #[tokio::test]
    async fn a_connection_without_a_request_ends_and_one_with_a_request_does_not() {
        /// First bytes of a client of HTTP/2: the preface, and settings without any.
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tasks, clock) = (Tasks::new("test"), Clock::system());
        let go_on = Arc::new(Notify::new());
        let of_end = go_on.clone();
        let front = Front::new(move |_, _| {
            let go_on = of_end.clone();
            async move {
                let body = stream::once(async move {
                    go_on.notified().await;
                    Ok(Frame::data(Bytes::from("late")))
                });
                Response::new(StreamBody::new(body).boxed_unsync())
            }
        });
        let group = tasks.clone();
        let listener = Listener { idle: Duration::from_millis(100), ..Listener::new(listener, None, "test") };
        tasks.spawn("serve", async move { listener.serve(&clock, &group, front).await });
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(REQUEST).await.unwrap();
        let mut head = [0; 12];
        client.read_exact(&mut head).await.unwrap();
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(PREFACE).await.unwrap();
        let mut told = Vec::new();
        idle.read_to_end(&mut told).await.unwrap();
        assert!(told.len() > 9, "it is told of the end");
        go_on.notify_one();
        let mut rest = String::new();
        client.read_to_string(&mut rest).await.unwrap();
        assert!(rest.contains("late"), "{rest}");
        tasks.kill();
    }
}
