//! Routes over real connections: bodies that arrive and leave piece by piece, upgrades, clients that go.

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use ironclad_apiserver::{
    ApiError, Bounds, Identity, RequestBody, ResponseBody, Route, RouteFuture, Upgrade, read_body,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, split},
    sync::Notify,
    time::timeout,
};

use crate::{
    bounds::{DEADLINE, Raw, serve},
    support::World,
    tls::Served,
};

/// Paths that a test knows, some of which anybody may ask for.
#[derive(Clone, Default)]
struct Streams {
    /// Notified when a request that is never answered has come, and when its future was dropped.
    came: Arc<Notify>,
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
            let path = request.uri().path().to_owned();
            let answered = match &*path {
                "/streams/echo" => Ok(Response::new(ResponseBody::boxed(request.into_body()))),
                "/streams/upgrade" => Upgrade::of(&mut request).map(|upgrade| {
                    upgrade.run(|connection| async move {
                        let (mut from, mut to) = split(connection);
                        let _ = copy(&mut from, &mut to).await;
                    });
                    let mut switching = Response::new(ResponseBody::full(""));
                    *switching.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                    switching.headers_mut().insert(header::CONNECTION, "Upgrade".parse().unwrap());
                    switching.headers_mut().insert(header::UPGRADE, "echo".parse().unwrap());
                    switching
                }),
                "/streams/whole" => {
                    read_body(request.into_body()).await.map(|whole| Response::new(ResponseBody::full(whole)))
                }
                _ => {
                    let _gone = NotifyOnDrop(own.gone.clone());
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

/// What arrives until this text is in it.
async fn until(raw: &mut Raw, text: &str) -> String {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(text) {
        raw.more(&mut all).await;
    }
    String::from_utf8_lossy(&all).into_owned()
}

const UPGRADE: &[u8] =
    b"GET /streams/upgrade HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";

async fn notified(notify: &Notify) {
    timeout(DEADLINE, notify.notified()).await.expect("it happens");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_arrives_and_leaves_piece_by_piece() {
    let (served, _) = served(Bounds::default()).await;
    let mut raw = Raw::connect(&served).await;
    raw.send(b"POST /streams/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        .await;
    let head = until(&mut raw, "first").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // The second piece is sent after the first one has come back.
    raw.send(b"6\r\nsecond\r\n").await;
    until(&mut raw, "second").await;
    raw.send(b"0\r\n\r\n").await;
    until(&mut raw, "0\r\n\r\n").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_carries_both_directions_until_the_server_stops() {
    let (served, _) = served(Bounds::default()).await;
    let mut raw = Raw::connect(&served).await;
    raw.send(UPGRADE).await;
    let head = until(&mut raw, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    for frame in ["one", "two"] {
        raw.send(frame.as_bytes()).await;
        until(&mut raw, frame).await;
    }
    served.seam.tasks.stop();
    timeout(DEADLINE, served.seam.tasks.ended()).await.expect("the server ends");
    assert_eq!(raw.0.read(&mut [0; 8]).await.unwrap_or(0), 0, "the connection is closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_an_upgraded_connection_frees_its_places() {
    // One connection and one stream: the next client gets both only once the first one has ended.
    let (served, _) = served(Bounds { connections: 1, streams: 1, ..Bounds::default() }).await;
    for _ in 0..3 {
        let mut raw = Raw::connect(&served).await;
        raw.send(UPGRADE).await;
        let head = until(&mut raw, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        raw.0.shutdown().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_refused_where_there_is_none() {
    let (served, streams) = served(Bounds::default()).await;
    let (code, status) = Raw::connect(&served).await.ask("GET", "/streams/upgrade", "", b"").await;
    let text =
        "the connection can't be upgraded: send the request over HTTP/1.1, with the headers Connection and Upgrade";
    assert_eq!((code, &status["message"]), (400, &text.into()));
    // A client in the same process has no connection.
    let world = World::new().await;
    world.server.mount(Arc::new(streams));
    let answer = world.send(Method::GET, "/streams/upgrade", &[("upgrade", "echo")], "").await.expect(400);
    assert_eq!(answer.message(), text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_body_has_a_bound_and_a_refused_one_is_not_read() {
    let (served, _) = served(Bounds { body: 4 * DEADLINE, ..Bounds::default() }).await;
    let (code, _) = Raw::connect(&served).await.ask("POST", "/streams/whole", "", b"whole").await;
    assert_eq!(code, 200);
    let mut large = Raw::connect(&served).await;
    large.head("POST", "/streams/whole", "", 4 * 1024 * 1024).await;
    assert_eq!(large.answer().await.0, 413);
    // Only the head is sent.
    let mut stranger = Raw::connect_as(&served, false).await;
    stranger.head("POST", "/streams/echo", "", 1_000).await;
    assert_eq!(stranger.answer().await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_when_its_client_goes() {
    let (served, streams) = served(Bounds::default()).await;
    let mut raw = Raw::connect(&served).await;
    raw.head("GET", "/streams/hang", "", 0).await;
    notified(&streams.came).await;
    drop(raw);
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
