//! Preemption between bindings: which bindings of lower priority leave which clusters so that a pending one fits
//! (specification/scheduling.md 15; specification/proposals/002.md).
//!
//! [`Placed`] is the index of who runs where. [`decide`](crate::decide) asks [`attempt`] after a cycle that failed for
//! capacity; [`Preemptors`] remembers the attempts and nominations of each preemptor; [`evict`] is the write on one
//! victim.

mod clusters;
mod execute;
mod overtaken;
mod placed;
mod plan;
mod preemptors;
mod search;
#[cfg(test)]
mod tests;
mod victims;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::work::{PreemptionPolicy, TargetCluster};
use ironclad_fleet::{BindingKey, BindingRef, because::schedule::Unhelpful};
use jiff::{SignedDuration, Timestamp};
use smallvec::{SmallVec, smallvec};

pub use crate::seen::Preempting;
pub use execute::{Eviction, Stale, evict, is_wanted, succeeded};
pub(crate) use execute::{condition, listed};
pub(crate) use overtaken::is_overtaken;
pub use placed::Placed;
pub use plan::{Limits, Mode, Plan, Victim};
pub use preemptors::{Outcome, Preemptors, Turn};
pub(crate) use search::search;

use self::{
    clusters::{Site, Wanted},
    placed::{Occupant, Occupants, named},
    victims::{Member, Unit},
};
use crate::{
    Candidate, Seen,
    avoided::avoided,
    capacity::{Asked, Asker, Freed, Room, Share, demand},
    estimator::Question,
    priority::priority,
    spread::{Need, Spread},
};

/// Time within which a binding that was preempted is chosen again only if no plan spares it
/// (specification/scheduling.md 15.8).
const SPARED_FOR: SignedDuration = SignedDuration::from_mins(5);

/// Field of a binding's status with its nomination.
pub const NOMINATED_CLUSTERS: &str = "nominatedClusters";

/// Returns whether the binding may preempt at all: it is a ResourceBinding whose priority says so, and it requests
/// resources (specification/scheduling.md 15.2, rows 1 to 3 and 6).
#[must_use]
pub fn may_preempt(binding: BindingRef<'_>, mode: Mode) -> bool {
    let spec = binding.spec();
    let policy = spec.schedule_priority.as_ref().and_then(|resolved| resolved.preemption_policy);
    mode != Mode::Off
        && matches!(binding, BindingRef::Namespaced(_))
        && policy == Some(PreemptionPolicy::PreemptLowerPriority)
        && requests_resources(binding)
}

fn requests_resources(binding: BindingRef<'_>) -> bool {
    let spec = binding.spec();
    let lists = spec.components.iter().filter_map(|component| component.replica_requirements.as_ref());
    let lists = lists.map(|needs| &needs.resource_request);
    let mut lists = lists.chain(spec.replica_requirements.as_ref().map(|needs| &needs.resource_request));
    lists.any(|list| demand::units(list).values().any(|amount| *amount > 0))
}

/// A binding that lacks capacity, as its scheduling cycle saw it.
pub(crate) struct Pending {
    /// Feasible clusters, in the order of preference.
    pub(crate) candidates: Vec<Candidate>,
    /// Desired replicas, or 1 component set.
    pub(crate) total: i64,
    pub(crate) spread: Spread,
    pub(crate) need: Need,
    pub(crate) question: Question,
}

/// The cheapest plan for a binding; one without victims if those suffice that are leaving already. `placed` runs
/// selection and division over changed candidates and returns the result if all replicas have a place.
///
/// # Errors
/// Why no plan helps.
pub(crate) fn plan(
    seen: &Seen<'_>,
    placed: &Placed,
    pending: Pending,
    now: Timestamp,
    fits: &mut dyn FnMut(Vec<Candidate>) -> Option<Vec<TargetCluster>>,
) -> Result<Plan, Unhelpful> {
    let asker = Asker::of(seen.binding.spec());
    let asked = Asked::from(pending.question);
    let eligibility = Eligibility::of(seen, placed, now);
    let avoided = avoided(seen.binding, now);
    let some_by_node = seen.capacity.by_node().next().is_some();
    let mut leave = false;
    let mut site = |mut candidate: Candidate| {
        // Figures of a cluster that is not ready are old, and it deletes nothing (specification/scheduling.md 15.11).
        // One from which the descheduler took replicas back gets none, whatever leaves it.
        let takes_none = seen.capacity.is_silent(&candidate.name) || avoided.contains_key(&candidate.name);
        let on = placed.on(&candidate.name).filter(|on| on.has_below(eligibility.priority));
        let may_gain = on.is_some() || (some_by_node && seen.capacity.is_by_node(&candidate.name));
        let room = (may_gain && !takes_none).then(|| seen.capacity.room(&candidate.name, &asked, &asker)).flatten();
        let Some((room, share)) = room else { return Site { candidate, room: None, units: Vec::new() } };
        // By a summary it is not known who is leaving.
        if room.is_by_node() {
            let now = seen.capacity.fits(&candidate.name, &asked.question, &asker).unwrap_or(0);
            // Less than now where a pod that waits takes what is leaving and more.
            let more = room.base().saturating_sub(now);
            leave |= more > 0;
            candidate.allocatable = candidate.allocatable.saturating_add(more).max(0);
        }
        let units = on.map_or_else(Vec::new, |on| eligibility.units(on, &share, &room));
        Site { candidate, room: Some(room), units }
    };
    let all: Vec<Site<'_>> = pending.candidates.into_iter().map(&mut site).collect();
    // What is on its way for another preemptor is not evicted again.
    if leave && let Some(targets) = fits(all.iter().map(|site| site.candidate.clone()).collect()) {
        return Ok(Plan { victims: Vec::new(), nominated: gained(seen, targets) });
    }
    if all.iter().all(|site| site.units.is_empty()) {
        return Err(Unhelpful::NoVictims);
    }
    let wanted = Wanted { total: pending.total, spread: &pending.spread, need: pending.need };
    let is_spared = |unit: &Unit<'_>| unit.members.iter().any(|member| member.is_spared);
    let sparing = all.iter().flat_map(|site| &site.units).any(is_spared).then(|| {
        let mut sparing = all.clone();
        sparing.iter_mut().for_each(|site| site.units.retain(|unit| !is_spared(unit)));
        clusters::choose(&sparing, wanted, fits)
    });
    sparing.flatten().or_else(|| clusters::choose(&all, wanted, fits)).ok_or(Unhelpful::StillTooLittle)
}

/// Part of a result that the binding does not have yet.
fn gained(seen: &Seen<'_>, targets: Vec<TargetCluster>) -> Vec<TargetCluster> {
    let spec = seen.binding.spec();
    let before = |name: &str| spec.target(name).map_or(0, |target| target.replicas);
    let more = targets.into_iter().map(|target| TargetCluster {
        replicas: target.replicas.saturating_sub(before(&target.name)),
        components: Vec::new(),
        ..target
    });
    let sets = spec.components.len() > 1;
    more.filter(|target| target.replicas > 0 || (sets && spec.target(&target.name).is_none())).collect()
}

/// Rules by which bindings may leave clusters for one preemptor (specification/scheduling.md 15.3).
struct Eligibility<'s> {
    priority: i32,
    /// Its key, if the index has the binding with a lower priority than the one that is asked about.
    key: Option<BindingKey>,
    /// Its affinity group.
    group: Option<(Arc<str>, Arc<str>)>,
    /// Gate `WorkloadAffinity`.
    is_grouped: bool,
    /// Name of the scheduler; `None` is the default one.
    scheduler: Option<&'s str>,
    now: Timestamp,
}

impl<'s> Eligibility<'s> {
    fn of(seen: &Seen<'s>, placed: &Placed, now: Timestamp) -> Self {
        let (key, priority) = (seen.binding.key(), priority(seen.binding.spec()));
        Self {
            priority,
            key: placed.priority_of(&key).is_some_and(|indexed| indexed < priority).then_some(key),
            group: affinity_group(seen),
            is_grouped: seen.options.workload_affinity,
            scheduler: named(&seen.options.scheduler_name),
            now,
        }
    }

    fn may_leave(&self, other: &BindingKey, occupant: &Occupant) -> bool {
        occupant.may_leave && occupant.scheduler.as_deref() == self.scheduler && self.key.as_ref() != Some(other)
    }

    fn group_of(&self, other: &BindingKey, occupant: &Occupant) -> Option<(Arc<str>, Arc<str>)> {
        let group = occupant.group.as_ref().filter(|_| self.is_grouped)?;
        Some((other.namespace.clone(), group.clone()))
    }

    /// Bindings on a cluster that may leave it.
    fn units<'a>(&self, on: &'a Occupants, share: &Share<'_>, room: &Room<'_>) -> Vec<Unit<'a>> {
        // Members that stay pin the others to the cluster, which could then never be placed again.
        let staying = self.is_grouped.then(|| on.from(self.priority)).into_iter().flatten();
        let mut pinned: BTreeSet<_> = staying.filter_map(|(other, occupant)| self.group_of(other, occupant)).collect();
        let mut singles = Vec::with_capacity(on.len());
        let mut groups: BTreeMap<_, Unit<'a>> = BTreeMap::new();
        for (priority, other, occupant) in on.below(self.priority) {
            let group = self.group_of(other, occupant);
            if !self.may_leave(other, occupant) {
                pinned.extend(group);
                continue;
            }
            let spared_until = occupant.preempted.and_then(|at| at.checked_add(SPARED_FOR).ok());
            let member = Member {
                key: other,
                priority,
                replicas: occupant.replicas,
                scheduled: occupant.scheduled,
                is_spared: spared_until.is_some_and(|until| self.now < until),
            };
            let freed = room.freed(&other.namespace, occupant.workload, &occupant.footprint, share);
            match (group, freed) {
                // Who has nothing there frees nothing.
                (None, None) => {}
                (None, Some(freed)) => {
                    let Freed { amounts, share, leaving } = freed;
                    let leaving = leaving.into_iter().collect();
                    singles.push(Unit { members: smallvec![member], freed: amounts, share, leaving });
                }
                (Some(group), _) if self.group.as_ref() == Some(&group) => {}
                (Some(group), freed) => {
                    let unit = groups.entry(group).or_insert_with(|| Unit {
                        members: SmallVec::new(),
                        freed: smallvec![0; room.width()],
                        share: 0,
                        leaving: Vec::new(),
                    });
                    unit.members.push(member);
                    let Some(freed) = freed else { continue };
                    unit.share += freed.share;
                    for (sum, more) in unit.freed.iter_mut().zip(&freed.amounts) {
                        *sum = sum.saturating_add(*more);
                    }
                    unit.leaving.extend(freed.leaving);
                }
            }
        }
        singles.extend(groups.into_iter().filter(|(group, _)| !pinned.contains(group)).map(|(_, unit)| unit));
        singles
    }
}

fn affinity_group(seen: &Seen<'_>) -> Option<(Arc<str>, Arc<str>)> {
    let groups = seen.binding.spec().workload_affinity_groups.as_ref().filter(|_| seen.options.workload_affinity)?;
    let group = Some(groups.affinity_group.as_str()).filter(|group| !group.is_empty())?;
    Some((seen.binding.key().namespace, group.into()))
}
