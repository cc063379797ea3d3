//! Next sizes of a Deployment's ReplicaSets: rolling update, recreation, and proportional scaling.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::{
    decide::Set,
    revision::{self, MAX_REPLICAS},
    strategy::Strategy,
};

/// The ReplicaSets of a Deployment: the one of its template, and the others, oldest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sets<'a> {
    pub(crate) new: Option<&'a Set>,
    pub(crate) old: &'a [&'a Set],
}

impl<'a> Sets<'a> {
    fn all(&self) -> impl Iterator<Item = &'a Set> {
        self.old.iter().copied().chain(self.new)
    }

    fn spec_sum(&self) -> i32 {
        self.all().map(|s| s.wanted()).sum()
    }
}

/// Returns the next size of the new set, which may not exist yet.
pub(crate) fn new_size(sets: &Sets<'_>, strategy: &Strategy) -> i32 {
    let has = sets.new.map_or(0, Set::wanted);
    if strategy.recreate || has >= strategy.replicas {
        return strategy.replicas;
    }
    let available = strategy.most() - sets.spec_sum();
    has + available.min(strategy.replicas - has).max(0)
}

/// Returns the next sizes of old ReplicaSets that change: first remove unhealthy pods, then pods with available
/// successors. Pods beyond the size of their set count as gone: the set is about to delete them.
pub(crate) fn shrink_old(sets: &Sets<'_>, strategy: &Strategy) -> Vec<(usize, i32)> {
    let stays = |set: &Set| set.counts.available.min(set.wanted());
    let new_unavailable = sets.new.map_or(0, |s| s.wanted() - stays(s));
    let may_go = sets.spec_sum() - strategy.least_available() - new_unavailable;
    let mut sizes: Vec<i32> = sets.old.iter().map(|s| s.wanted()).collect();
    if may_go <= 0 {
        return Vec::new();
    }
    let mut left = may_go;
    for (set, size) in sets.old.iter().zip(&mut sizes) {
        let unhealthy = (*size - set.counts.available).clamp(0, left);
        *size -= unhealthy;
        left -= unhealthy;
    }
    let available: i32 = sets.all().map(stays).sum();
    let mut left = available - strategy.least_available();
    for size in &mut sizes {
        let goes = (*size).min(left).max(0);
        *size -= goes;
        left -= goes;
    }
    changed(sets.old, sizes)
}

pub(crate) fn drop_old(sets: &Sets<'_>) -> Vec<(usize, i32)> {
    changed(sets.old, vec![0; sets.old.len()])
}

fn changed(old: &[&Set], sizes: Vec<i32>) -> Vec<(usize, i32)> {
    sizes.into_iter().enumerate().filter(|(i, size)| old[*i].wanted() != *size).collect()
}

/// Returns the sizes of the ReplicaSets after the Deployment itself was scaled, during a rollout or not: every active
/// one with its size, changed or not.
pub(crate) fn scale<'a>(sets: &Sets<'a>, strategy: &Strategy, before: i32) -> Vec<(&'a Set, i32)> {
    let active: Vec<&Set> = sets.all().filter(|s| s.wanted() > 0).collect();
    let only = match active.as_slice() {
        [] => sets.new.or(sets.old.last().copied()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(only) = only {
        return vec![(only, strategy.replicas)];
    }
    if sets.new.is_some_and(|s| is_saturated(s, strategy)) {
        return sets.old.iter().filter(|s| s.wanted() > 0).map(|s| (*s, 0)).collect();
    }
    if strategy.recreate {
        return Vec::new();
    }
    in_proportion(active, strategy, before)
}

/// Returns `true` if this set alone has all replicas of the Deployment.
fn is_saturated(set: &Set, strategy: &Strategy) -> bool {
    let desired = revision::number(&set.set.metadata, revision::DESIRED_REPLICAS);
    set.wanted() == strategy.replicas && desired == Some(strategy.replicas) && set.counts.available == strategy.replicas
}

fn in_proportion<'a>(mut active: Vec<&'a Set>, strategy: &Strategy, before: i32) -> Vec<(&'a Set, i32)> {
    let sum: i32 = active.iter().map(|s| s.wanted()).sum();
    let allowed = if strategy.replicas > 0 { strategy.most() } else { 0 };
    let to_add = allowed - sum;
    if to_add != 0 {
        // Of equal ReplicaSets, the newer grows first and the older shrinks first.
        active.sort_by_key(|s| revision::size_key(&s.set, to_add > 0));
    }
    let mut added = 0;
    let mut sizes: Vec<i32> = Vec::with_capacity(active.len());
    for set in &active {
        let share = share(&set.set, strategy, before, to_add - added);
        added += share;
        sizes.push(set.wanted() + share);
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + to_add - added).max(0);
    }
    active.into_iter().zip(sizes).collect()
}

fn share(set: &ReplicaSet, strategy: &Strategy, before: i32, left: i32) -> i32 {
    let has = crate::replicaset::wanted(set);
    if has == 0 || left == 0 {
        return 0;
    }
    let fraction = if strategy.replicas == 0 {
        -has
    } else {
        let was = revision::number(&set.metadata, MAX_REPLICAS).filter(|n| *n > 0).unwrap_or(before.max(1));
        round_half_away(i64::from(has) * i64::from(strategy.most()), i64::from(was)) - has
    };
    if left > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn round_half_away(dividend: i64, divisor: i64) -> i32 {
    i32::try_from((2 * dividend + divisor) / (2 * divisor)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        deployment::testkit::{set, sized},
        replicaset::Counts,
    };

    fn strategy(replicas: i32, max_surge: i32, max_unavailable: i32) -> Strategy {
        Strategy { recreate: false, replicas, max_surge, max_unavailable }
    }

    #[test]
    fn new_sizes() {
        for (name, strategy, new, old, want) in [
            ("the first set starts in full size", strategy(3, 1, 0), None, None, 3),
            ("a second set starts with the surge", strategy(3, 1, 0), None, Some(set("old", 0, 3, 3)), 1),
            ("no surge: none until an old pod is removed", strategy(3, 0, 1), None, Some(set("old", 0, 3, 3)), 0),
            (
                "no surge: one new pod for each removed one",
                strategy(3, 0, 1),
                Some(set("new", 1, 0, 0)),
                Some(set("old", 0, 2, 2)),
                1,
            ),
            ("too large: down to the desired replicas", strategy(2, 1, 0), Some(set("new", 1, 5, 5)), None, 2),
            (
                "never above the desired replicas",
                strategy(3, 5, 0),
                Some(set("new", 1, 1, 1)),
                Some(set("old", 0, 1, 1)),
                3,
            ),
        ] {
            let old: Vec<&Set> = old.iter().collect();
            let sets = Sets { new: new.as_ref(), old: &old };
            assert_eq!(new_size(&sets, &strategy), want, "{name}");
        }
    }

    #[test]
    fn old_sets_are_scaled_down() {
        for (name, strategy, new, old, want) in [
            (
                "a new pod that is not available yet protects the old ones",
                strategy(3, 1, 0),
                set("new", 9, 1, 0),
                vec![set("old", 0, 3, 3)],
                vec![],
            ),
            (
                "one available new pod lets one old pod be removed",
                strategy(3, 1, 0),
                set("new", 9, 1, 1),
                vec![set("old", 0, 3, 3)],
                vec![(0, 2)],
            ),
            (
                "maxUnavailable old pods are removed immediately",
                strategy(4, 0, 2),
                set("new", 9, 0, 0),
                vec![set("old", 0, 4, 4)],
                vec![(0, 2)],
            ),
            (
                "unhealthy old pods are removed even if no healthy one may be",
                strategy(3, 1, 0),
                set("new", 9, 1, 1),
                vec![set("sick", 0, 1, 0), set("well", 1, 2, 2)],
                vec![(0, 0)],
            ),
            (
                "pods that a scaled set still has to delete do not count as available",
                strategy(4, 3, 2),
                set("new", 9, 3, 0),
                vec![counted(set("old", 0, 4, 4), 11)],
                vec![(0, 2)],
            ),
            (
                "the oldest set shrinks first",
                strategy(4, 2, 0),
                set("new", 9, 2, 2),
                vec![set("o1", 0, 2, 2), set("o2", 1, 2, 2)],
                vec![(0, 0)],
            ),
        ] {
            let old: Vec<&Set> = old.iter().collect();
            assert_eq!(shrink_old(&Sets { new: Some(&new), old: &old }, &strategy), want, "{name}");
        }
    }

    /// Returns the set as it is before its surplus pods are deleted.
    fn counted(mut set: Set, available: i32) -> Set {
        set.counts = Counts { replicas: available, ready: available, available, ..set.counts };
        set
    }

    #[test]
    fn scaling_is_proportional() {
        let was = |s| sized(s, strategy(10, 0, 0));
        let half = |a, b| (was(set("new", 9, a, a)), was(set("old", 0, b, b)));
        for (name, strategy, (new, old), want) in [
            ("up: each in proportion", strategy(20, 0, 0), half(5, 5), vec![10, 10]),
            ("the remainder goes to the larger set", strategy(15, 0, 0), half(4, 6), vec![9, 6]),
            ("of equal sets to the newer", strategy(11, 0, 0), half(5, 5), vec![6, 5]),
            ("down: each in proportion", strategy(5, 0, 0), half(4, 6), vec![3, 2]),
            ("to zero: all sets", strategy(0, 0, 0), half(4, 6), vec![0, 0]),
        ] {
            let old = [&old];
            let sets = Sets { new: Some(&new), old: &old };
            let sizes: Vec<i32> = scale(&sets, &strategy, 10).into_iter().map(|(_, n)| n).collect();
            assert_eq!(sizes, want, "{name}");
        }
    }

    #[test]
    fn scaling_with_one_active_set_or_a_complete_new_one() {
        let one = set("new", 9, 3, 3);
        let empty = set("old", 0, 0, 0);
        let old = [&empty];
        let sizes = scale(&Sets { new: Some(&one), old: &old }, &strategy(7, 1, 0), 3);
        assert_eq!(sizes.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [7], "only one set has pods");
        let whole = sized(set("new", 9, 3, 3), strategy(3, 1, 0));
        let some = set("old", 0, 2, 2);
        let old = [&some];
        let sizes = scale(&Sets { new: Some(&whole), old: &old }, &strategy(3, 1, 0), 3);
        assert_eq!(
            sizes.iter().map(|(_, n)| *n).collect::<Vec<_>>(),
            [0],
            "the new set is complete: old pods are removed"
        );
    }

    #[test]
    fn every_rollout_ends_and_stays_within_surge_and_availability() {
        // Rolls out a new image under every strategy of a small grid; pods become available one at a time.
        for replicas in 0..6 {
            for surge in 0..3 {
                for unavailable in 0..3 {
                    let s = strategy(
                        replicas,
                        surge,
                        if surge == 0 { unavailable.max(1) } else { unavailable }.min(replicas.max(1)),
                    );
                    roll(&s);
                }
            }
        }
    }

    fn roll(s: &Strategy) {
        let (mut new, mut old) = (set("new", 9, 0, 0), set("old", 0, s.replicas, s.replicas));
        for _ in 0..200 {
            let olds = [&old];
            let sets = Sets { new: Some(&new), old: &olds };
            let size = new_size(&sets, s);
            let shrunk = shrink_old(&sets, s);
            if size != new.wanted() {
                let available = new.counts.available.min(size);
                resize(&mut new, size, available);
            } else if let [(_, size)] = shrunk.as_slice() {
                let available = old.counts.available.min(*size);
                resize(&mut old, *size, available);
            } else if new.counts.available < new.wanted() {
                new.counts.available += 1;
            } else {
                assert_eq!((new.wanted(), old.wanted()), (s.replicas, 0), "{s:?} ended");
                return;
            }
            assert!(new.wanted() + old.wanted() <= s.most().max(s.replicas), "{s:?}: too many pods");
            let available = new.counts.available + old.counts.available;
            assert!(available >= s.least_available(), "{s:?}: {available} available");
        }
        panic!("{s:?} never ends");
    }

    fn resize(set: &mut Set, size: i32, available: i32) {
        let inner = std::sync::Arc::make_mut(&mut set.set);
        inner.spec.as_mut().unwrap().replicas = Some(size);
        set.counts.replicas = size;
        set.counts.available = available;
    }
}
