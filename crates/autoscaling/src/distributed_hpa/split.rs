//! Division of minimum and maximum over clusters (specification/autoscaling.md 6.4.2).

use std::collections::BTreeMap;

use ironclad_api::annotations::FEDERATED_HPA_SPLIT;
use ironclad_fleet::ClusterName;
use serde::Deserialize;

/// Bounds of the HorizontalPodAutoscaler of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bounds {
    /// `minReplicas`, at least 1.
    pub min: i32,
    /// `maxReplicas`, at least `min`.
    pub max: i32,
}

/// Source of the weights: annotation `federatedhpa.karmada.io/split`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    /// The replicas of the binding.
    #[default]
    Weighted,
    /// The same for every cluster.
    Even,
    /// No division: every cluster has the whole minimum and maximum.
    PerCluster,
    /// Weights by cluster; a cluster that is not named has 0.
    Static { weights: BTreeMap<String, u32> },
}

/// The annotation as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    mode: String,
    weights: Option<BTreeMap<String, u32>>,
}

impl Mode {
    /// Reads the annotation. Admission refuses an invalid one; one that is stored all the same means `Weighted`.
    ///
    /// # Errors
    /// The annotation with the reason, for the message of a condition.
    pub fn parse(annotation: Option<&str>) -> Result<Self, String> {
        let Some(text) = annotation else { return Ok(Self::Weighted) };
        let written: Option<Written> = serde_json::from_str(text).ok();
        let mode = written.and_then(|written| match (written.mode.as_str(), written.weights) {
            ("Weighted", None) => Some(Self::Weighted),
            ("Even", None) => Some(Self::Even),
            ("PerCluster", None) => Some(Self::PerCluster),
            ("Static", Some(weights)) => Some(Self::Static { weights }),
            _ => None,
        });
        mode.ok_or_else(|| {
            format!("annotation {FEDERATED_HPA_SPLIT}: {text:?} is not understood: Weighted is used instead")
        })
    }

    /// The weight of a cluster whose binding has this many replicas for it.
    #[must_use]
    pub fn weight(&self, cluster: &ClusterName, replicas: i32) -> u32 {
        match self {
            Self::Weighted => u32::try_from(replicas).unwrap_or(0),
            Self::Even | Self::PerCluster => 1,
            Self::Static { weights } => weights.get(&*cluster.0).copied().unwrap_or(0),
        }
    }
}

/// Divides minimum and maximum over clusters with these weights.
///
/// A minimum below 1 counts as 1, a maximum below the minimum as the minimum: the API server refuses both, but an
/// object may be older than its validation.
#[must_use]
pub fn split(mode: &Mode, min: i32, max: i32, weights: &BTreeMap<ClusterName, u32>) -> BTreeMap<ClusterName, Bounds> {
    let min = min.max(1);
    let max = max.max(min);
    if *mode == Mode::PerCluster {
        return weights.keys().map(|cluster| (cluster.clone(), Bounds { min, max })).collect();
    }
    let list: Vec<u32> = weights.values().copied().collect();
    let (least, most) = (shares(min, &list), shares(max, &list));
    let bounds = least.into_iter().zip(most).map(|(min, max)| Bounds { min, max });
    weights.keys().cloned().zip(bounds).collect()
}

/// Divides a total: everyone has 1, and the rest goes one by one to the largest `weight / (2 * share + 1)` (the method
/// of Sainte-Laguë with a floor of 1). Ties go to the larger weight, then to the first. A weight of 0 has no more than
/// its 1, unless all are 0.
///
/// The sum is the total if that exceeds the number of weights, otherwise the number of weights. A larger total takes
/// from nobody, so a share of the minimum never exceeds the share of the maximum.
#[must_use]
pub fn shares(total: i32, weights: &[u32]) -> Vec<i32> {
    let count = i32::try_from(weights.len()).unwrap_or(i32::MAX);
    let mut shares = vec![1_i32; weights.len()];
    if total <= count || weights.is_empty() {
        return shares;
    }
    let all_zero = weights.iter().all(|weight| *weight == 0);
    let weights: Vec<u64> = weights.iter().map(|weight| if all_zero { 1 } else { u64::from(*weight) }).collect();
    let mut rest = total - count;
    // Most of the rest is given at once, since totals may be large: everything whose quotient exceeds
    // `sum / (2 * rest)` is among the `rest` largest quotients, as there are at most `rest` of these.
    let sum: i128 = weights.iter().map(|weight| i128::from(*weight)).sum();
    let wanted = i128::from(rest);
    for (share, weight) in shares.iter_mut().zip(&weights) {
        let above = 2 * wanted * i128::from(*weight) - sum;
        let sure = if above > 0 { (above + 2 * sum - 1) / (2 * sum) - 1 } else { 0 };
        let sure = i32::try_from(sure).unwrap_or(0).min(rest);
        *share += sure;
        rest -= sure;
    }
    while rest > 0 {
        let next =
            (0..weights.len()).reduce(|best, one| if is_ahead(&weights, &shares, one, best) { one } else { best });
        let Some(next) = next else { break };
        shares[next] += 1;
        rest -= 1;
    }
    shares
}

/// Returns true if `one` has the larger quotient `weight / (2 * share + 1)`, or the same and the larger weight.
fn is_ahead(weights: &[u64], shares: &[i32], one: usize, best: usize) -> bool {
    let divisor = |i: usize| u128::from(2 * u64::from(shares[i].unsigned_abs()) + 1);
    let (left, right) = (u128::from(weights[one]) * divisor(best), u128::from(weights[best]) * divisor(one));
    left > right || (left == right && weights[one] > weights[best])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(weights: &[(&str, u32)]) -> BTreeMap<ClusterName, u32> {
        weights.iter().map(|(cluster, weight)| (ClusterName::from(*cluster), *weight)).collect()
    }

    fn text(bounds: &BTreeMap<ClusterName, Bounds>) -> String {
        let one = |(cluster, bounds): (&ClusterName, &Bounds)| format!("{cluster}({},{})", bounds.min, bounds.max);
        bounds.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// specification/autoscaling.md 6.4.3, by row; 21 to 25 differ in their weights only, which
    /// `effective` finds.
    #[test]
    fn worked_examples() {
        let weighted = |weights: &[(&str, u32)], min, max| text(&split(&Mode::Weighted, min, max, &of(weights)));
        for (row, weights, (min, max), want) in [
            (1, &[("A", 1), ("B", 1), ("C", 1)][..], (3, 100), "A(1,34) B(1,33) C(1,33)"),
            (2, &[("A", 2), ("B", 1)], (3, 100), "A(2,67) B(1,33)"),
            (3, &[("A", 1), ("B", 1)], (2, 10), "A(1,5) B(1,5)"),
            (4, &[("A", 3), ("B", 1)], (2, 10), "A(1,8) B(1,2)"),
            (5, &[("A", 1), ("B", 2), ("C", 3)], (4, 12), "A(1,2) B(1,4) C(2,6)"),
            (6, &[("A", 1), ("B", 2), ("C", 3)], (6, 12), "A(1,2) B(2,4) C(3,6)"),
            (7, &[("A", 5), ("B", 3), ("C", 2)], (1, 2), "A(1,1) B(1,1) C(1,1)"),
            (8, &[("A", 5), ("B", 3), ("C", 2)], (1, 3), "A(1,1) B(1,1) C(1,1)"),
            (9, &[("A", 5), ("B", 3), ("C", 2)], (1, 4), "A(1,2) B(1,1) C(1,1)"),
            (10, &[("A", 9), ("B", 1), ("C", 0)], (5, 10), "A(3,8) B(1,1) C(1,1)"),
            (11, &[("A", 0), ("B", 0), ("C", 0)], (5, 10), "A(2,4) B(2,3) C(1,3)"),
            (12, &[("A", 6), ("B", 5), ("C", 4)], (7, 8), "A(3,3) B(2,3) C(2,2)"),
            (13, &[("A", 1), ("B", 1), ("C", 1)], (10, 10), "A(4,4) B(3,3) C(3,3)"),
            (14, &[("A", 7)], (1, 1), "A(1,1)"),
            (15, &[("A", 40), ("B", 60)], (3, 100), "A(1,40) B(2,60)"),
            (16, &[("A", 1), ("B", 99)], (5, 30), "A(1,1) B(4,29)"),
            (17, &[("A", 2), ("B", 2), ("C", 1)], (4, 9), "A(2,4) B(1,3) C(1,2)"),
            (
                18,
                &[("A", 1), ("B", 1), ("C", 1), ("D", 1), ("E", 1), ("F", 1)],
                (4, 5),
                "A(1,1) B(1,1) C(1,1) D(1,1) E(1,1) F(1,1)",
            ),
            (19, &[("A", 13), ("B", 7), ("C", 5)], (20, 50), "A(10,26) B(6,14) C(4,10)"),
            (20, &[("A", 10), ("B", 20), ("C", 30)], (6, 60), "A(1,10) B(2,20) C(3,30)"),
            (21, &[("A", 10), ("B", 20)], (6, 60), "A(2,20) B(4,40)"),
            (22, &[("A", 10), ("B", 20), ("C", 30), ("D", 20)], (6, 60), "A(1,7) B(2,15) C(2,23) D(1,15)"),
            (23, &[("A", 25), ("C", 35)], (6, 60), "A(2,25) C(4,35)"),
            (24, &[("A", 1), ("B", 1)], (3, 100), "A(2,50) B(1,50)"),
            (25, &[("A", 4), ("B", 4), ("C", 4)], (3, 30), "A(1,10) B(1,10) C(1,10)"),
        ] {
            assert_eq!(weighted(weights, min, max), want, "row {row}");
        }
    }

    #[test]
    fn modes_of_the_annotation() {
        let weights = |mode: &Mode| of(&[("A", mode.weight(&"A".into(), 9)), ("B", mode.weight(&"B".into(), 1))]);
        for (name, annotation, want) in [
            ("none", None, "A(3,18) B(1,2)"),
            ("Weighted", Some(r#"{"mode":"Weighted"}"#), "A(3,18) B(1,2)"),
            ("Even", Some(r#"{"mode":"Even"}"#), "A(2,10) B(2,10)"),
            ("PerCluster", Some(r#"{"mode":"PerCluster"}"#), "A(4,20) B(4,20)"),
            ("Static", Some(r#"{"mode":"Static","weights":{"A":1,"B":3}}"#), "A(1,5) B(3,15)"),
            ("Static without one of them", Some(r#"{"mode":"Static","weights":{"B":3}}"#), "A(1,1) B(3,19)"),
        ] {
            let mode = Mode::parse(annotation).unwrap();
            assert_eq!(text(&split(&mode, 4, 20, &weights(&mode))), want, "{name}");
        }
        for unknown in ["", "Even", r#"{"mode":"Half"}"#, r#"{"mode":"Static"}"#, r#"{"mode":"Even","x":1}"#] {
            let error = Mode::parse(Some(unknown)).unwrap_err();
            assert!(error.contains("Weighted is used instead"), "{error}");
        }
    }

    #[test]
    fn bounds_that_contradict_each_other_are_made_to_fit() {
        for (name, (min, max), want) in [
            ("a minimum above the maximum", (9, 4), "A(5,5) B(4,4)"),
            ("a minimum of zero", (0, 4), "A(1,2) B(1,2)"),
            ("negative", (-3, -2), "A(1,1) B(1,1)"),
            ("as large as can be", (1, i32::MAX), "A(1,1073741824) B(1,1073741823)"),
        ] {
            assert_eq!(text(&split(&Mode::Weighted, min, max, &of(&[("A", 1), ("B", 1)]))), want, "{name}");
        }
        assert!(split(&Mode::Weighted, 1, 5, &of(&[])).is_empty());
    }

    /// The rule as it is written: one by one.
    fn one_by_one(total: i32, weights: &[u32]) -> Vec<i32> {
        let mut shares = vec![1_i32; weights.len()];
        let all_zero = weights.iter().all(|weight| *weight == 0);
        for _ in weights.len()..usize::try_from(total).unwrap() {
            let rank = |i: &usize| {
                let weight = if all_zero { 1 } else { weights[*i] };
                // Whole numbers: the quotient over a common multiple of all divisors would be too large, so compare
                // as fractions.
                (weight, 2 * shares[*i] + 1, std::cmp::Reverse(*i))
            };
            let best = (0..weights.len())
                .max_by(|a, b| {
                    let ((wa, da, ia), (wb, db, ib)) = (rank(a), rank(b));
                    let (left, right) = (i64::from(wa) * i64::from(db), i64::from(wb) * i64::from(da));
                    left.cmp(&right).then(wa.cmp(&wb)).then(ia.cmp(&ib))
                })
                .unwrap();
            shares[best] += 1;
        }
        shares
    }

    proptest! {
        #[test]
        fn shares_agree_with_the_rule_step_by_step(total in 1..400_i32, weights in prop::collection::vec(0..50_u32, 1..12)) {
            prop_assert_eq!(shares(total, &weights), one_by_one(total, &weights));
        }

        #[test]
        fn shares_have_the_sum_and_a_floor_of_one(total in 1..100_000_i32, weights in prop::collection::vec(0..1_000_u32, 1..40)) {
            let shares = shares(total, &weights);
            prop_assert_eq!(shares.iter().sum::<i32>(), total.max(i32::try_from(weights.len()).unwrap()));
            prop_assert!(shares.iter().all(|share| *share >= 1));
        }

        #[test]
        fn a_larger_total_takes_from_nobody(total in 1..5_000_i32, weights in prop::collection::vec(0..100_u32, 1..20)) {
            let (less, more) = (shares(total, &weights), shares(total + 1, &weights));
            prop_assert!(less.iter().zip(&more).all(|(less, more)| less <= more));
        }

        #[test]
        fn the_minimum_never_exceeds_the_maximum(min in 0..500_i32, more in 0..500_i32, weights in prop::collection::vec(0..100_u32, 1..20)) {
            let weights = (0..).zip(&weights).map(|(i, weight)| (ClusterName::from(format!("m{i:03}").as_str()), *weight)).collect();
            let bounds = split(&Mode::Weighted, min, min + more, &weights);
            prop_assert!(bounds.values().all(|bounds| 1 <= bounds.min && bounds.min <= bounds.max));
        }

        #[test]
        fn proportions_that_come_out_whole_are_kept(weights in prop::collection::vec(1..50_u32, 1..12), times in 1..20_u32) {
            let total = i32::try_from(weights.iter().sum::<u32>() * times).unwrap();
            let want: Vec<i32> = weights.iter().map(|weight| i32::try_from(weight * times).unwrap()).collect();
            prop_assert_eq!(shares(total, &weights), want);
        }
    }
}
