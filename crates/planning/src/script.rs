//! What is done to the fleet, and with which flags it reacts.

use std::time::Duration;

use ironclad_api::Taint;
use ironclad_failover::Flags;
use ironclad_fleet::ClusterName;
use ironclad_scheduling as scheduling;

/// One change from outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The cluster can't be reached from now on.
    Lost(ClusterName),
    /// It can be reached again.
    Restored(ClusterName),
    /// A person puts this taint on it.
    Taint(ClusterName, Taint),
    /// A person takes the taint of this key and effect away.
    Untaint(ClusterName, Taint),
}

/// All changes, each at so long after the beginning.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script(pub Vec<(Duration, Change)>);

impl Script {
    /// These clusters are lost at once, and come back after a while if one is given.
    #[must_use]
    pub fn cluster_loss(clusters: &[ClusterName], back_after: Option<Duration>) -> Self {
        let lost = clusters.iter().map(|cluster| (Duration::ZERO, Change::Lost(cluster.clone())));
        let back =
            back_after.into_iter().flat_map(|at| clusters.iter().map(move |c| (at, Change::Restored(c.clone()))));
        Self(lost.chain(back).collect())
    }

    /// A cluster is tainted, and the taint is taken away after a while if one is given.
    #[must_use]
    pub fn taint(cluster: &ClusterName, taint: &Taint, back_after: Option<Duration>) -> Self {
        let mut all = vec![(Duration::ZERO, Change::Taint(cluster.clone(), taint.clone()))];
        all.extend(back_after.map(|at| (at, Change::Untaint(cluster.clone(), taint.clone()))));
        Self(all)
    }
}

/// How the fleet reacts, and how far it is followed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Gate `Failover`: without it nothing is tainted by policies and nobody is evicted.
    pub gate: bool,
    /// The flags of failover.
    pub flags: Flags,
    /// The flags of the scheduler.
    pub scheduling: scheduling::Options,
    /// From the write of a new copy until it is healthy.
    pub startup: Duration,
    /// The fleet is not followed any longer than this.
    pub horizon: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            gate: true,
            flags: Flags::default(),
            scheduling: scheduling::Options::default(),
            startup: Duration::from_secs(10),
            horizon: Duration::from_secs(24 * 3_600),
        }
    }
}
