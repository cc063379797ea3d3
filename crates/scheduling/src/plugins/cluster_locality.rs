//! Score `ClusterLocality`: prefers clusters that are targets already (specification/scheduling.md 6).

use ironclad_api::cluster::Cluster;

use super::{Plugin, Point};
use crate::filter::{Filter, Standing};

/// The plugin.
pub static CLUSTER_LOCALITY: Plugin = Plugin { name: "ClusterLocality", point: Point::Score(score) };

/// The score of a target.
const LOCAL: i64 = 100;

fn score(_: &Filter<'_>, _: &Cluster, standing: Standing) -> i64 {
    if standing == Standing::Target { LOCAL } else { 0 }
}
