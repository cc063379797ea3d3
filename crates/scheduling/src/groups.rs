//! Ordered affinity groups: the order in which they are tried (specification/scheduling.md 4.2).

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterAffinityTerm, Placement},
};
use ironclad_fleet::{affinity::chooses, because::schedule::PassedOver};

/// Index of the group of the last success; 0 if there was none or the group was removed.
#[must_use]
pub fn observed(groups: &[ClusterAffinityTerm], name: &str) -> usize {
    groups.iter().position(|group| group.affinity_name == name).unwrap_or(0)
}

/// First group of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The group in use.
    Observed,
    /// The first one: a reschedule was requested.
    First,
}

/// Behaviour of a search after the last group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtTheEnd {
    /// It continues with the earlier groups (specification/scheduling.md 16.16).
    WrapAround,
    /// It ends.
    Stop,
}

/// Indices of the groups in the order in which they are tried.
#[must_use]
pub fn attempts(groups: &[ClusterAffinityTerm], name: &str, start: Start, end: AtTheEnd) -> Vec<usize> {
    let first = if start == Start::First { 0 } else { observed(groups, name) };
    let mut order: Vec<usize> = (first..groups.len()).collect();
    if end == AtTheEnd::WrapAround {
        order.extend(0..first);
    }
    order
}

/// The first group that chooses the cluster, if it and all others that do come before the group in use.
#[must_use]
pub fn passed_over(placement: &Placement, in_use: &str, cluster: &Cluster) -> Option<PassedOver> {
    let groups = placement.cluster_affinities.as_slice();
    let chosen_by = |group: &ClusterAffinityTerm| has(group, cluster);
    let (before, from) = groups.split_at_checked(observed(groups, in_use))?;
    let group = before.iter().find(|group| chosen_by(group)).filter(|_| !from.iter().any(chosen_by))?;
    Some(PassedOver { group: group.affinity_name.clone(), in_use: in_use.to_owned() })
}

/// Returns true if the affinity of a placement, or any of its groups, chooses the cluster; without either all are
/// chosen.
#[must_use]
pub fn may_choose(placement: &Placement, cluster: &Cluster) -> bool {
    match &placement.cluster_affinity {
        Some(own) => chooses(own, cluster),
        None if placement.cluster_affinities.is_empty() => true,
        None => placement.cluster_affinities.iter().any(|group| has(group, cluster)),
    }
}

/// Returns true if the group or one of its overflow groups chooses the cluster.
fn has(group: &ClusterAffinityTerm, cluster: &Cluster) -> bool {
    let tiers = group.overflow_affinities.iter().map(|tier| &tier.affinity);
    std::iter::once(&group.affinity).chain(tiers).any(|affinity| chooses(affinity, cluster))
}

#[cfg(test)]
mod tests {
    use ironclad_api::policy::{ClusterAffinity, OverflowClusterAffinity};

    use super::*;
    use crate::testkit::{cluster, group};

    #[test]
    fn clusters_that_any_part_of_a_placement_chooses() {
        let names = |names: &[&str]| ClusterAffinity {
            cluster_names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..ClusterAffinity::default()
        };
        let of = |own: Option<ClusterAffinity>, cluster_affinities| Placement {
            cluster_affinity: own,
            cluster_affinities,
            ..Placement::default()
        };
        let overflow = OverflowClusterAffinity { affinity_name: "o".into(), affinity: names(&["m3"]) };
        let tiered = ClusterAffinityTerm { overflow_affinities: vec![overflow], ..group("t", &["m1"]) };
        for (name, placement, want) in [
            ("nothing given", of(None, vec![]), "m1 m2 m3"),
            ("an affinity", of(Some(names(&["m2"])), vec![]), "m2"),
            ("several groups", of(None, vec![group("p", &["m1"]), group("b", &["m2"])]), "m1 m2"),
            ("a group with an overflow", of(None, vec![tiered]), "m1 m3"),
            ("a group without clusters", of(None, vec![group("p", &["m9"])]), ""),
        ] {
            let found = ["m1", "m2", "m3"].into_iter().filter(|name| may_choose(&placement, &cluster(name)));
            assert_eq!(found.collect::<Vec<_>>().join(" "), want, "{name}");
        }
    }

    #[test]
    fn clusters_of_earlier_groups_only_are_passed_over() {
        let affinities = vec![group("p", &["m1", "m2"]), group("b", &["m2", "m3"]), group("c", &["m3"])];
        let placement = Placement { cluster_affinities: affinities, ..Placement::default() };
        for (in_use, name, want) in [
            ("p", "m1", None),
            ("b", "m1", Some("p")),
            ("b", "m2", None),
            ("b", "m3", None),
            ("c", "m2", Some("p")),
            ("c", "m4", None),
            ("", "m1", None),
            ("removed", "m1", None),
        ] {
            let found = passed_over(&placement, in_use, &cluster(name)).map(|over| over.group);
            assert_eq!(found.as_deref(), want, "{name} while {in_use} is in use");
        }
        assert_eq!(passed_over(&Placement::default(), "b", &cluster("m1")), None);
    }

    #[test]
    fn order_of_attempts() {
        use Start::{First, Observed};
        let all = |names: &str| names.chars().map(|name| group(&name.to_string(), &[])).collect::<Vec<_>>();
        for (groups, observed, start, want, wrapped) in [
            ("pb", "", Observed, "pb", "pb"),
            ("pb", "b", Observed, "b", "bp"),
            ("pb", "b", First, "pb", "pb"),
            ("pbc", "b", Observed, "bc", "bcp"),
            ("pb", "x", Observed, "pb", "pb"),
        ] {
            let groups = all(groups);
            let names = |end| {
                let order = attempts(&groups, observed, start, end);
                order.iter().map(|i| groups[*i].affinity_name.clone()).collect::<String>()
            };
            assert_eq!((names(AtTheEnd::Stop).as_str(), names(AtTheEnd::WrapAround).as_str()), (want, wrapped));
        }
    }
}
