//! A controller process: tasks that can be killed together, its own caches, links with faults to all servers, and
//! with several processes, leader election.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt as _;
use ironclad_api::{
    agents::{AGENT_GROUP, agent_user},
    cluster::{Cluster, SyncMode},
};
use ironclad_apiserver::{Identity, Server};
use ironclad_controllers::{Backends, Controllers, Settings};
use ironclad_estimator::{Assumed, Call, ClientTls, Estimator, Workload};
use ironclad_fleet::ClusterName;
use ironclad_members::{Connections, Connector};
use ironclad_runtime::{
    Scope, Traffic, Tunnels, client_through, in_process_client,
    leader::{Elector, LeaderOptions, fenced},
    serve_tunnel,
};
use ironclad_seam::{Clock, Seam, Tasks};
use ironclad_serving::Answer;
use ironclad_simcluster::Member;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _, client::Body};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::{Service as _, service_fn};

use super::{FaultPlan, History, Link, model::Model, world::CONTROLLERS_USER};

/// Slot of a controller process, with faults and clock that outlive its restarts.
pub(super) struct Slot {
    name: String,
    /// The member whose agent it is.
    agent_of: Option<String>,
    pub(super) faults: FaultPlan,
    pub(super) member_faults: FaultPlan,
    /// Members whose connecting panics.
    pub(super) connect_panics: Arc<Mutex<BTreeSet<String>>>,
    /// Estimators over gRPC, by cluster.
    pub(super) estimators: Estimators,
    pub(super) clock: Clock,
    process: Option<Process>,
    incarnation: u32,
    /// Where agents open tunnels, if they do.
    tunnels: Option<TunnelEnds>,
    /// Time at which a killed process is restarted.
    pub(super) back_at: Option<Instant>,
}

struct Process {
    tasks: Tasks,
    /// Its controllers, while it works.
    present: Arc<Mutex<Option<Arc<Controllers>>>>,
}

/// Start of work: immediately, or while the process holds the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    Alone,
    Elected,
}

impl Slot {
    pub(super) fn new(name: &str, clock: &Clock, tunnels: Option<TunnelEnds>) -> Self {
        Self {
            name: name.to_owned(),
            agent_of: None,
            tunnels,
            faults: FaultPlan::default(),
            member_faults: FaultPlan::default(),
            connect_panics: Arc::default(),
            estimators: Arc::default(),
            clock: clock.for_process(),
            process: None,
            incarnation: 0,
            back_at: None,
        }
    }

    /// The agent of a member.
    pub(super) fn agent(member: &str, clock: &Clock, tunnels: Option<TunnelEnds>) -> Self {
        Self { agent_of: Some(member.to_owned()), ..Self::new(&format!("agent-{member}-"), clock, tunnels) }
    }

    pub(super) fn start(
        &mut self,
        lead: Lead,
        world: &Seam,
        plane: &Arc<Server>,
        members: &Arc<BTreeMap<String, Arc<Member>>>,
        settings: &Settings,
        model: &Model,
        history: &History,
    ) {
        self.incarnation += 1;
        self.back_at = None;
        let name = format!("{}{}", self.name, self.incarnation);
        let seam = Seam { clock: self.clock.clone(), ..world.child(&name) };
        history.log(format!("{name} starts"));
        let identity = match &self.agent_of {
            Some(member) => Identity::user(&agent_user(member), &[AGENT_GROUP]),
            None => Identity::admin(CONTROLLERS_USER),
        };
        let link = Link::new(
            plane.in_process(identity),
            &format!("{name}->plane"),
            world,
            seam.tasks.clone(),
            self.faults.clone(),
            history.clone(),
        );
        let client = in_process_client(link, Arc::new(Traffic::without_managed_fields()));
        let elector = (lead == Lead::Elected && self.agent_of.is_none())
            .then(|| Elector::new(client.clone(), seam.clone(), LeaderOptions::new(&name)));
        let fence = elector.as_ref().map(Elector::fence);
        let tunnels = match (&self.tunnels, &self.agent_of) {
            (Some(ends), None) => Some(ends.accept(&name, &seam.tasks)),
            (Some(ends), Some(member)) => {
                let hold = hold_tunnels(
                    ends.clone(),
                    members[member].clone(),
                    member.clone(),
                    self.faults.clone(),
                    seam.clone(),
                );
                seam.tasks.spawn("tunnels", hold);
                None
            }
            (None, _) => None,
        };
        let connector = Arc::new(SimConnector {
            tunnels,
            members: members.clone(),
            plane: plane.clone(),
            name: name.clone(),
            seam: world.clone(),
            process: seam.tasks.clone(),
            faults: self.member_faults.clone(),
            connect_panics: self.connect_panics.clone(),
            estimators: self.estimators.clone(),
            history: history.clone(),
        });
        let connections = Connections::new(connector.clone(), Scope::All).fenced(fence.clone());
        let writer = match fence {
            Some(fence) => fenced(client, fence),
            None => client,
        };
        let present: Arc<Mutex<Option<Arc<Controllers>>>> = Arc::default();
        let settings = Settings { agent_of: self.agent_of.as_deref().map(ClusterName::from), ..settings.clone() };
        let (shown, history, model) = (present.clone(), history.clone(), model.clone());
        let begin = move |term: Seam| {
            history.log(format!("{name} works"));
            model.with_checker(|checker, at| match &settings.agent_of {
                None => checker.started(at),
                Some(member) => checker.agent_started(member, at),
            });
            let context = Controllers::new(
                writer.clone(),
                term.clone(),
                connections.clone(),
                connector.clone(),
                settings.clone(),
            );
            *shown.lock() = Some(context.clone());
            term.tasks.spawn("start", async move { context.start().await });
            Working(Some(shown.clone()))
        };
        self.process = Some(Process { tasks: seam.tasks.clone(), present });
        match elector {
            Some(elector) => drop(seam.tasks.spawn("election", async move { elector.run(begin).await })),
            None => drop(begin(seam).for_ever()),
        }
    }

    pub(super) fn kill(&mut self, history: &History) {
        if let Some(process) = self.process.take() {
            history.log(format!("{} killed", process.tasks.name()));
            process.tasks.kill();
        }
    }

    /// Returns `true` if a process is meant to run and was killed.
    pub(super) fn is_dead(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.tasks.is_dead())
    }

    /// Returns `true` if no process is meant to run here.
    pub(super) fn is_empty(&self) -> bool {
        self.process.is_none() && self.back_at.is_none()
    }

    /// Returns `true` if the process is idle, or is not meant to run.
    pub(super) fn is_quiet(&self) -> bool {
        match &self.process {
            Some(process) => !process.tasks.is_dead() && self.context().is_none_or(|context| context.is_quiet()),
            None => self.back_at.is_none(),
        }
    }

    /// Its controllers, while it works.
    pub(super) fn context(&self) -> Option<Arc<Controllers>> {
        self.process.as_ref()?.present.lock().clone()
    }
}

/// Clears the shared controllers when the process stops leading.
struct Working(Option<Arc<Mutex<Option<Arc<Controllers>>>>>);

impl Working {
    /// Keeps them for the lifetime of the process.
    fn for_ever(mut self) -> Self {
        self.0 = None;
        self
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(present) = &self.0 {
            *present.lock() = None;
        }
    }
}

/// Name of the cluster whose server is the control plane itself.
pub const CONTROL_PLANE: &str = "itself";

/// Connects simulated members in-process, through a fault layer each.
struct SimConnector {
    /// Of a process of the control plane, if agents open tunnels to it.
    tunnels: Option<Tunnels>,
    members: Arc<BTreeMap<String, Arc<Member>>>,
    plane: Arc<Server>,
    name: String,
    seam: Seam,
    process: Tasks,
    faults: FaultPlan,
    connect_panics: Arc<Mutex<BTreeSet<String>>>,
    estimators: Estimators,
    history: History,
}

impl SimConnector {
    fn link<S>(&self, service: S, cluster: &str) -> Link<S> {
        let name = format!("{}->{cluster}", self.name);
        Link::new(service, &name, &self.seam, self.process.clone(), self.faults.clone(), self.history.clone())
    }
}

impl Connector for SimConnector {
    fn connect(&self, cluster: &Cluster, _credentials: Option<&Secret>) -> Result<Client, String> {
        let name = cluster.name_any();
        assert!(!self.connect_panics.lock().contains(&name), "connecting {name} panics");
        let identity = Identity::admin("ironclad");
        let traffic = Arc::new(Traffic::without_managed_fields());
        if name == CONTROL_PLANE {
            return Ok(in_process_client(self.link(self.plane.in_process(identity), &name), traffic));
        }
        if let Some(tunnels) = self.tunnels.as_ref().filter(|_| cluster.spec.sync_mode == SyncMode::Pull) {
            let client = client_through(tunnels, &name, Arc::default());
            let through = service_fn(move |request| {
                let client = client.clone();
                async move { client.send(request).await }
            });
            return Ok(in_process_client(self.link(through, &name), traffic));
        }
        let member = self.members.get(&name).ok_or_else(|| format!("there is no simulated member {name}"))?;
        Ok(in_process_client(self.link(member.faulted_service(identity), &name), traffic))
    }

    fn tunnels(&self) -> Option<&Tunnels> {
        self.tunnels.as_ref()
    }
}

/// The processes of the control plane in which tunnels end, by name, with their tasks. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct TunnelEnds(Arc<Mutex<BTreeMap<String, (Tunnels, Tasks)>>>);

impl TunnelEnds {
    /// The tunnels that end in this process, which starts.
    fn accept(&self, name: &str, tasks: &Tasks) -> Tunnels {
        let tunnels = Tunnels::of_replica(name);
        let mut ends = self.0.lock();
        ends.retain(|_, (_, tasks)| !tasks.is_dead());
        ends.insert(name.to_owned(), (tunnels.clone(), tasks.clone()));
        tunnels
    }

    fn alive(&self) -> Vec<(String, Tunnels, Tasks)> {
        let ends = self.0.lock();
        let alive = ends.iter().filter(|(_, (_, tasks))| !tasks.is_dead());
        alive.map(|(name, (tunnels, tasks))| (name.clone(), tunnels.clone(), tasks.clone())).collect()
    }
}

/// Time until an agent looks again for processes to which it has no tunnel.
const TUNNEL_LOOK: Duration = Duration::from_secs(1);
/// Bytes under way in one direction of a tunnel.
const TUNNEL_BYTES: usize = 256 << 10;

/// Holds a tunnel of a member open to each process of the control plane: real streams of HTTP/2, over a pipe. Faults
/// that cut the watches of the agent cut its tunnels, too.
async fn hold_tunnels(ends: TunnelEnds, member: Arc<Member>, cluster: String, faults: FaultPlan, seam: Seam) {
    let held: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    loop {
        for (end, tunnels, tasks) in ends.alive() {
            if !held.lock().insert(end.clone()) {
                continue;
            }
            let (of_plane, of_agent) = tokio::io::duplex(TUNNEL_BYTES);
            let name = cluster.clone();
            tasks.spawn("tunnel", async move {
                let ended = tunnels.carry(&name, "agent", of_plane).await;
                tracing::debug!(?ended, name, "a tunnel ended");
            });
            let (held, faults, tasks, answer) = (held.clone(), faults.clone(), seam.tasks.clone(), passes_on(&member));
            seam.tasks.spawn("tunnel", async move {
                let begun = faults.cuts();
                tokio::select! {
                    biased;
                    _ = faults.is_cut(begun) => {}
                    ended = serve_tunnel(of_agent, &tasks, answer) => tracing::debug!(?ended, end, "a tunnel ended"),
                }
                held.lock().remove(&end);
            });
        }
        seam.clock.sleep(TUNNEL_LOOK).await;
    }
}

/// Passes requests on to a member, as its agent does.
fn passes_on(member: &Arc<Member>) -> Answer {
    let member = member.clone();
    Answer::new(move |request| {
        let mut service = member.faulted_service(Identity::admin("ironclad"));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            let answer = service.call(Request::from_parts(parts, Body::from(body))).await.map_err(io::Error::other)?;
            Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
        }
    })
}

impl Backends for SimConnector {
    fn estimator(&self, cluster: &str, _: Vec<String>, _: &ClientTls, _: &Clock, _: &Tasks) -> Arc<dyn Estimator> {
        Arc::new(SimEstimator { cluster: cluster.to_owned(), all: self.estimators.clone() })
    }
}

/// Estimators over gRPC, by cluster.
pub(super) type Estimators = Arc<Mutex<BTreeMap<String, Arc<dyn Estimator>>>>;

/// The connection to an estimator that a test may replace at any time.
struct SimEstimator {
    cluster: String,
    all: Estimators,
}

impl Estimator for SimEstimator {
    fn call(&self, workload: &Workload, call: &Call, assumed: &[Assumed]) -> BoxFuture<'static, Result<i32, String>> {
        match self.all.lock().get(&self.cluster) {
            Some(estimator) => estimator.call(workload, call, assumed),
            None => Box::pin(std::future::ready(Err("there is no estimator".to_owned()))),
        }
    }
}
