//! Probes a member and reports its health (failover.md 1.2, 1.3). One task a cluster: a dead member delays nobody.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::Request;
use ironclad_api::cluster::{APIEnablement, APIResource};
use ironclad_failover::health::{self, Collected, Effect, Memory, Probe, Seen};
use ironclad_fleet::ClusterName;
use ironclad_runtime::Key;
use ironclad_seam::Tasks;
use kube::{Client, discovery::Discovery};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::Context;

/// A probe that is not answered within this time counts as not reachable.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);
/// What a ready member serves is read again after this time.
const COLLECT_EVERY: Duration = Duration::from_secs(60);

/// The controller, as `--controllers` names it.
pub(super) const NAME: &str = "clusterStatus";

/// Starts the checks of a cluster, if they are wanted here; `look` asks for one now.
pub(super) fn start(cx: &Arc<Context>, name: &ClusterName, look: Arc<Notify>) -> Tasks {
    let tasks = cx.seam.tasks.child(&format!("health/{name}"));
    if !crate::runs(cx, NAME) {
        return tasks;
    }
    let (weak, name) = (Arc::downgrade(cx), name.clone());
    tasks.spawn("health", async move {
        let mut state = State::default();
        loop {
            let Some(cx) = weak.upgrade() else { return };
            check(&cx, &name, &mut state).await;
            let (clock, every) = (cx.seam.clock.clone(), cx.settings.failover.health.status_update_frequency);
            drop(cx);
            tokio::select! {
                biased;
                () = look.notified() => {}
                () = clock.sleep(every) => {}
            }
        }
    });
    tasks
}

/// What is remembered between checks.
#[derive(Default)]
struct State {
    began: Option<Instant>,
    memory: Option<Memory>,
    collected: Option<Instant>,
}

async fn check(cx: &Context, name: &ClusterName, state: &mut State) {
    let Some(connected) = cx.members.connection(name) else { return };
    let client = connected.as_ref().map(|member| member.client.clone()).map_err(Clone::clone);
    let probe = match &client {
        Ok(client) => probe(client).await,
        Err(why) => Probe::NoClient(why.clone()),
    };
    cx.metrics.clusters.probed(&name.0, &probe);
    if connected.as_ref().is_ok_and(|member| member.kinds_changed.swap(false, Ordering::Relaxed)) {
        state.collected = None;
    }
    if probe == Probe::Offline && !cx.witnesses.see_a_network(&cx.seam.clock).await {
        return;
    }
    let Some(cluster) = cx.clusters.get("", &name.0) else { return };
    let mono = cx.seam.clock.mono();
    let elapsed = mono - *state.began.get_or_insert(mono);
    let seen = Seen { cluster: &cluster, memory: state.memory, thresholds: cx.settings.failover.health.thresholds };
    let due = state.collected.is_none_or(|at| mono - at >= COLLECT_EVERY) || cluster.ready() != Some("True");
    let collected = match &client {
        Ok(client) if due && health::collects(&seen, &probe, elapsed) => {
            state.collected = Some(mono);
            let collected = timeout(PROBE_DEADLINE, collect(client)).await.ok();
            cx.metrics.clusters.synced(&name.0, cx.seam.clock.mono() - mono);
            collected
        }
        _ => None,
    };
    let decision = health::decide(&seen, &probe, collected, elapsed, cx.seam.clock.wall_seconds());
    state.memory = decision.memory;
    let uid = cluster.metadata.uid.clone().unwrap_or_default();
    for Effect::Status(part) in decision.plan.effects {
        // Placement and failover wait for it: never held back.
        cx.cluster_status.want(&Key::new("", &name.0), &uid, NAME, part, true);
    }
}

async fn probe(client: &Client) -> Probe {
    for path in ["/readyz", "/healthz"] {
        let Ok(request) = Request::get(path).body(Vec::new()) else { return Probe::Offline };
        match timeout(PROBE_DEADLINE, client.request_text(request)).await {
            Ok(Ok(_)) => return Probe::Healthy,
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {}
            Ok(Err(kube::Error::Api(_))) => return Probe::Unhealthy,
            Ok(Err(_)) | Err(_) => return Probe::Offline,
        }
    }
    Probe::Unhealthy
}

async fn collect(client: &Client) -> Collected {
    let kubernetes_version = client.apiserver_version().await.map(|v| v.git_version).unwrap_or_default();
    let Ok(discovery) = Discovery::new(client.clone()).run_aggregated().await else {
        return Collected { kubernetes_version, ..Collected::default() };
    };
    let mut apis = Vec::new();
    for group in discovery.groups_alphabetical() {
        for version in group.versions() {
            let resources: Vec<APIResource> = group
                .versioned_resources(version)
                .into_iter()
                .map(|(resource, _)| APIResource { name: resource.plural, kind: resource.kind })
                .collect();
            let group_version =
                if group.name().is_empty() { version.to_owned() } else { format!("{}/{version}", group.name()) };
            apis.push(APIEnablement { group_version, resources });
        }
    }
    Collected { kubernetes_version, apis, failed_group_versions: Vec::new(), resources: None }
}
