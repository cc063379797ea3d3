//! Replicas of copies that are being left: the other members' minima rise by them for a while
//! (specification/autoscaling.md 6.4.1).
//!
//! The others' own load grows only once the replicas are gone, and their autoscalers take several rounds to follow it.

use std::collections::BTreeMap;

use ironclad_fleet::ClusterName;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::{lend::proportional, state};

/// Time after which a raised minimum ends, whatever became of it.
pub(super) const RAISED_MAX: SignedDuration = SignedDuration::from_mins(5);

/// A minimum that is raised for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The minimum.
    pub to: i32,
    pub since: Timestamp,
}

/// One member that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) weight: u32,
    /// Replicas that it runs or has decided for.
    pub(super) runs: i32,
    pub(super) raised: Option<Raised>,
}

/// The raised minima once so many more replicas leave: each member takes over a part by weight, on top of what it runs
/// or is to run.
pub(super) fn raise(
    members: &BTreeMap<ClusterName, Member>,
    leaves: i32,
    now: Timestamp,
) -> BTreeMap<ClusterName, Raised> {
    let all_zero = members.values().all(|member| member.weight == 0);
    let weight = |member: &Member| if all_zero { 1 } else { u64::from(member.weight) };
    let weights = members.iter().map(|(cluster, member)| (cluster.clone(), weight(member))).collect();
    let parts = proportional(u64::try_from(leaves).unwrap_or(0), &weights);
    let raised = parts.into_iter().filter(|(_, part)| *part > 0).filter_map(|(cluster, part)| {
        let member = members.get(&cluster)?;
        let from = member.raised.as_ref().map_or(member.runs, |raised| raised.to.max(member.runs));
        Some((cluster, Raised { to: from.saturating_add(part), since: now }))
    });
    raised.collect()
}

/// A raised minimum as it goes on. It ends once the member runs as many and nothing leaves any more: its autoscaler
/// decides then.
pub(super) fn lasting(raised: Raised, runs: i32, leaving: bool, now: Timestamp) -> Option<Raised> {
    let follows = runs >= raised.to && !leaving;
    (!follows && state::left(raised.since, RAISED_MAX, now).is_some()).then_some(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn others_take_over_by_weight() {
        let raised = |to| Some(Raised { to, since: at(0) });
        for (name, members, leaves, want) in [
            ("the member that runs most", [(1, 1, None), (1, 1, None)], 20, [Some(11), Some(11)]),
            ("all run as many", [(1, 4, None), (1, 4, None)], 4, [Some(6), Some(6)]),
            ("by weight", [(3, 2, None), (1, 1, None)], 8, [Some(8), Some(3)]),
            ("one replica has one heir", [(1, 2, None), (1, 2, None)], 1, [Some(3), None]),
            ("nothing ran there", [(1, 2, None), (1, 2, None)], 0, [None, None]),
            ("a second one is drained", [(1, 3, raised(11)), (1, 12, raised(11))], 4, [Some(13), Some(14)]),
            ("no weights", [(0, 1, None), (0, 1, None)], 4, [Some(3), Some(3)]),
        ] {
            let of = |(weight, runs, raised)| Member { weight, runs, raised };
            let members: BTreeMap<ClusterName, Member> =
                ["A", "B"].into_iter().map(ClusterName::from).zip(members.map(of)).collect();
            let found = raise(&members, leaves, at(9));
            let to = ["A", "B"].map(|name| found.get(&ClusterName::from(name)).map(|raised| raised.to));
            assert_eq!(to, want, "{name}");
            assert!(found.values().all(|raised| raised.since == at(9)));
        }
    }

    #[test]
    fn a_raised_minimum_ends() {
        let raised = || Raised { to: 8, since: at(0) };
        for (name, runs, leaving, second, want) in [
            ("its autoscaler has not seen it", 3, true, 10, true),
            ("it has, while the old copy is there", 8, true, 10, true),
            ("it has, and nothing leaves", 8, false, 10, false),
            ("the old copy is gone first", 3, false, 10, true),
            ("it never can", 3, true, 300, false),
        ] {
            assert_eq!(lasting(raised(), runs, leaving, at(second)).is_some(), want, "{name}");
        }
    }
}
