//! What the scheduler's decision reads: one binding, all clusters, what fits where, and the switches.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    Condition, ObjectMeta,
    cluster::Cluster,
    conditions::{self, binding::SCHEDULED},
    policy::DEFAULT_SCHEDULER_NAME,
    work::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec},
};
use ironclad_fleet::{BindingKey, ClusterName};
use jiff::{SignedDuration, Timestamp};

use crate::{Capacity, Plugins};

/// All clusters of the fleet.
pub type Clusters = BTreeMap<ClusterName, Arc<Cluster>>;

/// How many further replicas (or component sets) of one binding each cluster holds, by estimators that were asked about this
/// very binding. A cluster that is missing is one about which none has an opinion.
pub type Available = BTreeMap<ClusterName, i64>;

/// The snapshot that a pass decides on.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The binding.
    pub binding: Binding<'a>,
    /// Every cluster, also those that are being deleted.
    pub clusters: &'a Clusters,
    /// What estimators that were asked said.
    pub available: &'a Available,
    /// What fits where by what clusters report of themselves.
    pub capacity: &'a Capacity,
    /// The switches.
    pub options: &'a Options,
}

/// Flags and gates of the scheduler (scheduling.md 13.4, 16).
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
    /// Whether the search through ordered affinity groups goes on with the earlier ones after the last (16.16).
    pub wrap_around_groups: bool,
    /// `--plugins`: which filters and scores run.
    pub plugins: Plugins,
    /// Whether a divided binding is scheduled again when its affinity does not choose a target any more (16.9).
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

/// Which of the two kinds a binding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingKind {
    /// ResourceBinding.
    ResourceBinding,
    /// ClusterResourceBinding.
    ClusterResourceBinding,
}

impl BindingKind {
    /// The kind as in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ResourceBinding => "ResourceBinding",
            Self::ClusterResourceBinding => "ClusterResourceBinding",
        }
    }
}

/// What the scheduler looks at of a binding of either kind.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// Which kind it is.
    pub kind: BindingKind,
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// Its spec.
    pub spec: &'a ResourceBindingSpec,
    /// `status.schedulerObservedGeneration`, 0 if never scheduled.
    pub observed_generation: i64,
    /// `status.schedulerObservingAffinityName`, empty if none.
    pub observed_group: &'a str,
    /// `status.lastScheduledTime`.
    pub last_scheduled: Option<Timestamp>,
    /// `status.conditions`.
    pub conditions: &'a [Condition],
}

impl<'a> From<&'a ResourceBinding> for Binding<'a> {
    fn from(binding: &'a ResourceBinding) -> Self {
        let status = binding.status.as_ref();
        Self {
            kind: BindingKind::ResourceBinding,
            metadata: &binding.metadata,
            spec: &binding.spec,
            observed_generation: status.map_or(0, |s| s.scheduler_observed_generation),
            observed_group: status.map_or("", |s| &s.scheduler_observed_affinity_name),
            last_scheduled: status.and_then(|s| s.last_scheduled_time.as_ref()).map(|t| t.0),
            conditions: status.map_or(&[], |s| &s.conditions),
        }
    }
}

impl<'a> From<&'a ClusterResourceBinding> for Binding<'a> {
    fn from(binding: &'a ClusterResourceBinding) -> Self {
        let status = binding.status.as_ref();
        Self {
            kind: BindingKind::ClusterResourceBinding,
            metadata: &binding.metadata,
            spec: &binding.spec,
            observed_generation: status.map_or(0, |s| s.scheduler_observed_generation),
            observed_group: status.map_or("", |s| &s.scheduler_observed_affinity_name),
            last_scheduled: status.and_then(|s| s.last_scheduled_time.as_ref()).map(|t| t.0),
            conditions: status.map_or(&[], |s| &s.conditions),
        }
    }
}

impl<'a> Binding<'a> {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> BindingKey {
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        BindingKey { namespace: text(&self.metadata.namespace), name: text(&self.metadata.name) }
    }

    /// `metadata.generation`, 0 if it has none.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    /// Condition `Scheduled`.
    #[must_use]
    pub fn scheduled(&self) -> Option<&'a Condition> {
        conditions::get(self.conditions, SCHEDULED)
    }

    /// True if the result stands and is known to be good.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        conditions::is_true(self.conditions, SCHEDULED)
    }

    /// Somebody asked for a fresh result, and none was made since (scheduling.md 1, 16.15). Stored times have whole
    /// seconds, so a request in the second of the last scheduling counts as later.
    #[must_use]
    pub fn reschedule_required(&self) -> bool {
        let asked = self.spec.reschedule_triggered_at.as_ref().map(|t| t.0);
        matches!((asked, self.last_scheduled), (Some(asked), Some(last)) if asked >= last)
    }
}
