//! Filter `TaintToleration`: rejects clusters with a taint that the workload does not tolerate. Targets of the present
//! result pass (specification/scheduling.md 5.2).

use ironclad_api::cluster::Cluster;
use ironclad_fleet::{
    because::schedule::Refusal,
    taint::{self, Failover},
};

use crate::plugin::{Plugin, Point, Question, TargetState};

/// The plugin.
pub static TAINT_TOLERATION: Plugin = Plugin { name: "TaintToleration", point: Point::Filter(filter) };

fn filter(question: &Question<'_>, cluster: &Cluster, state: TargetState) -> Result<(), Refusal> {
    if state == TargetState::Target {
        return Ok(());
    }
    let has_failover = question.spec.failover.as_ref().is_some_and(|failover| failover.cluster.is_some());
    let failover = if has_failover { Failover::OptedIn } else { Failover::Stays };
    let tolerations = &question.placement.cluster_tolerations;
    match taint::repelling_at(&cluster.spec.taints, tolerations, failover, question.now) {
        Some(taint) => Err(Refusal::Taint { taint: taint::text(taint) }),
        None => Ok(()),
    }
}
