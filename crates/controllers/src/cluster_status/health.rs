//! Probes a member and reports its health (specification/failover.md 1.2, 1.3). One task for each cluster: a dead
//! member delays no other.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::Request;
use ironclad_api::cluster::{APIEnablement, APIResource, Cluster};
use ironclad_failover::{
    cluster::health::{self, Collected, Effect, Memory, Probe, Seen},
    wakes::cluster_status::collection_is_due,
};
use ironclad_fleet::ClusterName;
use ironclad_runtime::{Informer, Key, StatusWriter, discover};
use ironclad_seam::Clock;
use kube::Client;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{metrics::ClusterMetrics, witness::Witnesses};
use crate::{members::Members, settings::Settings, setup::Setup, targets::Typed};

/// A probe that is not answered within this time counts as not reachable.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// The health checks of all clusters.
pub(super) struct HealthChecks {
    clock: Clock,
    settings: Arc<Settings>,
    members: Arc<Members>,
    clusters: Informer<Cluster>,
    status: StatusWriter<Typed<Cluster>>,
    witnesses: Witnesses,
    metrics: ClusterMetrics,
}

/// State between two checks of a cluster.
#[derive(Default)]
struct State {
    began: Option<Instant>,
    memory: Option<Memory>,
    collected: Option<Instant>,
}

impl HealthChecks {
    pub(super) fn new(setup: &Setup, metrics: ClusterMetrics) -> Arc<Self> {
        Arc::new(Self {
            clock: setup.seam.clock.clone(),
            settings: setup.settings.clone(),
            members: setup.members.clone(),
            clusters: setup.clusters.clone(),
            status: setup.cluster_status.clone(),
            witnesses: Witnesses::new(&setup.settings.failover.health.connectivity_witnesses),
            metrics,
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Checks one cluster again and again; `now` requests a check now.
    pub(super) async fn run(&self, name: &ClusterName, now: &Notify) {
        let mut state = State::default();
        loop {
            self.check(name, &mut state).await;
            tokio::select! {
                biased;
                () = now.notified() => {}
                () = self.clock.sleep(self.settings.failover.health.status_update_frequency) => {}
            }
        }
    }

    async fn check(&self, name: &ClusterName, state: &mut State) {
        let Some(connected) = self.members.connection(name) else { return };
        let client = connected.as_ref().map(|member| member.client.clone()).map_err(Clone::clone);
        let probe = match &client {
            Ok(client) => probe(client).await,
            Err(why) => Probe::NoClient(why.clone()),
        };
        self.metrics.probed(&name.0, &probe);
        if connected.as_ref().is_ok_and(|member| member.kinds_changed.swap(false, Ordering::Relaxed)) {
            state.collected = None;
        }
        if probe == Probe::Offline && !self.witnesses.see_a_network(&self.clock).await {
            return;
        }
        let Some(cluster) = self.clusters.get("", &name.0) else { return };
        let mono = self.clock.mono();
        let elapsed = mono - *state.began.get_or_insert(mono);
        let thresholds = self.settings.failover.health.thresholds;
        let seen = Seen { cluster: &cluster, memory: state.memory, thresholds };
        let due = collection_is_due(state.collected.map(|at| mono - at), &cluster);
        let collected = match &client {
            Ok(client) if due && health::collects(&seen, &probe, elapsed) => {
                state.collected = Some(mono);
                let collected = timeout(PROBE_DEADLINE, collect(client)).await.ok();
                self.metrics.synced(&name.0, self.clock.mono() - mono);
                collected
            }
            _ => None,
        };
        let decision = health::decide(&seen, &probe, collected, elapsed, self.clock.wall_seconds());
        state.memory = decision.memory;
        let uid = cluster.metadata.uid.clone().unwrap_or_default();
        for Effect::Status(part) in decision.plan.effects {
            // Urgent, since scheduling and failover wait for it.
            self.status.request(&Key::new("", &name.0), &uid, "clusterStatus", part, true);
        }
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
    let Ok(discovery) = discover(client).await else {
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
