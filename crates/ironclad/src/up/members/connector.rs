//! The way of the control plane to its members.

use std::sync::Arc;

use ironclad_api::cluster::Cluster;
use ironclad_apiserver::Identity;
use ironclad_members::{Connector, NetworkConnector};
use ironclad_runtime::{Traffic, Tunnels, in_process_client};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _};

use super::SimulatedMembers;

/// Reaches simulated members in-process and all others over the network.
pub(crate) struct UpConnector {
    simulated: SimulatedMembers,
    traffic: Arc<Traffic>,
    others: NetworkConnector,
}

impl UpConnector {
    /// A connector whose clients count their requests in `traffic`.
    pub(crate) fn new(simulated: SimulatedMembers, traffic: Arc<Traffic>, tunnels: Tunnels) -> Self {
        Self { simulated, others: NetworkConnector::new(traffic.clone(), tunnels), traffic }
    }
}

impl Connector for UpConnector {
    fn connect(&self, cluster: &Cluster, credentials: Option<&Secret>) -> Result<Client, String> {
        match self.simulated.get(&cluster.name_any()) {
            // By name alone, a foreign cluster of that name would be taken for the simulated one.
            Some(simulated) if simulated.endpoint == cluster.spec.api_endpoint => Ok(in_process_client(
                simulated.member.faulted_service(Identity::admin("ironclad")),
                self.traffic.clone(),
            )),
            _ => self.others.connect(cluster, credentials),
        }
    }

    fn tunnels(&self) -> Option<&Tunnels> {
        self.others.tunnels()
    }
}
