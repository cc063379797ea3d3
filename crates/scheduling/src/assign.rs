//! Division of replicas among the selected clusters (specification/scheduling.md 8).

use std::collections::BTreeMap;

use ironclad_fleet::ClusterName;

use crate::{
    Candidate,
    divide::{self, TieOrder, Weight},
};

/// Replicas by cluster, without zeros.
pub type Shares = BTreeMap<ClusterName, i64>;

/// Strategy of a division by capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// As few clusters as possible.
    Aggregated,
    /// In proportion to capacity.
    ByCapacity,
}

/// Treatment of the previous result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Keeps the previous result as far as possible.
    Steady,
    /// Ignores the previous result: a reschedule was requested.
    Fresh,
}

/// Insufficient capacity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignError {
    /// The selected clusters together have less capacity than replicas to place.
    #[error("failed to {action}: Clusters available replicas {sum} are not enough to schedule.")]
    NotEnough {
        /// `do fresh scale`, `scale down` or `scale up`.
        action: &'static str,
        /// Total capacity.
        sum: i64,
    },
    /// All tiers of the affinity group together have less capacity than desired replicas.
    #[error("Clusters available replicas are not enough to schedule.")]
    TiersNotEnough,
    /// A preempted workload would get more replicas in a cluster, from what is held for those that it yields to.
    #[error("Cluster {cluster} holds its capacity for workloads of higher priority.")]
    HeldForOthers {
        /// The cluster.
        cluster: ClusterName,
    },
}

/// Assigns the whole count to every selected cluster (specification/scheduling.md 8.3).
#[must_use]
pub fn duplicated(selected: &[Candidate], want: i64) -> Shares {
    if want <= 0 { Shares::new() } else { selected.iter().map(|c| (c.name.clone(), want)).collect() }
}

/// Divides all replicas by static weights; if no cluster has a weight, all weigh the same
/// (specification/scheduling.md 8.4).
#[must_use]
pub fn by_static_weight(mut weights: Vec<Weight>, want: i64, ties: TieOrder) -> Shares {
    if weights.iter().all(|w| w.weight <= 0) {
        weights.iter_mut().for_each(|w| w.weight = 1);
    }
    share(&weights, want, ties)
}

/// Divides by capacity and keeps the previous result (specification/scheduling.md 8.6). With tiers, each is filled
/// before the next one is used.
///
/// # Errors
/// If the capacity is insufficient.
pub fn dynamic(
    selected: &[Candidate],
    want: i64,
    fill: Fill,
    mode: Mode,
    ties: TieOrder,
) -> Result<Shares, AssignError> {
    if selected.iter().all(|c| c.tier == 0) {
        return one_tier(selected, want, fill, mode, ties);
    }
    let mut tiers: BTreeMap<u32, Vec<Candidate>> = BTreeMap::new();
    for candidate in selected {
        tiers.entry(candidate.tier).or_default().push(candidate.clone());
    }
    let mut shares = Shares::new();
    let mut remaining = want;
    for tier in tiers.values() {
        let capacity = tier.iter().fold(0_i64, |sum, c| sum.saturating_add(c.available().max(0)));
        let n = remaining.min(capacity);
        if n > 0 {
            shares.extend(one_tier(tier, n, fill, mode, ties)?);
            remaining -= n;
        }
    }
    if remaining > 0 { Err(AssignError::TiersNotEnough) } else { Ok(shares) }
}

fn one_tier(selected: &[Candidate], want: i64, fill: Fill, mode: Mode, ties: TieOrder) -> Result<Shares, AssignError> {
    let have = selected.iter().fold(0_i64, |sum, c| sum.saturating_add(c.assigned));
    let before =
        || selected.iter().filter(|c| c.assigned > 0).map(|c| (c.name.clone(), c.assigned)).collect::<Shares>();
    let (action, to_assign, capacity, kept): (_, _, fn(&Candidate) -> i64, _) = match mode {
        Mode::Fresh => ("do fresh scale", want, Candidate::available, Shares::new()),
        Mode::Steady if have == want => return Ok(before()),
        Mode::Steady if have > want && leaves_alone(selected, want) => {
            let (fixed, free): (Vec<_>, Vec<_>) = selected.iter().cloned().partition(|c| c.suspended && c.assigned > 0);
            let fixed: Shares = fixed.into_iter().map(|c| (c.name, c.assigned)).collect();
            let mut shares = one_tier(&free, want - fixed.values().sum::<i64>(), fill, mode, ties)?;
            shares.extend(fixed);
            return Ok(shares);
        }
        Mode::Steady if have > want => ("scale down", want, |c| c.assigned, Shares::new()),
        Mode::Steady => ("scale up", want - have, |c| c.allocatable, before()),
    };
    let mut list: Vec<(&Candidate, i64)> = selected.iter().map(|c| (c, capacity(c).max(0))).collect();
    list.sort_by_key(|(_, capacity)| std::cmp::Reverse(*capacity));
    let sum = list.iter().fold(0_i64, |sum, (_, capacity)| sum.saturating_add(*capacity));
    if sum < to_assign {
        return Err(AssignError::NotEnough { action, sum });
    }
    if fill == Fill::Aggregated {
        if !kept.is_empty() {
            list.sort_by_key(|(candidate, _)| candidate.assigned <= 0);
        }
        let mut sum = 0_i64;
        let enough = list.iter().position(|(_, capacity)| {
            sum = sum.saturating_add(*capacity);
            sum >= to_assign
        });
        list.truncate(enough.map_or(list.len(), |last| last + 1));
    }
    let weights: Vec<Weight> =
        list.iter().map(|(c, capacity)| Weight { cluster: c.name.clone(), weight: *capacity }).collect();
    let mut shares = kept;
    for (cluster, more) in share(&weights, to_assign, ties) {
        *shares.entry(cluster).or_default() += more;
    }
    Ok(shares)
}

/// Returns whether clusters with suspended dispatching keep their replicas and the other clusters can take the rest
/// (specification/scheduling.md 16.30).
fn leaves_alone(selected: &[Candidate], want: i64) -> bool {
    let fixed = selected.iter().filter(|c| c.suspended && c.assigned > 0);
    let (n, sum) = fixed.fold((0, 0_i64), |(n, sum), c| (n + 1, sum.saturating_add(c.assigned)));
    n > 0 && sum <= want
}

fn share(weights: &[Weight], want: i64, ties: TieOrder) -> Shares {
    let given = divide::by_weight(want, weights, ties);
    weights.iter().map(|w| w.cluster.clone()).zip(given).filter(|(_, replicas)| *replicas > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::candidate;
    use proptest::prelude::*;

    /// Rows are name, allocatable and previous replicas.
    fn selected(rows: &[(&str, i64, i64)]) -> Vec<Candidate> {
        let mut all: Vec<_> = rows
            .iter()
            .map(|(name, capacity, assigned)| Candidate { assigned: *assigned, ..candidate(name, 0, *capacity) })
            .collect();
        Candidate::sort(&mut all);
        all
    }

    fn shares(rows: &[(&str, i64)]) -> Shares {
        rows.iter().map(|(name, replicas)| ((*name).into(), *replicas)).collect()
    }

    #[test]
    fn dynamic_worked_examples() {
        use Fill::{Aggregated, ByCapacity};
        let up = |sum| Err(AssignError::NotEnough { action: "scale up", sum });
        let rows: &[(&str, Fill, &[(&str, i64, i64)], i64, Result<&[(&str, i64)], AssignError>)] = &[
            (
                "dyn, first",
                ByCapacity,
                &[("A", 6, 0), ("B", 12, 0), ("C", 18, 0)],
                12,
                Ok(&[("A", 2), ("B", 4), ("C", 6)]),
            ),
            (
                "dyn, first",
                ByCapacity,
                &[("m1", 6, 0), ("m2", 8, 0), ("m3", 10, 0)],
                12,
                Ok(&[("m1", 3), ("m2", 4), ("m3", 5)]),
            ),
            (
                "dyn, first",
                ByCapacity,
                &[("m1", 8, 0), ("m2", 8, 0), ("m3", 10, 0)],
                12,
                Ok(&[("m1", 4), ("m2", 4), ("m3", 4)]),
            ),
            (
                "dyn, first",
                ByCapacity,
                &[("m1", 20, 0), ("m2", 12, 0), ("m3", 6, 0)],
                12,
                Ok(&[("m1", 6), ("m2", 4), ("m3", 2)]),
            ),
            ("dyn, first, no capacity", ByCapacity, &[("m1", 3, 0), ("m2", 3, 0), ("m3", 3, 0)], 12, up(9)),
            (
                "dyn, down",
                ByCapacity,
                &[("m1", 1, 2), ("m2", 1, 4), ("m3", 1, 6)],
                6,
                Ok(&[("m1", 1), ("m2", 2), ("m3", 3)]),
            ),
            (
                "dyn, up",
                ByCapacity,
                &[("m1", 10, 2), ("m2", 10, 4), ("m3", 10, 6)],
                24,
                Ok(&[("m1", 6), ("m2", 8), ("m3", 10)]),
            ),
            ("dyn, up, no capacity", ByCapacity, &[("m1", 1, 2), ("m2", 1, 4), ("m3", 1, 6)], 24, up(3)),
            ("dyn, m3 removed, m2 new", ByCapacity, &[("m1", 3, 6), ("m2", 3, 0)], 12, Ok(&[("m1", 9), ("m2", 3)])),
            ("dyn, equal", ByCapacity, &[("m1", 0, 6), ("m2", 9, 3)], 9, Ok(&[("m1", 6), ("m2", 3)])),
            ("dyn, down to nothing", ByCapacity, &[("m1", 1, 2)], 0, Ok(&[])),
            ("aggr, first", Aggregated, &[("m1", 6, 0), ("m2", 8, 0), ("m3", 10, 0)], 12, Ok(&[("m2", 5), ("m3", 7)])),
            ("aggr, first", Aggregated, &[("m1", 12, 0), ("m2", 8, 0), ("m3", 10, 0)], 12, Ok(&[("m1", 12)])),
            ("aggr, down", Aggregated, &[("m1", 1, 4), ("m2", 1, 8), ("m3", 1, 0)], 6, Ok(&[("m2", 6)])),
            ("aggr, down", Aggregated, &[("m1", 100, 4), ("m2", 100, 8)], 8, Ok(&[("m2", 8)])),
            (
                "aggr, up",
                Aggregated,
                &[("m1", 4, 4), ("m2", 6, 8), ("m3", 8, 0)],
                24,
                Ok(&[("m1", 7), ("m2", 12), ("m3", 5)]),
            ),
            ("aggr, up", Aggregated, &[("m1", 6, 4), ("m2", 6, 8), ("m3", 20, 0)], 24, Ok(&[("m1", 10), ("m2", 14)])),
            (
                "aggr, m2 removed, m4 new",
                Aggregated,
                &[("m1", 4, 4), ("m3", 8, 0), ("m4", 12, 0)],
                24,
                Ok(&[("m1", 7), ("m3", 7), ("m4", 10)]),
            ),
        ];
        for (name, fill, clusters, want, result) in rows {
            let got = dynamic(&selected(clusters), *want, *fill, Mode::Steady, TieOrder::Ascending);
            assert_eq!(got, result.clone().map(shares), "{name}: {clusters:?} want {want}");
        }
    }

    #[test]
    fn scaling_down_leaves_suspended_clusters_alone() {
        use Fill::{Aggregated, ByCapacity};
        let rows: &[(&str, Fill, &[(&str, i64)], &[&str], i64, &[(&str, i64)])] = &[
            (
                "nothing suspended",
                ByCapacity,
                &[("m1", 2), ("m2", 4), ("m3", 6)],
                &[],
                6,
                &[("m1", 1), ("m2", 2), ("m3", 3)],
            ),
            (
                "m3 keeps its six",
                ByCapacity,
                &[("m1", 2), ("m2", 4), ("m3", 6)],
                &["m3"],
                9,
                &[("m1", 1), ("m2", 2), ("m3", 6)],
            ),
            ("the others end", ByCapacity, &[("m1", 2), ("m3", 6)], &["m3"], 6, &[("m3", 6)]),
            ("it has more than is wanted", ByCapacity, &[("m1", 2), ("m3", 6)], &["m3"], 4, &[("m1", 1), ("m3", 3)]),
            ("packed around it", Aggregated, &[("m1", 4), ("m2", 8)], &["m1"], 6, &[("m1", 4), ("m2", 2)]),
            ("one that has nothing", ByCapacity, &[("m1", 2), ("m2", 0)], &["m2"], 1, &[("m1", 1)]),
        ];
        for (name, fill, had, suspended, want, result) in rows {
            let rows: Vec<_> = had.iter().map(|(name, had)| (*name, 9, *had)).collect();
            let mut clusters = selected(&rows);
            clusters.iter_mut().for_each(|c| c.suspended = suspended.contains(&&*c.name.0));
            let got = dynamic(&clusters, *want, *fill, Mode::Steady, TieOrder::Ascending);
            assert_eq!(got, Ok(shares(result)), "{name}");
        }
    }

    #[test]
    fn fresh_division_ignores_previous_shares_but_counts_their_capacity() {
        let clusters = selected(&[("m1", 0, 6), ("m2", 12, 0)]);
        let got = dynamic(&clusters, 6, Fill::ByCapacity, Mode::Fresh, TieOrder::Ascending);
        assert_eq!(got, Ok(shares(&[("m1", 2), ("m2", 4)])));
        let none = dynamic(&clusters, 19, Fill::ByCapacity, Mode::Fresh, TieOrder::Ascending);
        assert_eq!(
            none.unwrap_err().to_string(),
            "failed to do fresh scale: Clusters available replicas 18 are not enough to schedule."
        );
    }

    #[test]
    fn tiers_fill_in_order_and_empty_in_reverse() {
        // Allocatable and previous replicas of the group's own cluster m1 and of the overflow cluster m2.
        let rows: &[((i64, i64), (i64, i64), i64, Result<&[(&str, i64)], AssignError>)] = &[
            ((10, 0), (10, 0), 5, Ok(&[("m1", 5)])),
            ((2, 0), (10, 0), 5, Ok(&[("m1", 2), ("m2", 3)])),
            ((2, 0), (2, 0), 10, Err(AssignError::TiersNotEnough)),
            ((2, 3), (10, 0), 8, Ok(&[("m1", 5), ("m2", 3)])),
            ((5, 5), (7, 3), 6, Ok(&[("m1", 6)])),
        ];
        for (own, overflow, want, result) in rows {
            let mut clusters = selected(&[("m1", own.0, own.1)]);
            clusters.push(Candidate { tier: 1, assigned: overflow.1, ..candidate("m2", 0, overflow.0) });
            let got = dynamic(&clusters, *want, Fill::ByCapacity, Mode::Steady, TieOrder::Ascending);
            assert_eq!(got, result.clone().map(shares), "{own:?} {overflow:?} want {want}");
        }
    }

    #[test]
    fn static_weights_fall_back_to_equal_ones() {
        let weights =
            |rows: &[(&str, i64)]| rows.iter().map(|(n, w)| Weight { cluster: (*n).into(), weight: *w }).collect();
        let share = |rows: &[(&str, i64)], want| by_static_weight(weights(rows), want, TieOrder::Ascending);
        assert_eq!(share(&[("m1", 2), ("m2", 1), ("m3", 0)], 3), shares(&[("m1", 2), ("m2", 1)]), "no weight, no part");
        assert_eq!(share(&[("m1", 0), ("m2", 0)], 4), shares(&[("m1", 2), ("m2", 2)]), "nobody has a weight");
        assert_eq!(share(&[("m1", 1), ("m2", 1)], 0), shares(&[]), "zero shares are dropped");
    }

    proptest! {
        #[test]
        fn steady_keeps_the_sum_and_never_works_against_the_direction(
            rows in prop::collection::vec((0_i64..40, 0_i64..40), 1..8), want in 0_i64..300, aggregated: bool,
        ) {
            let names: Vec<String> = (0..rows.len()).map(|i| format!("m{i}")).collect();
            let rows: Vec<_> = rows.iter().zip(&names).map(|((capacity, had), name)| (name.as_str(), *capacity, *had)).collect();
            let clusters = selected(&rows);
            let fill = if aggregated { Fill::Aggregated } else { Fill::ByCapacity };
            let have: i64 = clusters.iter().map(|c| c.assigned).sum();
            match dynamic(&clusters, want, fill, Mode::Steady, TieOrder::Descending) {
                Err(_) => prop_assert!(want - have > clusters.iter().map(|c| c.allocatable).sum::<i64>()),
                Ok(got) => {
                    prop_assert_eq!(got.values().sum::<i64>(), want);
                    for c in &clusters {
                        let now = got.get(&c.name).copied().unwrap_or(0);
                        prop_assert!(want < have || now >= c.assigned, "scaling up shrinks {}", c.name);
                        prop_assert!(want > have || now <= c.assigned, "scaling down grows {}", c.name);
                        prop_assert!(now <= c.assigned.max(c.available()));
                    }
                }
            }
        }
    }
}
