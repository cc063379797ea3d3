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
use kube::{Client, core::discovery::v2::APIGroupDiscovery};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{metrics::ClusterMetrics, witness::Witnesses};
use crate::{members::Members, settings::Settings, setup::Setup, targets::Typed};

/// A probe that is not answered within this time counts as not reachable.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// A collection of versions and APIs, which takes several requests, fails after this time.
const COLLECT_DEADLINE: Duration = Duration::from_secs(10);
/// Freshness of a group version whose aggregated API server does not answer.
const STALE: &str = "Stale";

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
                let collected = timeout(COLLECT_DEADLINE, collect(client)).await.ok();
                // What could not be read is read again at the next check: nothing can be placed there before.
                let complete = collected.as_ref().is_some_and(|collected| !collected.apis.is_empty());
                state.collected = complete.then_some(mono);
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
    let lists = async {
        let core = client.list_core_api_versions_aggregated().await?.items;
        Ok::<_, kube::Error>(core.into_iter().chain(client.list_api_groups_aggregated().await?.items).collect())
    };
    let (apis, failed_group_versions) = match lists.await.map(served) {
        Ok((apis, failed)) if !apis.is_empty() => (apis, failed),
        // A server without aggregated discovery does not say what it could not read.
        _ => (listed(client).await, Vec::new()),
    };
    Collected { kubernetes_version, apis, failed_group_versions, resources: None }
}

/// The APIs of a member, in whichever form it serves its discovery; none if it does not answer.
async fn listed(client: &Client) -> Vec<APIEnablement> {
    let Ok(discovery) = discover(client).await else { return Vec::new() };
    let mut apis = Vec::new();
    for group in discovery.groups_alphabetical() {
        for version in group.versions() {
            let resources = group.versioned_resources(version).into_iter();
            let resources = resources.map(|(resource, _)| APIResource { name: resource.plural, kind: resource.kind });
            let group_version =
                if group.name().is_empty() { version.to_owned() } else { format!("{}/{version}", group.name()) };
            apis.push(APIEnablement { group_version, resources: resources.collect() });
        }
    }
    apis
}

/// The APIs of a member, and the group versions that it could not read from its aggregated API servers.
fn served(groups: Vec<APIGroupDiscovery>) -> (Vec<APIEnablement>, Vec<String>) {
    let (mut apis, mut failed) = (Vec::new(), Vec::new());
    for group in groups {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        for version in group.versions {
            let text = version.version.unwrap_or_default();
            let group_version = if name.is_empty() { text } else { format!("{name}/{text}") };
            if version.freshness.as_deref() == Some(STALE) {
                failed.push(group_version);
                continue;
            }
            let resources = version.resources.into_iter().filter_map(|resource| {
                Some(APIResource { name: resource.resource?, kind: resource.response_kind?.kind? })
            });
            apis.push(APIEnablement { group_version, resources: resources.collect() });
        }
    }
    (apis, failed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn group_versions_that_the_member_could_not_read_are_told_apart() {
        let resource = |name: &str, kind: &str| json!({"resource": name, "responseKind": {"group": "", "version": "", "kind": kind}});
        let groups = json!([
            {"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [resource("pods", "Pod"), {"resource": "odd"}]}]},
            {"metadata": {"name": "x.io"}, "versions": [
                {"version": "v1", "freshness": "Stale", "resources": []},
                {"version": "v1beta1", "resources": [resource("foos", "Foo")]},
            ]},
        ]);
        let (apis, failed) = served(serde_json::from_value(groups).unwrap());
        let text: Vec<String> = apis
            .iter()
            .map(|api| {
                format!("{} {:?}", api.group_version, api.resources.iter().map(|r| &*r.kind).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(text, [r#"v1 ["Pod"]"#, r#"x.io/v1beta1 ["Foo"]"#]);
        assert_eq!(failed, ["x.io/v1"]);
    }
}
