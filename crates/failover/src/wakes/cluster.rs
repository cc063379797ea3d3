//! Wake rules of the cluster controller for clusters that are being deleted, and of its monitor of leases.

use std::collections::BTreeSet;

use ironclad_api::{
    ObjectMeta,
    cluster::{Cluster, SyncMode},
    work::{ResourceBindingSpec, ResourceBindingStatus, Work},
};
use ironclad_fleet::ClusterName;

use crate::cluster::lifecycle;

/// Returns true if a changed binding may let a cluster finish its deletion: its spec, labels or deletion changed, or it
/// was deleted.
#[must_use]
pub fn binding(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> bool {
    let lives = |meta: &ObjectMeta| (meta.generation, meta.deletion_timestamp.is_some(), meta.labels.clone());
    new.is_none() || old.map(lives) != new.map(lives)
}

/// Returns true if a changed Work may let a cluster finish its deletion: it was deleted.
#[must_use]
pub fn work(old: Option<&Work>, new: Option<&Work>) -> bool {
    old.is_some() && new.is_none()
}

/// Returns the clusters among `terminating` whose deletion has something else to report, because a binding with a
/// replica there was scheduled or could not be scheduled.
#[must_use]
pub fn schedule_result(
    old: Option<&ResourceBindingStatus>,
    new: Option<(&ResourceBindingSpec, Option<&ResourceBindingStatus>)>,
    terminating: &BTreeSet<ClusterName>,
) -> Vec<ClusterName> {
    let Some((spec, status)) = new.filter(|_| !terminating.is_empty()) else { return Vec::new() };
    if !lifecycle::scheduled_changed(old, status) {
        return Vec::new();
    }
    terminating.iter().filter(|name| spec.target(&name.0).is_some()).cloned().collect()
}

/// Returns true if a changed cluster counts as a renewal of its lease: one in pull mode that joined, or whose readiness
/// changed.
#[must_use]
pub fn renews(old: Option<&Cluster>, new: &Cluster) -> bool {
    new.spec.sync_mode == SyncMode::Pull && old.is_none_or(|old| old.ready() != new.ready())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ironclad_api::conditions::{self, binding::SCHEDULED};
    use ironclad_api::work::TargetCluster;

    use super::*;
    use crate::testkit;

    #[test]
    fn spec_labels_and_deletion_of_a_binding_wake_terminating_clusters() {
        let base = ObjectMeta { generation: Some(1), ..ObjectMeta::default() };
        let edited = ObjectMeta { generation: Some(2), ..ObjectMeta::default() };
        let labelled = ObjectMeta { labels: Some(BTreeMap::from([("a".into(), "b".into())])), ..base.clone() };
        let status = ObjectMeta { resource_version: Some("2".into()), ..base.clone() };
        for (name, old, new, want) in [
            ("created", None, Some(&base), true),
            ("edited", Some(&base), Some(&edited), true),
            ("labelled", Some(&base), Some(&labelled), true),
            ("status", Some(&base), Some(&status), false),
            ("deleted", Some(&base), None, true),
        ] {
            assert_eq!(binding(old, new), want, "{name}");
        }
    }

    #[test]
    fn only_deleted_works_wake_terminating_clusters() {
        let one = Work::default();
        assert!(work(Some(&one), None));
        assert!(!work(Some(&one), Some(&one)) && !work(None, Some(&one)));
    }

    #[test]
    fn schedule_results_wake_the_terminating_clusters_of_the_binding() {
        let spec = ResourceBindingSpec {
            clusters: vec![TargetCluster { name: "m1".into(), ..TargetCluster::default() }],
            ..ResourceBindingSpec::default()
        };
        let failed = ResourceBindingStatus {
            conditions: vec![conditions::condition(SCHEDULED, "False", "NoClusterFit", "none fits")],
            ..ResourceBindingStatus::default()
        };
        let names = |names: &[&str]| names.iter().map(|name| ClusterName::from(*name)).collect::<BTreeSet<_>>();
        for (name, old, new, terminating, want) in [
            ("no cluster is being deleted", None, Some((&spec, Some(&failed))), names(&[]), 0),
            ("a target is being deleted", None, Some((&spec, Some(&failed))), names(&["m1", "m2"]), 1),
            ("the schedule result does not change", Some(&failed), Some((&spec, Some(&failed))), names(&["m1"]), 0),
            ("no replicas in the cluster", None, Some((&spec, Some(&failed))), names(&["m2"]), 0),
            ("the binding was deleted", Some(&failed), None, names(&["m1"]), 0),
        ] {
            assert_eq!(schedule_result(old, new, &terminating).len(), want, "{name}");
        }
    }

    #[test]
    fn pull_clusters_that_join_or_turn_count_as_renewed() {
        let of = |mode: SyncMode, ready: &str| {
            let mut cluster = testkit::cluster("m1");
            cluster.spec.sync_mode = mode;
            testkit::ready(&mut cluster, ready, 1);
            cluster
        };
        let ready = of(SyncMode::Pull, "True");
        for (name, old, new, want) in [
            ("it joined", None, ready.clone(), true),
            ("nothing", Some(&ready), ready.clone(), false),
            ("not ready", Some(&ready), of(SyncMode::Pull, "Unknown"), true),
            ("in push mode", None, of(SyncMode::Push, "True"), false),
        ] {
            assert_eq!(renews(old, &new), want, "{name}");
        }
    }
}
