//! Fields that objects of one kind share.

use super::Pool;
use crate::{
    cluster::{APIEnablement, Cluster, ResourceModel},
    policy::{FailoverBehavior, Placement},
    work::{ReplicaRequirements, ResourceBindingSpec},
};

/// Values that the bindings of a cache share.
#[derive(Debug, Default)]
pub struct BindingPools {
    placements: Pool<Placement>,
    requirements: Pool<ReplicaRequirements>,
    failovers: Pool<FailoverBehavior>,
}

impl BindingPools {
    /// Lets a binding that enters the cache share what it has in common with its cached version and with others.
    pub fn share(&mut self, new: &mut ResourceBindingSpec, before: Option<&ResourceBindingSpec>) {
        self.placements.share_some(&mut new.placement, before.map(|before| &before.placement));
        self.requirements.share_some(&mut new.replica_requirements, before.map(|before| &before.replica_requirements));
        self.failovers.share_some(&mut new.failover, before.map(|before| &before.failover));
    }
}

/// Values that the Clusters of a cache share.
#[derive(Debug, Default)]
pub struct ClusterPools {
    models: Pool<Vec<ResourceModel>>,
    enablements: Pool<Vec<APIEnablement>>,
}

impl ClusterPools {
    /// Lets a Cluster that enters the cache share what it has in common with its cached version and with others.
    pub fn share(&mut self, new: &mut Cluster, before: Option<&Cluster>) {
        self.models.share(&mut new.spec.resource_models, before.map(|before| &before.spec.resource_models));
        if let Some(status) = &mut new.status {
            let before = before.and_then(|before| before.status.as_ref());
            self.enablements.share(&mut status.api_enablements, before.map(|before| &before.api_enablements));
        }
    }
}
