//! Wake rules that controllers share. A change of a spec or a deletion matters, a status does not.

use ironclad_api::{
    ObjectMeta,
    cluster::{APIEnablement, Cluster},
    conditions, names,
};
use serde_json::Value;

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

/// Returns true if a change of a template matters: it is new or deleted, or anything but status, managedFields and
/// resourceVersion differs.
///
/// Takes metadata and the rest separately, as caches hold them; the rest may contain `apiVersion`, `kind` and
/// `metadata`.
#[must_use]
pub fn template(old: Option<(&ObjectMeta, &Value)>, new: Option<(&ObjectMeta, &Value)>) -> bool {
    let relevant =
        |metadata: &ObjectMeta| ObjectMeta { managed_fields: None, resource_version: None, ..metadata.clone() };
    let (Some(old), Some(new)) = (old, new) else { return true };
    relevant(old.0) != relevant(new.0) || rest_changed(old.1, new.1)
}

fn rest_changed(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old != new };
    let counts = |key: &&String| *key != "status" && *key != "metadata";
    old.keys().filter(counts).any(|key| old.get(key) != new.get(key))
        || new.keys().filter(counts).any(|key| !old.contains_key(key))
}

/// Returns the cluster whose execution space was created, so that it lacks whatever belongs there.
#[must_use]
pub fn new_space<'a>(old: Option<&ObjectMeta>, new: Option<&'a ObjectMeta>) -> Option<&'a str> {
    let name = new.filter(|_| old.is_none())?.name.as_deref()?;
    names::cluster_of_execution_namespace(name).ok()
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
    use serde_json::json;

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

    #[test]
    fn template_changes_that_count() {
        let metadata = |text: Value| -> ObjectMeta { serde_json::from_value(text).unwrap() };
        let base =
            (metadata(json!({"name": "a", "resourceVersion": "1"})), json!({"spec": {"n": 1}, "status": {"n": 1}}));
        for (name, meta, rest, want) in [
            ("nothing", json!({"name": "a", "resourceVersion": "1"}), base.1.clone(), false),
            ("resourceVersion", json!({"name": "a", "resourceVersion": "2"}), base.1.clone(), false),
            ("managedFields", json!({"name": "a", "managedFields": [{"manager": "m"}]}), base.1.clone(), false),
            ("status", json!({"name": "a"}), json!({"spec": {"n": 1}, "status": {"n": 2}}), false),
            ("the first status", json!({"name": "a"}), json!({"spec": {"n": 1}}), false),
            ("spec", json!({"name": "a"}), json!({"spec": {"n": 2}, "status": {"n": 1}}), true),
            ("a new field", json!({"name": "a"}), json!({"spec": {"n": 1}, "data": {}}), true),
            ("generation", json!({"name": "a", "generation": 2}), base.1.clone(), true),
            ("a label", json!({"name": "a", "labels": {"x": "y"}}), base.1.clone(), true),
        ] {
            assert_eq!(template(Some((&base.0, &base.1)), Some((&metadata(meta), &rest))), want, "{name}");
        }
        let one = Some((&base.0, &base.1));
        assert!(template(None, one) && template(one, None), "created and deleted");
    }

    #[test]
    fn only_new_execution_spaces_count() {
        let (space, other) = (meta(json!({"name": "karmada-es-m1"})), meta(json!({"name": "shop"})));
        for (name, old, new, want) in [
            ("it came", None, Some(&space), Some("m1")),
            ("it changed", Some(&space), Some(&space), None),
            ("it is deleted", Some(&space), None, None),
            ("another namespace", None, Some(&other), None),
        ] {
            assert_eq!(new_space(old, new), want, "{name}");
        }
    }
}
