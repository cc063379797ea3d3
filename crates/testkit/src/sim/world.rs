//! A simulated world: an embedded control plane, simulated members and controller processes that can be killed, in one
//! thread, in virtual time, from one seed.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, LazyLock},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_admission as admission;
use ironclad_api::{
    agents::agent_rights,
    cluster::{Cluster, ClusterSpec, SyncMode},
    crds::crds,
    names, namespaces,
};
use ironclad_apiserver::{Identity, Options as ServerOptions, Server};
use ironclad_controllers::{Controllers, Settings};
use ironclad_estimator::Estimator;
use ironclad_extension::admission::InProcessAdmission;
use ironclad_fleet::{Violation, World as Fleet, check};
use ironclad_interpreter_lua::{Host, check_script};
use ironclad_kubecontrollers::{self as kubecontrollers, Controller};
use ironclad_runtime::{Api, Traffic, in_process_client};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_simcluster::{Member, MemberOptions, Shape};
use ironclad_store::{Commit, Engine, MemoryBackend, Options as StoreOptions};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    FaultPlan, History,
    checker::Rules,
    kinds,
    model::Model,
    process::{Lead, Slot, TunnelEnds},
};

/// Number of the process that is the first agent.
pub(super) const FIRST_AGENT: usize = 2;
pub(super) const CONTROLLERS_USER: &str = "ironclad";
/// Start of the virtual clock, the same in all runs.
const EPOCH_SECONDS: i64 = 1_790_000_000;
/// Time after which a killed controller process is restarted.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Time without writes of controllers after which the world is quiet.
const QUIET: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(250);
/// Virtual deadline of waits.
const PATIENCE: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy)]
pub struct WorldOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Simulated members, `member1` first.
    pub members: usize,
}

#[derive(Debug, Clone)]
pub struct Setup {
    pub seed: u64,
    pub members: usize,
    pub spares: usize,
    /// Number of members in pull mode, the last ones; each has an agent.
    pub pull: usize,
    /// Their agents hold tunnels open, over which the control plane reaches them.
    pub tunnels: bool,
    pub nodes: u32,
    /// Number of zones that members are in, by turns; 0 for none.
    pub zones: usize,
    /// Controller processes compete for the Lease; otherwise each works from its start.
    pub elected: bool,
    pub settings: Settings,
    pub rules: Rules,
}

impl From<WorldOptions> for Setup {
    fn from(options: WorldOptions) -> Self {
        Self {
            seed: options.seed,
            members: options.members,
            spares: 0,
            pull: 0,
            tunnels: false,
            nodes: Shape::default().nodes,
            zones: 0,
            elected: false,
            settings: Settings::default(),
            rules: Rules::default(),
        }
    }
}

/// Panics of the process that connects a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectPanic {
    On,
    Off,
}

pub struct World {
    pub history: History,
    /// Faults of the first controller process's requests to the control plane.
    pub faults: FaultPlan,
    /// Simulated members, spare ones included.
    pub members: Arc<BTreeMap<String, Arc<Member>>>,
    pub settings: Settings,
    /// State of all servers, observed without faults.
    pub model: Model,
    seam: Seam,
    plane: Arc<Server>,
    member_clocks: BTreeMap<String, Clock>,
    /// The controllers, their standby, and agents.
    slots: Vec<Slot>,
    /// Members in pull mode.
    pulled: Vec<String>,
    lead: Lead,
    zones: usize,
    checked: u64,
}

impl World {
    /// Starts everything but the controllers. Must be called in a current-thread runtime with its clock paused.
    pub async fn start(setup: impl Into<Setup>) -> anyhow::Result<Self> {
        let setup = setup.into();
        let epoch = Timestamp::from_second(EPOCH_SECONDS).context("a constant in range")?;
        let clock = Clock::simulated(epoch);
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(setup.seed), tasks: Tasks::new("world") };
        let history = History::new(clock.clone());
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock.clone())?;
        let plane_seam = seam.child("plane");
        let plane = Server::open(
            ServerOptions {
                name: "plane".into(),
                admission: Some(admission(&setup.settings)),
                ..ServerOptions::default()
            },
            engine.store("plane"),
            plane_seam.clone(),
        )
        .await?;
        let admin = client_of(&plane);
        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        static CRDS: LazyLock<Vec<CustomResourceDefinition>> = LazyLock::new(crds);
        for definition in CRDS.iter() {
            definitions.create(&PostParams::default(), definition).await.context("installing the CRDs")?;
        }
        let plane_controllers = kubecontrollers::Cluster::new(admin.clone(), seam.child("plane-controllers"));
        let only =
            kubecontrollers::Options { controllers: Controller::PLANE.to_vec(), ..kubecontrollers::Options::default() };
        kubecontrollers::start(&plane_controllers, &only);
        plane_controllers.start_caches();
        let watcher = seam.child("truth");
        let model = Model::follow(&admin, &watcher, history.clone(), setup.rules).await;
        let (mut members, mut member_clocks) = (BTreeMap::new(), BTreeMap::new());
        for n in 1..=setup.members + setup.spares {
            let name = format!("member{n}");
            let shape = Shape { nodes: setup.nodes, ..Shape::default() };
            let own = Seam { clock: clock.for_process(), ..seam.child(&name) };
            member_clocks.insert(name.clone(), own.clock.clone());
            let member = Member::start(
                MemberOptions { name: name.clone(), shape, ..MemberOptions::default() },
                engine.store_with(&name, StoreOptions::member()),
                own,
            )
            .await?;
            model.follow_member(&name, &member, &watcher).await;
            members.insert(name, Arc::new(member));
        }
        if setup.elected {
            create(&admin, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karmada-system"}}))
                .await?;
        }
        let pulled: Vec<String> = (0..setup.members).rev().take(setup.pull).map(Self::name_of).collect();
        let ends = setup.tunnels.then(TunnelEnds::default);
        let mut slots = Vec::from(["controllers", "standby"].map(|name| Slot::new(name, &clock, ends.clone())));
        slots.extend(pulled.iter().map(|member| Slot::agent(member, &clock, ends.clone())));
        for member in &pulled {
            let spaces = [namespaces::CLUSTER.to_owned(), names::execution_namespace(member)];
            let spaces =
                spaces.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
            for object in spaces.into_iter().chain(agent_rights(member)) {
                create(&admin, object).await?;
            }
        }
        let world = Self {
            history,
            faults: slots[0].faults.clone(),
            members: Arc::new(members),
            member_clocks,
            settings: setup.settings,
            model,
            seam,
            plane,
            slots,
            pulled,
            lead: if setup.elected { Lead::Elected } else { Lead::Alone },
            zones: setup.zones,
            checked: 0,
        };
        for n in 1..=setup.members {
            world.join(&format!("member{n}")).await?;
        }
        Ok(world)
    }

    pub async fn join(&self, name: &str) -> anyhow::Result<()> {
        let mut cluster = Cluster::new(
            name,
            ClusterSpec {
                sync_mode: if self.pulled.iter().any(|pulled| pulled == name) {
                    SyncMode::Pull
                } else {
                    SyncMode::Push
                },
                api_endpoint: format!("https://{name}.simulated:6443"),
                ..ClusterSpec::default()
            },
        );
        let number: usize = name.trim_start_matches("member").parse().unwrap_or_default();
        cluster.spec.zones = number.checked_rem(self.zones).map(|zone| format!("zone{zone}")).into_iter().collect();
        cluster.metadata.labels = Some([("sim".to_owned(), "true".to_owned())].into());
        Api::<Cluster>::all(self.user()).create(&PostParams::default(), &cluster).await?;
        Ok(())
    }

    pub fn member(&self, name: &str) -> anyhow::Result<&Member> {
        self.members.get(name).map(|member| &**member).with_context(|| format!("there is no member {name}"))
    }

    /// Name of a member by its index, from 0.
    #[must_use]
    pub fn name_of(member: usize) -> String {
        format!("member{}", member + 1)
    }

    /// A user's client of the control plane: no faults, no delays, not in the history.
    pub fn user(&self) -> Client {
        client_of(&self.plane)
    }

    /// A client of this user, as [`World::user`].
    pub fn client_of(&self, identity: Identity) -> Client {
        in_process_client(self.plane.in_process(identity), Arc::new(Traffic::default()))
    }

    /// A client of the controllers' user, whose writes under a field manager `ironclad-…` are exempt from admission.
    pub fn ours(&self) -> Client {
        in_process_client(self.plane.in_process(Identity::admin(CONTROLLERS_USER)), Arc::new(Traffic::default()))
    }

    /// Runs a command of a user in the background, until the world ends.
    pub fn spawn(&self, name: &'static str, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.seam.tasks.spawn(name, future));
    }

    /// Virtual time, and the true time of day.
    pub fn clock(&self) -> &Clock {
        &self.seam.clock
    }

    /// Faults of a process's requests to the control plane: 0 is the first, 1 the standby.
    pub fn faults_of(&self, process: usize) -> &FaultPlan {
        &self.slots[process].faults
    }

    /// Faults of a process's requests to members.
    pub fn member_faults_of(&self, process: usize) -> &FaultPlan {
        &self.slots[process].member_faults
    }

    /// Skews the wall clock of a process.
    pub fn skew(&self, process: usize, ms: i64) {
        self.history.log(format!("the clock of process {process} is off by {ms} ms"));
        self.slots[process].clock.set_skew_ms(ms);
    }

    /// Skews the wall clock of a member.
    pub fn skew_member(&self, name: &str, ms: i64) -> anyhow::Result<()> {
        self.history.log(format!("the clock of {name} is off by {ms} ms"));
        self.member_clocks.get(name).with_context(|| format!("there is no member {name}"))?.set_skew_ms(ms);
        Ok(())
    }

    /// Sets whether the first controller process panics when it connects this member.
    pub fn set_connect_panic(&self, name: &str, panic: ConnectPanic) {
        let mut connect_panics = self.slots[0].connect_panics.lock();
        match panic {
            ConnectPanic::On => connect_panics.insert(name.to_owned()),
            ConnectPanic::Off => connect_panics.remove(name),
        };
    }

    /// Puts an estimator over gRPC at the place where the first controller process looks for that of a cluster.
    pub fn set_estimator(&self, cluster: &str, estimator: Arc<dyn Estimator>) {
        self.slots[0].estimators.lock().insert(cluster.to_owned(), estimator);
    }

    /// Context of the first controller process, while it runs.
    pub fn context(&self) -> Option<Arc<Controllers>> {
        self.slots[0].context()
    }

    /// Starts the controllers, and the agents of members in pull mode.
    pub async fn start_controllers(&mut self) {
        self.start_process(0);
        for process in self.agents() {
            self.start_process(process);
        }
    }

    /// The processes that are agents.
    #[must_use]
    pub fn agents(&self) -> Range<usize> {
        FIRST_AGENT..self.slots.len()
    }

    pub fn start_process(&mut self, process: usize) {
        let (members, settings) = (&self.members, &self.settings);
        self.slots[process].start(self.lead, &self.seam, &self.plane, members, settings, &self.model, &self.history);
    }

    /// Kills the first controller process between two polls, if it runs; it is not restarted automatically.
    pub fn kill_controllers(&mut self) {
        self.slots[0].kill(&self.history);
    }

    /// Kills a process between two polls; it is restarted after this time.
    pub fn crash(&mut self, process: usize, back_after: Duration) {
        if self.slots[process].is_empty() {
            return;
        }
        self.slots[process].kill(&self.history);
        self.slots[process].back_at = Some(self.seam.clock.mono() + back_after);
    }

    /// Lets virtual time pass, restarting killed controllers, until the condition holds.
    pub async fn until(
        &mut self,
        what: &str,
        mut holds: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let began = self.seam.clock.mono();
        while !holds().await? {
            self.checker().await.with_context(|| format!("waiting for {what}"))?;
            ensure!(self.seam.clock.mono() - began < PATIENCE, "{what}: not so after {PATIENCE:?} of virtual time");
            self.step().await;
        }
        Ok(())
    }

    /// Lets this much virtual time pass, restarting killed controllers.
    pub async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = self.seam.clock.mono() + time;
        while self.seam.clock.mono() < end {
            let left = end - self.seam.clock.mono();
            self.step_for(LOOK.min(left)).await;
            self.checker().await?;
        }
        Ok(())
    }

    /// Lets this much virtual time pass, restarting killed controllers, without checks.
    pub async fn advance(&mut self, time: Duration) {
        let until = self.seam.clock.mono() + time;
        while self.seam.clock.mono() < until {
            self.step().await;
        }
    }

    /// Returns the invariants that the current state breaks, or that a write broke since the last call.
    pub async fn checker(&mut self) -> anyhow::Result<()> {
        let broken = self.model.broken();
        ensure!(broken.is_empty(), "{}", broken.join("; "));
        let changes = self.model.changes();
        if changes != self.checked {
            self.checked = changes;
            let violations = self.violations().await?;
            let broken: Vec<Violation> = violations.into_iter().filter(|v| !v.is_passing()).collect();
            ensure!(broken.is_empty(), "{}", list(&broken));
        }
        Ok(())
    }

    /// Lets virtual time pass until all controllers are idle and have not written for a while.
    pub async fn until_quiet(&mut self) -> anyhow::Result<()> {
        let writes = |world: &Self| -> u64 { world.slots.iter().map(|slot| slot.faults.writes()).sum() };
        let began = self.seam.clock.mono();
        let (mut seen, mut since) = (writes(self), began);
        loop {
            self.step().await;
            self.checker().await?;
            let now = self.seam.clock.mono();
            let idle = self.slots.iter().all(Slot::is_quiet) && self.slots.iter().any(|slot| slot.context().is_some());
            if writes(self) != seen || !idle {
                (seen, since) = (writes(self), now);
            }
            if now - since >= QUIET {
                self.history.log("quiet");
                let violations = self.violations().await?;
                ensure!(violations.is_empty(), "at rest, and yet: {}", list(&violations));
                return Ok(());
            }
            ensure!(now - began < PATIENCE, "never quiet: {seen} writes so far");
        }
    }

    /// Lets virtual time pass until no controller has written anything but Events for a while. Those may be busy
    /// that wait, and are tried again after minutes.
    pub async fn until_still(&mut self) -> anyhow::Result<()> {
        let writes = |world: &Self| -> u64 { world.slots.iter().map(|slot| slot.faults.changes()).sum() };
        let began = self.seam.clock.mono();
        let (mut seen, mut since) = (writes(self), began);
        loop {
            self.step().await;
            self.checker().await?;
            let now = self.seam.clock.mono();
            if writes(self) != seen {
                (seen, since) = (writes(self), now);
            }
            if now - since >= QUIET {
                self.history.log("still");
                return Ok(());
            }
            ensure!(now - began < PATIENCE, "never still: {seen} writes so far");
        }
    }

    /// Reads the fleet for the invariants, without faults.
    pub async fn observe(&self) -> anyhow::Result<Fleet> {
        let mut fleet = self.model.fleet();
        kinds::complete(&mut fleet, &self.user(), &self.members).await?;
        Ok(fleet)
    }

    async fn violations(&self) -> anyhow::Result<Vec<Violation>> {
        // Kinds that the model follows need no request; others do.
        if self.model.look(kinds::are_followed) {
            Ok(self.model.look(check))
        } else {
            Ok(check(&self.observe().await?))
        }
    }

    pub fn heal_processes(&mut self) {
        for slot in &self.slots {
            slot.faults.heal();
            slot.member_faults.heal();
            slot.clock.set_skew_ms(0);
        }
    }

    async fn step(&mut self) {
        self.step_for(LOOK).await;
    }

    async fn step_for(&mut self, time: Duration) {
        self.seam.clock.sleep(time).await;
        self.model.look_at_time();
        let now = self.seam.clock.mono();
        for process in 0..self.slots.len() {
            if self.slots[process].is_dead() {
                self.crash(process, RESTART_AFTER);
            }
            if self.slots[process].back_at.is_some_and(|at: Instant| at <= now) {
                self.start_process(process);
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.seam.tasks.kill();
    }
}

fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn admission(settings: &Settings) -> Arc<InProcessAdmission> {
    Arc::new(InProcessAdmission::new(admission::Config {
        gates: settings.gates.clone(),
        no_execute_policy: settings.failover.health.no_execute_policy,
        own_user: Some(CONTROLLERS_USER.to_owned()),
        check_script: Some(Arc::new(|operation, text| check_script(&Host::at(0), operation, text))),
        ..admission::Config::default()
    }))
}

/// Creates an object, unless it is there.
async fn create(client: &Client, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.as_ref().context("an object has a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: kube::Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => kube::Api::namespaced_with(client.clone(), namespace, &resource),
        None => kube::Api::all_with(client.clone(), &resource),
    };
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        made => made.map(drop).with_context(|| format!("creating {}", object.name_any())),
    }
}

fn client_of(server: &Arc<Server>) -> Client {
    in_process_client(server.in_process(Identity::admin("user")), Arc::new(Traffic::default()))
}
