//! A simulated world: an embedded control plane, simulated members and a controller process that can be killed, in one
//! thread, in virtual time, from one seed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    cluster::{Cluster, ClusterSpec, SyncMode},
    crds::crds,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use ironclad_apiserver::{Identity, Options as ServerOptions, Server};
use ironclad_controllers::{Connector, Context, Settings};
use ironclad_fleet::{Violation, World as Fleet, check};
use ironclad_kubecontrollers::{self as kubecontrollers, Caches, Controller};
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::{Clock, Rng, Seam, Tasks};
use ironclad_simcluster::{Member, MemberOptions};
use ironclad_store::{Commit, Engine, MemoryBackend, Options as StoreOptions};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ListParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{FaultPlan, History, Link};

/// When the virtual clock begins: any time will do, but always the same.
const EPOCH_SECONDS: i64 = 1_790_000_000;
/// A controller process that was killed comes back after this time.
const RESTART_AFTER: Duration = Duration::from_secs(1);
/// All is quiet when no controller wrote anything for this long.
const QUIET: Duration = Duration::from_secs(40);
/// How often the world is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Whatever is not quiet after this virtual time never will be.
const PATIENCE: Duration = Duration::from_secs(900);

/// What a world is made of.
#[derive(Debug, Clone, Copy)]
pub struct WorldOptions {
    /// From what everything follows.
    pub seed: u64,
    /// Simulated members, `member1` first.
    pub members: usize,
}

/// The world.
pub struct World {
    /// Everything that happened.
    pub history: History,
    /// What is done to the controllers' writes to the control plane.
    pub faults: FaultPlan,
    /// The simulated members.
    pub members: Arc<BTreeMap<String, Arc<Member>>>,
    /// What the controllers are started with.
    pub settings: Settings,
    seam: Seam,
    plane: Arc<Server>,
    controllers: Option<(Tasks, Arc<Context>)>,
    incarnation: u32,
}

impl World {
    /// Starts everything but the controllers. Must be called in a current-thread runtime with its clock paused.
    ///
    /// # Errors
    /// If a part does not start.
    pub async fn start(options: WorldOptions) -> anyhow::Result<Self> {
        let epoch = Timestamp::from_second(EPOCH_SECONDS).context("a constant in range")?;
        let clock = Clock::simulated(epoch);
        let seam = Seam { clock: clock.clone(), rng: Rng::from_seed(options.seed), tasks: Tasks::new("world") };
        let history = History::new(clock.clone());
        let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, clock)?;
        let plane_seam = seam.child("plane");
        let plane = Server::open(
            ServerOptions { name: "plane".into(), ..ServerOptions::default() },
            engine.store("plane"),
            plane_seam.clone(),
        )
        .await?;
        let admin = client_of(&plane);
        let definitions: Api<CustomResourceDefinition> = Api::all(admin.clone());
        for definition in crds() {
            definitions.create(&PostParams::default(), &definition).await.context("installing the CRDs")?;
        }
        let plane_controllers = kubecontrollers::Cluster {
            client: admin.clone(),
            caches: Caches::default(),
            seam: seam.child("plane-controllers"),
        };
        let only = kubecontrollers::Options { controllers: Controller::PLANE.to_vec(), root_certificate: None };
        kubecontrollers::start(&plane_controllers, &only);
        plane_controllers.caches.start(&admin, &plane_controllers.seam);
        let mut members = BTreeMap::new();
        for n in 1..=options.members {
            let name = format!("member{n}");
            let member = Member::start(
                MemberOptions { name: name.clone(), ..MemberOptions::default() },
                engine.store_with(&name, StoreOptions::member()),
                seam.child(&name),
            )
            .await?;
            let mut cluster = Cluster::new(
                &name,
                ClusterSpec {
                    sync_mode: SyncMode::Push,
                    api_endpoint: format!("https://{name}.simulated:6443"),
                    ..ClusterSpec::default()
                },
            );
            cluster.metadata.labels = Some([("sim".to_owned(), "true".to_owned())].into());
            Api::<Cluster>::all(admin.clone()).create(&PostParams::default(), &cluster).await?;
            members.insert(name, Arc::new(member));
        }
        Ok(Self {
            history,
            faults: FaultPlan::default(),
            members: Arc::new(members),
            settings: Settings::default(),
            seam,
            plane,
            controllers: None,
            incarnation: 0,
        })
    }

    /// A user's client of the control plane: no faults, no delays, not in the history.
    #[must_use]
    pub fn user(&self) -> Client {
        client_of(&self.plane)
    }

    /// Starts a controller process from nothing.
    pub async fn start_controllers(&mut self) {
        self.incarnation += 1;
        let name = format!("controllers{}", self.incarnation);
        let seam = self.seam.child(&name);
        self.history.log(format!("{name} starts"));
        let link = Link::new(
            self.plane.in_process(Identity::admin("ironclad")),
            &format!("{name}->plane"),
            &self.seam,
            seam.tasks.clone(),
            self.faults.clone(),
            self.history.clone(),
        );
        let connector = SimConnector {
            members: self.members.clone(),
            name,
            seam: self.seam.clone(),
            process: seam.tasks.clone(),
            history: self.history.clone(),
        };
        let plane = in_process_client(link, Arc::new(Traffic::default()));
        let context = Context::new(plane, seam.clone(), Arc::new(connector), self.settings.clone());
        self.controllers = Some((seam.tasks.clone(), context.clone()));
        seam.tasks.spawn("start", async move { ironclad_controllers::start(&context).await });
    }

    /// Kills the controller process between two polls, if it runs.
    pub fn kill_controllers(&mut self) {
        if let Some((tasks, _)) = self.controllers.take() {
            self.history.log(format!("{} killed", tasks.name()));
            tasks.kill();
        }
    }

    /// Lets virtual time pass, restarting killed controllers, until this holds.
    ///
    /// # Errors
    /// If it does not hold within the patience of the world.
    pub async fn until(
        &mut self,
        what: &str,
        mut holds: impl AsyncFnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let began = self.seam.clock.mono();
        while !holds().await? {
            let violations = check(&self.observe().await?);
            let broken: Vec<Violation> = violations.into_iter().filter(|v| !v.is_passing()).collect();
            ensure!(broken.is_empty(), "waiting for {what}: {}", told(&broken));
            ensure!(self.seam.clock.mono() - began < PATIENCE, "{what}: not so after {PATIENCE:?} of virtual time");
            self.pass().await;
        }
        Ok(())
    }

    /// Lets virtual time pass until no controller has written anything for a good while and none has anything to do.
    ///
    /// # Errors
    /// If they never come to rest.
    pub async fn until_quiet(&mut self) -> anyhow::Result<()> {
        let began = self.seam.clock.mono();
        let (mut writes, mut since) = (self.faults.writes(), began);
        loop {
            self.pass().await;
            let now = self.seam.clock.mono();
            let idle = self.controllers.as_ref().is_some_and(|(tasks, context)| !tasks.is_dead() && context.is_quiet());
            if self.faults.writes() != writes || !idle {
                (writes, since) = (self.faults.writes(), now);
            }
            if now - since >= QUIET {
                self.history.log("quiet");
                let violations = check(&self.observe().await?);
                ensure!(violations.is_empty(), "at rest, and yet: {}", told(&violations));
                return Ok(());
            }
            ensure!(now - began < PATIENCE, "never quiet: {} writes so far", self.faults.writes());
        }
    }

    /// The fleet as the invariants see it, read past all faults.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn observe(&self) -> anyhow::Result<Fleet> {
        let (mut fleet, plane) = (Fleet::default(), self.user());
        for cluster in all::<Cluster>(&plane).await? {
            fleet.insert_cluster(cluster);
        }
        for policy in all::<PropagationPolicy>(&plane).await? {
            fleet.insert_policy(policy);
        }
        for policy in all::<ClusterPropagationPolicy>(&plane).await? {
            fleet.insert_cluster_policy(policy);
        }
        for template in all::<Deployment>(&plane).await? {
            fleet.insert_template(serde_json::to_value(template)?);
        }
        for binding in all::<ClusterResourceBinding>(&plane).await? {
            fleet.insert_cluster_binding(binding);
        }
        for binding in all::<ResourceBinding>(&plane).await? {
            fleet.insert_binding(binding);
        }
        for work in all::<Work>(&plane).await? {
            fleet.insert_work(work);
        }
        for (name, member) in self.members.iter() {
            for object in all::<Deployment>(&member.client()).await? {
                fleet.insert_member(name.as_str().into(), serde_json::to_value(object)?);
            }
        }
        super::kinds::complete(&mut fleet, &plane, &self.members).await?;
        Ok(fleet)
    }

    /// Lets so much virtual time pass.
    pub async fn advance(&mut self, time: Duration) {
        let until = self.seam.clock.mono() + time;
        while self.seam.clock.mono() < until {
            self.pass().await;
        }
    }

    async fn pass(&mut self) {
        self.seam.clock.sleep(LOOK).await;
        if self.controllers.as_ref().is_some_and(|(tasks, _)| tasks.is_dead()) {
            self.controllers = None;
            self.seam.clock.sleep(RESTART_AFTER).await;
            self.start_controllers().await;
        }
    }

    /// Everything that a user can see of what was propagated, without what differs from run to run: times, versions, uids.
    ///
    /// # Errors
    /// If a server does not answer.
    pub async fn state(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        let plane = self.user();
        dump::<Deployment>(&mut text, "plane", Api::all(plane.clone())).await?;
        dump::<ResourceBinding>(&mut text, "plane", Api::all(plane.clone())).await?;
        dump::<Work>(&mut text, "plane", Api::all(plane)).await?;
        for (name, member) in self.members.iter() {
            dump::<Deployment>(&mut text, name, Api::all(member.client())).await?;
            let pods = Api::<Pod>::all(member.client()).list(&ListParams::default()).await?;
            let running =
                pods.items.iter().filter(|p| p.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running"));
            text.push_str(&format!("{name} {} pods, {} running\n", pods.items.len(), running.count()));
        }
        Ok(text)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.seam.tasks.kill();
    }
}

fn told(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

async fn all<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    Ok(Api::<K>::all(client.clone()).list(&ListParams::default()).await?.items)
}

fn client_of(server: &Arc<Server>) -> Client {
    in_process_client(server.in_process(Identity::admin("user")), Arc::new(Traffic::default()))
}

/// Connects simulated members in-process, through a fault layer each.
struct SimConnector {
    members: Arc<BTreeMap<String, Arc<Member>>>,
    name: String,
    seam: Seam,
    process: Tasks,
    history: History,
}

impl Connector for SimConnector {
    fn connect(&self, cluster: &Cluster, _credentials: Option<&Secret>) -> Result<Client, String> {
        let name = cluster.name_any();
        let member = self.members.get(&name).ok_or_else(|| format!("there is no simulated member {name}"))?;
        let link = Link::new(
            member.faulted_service(Identity::admin("ironclad")),
            &format!("{}->{name}", self.name),
            &self.seam,
            self.process.clone(),
            FaultPlan::default(),
            self.history.clone(),
        );
        Ok(in_process_client(link, Arc::new(Traffic::default())))
    }
}

async fn dump<K>(text: &mut String, server: &str, api: Api<K>) -> anyhow::Result<()>
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    for object in api.list(&ListParams::default()).await?.items {
        let mut value = serde_json::to_value(&object)?;
        mask(&mut value);
        let key = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        text.push_str(&format!("{server} {key} {value}\n"));
    }
    Ok(())
}

/// Removes or levels what may differ between two runs that came to the same end.
fn mask(value: &mut Value) {
    // In how many steps a member came to its end is the way, not the end: so generations differ, too.
    const VARIES: [&str; 11] = [
        "generation",
        "observedGeneration",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastScheduledTime",
        "managedFields",
        "resourcetemplate.karmada.io/uid",
        "time",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !VARIES.contains(&name.as_str()));
            for (name, field) in fields.iter_mut() {
                // Permanent ids are drawn anew by every process, and the fingerprint covers the template with its ids.
                if name.ends_with("permanent-id") || name == "policy.ironclad.io/applied-template" {
                    *field = Value::from("id");
                }
                mask(field);
                // So is the order in which conditions first came.
                if let (true, Value::Array(list)) = (name == "conditions", field) {
                    list.sort_by_key(|condition| condition["type"].to_string());
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}
