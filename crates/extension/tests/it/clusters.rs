//! Clusters as an aggregated API: an API server in front, which forwards requests over TLS, and stores what is served.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Request;
use http_body_util::BodyExt as _;
use ironclad_admission::Config;
use ironclad_apiserver::{Identity, Options, pki};
use ironclad_extension::{
    CertificateExpiry, FrontProxy, NetworkForwarder, Registration, ServerService,
    clusters::{ClusterServer, Form, carry_over, of_stored, serve_clusters},
    proxy::ProxyObserved,
};
use ironclad_runtime::{AggregatedAccess, Tunnels, aggregated_client, in_process_client};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::{BoxError, service_fn};

use crate::support::{Plane, plane_with, send};

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const STORED: &str = "/apis/cluster.ironclad.io/v1alpha1/clusters";
const JSON: &str = "application/json";
/// Bytes of a request and its answer that are more than arrive at once.
const LARGE: usize = 200_000;

/// Watches that are open at once.
const WATCHES: usize = 20;

struct World {
    plane: Plane,
    seam: Seam,
    /// A client of the server itself.
    direct: Client,
    /// While true, the API server in front answers no request for its documents.
    locked: Arc<AtomicBool>,
    _registration: Registration,
}

impl World {
    /// A server of the group behind an API server, which forwards requests to it once it has found it.
    async fn new() -> Self {
        let clock = Clock::system();
        let forwarder = Arc::new(NetworkForwarder::default());
        let options = Options { forwarder: Some(forwarder.clone()), api_services: true, ..Options::default() };
        let plane = plane_with(Config::default(), &["works"], clock.clone(), options).await;
        let seam = Seam { clock, rng: Rng::from_seed(1), tasks: Tasks::new("clusters") };
        let stored = plane.client.clone();
        let clients = pki::authority("clients", 10, &seam).unwrap();
        let ca = clients.certificate.clone();
        FrontProxy::start(stored.clone(), forwarder, ca, &seam.child("front")).await.unwrap();
        carry_over(&stored, Form::Stored, &seam.clock).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let service = ServerService::Made { host: "localhost".into(), port };
        let own = pki::client_certificate(&clients, "ann", 10, &seam).unwrap();
        let access = AggregatedAccess {
            endpoint: &format!("https://127.0.0.1:{port}"),
            server_name: None,
            ca_bundle: None,
            insecure: true,
            certificate: Some((&own.certificate, &own.key)),
        };
        let direct = aggregated_client(access, Arc::default()).unwrap();
        let locked = Arc::<AtomicBool>::default();
        let server = ClusterServer {
            stored: lockable(&stored, &locked),
            served: of_stored(stored),
            listener,
            service,
            tunnels: Tunnels::default(),
            observed: ProxyObserved::default(),
            expiry: CertificateExpiry::new(seam.clock.clone()),
            registers: Box::new(|| true),
        };
        let registration = serve_clusters(server, &seam.child("server")).await.unwrap();
        let world = Self { plane, seam, direct, locked, _registration: registration };
        while send(&world.plane.client, "GET", CLUSTERS, JSON, &Value::Null).await.0 != 200 {
            world.seam.clock.sleep(Duration::from_millis(50)).await;
        }
        world
    }

    fn user(&self, name: &str) -> Client {
        in_process_client(self.plane.server.in_process(Identity::user(name, &[])), Arc::default())
    }

    /// Code and body of an answer of the server itself.
    async fn direct(&self, path: &str) -> (u16, Value) {
        let (code, _, body) = send(&self.direct, "GET", path, JSON, &Value::Null).await;
        (code, body)
    }

    /// Sends a request that is answered with this code, as the administrator.
    async fn ask(&self, (method, path, media): (&str, &str, &str), body: Value, want: u16) -> Value {
        let (code, _, answer) = send(&self.plane.client, method, path, media, &body).await;
        assert_eq!(code, want, "{method} {path}: {answer}");
        assert!(!answer.to_string().contains("cluster.ironclad.io"), "{method} {path}: {answer}");
        answer
    }
}

/// A client whose requests for documents wait while it is locked.
fn lockable(client: &Client, locked: &Arc<AtomicBool>) -> Client {
    let (client, locked) = (client.clone(), locked.clone());
    let service = service_fn(move |request: Request<Body>| {
        let (client, locked) = (client.clone(), locked.clone());
        async move {
            if request.uri().path().starts_with("/openapi") && locked.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, "default")
}

impl Drop for World {
    fn drop(&mut self) {
        self.seam.tasks.kill();
    }
}

fn cluster(name: &str) -> Value {
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {"tier": "a"}}, "spec": {"syncMode": "Pull", "region": "east"},
    })
}

/// The events of a watch.
struct Events(Body, Vec<u8>);

impl Events {
    async fn of(client: &Client, path: &str) -> Self {
        let answer = client.send(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        Self(answer.into_body(), Vec::new())
    }

    /// Type, `apiVersion` and name of the next event.
    async fn next(&mut self) -> [String; 3] {
        loop {
            if let Some(at) = self.1.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.1.drain(..=at).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                let object = &event["object"];
                return [&event["type"], &object["apiVersion"], &object["metadata"]["name"]]
                    .map(|text| text.as_str().unwrap_or_default().to_owned());
            }
            let frame = self.0.frame().await.expect("the watch goes on").unwrap();
            self.1.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }
}

#[tokio::test]
async fn clusters_are_written_through_the_aggregated_api() {
    let world = World::new().await;
    let one = format!("{CLUSTERS}/m1");
    let made = world.ask(("POST", CLUSTERS, JSON), cluster("m1"), 201).await;
    assert_eq!(made["apiVersion"], "cluster.karmada.io/v1alpha1");
    let mut changed = made.clone();
    changed["spec"]["region"] = "west".into();
    let changed = world.ask(("PUT", &one, JSON), changed, 200).await;
    assert_eq!((&changed["spec"]["region"], &changed["metadata"]["generation"]), (&json!("west"), &json!(2)));
    world.ask(("PUT", &one, JSON), made, 409).await;
    let merge = "application/merge-patch+json";
    world.ask(("PATCH", &one, merge), json!({"spec": {"region": "north"}}), 200).await;
    let operations = json!([
        {"op": "test", "path": "/apiVersion", "value": "cluster.karmada.io/v1alpha1"},
        {"op": "replace", "path": "/spec/region", "value": "south"},
    ]);
    let patched = world.ask(("PATCH", &one, "application/json-patch+json"), operations, 200).await;
    assert_eq!(patched["spec"]["region"], "south");
    let applied = format!("{one}?fieldManager=me&force=true");
    let applied = world.ask(("PATCH", &applied, "application/apply-patch+yaml"), cluster("m1"), 200).await;
    let managers = applied["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().any(|of| of["manager"] == "me" && of["apiVersion"] == "cluster.karmada.io/v1alpha1"),
        "{applied}"
    );
    let status = json!({"status": {"kubernetesVersion": "v1.2.3"}});
    world.ask(("PATCH", &format!("{one}/status"), merge), status, 200).await;
    let stored = send(&world.plane.client, "GET", &format!("{STORED}/m1"), JSON, &Value::Null).await.2;
    assert_eq!(
        (&stored["apiVersion"], &stored["spec"]["region"], &stored["status"]["kubernetesVersion"]),
        (&json!("cluster.ironclad.io/v1alpha1"), &json!("east"), &json!("v1.2.3"))
    );
    let text = "x".repeat(LARGE);
    let large = json!({"metadata": {"annotations": {"large": text}}});
    let large = world.ask(("PATCH", &one, merge), large, 200).await;
    assert_eq!(large["metadata"]["annotations"]["large"], text);
    world.ask(("DELETE", &one, JSON), Value::Null, 200).await;
    let absent = world.ask(("GET", &one, JSON), Value::Null, 404).await;
    assert_eq!(absent["message"], "clusters.cluster.karmada.io \"m1\" not found");
    let refused = world.user("somebody");
    for (method, path) in [("GET", CLUSTERS), ("POST", CLUSTERS), ("GET", &*format!("{one}/proxy/version"))] {
        assert_eq!(send(&refused, method, path, JSON, &cluster("m2")).await.0, 403, "{method} {path}");
    }
}

#[tokio::test]
async fn clusters_are_watched_through_the_aggregated_api() {
    let world = World::new().await;
    let list = world.ask(("GET", CLUSTERS, JSON), Value::Null, 200).await;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ClusterList"), &json!("cluster.karmada.io/v1alpha1")));
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{CLUSTERS}?watch=true&labelSelector=tier%3Da&resourceVersion={version}");
    let mut all = Vec::new();
    for _ in 0..WATCHES {
        all.push(Events::of(&world.plane.client, &path).await);
    }
    world.ask(("POST", CLUSTERS, JSON), cluster("m1"), 201).await;
    world.ask(("DELETE", &format!("{CLUSTERS}/m1"), JSON), Value::Null, 200).await;
    for events in &mut all {
        for want in ["ADDED", "DELETED"] {
            assert_eq!(events.next().await, [want, "cluster.karmada.io/v1alpha1", "m1"]);
        }
    }
}

/// A kube-apiserver asks for these documents while its own are locked.
#[tokio::test]
async fn documents_of_openapi_are_answered_while_the_api_server_answers_none() {
    let world = World::new().await;
    let index = "/openapi/v3/apis/cluster.karmada.io/v1alpha1";
    while world.direct(index).await.0 != 200 {
        world.seam.clock.sleep(Duration::from_millis(50)).await;
    }
    world.locked.store(true, Ordering::SeqCst);
    let (code, listed) = world.direct("/openapi/v3").await;
    let entry = &listed["paths"]["apis/cluster.karmada.io/v1alpha1"]["serverRelativeURL"];
    assert!(code == 200 && entry.as_str().is_some_and(|url| url.starts_with(&format!("{index}?hash="))), "{listed}");
    let (code, document) = world.direct(index).await;
    assert!(code == 200 && document["paths"].get(format!("{CLUSTERS}/{{name}}")).is_some(), "{code}: {document}");
    assert!(!document.to_string().contains("ironclad"), "{document}");
    assert_eq!(world.direct("/openapi/v3/apis/apps/v1").await.0, 404);
}
