//! The endpoint at which agents open their tunnels, over connections in memory: what is no tunnel is refused or ends.

use std::time::Duration;

use http_body_util::BodyExt;
use ironclad_admission::Config;
use ironclad_apiserver::{Identity, RequestBody, Route as _, Upgrade};
use ironclad_extension::proxy::{ClusterProxy, ProxyObserved};
use ironclad_runtime::Tunnels;
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_serving::{Answer, Bounds, Connection};
use proptest::{
    collection,
    prelude::{any, prop, proptest},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::{sleep, timeout},
};

use crate::support::{Plane, plane, send};

const PATH: &str = "/apis/agent.ironclad.io/v1alpha1/clusters/m1/tunnel";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Time in which a tunnel that carries nothing ends.
const FOUND: Duration = Duration::from_secs(40);

/// A request for a tunnel with these lines in its head.
fn request(lines: &[&str]) -> Vec<u8> {
    format!("GET {PATH} HTTP/1.1\r\nHost: plane\r\n{}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

fn valid(agent: &str) -> Vec<u8> {
    request(&["Connection: Upgrade", "Upgrade: ironclad-tunnel", &format!("Ironclad-Agent: {agent}")])
}

/// The endpoint in front of a control plane.
struct Endpoint {
    proxy: ClusterProxy,
    tunnels: Tunnels,
    seam: Seam,
}

impl Endpoint {
    fn of(plane: kube::Client) -> Self {
        let seam = Seam { clock: Clock::system(), rng: Rng::from_seed(7), tasks: Tasks::new("endpoint") };
        let tunnels = Tunnels::default();
        let rights = std::sync::Weak::<ironclad_apiserver::Server>::new();
        let proxy = ClusterProxy::new(plane, rights, &seam, tunnels.clone(), ProxyObserved::default());
        Self { proxy, tunnels, seam }
    }

    /// A connection of an agent, and whether the server's part ended.
    fn connect(&self) -> (DuplexStream, ironclad_seam::TaskHandle<()>) {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (proxy, tasks) = (self.proxy.clone(), self.seam.tasks.clone());
        let group = tasks.clone();
        let answer = Answer::new(move |request| {
            let (proxy, tasks) = (proxy.clone(), tasks.clone());
            async move {
                let mut request: http::Request<RequestBody> =
                    request.map(|body| body.map_err(std::io::Error::other).boxed_unsync());
                Upgrade::allow(&mut request, &tasks);
                let answer = proxy.call(request, Identity::user("system:karmada:agent:m1", &[])).await;
                Ok(answer.map(BodyExt::boxed_unsync))
            }
        });
        let served = self.seam.tasks.spawn("connection", async move {
            let _ = Connection::new(far, Bounds::DEFAULT, &group, answer).await;
        });
        (near, served)
    }

    /// The head of the answer to these bytes, and what follows within a moment.
    async fn asked(&self, bytes: &[u8]) -> (String, DuplexStream) {
        let (mut stream, _) = self.connect();
        // The server may end before it has read all.
        let _ = timeout(FOUND, stream.write_all(bytes)).await;
        (heard(&mut stream).await, stream)
    }
}

async fn heard(stream: &mut DuplexStream) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(Ok(read @ 1..)) = timeout(Duration::from_millis(100), stream.read(&mut buffer)).await {
        all.extend(&buffer[..read]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// A control plane that is not asked.
fn nobody() -> kube::Client {
    let unasked = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("not asked"))
    });
    kube::Client::new(unasked, "default")
}

#[tokio::test(start_paused = true)]
async fn what_asks_for_no_tunnel_is_refused() {
    let endpoint = Endpoint::of(nobody());
    let long = format!("X-More: {}", "x".repeat(1 << 20));
    let http_1_0 = String::from_utf8(valid("a")).unwrap().replace("HTTP/1.1", "HTTP/1.0").into_bytes();
    for (name, bytes, want) in [
        ("no upgrade", request(&["Connection: close"]), "HTTP/1.1 400"),
        ("another protocol", request(&["Connection: Upgrade", "Upgrade: websocket"]), "HTTP/1.1 400"),
        ("no option", request(&["Upgrade: ironclad-tunnel"]), "HTTP/1.1 400"),
        ("HTTP/1.0", http_1_0, "HTTP/1.0 400"),
        (
            "a body",
            request(&["Connection: Upgrade", "Upgrade: ironclad-tunnel", "Content-Length: 1", "", "x"]),
            "HTTP/1.1 400",
        ),
        ("a long head", request(&["Connection: Upgrade", "Upgrade: ironclad-tunnel", &long]), "HTTP/1.1 431"),
        ("no HTTP", b"\x16\x03\x01 hello\r\n\r\n".to_vec(), "HTTP/1.1 400"),
    ] {
        let (head, _) = endpoint.asked(&bytes).await;
        assert!(head.starts_with(want), "{name}: {head}");
        assert!(!endpoint.tunnels.is_open("m1"), "{name}");
    }
    let (head, _) = endpoint.asked(&request(&["Connection: Upgrade", "Upgrade: ironclad"])).await;
    assert!(head.contains("a tunnel is asked for with the header Upgrade: ironclad-tunnel"), "{head}");
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_carries_something_else_ends() {
    let endpoint = Endpoint::of(nobody());
    for (name, bytes) in [
        ("nothing", &b""[..]),
        ("HTML", b"<html><body>Sign in</body></html>"),
        ("a request", b"GET / HTTP/1.1\r\nHost: plane\r\n\r\n"),
        ("garbage", &[0xff; 5_000]),
    ] {
        // In one piece with the request, and after the answer.
        let (at_once, _one) = endpoint.asked(&[&valid("a")[..], bytes].concat()).await;
        let (head, mut other) = endpoint.asked(&valid("b")).await;
        let _ = other.write_all(bytes).await;
        for head in [at_once, head] {
            assert!(head.starts_with("HTTP/1.1 101 Switching Protocols"), "{name}: {head}");
        }
        sleep(FOUND).await;
        assert!(!endpoint.tunnels.is_open("m1"), "{name}");
    }
}

async fn events(plane: &Plane) -> Vec<String> {
    let (_, _, list) = send(&plane.client, "GET", "/api/v1/events", "application/json", &Value::Null).await;
    let events = list["items"].as_array().cloned().unwrap_or_default();
    events.iter().map(|event| format!("{} {} {}", event["type"], event["reason"], event["message"])).collect()
}

/// An agent that answers probes.
async fn agent(endpoint: &Endpoint, name: &str) -> Tasks {
    let (mut stream, _) = endpoint.connect();
    stream.write_all(&valid(name)).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let tasks = Tasks::new("agent");
    let group = tasks.clone();
    drop(tasks.spawn("serve", async move {
        let answer = Answer::new(|_| async { Ok(http::Response::new(ironclad_serving::Body::default())) });
        let _ = ironclad_runtime::serve_tunnel(stream, &group, answer).await;
    }));
    tasks
}

#[tokio::test(start_paused = true)]
async fn several_agents_are_told_of_and_a_restart_is_not() {
    let plane = plane(Config::default(), &["clusters"]).await;
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "m1"},
        "spec": {"syncMode": "Pull"}});
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters";
    assert_eq!(send(&plane.client, "POST", path, "application/json", &cluster).await.0, 201);
    let endpoint = Endpoint::of(plane.client.clone());
    // Killed without a goodbye, and started again.
    let (mut half_open, _) = endpoint.connect();
    half_open.write_all(&valid("edge-0_1")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let first = agent(&endpoint, "edge-0_2").await;
    sleep(FOUND * 3).await;
    assert_eq!((events(&plane).await, endpoint.tunnels.agents("m1")), (Vec::new(), vec!["edge-0_2".to_owned()]));
    let second = agent(&endpoint, "edge-1_3").await;
    sleep(FOUND * 3).await;
    let [told] = &events(&plane).await[..] else { panic!("{:?}", events(&plane).await) };
    assert!(told.starts_with(r#""Normal" "SeveralAgents" "agents edge-0_2 and edge-1_3 hold tunnels"#), "{told}");
    first.kill();
    second.kill();
}

proptest! {
    /// Whatever a client says in place of a request and of an agent's part, the endpoint answers or ends.
    #[test]
    fn any_bytes_are_refused_or_end(
        changes in collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..5),
        after in collection::vec(any::<u8>(), 0..60),
        has_preface in any::<bool>(),
        cuts in collection::vec(1..60usize, 0..20),
    ) {
        let mut bytes = valid("a");
        for (at, byte, is_left_out) in changes {
            let at = at.index(bytes.len());
            match is_left_out {
                true => drop(bytes.remove(at)),
                false => bytes[at] = byte,
            }
        }
        if has_preface {
            bytes.extend(PREFACE);
        }
        bytes.extend(after);
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(async move {
            let endpoint = Endpoint::of(nobody());
            let (mut stream, served) = endpoint.connect();
            let (mut rest, mut cuts) = (&bytes[..], cuts.into_iter());
            while !rest.is_empty() {
                let (part, more) = rest.split_at(cuts.next().unwrap_or(rest.len()).min(rest.len()));
                rest = more;
                if stream.write_all(part).await.is_err() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let head = heard(&mut stream).await;
            timeout(FOUND, served).await.expect("it waits for the rest of the request").expect("it panics");
            sleep(FOUND).await;
            assert!(!endpoint.tunnels.is_open("m1"), "{head}");
            assert!(head.is_empty() || head.starts_with("HTTP/1.") || head.starts_with('\0'), "{head}");
        });
    }
}
