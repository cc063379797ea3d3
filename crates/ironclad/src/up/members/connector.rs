//! The way of the control plane to its members.

use std::sync::Arc;

use ironclad_api::cluster::Cluster;
use ironclad_apiserver::Identity;
use ironclad_members::{Connector, client};
use ironclad_runtime::{Traffic, in_process_client};
use k8s_openapi::api::core::v1::Secret;
use kube::{Client, ResourceExt as _};

use super::SimulatedMembers;

/// Reaches simulated members in-process and all others over the network.
pub(crate) struct UpConnector {
    simulated: SimulatedMembers,
    traffic: Arc<Traffic>,
}

impl UpConnector {
    /// A connector whose clients count their requests here.
    pub(crate) fn new(simulated: SimulatedMembers, traffic: Arc<Traffic>) -> Self {
        Self { simulated, traffic }
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
            _ => client(cluster, credentials, self.traffic.clone()),
        }
    }
}
