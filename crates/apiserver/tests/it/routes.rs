//! Routes over real connections: bodies that arrive and leave piece by piece, upgrades, clients that go.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use ironclad_apiserver::{
    ApiError, Bounds, Identity, RequestBody, ResponseBody, Route, RouteFuture, Upgrade, read_body,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, split},
    sync::Notify,
    time::timeout,
};

use crate::{
    bounds::{DEADLINE, Raw, http2, serve},
    support::World,
    tls::Served,
};

/// Paths that a test knows, of which anybody may ask for `/version/`.
#[derive(Clone, Default)]
struct Streams {
    /// Notified when a request that is never answered has come.
    came: Arc<Notify>,
    /// Notified when such a request, the body of an echo or an upgraded connection has ended.
    gone: Arc<Notify>,
}

struct NotifyOnDrop(Arc<Notify>);

impl Drop for NotifyOnDrop {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Route for Streams {
    fn takes(&self, path: &str) -> bool {
        path.starts_with("/streams/") || path == "/version/"
    }

    fn call(&self, mut request: Request<RequestBody>, _: Identity) -> RouteFuture {
        let own = self.clone();
        Box::pin(async move {
            let gone = NotifyOnDrop(own.gone.clone());
            let asks_for_upgrade = request.headers().contains_key(header::UPGRADE);
            let answered = match request.uri().path() {
                "/streams/echo" => {
                    let echo = request.into_body().map_frame(move |frame| {
                        let _gone = &gone;
                        frame
                    });
                    Ok(Response::new(ResponseBody::boxed(echo)))
                }
                "/streams/first" => {
                    let first = request.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
                    Ok(Response::new(ResponseBody::full(first)))
                }
                "/streams/whole" => {
                    read_body(request.into_body()).await.map(|whole| Response::new(ResponseBody::full(whole)))
                }
                path if path == "/streams/upgrade" || asks_for_upgrade => Upgrade::of(&mut request).map(|upgrade| {
                    upgrade.switch(HeaderValue::from_static("echo"), |connection| async move {
                        let _gone = gone;
                        let (mut from, mut to) = split(connection);
                        let _ = copy(&mut from, &mut to).await;
                    })
                }),
                _ => {
                    own.came.notify_one();
                    std::future::pending().await
                }
            };
            answered.unwrap_or_else(|error: ApiError| {
                let mut refused = Response::new(ResponseBody::full(error.status().to_string()));
                *refused.status_mut() = StatusCode::from_u16(error.code).unwrap();
                refused
            })
        })
    }
}

async fn served(bounds: Bounds) -> (Served, Streams) {
    let (served, streams) = (serve(bounds).await, Streams::default());
    served.server.mount(Arc::new(streams.clone()));
    (served, streams)
}

/// Reads until this text has arrived; returns all that did.
async fn until(raw: &mut Raw, text: &str) -> String {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(text) {
        raw.more(&mut all).await;
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn upgrade(path: &str, more: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: echo\r\n{more}\r\n").into_bytes()
}

/// A connection that was upgraded, once there is a place for it.
async fn upgraded(served: &Served, path: &str, admin: bool) -> Raw {
    let upgrading = async {
        loop {
            let mut raw = Raw::connect_as(served, admin).await;
            raw.send(&upgrade(path, "Connection: keep-alive, Upgrade\r\n")).await;
            let head = until(&mut raw, "\r\n\r\n").await.to_ascii_lowercase();
            if !head.starts_with("http/1.1 429") {
                assert!(head.starts_with("http/1.1 101") && head.contains("\r\nupgrade: echo\r\n"), "{head}");
                return raw;
            }
        }
    };
    timeout(DEADLINE, upgrading).await.expect("a place in time")
}

/// A streamed body of which the first piece has come back.
async fn streaming(served: &Served) -> Raw {
    let mut raw = Raw::connect(served).await;
    raw.send(b"POST /streams/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        .await;
    let head = until(&mut raw, "first").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    raw
}

async fn notified(notify: &Notify) {
    timeout(DEADLINE, notify.notified()).await.expect("it happens");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_arrives_and_leaves_piece_by_piece() {
    let (served, _) = served(Bounds::default()).await;
    let mut raw = streaming(&served).await;
    raw.send(b"6\r\nsecond\r\n").await;
    until(&mut raw, "second").await;
    raw.send(b"0\r\n\r\n").await;
    until(&mut raw, "0\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_upgraded_connections_end_when_the_server_stops() {
    let (served, streams) = served(Bounds::default()).await;
    let mut raw = upgraded(&served, "/streams/upgrade", true).await;
    for frame in ["one", "two"] {
        raw.send(frame.as_bytes()).await;
        until(&mut raw, frame).await;
    }
    let mut open = streaming(&served).await;
    served.seam.tasks.stop();
    notified(&streams.gone).await;
    assert_eq!(raw.0.read(&mut [0; 8]).await.unwrap_or(0), 0, "the upgraded connection is closed");
    timeout(DEADLINE, served.seam.tasks.ended()).await.expect("the server ends");
    notified(&streams.gone).await;
    open.rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_counts_as_a_stream_until_it_ends() {
    let (served, streams) = served(Bounds { streams: 1, ..Bounds::default() }).await;
    let anonymous = async || Raw::connect_as(&served, false).await;
    for _ in 0..3 {
        let mut raw = upgraded(&served, "/version/", false).await;
        assert_eq!(anonymous().await.ask("GET", "/version/", "", b"").await.0, 429);
        raw.0.shutdown().await.unwrap();
        notified(&streams.gone).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_counts_as_a_connection_until_it_ends() {
    let (served, _) = served(Bounds { connections: 1, ..Bounds::default() }).await;
    let mut raw = upgraded(&served, "/streams/upgrade", true).await;
    let mut second = pin!(Raw::connect(&served));
    // More time than a handshake takes.
    for _ in 0..500 {
        tokio::select! {
            biased;
            _ = second.as_mut() => panic!("a second connection is let in"),
            _ = async {
                raw.send(b"alive").await;
                until(&mut raw, "alive").await
            } => {}
        }
    }
    drop(raw);
    timeout(DEADLINE, second).await.expect("its place is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_refused_where_there_is_none() {
    const TEXT: &str = "the connection can't be upgraded: send the request over HTTP/1.1, with the headers Connection \
                        and Upgrade and without a body";
    const CONNECTION: &str = "Connection: Upgrade\r\n";
    let (served, streams) = served(Bounds::default()).await;
    for (why, head) in [
        ("not asked for", b"GET /streams/upgrade HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("half asked for", upgrade("/streams/upgrade", "")),
        ("with a body", upgrade("/streams/upgrade", &format!("{CONNECTION}Content-Length: 5\r\n"))),
    ] {
        let mut raw = Raw::connect(&served).await;
        raw.send(&head).await;
        let (code, status) = raw.answer().await;
        assert_eq!((code, &status["reason"], &status["message"]), (400, &"BadRequest".into(), &TEXT.into()), "{why}");
    }
    // A client in the same process has no connection, and those of HTTP/2 carry other requests.
    let world = World::new().await;
    world.server.mount(Arc::new(streams));
    let headers = [("connection", "upgrade"), ("upgrade", "echo")];
    assert_eq!(world.send(Method::GET, "/streams/upgrade", &headers, "").await.expect(400).message(), TEXT);
    let mut raw = Raw::connect_http2(&served).await;
    raw.send(&http2::get(1, "/streams/upgrade")).await;
    let (mut code, mut body) = (0, Vec::new());
    while body.is_empty() {
        match raw.frame().await.expect("an answer") {
            (http2::HEADERS, block) => code = block[0],
            (http2::DATA, data) => body = data,
            _ => {}
        }
    }
    assert_eq!(code, http2::STATUS_400);
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["message"], TEXT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_body_has_a_bound_and_a_refused_one_is_not_read() {
    let (served, _) = served(Bounds { body: 4 * DEADLINE, ..Bounds::default() }).await;
    let (code, _) = Raw::connect(&served).await.ask("POST", "/streams/whole", "", b"whole").await;
    assert_eq!(code, 200);
    let mut large = Raw::connect(&served).await;
    large.head("POST", "/streams/whole", "", 4 * 1024 * 1024).await;
    let (code, status) = large.answer().await;
    assert_eq!((code, status["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
    // One that does not say its size, in one piece that ends just beyond the bound.
    let mut large = Raw::connect(&served).await;
    large
        .send(b"POST /streams/whole HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n300001\r\n")
        .await;
    large.send(&vec![b'x'; 0x30_0001]).await;
    assert_eq!(large.answer().await.0, 413);
    // Only the head is sent.
    let mut stranger = Raw::connect_as(&served, false).await;
    stranger.head("POST", "/streams/echo", "", 1_000).await;
    assert_eq!(stranger.answer().await.0, 403);
}

/// A body without end that counts the pieces that were taken of it.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Body for Counted {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"piece")))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_is_read_as_far_as_its_route_reads_and_not_before_it_is_authorised() {
    let world = World::new().await;
    world.server.mount(Arc::new(Streams::default()));
    for (identity, path, code, taken) in [
        (Identity::admin("tester"), "/streams/first", 200, 1),
        (Identity::user("stranger", &[]), "/streams/first", 403, 0),
        (Identity::user("stranger", &[]), "/api/v1/namespaces", 403, 0),
    ] {
        let body = Counted::default();
        let request = Request::post(path).body(body.clone()).unwrap();
        let answer = world.server.handle(request, identity).await.expect("the server lives");
        assert_eq!((answer.status().as_u16(), body.0.load(Ordering::Relaxed)), (code, taken), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_when_its_client_goes() {
    let (served, streams) = served(Bounds::default()).await;
    let mut raw = Raw::connect(&served).await;
    raw.head("GET", "/streams/hang", "", 0).await;
    notified(&streams.came).await;
    drop(raw);
    notified(&streams.gone).await;
    // In the middle of both bodies.
    drop(streaming(&served).await);
    notified(&streams.gone).await;
    drop(upgraded(&served, "/streams/upgrade", true).await);
    notified(&streams.gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_have_a_bound_of_their_own() {
    let (served, streams) = served(Bounds { requests: 1, streams: 1, ..Bounds::default() }).await;
    let mut first = Raw::connect_as(&served, false).await;
    first.head("GET", "/version/", "", 0).await;
    notified(&streams.came).await;
    let mut second = Raw::connect_as(&served, false).await;
    assert_eq!(second.ask("GET", "/version/", "", b"").await.0, 429);
    assert_eq!(second.ask("GET", "/version", "", b"").await.0, 200, "ordinary requests are not meant");
    drop(first);
    notified(&streams.gone).await;
}
