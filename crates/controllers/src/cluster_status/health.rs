//! Probes a member and reports its health (specification/failover.md 1.2, 1.3). One task for each cluster: a dead
//! member delays no other.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::{join, join_all};
use http::Request;
use ironclad_api::{
    cluster::{APIEnablement, APIResource, Cluster, NodeSummary, ResourceSummary},
    namespaces::KUBE_SYSTEM,
};
use ironclad_failover::{
    cluster::health::{self, Collected, Effect, Memory, Probe, Seen},
    wakes::cluster_status::Collection,
};
use ironclad_fleet::{ClusterName, EventType};
use ironclad_members::{Member, Members, PerMember, Unconnected};
use ironclad_runtime::{Api, Informer, Key, StatusWriter, aggregated_groups};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, core::discovery::v2::APIGroupDiscovery};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{
    collect::{Collector, Sums},
    metrics::ClusterMetrics,
    witness::Witnesses,
};
use crate::{
    caches::NAMESPACES, events::Events, member_object::MemberObjects, settings::Settings, setup::Setup, targets::Typed,
};

/// A probe that is not answered within this time counts as not reachable.
const PROBE_DEADLINE: Duration = Duration::from_secs(5);

/// A collection of versions and APIs, which takes several requests, fails after this time.
const COLLECT_DEADLINE: Duration = Duration::from_secs(10);
/// A cluster becomes ready without its resources after this time.
const FIRST_SUMS_DEADLINE: Duration = Duration::from_secs(5);
/// Freshness of a group version whose aggregated API server does not answer.
const STALE: &str = "Stale";

/// The health checks of all clusters.
pub(super) struct HealthChecks {
    clock: Clock,
    settings: Arc<Settings>,
    members: Arc<Members>,
    objects: MemberObjects,
    pub(super) found: PerMember<Found>,
    clusters: Informer<Cluster>,
    /// Namespaces of the control plane. An agent compares both servers when it starts.
    namespaces: Option<Informer<Namespace>>,
    status: StatusWriter<Typed<Cluster>>,
    witnesses: Witnesses,
    metrics: ClusterMetrics,
    collector: Arc<Collector>,
    events: Events,
}

/// State of one connection.
#[derive(Default)]
pub(super) struct Found {
    /// Set when the kinds that the member serves may differ from those that were read.
    pub(super) kinds_changed: AtomicBool,
    /// The uid of its namespace kube-system, once it was read; `None` if the member does not report it.
    kube_system: OnceLock<Option<String>>,
    /// Sums of its nodes and pods, if they are counted.
    sums: Option<Arc<Sums>>,
}

impl Found {
    pub(super) fn of(sums: Option<Arc<Sums>>) -> Self {
        Self { sums, ..Self::default() }
    }
}

/// State between two checks of a cluster.
struct State {
    /// Time from which `collection` counts.
    started: Instant,
    began: Option<Instant>,
    memory: Option<Memory>,
    collection: Collection,
    /// True if the last probe failed.
    failed: bool,
    /// True once the first sums were waited for: a member that does not let its nodes be listed is ready without.
    summed: bool,
}

impl HealthChecks {
    pub(super) fn new(setup: &Setup, metrics: ClusterMetrics, collector: Arc<Collector>) -> Arc<Self> {
        Arc::new(Self {
            clock: setup.seam.clock.clone(),
            settings: setup.settings.clone(),
            members: setup.members.clone(),
            objects: setup.member_objects().clone(),
            found: PerMember::default(),
            clusters: setup.clusters().clone(),
            namespaces: setup.settings.agent_of.is_none().then(|| setup.caches.take(&NAMESPACES)),
            status: setup.cluster_status().clone(),
            witnesses: Witnesses::new(&setup.settings.failover.health.connectivity_witnesses),
            metrics,
            collector,
            events: setup.events.clone(),
        })
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Checks one cluster again and again; `now` requests a check now.
    pub(super) async fn run(&self, name: &ClusterName, now: &Notify) {
        let started = self.clock.mono();
        let mut state = State {
            started,
            began: None,
            memory: None,
            collection: Collection::default(),
            failed: false,
            summed: false,
        };
        loop {
            self.check(name, &mut state).await;
            let interval = self.settings.failover.health.status_update_frequency;
            let wait = state.collection.next_check(self.clock.mono() - started, interval);
            tokio::select! {
                biased;
                () = now.notified() => {}
                () = self.clock.sleep(wait) => {}
            }
        }
    }

    async fn check(&self, name: &ClusterName, state: &mut State) {
        let Some(connected) = self.members.connection(name) else { return };
        let probe = match &connected {
            Ok(member) => match probe(&member.client).await {
                Probe::Healthy => self.identify(member).await,
                other => other,
            },
            Err(Unconnected::NoClient(why)) => Probe::NoClient(why.clone()),
            Err(Unconnected::ControlPlane { uid }) => Probe::ControlPlane { uid: uid.clone() },
        };
        self.metrics.probed(&name.0, &probe);
        let has_failed = std::mem::replace(&mut state.failed, probe != Probe::Healthy);
        if let Ok(member) = &connected
            && has_failed
            && !state.failed
        {
            // What its summary counts must not be older than what is applied there now.
            member.caches.retry_now();
            self.objects.get(name).iter().for_each(|objects| objects.retry_now());
        }
        if self.found.get(name).is_some_and(|found| found.kinds_changed.swap(false, Ordering::Relaxed)) {
            state.collection.kinds_changed(self.clock.mono() - state.started);
        }
        if probe == Probe::Offline && !self.witnesses.see_a_network(&self.clock).await {
            return;
        }
        let Some(cluster) = self.clusters.get("", &name.0) else { return };
        let mono = self.clock.mono();
        let elapsed = mono - *state.began.get_or_insert(mono);
        let thresholds = self.settings.failover.health.thresholds();
        let seen = Seen { cluster: &cluster, memory: state.memory, thresholds };
        let due = state.collection.is_due(mono - state.started, &cluster);
        let collected = match &connected {
            Ok(member) if due && health::collects(&seen, &probe, elapsed) => {
                let (collected, resources) = join(
                    timeout(COLLECT_DEADLINE, collect(&member.client)),
                    self.first_resources(name, &cluster, &mut state.summed),
                )
                .await;
                let collected = collected.ok().map(|collected| Collected { resources, ..collected });
                let is_complete = collected.as_ref().is_some_and(|collected| !collected.apis.is_empty());
                state.collection.read(mono - state.started, is_complete);
                self.metrics.synced(&name.0, self.clock.mono() - mono);
                collected
            }
            _ => None,
        };
        let decision = health::decide(&seen, &probe, collected, elapsed, self.clock.wall_seconds());
        state.memory = decision.memory;
        let uid = cluster.metadata.uid.clone().unwrap_or_default();
        for effect in decision.plan.effects {
            match effect {
                // Urgent, since scheduling and failover wait for it.
                Effect::Status(part) => self.status.request(&Key::new("", &name.0), &uid, "clusterStatus", part, true),
                Effect::Event(event) => {
                    let because = &event.message;
                    match event.type_ {
                        EventType::Warning => {
                            tracing::warn!(cluster = %name, %because, "cluster is not ready any more")
                        }
                        EventType::Normal => tracing::info!(cluster = %name, %because, "cluster is ready again"),
                    }
                    self.events.record(&event);
                }
            }
        }
    }

    /// Resources of a cluster that has none in its status yet: it becomes ready together with them, since replicas that
    /// were divided by capacity before would not be divided again.
    async fn first_resources(
        &self,
        name: &ClusterName,
        cluster: &Cluster,
        summed: &mut bool,
    ) -> Option<(NodeSummary, ResourceSummary)> {
        let has_some = cluster.status.as_ref().is_some_and(|status| status.resource_summary.is_some());
        if std::mem::replace(summed, true) || has_some {
            return None;
        }
        let sums = self.found.get(name)?.sums.clone()?;
        timeout(FIRST_SUMS_DEADLINE, sums.first(self.collector.models(cluster))).await.ok()
    }

    /// Compares a healthy member with the control plane. If they are the same server, the connection ends: copies would
    /// overwrite their own templates.
    async fn identify(&self, member: &Arc<Member>) -> Probe {
        let (Some(found), Some(of_plane)) = (self.found.get(&member.name), &self.namespaces) else {
            return Probe::Healthy;
        };
        let plane = of_plane.get("", KUBE_SYSTEM).and_then(|namespace| namespace.metadata.uid.clone());
        if found.kube_system.get().is_none() {
            let namespaces: Api<Namespace> = Api::all(member.client.clone());
            let uid = match timeout(PROBE_DEADLINE, namespaces.get_opt(KUBE_SYSTEM)).await {
                Ok(Ok(namespace)) => namespace.and_then(|namespace| namespace.metadata.uid),
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => None,
                // The next check asks again.
                Ok(Err(_)) | Err(_) => return Probe::Healthy,
            };
            // The health check is the only one that sets it.
            let _ = found.kube_system.set(uid);
        }
        let probe = health::identify(plane.as_deref(), found.kube_system.get().and_then(Option::as_deref));
        if let Probe::ControlPlane { uid } = &probe {
            tracing::error!(cluster = %member.name, %uid, "the cluster is the control plane itself, and is refused");
            self.members.refuse(member, Unconnected::ControlPlane { uid: uid.clone() });
        }
        probe
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

/// Reads the version and the APIs of a member. The requests are sent at once: their latencies must not add up to the
/// deadline.
async fn collect(client: &Client) -> Collected {
    let (version, groups) = join(client.apiserver_version(), aggregated_groups(client)).await;
    let aggregated = groups.map(served).unwrap_or_default();
    let (apis, failed_group_versions) = if aggregated.0.is_empty() { listed(client).await } else { aggregated };
    let kubernetes_version = version.map(|version| version.git_version).unwrap_or_default();
    Collected { kubernetes_version, apis, failed_group_versions, resources: None }
}

/// The APIs of a member without aggregated discovery, and the group versions that could not be read; no APIs if it does
/// not answer.
async fn listed(client: &Client) -> (Vec<APIEnablement>, Vec<String>) {
    let (Ok(core), Ok(groups)) = join(client.list_core_api_versions(), client.list_api_groups()).await else {
        return (Vec::new(), Vec::new());
    };
    let groups: Vec<String> =
        groups.groups.into_iter().flat_map(|group| group.versions).map(|version| version.group_version).collect();
    let read_core = join_all(core.versions.iter().map(|version| client.list_core_api_resources(version)));
    let read_groups = join_all(groups.iter().map(|version| client.list_api_group_resources(version)));
    let (read_core, read_groups) = join(read_core, read_groups).await;
    let (mut apis, mut failed) = (Vec::new(), Vec::new());
    let names = core.versions.into_iter().chain(groups);
    for (group_version, read) in names.zip(read_core.into_iter().chain(read_groups)) {
        let Ok(list) = read else {
            failed.push(group_version);
            continue;
        };
        let resources = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        let resources = resources.map(|resource| APIResource { name: resource.name, kind: resource.kind }).collect();
        apis.push(APIEnablement { group_version, resources });
    }
    (apis, failed)
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
    use http::{Response, StatusCode, header::ACCEPT};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;

    fn kinds(apis: &[APIEnablement]) -> Vec<String> {
        let text = |api: &APIEnablement| {
            format!("{} {:?}", api.group_version, api.resources.iter().map(|r| &*r.kind).collect::<Vec<_>>())
        };
        apis.iter().map(text).collect()
    }

    /// A server that knows no aggregated discovery, with an API whose server is down, and in which each answer takes
    /// this long.
    fn old_server(latency: Duration) -> Client {
        let service = service_fn(move |request: Request<Body>| async move {
            tokio::time::sleep(latency).await;
            let resource = |name: &str, kind: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["list"]});
            let list = |version: &str, resources: Vec<Value>| json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
            let group = |name: &str| json!({"name": name, "versions": [{"groupVersion": format!("{name}/v1"), "version": "v1"}]});
            let accepted = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
            let (code, answer) = match request.uri().path() {
                _ if accepted.contains("APIGroupDiscoveryList") => (
                    StatusCode::NOT_ACCEPTABLE,
                    json!({"kind": "Status", "status": "Failure", "reason": "NotAcceptable", "message": "no", "code": 406}),
                ),
                "/version" => (
                    StatusCode::OK,
                    json!({"major": "1", "minor": "25", "gitVersion": "v1.25.0", "gitCommit": "", "gitTreeState": "",
                        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}),
                ),
                "/api" => (
                    StatusCode::OK,
                    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
                ),
                "/apis" => (StatusCode::OK, json!({"kind": "APIGroupList", "groups": [group("apps"), group("x.io")]})),
                "/api/v1" => {
                    (StatusCode::OK, list("v1", vec![resource("pods", "Pod"), resource("pods/status", "Pod")]))
                }
                "/apis/apps/v1" => (StatusCode::OK, list("apps/v1", vec![resource("deployments", "Deployment")])),
                _ => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    json!({"kind": "Status", "status": "Failure", "reason": "ServiceUnavailable", "message": "no", "code": 503}),
                ),
            };
            Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?)
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn old_servers_are_read_group_by_group_and_their_latencies_do_not_add_up() {
        for latency in [Duration::ZERO, Duration::from_secs(3)] {
            let collected = timeout(COLLECT_DEADLINE, collect(&old_server(latency))).await.unwrap();
            assert_eq!(collected.kubernetes_version, "v1.25.0");
            assert_eq!(kinds(&collected.apis), [r#"v1 ["Pod"]"#, r#"apps/v1 ["Deployment"]"#], "{latency:?}");
            assert_eq!(collected.failed_group_versions, ["x.io/v1"]);
        }
    }

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
        assert_eq!(kinds(&apis), [r#"v1 ["Pod"]"#, r#"x.io/v1beta1 ["Foo"]"#]);
        assert_eq!(failed, ["x.io/v1"]);
    }
}
