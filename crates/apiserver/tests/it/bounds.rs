//! Limits for clients over the network, on a real listener: each abuse is refused or cut off, and others are served
//! meanwhile.

use std::{sync::Arc, time::Duration};

use ironclad_apiserver::{Bounds, Options};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    support::config_map,
    tls::{Served, serve_with},
};

/// Longer than anything here takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The administrator, over HTTP/1.1 of this test's own making.
pub(crate) struct Raw(pub(crate) TlsStream<TcpStream>);

impl Raw {
    pub(crate) async fn connect(served: &Served) -> Self {
        Self::connect_as(served, true).await
    }

    /// With the administrator's certificate, or without any.
    pub(crate) async fn connect_as(served: &Served, admin: bool) -> Self {
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate(served.pki.ca())).unwrap();
        let builder = rustls::ClientConfig::builder().with_root_certificates(roots);
        let config = if admin {
            let admin = served.pki.admin();
            let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(admin.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate(&admin.certificate)], key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let stream = TcpStream::connect(served.address()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        Self(TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// The head of a request with a body of so many bytes.
    pub(crate) async fn head(&mut self, method: &str, path: &str, content_type: &str, length: usize) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        self.send(head.as_bytes()).await;
    }

    /// Everything until the server closes the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut all = Vec::new();
        // An end without a farewell is an end.
        let _ = timeout(DEADLINE, self.0.read_to_end(&mut all)).await.expect("the server closes the connection");
        String::from_utf8_lossy(&all).into_owned()
    }

    /// The code and the object of one answer.
    pub(crate) async fn answer(&mut self) -> (u16, Value) {
        let mut all = Vec::new();
        let head = loop {
            if let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.more(&mut all).await;
        };
        let text = String::from_utf8_lossy(&all[..head]).to_ascii_lowercase();
        let length = text.split_once("content-length: ").map_or("0", |(_, rest)| rest.lines().next().unwrap());
        let length: usize = length.parse().unwrap();
        let code = text.split(' ').nth(1).unwrap().parse().unwrap();
        while all.len() < head + length {
            self.more(&mut all).await;
        }
        (code, serde_json::from_slice(&all[head..]).unwrap_or(Value::Null))
    }

    pub(crate) async fn more(&mut self, all: &mut Vec<u8>) {
        let mut more = [0; 16 * 1024];
        let read = timeout(DEADLINE, self.0.read(&mut more)).await.expect("an answer in time").unwrap();
        assert_ne!(read, 0, "the server hung up: {}", String::from_utf8_lossy(all));
        all.extend_from_slice(&more[..read]);
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str, content_type: &str, body: &[u8]) -> (u16, Value) {
        self.head(method, path, content_type, body.len()).await;
        self.send(body).await;
        self.answer().await
    }
}

pub(crate) async fn serve(bounds: Bounds) -> Served {
    serve_with(Options { bounds, ..Options::default() }).await
}

async fn is_served(served: &Served) {
    let (code, _) = Raw::connect(served).await.ask("GET", "/api/v1/namespaces/default", "", b"").await;
    assert_eq!(code, 200, "others are no longer served");
}

/// One level of a YAML bomb is nine references to the one before.
fn bomb(levels: usize) -> String {
    let mut yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\nx0: &x0 [lol]\n".to_owned();
    for level in 1..=levels {
        let before = format!("*x{}", level - 1);
        yaml += &format!("x{level}: &x{level} [{}]\n", [before.as_str(); 9].join(", "));
    }
    yaml
}

#[tokio::test(flavor = "multi_thread")]
async fn compression_bombs_and_deep_nesting_are_refused() {
    let served = serve(Bounds::default()).await;
    let deep = |open: &str, close: &str| {
        let nested = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"deep","annotations":{nested}}}}}"#)
    };
    let json = "application/json";
    let bodies = [
        ("a YAML bomb", "application/yaml", bomb(30)),
        ("a YAML bomb applied", "application/apply-patch+yaml", bomb(30)),
        ("deep YAML", "application/yaml", "[".repeat(200_000)),
        ("deep YAML by lines", "application/yaml", (0..1_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
        ("deep lists", json, deep("[", "]")),
        ("deep objects", json, deep(r#"{"a":"#, "").replace(":}", ":1}") + &"}".repeat(100_000)),
        ("deep JSON patch", "application/json-patch+json", "[".repeat(1_000_000)),
        ("deep merge patch", "application/merge-patch+json", r#"{"a":"#.repeat(300_000)),
        ("deep strategic patch", "application/strategic-merge-patch+json", r#"{"a":"#.repeat(300_000)),
        ("deep protobuf", "application/vnd.kubernetes.protobuf", format!("k8s\0{}", "\x0a\x7f".repeat(500_000))),
    ];
    for (name, content_type, body) in bodies {
        let patch = content_type.contains("patch");
        let (method, path) = if patch {
            ("PATCH", format!("{CONFIG_MAPS}/deep?fieldManager=test"))
        } else {
            ("POST", CONFIG_MAPS.to_owned())
        };
        let (code, status) = Raw::connect(&served).await.ask(method, &path, content_type, body.as_bytes()).await;
        assert!(matches!(code, 400 | 404 | 413 | 415 | 422), "{name}: {code} {status}");
        assert_eq!(status["kind"], "Status", "{name}: {status}");
    }
    is_served(&served).await;
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_body_is_refused_unread() {
    const HUNDRED_MIB: usize = 100 * 1024 * 1024;
    let served = serve(Bounds::default()).await;
    let mut said = Raw::connect(&served).await;
    said.head("POST", CONFIG_MAPS, "application/json", HUNDRED_MIB).await;
    // Not a byte of it was sent.
    let (code, status) = said.answer().await;
    assert_eq!((code, status["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
    assert_eq!(status["message"], "Request entity too large: limit is 3145728");

    // One that says nothing of its size is read to the bound, and no further.
    let mut chunked = Raw::connect(&served).await;
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    chunked.send(head.as_bytes()).await;
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 0x10_0000], b"\r\n"].concat();
    let mut sent = 0;
    while sent < HUNDRED_MIB && chunked.0.write_all(&chunk).await.is_ok() {
        sent += chunk.len();
    }
    assert!(sent < HUNDRED_MIB, "all of it was taken");
    is_served(&served).await;
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_sender_is_disconnected() {
    let short = Duration::from_millis(300);
    let bounds = Bounds { head: short, body: short, handshake: short, ..Bounds::default() };
    let served = serve(bounds).await;
    // Says nothing at all, before and after TLS.
    let mut silent = TcpStream::connect(served.address()).await.unwrap();
    let read = timeout(DEADLINE, silent.read(&mut [0; 16])).await.expect("a handshake that never begins is ended");
    assert_eq!(read.unwrap_or(0), 0);
    assert_eq!(Raw::connect(&served).await.rest().await, "", "a connection without a request is closed");
    // A head that never ends, a body that never ends.
    let mut head = Raw::connect(&served).await;
    head.send(b"GET /version HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
    let said = head.rest().await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    let mut body = Raw::connect(&served).await;
    body.head("POST", CONFIG_MAPS, "application/json", 1_000).await;
    body.send(b"{").await;
    let said = body.rest().await;
    assert!(said.starts_with("HTTP/1.1 504 "), "{said}");
    is_served(&served).await;
    served.seam.tasks.kill();
}

/// The frames of HTTP/2 that a client of this test's own making sends.
pub(crate) mod http2 {
    pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(super) const SETTINGS: u8 = 4;
    pub(super) const PING: u8 = 6;
    pub(super) const GO_AWAY: u8 = 7;
    pub(super) const ENHANCE_YOUR_CALM: u32 = 11;
    /// How HPACK's static table says `:status: 400`.
    pub(crate) const STATUS_400: u8 = 0x8c;
    const RST_STREAM: u8 = 3;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;

    pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// The head of `POST /` whose body never ends: method, scheme and path are of HPACK's static table.
    pub(super) fn opened(stream: u32) -> Vec<u8> {
        frame(HEADERS, END_HEADERS, stream, b"\x83\x87\x84\x41\x09localhost")
    }

    /// A request without a body.
    pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
        let length = u8::try_from(path.len()).unwrap();
        let head = [b"\x82\x87\x41\x09localhost\x04", [length].as_slice(), path.as_bytes()].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &head)
    }

    pub(super) fn reset(stream: u32) -> Vec<u8> {
        const CANCEL: [u8; 4] = 8u32.to_be_bytes();
        frame(RST_STREAM, 0, stream, &CANCEL)
    }
}

impl Raw {
    pub(crate) async fn connect_http2(served: &Served) -> Self {
        let mut raw = Self::connect(served).await;
        raw.send(&[http2::PREFACE, &http2::frame(http2::SETTINGS, 0, 0, b"")].concat()).await;
        raw
    }

    /// The kind and payload of the next frame; `None` at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        timeout(DEADLINE, async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.ok()?;
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.0.read_exact(&mut payload).await.ok()?;
            Some((head[3], payload))
        })
        .await
        .expect("a frame, or the end, in time")
    }

    /// The codes of the GOAWAYs until the server closes the connection.
    async fn farewells(&mut self) -> Vec<u32> {
        let mut codes = Vec::new();
        while let Some((kind, payload)) = self.frame().await {
            if kind == http2::GO_AWAY {
                codes.push(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
            }
        }
        codes
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_resetting_client_is_disconnected() {
    let served = serve(Bounds::default()).await;
    // All at once: the server sees the resets before it begins with any.
    let mut burst = Raw::connect_http2(&served).await;
    let streams = (0..10_000).map(|n| 2 * n + 1);
    let all: Vec<u8> = streams.flat_map(|stream| [http2::opened(stream), http2::reset(stream)].concat()).collect();
    // It hangs up before all of it was sent.
    let _ = burst.0.write_all(&all).await;
    let codes = burst.farewells().await;
    assert!(codes.iter().all(|code| *code == http2::ENHANCE_YOUR_CALM), "{codes:?}");
    is_served(&served).await;

    // One after the other, each once the server has begun with it.
    let mut slow = Raw::connect_http2(&served).await;
    let mut resets = 0;
    'all: for stream in (0..10_000).map(|n| 2 * n + 1) {
        let ping = http2::frame(http2::PING, 0, 0, &u64::from(stream).to_be_bytes());
        if slow.0.write_all(&[http2::opened(stream), ping].concat()).await.is_err() {
            break;
        }
        loop {
            match slow.frame().await {
                Some((http2::PING, payload)) if payload == u64::from(stream).to_be_bytes() => break,
                Some((http2::GO_AWAY, _)) | None => break 'all,
                Some(_) => {}
            }
        }
        if slow.0.write_all(&http2::reset(stream)).await.is_err() {
            break;
        }
        resets += 1;
    }
    assert!((256..1_000).contains(&resets), "{resets} were taken");
    slow.farewells().await;
    is_served(&served).await;
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_closed_for_new_ones_and_watches_are_kept() {
    // `IRONCLAD_IDLE_CONNECTIONS=10000` for the real thing, which needs as many file descriptors, twice.
    let many = std::env::var("IRONCLAD_IDLE_CONNECTIONS").ok().map_or(300, |n| n.parse().unwrap());
    let bounds = Bounds { connections: many / 3, ..Bounds::default() };
    let served = serve(bounds).await;
    let mut watch = Raw::connect(&served).await;
    watch.send(format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await;
    let mut begun = [0; 12];
    watch.0.read_exact(&mut begun).await.unwrap();
    assert_eq!(&begun, b"HTTP/1.1 200");
    let mut idle = Vec::new();
    for number in 0..many {
        let stream = TcpStream::connect(served.address()).await.unwrap();
        idle.push(stream);
        if number % (many / 10) == 0 {
            is_served(&served).await;
        }
    }
    is_served(&served).await;
    // The watch is older than all of them, and still there.
    let body = config_map("seen", json!({})).to_string();
    let (code, _) = Raw::connect(&served).await.ask("POST", CONFIG_MAPS, "application/json", body.as_bytes()).await;
    assert_eq!(code, 201);
    let mut heard = String::new();
    while !heard.contains("\"seen\"") {
        let mut more = [0; 4096];
        let read = timeout(DEADLINE, watch.0.read(&mut more)).await.expect("the event in time").unwrap();
        assert_ne!(read, 0, "the watch was cut");
        heard += &String::from_utf8_lossy(&more[..read]);
    }
    drop(idle);
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_limit_get_429() {
    let bounds = Bounds { requests: 1, ..Bounds::default() };
    let served = serve(bounds).await;
    // Whose body is on the way takes the one place.
    let mut first = Raw::connect(&served).await;
    let head = format!(
        "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
    );
    first.send(head.as_bytes()).await;
    // The server asks for the body once the place is taken.
    let mut go_on = [0; 12];
    timeout(DEADLINE, first.0.read_exact(&mut go_on)).await.expect("an answer in time").unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100");
    // Not over a client library: those try again on their own.
    let refused = async || {
        let mut robot = Raw::connect_as(&served, false).await;
        robot.send(b"GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n").await;
        let (code, status) = robot.answer().await;
        (code != 200).then(|| (code, status["message"].as_str().unwrap_or_default().to_owned()))
    };
    let want = (429, "too many requests, please try again later".to_owned());
    assert_eq!(refused().await, Some(want));
    // Who may do everything may also do this.
    is_served(&served).await;
    drop(first);
    timeout(DEADLINE, async {
        while refused().await.is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the place is free again");
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn watcher_that_does_not_read_ends_with_410() {
    const EACH: usize = 1_000_000;
    let served = serve(Bounds::default()).await;
    let mut watch = Raw::connect(&served).await;
    let head = format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    watch.send(head.as_bytes()).await;
    let mut begun = [0; 12];
    watch.0.read_exact(&mut begun).await.unwrap();
    // More than the buffers of two sockets and the store's for a watcher (32 MiB) take together.
    let mut writer = Raw::connect(&served).await;
    let name = "large";
    let body = |n: usize| config_map(name, json!({"d": format!("{n} {}", "x".repeat(EACH))})).to_string();
    let (code, _) = writer.ask("POST", CONFIG_MAPS, "application/json", body(0).as_bytes()).await;
    assert_eq!(code, 201);
    let path = format!("{CONFIG_MAPS}/{name}");
    for n in 1..60 {
        let (code, status) = writer.ask("PUT", &path, "application/json", body(n).as_bytes()).await;
        assert_eq!(code, 200, "{status}");
    }
    // Now it reads: what was under way, then that it is too late, then the end.
    let rest = watch.rest().await;
    let (_, last) = rest.rsplit_once("{\"type\":").expect("an event");
    assert!(
        last.contains("\"ERROR\"") && last.contains("410") && last.contains("Expired"),
        "{}",
        &last[..200.min(last.len())]
    );
    assert!(rest.len() < 59 * EACH, "nothing was left out: {} bytes", rest.len());
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_have_limits() {
    let served = serve(Bounds::default()).await;
    let definition = |schema: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "foos.t.io"},
            "spec": {
                "group": "t.io", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
        .to_string()
    };
    let wide: serde_json::Map<String, Value> =
        (0..40_000).map(|n| (format!("field-{n:032}"), json!({"type": "string"}))).collect();
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for (name, schema, code, says) in
        [("wide", json!({"type": "object", "properties": wide}), 500, "request is too large"), ("deep", deep, 400, "")]
    {
        let (got, status) =
            Raw::connect(&served).await.ask("POST", PATH, "application/json", definition(schema).as_bytes()).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(got == code && message.contains(says), "{name}: {got} {message}");
    }
    is_served(&served).await;
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_not_awaited_of_a_client_that_may_not_send_it() {
    let bounds = Bounds { requests: 1, body: 4 * DEADLINE, ..Bounds::default() };
    let served = serve(bounds).await;
    for path in [CONFIG_MAPS, "/nowhere", "/apis/nowhere/v1/x"] {
        let mut stranger = Raw::connect_as(&served, false).await;
        stranger.head("POST", path, "application/json", 1_000).await;
        let (code, status) = stranger.answer().await;
        assert_eq!(code, 403, "{path}: {status}");
        // Its place is free although it stays.
        let mut robot = Raw::connect_as(&served, false).await;
        robot.send(b"GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n").await;
        assert_eq!(robot.answer().await.0, 200, "{path}");
    }
    served.seam.tasks.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_clients_leave_unread_are_bounded_by_their_bytes() {
    const OBJECTS: usize = 80;
    const MIB: usize = 1024 * 1024;
    let served = serve(Bounds { answer_bytes: 48 * MIB, ..Bounds::default() }).await;
    let mut admin = Raw::connect(&served).await;
    for n in 0..OBJECTS {
        let object = json!({"metadata": {"name": format!("large-{n}")}, "data": {"d": "x".repeat(MIB / 2)}});
        let (code, answer) = admin.ask("POST", CONFIG_MAPS, "application/json", object.to_string().as_bytes()).await;
        assert_eq!(code, 201, "{answer}");
    }
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]);
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "robot"});
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "robot"});
    for (plural, object) in [
        ("roles", json!({"metadata": {"name": "robot"}, "rules": rules})),
        ("rolebindings", json!({"metadata": {"name": "robot"}, "roleRef": role, "subjects": [subject]})),
    ] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/default/{plural}");
        let (code, answer) = admin.ask("POST", &path, "application/json", object.to_string().as_bytes()).await;
        assert_eq!(code, 201, "{answer}");
    }
    let asked = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n");
    let robot = async |path: &str| {
        let mut robot = Raw::connect_as(&served, false).await;
        robot.send(asked(path).as_bytes()).await;
        robot
    };
    // 40 MiB that nobody reads.
    let mut stuck = robot(CONFIG_MAPS).await;
    let mut begun = Vec::new();
    stuck.more(&mut begun).await;
    assert!(begun.starts_with(b"HTTP/1.1 200 "));
    for path in [CONFIG_MAPS, &format!("{CONFIG_MAPS}?labelSelector=!none")] {
        let (code, answer) = robot(path).await.answer().await;
        assert_eq!(code, 429, "{path}: a second one of that size is not built");
        assert_eq!(answer["reason"], "TooManyRequests");
    }
    for path in [format!("{CONFIG_MAPS}/large-1"), format!("{CONFIG_MAPS}?limit=3")] {
        assert_eq!(robot(&path).await.answer().await.0, 200, "{path}: there is room for smaller ones");
    }
    assert_eq!(admin.ask("GET", CONFIG_MAPS, "", b"").await.0, 200, "administrators are exempt");
    // It is returned with the connection.
    drop(stuck);
    let again = timeout(DEADLINE, async { while robot(CONFIG_MAPS).await.answer().await.0 != 200 {} });
    again.await.expect("there is room again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_its_answer_unread_is_disconnected() {
    let served = serve(Bounds { requests: 1, send: Duration::from_millis(500), ..Bounds::default() }).await;
    let mut admin = Raw::connect(&served).await;
    for n in 0..24 {
        let map = config_map(&format!("large{n}"), json!({"a": "x".repeat(1_000_000)})).to_string();
        assert_eq!(admin.ask("POST", CONFIG_MAPS, "application/json", map.as_bytes()).await.0, 201);
    }
    // Far more than fits into the buffers between the two.
    let mut lazy = Raw::connect(&served).await;
    lazy.send(format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await;
    let version = async || {
        let mut robot = Raw::connect_as(&served, false).await;
        robot.send(b"GET /version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\n\r\n").await;
        robot.answer().await.0
    };
    timeout(DEADLINE, async {
        while version().await != 429 {
            tokio::task::yield_now().await;
        }
        while version().await != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the answer counts as a request under way, and ends with its connection");
    let got = lazy.rest().await;
    assert!(got.len() < 24_000_000, "{} bytes", got.len());
    is_served(&served).await;
    served.seam.tasks.kill();
}
