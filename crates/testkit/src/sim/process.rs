//! A controller process: tasks that can be killed together, caches of its own, links with faults to all servers.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::cluster::Cluster;
use ironclad_apiserver::{Identity, Server};
use ironclad_controllers::{Connector, Context, Settings};
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::{Clock, Seam, Tasks};
use ironclad_simcluster::Member;
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _};
use tokio::time::Instant;

use super::{FaultPlan, History, Link, world::CONTROLLERS_USER};

/// A place for a controller process, with the faults and the clock that outlive its restarts.
pub(super) struct Slot {
    name: &'static str,
    /// What is done to its requests to the control plane.
    pub(super) faults: FaultPlan,
    /// What is done to its requests to members.
    pub(super) member_faults: FaultPlan,
    /// Its own time of day.
    pub(super) clock: Clock,
    process: Option<(Tasks, Arc<Context>)>,
    incarnation: u32,
    /// When a process that died comes back.
    pub(super) back_at: Option<Instant>,
}

impl Slot {
    pub(super) fn new(name: &'static str, clock: &Clock) -> Self {
        Self {
            name,
            faults: FaultPlan::default(),
            member_faults: FaultPlan::default(),
            clock: clock.for_process(),
            process: None,
            incarnation: 0,
            back_at: None,
        }
    }

    /// Starts a process from nothing.
    pub(super) fn start(
        &mut self,
        world: &Seam,
        plane: &Arc<Server>,
        members: &Arc<BTreeMap<String, Arc<Member>>>,
        settings: &Settings,
        history: &History,
    ) {
        self.incarnation += 1;
        self.back_at = None;
        let name = format!("{}{}", self.name, self.incarnation);
        let seam = Seam { clock: self.clock.clone(), ..world.child(&name) };
        history.log(format!("{name} starts"));
        let link = Link::new(
            plane.in_process(Identity::admin(CONTROLLERS_USER)),
            &format!("{name}->plane"),
            world,
            seam.tasks.clone(),
            self.faults.clone(),
            history.clone(),
        );
        let connector = SimConnector {
            members: members.clone(),
            name,
            seam: world.clone(),
            process: seam.tasks.clone(),
            faults: self.member_faults.clone(),
            history: history.clone(),
        };
        let plane = in_process_client(link, Arc::new(Traffic::default()));
        let context = Context::new(plane, seam.clone(), Arc::new(connector), settings.clone());
        self.process = Some((seam.tasks.clone(), context.clone()));
        seam.tasks.spawn("start", async move { ironclad_controllers::start(&context).await });
    }

    /// Kills the process between two polls, if it runs.
    pub(super) fn kill(&mut self, history: &History) {
        if let Some((tasks, _)) = self.process.take() {
            history.log(format!("{} killed", tasks.name()));
            tasks.kill();
        }
    }

    /// True if there is to be a process, and it died.
    pub(super) fn is_dead(&self) -> bool {
        self.process.as_ref().is_some_and(|(tasks, _)| tasks.is_dead())
    }

    /// True if no process is meant to run here.
    pub(super) fn is_empty(&self) -> bool {
        self.process.is_none() && self.back_at.is_none()
    }

    /// True if it runs and has nothing to do, or is not meant to run.
    pub(super) fn is_quiet(&self) -> bool {
        match &self.process {
            Some((tasks, context)) => !tasks.is_dead() && context.is_quiet(),
            None => self.back_at.is_none(),
        }
    }

    /// What it shares, while it runs.
    pub(super) fn context(&self) -> Option<&Arc<Context>> {
        self.process.as_ref().map(|(_, context)| context)
    }
}

/// Connects simulated members in-process, through a fault layer each.
struct SimConnector {
    members: Arc<BTreeMap<String, Arc<Member>>>,
    name: String,
    seam: Seam,
    process: Tasks,
    faults: FaultPlan,
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
            self.faults.clone(),
            self.history.clone(),
        );
        Ok(in_process_client(link, Arc::new(Traffic::default())))
    }
}
