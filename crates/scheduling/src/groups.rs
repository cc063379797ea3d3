//! Ordered affinity groups: the order in which they are tried (specification/scheduling.md 4.2).

use ironclad_api::policy::ClusterAffinityTerm;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::group;

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
