//! Input of the scheduler's decision: one binding, all clusters, capacity, and options.

use std::collections::BTreeMap;

use ironclad_api::policy::DEFAULT_SCHEDULER_NAME;
use ironclad_fleet::{BindingRef, ClusterName, Clusters};
use jiff::SignedDuration;

use crate::{Capacity, Plugins};

/// How many further replicas (or component sets) of one binding each cluster holds, by estimators that were asked about this
/// very binding. A cluster that is missing is one about which none has an opinion.
pub type Available = BTreeMap<ClusterName, i64>;

/// The snapshot that a pass decides on.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The binding.
    pub binding: BindingRef<'a>,
    /// Every cluster, also those that are being deleted.
    pub clusters: &'a Clusters,
    /// Answers of the estimators.
    pub available: &'a Available,
    /// Capacity by the clusters' own reports.
    pub capacity: &'a Capacity,
    /// The switches.
    pub options: &'a Options,
}

/// Flags and gates of the scheduler (specification/scheduling.md 13.4, 16).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `--scheduler-name`: which bindings are ours.
    pub scheduler_name: String,
    /// `--enable-empty-workload-propagation`: selected clusters without a share become targets with 0 replicas.
    pub empty_workload_propagation: bool,
    /// Gate `MultiplePodTemplatesScheduling`.
    pub component_scheduling: bool,
    /// Gate `SchedulingOvercommitProtection`: what was assigned and isn't seen yet is taken, for everybody.
    pub overcommit_protection: bool,
    /// `--clear-unfit-result-after`: how long a result that nothing fits any more is kept; zero clears at once (16.1).
    pub clear_unfit_result_after: SignedDuration,
    /// True if the search through ordered affinity groups goes on with the earlier ones after the last (16.16).
    pub wrap_around_groups: bool,
    /// `--plugins`: which filters and scores run.
    pub plugins: Plugins,
    /// True if a divided binding is scheduled again when its affinity does not choose a target any more (16.9).
    pub follow_drift: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scheduler_name: DEFAULT_SCHEDULER_NAME.to_owned(),
            empty_workload_propagation: false,
            component_scheduling: false,
            overcommit_protection: false,
            clear_unfit_result_after: SignedDuration::from_mins(5),
            wrap_around_groups: true,
            plugins: Plugins::default(),
            follow_drift: false,
        }
    }
}
