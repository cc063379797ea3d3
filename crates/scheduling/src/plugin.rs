//! Types of scheduler plugins: extension points, their input, and the events that report their runs.

use std::fmt;

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterAffinityTerm, Placement},
    work::ResourceBindingSpec,
};
use ironclad_fleet::{affinity, because::schedule::Refusal};
use jiff::Timestamp;

use crate::index::{Index, Numbers};

/// A plugin: a function that runs at an extension point.
pub struct Plugin {
    /// The name that `--plugins` and metrics use.
    pub name: &'static str,
    /// Its extension point and function.
    pub point: Point,
}

/// An extension point of the scheduling cycle, with the function of a plugin.
#[derive(Clone, Copy)]
pub enum Point {
    /// Rejects clusters.
    Filter {
        test: fn(&Question<'_>, &Cluster, TargetState) -> Result<(), Refusal>,
        /// Removes clusters from a set that the test rejects unless they are targets, whatever the time is.
        narrow: fn(&Question<'_>, &Index, &mut Numbers) -> Rest,
    },
    /// Adds to the score of a cluster that passed the filters; higher is better.
    Score(fn(&Question<'_>, &Cluster, TargetState) -> i64),
}

/// Clusters that remain after a filter narrowed a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// All pass the test.
    Passes,
    /// Some may not.
    IsTested,
}

impl Plugin {
    /// The extension point, as metrics name it.
    #[must_use]
    pub fn extension_point(&self) -> &'static str {
        match self.point {
            Point::Filter { .. } => "Filter",
            Point::Score(_) => "Score",
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Plugin {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Plugin {}

/// Input of a plugin beside the cluster: the binding.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Spec of the binding.
    pub spec: &'a ResourceBindingSpec,
    /// Placement of the binding.
    pub placement: &'a Placement,
    /// Affinity group that is tried, if the placement has groups.
    pub group: Option<&'a ClusterAffinityTerm>,
    /// Time at which `tolerationSeconds` are evaluated.
    pub now: Timestamp,
    /// Time of the last eviction of the workload from the cluster by a NoExecute taint.
    pub evicted: Option<Timestamp>,
}

impl Question<'_> {
    /// Keeps in `all` the clusters that have a tier.
    pub(crate) fn keep_chosen(&self, index: &Index, all: &mut Numbers) {
        let mut chosen = Numbers::default();
        match (&self.placement.cluster_affinity, self.group) {
            (Some(own), _) => index.add_chosen(own, &mut chosen),
            (None, None) => return,
            (None, Some(group)) => {
                index.add_chosen(&group.affinity, &mut chosen);
                if self.spec.is_workload() {
                    group.overflow_affinities.iter().for_each(|tier| index.add_chosen(&tier.affinity, &mut chosen));
                }
            }
        }
        all.intersect(&chosen);
    }

    /// Tier of the affinity that selects the cluster; 0 is the affinity itself (specification/scheduling.md 4.3).
    pub(crate) fn tier(&self, cluster: &Cluster) -> Option<u32> {
        if let Some(own) = &self.placement.cluster_affinity {
            return affinity::chooses(own, cluster).then_some(0);
        }
        let Some(group) = self.group else { return Some(0) };
        if affinity::chooses(&group.affinity, cluster) {
            return Some(0);
        }
        if !self.spec.is_workload() {
            return None;
        }
        let overflow = group.overflow_affinities.iter().position(|tier| affinity::chooses(&tier.affinity, cluster))?;
        u32::try_from(overflow + 1).ok()
    }
}

/// Relation of a cluster to the present result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetState {
    /// It is a target, possibly with 0 replicas.
    Target,
    /// It is no target.
    New,
}

/// Steps of a scheduling cycle, as metrics name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Which clusters are feasible.
    Filter,
    /// Preference of each feasible cluster.
    Score,
    /// Which of them are used, by capacity and spread constraints.
    Select,
    /// Number of replicas of each.
    AssignReplicas,
    /// Search for bindings to preempt, after a cycle that failed.
    Preempt,
}

impl Step {
    /// Label value in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "Filter",
            Self::Score => "Score",
            Self::Select => "Select",
            Self::AssignReplicas => "AssignReplicas",
            Self::Preempt => "Preempt",
        }
    }
}

/// Event in a scheduling cycle, for measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleEvent {
    /// A step ended.
    Step(Step),
    /// Plugins start to run for another cluster.
    Cluster,
    /// A plugin ran for the cluster, or for all clusters by the index.
    Plugin {
        plugin: &'static Plugin,
        /// False if it rejects the cluster, or all of them.
        passed: bool,
    },
}
