//! Flags of propagation (specification/operations.md 8.1, specification/propagation.md 30).

use std::time::Duration;

use crate::{services, skipped_resources::Skipped};

/// Values of the flags; the defaults are those of the specification.
#[derive(Debug, Clone)]
pub struct Flags {
    /// `--skipped-propagating-apis` and `--skipped-propagating-namespaces`.
    pub skipped: Skipped,
    /// `--enable-cluster-resource-modeling`.
    pub resource_modeling: ResourceModeling,
    /// `--federated-resource-quota-sync-period`: interval at which the usage of quotas is recounted.
    pub quota_sync_period: Duration,
    /// Services over clusters.
    pub services: services::Options,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            skipped: Skipped::default(),
            resource_modeling: ResourceModeling::default(),
            quota_sync_period: Duration::from_secs(300),
            services: services::Options::default(),
        }
    }
}

/// Switch: nodes and pods of members are watched to compute resource summaries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourceModeling {
    /// Clusters report what they can allocate.
    #[default]
    On,
    /// Saves memory; clusters report no resource summary.
    Off,
}

impl ResourceModeling {
    /// Returns true if modelling is enabled.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}
