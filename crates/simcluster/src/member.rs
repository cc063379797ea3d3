//! A simulated member: the embedded server, nodes, a pod scheduler, kubelets and the controllers of a cluster.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use ironclad_apiserver::{FeatureGates, Identity, OpenError, Options, Server, ServiceAccountAdmission};
use ironclad_kubecontrollers::{Cluster, Controller};
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::{Seam, Tasks};
use ironclad_store::Store;
use kube::Client;
use parking_lot::Mutex;

use crate::{
    balancer,
    faults::{Faulted, Link, Network},
    kubelet::{self, SharedTimes},
    nodes::Nodes,
    options::{Faults, Flap, MemberOptions, Shape, Times},
    placing::Placing,
    scheduler,
    served::{ServedRoute, metrics_group},
    signing::signer,
    usage::{Rules, UsageRule},
    volumes,
};

const INSIDE_USER: &str = "system:kube-controller-manager";
/// User of tests and tools that access a member past its faults.
const ADMIN_USER: &str = "kubernetes-admin";
const READY_EVERY: Duration = Duration::from_millis(5);

/// A simulated member. Cheap to clone; it lives until its seam's tasks are stopped or killed.
#[derive(Clone)]
pub struct Member(Arc<Inner>);

pub(crate) struct Inner {
    server: Arc<Server>,
    seam: Seam,
    link: Link,
    traffic: Arc<Traffic>,
    times: SharedTimes,
    placing: Arc<Placing>,
    state: Mutex<State>,
}

struct State {
    options: MemberOptions,
    /// Usage rules of the options, parsed once.
    rules: Arc<Rules>,
    faults: Faults,
    /// Controllers and nodes, while the member is up.
    inside: Option<Inside>,
    /// Number of starts: each has its own random streams.
    starts: u64,
    /// Phase of a flapping member; up in any other.
    phase: FlapPhase,
    turns: Option<Tasks>,
    front: Option<Front>,
}

/// TLS endpoint of the member for users.
struct Front {
    /// Kept while the member is down, so that the port stays reserved.
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    /// Listener and connections, while the member is up.
    tasks: Option<Tasks>,
}

struct Inside {
    cluster: Cluster,
    tasks: Tasks,
    nodes: Nodes,
}

impl Member {
    /// Opens the member's server on its store and starts its controllers.
    ///
    /// # Errors
    /// The server can't be opened on the store.
    pub async fn start(options: MemberOptions, store: Store, seam: Seam) -> Result<Self, OpenError> {
        // No `managedFields` for plain writes: that halves their cost, and they are rarely read here. Server-side
        // apply is tracked all the same.
        let placing: Arc<Placing> = Arc::default();
        let server_options = Options {
            name: options.name.clone(),
            managed_fields: false,
            service_account_admission: ServiceAccountAdmission::Named,
            token_key: options.token_key.clone(),
            admission: Some(placing.clone()),
            feature_gates: FeatureGates { hpa_scale_to_zero: options.autoscaling.scale_to_zero },
            ..Options::default()
        };
        let server = Server::open(server_options, store, seam.clone()).await?;
        let link = Link::new(seam.clock.clone());
        let times = Arc::new(Mutex::new(options.times()));
        let state = State {
            rules: Arc::new(Rules::of(&options.usage)),
            options,
            faults: Faults::default(),
            inside: None,
            starts: 0,
            phase: FlapPhase::Up,
            turns: None,
            front: None,
        };
        let state = Mutex::new(state);
        let member = Self(Arc::new(Inner { server, seam, link, traffic: Arc::default(), times, placing, state }));
        let server = &member.0.server;
        server.mount(Arc::new(ServedRoute(Arc::downgrade(&member.0))));
        server
            .announce(&metrics_group())
            .map_err(|e| OpenError::Unreadable { server: member.name(), message: e.message })?;
        member.0.start_inside();
        Ok(member)
    }

    /// The member's name.
    pub fn name(&self) -> String {
        self.0.state.lock().options.name.clone()
    }

    /// The server, to serve it over TLS.
    pub fn server(&self) -> &Arc<Server> {
        &self.0.server
    }

    /// An administrator's client that bypasses faults: for tests and tools.
    pub fn client(&self) -> Client {
        in_process_client(self.0.server.in_process(Identity::admin(ADMIN_USER)), Arc::default())
    }

    /// The member's server as the control plane reaches it.
    pub fn faulted_service(&self, identity: Identity) -> Faulted {
        Faulted::new(self.0.server.in_process(identity), self.0.link.clone())
    }

    /// Serves the member to users over TLS on this listener. While the member is down, its connections are cut and new
    /// ones get no response; it keeps the port. Other faults are between the member and the control plane, not here.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub fn serve(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let mut state = self.0.state.lock();
        if let Some(Front { tasks: Some(former), .. }) = state.front.replace(Front { listener, tls, tasks: None }) {
            former.kill();
        }
        if state.inside.is_some() { self.0.open_front(&mut state) } else { Ok(()) }
    }

    /// Requests of the member's own controllers.
    pub fn traffic(&self) -> &Traffic {
        &self.0.traffic
    }

    /// Current faults.
    pub fn faults(&self) -> Faults {
        self.0.state.lock().faults.clone()
    }

    /// Replaces the current faults.
    pub fn set_faults(&self, faults: Faults) {
        let turns = {
            let mut state = self.0.state.lock();
            if state.faults == faults {
                return;
            }
            let flap_changes = state.faults.flap != faults.flap;
            state.faults = faults;
            if flap_changes {
                state.phase = FlapPhase::Up;
                if let Some(turns) = state.turns.take() {
                    turns.kill();
                }
            }
            state.faults.flap.filter(|_| flap_changes)
        };
        self.0.apply_faults();
        if let Some(flap) = turns {
            self.flap(flap);
        }
    }

    /// Its nodes.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.0.state.lock().options.shape.clone()
    }

    /// Changes the member's nodes.
    pub fn reshape(&self, shape: Shape) {
        let mut state = self.0.state.lock();
        if state.options.shape == shape {
            return;
        }
        state.options.shape = shape.clone();
        if let Some(inside) = &state.inside {
            inside.nodes.reshape(shape);
        }
    }

    /// Sets the usage that its metrics API reports.
    pub fn set_usage(&self, usage: Vec<UsageRule>) {
        let rules = Arc::new(Rules::of(&usage));
        let mut state = self.0.state.lock();
        state.options.usage = usage;
        state.rules = rules;
    }

    /// Sets the durations of pods' steps; steps in progress keep theirs.
    pub fn set_times(&self, times: Times) {
        *self.0.times.lock() = times;
    }

    /// Ends all tasks of the member and its server between two polls, and frees its port. The store remains.
    pub fn end(&self) {
        self.0.link.set(Network::Refused);
        self.0.seam.tasks.kill();
        let mut state = self.0.state.lock();
        state.inside = None;
        state.turns = None;
        state.front = None;
    }

    /// Resolves when all nodes exist and are ready. Waits while the member is down.
    pub async fn ready(&self) {
        while !self.0.state.lock().inside.as_ref().is_some_and(|i| i.nodes.are_ready()) {
            self.0.seam.clock.sleep(READY_EVERY).await;
        }
    }

    /// Restarts the member's processes between two polls, as after a crash. For tests.
    pub fn restart_inside(&self) {
        let inside = self.0.state.lock().inside.take();
        if let Some(inside) = inside {
            inside.tasks.kill();
            self.0.start_inside();
        }
    }

    fn flap(&self, flap: Flap) {
        let turns = self.0.seam.tasks.child("flap");
        let member = Arc::downgrade(&self.0);
        let clock = self.0.seam.clock.clone();
        turns.supervise(&self.0.seam.clock, "flap", move || {
            let (member, clock) = (member.clone(), clock.clone());
            async move {
                loop {
                    for (phase, time) in [(FlapPhase::Up, flap.up), (FlapPhase::Down, flap.down)] {
                        let Some(member) = member.upgrade() else { return };
                        member.state.lock().phase = phase;
                        member.apply_faults();
                        drop(member);
                        // Phases of zero length would starve other tasks.
                        clock.sleep(time.max(READY_EVERY)).await;
                    }
                }
            }
        });
        self.0.state.lock().turns = Some(turns);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlapPhase {
    Up,
    Down,
}

impl Inner {
    pub(crate) fn cluster(&self) -> Option<Cluster> {
        self.state.lock().inside.as_ref().map(|inside| inside.cluster.clone())
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.state.lock().rules.clone()
    }

    fn apply_faults(&self) {
        let (down, way, starts) = {
            let state = self.state.lock();
            let faults = &state.faults;
            let down = faults.down || state.phase == FlapPhase::Down;
            let way = match (down, faults.partition) {
                (true, _) => Network::Refused,
                (false, true) => Network::Silent,
                (false, false) => Network::Open { latency: faults.slow.unwrap_or_default() },
            };
            (down, way, !down && state.inside.is_none())
        };
        self.link.set(way);
        if down {
            let mut state = self.state.lock();
            if let Some(inside) = state.inside.take() {
                inside.tasks.kill();
            }
            if let Some(tasks) = state.front.as_mut().and_then(|f| f.tasks.take()) {
                tasks.kill();
            }
        }
        if starts {
            self.start_inside();
            if let Err(error) = self.open_front(&mut self.state.lock()) {
                tracing::error!(%error, "serving the member over TLS failed");
            }
        }
    }

    fn open_front(&self, state: &mut State) -> io::Result<()> {
        let Some(front) = &mut state.front else { return Ok(()) };
        let listener = front.listener.try_clone()?;
        let tasks = self.seam.tasks.child("front");
        let (server, group, tls) = (self.server.clone(), tasks.clone(), front.tls.clone());
        tasks.supervise(&self.seam.clock, "serve", move || {
            let (server, group, tls) = (server.clone(), group.clone(), tls.clone());
            let listener = listener.try_clone().and_then(tokio::net::TcpListener::from_std);
            async move {
                let served = async { server.serve_in(&group, listener?, tls).await };
                if let Err(error) = served.await {
                    tracing::error!(%error, "TLS listener of the member failed");
                }
            }
        });
        front.tasks = Some(tasks);
        Ok(())
    }

    fn start_inside(&self) {
        let mut state = self.state.lock();
        state.starts += 1;
        let seam = self.seam.child(&format!("inside-{}", state.starts));
        let service = self.server.in_process(Identity::admin(INSIDE_USER));
        let client = in_process_client(service, self.traffic.clone());
        let cluster = Cluster::new(client, seam);
        let options = &state.options;
        let controllers = ironclad_kubecontrollers::Options {
            controllers: Controller::ALL.into_iter().filter(|controller| controller.is_on_by_default()).collect(),
            root_certificate: options.root_certificate.clone(),
            signer: options.authority.clone().map(signer),
            autoscaling: options.autoscaling.clone(),
        };
        ironclad_kubecontrollers::start(&cluster, &controllers);
        let scheduler = scheduler::start(&cluster);
        volumes::start(&cluster);
        balancer::start(&cluster, &options.name, self.times.clone());
        let kubelet = kubelet::start(&cluster, &options.name, self.times.clone());
        self.placing.by(scheduler, kubelet);
        let nodes = Nodes::start(&cluster, &options.name, options.shape.clone());
        cluster.start_caches();
        state.inside = Some(Inside { tasks: cluster.seam.tasks.clone(), nodes, cluster });
    }
}
