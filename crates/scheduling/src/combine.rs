//! Selection of clusters that satisfies several spread constraints at once, or one whose groups overlap
//! (specification/scheduling.md 7.7).
//!
//! The sets of groups of the first constraint are tried in their order of preference, then all clusters. In each, a
//! search adds clusters, preferred ones first, until every minimum holds, then as many more as the maxima permit. It
//! leaves out only what cannot succeed, so within its budget it finds a selection if there is one.

use std::{cmp::Reverse, collections::BTreeSet};

use crate::{
    spread::{Bounds, Grouping, Need, SelectError},
    topology::Fleet,
};

/// Clusters that the search among all of them looks at before it gives up.
const BUDGET: usize = 1_000_000;
/// The same for one set of groups of the first constraint.
const PATH_BUDGET: usize = 50_000;
/// Sets of groups of the first constraint that are tried.
const PATHS_MAX: usize = 16;

/// Selects candidates that satisfy all constraints `by` and the bounds of clusters. `paths` are sets of groups of the
/// first constraint, the best first.
pub(crate) fn select(
    fleet: &Fleet,
    by: &[Grouping],
    clusters: Bounds,
    need: Need,
    paths: &[Vec<usize>],
) -> Result<Vec<usize>, SelectError> {
    let few = by.iter().enumerate().find(|(at, grouping)| fleet.memberships.count(*at) < grouping.bounds.min);
    if let Some((_, few)) = few {
        return Err(SelectError::TooFewGroups(few.topology.clone()));
    }
    if fleet.figures.len() < clusters.min {
        return Err(SelectError::TooFewClustersInGroups);
    }
    // A maximum of clusters below the minimum of groups yields: each group gets one cluster (7.4).
    let required = by.iter().map(|grouping| grouping.bounds.min).max().unwrap_or(0);
    let limits = BTreeSet::from([clusters.max, clusters.max.max(required)]);
    for max in limits {
        let clusters = Bounds { max, ..clusters };
        if let Some(found) = search_paths(fleet, by, clusters, need, paths) {
            return Ok(found);
        }
        if need != Need::DontCare
            && let Some(found) = search_paths(fleet, by, clusters, Need::DontCare, paths)
        {
            return Err(SelectError::InsufficientCapacity { clusters: found.len() });
        }
    }
    Err(SelectError::Together(by.iter().map(|grouping| grouping.topology.clone()).collect()))
}

fn search_paths(
    fleet: &Fleet,
    by: &[Grouping],
    clusters: Bounds,
    need: Need,
    paths: &[Vec<usize>],
) -> Option<Vec<usize>> {
    let all: Vec<Bounds> = by.iter().map(|grouping| grouping.bounds).collect();
    let candidates = fleet.figures.len();
    let inside = |path: &Vec<usize>| {
        let mut bounds = all.clone();
        bounds[0].min = path.len();
        let mut permitted = vec![false; fleet.memberships.count(0)];
        path.iter().for_each(|group| permitted[*group] = true);
        let is_inside = |c: usize| fleet.memberships.groups(c, 0).iter().all(|group| permitted[*group]);
        search(fleet, (0..candidates).map(is_inside).collect(), bounds, clusters, need, PATH_BUDGET)
    };
    let everywhere = || search(fleet, vec![true; candidates], all.clone(), clusters, need, BUDGET);
    paths.iter().take(PATHS_MAX).find_map(inside).or_else(everywhere)
}

fn search(
    fleet: &Fleet,
    free: Vec<bool>,
    bounds: Vec<Bounds>,
    clusters: Bounds,
    need: Need,
    budget: usize,
) -> Option<Vec<usize>> {
    let counts: Vec<Vec<usize>> = (0..bounds.len()).map(|at| vec![0; fleet.memberships.count(at)]).collect();
    let used = Used { fleet, groups: vec![0; counts.len()], counts };
    let mut search = Search { fleet, bounds, clusters, need, free, chosen: Vec::new(), used, budget };
    search.run()
}

/// Groups that the chosen clusters are in.
#[derive(Clone)]
struct Used<'a> {
    fleet: &'a Fleet,
    /// Chosen clusters in each group, for each constraint.
    counts: Vec<Vec<usize>>,
    /// Groups with at least one, for each constraint.
    groups: Vec<usize>,
}

impl Used<'_> {
    fn add(&mut self, candidate: usize) {
        for (constraint, (counts, groups)) in self.counts.iter_mut().zip(&mut self.groups).enumerate() {
            for group in self.fleet.memberships.groups(candidate, constraint) {
                counts[*group] += 1;
                *groups += usize::from(counts[*group] == 1);
            }
        }
    }

    fn remove(&mut self, candidate: usize) {
        for (constraint, (counts, groups)) in self.counts.iter_mut().zip(&mut self.groups).enumerate() {
            for group in self.fleet.memberships.groups(candidate, constraint) {
                counts[*group] -= 1;
                *groups -= usize::from(counts[*group] == 0);
            }
        }
    }

    /// Groups of a constraint that this cluster would add.
    fn added(&self, constraint: usize, candidate: usize) -> usize {
        let groups = self.fleet.memberships.groups(candidate, constraint);
        groups.iter().filter(|group| self.counts[constraint][**group] == 0).count()
    }

    /// Returns whether no maximum is exceeded with this cluster.
    fn admits(&self, bounds: &[Bounds], candidate: usize) -> bool {
        bounds.iter().enumerate().all(|(at, bounds)| {
            bounds.max == usize::MAX || self.groups[at].saturating_add(self.added(at, candidate)) <= bounds.max
        })
    }
}

struct Search<'a> {
    fleet: &'a Fleet,
    bounds: Vec<Bounds>,
    clusters: Bounds,
    need: Need,
    /// Candidates that may still be chosen.
    free: Vec<bool>,
    chosen: Vec<usize>,
    used: Used<'a>,
    budget: usize,
}

impl Search<'_> {
    /// Extends the chosen clusters by free ones to a permitted selection.
    fn run(&mut self) -> Option<Vec<usize>> {
        let unmet = (0..self.bounds.len()).find(|i| self.used.groups[*i] < self.bounds[*i].min);
        if unmet.is_none()
            && let Some(found) = self.filled()
        {
            return Some(found);
        }
        if self.chosen.len() >= self.clusters.max || !self.can_succeed() {
            return None;
        }
        let mut tried: Vec<usize> = Vec::new();
        let mut found = None;
        for next in 0..self.free.len() {
            if self.budget == 0 {
                break;
            }
            self.budget -= 1;
            let helps = || unmet.is_none_or(|constraint| self.used.added(constraint, next) > 0);
            let may_help = self.free[next] && helps() && self.used.admits(&self.bounds, next);
            if !may_help || self.is_no_better(next, &tried) {
                continue;
            }
            self.free[next] = false;
            tried.push(next);
            self.chosen.push(next);
            self.used.add(next);
            found = self.run();
            self.used.remove(next);
            self.chosen.pop();
            if found.is_some() {
                break;
            }
        }
        for next in tried {
            self.free[next] = true;
        }
        found
    }

    fn available(&self, candidate: usize) -> i64 {
        self.fleet.available(candidate)
    }

    /// Returns whether a candidate of the same groups with as much capacity failed: it could take its place.
    fn is_no_better(&self, next: usize, tried: &[usize]) -> bool {
        let is_enough = |other: usize| self.need == Need::DontCare || self.available(other) >= self.available(next);
        tried.iter().any(|other| is_enough(*other) && self.fleet.memberships.are_alike(*other, next))
    }

    /// Returns whether the free candidates that no maximum excludes suffice for each minimum and for the capacity,
    /// each by itself.
    fn can_succeed(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(self.free.len());
        let more = self.clusters.max - self.chosen.len();
        let is_open = |c: &usize| self.free[*c] && self.used.admits(&self.bounds, *c);
        let open: Vec<usize> = (0..self.free.len()).filter(is_open).collect();
        if self.chosen.len() + open.len() < self.clusters.min {
            return false;
        }
        for (constraint, bounds) in self.bounds.iter().enumerate() {
            let missing = bounds.min.saturating_sub(self.used.groups[constraint]);
            if missing > 0 && !self.can_add(missing, constraint, &open, more) {
                return false;
            }
        }
        let Need::Replicas(need) = self.need else { return true };
        let mut available: Vec<i64> = open.iter().map(|c| self.available(*c)).collect();
        keep_largest(&mut available, more);
        let chosen = self.chosen.iter().map(|c| self.available(*c));
        chosen.chain(available).map(i128::from).sum::<i128>() >= i128::from(need)
    }

    /// Returns whether `more` clusters of those that are open may add the missing groups of the constraint.
    fn can_add(&self, missing: usize, constraint: usize, open: &[usize], more: usize) -> bool {
        let mut seen: Vec<bool> = self.used.counts[constraint].iter().map(|count| *count > 0).collect();
        let mut new = 0;
        for group in open.iter().flat_map(|c| self.fleet.memberships.groups(*c, constraint)) {
            new += usize::from(!std::mem::replace(&mut seen[*group], true));
        }
        let mut added: Vec<usize> = open.iter().map(|c| self.used.added(constraint, *c)).collect();
        keep_largest(&mut added, more);
        new >= missing && added.iter().sum::<usize>() >= missing
    }

    /// The chosen clusters, which meet every minimum of groups, with as many more as are permitted, the preferred
    /// ones first; the last of these are replaced by clusters with more capacity as in 7.3. `None` if that is too
    /// little.
    fn filled(&self) -> Option<Vec<usize>> {
        let (mut used, mut all) = (self.used.clone(), self.chosen.clone());
        let mut rest = Vec::new();
        for next in 0..self.free.len() {
            if self.chosen.contains(&next) || !self.free[next] {
                continue;
            }
            if all.len() < self.clusters.max && used.admits(&self.bounds, next) {
                used.add(next);
                all.push(next);
            } else {
                rest.push(next);
            }
        }
        if all.len() < self.clusters.min {
            return None;
        }
        let Need::Replicas(need) = self.need else { return Some(all) };
        let mut sum: i128 = all.iter().map(|c| i128::from(self.available(*c))).sum();
        for at in (self.chosen.len()..all.len()).rev() {
            if sum >= i128::from(need) {
                break;
            }
            used.remove(all[at]);
            let admitted = (0..rest.len()).rev().filter(|i| used.admits(&self.bounds, rest[*i]));
            // Takes the first of several equal ones; `max_by_key` alone takes the last.
            let best = admitted.max_by_key(|i| self.available(rest[*i]));
            if let Some(i) = best.filter(|i| self.available(rest[*i]) > self.available(all[at])) {
                sum += i128::from(self.available(rest[i])) - i128::from(self.available(all[at]));
                std::mem::swap(&mut rest[i], &mut all[at]);
            }
            used.add(all[at]);
        }
        (sum >= i128::from(need)).then_some(all)
    }
}

/// Keeps the `count` largest numbers, in any order.
fn keep_largest<T: Ord + Copy>(all: &mut Vec<T>, count: usize) {
    if count > 0 && count < all.len() {
        all.select_nth_unstable_by_key(count - 1, |n| Reverse(*n));
    }
    all.truncate(count);
}

#[cfg(test)]
mod tests;
