//! Filter `TaintToleration`: rejects clusters with a taint that the workload does not tolerate. Targets of the present
//! result pass (specification/scheduling.md 5.2).

use ironclad_api::cluster::Cluster;
use ironclad_fleet::{
    because::schedule::Refusal,
    taint::{self, Failover},
};

use crate::{
    index::{Index, Numbers},
    plugin::{Plugin, Point, Question, Rest, TargetState},
};

pub static TAINT_TOLERATION: Plugin = Plugin { name: "TaintToleration", point: Point::Filter { test, narrow } };

fn test(question: &Question<'_>, cluster: &Cluster, state: TargetState) -> Result<(), Refusal> {
    if state == TargetState::Target {
        return Ok(());
    }
    let tolerations = &question.placement.cluster_tolerations;
    let (now, evicted) = (question.now, question.evicted);
    match taint::repelling_at(&cluster.spec.taints, tolerations, failover(question), now, evicted) {
        Some(taint) => Err(Refusal::Taint { taint: taint::text(taint) }),
        None => Ok(()),
    }
}

/// A taint without a time is tolerated by all that tolerates it for some seconds.
fn narrow(question: &Question<'_>, index: &Index, all: &mut Numbers) -> Rest {
    let (tolerations, failover) = (&question.placement.cluster_tolerations, failover(question));
    index.drop_tainted(|one| taint::repelling(std::slice::from_ref(one), tolerations, failover).is_some(), all);
    if index.has_tainted(all) { Rest::IsTested } else { Rest::Passes }
}

fn failover(question: &Question<'_>) -> Failover {
    let has_failover = question.spec.failover.as_ref().is_some_and(|failover| failover.cluster.is_some());
    if has_failover { Failover::OptedIn } else { Failover::Stays }
}
