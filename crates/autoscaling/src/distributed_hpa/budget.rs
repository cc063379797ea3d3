//! Maxima of the members out of their shares, loans and what they run (specification/autoscaling.md 6.4.4).
//!
//! Running replicas stay unless all of them are too many, and no member grows into the maximum that another still has.

use std::collections::BTreeMap;

use ironclad_fleet::ClusterName;

use super::{lend::proportional, quota::lowered, split::Bounds};

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// Minimum, and the share of the maximum without loans.
    pub(super) share: Bounds,
    /// The maximum that it should have by its share and loans.
    pub(super) max: i32,
    /// Replicas that it runs or has decided for.
    pub(super) runs: i32,
    /// True if it stands at its maximum and wants more.
    pub(super) limited: bool,
    /// The maximum that its Work says; 0 without a Work.
    pub(super) written: i32,
    /// The maximum that it may still have: at least the written one.
    pub(super) has: i32,
}

type Maxima = BTreeMap<ClusterName, i32>;

/// The maxima to reach. Their sum is that of the shares, unless the minima alone exceed it.
///
/// A member that needs more than it has gets its share, and what others run beyond their own shares gives way to that.
pub(super) fn wanted(members: &BTreeMap<ClusterName, Member>) -> Maxima {
    let of = |number: &dyn Fn(&Member) -> i32| -> Maxima {
        members.iter().map(|(cluster, member)| (cluster.clone(), number(member))).collect()
    };
    let total = members.values().map(|member| i64::from(member.share.max)).sum();
    let needs = |member: &Member| member.runs.max(if member.limited { member.share.max } else { member.share.min });
    let floors = lowered(&of(&needs), &of(&|member| needs(member).min(member.share.max)), total);
    let above = members
        .iter()
        .map(|(cluster, member)| (cluster.clone(), member.max.max(floors.get(cluster).copied().unwrap_or(0))))
        .collect();
    lowered(&above, &floors, total)
}

/// The maxima to write now: lowered at once, and raised by what no member has. `elsewhere` is the sum that clusters
/// without a share still have.
pub(super) fn now(members: &BTreeMap<ClusterName, Member>, wanted: &Maxima, elsewhere: i64) -> Maxima {
    let total: i64 = members.values().map(|member| i64::from(member.share.max)).sum();
    let had: i64 = members.values().map(|member| i64::from(member.has)).sum();
    let want = |cluster: &ClusterName, member: &Member| wanted.get(cluster).copied().unwrap_or(member.share.max);
    let grow: BTreeMap<ClusterName, u64> = members
        .iter()
        .map(|(cluster, member)| (cluster.clone(), u64::try_from(want(cluster, member) - member.has).unwrap_or(0)))
        .collect();
    let free = total - had - elsewhere;
    let given = u64::try_from(free).unwrap_or(0).min(grow.values().sum());
    let parts: Maxima = proportional(given, &grow).into_iter().collect();
    let of = |(cluster, member): (&ClusterName, &Member)| {
        let part = parts.get(cluster).copied().unwrap_or(0);
        // While there is too much, nobody gets back what it was to give up.
        let kept = if free < 0 { member.written } else { member.has };
        (cluster.clone(), want(cluster, member).min(kept).saturating_add(part))
    };
    members.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maxima() {
        let member = |share: i32, max: i32, runs: i32, limited: bool, has: i32| Member {
            share: Bounds { min: 1, max: share },
            max,
            runs,
            limited,
            written: has,
            has,
        };
        for (name, all, elsewhere, want, now_) in [
            (
                "a lender needs its share: what was lent gives way, even what runs",
                [member(20, 5, 5, true, 5), member(20, 49, 49, false, 49), member(20, 6, 6, false, 6)],
                0,
                [20, 34, 6],
                [5, 34, 6],
            ),
            (
                "an idle member returns: busy ones keep what they run",
                [member(20, 20, 30, false, 30), member(20, 20, 29, false, 30), member(20, 20, 1, false, 1)],
                0,
                [30, 29, 1],
                [30, 29, 1],
            ),
            (
                "and lose what is too much",
                [member(20, 20, 30, false, 30), member(20, 20, 30, false, 30), member(20, 20, 1, false, 1)],
                0,
                [30, 29, 1],
                [30, 29, 1],
            ),
            (
                "a user lowers the maximum",
                [member(10, 10, 30, false, 34), member(10, 10, 5, false, 33), member(10, 10, 1, false, 33)],
                0,
                [24, 5, 1],
                [24, 5, 1],
            ),
            (
                "a new one waits for what others give up",
                [member(20, 20, 9, false, 30), member(20, 20, 9, false, 30), member(20, 20, 1, false, 0)],
                0,
                [20, 20, 20],
                [20, 20, 0],
            ),
            (
                "a copy that is being evicted has some",
                [member(20, 20, 9, false, 15), member(20, 20, 9, false, 15), member(20, 20, 9, false, 15)],
                7,
                [20, 20, 20],
                [18, 18, 17],
            ),
        ] {
            let members: BTreeMap<ClusterName, Member> =
                ["A", "B", "C"].into_iter().map(ClusterName::from).zip(all).collect();
            let numbers = |maxima: &Maxima| maxima.values().copied().collect::<Vec<_>>();
            let wanted = wanted(&members);
            assert_eq!(numbers(&wanted), want, "{name}");
            let written = now(&members, &wanted, elsewhere);
            assert_eq!(numbers(&written), now_, "{name}: now");
        }
    }
}
