//! The flags of the road (specification/operations.md 8.1, specification/propagation.md 30).

use std::time::Duration;

use crate::skipped_resources::Skipped;

/// What the flags say; the default is the reference's.
#[derive(Debug, Clone)]
pub struct Flags {
    /// `--skipped-propagating-apis` and `--skipped-propagating-namespaces`.
    pub skipped: Skipped,
    /// `--enable-cluster-resource-modeling`.
    pub resource_modeling: ResourceModeling,
    /// `--federated-resource-quota-sync-period`: how often what bindings take of quotas is counted anew.
    pub quota_sync_period: Duration,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            skipped: Skipped::default(),
            resource_modeling: ResourceModeling::default(),
            quota_sync_period: Duration::from_secs(300),
        }
    }
}

/// Whether nodes and pods of members are watched and added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourceModeling {
    /// They are: clusters show what they can take.
    #[default]
    On,
    /// They are not: less memory, and no figures.
    Off,
}

impl ResourceModeling {
    /// Whether they are.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}
