//! Score `ClusterLocality`: prefers clusters that are targets already (specification/scheduling.md 6).

use ironclad_api::cluster::Cluster;

use crate::plugin::{Plugin, Point, Question, TargetState};

pub static CLUSTER_LOCALITY: Plugin = Plugin { name: "ClusterLocality", point: Point::Score(score) };

/// The score of a target.
const LOCAL: i64 = 100;

fn score(_: &Question<'_>, _: &Cluster, state: TargetState) -> i64 {
    if state == TargetState::Target { LOCAL } else { 0 }
}
