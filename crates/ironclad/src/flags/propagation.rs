//! Flags of the road from template to member.

use ironclad_cli::report::Misused;
use ironclad_propagation::{
    detect::Skipped,
    flags::{Flags, ResourceModeling},
};

/// What is propagated at all.
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
    /// Watch nodes and pods of members, so that clusters show what they can take and what is asked of them
    #[arg(
        long,
        env = "IRONCLAD_ENABLE_CLUSTER_RESOURCE_MODELING",
        default_value_t = true,
        action = clap::ArgAction::Set,
        value_name = "BOOL"
    )]
    enable_cluster_resource_modeling: bool,
}

impl PropagationFlags {
    /// What the flags say.
    ///
    /// # Errors
    /// If one can't be read.
    pub(crate) fn settings(&self) -> anyhow::Result<Flags> {
        let skipped = Skipped::parse(&self.skipped_propagating_apis, &self.skipped_propagating_namespaces);
        let resource_modeling =
            if self.enable_cluster_resource_modeling { ResourceModeling::On } else { ResourceModeling::Off };
        Ok(Flags { resource_modeling, skipped: skipped.map_err(|error| Misused(format!("{error}\n  see: --help")))? })
    }
}
