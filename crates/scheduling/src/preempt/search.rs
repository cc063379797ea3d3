//! Search for a plan over the affinity groups of a binding.

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    policy::{ClusterAffinityTerm, Placement},
    work::TargetCluster,
};
use ironclad_fleet::because::schedule::Unhelpful;
use jiff::Timestamp;

use super::{Pending, Placed, Plan, plan};
use crate::{
    Candidate, Seen,
    cycle::{self, Trace},
    estimator::Question,
    filter::Filter,
    options,
};

/// Plan of a preemption for a binding that lacks capacity: of the affinity groups in their order, the first one for
/// which bindings of lower priority can make room (specification/scheduling.md 15.6).
///
/// # Errors
/// Why no plan helps; the reason of the first group.
pub(crate) fn search(seen: &Seen<'_>, placed: &Placed, now: Timestamp) -> Result<Plan, Unhelpful> {
    let Some(placement) = &seen.binding.spec().placement else { return Err(Unhelpful::NoVictims) };
    let groups = &placement.cluster_affinities;
    if placement.cluster_affinity.is_some() || groups.is_empty() {
        return in_group(seen, placement, None, placed, now);
    }
    let mut why = None;
    for group in groups {
        match in_group(seen, placement, Some(group), placed, now) {
            Ok(plan) => return Ok(plan),
            Err(unhelpful) => why = why.or(Some(unhelpful)),
        }
    }
    Err(why.unwrap_or(Unhelpful::NoVictims))
}

fn in_group(
    seen: &Seen<'_>,
    placement: &Placement,
    group: Option<&ClusterAffinityTerm>,
    placed: &Placed,
    now: Timestamp,
) -> Result<Plan, Unhelpful> {
    let spec = seen.binding.spec();
    let before: BTreeMap<&str, &TargetCluster> = spec.clusters.iter().map(|t| (t.name.as_str(), t)).collect();
    let history = seen.binding.status().map_or(&[][..], |status| &status.failover_history);
    let filter = Filter { spec, placement, group, plugins: seen.options.plugins, history, now };
    let (mut because, mut on_event) = (Vec::new(), |_| {});
    let mut trace = Trace::of(seen, &mut because, &mut on_event);
    let candidates = cycle::candidates(seen, &filter, &before, &BTreeSet::new(), &mut trace);
    let Ok(candidates) = candidates else { return Err(Unhelpful::NoVictims) };
    let sets = options::schedules_component_sets(seen.options, spec, placement);
    plan(
        seen,
        placed,
        Pending {
            candidates,
            total: if sets { 1 } else { i64::from(spec.replicas) },
            spread: cycle::spread_of(spec, placement),
            need: cycle::need(seen.options, spec, placement),
            question: Question::of(spec, sets),
        },
        now,
        &mut |mut candidates| {
            Candidate::sort(&mut candidates);
            cycle::place(seen, placement, candidates, &mut |_| {}).ok().map(|placed| placed.targets)
        },
    )
}
