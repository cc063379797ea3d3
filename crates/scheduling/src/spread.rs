//! Selection of clusters by spread constraints (specification/scheduling.md 7).

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    Candidate,
    topology::{self, Fleet},
};

pub use crate::topology::Topology;

/// Permitted number of groups of a constraint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Minimum.
    pub min: usize,
    /// Maximum; `usize::MAX` is no limit.
    pub max: usize,
}

impl Bounds {
    /// Bounds of a policy's `minGroups` and `maxGroups`: a minimum of 0 is 1, a maximum of 0 is no limit
    /// (specification/scheduling.md 16.12).
    #[must_use]
    pub fn new(min_groups: i64, max_groups: i64) -> Self {
        let max = usize::try_from(max_groups).ok().filter(|max| *max > 0).unwrap_or(usize::MAX);
        Self { min: usize::try_from(min_groups).unwrap_or(0).max(1), max }
    }
}

/// Replicas that the selected clusters together must be able to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Capacity is ignored: every cluster gets the whole count.
    DontCare,
    /// This number of replicas or component sets.
    Replicas(i64),
}

/// Constraint on the number of groups of clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    /// Topology that makes the groups.
    pub topology: Topology,
    /// Their number.
    pub bounds: Bounds,
}

/// Selection rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spread {
    /// All feasible clusters.
    All,
    /// A number of clusters.
    Clusters(Bounds),
    /// A number of groups, as regions, and of clusters in them.
    Groups {
        /// Bounds of the groups, at least one, the one that decides first in front.
        by: Vec<Grouping>,
        /// Bounds of the clusters in all of them together.
        clusters: Bounds,
        /// `spec.replicas`; scores of groups depend on it.
        replicas: i64,
    },
    /// Constraints that name neither a field nor a label; admission completes them.
    Unsupported,
}

impl Spread {
    /// Returns the topologies by which candidates are grouped.
    pub(crate) fn topologies(&self) -> impl Iterator<Item = &Topology> {
        let by = if let Self::Groups { by, .. } = self { by.as_slice() } else { &[] };
        by.iter().map(|grouping| &grouping.topology)
    }
}

/// Reason why no selection satisfies the constraints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// Too few feasible clusters.
    #[error("the number of feasible clusters is less than spreadConstraint.MinGroups")]
    TooFewClusters,
    /// Too few groups among the feasible clusters.
    #[error("the number of feasible {0} is less than spreadConstraint.MinGroups")]
    TooFewGroups(Topology),
    /// No permitted number of groups has enough clusters.
    #[error("the number of clusters is less than the cluster spreadConstraint.MinGroups")]
    TooFewClustersInGroups,
    /// Each constraint can be satisfied, but not all of them by the same clusters.
    #[error("no clusters satisfy the spread constraints by {} and cluster together", by(.0))]
    Together(Vec<Topology>),
    /// Even the clusters with the most capacity cannot run the replicas.
    #[error("no enough resource when selecting {clusters} clusters")]
    InsufficientCapacity {
        /// Permitted number of clusters.
        clusters: usize,
    },
    /// Nothing is named.
    #[error("a spread constraint names neither spreadByField nor spreadByLabel: name one of them")]
    Unsupported,
}

fn by(topologies: &[Topology]) -> String {
    topologies.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Result of a selection.
#[derive(Debug, PartialEq, Eq)]
pub struct Selection {
    /// The selected candidates, in the order in which they are used.
    pub selected: Vec<Candidate>,
    /// The other ones.
    pub rest: Vec<Candidate>,
}

/// Selects among `candidates`, which are in the order of [`Candidate::sort`].
///
/// # Errors
/// If the constraints cannot be satisfied.
pub fn select(mut candidates: Vec<Candidate>, spread: &Spread, need: Need) -> Result<Selection, SelectError> {
    match spread {
        Spread::All => Ok(Selection { selected: candidates, rest: Vec::new() }),
        Spread::Clusters(bounds) => {
            let count = by_cluster(&mut candidates, *bounds, need)?;
            let rest = candidates.split_off(count);
            Ok(Selection { selected: candidates, rest })
        }
        Spread::Groups { by, clusters, replicas } => {
            let chosen = topology::select(&Fleet::of(&candidates, by.len()), by, *clusters, *replicas, need)?;
            let mut all: Vec<Option<Candidate>> = candidates.into_iter().map(Some).collect();
            let selected = chosen.into_iter().filter_map(|at| all[at].take()).collect();
            Ok(Selection { selected, rest: all.into_iter().flatten().collect() })
        }
        Spread::Unsupported => Err(SelectError::Unsupported),
    }
}

/// Selects the first `k`, then replaces the last ones by clusters with more capacity until the need is met
/// (specification/scheduling.md 7.3). Returns `k`.
fn by_cluster(candidates: &mut [Candidate], bounds: Bounds, need: Need) -> Result<usize, SelectError> {
    if candidates.len() < bounds.min {
        return Err(SelectError::TooFewClusters);
    }
    let k = candidates.len().min(bounds.max);
    let Need::Replicas(need) = need else { return Ok(k) };
    let is_enough = exchange_for_capacity(candidates, k, need, Candidate::available);
    is_enough.then_some(k).ok_or(SelectError::InsufficientCapacity { clusters: k })
}

/// Replaces the last of the first `k` by clusters of the rest with more capacity, as few as needed. Returns whether
/// they meet `need`.
pub(crate) fn exchange_for_capacity<C>(
    candidates: &mut [C],
    k: usize,
    need: i64,
    available: impl Fn(&C) -> i64,
) -> bool {
    let (chosen, rest) = candidates.split_at_mut(k);
    let mut sum: i128 = chosen.iter().map(|c| i128::from(available(c))).sum();
    if sum >= i128::from(need) {
        return true;
    }
    // The first of several equal ones is on top.
    let mut largest: BinaryHeap<(i64, Reverse<usize>)> =
        rest.iter().enumerate().map(|(at, candidate)| (available(candidate), Reverse(at))).collect();
    for place in chosen.iter_mut().rev() {
        if sum >= i128::from(need) {
            break;
        }
        let Some(mut top) = largest.peek_mut() else { break };
        let ((more, Reverse(at)), less) = (*top, available(place));
        if more > less {
            sum += i128::from(more) - i128::from(less);
            std::mem::swap(place, &mut rest[at]);
            top.0 = less;
        }
    }
    sum >= i128::from(need)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::candidate;
    use proptest::prelude::*;

    fn names(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|c| &*c.name.0).collect()
    }

    #[test]
    fn by_cluster_worked_examples() {
        let four = [("m4", 60, 50), ("m2", 40, 60), ("m3", 30, 80), ("m1", 20, 40)];
        let three = [("m1", 60, 40), ("m2", 50, 30), ("m3", 40, 60)];
        let two = |max| Spread::Clusters(Bounds { min: 1, max });
        let rows: &[(&[(&str, i64, i64)], Spread, Need, Result<&[&str], SelectError>)] = &[
            (&four, two(2), Need::Replicas(100), Ok(&["m4", "m2"])),
            (&four, two(2), Need::Replicas(120), Ok(&["m4", "m3"])),
            (&four, two(2), Need::DontCare, Ok(&["m4", "m2"])),
            (&four, two(2), Need::Replicas(200), Err(SelectError::InsufficientCapacity { clusters: 2 })),
            (&three, two(2), Need::Replicas(80), Ok(&["m1", "m3"])),
            (&three, Spread::Clusters(Bounds::new(0, 0)), Need::Replicas(1), Ok(&["m1", "m2", "m3"])),
            (&three, Spread::Clusters(Bounds::new(3, 3)), Need::DontCare, Ok(&["m1", "m2", "m3"])),
            (&three, Spread::Clusters(Bounds::new(4, 0)), Need::DontCare, Err(SelectError::TooFewClusters)),
            (&three, Spread::All, Need::Replicas(1_000), Ok(&["m1", "m2", "m3"])),
            (&three, Spread::Unsupported, Need::DontCare, Err(SelectError::Unsupported)),
        ];
        for (clusters, spread, need, want) in rows {
            let mut all: Vec<_> =
                clusters.iter().map(|(n, score, available)| candidate(n, *score, *available)).collect();
            Candidate::sort(&mut all);
            let got = select(all, spread, *need);
            assert_eq!(
                got.as_ref().map(|found| names(&found.selected)),
                want.as_ref().map(|w| w.to_vec()),
                "{spread:?} {need:?}"
            );
        }
    }

    #[test]
    fn order_is_tier_then_score_then_available_then_name() {
        let mut all = vec![
            Candidate { tier: 1, ..candidate("a", 100, 9) },
            candidate("d", 0, 5),
            candidate("c", 0, 5),
            candidate("b", 0, 7),
            candidate("e", 100, 1),
        ];
        Candidate::sort(&mut all);
        assert_eq!(names(&all), ["e", "b", "c", "d", "a"]);
    }

    /// The exchange word for word (specification/scheduling.md 7.3).
    fn exchanged_slowly(candidates: &mut [Candidate], k: usize, need: i64) -> bool {
        let sum = |chosen: &[Candidate]| chosen.iter().map(Candidate::available).sum::<i64>();
        for place in (0..k).rev() {
            if sum(&candidates[..k]) >= need {
                break;
            }
            let largest = candidates[k..].iter().map(Candidate::available).max();
            let first = (k..candidates.len()).find(|at| Some(candidates[*at].available()) == largest);
            if let Some(at) = first.filter(|at| candidates[*at].available() > candidates[place].available()) {
                candidates.swap(place, at);
            }
        }
        sum(&candidates[..k]) >= need
    }

    proptest! {
        #[test]
        fn exchange_is_the_one_of_the_specification(
            capacity in prop::collection::vec((0_i64..2, 0_i64..9), 1..12), k in 0_usize..12, need in 0_i64..60,
        ) {
            let mut all: Vec<_> =
                capacity.iter().enumerate().map(|(i, (score, capacity))| candidate(&format!("m{i}"), score * 100, *capacity)).collect();
            Candidate::sort(&mut all);
            let k = k.min(all.len());
            let mut slow = all.clone();
            prop_assert_eq!(exchange_for_capacity(&mut all, k, need, Candidate::available), exchanged_slowly(&mut slow, k, need));
            prop_assert_eq!(names(&all), names(&slow));
        }

        #[test]
        fn succeeds_exactly_when_the_largest_clusters_meet_the_need(
            capacity in prop::collection::vec((0_i64..2, 0_i64..50), 1..10), max in 1_usize..10, need in 0_i64..200,
        ) {
            let mut all: Vec<_> =
                capacity.iter().enumerate().map(|(i, (score, capacity))| candidate(&format!("m{i}"), score * 100, *capacity)).collect();
            Candidate::sort(&mut all);
            let mut best: Vec<_> = all.iter().map(Candidate::available).collect();
            best.sort_unstable_by_key(|capacity| std::cmp::Reverse(*capacity));
            let k = max.min(all.len());
            let holds = best[..k].iter().sum::<i64>() >= need;
            let got = select(all, &Spread::Clusters(Bounds { min: 1, max }), Need::Replicas(need));
            let found = got.as_ref().map(|found| found.selected.len());
            let short = SelectError::InsufficientCapacity { clusters: k };
            prop_assert_eq!(found, if holds { Ok(k) } else { Err(&short) });
            if let Ok(found) = got {
                prop_assert!(found.selected.iter().map(Candidate::available).sum::<i64>() >= need);
            }
        }
    }
}
