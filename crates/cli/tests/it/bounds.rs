//! A fleet of 1,000 members behind endpoints that are faked, for the bounds that are not seen with three.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use clap::Parser;
use ironclad_cli::{get, logs, top};
use ironclad_seam::{Clock, Tasks};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const MEMBERS: usize = 1000;
/// Connections that a verb may have at a time: 50 to the control plane and 50 to members, and some that are being
/// closed. A process may usually open 1,024 files.
const CONNECTIONS_MAX: usize = 300;

/// Connections to the fake servers.
#[derive(Default)]
struct Connections {
    open: AtomicUsize,
    most: AtomicUsize,
    total: AtomicUsize,
}

/// A control plane and its members at one address. The folder holds the kubeconfig.
struct Fleet {
    connections: Arc<Connections>,
    folder: tempfile::TempDir,
    tasks: Tasks,
}

impl Fleet {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (connections, tasks) = (Arc::new(Connections::default()), Tasks::new("fake servers"));
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: \"{address}/plane\"}}}}]\n\
             users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\ncurrent-context: c\n"
        );
        std::fs::write(folder.path().join("kc"), kubeconfig).unwrap();
        let (counted, group) = (connections.clone(), tasks.clone());
        tasks.spawn("listener", async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.total.fetch_add(1, Ordering::Relaxed);
                counted.most.fetch_max(counted.open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let (counted, address) = (counted.clone(), address.clone());
                group.spawn("connection", async move {
                    let _ = serve(stream, &address).await;
                    counted.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { connections, folder, tasks }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kc")
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

/// Answers the requests of one connection until it is closed.
async fn serve(mut stream: TcpStream, address: &str) -> std::io::Result<()> {
    let mut received = Vec::new();
    let mut part = [0; 4096];
    loop {
        while !received.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut part).await? {
                0 => return Ok(()),
                length => received.extend_from_slice(&part[..length]),
            }
        }
        let head = String::from_utf8_lossy(&received).into_owned();
        received.clear();
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (code, body) = match answer(path, address) {
            Some(body) => (200, body),
            None => (
                404,
                json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": path}),
            ),
        };
        let body = if path.contains("/log?") { String::new() } else { body.to_string() };
        let head = format!(
            "HTTP/1.1 {code} OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await?;
    }
}

/// Lists of objects are answered in pages only.
fn answer(path: &str, address: &str) -> Option<Value> {
    let (server, path) = path.trim_start_matches('/').split_once('/')?;
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_page = query.split('&').any(|part| part == "limit=500");
    let discovery = |group: &str, versions: Value| {
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
            "items": [{"metadata": {"name": group}, "versions": versions}]})
    };
    match (server, path) {
        (_, "api") => Some(discovery(
            "",
            json!([{"version": "v1", "resources": [{"resource": "configmaps", "scope": "Namespaced", "verbs": ["list"],
                "responseKind": {"group": "", "version": "v1", "kind": "ConfigMap"}, "singularResource": "configmap",
                "shortNames": ["cm"]}]}]),
        )),
        (_, "apis") => Some(discovery("none", json!([]))),
        ("plane", "apis/cluster.karmada.io/v1alpha1/clusters") if is_page => {
            let begin = if query.contains("continue=") { MEMBERS / 2 } else { 0 };
            let clusters = (begin..begin + MEMBERS / 2).map(|number| cluster(number, address)).collect::<Vec<_>>();
            let next = if begin == 0 { "half" } else { "" };
            Some(json!({"kind": "ClusterList", "apiVersion": "cluster.karmada.io/v1alpha1",
                "metadata": {"continue": next}, "items": clusters}))
        }
        ("plane", path) if path.starts_with("api/v1/namespaces/karmada-cluster/secrets/") => {
            Some(json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"token": "dA=="}}))
        }
        (_, "api/v1/namespaces/default/configmaps") if is_page => Some(
            json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "a"}}]}),
        ),
        (_, "api/v1/namespaces/default/pods") if is_page => Some(json!({"kind": "PodList", "apiVersion": "v1",
            "metadata": {}, "items": [{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}]})),
        (_, "api/v1/namespaces/default/pods/p/log") => Some(Value::Null),
        (_, "api/v1/nodes") if is_page => {
            Some(json!({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": []}))
        }
        (_, "apis/metrics.k8s.io/v1beta1/nodes") => Some(json!({"items": []})),
        _ => None,
    }
}

fn cluster(number: usize, address: &str) -> Value {
    let name = format!("m{number:04}");
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": {
        "syncMode": "Push", "apiEndpoint": format!("{address}/{name}"), "insecureSkipTLSVerification": true,
        "secretRef": {"namespace": "karmada-cluster", "name": name}}})
}

/// Command lines of verbs that ask all members.
#[derive(Parser)]
enum Line {
    Get(Box<get::Command>),
    Logs(Box<logs::Command>),
    Top(Box<top::Command>),
}

#[tokio::test]
async fn a_thousand_members_are_asked_with_few_connections() {
    let fleet = Fleet::start().await;
    let clock = Clock::system();
    for line in [
        "get cm -s members --strict --timeout 60s -o jsonpath={.kind}",
        "top node --strict --timeout 60s",
        "logs -l app=web --strict --timeout 60s",
    ] {
        let file = fleet.kubeconfig().display().to_string();
        let words = std::iter::once("ironclad").chain(line.split(' ')).chain(["--kubeconfig", &file]);
        let done = match Line::try_parse_from(words).unwrap() {
            Line::Get(command) => get::run(&command, &clock).await,
            Line::Logs(command) => logs::run(&command, &clock).await,
            Line::Top(command) => top::run(&command, &clock).await,
        };
        // With --strict each member that did not answer is an error.
        done.unwrap_or_else(|error| panic!("{line}: {error:#}"));
        let most = fleet.connections.most.swap(0, Ordering::Relaxed);
        assert!(most <= CONNECTIONS_MAX, "{line}: {most} connections at a time");
        let total = fleet.connections.total.swap(0, Ordering::Relaxed);
        assert!(total >= MEMBERS, "{line}: {total} connections");
    }
}
