//! Choice of the clusters on which bindings are preempted (specification/scheduling.md 15.6).

use std::{cmp::Reverse, collections::BTreeMap};

use ironclad_api::work::TargetCluster;
use ironclad_fleet::{BindingKey, ClusterName};

use super::{
    plan::{Plan, Victim},
    victims::{self, Cost, Few, Suffices, Unit},
};
use crate::{
    Candidate,
    capacity::Room,
    spread::{self, Need, Spread},
};

/// A feasible cluster with the bindings that could leave it.
#[derive(Debug, Clone)]
pub(super) struct Site<'a> {
    pub(super) candidate: Candidate,
    /// `None` if its capacity is not known in amounts, or nothing may be evicted there.
    pub(super) room: Option<Room<'a>>,
    pub(super) units: Vec<Unit<'a>>,
}

impl Site<'_> {
    fn name(&self) -> &ClusterName {
        &self.candidate.name
    }

    /// Further replicas that fit once all its units have left.
    fn gain(&self) -> i64 {
        self.gain_with(&self.units)
    }

    fn gain_of(&self, chosen: &[usize]) -> i64 {
        self.gain_with(chosen.iter().map(|at| &self.units[*at]))
    }

    fn gain_with<'u, 'b: 'u>(&self, units: impl IntoIterator<Item = &'u Unit<'b>>) -> i64 {
        let Some(room) = &self.room else { return 0 };
        if room.is_by_node() {
            return room.gain_by_node(units.into_iter().flat_map(|unit| &unit.leaving));
        }
        room.gain_by_sums(&victims::freed(room.width(), units))
    }

    /// Answers with what has to become free for `more` further replicas.
    fn asking<T>(&self, more: i64, answer: impl FnOnce(victims::Wanted<'_>) -> Option<T>) -> Option<T> {
        let room = self.room.as_ref()?;
        let suffices = |chosen: &[usize]| self.gain_of(chosen) >= more;
        let suffices: Option<&Suffices<'_>> = if room.is_by_node() { Some(&suffices) } else { None };
        answer(victims::Wanted { missing: &room.missing(more), suffices })
    }

    /// Lower bound of a draft that makes room here for `more` further replicas; `None` if all units together do not.
    fn bound(&self, more: i64) -> Option<Order<'_>> {
        let (priorities, share) = self.asking(more, |wanted| victims::bound(&self.units, wanted))?;
        Some(Order {
            bindings: priorities.len(),
            priorities,
            clusters: 1,
            share,
            best: Some(Reverse(self.candidate.score)),
            name: Some(self.name()),
        })
    }

    /// The cheapest units that make room for `more` further replicas.
    fn cheapest(&self, more: i64) -> Option<Vec<usize>> {
        self.asking(more, |wanted| victims::cheapest(&self.units, wanted))
    }
}

/// Replicas to place, and the rule for the clusters that take them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Desired replicas, or 1 component set.
    pub(super) total: i64,
    pub(super) spread: &'a Spread,
    pub(super) need: Need,
}

impl Wanted<'_> {
    /// True if one cluster has to take everything.
    fn is_for_one_cluster(&self) -> bool {
        matches!(self.spread, Spread::Clusters(bounds) if bounds.max == 1)
    }
}

/// A set of victims: units by cluster.
struct Draft {
    units: BTreeMap<usize, Vec<usize>>,
    /// Part of the missing replicas that each cluster takes.
    shares: BTreeMap<usize, i64>,
}

/// The cheapest plan that makes room for all replicas, and with which the binding is `placed`. Sites are in the order
/// of [`Candidate::sort`].
pub(super) fn choose(
    sites: &[Site<'_>],
    wanted: Wanted<'_>,
    placed: &mut dyn FnMut(Vec<Candidate>) -> Option<Vec<TargetCluster>>,
) -> Option<Plan> {
    let (used, mut drafts) = if wanted.is_for_one_cluster() {
        ((0..sites.len()).collect(), on_one_cluster(sites, wanted))
    } else {
        let gains: Vec<i64> = sites.iter().map(Site::gain).collect();
        let used = selected(sites, &gains, wanted)?;
        let available = used.iter().fold(0_i64, |sum, at| sum.saturating_add(sites[*at].candidate.available()));
        let missing = wanted.total.saturating_sub(available);
        if missing <= 0 {
            return None;
        }
        let drafts = on_several(sites, &used, &gains, missing);
        (used, drafts)
    };
    while let Some(draft) = drafts.next() {
        let mut candidates: Vec<Candidate> = sites.iter().map(|site| site.candidate.clone()).collect();
        for (at, chosen) in &draft.units {
            let more = sites[*at].gain_of(chosen);
            candidates[*at].allocatable = candidates[*at].allocatable.saturating_add(more);
        }
        if placed(candidates).is_some() {
            return Some(plan(sites, &used, wanted, &draft));
        }
    }
    None
}

/// Drafts in the order of their rank. One for a cluster is made only when no draft that is made already is cheaper than
/// any for that cluster can be.
struct Drafts<'s, 'a> {
    sites: &'s [Site<'a>],
    made: BTreeMap<Rank<'s, 'a>, Draft>,
    /// Clusters that could close the gap, with the replicas to make room for; the one with the lowest bound is last.
    left: Vec<(Order<'s>, usize, i64)>,
}

impl<'s, 'a> Drafts<'s, 'a> {
    /// A draft for each of these clusters, with the replicas to make room for.
    fn each(sites: &'s [Site<'a>], clusters: impl Iterator<Item = (usize, i64)>) -> Self {
        let bounded = |(at, missing): (usize, i64)| Some((sites[at].bound(missing)?, at, missing));
        let mut left: Vec<(Order<'s>, usize, i64)> = clusters.filter_map(bounded).collect();
        left.sort_unstable_by(|a, b| b.cmp(a));
        Self { sites, made: BTreeMap::new(), left }
    }

    fn of(sites: &'s [Site<'a>], draft: Option<Draft>) -> Self {
        let made = draft.into_iter().map(|draft| (Rank::of(sites, &draft), draft)).collect();
        Self { sites, made, left: Vec::new() }
    }

    fn next(&mut self) -> Option<Draft> {
        loop {
            let best = self.made.first_key_value().map(|(rank, _)| &rank.order);
            let next = self.left.pop_if(|(bound, _, _)| best.is_none_or(|best| *bound <= *best));
            let Some((_, at, missing)) = next else { return self.made.pop_first().map(|(_, draft)| draft) };
            let Some(chosen) = self.sites[at].cheapest(missing) else { continue };
            let draft = Draft { units: [(at, chosen)].into(), shares: [(at, missing)].into() };
            self.made.insert(Rank::of(self.sites, &draft), draft);
        }
    }
}

/// Order of drafts: fewest victims, then the lowest priorities, then fewest clusters, then the least that is evicted,
/// then the best cluster. That of a draft, or a lower bound of it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Order<'s> {
    bindings: usize,
    priorities: Few<i32>,
    clusters: usize,
    share: u128,
    best: Option<Reverse<i64>>,
    name: Option<&'s ClusterName>,
}

/// The order of a draft; among equal ones the cost of its victims decides.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'s, 'a> {
    order: Order<'s>,
    cost: Cost<'a>,
}

impl<'s, 'a> Rank<'s, 'a> {
    fn of(sites: &'s [Site<'a>], draft: &Draft) -> Self {
        let units = draft.units.iter().flat_map(|(at, chosen)| chosen.iter().map(|unit| &sites[*at].units[*unit]));
        let cost = Cost::of(units);
        let order = Order {
            bindings: cost.bindings,
            priorities: cost.priorities.clone(),
            clusters: draft.units.len(),
            share: cost.share,
            best: draft.units.keys().map(|at| Reverse(sites[*at].candidate.score)).min(),
            name: draft.units.keys().map(|at| sites[*at].name()).min(),
        };
        Self { order, cost }
    }
}

/// Drafts for a binding that runs on one cluster: every cluster on which all of it fits then.
fn on_one_cluster<'s, 'a>(sites: &'s [Site<'a>], wanted: Wanted<'_>) -> Drafts<'s, 'a> {
    let missing = sites.iter().map(|site| wanted.total.saturating_sub(site.candidate.available()));
    Drafts::each(sites, missing.enumerate().filter(|(_, missing)| *missing > 0))
}

/// Clusters that would be selected if all that may leave had left.
fn selected(sites: &[Site<'_>], gains: &[i64], wanted: Wanted<'_>) -> Option<Vec<usize>> {
    let mut candidates: Vec<Candidate> = sites
        .iter()
        .zip(gains)
        .map(|(site, gain)| {
            let allocatable = site.candidate.allocatable.saturating_add(*gain);
            Candidate { allocatable, ..site.candidate.clone() }
        })
        .collect();
    Candidate::sort(&mut candidates);
    let selected = spread::select(candidates, wanted.spread, wanted.need).ok()?.selected;
    let places: BTreeMap<&ClusterName, usize> = sites.iter().enumerate().map(|(at, site)| (site.name(), at)).collect();
    selected.iter().map(|candidate| places.get(&candidate.name).copied()).collect()
}

/// Drafts for a binding that several clusters share: each cluster that closes the whole gap alone; only if there is
/// none, all of them together.
fn on_several<'s, 'a>(sites: &'s [Site<'a>], used: &[usize], gains: &[i64], missing: i64) -> Drafts<'s, 'a> {
    let alone: Vec<usize> = used.iter().copied().filter(|at| gains[*at] >= missing).collect();
    if alone.is_empty() {
        return Drafts::of(sites, together(sites, used, gains, missing));
    }
    Drafts::each(sites, alone.into_iter().map(|at| (at, missing)))
}

fn together(sites: &[Site<'_>], used: &[usize], gains: &[i64], missing: i64) -> Option<Draft> {
    let mut order: Vec<usize> = used.iter().copied().filter(|at| gains[*at] > 0).collect();
    order.sort_by_key(|at| (Reverse(gains[*at]), Reverse(sites[*at].candidate.score), sites[*at].name()));
    let mut left = missing;
    let mut units: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in order {
        let share = gains[at].min(left);
        units.insert(at, sites[at].cheapest(share)?);
        left -= share;
        if left == 0 {
            break;
        }
    }
    if left > 0 {
        return None;
    }
    give_back(sites, &mut units, missing);
    let mut left = missing;
    let mut shares = BTreeMap::new();
    for (at, chosen) in &units {
        let share = sites[*at].gain_of(chosen).min(left);
        shares.insert(*at, share);
        left -= share;
    }
    Some(Draft { units, shares })
}

/// Gives back units that are not needed, the highest priority first, then the largest.
fn give_back(sites: &[Site<'_>], units: &mut BTreeMap<usize, Vec<usize>>, missing: i64) {
    let mut all: Vec<(usize, usize)> =
        units.iter().flat_map(|(at, chosen)| chosen.iter().map(move |unit| (*at, *unit))).collect();
    let unit = |(at, unit): (usize, usize)| &sites[at].units[unit];
    all.sort_by(|a, b| unit(*b).by_worth(unit(*a)));
    let mut gains: BTreeMap<usize, i64> = units.iter().map(|(at, chosen)| (*at, sites[*at].gain_of(chosen))).collect();
    for (at, unit) in all {
        let Some(chosen) = units.get_mut(&at) else { continue };
        let fewer: Vec<usize> = chosen.iter().copied().filter(|other| *other != unit).collect();
        let gain = sites[at].gain_of(&fewer);
        let others = gains.iter().filter(|(other, _)| **other != at).map(|(_, gain)| *gain);
        if others.fold(gain, i64::saturating_add) < missing {
            continue;
        }
        *chosen = fewer;
        gains.insert(at, gain);
        if chosen.is_empty() {
            units.remove(&at);
        }
    }
}

fn plan(sites: &[Site<'_>], used: &[usize], wanted: Wanted<'_>, draft: &Draft) -> Plan {
    let mut victims: Vec<Victim> = Vec::new();
    for (at, chosen) in &draft.units {
        let members = chosen.iter().flat_map(|unit| &sites[*at].units[*unit].members);
        victims.extend(members.map(|member| Victim {
            key: BindingKey::clone(member.key),
            cluster: sites[*at].name().clone(),
            priority: member.priority,
            replicas: member.replicas,
        }));
    }
    victims.sort_by(|a, b| (a.priority, &a.key, &a.cluster).cmp(&(b.priority, &b.key, &b.cluster)));
    let held: Vec<usize> =
        if wanted.is_for_one_cluster() { draft.units.keys().copied().collect() } else { used.into() };
    let mut nominated: Vec<TargetCluster> = held
        .into_iter()
        .map(|at| {
            let candidate = &sites[at].candidate;
            let replicas = candidate.allocatable.saturating_add(draft.shares.get(&at).copied().unwrap_or(0));
            let replicas = i32::try_from(replicas.min(wanted.total)).unwrap_or(i32::MAX);
            TargetCluster { name: candidate.name.to_string(), replicas, components: Vec::new() }
        })
        .filter(|target| target.replicas > 0)
        .collect();
    nominated.sort();
    Plan { victims, nominated }
}
