//! Flags of propagation.

use ironclad_cli::report::Misused;
use ironclad_propagation::{
    flags::{Flags, ResourceModeling},
    services::{self, UnreadyProviders},
    skipped_resources::Skipped,
};

use super::Period;

/// Propagation flags.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Propagation")]
pub(crate) struct PropagationFlags {
    /// Kinds that are never propagated, as `networking.k8s.io;apps/v1/ReplicaSet;v1/Pod,Endpoints`
    #[arg(
        long,
        env = "IRONCLAD_SKIPPED_PROPAGATING_APIS",
        default_value = "",
        hide_default_value = true,
        value_name = "APIS"
    )]
    skipped_propagating_apis: String,
    /// Namespaces whose objects are never propagated: regular expressions for whole names. kube-system, kube-public,
    /// kube-node-lease and the control plane's own are among them, whatever is given
    #[arg(long, env = "IRONCLAD_SKIPPED_PROPAGATING_NAMESPACES", default_value = "kube-.*", value_name = "LIST")]
    skipped_propagating_namespaces: String,
    /// Watch nodes and pods of members: capacity is counted by node, and clusters report their allocatable and
    /// allocated resources
    #[arg(
        long,
        env = "IRONCLAD_ENABLE_CLUSTER_RESOURCE_MODELING",
        default_value_t = ResourceModeling::default() == ResourceModeling::On,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    enable_cluster_resource_modeling: bool,
    /// Interval between full recounts of the usage of FederatedResourceQuotas, if these are enforced
    #[arg(long, default_value_t = Period(Flags::default().quota_sync_period), value_name = "DURATION", env = "IRONCLAD_FEDERATED_RESOURCE_QUOTA_SYNC_PERIOD")]
    federated_resource_quota_sync_period: Period,
    /// Endpoints of providers that are not ready, at the consumers of MultiClusterServices: keep, drop or drop-after=5m
    #[arg(long, default_value = "keep", value_name = "WHAT", value_parser = UnreadyProviders::parse, env = "IRONCLAD_ENDPOINTS_OF_UNREADY_PROVIDERS")]
    endpoints_of_unready_providers: UnreadyProviders,
    /// Take endpoints of clusters with remedy action TrafficControl from the consumers of MultiClusterServices
    #[arg(
        long,
        env = "IRONCLAD_TRAFFIC_CONTROL_ENDPOINTS",
        default_value_t = services::Options::default().traffic_control,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    traffic_control_endpoints: bool,
    /// Shortest time between two reports of an EndpointSlice; addresses that go are reported at once
    #[arg(long, default_value_t = Period(services::Options::default().interval), value_name = "DURATION", env = "IRONCLAD_ENDPOINT_DISPATCH_INTERVAL")]
    endpoint_dispatch_interval: Period,
}

impl PropagationFlags {
    /// Returns the options.
    ///
    /// # Errors
    /// A value is invalid.
    pub(crate) fn settings(&self) -> anyhow::Result<Flags> {
        let skipped = Skipped::parse(&self.skipped_propagating_apis, &self.skipped_propagating_namespaces);
        let resource_modeling =
            if self.enable_cluster_resource_modeling { ResourceModeling::On } else { ResourceModeling::Off };
        let quota_sync_period = self.federated_resource_quota_sync_period.0;
        if quota_sync_period.is_zero() {
            let message = "--federated-resource-quota-sync-period must be longer than 0\n  try: 5m";
            return Err(Misused(message.to_owned()).into());
        }
        let skipped = skipped.map_err(|error| Misused(format!("{error}\n  try: --help")))?;
        let services = services::Options {
            unready_providers: self.endpoints_of_unready_providers,
            traffic_control: self.traffic_control_endpoints,
            interval: self.endpoint_dispatch_interval.0,
        };
        Ok(Flags { resource_modeling, skipped, quota_sync_period, services })
    }
}
