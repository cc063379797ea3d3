//! Wake rules of the remedy controller.

use std::collections::BTreeMap;

use ironclad_api::cluster::Cluster;

/// Returns true if this change of a cluster may change the actions asked of it, or undid them.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: &Cluster) -> bool {
    fn relevant(cluster: &Cluster) -> impl PartialEq + '_ {
        let status = cluster.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let states: BTreeMap<&str, &str> =
            conditions.iter().map(|condition| (&*condition.type_, &*condition.status)).collect();
        (states, status.map(|status| &status.remedy_actions))
    }
    old.is_none_or(|old| relevant(old) != relevant(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit;

    #[test]
    fn conditions_and_actions_of_a_cluster_wake_it() {
        let with = |conditions: &[(&str, &str)], actions: &[&str]| {
            let mut cluster = testkit::cluster("m1");
            let status = cluster.status.get_or_insert_default();
            status.conditions = conditions.iter().map(|(type_, status)| testkit::condition(type_, status, 1)).collect();
            status.remedy_actions = actions.iter().map(|action| (*action).to_owned()).collect();
            cluster
        };
        let base = with(&[("Ready", "True")], &[]);
        assert!(cluster(None, &base), "also a new one");
        for (name, new, want) in [
            ("nothing", with(&[("Ready", "True")], &[]), false),
            ("a condition", with(&[("Ready", "False")], &[]), true),
            ("another condition", with(&[("Ready", "True"), ("X", "True")], &[]), true),
            ("actions that somebody else wrote", with(&[("Ready", "True")], &["TrafficControl"]), true),
        ] {
            assert_eq!(cluster(Some(&base), &new), want, "{name}");
        }
    }
}
