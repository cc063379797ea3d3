//! Changes that matter to the controllers of the pipeline: of a spec or a deletion, never of a status.

use ironclad_api::{
    ObjectMeta,
    cluster::{APIEnablement, Cluster},
    conditions,
    work::ResourceBindingSpec,
};

/// Returns true if a Work has to be applied again.
#[must_use]
pub fn work(old: Option<&ObjectMeta>, new: &ObjectMeta) -> bool {
    old.is_none_or(|old| lives(old) != lives(new))
}

/// Returns true if a binding has to be reconciled. Its labels count: they carry the id by which its Works are found.
#[must_use]
pub fn binding(old: Option<&ObjectMeta>, new: &ObjectMeta) -> bool {
    old.is_none_or(|old| lives(old) != lives(new) || old.labels != new.labels)
}

/// Returns true if a policy has to be reconciled.
#[must_use]
pub fn policy(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> bool {
    old.map(lives) != new.map(lives)
}

/// Returns true if Works that were refused or parked in a cluster may succeed now: it became ready or unready, is
/// being deleted, or serves other APIs (specification/propagation.md 31 rows 3 and 15).
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: &Cluster) -> bool {
    old.is_none_or(|old| relevant(old) != relevant(new))
}

/// Returns true if the expected clusters of a binding may differ.
#[must_use]
pub fn targets(old: Option<&ResourceBindingSpec>, new: Option<&ResourceBindingSpec>) -> bool {
    old != new
}

fn lives(metadata: &ObjectMeta) -> (Option<i64>, bool) {
    (metadata.generation, metadata.deletion_timestamp.is_some())
}

fn relevant(cluster: &Cluster) -> (bool, bool, Option<&[APIEnablement]>) {
    let ready = cluster.ready() == Some(conditions::TRUE);
    let apis = cluster.status.as_ref().map(|status| status.api_enablements.as_slice());
    (ready, cluster.metadata.deletion_timestamp.is_some(), apis)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit;

    fn meta(extra: Value) -> ObjectMeta {
        let mut base = json!({"name": "a", "generation": 1, "resourceVersion": "1", "labels": {"a": "b"}});
        testkit::merge(&mut base, &extra);
        serde_json::from_value(base).unwrap()
    }

    #[test]
    fn spec_and_deletion_changes_count() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        for (name, new, of_work, of_binding) in [
            ("a status", json!({"resourceVersion": "2"}), false, false),
            ("a spec", json!({"generation": 2}), true, true),
            ("the end", deleted, true, true),
            ("a label", json!({"labels": {"a": "c"}}), false, true),
        ] {
            let (old, new) = (meta(json!({})), meta(new));
            assert_eq!(work(Some(&old), &new), of_work, "{name}");
            assert_eq!(binding(Some(&old), &new), of_binding, "{name}");
            assert_eq!(policy(Some(&old), Some(&new)), of_work, "{name}");
        }
        let new = meta(json!({}));
        assert!(work(None, &new) && binding(None, &new) && policy(None, Some(&new)), "a new one");
        assert!(policy(Some(&new), None), "a policy that is deleted");
    }

    #[test]
    fn cluster_changes_that_retry_works() {
        let cluster_of = |ready: &str, extra: Value| testkit::patched(&testkit::cluster("m1", ready), &extra);
        let base = cluster_of("True", json!({}));
        let apis = json!({"status": {"apiEnablements": [{"groupVersion": "v1", "resources": []}]}});
        for (name, new, want) in [
            ("nothing", cluster_of("True", json!({})), false),
            ("a figure", cluster_of("True", json!({"status": {"nodeSummary": {"totalNum": 3, "readyNum": 3}}})), false),
            ("not ready", cluster_of("False", json!({})), true),
            ("another API", cluster_of("True", apis), true),
            ("leaving", cluster_of("True", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), true),
        ] {
            assert_eq!(cluster(Some(&base), &new), want, "{name}");
        }
        assert!(cluster(None, &base), "a new one");
    }
}
