//! Selection of clusters that satisfies several spread constraints at once, or one whose groups overlap
//! (specification/scheduling.md 7.7).
//!
//! The sets of groups of the first constraint are tried in their order of preference, then all clusters. In each, a
//! search adds clusters, preferred ones first, until every minimum holds, then as many more as the maxima permit. It
//! leaves out only what cannot succeed, so within its budget it finds a selection if there is one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_fleet::ClusterName;

use crate::{
    Candidate,
    spread::{Bounds, Grouping, Need, SelectError},
};

/// Clusters that the search among all of them looks at before it gives up.
const BUDGET: usize = 1_000_000;
/// The same for one set of groups of the first constraint.
const PATH_BUDGET: usize = 50_000;
/// Sets of groups of the first constraint that are tried.
const PATHS_MAX: usize = 16;

/// Selects clusters that satisfy all constraints `by` and the bounds of clusters. `paths` are sets of groups of the
/// first constraint, the best first. Returns indices of `candidates`, which are in the order of [`Candidate::sort`].
pub(crate) fn select(
    candidates: &[Candidate],
    by: &[Grouping],
    clusters: Bounds,
    need: Need,
    paths: &[BTreeSet<Arc<str>>],
) -> Result<Vec<ClusterName>, SelectError> {
    let fleet = Fleet::new(candidates, by);
    if let Some(short) = by.iter().zip(&fleet.groups).find(|(grouping, groups)| **groups < grouping.bounds.min) {
        return Err(SelectError::TooFewGroups(short.0.topology.clone()));
    }
    if candidates.len() < clusters.min {
        return Err(SelectError::TooFewClustersInGroups);
    }
    // A maximum of clusters below the minimum of groups yields: each group gets one cluster (7.4).
    let required = by.iter().map(|grouping| grouping.bounds.min).max().unwrap_or(0);
    let limits = BTreeSet::from([clusters.max, clusters.max.max(required)]);
    for max in limits {
        let clusters = Bounds { max, ..clusters };
        if let Some(found) = fleet.search_paths(by, clusters, need, paths) {
            return Ok(found.into_iter().map(|i| candidates[i].name.clone()).collect());
        }
        if need != Need::DontCare
            && let Some(found) = fleet.search_paths(by, clusters, Need::DontCare, paths)
        {
            return Err(SelectError::InsufficientCapacity { clusters: found.len() });
        }
    }
    Err(SelectError::Together(by.iter().map(|grouping| grouping.topology.clone()).collect()))
}

/// Candidates with their groups as numbers.
struct Fleet<'a> {
    candidates: &'a [Candidate],
    /// Groups of each candidate for each constraint.
    values: Vec<Vec<Vec<usize>>>,
    /// Number of groups for each constraint.
    groups: Vec<usize>,
}

impl<'a> Fleet<'a> {
    fn new(candidates: &'a [Candidate], by: &[Grouping]) -> Self {
        let mut numbers: Vec<BTreeMap<&str, usize>> = vec![BTreeMap::new(); by.len()];
        let mut number = |candidate: &'a Candidate| {
            let number = |(numbers, values): (&mut BTreeMap<&'a str, usize>, &'a Vec<Arc<str>>)| {
                let of = |value: &'a Arc<str>| {
                    let next = numbers.len();
                    *numbers.entry(value).or_insert(next)
                };
                values.iter().map(of).collect::<BTreeSet<_>>().into_iter().collect()
            };
            numbers.iter_mut().zip(&candidate.groups).map(number).collect()
        };
        let values = candidates.iter().map(&mut number).collect();
        Self { candidates, values, groups: numbers.iter().map(BTreeMap::len).collect() }
    }

    fn search_paths(
        &self,
        by: &[Grouping],
        clusters: Bounds,
        need: Need,
        paths: &[BTreeSet<Arc<str>>],
    ) -> Option<Vec<usize>> {
        let all: Vec<Bounds> = by.iter().map(|grouping| grouping.bounds).collect();
        let inside = |path: &BTreeSet<Arc<str>>| {
            let mut bounds = all.clone();
            bounds[0].min = path.len();
            let free = self.candidates.iter().map(|c| c.groups[0].iter().all(|value| path.contains(value))).collect();
            self.search(free, bounds, clusters, need, PATH_BUDGET)
        };
        let everywhere = || self.search(vec![true; self.candidates.len()], all.clone(), clusters, need, BUDGET);
        paths.iter().take(PATHS_MAX).find_map(inside).or_else(everywhere)
    }

    fn search(
        &self,
        free: Vec<bool>,
        bounds: Vec<Bounds>,
        clusters: Bounds,
        need: Need,
        budget: usize,
    ) -> Option<Vec<usize>> {
        let used = Used { counts: self.groups.iter().map(|n| vec![0; *n]).collect(), groups: vec![0; bounds.len()] };
        let mut search = Search { fleet: self, bounds, clusters, need, free, chosen: Vec::new(), used, budget };
        search.run()
    }
}

/// Groups that the chosen clusters are in.
#[derive(Clone)]
struct Used {
    /// Chosen clusters in each group, for each constraint.
    counts: Vec<Vec<usize>>,
    /// Groups with at least one, for each constraint.
    groups: Vec<usize>,
}

impl Used {
    fn add(&mut self, values: &[Vec<usize>]) {
        for ((counts, groups), values) in self.counts.iter_mut().zip(&mut self.groups).zip(values) {
            for value in values {
                counts[*value] += 1;
                *groups += usize::from(counts[*value] == 1);
            }
        }
    }

    fn remove(&mut self, values: &[Vec<usize>]) {
        for ((counts, groups), values) in self.counts.iter_mut().zip(&mut self.groups).zip(values) {
            for value in values {
                counts[*value] -= 1;
                *groups -= usize::from(counts[*value] == 0);
            }
        }
    }

    /// Groups of a constraint that a cluster with these values would add.
    fn added(&self, constraint: usize, values: &[Vec<usize>]) -> usize {
        values[constraint].iter().filter(|value| self.counts[constraint][**value] == 0).count()
    }

    /// Returns whether no maximum is exceeded with a cluster with these values.
    fn admits(&self, bounds: &[Bounds], values: &[Vec<usize>]) -> bool {
        (0..bounds.len()).all(|i| self.groups[i].saturating_add(self.added(i, values)) <= bounds[i].max)
    }
}

struct Search<'a> {
    fleet: &'a Fleet<'a>,
    bounds: Vec<Bounds>,
    clusters: Bounds,
    need: Need,
    /// Candidates that may still be chosen.
    free: Vec<bool>,
    chosen: Vec<usize>,
    used: Used,
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
            let values = &self.fleet.values[next];
            let helps = unmet.is_none_or(|constraint| self.used.added(constraint, values) > 0);
            if !self.free[next] || !helps || !self.used.admits(&self.bounds, values) || self.is_no_better(next, &tried)
            {
                continue;
            }
            self.free[next] = false;
            tried.push(next);
            self.chosen.push(next);
            self.used.add(values);
            found = self.run();
            self.used.remove(values);
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
        self.fleet.candidates[candidate].available()
    }

    /// Returns whether a candidate of the same groups with as much capacity failed: it could take its place.
    fn is_no_better(&self, next: usize, tried: &[usize]) -> bool {
        let is_enough = |other: usize| self.need == Need::DontCare || self.available(other) >= self.available(next);
        tried.iter().any(|other| self.fleet.values[*other] == self.fleet.values[next] && is_enough(*other))
    }

    /// Returns whether the free candidates that no maximum excludes suffice for each minimum and for the capacity,
    /// each by itself.
    fn can_succeed(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(self.free.len());
        let values = &self.fleet.values;
        let more = self.clusters.max - self.chosen.len();
        let open: Vec<usize> =
            (0..self.free.len()).filter(|i| self.free[*i] && self.used.admits(&self.bounds, &values[*i])).collect();
        if self.chosen.len() + open.len() < self.clusters.min {
            return false;
        }
        for (i, bounds) in self.bounds.iter().enumerate() {
            let missing = bounds.min.saturating_sub(self.used.groups[i]);
            if missing == 0 {
                continue;
            }
            let mut added: Vec<usize> = open.iter().map(|c| self.used.added(i, &values[*c])).collect();
            added.sort_unstable_by_key(|n| Reverse(*n));
            let new: BTreeSet<usize> = open.iter().flat_map(|c| values[*c][i].iter().copied()).collect();
            let new = new.iter().filter(|value| self.used.counts[i][**value] == 0).count();
            if new < missing || added.iter().take(more).sum::<usize>() < missing {
                return false;
            }
        }
        let Need::Replicas(need) = self.need else { return true };
        let mut available: Vec<i64> = open.iter().map(|c| self.available(*c)).collect();
        available.sort_unstable_by_key(|n| Reverse(*n));
        let chosen = self.chosen.iter().map(|c| self.available(*c));
        chosen.chain(available.into_iter().take(more)).map(i128::from).sum::<i128>() >= i128::from(need)
    }

    /// The chosen clusters, which meet every minimum of groups, with as many more as are permitted, the preferred
    /// ones first; the last of these are replaced by clusters with more capacity as in 7.3. `None` if that is too
    /// little.
    fn filled(&self) -> Option<Vec<usize>> {
        let values = &self.fleet.values;
        let (mut used, mut all) = (self.used.clone(), self.chosen.clone());
        let mut rest = Vec::new();
        for (next, of_next) in values.iter().enumerate() {
            if self.chosen.contains(&next) || !self.free[next] {
                continue;
            }
            if all.len() < self.clusters.max && used.admits(&self.bounds, of_next) {
                used.add(of_next);
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
            used.remove(&values[all[at]]);
            let admitted = (0..rest.len()).rev().filter(|i| used.admits(&self.bounds, &values[rest[*i]]));
            // Takes the first of several equal ones; `max_by_key` alone takes the last.
            let best = admitted.max_by_key(|i| self.available(rest[*i]));
            if let Some(i) = best.filter(|i| self.available(rest[*i]) > self.available(all[at])) {
                sum += i128::from(self.available(rest[i])) - i128::from(self.available(all[at]));
                std::mem::swap(&mut rest[i], &mut all[at]);
            }
            used.add(&values[all[at]]);
        }
        (sum >= i128::from(need)).then_some(all)
    }
}

#[cfg(test)]
mod tests;
