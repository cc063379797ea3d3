//! Filter `ClusterAffinity`: rejects clusters that the affinity does not select.

use ironclad_api::cluster::Cluster;
use ironclad_fleet::because::schedule::Refusal;

use crate::plugin::{Plugin, Point, Question, TargetState};

/// The plugin.
pub static CLUSTER_AFFINITY: Plugin = Plugin { name: "ClusterAffinity", point: Point::Filter(filter) };

fn filter(question: &Question<'_>, cluster: &Cluster, _: TargetState) -> Result<(), Refusal> {
    question.tier(cluster).map(drop).ok_or(Refusal::Affinity)
}
