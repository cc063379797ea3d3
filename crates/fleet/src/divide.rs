//! Dividing replicas by weight: the Webster (Sainte-Laguë) divider (specification/scheduling.md 8.5).
//!
//! It knows nothing of capacity or of what ran before; `assign` decides what the weights are.

use std::{cmp::Ordering, collections::BinaryHeap};

use ironclad_api::names::fnv32a;

use crate::ClusterName;

/// One party of a division: a cluster and its weight. A weight below one takes no part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weight {
    pub cluster: ClusterName,
    /// Weight relative to the others.
    pub weight: i64,
}

/// The order of clusters that are equal in everything else: stable for one workload, spread over workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TieOrder {
    /// The smaller name first.
    Ascending,
    /// The larger name first.
    Descending,
}

impl TieOrder {
    /// From the uid of the template: descending if its hash is odd; an empty uid is ascending.
    #[must_use]
    pub fn of(uid: &str) -> Self {
        if !uid.is_empty() && fnv32a(uid) % 2 == 1 { Self::Descending } else { Self::Ascending }
    }
}

/// A party on its way: the greatest of the heap gets the next seat.
struct Party<'a> {
    weight: i64,
    seats: i64,
    cluster: &'a ClusterName,
    index: usize,
    ties: TieOrder,
}

impl Party<'_> {
    #[allow(clippy::cast_precision_loss, reason = "the rule is defined on 64-bit floats")]
    fn quotient(&self) -> f64 {
        self.weight as f64 / (2.0 * self.seats as f64 + 1.0)
    }
}

impl Ord for Party<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_name = match self.ties {
            TieOrder::Ascending => other.cluster.cmp(self.cluster),
            TieOrder::Descending => self.cluster.cmp(other.cluster),
        };
        self.quotient().total_cmp(&other.quotient()).then(other.seats.cmp(&self.seats)).then(by_name)
    }
}

impl PartialOrd for Party<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Party<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Party<'_> {}

/// Number of `seats` of each party, in the order of `parties`. The sum is `seats`, unless no party has a weight.
///
/// Each seat goes to the party with the largest `weight / (2 * seats + 1)`; a tie goes to the one with fewer seats,
/// then by name in the order of `ties`. The work grows with the number of parties, not with the number of seats.
#[must_use]
pub fn by_weight(seats: i64, parties: &[Weight], ties: TieOrder) -> Vec<i64> {
    let mut given = vec![0; parties.len()];
    let total: i128 = parties.iter().map(|p| i128::from(p.weight.max(0))).sum();
    if seats <= 0 || total == 0 {
        return given;
    }
    // The seats go to the largest quotients, in whatever order they are handed out. Those that are surely among them
    // are given at once: quotients above total / 2(seats - parties) belong to fewer than `seats` seats.
    let sure = i128::from(seats) - parties.len() as i128;
    let mut left = seats;
    let mut heap = BinaryHeap::with_capacity(parties.len());
    for (index, party) in parties.iter().enumerate().filter(|(_, p)| p.weight > 0) {
        let head_start = (i128::from(party.weight) * sure.max(0) / total - 1).max(0);
        let head_start = i64::try_from(head_start).expect("a share of an i64 is an i64");
        left -= head_start;
        heap.push(Party { weight: party.weight, seats: head_start, cluster: &party.cluster, index, ties });
    }
    while left > 0 {
        let Some(mut next) = heap.peek_mut() else { break };
        next.seats += 1;
        left -= 1;
    }
    for party in heap {
        given[party.index] = party.seats;
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parties(weights: &[(&str, i64)]) -> Vec<Weight> {
        weights.iter().map(|(name, weight)| Weight { cluster: (*name).into(), weight: *weight }).collect()
    }

    /// The rule word for word: one seat at a time.
    fn slow(seats: i64, parties: &[Weight], ties: TieOrder) -> Vec<i64> {
        let mut given = vec![0_i64; parties.len()];
        for _ in 0..seats {
            let best = (0..parties.len())
                .filter(|&i| parties[i].weight > 0)
                .max_by(|&a, &b| {
                    let party = |i: usize| Party {
                        weight: parties[i].weight,
                        seats: given[i],
                        cluster: &parties[i].cluster,
                        index: i,
                        ties,
                    };
                    party(a).cmp(&party(b))
                })
                .unwrap();
            given[best] += 1;
        }
        given
    }

    #[test]
    fn hash_and_tie_order_by_uid() {
        for (uid, hash, order) in [
            ("4858ca61-3ff8-4095-8267-f3d059d8074c", 0xf20a_f388, TieOrder::Ascending),
            ("d43fdeeb-d750-4e2b-bee3-64eb94534f4c", 0x9551_49a3, TieOrder::Descending),
            ("uid-1", 0x50c4_5a43, TieOrder::Descending),
            ("uid-2", 0x51c4_5bd6, TieOrder::Ascending),
        ] {
            assert_eq!((fnv32a(uid), TieOrder::of(uid)), (hash, order), "{uid}");
        }
        assert_eq!(TieOrder::of(""), TieOrder::Ascending, "no uid");
    }

    /// Seats, weights, uid, and what each gets.
    type Row<'a> = (i64, &'a [(&'a str, i64)], &'a str, &'a [i64]);

    #[test]
    fn worked_examples() {
        let (m3, m4) = ([("m1", 3), ("m2", 2), ("m3", 1)], [("m1", 2), ("m2", 1), ("m3", 1), ("m4", 1)]);
        let (even2, even3) = ([("m1", 1), ("m2", 1)], [("m1", 1), ("m2", 1), ("m3", 1)]);
        let even4 = [("m1", 1), ("m2", 1), ("m3", 1), ("m4", 1)];
        let rows: &[Row<'_>] = &[
            (9, &[("A", 1), ("B", 2)], "", &[3, 6]),
            (9, &[("A", 1), ("B", 3)], "", &[2, 7]),
            (2, &[("A", 1), ("B", 2)], "", &[1, 1]),
            (12, &m3, "", &[6, 4, 2]),
            (13, &m3, "", &[7, 4, 2]),
            (14, &m3, "", &[7, 5, 2]),
            (0, &even2, "", &[0, 0]),
            (3, &even2, "", &[2, 1]),
            (3, &even2, "uid-1", &[1, 2]),
            (5, &even3, "", &[2, 2, 1]),
            (5, &even3, "uid-1", &[1, 2, 2]),
            (7, &m4, "", &[3, 2, 1, 1]),
            (7, &m4, "uid-1", &[3, 1, 1, 2]),
            (8, &m4, "", &[3, 2, 2, 1]),
            (9, &m4, "", &[3, 2, 2, 2]),
            (6, &even4, "", &[2, 2, 1, 1]),
            (6, &m4, "", &[3, 1, 1, 1]),
            (3, &[("m1", 2), ("m2", 1)], "", &[2, 1]),
            (2, &[("m1", 1)], "", &[2]),
            (5, &[("m1", 0), ("m2", 0)], "", &[0, 0]),
        ];
        for (seats, weights, uid, want) in rows {
            assert_eq!(
                &by_weight(*seats, &parties(weights), TieOrder::of(uid)),
                want,
                "{seats} by {weights:?} {uid:?}"
            );
        }
    }

    #[test]
    fn two_thousand_million_seats_take_no_time() {
        let given =
            by_weight(i64::from(i32::MAX), &parties(&[("a", 1), ("b", 3), ("c", i64::MAX / 4)]), TieOrder::Ascending);
        assert_eq!(given.iter().sum::<i64>(), i64::from(i32::MAX));
    }

    fn named() -> impl Strategy<Value = Vec<Weight>> {
        prop::collection::vec(0_i64..60, 1..12).prop_map(|weights| {
            weights
                .iter()
                .enumerate()
                .map(|(i, w)| Weight { cluster: format!("m{i:02}").as_str().into(), weight: *w })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn agrees_with_one_seat_at_a_time(seats in 0_i64..300, parties in named(), odd: bool) {
            let ties = if odd { TieOrder::Descending } else { TieOrder::Ascending };
            let want = if parties.iter().all(|p| p.weight == 0) { vec![0; parties.len()] } else { slow(seats, &parties, ties) };
            prop_assert_eq!(by_weight(seats, &parties, ties), want);
        }

        #[test]
        fn one_seat_more_takes_none_away(seats in 0_i64..5_000, parties in named()) {
            let before = by_weight(seats, &parties, TieOrder::Ascending);
            let after = by_weight(seats + 1, &parties, TieOrder::Ascending);
            prop_assert!(before.iter().zip(&after).all(|(b, a)| a >= b), "{:?} then {:?}", before, after);
        }

        #[test]
        fn the_sum_is_kept_and_no_weight_exceeded(parties in named(), part in 0.0..=1.0_f64) {
            let total: i64 = parties.iter().map(|p| p.weight).sum();
            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
            let seats = (total as f64 * part) as i64;
            let given = by_weight(seats, &parties, TieOrder::Ascending);
            prop_assert_eq!(given.iter().sum::<i64>(), seats);
            prop_assert!(given.iter().zip(&parties).all(|(g, p)| *g <= p.weight));
        }

        #[test]
        fn the_order_of_parties_does_not_matter(seats in 0_i64..500, parties in named()) {
            let mut reversed = parties.clone();
            reversed.reverse();
            let mut given = by_weight(seats, &reversed, TieOrder::Descending);
            given.reverse();
            prop_assert_eq!(by_weight(seats, &parties, TieOrder::Descending), given);
        }
    }
}
