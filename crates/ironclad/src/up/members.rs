//! The simulated members of `up`: one SimulatedCluster and one Cluster each, a server of their own, a port that is chosen
//! once and kept (operations.md 7.2).

use std::{collections::BTreeMap, net::IpAddr, path::Path, sync::Arc};

use anyhow::Context as _;
use ironclad_api::{
    Quantity,
    cluster::{Cluster, ClusterSpec, SyncMode},
    sim::{SimulatedCluster, SimulatedClusterSpec},
};
use ironclad_apiserver::{Identity, pki};
use ironclad_controllers::{Connector, NetworkConnector};
use ironclad_runtime::{Traffic, in_process_client};
use ironclad_seam::Seam;
use ironclad_simcluster::{Member, MemberOptions, Shape};
use ironclad_store::{Engine, Options as StoreOptions};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::net::TcpListener;

/// What `up` gives a member that nobody described: nodes, and for each node its capacity.
const NODES: i32 = 3;
const CAPACITY: [(&str, &str); 3] = [("cpu", "8"), ("memory", "32Gi"), ("pods", "110")];

/// One running member.
pub(crate) struct SimulatedMember {
    /// Its name, in the kubeconfig too.
    pub name: String,
    /// `https://ADDRESS:PORT`.
    pub endpoint: String,
    /// Its certificates.
    pub pki: pki::Pki,
    member: Member,
}

/// All of them. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SimulatedMembers(Arc<BTreeMap<String, SimulatedMember>>);

impl SimulatedMembers {
    /// Starts the members that the control plane knows, and as many more as are asked for.
    ///
    /// # Errors
    /// If a port is taken or a member does not start.
    pub(crate) async fn start(
        admin: &Client,
        engine: &Engine,
        seam: &Seam,
        data_dir: &Path,
        wanted: u32,
        listen: &str,
    ) -> anyhow::Result<Self> {
        let address: IpAddr = listen.parse::<std::net::SocketAddr>().map(|a| a.ip())?;
        let mut members = BTreeMap::new();
        for simulated in described(admin, wanted).await? {
            let name = simulated.name_any();
            let member = start_one(admin, engine, seam, data_dir, &simulated, address)
                .await
                .with_context(|| format!("starting simulated member {name}"))?;
            members.insert(name, member);
        }
        Ok(Self(Arc::new(members)))
    }

    /// Their names in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// All of them in order of their names.
    pub(crate) fn list(&self) -> impl Iterator<Item = &SimulatedMember> {
        self.0.values()
    }
}

/// The SimulatedClusters that exist, filled up with `memberN` to the wanted number.
async fn described(admin: &Client, wanted: u32) -> anyhow::Result<Vec<SimulatedCluster>> {
    let api: Api<SimulatedCluster> = Api::all(admin.clone());
    let mut all = api.list(&ListParams::default()).await?.items;
    let mut number = 0;
    while all.len() < wanted as usize {
        number += 1;
        let name = format!("member{number}");
        if all.iter().any(|s| s.name_any() == name) {
            continue;
        }
        let capacity = CAPACITY.map(|(resource, amount)| (resource.to_owned(), Quantity(amount.to_owned())));
        let spec = SimulatedClusterSpec { nodes: NODES, capacity: capacity.into(), ..SimulatedClusterSpec::default() };
        all.push(api.create(&PostParams::default(), &SimulatedCluster::new(&name, spec)).await?);
    }
    Ok(all)
}

async fn start_one(
    admin: &Client,
    engine: &Engine,
    seam: &Seam,
    data_dir: &Path,
    simulated: &SimulatedCluster,
    address: IpAddr,
) -> anyhow::Result<SimulatedMember> {
    let name = simulated.name_any();
    let kept = simulated.status.as_ref().and_then(|s| s.endpoint.rsplit(':').next()?.parse::<u16>().ok());
    let listener = TcpListener::bind((address, kept.unwrap_or(0))).await.with_context(|| {
        let port = kept.unwrap_or_default();
        format!(
            "{address}:{port}, the port that the kubeconfig names for {name}, can't be had\n  try: end what holds it"
        )
    })?;
    let endpoint = format!("https://{}", listener.local_addr()?);
    let member_seam = seam.child(&name);
    let pki = pki::Pki::load_or_create(&data_dir.join("pki").join(&name), &member_seam, &name)?;
    let member = Member::start(
        MemberOptions {
            name: name.clone(),
            shape: Shape {
                nodes: u32::try_from(simulated.spec.nodes).unwrap_or(0),
                capacity: simulated.spec.capacity.clone(),
                node_labels: simulated.spec.node_labels.clone(),
            },
            root_certificate: Some(pki.ca().to_owned()),
            ..MemberOptions::default()
        },
        engine.store_with(&name, StoreOptions::member()),
        member_seam.clone(),
    )
    .await?;
    member.serve(listener.into_std()?, pki.server_config()?)?;
    tell(admin, simulated, &endpoint).await?;
    Ok(SimulatedMember { name, endpoint, pki, member })
}

/// Records where the member is served, and joins it.
async fn tell(admin: &Client, simulated: &SimulatedCluster, endpoint: &str) -> anyhow::Result<()> {
    let name = simulated.name_any();
    if simulated.status.as_ref().is_none_or(|s| s.endpoint != endpoint) {
        let api: Api<SimulatedCluster> = Api::all(admin.clone());
        let status = json!({"status": {"endpoint": endpoint, "observedGeneration": simulated.metadata.generation}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
    }
    let clusters: Api<Cluster> = Api::all(admin.clone());
    match clusters.get_opt(&name).await? {
        None => {
            let spec =
                ClusterSpec { sync_mode: SyncMode::Push, api_endpoint: endpoint.to_owned(), ..ClusterSpec::default() };
            clusters.create(&PostParams::default(), &Cluster::new(&name, spec)).await?;
        }
        Some(cluster) if cluster.spec.api_endpoint != endpoint => {
            let spec = json!({"spec": {"apiEndpoint": endpoint}});
            clusters.patch(&name, &PatchParams::default(), &Patch::Merge(spec)).await?;
        }
        Some(_) => {}
    }
    Ok(())
}

/// Reaches simulated members in-process and all others over the network.
pub(crate) struct UpConnector {
    simulated: SimulatedMembers,
    network: NetworkConnector,
    traffic: Arc<Traffic>,
}

impl UpConnector {
    /// A connector whose in-process clients count their requests here.
    pub(crate) fn new(simulated: SimulatedMembers, network: NetworkConnector, traffic: Arc<Traffic>) -> Self {
        Self { simulated, network, traffic }
    }
}

impl Connector for UpConnector {
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String> {
        match self.simulated.0.get(&cluster.name_any()) {
            // The name alone would let a foreign cluster of that name be taken for the simulated one.
            Some(simulated) if simulated.endpoint == cluster.spec.api_endpoint => Ok(in_process_client(
                simulated.member.faulted_service(Identity::admin("ironclad")),
                self.traffic.clone(),
            )),
            _ => self.network.connect(cluster, credentials),
        }
    }
}
