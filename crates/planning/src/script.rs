//! Changes of the fleet, and the flags with which it reacts.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::Taint;
use ironclad_failover::Flags;
use ironclad_fleet::ClusterName;
use ironclad_scheduling::{self as scheduling, capacity::Modelling, estimator::Index};

/// One change from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The cluster can't be reached from now on.
    Lost(ClusterName),
    /// It can be reached again.
    Restored(ClusterName),
    /// A user adds this taint.
    Taint(ClusterName, Taint),
    /// A user removes the taint of this key and effect.
    Untaint(ClusterName, Taint),
}

/// Changes, each with its time after the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script(pub Vec<(Duration, Change)>);

impl Script {
    /// These clusters are lost at the start, and restored after a time if one is given.
    #[must_use]
    pub fn cluster_loss(clusters: &[ClusterName], back_after: Option<Duration>) -> Self {
        let lost = clusters.iter().map(|cluster| (Duration::ZERO, Change::Lost(cluster.clone())));
        let back =
            back_after.into_iter().flat_map(|at| clusters.iter().map(move |c| (at, Change::Restored(c.clone()))));
        Self(lost.chain(back).collect())
    }

    /// A cluster is tainted at the start, and the taint is removed after a time if one is given.
    #[must_use]
    pub fn taint(cluster: &ClusterName, taint: &Taint, back_after: Option<Duration>) -> Self {
        let mut all = vec![(Duration::ZERO, Change::Taint(cluster.clone(), taint.clone()))];
        all.extend(back_after.map(|at| (at, Change::Untaint(cluster.clone(), taint.clone()))));
        Self(all)
    }
}

/// Flags of the simulation, and its time span.
#[derive(Debug, Clone)]
pub struct Options {
    /// Gate `Failover`: without it nothing is tainted by policies and nobody is evicted.
    pub gate: bool,
    /// The flags of failover.
    pub flags: Flags,
    /// The flags of the scheduler.
    pub scheduling: scheduling::Options,
    /// Use of resource models.
    pub modelling: Modelling,
    /// True if the leader keeps accounts of clusters by node.
    pub estimators: bool,
    /// Nodes and pods of the members that were asked for them.
    pub nodes: BTreeMap<ClusterName, Arc<Index>>,
    /// Time from the creation of a copy until it is healthy.
    pub startup: Duration,
    /// End of the simulation.
    pub horizon: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gate: true,
            flags: Flags::default(),
            scheduling: scheduling::Options::default(),
            modelling: Modelling::default(),
            estimators: false,
            nodes: BTreeMap::new(),
            startup: Duration::from_secs(10),
            horizon: Duration::from_secs(24 * 3_600),
        }
    }
}
