//! Ops listener: health, readiness and metrics, on loopback by default (specification/operations.md 7.2).

mod process;
pub(crate) mod server;
mod text;

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use ironclad_controllers::Controllers;
use ironclad_runtime::Traffic;
use ironclad_seam::{Clock, Tasks};
use ironclad_serving::{Body, Front, Listener};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeMetric,
        text::{encode_eof, encode_registry},
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use std::sync::atomic::Ordering;
use tokio::net::TcpListener;

use crate::up::local::held_by;

const TEXT: &str = "text/plain; charset=utf-8";

/// A named readiness check, with the reason if it fails.
pub(crate) type Check = (&'static str, Result<(), String>);

/// The readiness checks of the controllers of this process, `None` while it runs none.
pub(crate) fn checks(controllers: Option<&Controllers>) -> Vec<Check> {
    let is_synced = controllers.is_some_and(Controllers::is_synced);
    let failing = controllers.map(Controllers::failing_tasks).unwrap_or_default();
    let tasks = if failing.is_empty() { Ok(()) } else { Err(format!("panic again and again: {}", failing.join(", "))) };
    vec![("caches", if is_synced { Ok(()) } else { Err("not yet".to_owned()) }), ("tasks", tasks)]
}

/// State that the listener serves.
#[derive(Clone)]
pub(crate) struct Ops {
    controllers: Arc<dyn Fn() -> Option<Arc<Registry>> + Send + Sync>,
    own: Arc<Registry>,
    ready: Arc<dyn Fn() -> Vec<Check> + Send + Sync>,
}

impl Ops {
    /// Shows the metrics of the controllers that run now, these clients' traffic, what else is collected, and readiness
    /// by these named checks.
    pub(crate) fn new(
        controllers: impl Fn() -> Option<Arc<Registry>> + Send + Sync + 'static,
        traffic: Vec<(&'static str, Arc<Traffic>)>,
        others: Vec<Box<dyn Collector>>,
        ready: impl Fn() -> Vec<Check> + Send + Sync + 'static,
    ) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(BuildInfo));
        registry.register_collector(Box::new(process::Process));
        registry.register_collector(Box::new(Requests(traffic)));
        others.into_iter().for_each(|other| registry.register_collector(other));
        Self { controllers: Arc::new(controllers), own: Arc::new(registry), ready: Arc::new(ready) }
    }

    /// Listens at this address, if there is one, until the tasks are stopped.
    ///
    /// # Errors
    /// The address is in use.
    pub(crate) async fn start(self, bind: Option<SocketAddr>, clock: &Clock, tasks: &Tasks) -> anyhow::Result<()> {
        let Some(socket) = bind else { return Ok(()) };
        let listener = TcpListener::bind(socket).await.with_context(|| {
            let holder = held_by(socket);
            let in_use = if holder.is_empty() { "" } else { ": in use" };
            format!(
                "listening on {socket} for health and metrics{in_use}{holder}\n  try: another --metrics-bind-address, or 0 for none"
            )
        })?;
        let front = Front::new(move |request, _peer| {
            let answer = self.answer(request.method(), request.uri().path(), request.headers());
            async move { answer }
        });
        let (group, clock) = (tasks.clone(), clock.clone());
        tasks.spawn("ops", async move { Listener::new(listener, None, "ops").serve(&clock, &group, front).await });
        Ok(())
    }

    fn answer(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Body> {
        let (status, content_type, text) = match path {
            _ if !matches!(*method, Method::GET | Method::HEAD) => {
                (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET is possible".to_owned())
            }
            "/metrics" => self.metrics(headers),
            "/healthz" | "/livez" => (StatusCode::OK, TEXT, "ok".to_owned()),
            "/readyz" => {
                let (status, text) = readiness(&(self.ready)());
                (status, TEXT, text)
            }
            _ => (StatusCode::NOT_FOUND, TEXT, "try: /metrics, /healthz, /livez or /readyz".to_owned()),
        };
        let mut answer = Response::new(Full::from(text).map_err(|never| match never {}).boxed_unsync());
        *answer.status_mut() = status;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        answer
    }

    fn metrics(&self, headers: &HeaderMap) -> (StatusCode, &'static str, String) {
        let mut text = String::new();
        let controllers = (self.controllers)().map_or(Ok(()), |controllers| encode_registry(&mut text, &controllers));
        let encoded = controllers.and_then(|()| encode_registry(&mut text, &self.own));
        match encoded.and_then(|()| encode_eof(&mut text)) {
            Ok(()) if text::wants_open_metrics(headers) => (StatusCode::OK, text::OPEN_METRICS, text),
            Ok(()) => (StatusCode::OK, text::PLAIN, text::plain(&text)),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
        }
    }
}

fn readiness(checks: &[Check]) -> (StatusCode, String) {
    let mut text = String::new();
    for (name, check) in checks {
        match check {
            Ok(()) => text.push_str(&format!("[+]{name} ok\n")),
            Err(why) => text.push_str(&format!("[-]{name} {why}\n")),
        }
    }
    let all = checks.iter().all(|(_, check)| check.is_ok());
    text.push_str(if all { "readyz check passed\n" } else { "readyz check failed\n" });
    // As a kube-apiserver answers.
    (if all { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, text)
}

/// `karmada_build_info`: what runs, always 1. Labels that have no meaning here are empty.
#[derive(Debug)]
struct BuildInfo;

impl Collector for BuildInfo {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let help = "What runs: its version and how it was built";
        let mut family = encoder.encode_descriptor("karmada_build_info", help, None, MetricType::Gauge)?;
        let version = ironclad_cli::version::version();
        let short = version.commit.get(..14).unwrap_or(version.commit);
        let labels = [
            ("git_version", version.version),
            ("git_commit", version.commit),
            ("git_short_commit", short),
            ("git_tree_state", ""),
            ("build_date", ""),
            ("go_version", ""),
            ("compiler", "rustc"),
            ("platform", version.platform.as_str()),
        ];
        ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)
    }
}

#[derive(Debug)]
struct Requests(Vec<(&'static str, Arc<Traffic>)>);

impl Collector for Requests {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut family = encoder.encode_descriptor(
            "ironclad_client_requests",
            "Requests of our own, by the server they go to and their kind",
            None,
            MetricType::Counter,
        )?;
        for (server, traffic) in &self.0 {
            for (kind, counter) in [("read", &traffic.reads), ("watch", &traffic.watches), ("write", &traffic.writes)] {
                let labels = [("server", *server), ("kind", kind)];
                ConstCounter::new(counter.load(Ordering::Relaxed)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ironclad_reference::Reference;

    use super::*;

    #[test]
    fn readiness_names_the_checks_that_fail() {
        let rows: [(&[Check], StatusCode, &str); 3] = [
            (&[("caches", Ok(()))], StatusCode::OK, "[+]caches ok\nreadyz check passed\n"),
            (
                &[("caches", Err("not yet".into())), ("tasks", Ok(()))],
                StatusCode::INTERNAL_SERVER_ERROR,
                "[-]caches not yet\n[+]tasks ok\nreadyz check failed\n",
            ),
            (
                &[("tasks", Err("panic again and again: p/informer/works".into()))],
                StatusCode::INTERNAL_SERVER_ERROR,
                "[-]tasks panic again and again: p/informer/works\nreadyz check failed\n",
            ),
        ];
        for (checks, status, text) in rows {
            assert_eq!(readiness(checks), (status, text.to_owned()));
        }
    }

    /// The row of `karmada_build_info` (specification/operations.md 6); the controllers have the other metrics.
    #[test]
    fn the_build_is_shown_with_the_labels_of_the_reference() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(BuildInfo));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let table = Reference::Operations.table("## 6. ");
        let row = table.rows.iter().find(|row| row[0] == "`karmada_build_info`").unwrap();
        assert!(text.contains(&format!("# TYPE karmada_build_info {}\n", row[1])), "{text}");
        let series = text.lines().find_map(|line| line.strip_prefix("karmada_build_info{")).unwrap();
        let (labels, value) = series.split_once("} ").unwrap();
        let labels: Vec<&str> = labels.split(',').filter_map(|pair| Some(pair.split_once('=')?.0)).collect();
        assert_eq!((labels.join(", ").as_str(), value), (row[2].as_str(), "1"));
    }
}
