//! Filter `ClusterAffinity`: rejects clusters that the affinity does not select.

use ironclad_api::cluster::Cluster;
use ironclad_fleet::because::schedule::Refusal;

use crate::{
    index::{Index, Numbers},
    plugin::{Plugin, Point, Question, Rest, TargetState},
};

pub static CLUSTER_AFFINITY: Plugin = Plugin { name: "ClusterAffinity", point: Point::Filter { test, narrow } };

fn test(question: &Question<'_>, cluster: &Cluster, _: TargetState) -> Result<(), Refusal> {
    question.tier(cluster).map(drop).ok_or(Refusal::Affinity)
}

fn narrow(question: &Question<'_>, index: &Index, all: &mut Numbers) -> Rest {
    question.keep_chosen(index, all);
    Rest::Passes
}
