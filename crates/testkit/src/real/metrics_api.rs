//! A small aggregated metrics API for a cluster of tests: CPU and memory of its pods as their annotations say, a custom
//! metric of them, and an external one.
//!
//! It runs in the test's process and is registered as metrics-server, prometheus-adapter and KEDA are.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use ironclad_runtime::Api;
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _, api::ListParams};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{cluster::Cluster, wait};

/// Annotation of a pod: what it uses of CPU.
pub const CPU: &str = "metrics.test/cpu";
/// Annotation of a pod: the value of its custom metric `qps`.
pub const QPS: &str = "metrics.test/qps";

const DEADLINE: Duration = Duration::from_secs(60);

/// Behaviour of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mood {
    #[default]
    Answers,
    /// Requests are never answered.
    Hangs,
    /// Usage is negative.
    Lies,
}

/// Answers of the metrics APIs of a cluster.
pub trait MetricsAnswers: Send + Sync {
    /// Returns code and body of the answer to a GET request.
    fn answer<'a>(&'a self, path: &'a str, query: Option<&'a str>) -> BoxFuture<'a, anyhow::Result<(u16, Value)>>;
}

/// A server of metrics APIs that a cluster forwards to. Dropping it ends it.
#[derive(Debug)]
pub struct MetricsServer {
    seam: Seam,
}

impl MetricsServer {
    /// Starts it and registers it in the cluster, and waits until the cluster forwards to it.
    pub async fn start(cluster: &Cluster, answers: Arc<dyn MetricsAnswers>) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], der)?;
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind("127.0.0.1:0").await.context("a port for a metrics API")?;
        let port = listener.local_addr()?.port();
        let server = Self { seam: Seam::system("metrics-api") };
        let tasks = server.seam.tasks.clone();
        server.seam.tasks.spawn("metrics-api", async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answers) = (acceptor.clone(), answers.clone());
                tasks.spawn("connection", async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request: Request<Incoming>| {
                        let answers = answers.clone();
                        async move {
                            let (code, body) = answers.answer(request.uri().path(), request.uri().query()).await?;
                            let response = Response::builder().status(code).header("content-type", "application/json");
                            anyhow::Ok(response.body(Full::new(Bytes::from(body.to_string())))?)
                        }
                    });
                    let connection = auto::Builder::new(TokioExecutor::new());
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        register(cluster, port).await?;
        Ok(server)
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.seam.tasks.kill();
    }
}

/// The running API. Dropping it ends it.
#[derive(Debug)]
pub struct MetricsApi {
    mood: Arc<Mutex<Mood>>,
    queue: Arc<Mutex<String>>,
    _server: MetricsServer,
}

impl MetricsApi {
    /// Starts it and registers it in the cluster, and waits until the cluster forwards to it.
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let (mood, queue) = (Arc::default(), Arc::new(Mutex::new("0".to_owned())));
        let answering = Answering {
            client: cluster.client().await?,
            clock: Seam::system("metrics-api").clock,
            mood: Arc::clone(&mood),
            queue: Arc::clone(&queue),
        };
        let server = MetricsServer::start(cluster, Arc::new(answering)).await?;
        Ok(Self { mood, queue, _server: server })
    }

    pub fn set_mood(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    /// Sets the value of the external metric `depth`.
    pub fn set_depth(&self, value: &str) {
        value.clone_into(&mut self.queue.lock());
    }
}

async fn register(cluster: &Cluster, port: u16) -> anyhow::Result<()> {
    let mut manifests = vec![json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics-api", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    })];
    const APIS: [(&str, &str); 3] =
        [("metrics.k8s.io", "v1beta1"), ("custom.metrics.k8s.io", "v1beta2"), ("external.metrics.k8s.io", "v1beta1")];
    for (group, version) in APIS {
        manifests.push(json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": format!("{version}.{group}")},
            "spec": {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                "insecureSkipTLSVerify": true,
                "service": {"namespace": "default", "name": "metrics-api", "port": port}},
        }));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": manifests});
    cluster.kubectl().apply(&list.to_string()).await?;
    let what = format!("{} forwards to its metrics API", cluster.name());
    wait::until(&what, DEADLINE, async || {
        for (group, version) in APIS {
            cluster.kubectl().run(["get", "--raw", &format!("/apis/{group}/{version}")]).await?;
        }
        Ok(())
    })
    .await
}

struct Answering {
    client: Client,
    clock: ironclad_seam::Clock,
    mood: Arc<Mutex<Mood>>,
    queue: Arc<Mutex<String>>,
}

impl MetricsAnswers for Answering {
    fn answer<'a>(&'a self, path: &'a str, _: Option<&'a str>) -> BoxFuture<'a, anyhow::Result<(u16, Value)>> {
        Box::pin(async move {
            let mood = *self.mood.lock();
            if mood == Mood::Hangs {
                std::future::pending::<()>().await;
            }
            let body = self.body(path, mood).await?;
            Ok((if body.is_null() { 404 } else { 200 }, body))
        })
    }
}

impl Answering {
    async fn body(&self, path: &str, mood: Mood) -> anyhow::Result<Value> {
        let now = self.clock.wall_seconds().to_string();
        // kube-apiserver forwards `*` as `%2A`.
        let path = percent_decode_str(path).decode_utf8()?;
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let resources = |group_version: String, names: &[(&str, bool)]| {
            let all: Vec<Value> = names
                .iter()
                .map(|(name, namespaced)| {
                    json!({"name": name, "singularName": "", "namespaced": namespaced,
                    "kind": "Metrics", "verbs": ["get", "list"]})
                })
                .collect();
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": all})
        };
        Ok(match parts.as_slice() {
            ["apis", group @ "metrics.k8s.io", version] => {
                resources(format!("{group}/{version}"), &[("pods", true), ("nodes", false)])
            }
            ["apis", group @ "custom.metrics.k8s.io", version] => {
                resources(format!("{group}/{version}"), &[("pods/qps", true)])
            }
            ["apis", group @ "external.metrics.k8s.io", version] => {
                resources(format!("{group}/{version}"), &[("depth", true)])
            }
            ["apis", "metrics.k8s.io", _, "pods"] => self.pods(None, &now, mood).await?,
            ["apis", "metrics.k8s.io", _, "namespaces", namespace, "pods"] => {
                self.pods(Some(namespace), &now, mood).await?
            }
            ["apis", "custom.metrics.k8s.io", _, "namespaces", namespace, "pods", "*", "qps"] => {
                let pods = self.listed(Some(namespace)).await?;
                let value = |pod: &Pod| {
                    let value = pod.annotations().get(QPS)?;
                    Some(json!({
                        "describedObject": {"kind": "Pod", "namespace": namespace, "name": pod.name_any(), "apiVersion": "/v1"},
                        "metric": {"name": "qps"}, "timestamp": now, "value": value,
                    }))
                };
                let items: Vec<Value> = pods.iter().filter_map(value).collect();
                json!({"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {}, "items": items})
            }
            ["apis", "external.metrics.k8s.io", _, "namespaces", _, "depth"] => json!({
                "kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {},
                "items": [{"metricName": "depth", "metricLabels": {"queue": "orders"}, "timestamp": now,
                    "value": *self.queue.lock()}],
            }),
            _ => Value::Null,
        })
    }

    async fn listed(&self, namespace: Option<&str>) -> anyhow::Result<Vec<Pod>> {
        let api: Api<Pod> = match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        Ok(api.list(&ListParams::default()).await?.items)
    }

    async fn pods(&self, namespace: Option<&str>, now: &str, mood: Mood) -> anyhow::Result<Value> {
        let item = |pod: &Pod| {
            let cpu = match mood {
                Mood::Lies => "-1".to_owned(),
                _ => pod.annotations().get(CPU).cloned().unwrap_or_else(|| "1m".to_owned()),
            };
            json!({
                "metadata": {"name": pod.name_any(), "namespace": pod.namespace(), "labels": pod.labels()},
                "timestamp": now, "window": "1s",
                "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": "8Mi"}}],
            })
        };
        let items: Vec<Value> = self.listed(namespace).await?.iter().map(item).collect();
        Ok(json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}))
    }
}
