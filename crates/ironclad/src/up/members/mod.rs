//! Simulated members of `up`: one for each SimulatedCluster.
//!
//! When a SimulatedCluster is created, its member starts, joins and gets a context in the kubeconfig; when it changes,
//! nodes, faults and load follow; when it is deleted, its Cluster leaves the fleet and the member's data is removed. A
//! member whose Cluster was unjoined does not join again.

mod connector;
mod decide;
mod fleet;
mod kubeconfig;
mod one;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use ironclad_api::{
    cluster::{Cluster, ClusterSpec, SyncMode},
    sim::SimulatedCluster,
};
use ironclad_apiserver::pki::Context;
use ironclad_cli::join::{Address, JoinOptions, register};
use ironclad_kubecontrollers::AutoscalingOptions;
use ironclad_runtime::{
    Api, EventAbout, EventType, Failure, Informer, Next, Queue, Recorder, WatchScope, Writer, run_workers,
};
use ironclad_seam::Seam;
use ironclad_store::Engine;
use kube::{
    Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams, PropagationPolicy},
};
use parking_lot::Mutex;
use serde_json::json;

pub(crate) use self::{
    connector::UpConnector,
    fleet::{FleetArgs, Start},
    kubeconfig::KubeconfigFile,
    one::SimulatedMember,
};
use self::{
    decide::{MemberConfig, Step, decide},
    one::Environment,
};

/// Concurrent reconciles.
const WORKERS: usize = 4;
/// Polling interval of a Cluster that leaves the fleet.
const LEAVE_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Labels of a SimulatedCluster that become fields of its Cluster.
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";

/// All simulated members. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SimulatedMembers(Arc<Shared>);

struct Shared {
    admin: Client,
    environment: Environment,
    kubeconfig: KubeconfigFile,
    objects: Informer<SimulatedCluster>,
    writer: Writer,
    recorder: Recorder,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    members: BTreeMap<String, Arc<SimulatedMember>>,
    /// Number of starts, by name.
    lives: BTreeMap<String, u64>,
}

impl SimulatedMembers {
    /// Writes the kubeconfig with another context of the control plane.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn set_plane_context(&self, plane: Context) -> anyhow::Result<()> {
        self.0.kubeconfig.set_plane(plane);
        self.0.write_kubeconfig()
    }

    /// Starts the members that the control plane has; afterwards they follow their SimulatedClusters.
    ///
    /// # Errors
    /// A port is in use, or a member does not start.
    pub(crate) async fn start(
        admin: &Client,
        engine: &Engine,
        seam: &Seam,
        data_dir: PathBuf,
        address: IpAddr,
        kubeconfig: KubeconfigFile,
        autoscaling: AutoscalingOptions,
    ) -> anyhow::Result<Self> {
        let own = seam.child("simulated-members");
        let this = Self(Arc::new(Shared {
            admin: admin.clone(),
            environment: Environment { engine: engine.clone(), seam: seam.clone(), data_dir, address, autoscaling },
            kubeconfig,
            objects: Informer::new(&[]),
            writer: Writer::new("simulated-members"),
            recorder: Recorder::new(admin.clone(), &own, "ironclad"),
            running: Mutex::default(),
        }));
        let queue: Queue<String> = Queue::new(own.clock.clone(), own.rng.stream("jitter/simulated-members"));
        let objects = this.0.objects.clone();
        objects.start("simulatedclusters", &own, &own.tasks, Api::all(admin.clone()), &WatchScope::default());
        objects.synced().await;
        // Before members start, as each of them writes it.
        this.0.kubeconfig.write(&[])?;
        let starting = objects.list().into_iter().map(|simulated| {
            let (name, this) = (simulated.name_any(), this.clone());
            async move {
                let done = this.0.reconcile(&name).await;
                done.map(drop).with_context(|| format!("starting simulated member {name}"))
            }
        });
        stream::iter(starting).buffer_unordered(WORKERS).try_collect::<Vec<()>>().await?;
        let to = queue.clone();
        objects.on_change(move |change| {
            if let Some(simulated) = change.new.as_ref().or(change.old.as_ref()) {
                to.add(simulated.name_any());
            }
        });
        // Objects that changed before the handler was added.
        objects.list().iter().for_each(|simulated| queue.add(simulated.name_any()));
        let worker = this.clone();
        run_workers("simulated-members", &own.tasks, &queue, WORKERS, move |name| {
            let worker = worker.clone();
            async move { worker.0.work(&name).await }
        });
        Ok(this)
    }

    /// The running member of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<SimulatedMember>> {
        self.0.get(name)
    }

    /// Returns all running members, sorted by name.
    pub(crate) fn list(&self) -> Vec<Arc<SimulatedMember>> {
        self.0.running.lock().members.values().cloned().collect()
    }
}

impl Shared {
    fn get(&self, name: &str) -> Option<Arc<SimulatedMember>> {
        self.running.lock().members.get(name).cloned()
    }

    /// One reconcile, whose failure is reported on the object.
    async fn work(&self, name: &str) -> Result<Next, Failure> {
        let failed = match self.reconcile(name).await {
            Ok(next) => return Ok(next),
            Err(error) => error,
        };
        if let Some(simulated) = self.objects.get("", name) {
            self.warn(&simulated, "FailedSimulation", &format!("{failed:#}"));
        }
        Err(match failed.downcast::<Failure>() {
            Ok(failure) => failure,
            Err(error) => Failure::Unavailable(format!("{error:#}")),
        })
    }

    async fn reconcile(&self, name: &str) -> anyhow::Result<Next> {
        let Some(simulated) = self.objects.get("", name) else {
            // Somebody removed our finalizer: stop the member all the same.
            if self.get(name).is_some() {
                self.end(name).await?;
            }
            return Ok(Next::Forget);
        };
        match decide(&simulated) {
            Step::Leave => {}
            Step::Refuse(why) => self.warn(&simulated, "InvalidSpec", &why),
            Step::Hold(finalizers) => {
                self.hold(&simulated, finalizers).await?;
                // Our own write comes back as a change, but nobody listens at the start.
                if let Some(stored) = self.objects.get("", name)
                    && let Step::Run(wanted) = decide(&stored)
                {
                    self.run(&stored, &wanted).await?;
                }
            }
            Step::Run(wanted) => self.run(&simulated, &wanted).await?,
            Step::LeaveFleet(finalizers) => return self.leave_fleet(&simulated, finalizers).await,
        }
        Ok(Next::Forget)
    }

    async fn hold(&self, simulated: &SimulatedCluster, finalizers: Vec<String>) -> Result<(), Failure> {
        let api: Api<SimulatedCluster> = Api::all(self.admin.clone());
        let finalizers = (!finalizers.is_empty()).then_some(finalizers);
        let patch = json!({"metadata": {"uid": simulated.metadata.uid, "finalizers": finalizers}});
        match self.writer.patch(&api, Some(&self.objects), simulated, patch).await {
            Ok(_) | Err(Failure::NotFound(_)) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    async fn run(&self, simulated: &SimulatedCluster, wanted: &MemberConfig) -> anyhow::Result<()> {
        let name = simulated.name_any();
        for complaint in &wanted.complaints {
            self.warn(simulated, "InvalidSpec", complaint);
        }
        let member = match self.get(&name) {
            Some(member) => {
                member.follow(wanted);
                member
            }
            None => self.bring_up(simulated, wanted).await?,
        };
        let status = simulated.status.clone().unwrap_or_default();
        // The Cluster first: the endpoint in the status says that it was joined, so that an unjoined one is not joined
        // again.
        self.join(simulated, &member, status.endpoint.is_empty(), wanted.faults.down).await?;
        let generation = simulated.metadata.generation.unwrap_or_default();
        if status.endpoint != member.endpoint || status.observed_generation != generation {
            let api: Api<SimulatedCluster> = Api::all(self.admin.clone());
            let version = simulated.resource_version().unwrap_or_default();
            let status = json!({"endpoint": member.endpoint, "observedGeneration": generation});
            self.writer.patch_status(&api, Some(&self.objects), &name, &version, status).await?;
        }
        Ok(())
    }

    async fn bring_up(
        &self,
        simulated: &SimulatedCluster,
        wanted: &MemberConfig,
    ) -> anyhow::Result<Arc<SimulatedMember>> {
        let name = simulated.name_any();
        let life = {
            let mut running = self.running.lock();
            let life = running.lives.entry(name.clone()).or_insert(0);
            *life += 1;
            *life - 1
        };
        let member = Arc::new(self.environment.start(simulated, wanted, life).await?);
        self.running.lock().members.insert(name, member.clone());
        self.write_kubeconfig()?;
        tracing::debug!(member = %member.name, endpoint = %member.endpoint, "simulated member started");
        Ok(member)
    }

    /// Joins the member, or brings address and credentials of its Cluster up to date. A Cluster that was joined before
    /// and is absent was unjoined. A member that is down gives no credentials: they are written once it is up.
    async fn join(
        &self,
        simulated: &SimulatedCluster,
        member: &SimulatedMember,
        first: bool,
        is_down: bool,
    ) -> anyhow::Result<()> {
        let name = simulated.name_any();
        let clusters: Api<Cluster> = Api::all(self.admin.clone());
        let options = join_options(simulated, member, first);
        let present = clusters.get_opt(&name).await?;
        let is_joined = |cluster: &Cluster| {
            cluster.spec.api_endpoint == member.endpoint && cluster.spec.impersonator_secret_ref.is_some()
        };
        match present {
            None if !first => return Ok(()),
            Some(cluster) if is_joined(&cluster) || cluster.metadata.deletion_timestamp.is_some() => return Ok(()),
            None | Some(_) if !is_down => {
                let (plane, there) = (self.admin.clone(), member.member.client());
                register(plane, there, &self.environment.seam.clock, &options).await?;
            }
            None => {
                let cluster = without_credentials(&options);
                clusters.create(&PostParams::default(), &cluster).await.with_context(|| format!("joining {name}"))?;
            }
            Some(_) => {
                let spec = json!({"spec": {"apiEndpoint": member.endpoint}});
                clusters.patch(&name, &PatchParams::default(), &Patch::Merge(spec)).await?;
            }
        }
        Ok(())
    }

    /// Removes its Cluster from the fleet, then stops the member.
    async fn leave_fleet(&self, simulated: &SimulatedCluster, finalizers: Vec<String>) -> anyhow::Result<Next> {
        let name = simulated.name_any();
        let endpoint = simulated.status.as_ref().map(|s| s.endpoint.as_str()).unwrap_or_default();
        let clusters: Api<Cluster> = Api::all(self.admin.clone());
        let joined = clusters.get_opt(&name).await?.filter(|c| c.spec.api_endpoint == endpoint);
        if let Some(cluster) = joined {
            // Objects can be removed only from a member that responds.
            let healthy = MemberConfig { shape: self.shape_of(simulated), ..MemberConfig::default() };
            match self.get(&name) {
                Some(member) => member.follow(&healthy),
                None => drop(self.bring_up(simulated, &healthy).await?),
            }
            if cluster.metadata.deletion_timestamp.is_none() {
                self.writer.delete(&clusters, None, &cluster, PropagationPolicy::Background).await?;
            }
            return Ok(Next::After(LEAVE_POLL_INTERVAL));
        }
        self.end(&name).await?;
        self.hold(simulated, finalizers).await?;
        tracing::info!(member = %name, "simulated member removed");
        Ok(Next::Forget)
    }

    fn shape_of(&self, simulated: &SimulatedCluster) -> ironclad_simcluster::Shape {
        let mut alive = simulated.clone();
        alive.metadata.deletion_timestamp = None;
        match decide(&alive) {
            Step::Run(wanted) => wanted.shape,
            _ => ironclad_simcluster::Shape::default(),
        }
    }

    async fn end(&self, name: &str) -> anyhow::Result<()> {
        let member = self.running.lock().members.remove(name);
        self.write_kubeconfig()?;
        self.environment.wipe(name, member.as_deref()).await
    }

    fn write_kubeconfig(&self) -> anyhow::Result<()> {
        let members: Vec<_> = self.running.lock().members.values().cloned().collect();
        self.kubeconfig.write(&members)
    }

    fn warn(&self, simulated: &SimulatedCluster, reason: &str, message: &str) {
        tracing::warn!(member = %simulated.name_any(), reason, message, "simulated member has a problem");
        let about = EventAbout::of::<SimulatedCluster>(&simulated.metadata);
        self.recorder.record(&about, EventType::Warning, reason, message);
    }
}

/// The join of a member, as `ironclad join` has it; the first one also sets the labels of the SimulatedCluster.
fn join_options(simulated: &SimulatedCluster, member: &SimulatedMember, first: bool) -> JoinOptions {
    let ca_bundle = member.pki.ca().to_owned();
    let address = Address { endpoint: member.endpoint.clone(), ca_bundle, ..Address::default() };
    let options = JoinOptions::new(&simulated.name_any(), address);
    if !first {
        return options;
    }
    let labels = simulated.metadata.labels.clone().unwrap_or_default();
    JoinOptions {
        region: labels.get(REGION).cloned().unwrap_or_default(),
        zones: labels.get(ZONE).cloned().into_iter().collect(),
        labels,
        ..options
    }
}

/// The Cluster of a member that is down when it is made.
fn without_credentials(options: &JoinOptions) -> Cluster {
    let spec = ClusterSpec {
        sync_mode: SyncMode::Push,
        api_endpoint: options.address.endpoint.clone(),
        region: options.region.clone(),
        zones: options.zones.clone(),
        ..ClusterSpec::default()
    };
    let mut cluster = Cluster::new(&options.cluster, spec);
    cluster.metadata.labels = (!options.labels.is_empty()).then(|| options.labels.clone());
    cluster
}

#[cfg(test)]
mod tests;
