//! Choice of victims on one cluster (specification/scheduling.md 15.5).

use std::cmp::{Ordering, Reverse};

use ironclad_fleet::BindingKey;
use jiff::Timestamp;
use smallvec::SmallVec;

use crate::{capacity::Amounts, estimator::Leaving};

/// Subsets of one size that are compared at most.
const SUBSETS_MAX: u128 = 10_000;

/// Most sets of victims are this small; larger ones are on the heap.
pub(super) type Few<T> = SmallVec<[T; 6]>;

/// Bindings that leave a cluster together: one, or all members of its affinity group there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unit<'a> {
    pub(super) members: SmallVec<[Member<'a>; 1]>,
    /// Amounts that become free, by resource that the preemptor requests.
    pub(super) freed: Amounts,
    /// Part of the cluster that becomes free, in billionths.
    pub(super) share: u128,
    /// Requests that each member frees, by node; empty where only the summary is known.
    pub(super) leaving: Vec<Leaving>,
}

/// A binding of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member<'a> {
    pub(super) key: &'a BindingKey,
    pub(super) priority: i32,
    pub(super) replicas: i32,
    pub(super) scheduled: Option<Timestamp>,
    /// True if it was preempted a short time ago.
    pub(super) is_spared: bool,
}

/// Cost of a set of victims, compared from the first field to the last; the lowest is best.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost<'a> {
    /// Distinct bindings.
    pub(super) bindings: usize,
    /// Their priorities, the highest first.
    pub(super) priorities: Few<i32>,
    /// Part of the clusters that is evicted.
    pub(super) share: u128,
    /// Times of their last scheduling, the newest first.
    newest: Few<Reverse<Option<Timestamp>>>,
    names: Few<&'a BindingKey>,
}

impl<'a> Cost<'a> {
    /// Cost of these units, which may be on several clusters.
    pub(super) fn of<'b>(units: impl IntoIterator<Item = &'b Unit<'a>>) -> Self
    where
        'a: 'b,
    {
        let mut share = 0;
        let mut members: Few<Member<'a>> = Few::new();
        for unit in units {
            share += unit.share;
            members.extend(unit.members.iter().copied());
        }
        members.sort_by_key(|member| member.key);
        members.dedup_by_key(|member| member.key);
        let names = members.iter().map(|member| member.key).collect();
        let mut priorities: Few<i32> = members.iter().map(|member| member.priority).collect();
        priorities.sort_unstable_by_key(|priority| Reverse(*priority));
        let mut newest: Few<_> = members.iter().map(|member| Reverse(member.scheduled)).collect();
        newest.sort_unstable();
        Self { bindings: members.len(), priorities, share, newest, names }
    }
}

impl Unit<'_> {
    /// Highest priority of its members.
    pub(super) fn priority(&self) -> i32 {
        self.members.iter().map(|member| member.priority).max().unwrap_or(i32::MIN)
    }

    /// Order by [`Cost`], without its allocations for units of one binding.
    fn by_cost(&self, other: &Self) -> Ordering {
        let ([one], [another]) = (&*self.members, &*other.members) else {
            return Cost::of([self]).cmp(&Cost::of([other]));
        };
        let rank = |unit: &Self, member: &Member<'_>| (member.priority, unit.share, Reverse(member.scheduled));
        rank(self, one).cmp(&rank(other, another)).then_with(|| one.key.cmp(another.key))
    }

    /// The order in which units are taken: the lowest priority and the smallest part of the cluster first.
    pub(super) fn by_worth(&self, other: &Self) -> Ordering {
        (self.priority(), self.share).cmp(&(other.priority(), other.share)).then_with(|| self.by_cost(other))
    }
}

/// Sum of what these units free.
pub(super) fn freed<'a, 'b: 'a>(width: usize, units: impl IntoIterator<Item = &'a Unit<'b>>) -> Amounts {
    let mut sum = smallvec::smallvec![0; width];
    for unit in units {
        add(&mut sum, &unit.freed);
    }
    sum
}

/// Returns whether a set of units makes the room that is wanted.
pub(super) type Suffices<'w> = dyn Fn(&[usize]) -> bool + 'w;

/// Room that a set of units has to make.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w> {
    /// Amounts that have to become free at least.
    pub(super) missing: &'w [i64],
    /// Returns whether a set that frees these amounts makes the room; `None` if they suffice.
    pub(super) suffices: Option<&'w Suffices<'w>>,
}

impl Wanted<'_> {
    fn is_met(&self, sum: &[i64], chosen: &[usize]) -> bool {
        covers(sum, self.missing) && self.suffices.is_none_or(|suffices| suffices(chosen))
    }

    /// Returns whether a unit may be of use: where enough is free in sum, it may be free in the wrong places, and who
    /// waits for a node takes what others leave.
    fn helps(&self, unit: &Unit<'_>) -> bool {
        if self.suffices.is_some() && unit.leaving.iter().any(|leaving| leaving.competes) {
            return true;
        }
        let counts = |missing: i64| missing > 0 || self.suffices.is_some();
        unit.freed.iter().zip(self.missing).any(|(freed, missing)| counts(*missing) && *freed > 0)
    }
}

/// The cheapest set of units that makes the wanted room; the indexes are in ascending order. `None` if all units
/// together do not.
///
/// Sets are compared exactly as long as there are at most 10,000 of a size. Beyond that units are taken from the lowest
/// priority upwards until enough is free, and those that turn out not to be needed are given back, the highest priority
/// first.
pub(super) fn cheapest(units: &[Unit<'_>], wanted: Wanted<'_>) -> Option<Vec<usize>> {
    let missing = wanted.missing;
    let mut useful: Vec<usize> = (0..units.len()).filter(|at| wanted.helps(&units[*at])).collect();
    if !wanted.is_met(&freed(missing.len(), useful.iter().map(|at| &units[*at])), &useful) {
        return None;
    }
    // One binding that suffices is cheaper than any set of several.
    let mut alone: Vec<usize> = useful.iter().copied().filter(|at| covers(&units[*at].freed, missing)).collect();
    alone.sort_by(|a, b| units[*a].by_cost(&units[*b]));
    let alone = alone.into_iter().find(|at| wanted.is_met(&units[*at].freed, &[*at]));
    if let Some(at) = alone.filter(|at| units[*at].members.len() == 1) {
        return Some(vec![at]);
    }
    useful.sort_by(|a, b| units[*a].by_worth(&units[*b]));
    let mut best: Option<(Cost<'_>, Few<usize>)> = None;
    let are_single = useful.iter().all(|at| units[*at].members.len() == 1);
    for size in fewest(units, &useful, missing).max(1)..=useful.len() {
        // A set of more units has more bindings than the best one.
        if best.as_ref().is_some_and(|(cost, _)| cost.bindings < size) || subsets(useful.len(), size) > SUBSETS_MAX {
            break;
        }
        let mut search = Search { units, useful: &useful, wanted, are_single, chosen: Few::new(), best };
        search.subsets(0, size, &smallvec::smallvec![0; missing.len()]);
        best = search.best;
    }
    let mut chosen = match best {
        Some((_, chosen)) => chosen.into_vec(),
        None => accumulated(units, &useful, wanted),
    };
    chosen.sort_unstable();
    Some(chosen)
}

/// Lower bound of the cost of a set that frees `missing`: no set has fewer bindings, and one with as many has these
/// priorities and this share or higher ones. Far cheaper than the search for the set. `None` if no set suffices.
pub(super) fn bound(units: &[Unit<'_>], wanted: Wanted<'_>) -> Option<(Few<i32>, u128)> {
    let missing = wanted.missing;
    let useful: SmallVec<[usize; 16]> = (0..units.len()).filter(|at| wanted.helps(&units[*at])).collect();
    if !covers(&freed(missing.len(), useful.iter().map(|at| &units[*at])), missing) {
        return None;
    }
    let count = fewest(units, &useful, missing).max(1);
    let mut priorities: SmallVec<[i32; 16]> = useful.iter().map(|at| units[*at].priority()).collect();
    let mut shares: SmallVec<[u128; 16]> = useful.iter().map(|at| units[*at].share).collect();
    priorities.sort_unstable();
    shares.sort_unstable();
    // A set of this number of bindings has as many units, each of one binding.
    let lowest = priorities.get(..count)?.iter().rev().copied().collect();
    Some((lowest, shares.iter().take(count).sum()))
}

/// Returns whether these amounts suffice.
fn covers(freed: &[i64], missing: &[i64]) -> bool {
    freed.iter().zip(missing).all(|(freed, missing)| freed >= missing)
}

/// Size of the smallest set that could suffice: for each resource, the number of the largest units.
fn fewest(units: &[Unit<'_>], useful: &[usize], missing: &[i64]) -> usize {
    let of = |resource: usize| {
        let mut amounts: SmallVec<[i64; 16]> = useful.iter().map(|at| units[*at].freed[resource]).collect();
        amounts.sort_unstable_by_key(|amount| Reverse(*amount));
        let mut sum = 0_i64;
        amounts
            .iter()
            .take_while(|amount| {
                let wanted = sum < missing[resource];
                sum = sum.saturating_add(**amount);
                wanted
            })
            .count()
    };
    (0..missing.len()).map(of).max().unwrap_or(0)
}

/// Number of subsets of this size, at most a little more than [`SUBSETS_MAX`].
fn subsets(of: usize, size: usize) -> u128 {
    let mut count = 1_u128;
    for taken in 0..size.min(of - size) {
        count = count * (of - taken) as u128 / (taken + 1) as u128;
        if count > SUBSETS_MAX {
            break;
        }
    }
    count
}

struct Search<'s, 'a> {
    units: &'s [Unit<'a>],
    useful: &'s [usize],
    wanted: Wanted<'s>,
    /// True if each unit is one binding: sets of one size then differ in their priorities first.
    are_single: bool,
    chosen: Few<usize>,
    best: Option<(Cost<'a>, Few<usize>)>,
}

impl<'a> Search<'_, 'a> {
    /// Compares all sets that add `more` units from position `from` on to the chosen ones, which free `sum`.
    fn subsets(&mut self, from: usize, more: usize, sum: &Amounts) {
        if more == 0 {
            if covers(sum, self.wanted.missing) {
                let cost = Cost::of(self.chosen());
                if self.best.as_ref().is_none_or(|(best, _)| cost < *best) && self.wanted.is_met(sum, &self.chosen) {
                    self.best = Some((cost, self.chosen.clone()));
                }
            }
            return;
        }
        for at in from..=self.useful.len() - more {
            let index = self.useful[at];
            // All further sets hold this unit or one that is as dear.
            if self.is_dearer_with(&self.units[index], more) {
                break;
            }
            let mut sum = sum.clone();
            add(&mut sum, &self.units[index].freed);
            self.chosen.push(index);
            self.subsets(at + 1, more - 1, &sum);
            self.chosen.pop();
        }
    }

    fn chosen(&self) -> impl DoubleEndedIterator<Item = &Unit<'a>> {
        self.chosen.iter().map(|at| &self.units[*at])
    }

    /// Returns whether each set of the chosen units and `more` units that are at least as dear as this one costs more
    /// than the best set; false if that takes a full comparison.
    fn is_dearer_with(&self, unit: &Unit<'_>, more: usize) -> bool {
        let Some((best, _)) = self.best.as_ref().filter(|_| self.are_single) else { return false };
        // Units are in the order of priority and share, so the chosen ones have no higher priority.
        let least = std::iter::repeat_n(unit.priority(), more).chain(self.chosen().rev().map(Unit::priority));
        let share = || self.chosen().map(|unit| unit.share).sum::<u128>() + unit.share * more as u128;
        least.cmp(best.priorities.iter().copied()).then_with(|| share().cmp(&best.share)).is_gt()
    }
}

fn accumulated(units: &[Unit<'_>], useful: &[usize], wanted: Wanted<'_>) -> Vec<usize> {
    let mut chosen = Vec::new();
    let mut sum: Amounts = smallvec::smallvec![0; wanted.missing.len()];
    for at in useful {
        if !chosen.is_empty() && wanted.is_met(&sum, &chosen) {
            break;
        }
        add(&mut sum, &units[*at].freed);
        chosen.push(*at);
    }
    let mut by_worth = chosen.clone();
    by_worth.sort_by(|a, b| units[*b].by_worth(&units[*a]));
    for at in by_worth {
        let rest: Amounts = sum.iter().zip(&units[at].freed).map(|(sum, amount)| sum.saturating_sub(*amount)).collect();
        let others: Vec<usize> = chosen.iter().copied().filter(|other| *other != at).collect();
        if wanted.is_met(&rest, &others) {
            (chosen, sum) = (others, rest);
        }
    }
    chosen
}

fn add(sum: &mut [i64], amounts: &[i64]) {
    for (sum, amount) in sum.iter_mut().zip(amounts) {
        *sum = sum.saturating_add(*amount);
    }
}
