//! Wake rules of member objects: events that reconcile their Work or its status (specification/propagation.md 13.6,
//! specification/propagation.md 15.1; specification/propagation.md 31 row 24), or the kinds of the member.
//!
//! Upstream recognises events of its own writes by recorded versions. Here the cache stores an own write as soon as it
//! succeeded and drops its event, so no record is needed. Any other event is a change by somebody else, or an own
//! write for which the decision has no effects.

use ironclad_api::{JsonText, ObjectMeta, annotations, labels};
use ironclad_fleet::Gvk;

/// Object as member caches hold it.
#[derive(Debug, Clone, Copy)]
pub struct Cached<'a> {
    pub metadata: &'a ObjectMeta,
    /// Its status, if any.
    pub status: Option<&'a JsonText>,
    /// Hash of the remaining fields ([`crate::execution::content_hash`]).
    pub content: u64,
}

/// Annotations that the member's Deployment controller writes; they are pruned from every manifest
/// (specification/propagation.md 9.4).
const MEMBER_ANNOTATIONS: [&str; 2] =
    ["deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"];

/// Namespace and name of the Work that the event concerns, if the object is managed.
///
/// The old object takes precedence: removing label or annotations in the member still triggers a repair.
#[must_use]
pub fn work_of<'a>(old: Option<&'a ObjectMeta>, new: Option<&'a ObjectMeta>) -> Option<(&'a str, &'a str)> {
    old.and_then(named).or_else(|| new.and_then(named))
}

fn named(metadata: &ObjectMeta) -> Option<(&str, &str)> {
    let managed = metadata.labels.as_ref().and_then(|labels| labels.get(labels::MANAGED));
    let annotation = |key| metadata.annotations.as_ref().and_then(|all| all.get(key)).filter(|value| !value.is_empty());
    managed.filter(|value| *value == labels::TRUE)?;
    Some((annotation(annotations::WORK_NAMESPACE)?, annotation(annotations::WORK_NAME)?))
}

/// Returns true if a change of a member object reconciles its Work.
///
/// A deletion always does: the object is created again, or the Work waited for its end. A new object does as well: it
/// may have existed before without the label. Otherwise a field that execution compares must have changed; status,
/// generation, owners, finalizers and bookkeeping fields of the server are not compared. `ours` says that a write of
/// this process is the cause: no drift, but an end that it brought about is one that the Work may wait for.
#[must_use]
pub fn requeues(old: Option<Cached<'_>>, new: Option<Cached<'_>>, ours: bool) -> bool {
    match (old, new) {
        (None, None) => false,
        (Some(_), None) => true,
        _ if ours => false,
        (Some(old), Some(new)) => old.content != new.content || metadata_differs(old.metadata, new.metadata),
        _ => true,
    }
}

/// Returns true if a change of a member object is reflected into its Work.
///
/// A deletion is not: the last status remains until the object is created again (specification/propagation.md 15.2).
#[must_use]
pub fn changes_status(old: Option<Cached<'_>>, new: Option<Cached<'_>>) -> bool {
    match (old, new) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(old), Some(new)) => {
            old.content != new.content || old.status != new.status || any_metadata_differs(old.metadata, new.metadata)
        }
    }
}

fn metadata_differs(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    fn annotations(of: &ObjectMeta) -> impl Iterator<Item = (&String, &String)> {
        of.annotations.iter().flatten().filter(|(key, _)| !MEMBER_ANNOTATIONS.contains(&key.as_str()))
    }
    old.uid != new.uid
        || old.deletion_timestamp.is_some() != new.deletion_timestamp.is_some()
        || old.labels.iter().flatten().ne(new.labels.iter().flatten())
        || annotations(old).ne(annotations(new))
}

/// Returns true if metadata differs in anything but resourceVersion and managedFields.
fn any_metadata_differs(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    fn rest(of: &ObjectMeta) -> impl PartialEq + '_ {
        let lists = (&of.finalizers, &of.owner_references);
        let times = (&of.creation_timestamp, &of.deletion_timestamp, &of.deletion_grace_period_seconds);
        (&of.uid, &of.generation, lists, times)
    }
    rest(old) != rest(new)
        || old.labels.iter().flatten().ne(new.labels.iter().flatten())
        || old.annotations.iter().flatten().ne(new.annotations.iter().flatten())
}

/// Returns true if the member serves other kinds than before: a CustomResourceDefinition became established or was
/// deleted. Its discovery is then read at once instead of at the next probe (specification/failover.md 1.2), since
/// objects of the kind wait for it.
#[must_use]
pub fn changes_kinds(gvk: &Gvk, old: Option<Cached<'_>>, new: Option<Cached<'_>>) -> bool {
    let established = |cached: Cached<'_>| {
        let status = cached.status.map(JsonText::value);
        let conditions = status.as_ref().and_then(|status| status.get("conditions")?.as_array());
        conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Established" && c["status"] == "True"))
    };
    *gvk.group == *"apiextensions.k8s.io" && old.is_some_and(established) != new.is_some_and(established)
}

/// Returns true if a namespace of a member exists now: objects that wait for it can be applied.
#[must_use]
pub fn brings_namespace(gvk: &Gvk, old: Option<Cached<'_>>, new: Option<Cached<'_>>) -> bool {
    let is_namespace = gvk.group.is_empty() && *gvk.kind == *"Namespace";
    is_namespace && appears(old.map(|cached| cached.metadata), new.map(|cached| cached.metadata))
}

/// Returns true if an object exists now that did not before, or of which only a deleted predecessor did.
#[must_use]
pub fn appears(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> bool {
    let uid = |meta: &ObjectMeta| meta.deletion_timestamp.is_none().then(|| meta.uid.clone().unwrap_or_default());
    new.and_then(uid).is_some_and(|new| old.and_then(uid) != Some(new))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Object as a cache holds it.
    struct Object(ObjectMeta, JsonText, u64);

    fn cached(object: &Object) -> Option<Cached<'_>> {
        Some(Cached { metadata: &object.0, status: Some(&object.1), content: object.2 })
    }

    fn object(patch: Value) -> Object {
        let mut whole = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1,
                "labels": {"karmada.io/managed": "true"},
                "annotations": {"work.karmada.io/namespace": "karmada-es-m1", "work.karmada.io/name": "web-x"}},
            "spec": {"replicas": 1}, "status": {"readyReplicas": 0},
        });
        crate::testkit::merge(&mut whole, &patch);
        let metadata = serde_json::from_value(whole["metadata"].take()).unwrap();
        let status = JsonText::from(&whole["status"].take());
        Object(metadata, status, crate::execution::content_hash(whole.as_object().unwrap()))
    }

    #[test]
    fn crd_changes_reload_discovery() {
        let crd = Gvk::from_manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition");
        let new = object(json!({}));
        let ready = object(json!({"status": {"conditions": [{"type": "Established", "status": "True"}]}}));
        let (new, ready) = (cached(&new), cached(&ready));
        let rows = [
            (None, new, false),
            (None, ready, true),
            (new, ready, true),
            (ready, ready, false),
            (ready, None, true),
            (new, None, false),
        ];
        for (i, (old, new, expected)) in rows.into_iter().enumerate() {
            assert_eq!(changes_kinds(&crd, old, new), expected, "row {i}");
            assert!(!changes_kinds(&Gvk::from_manifest("apps/v1", "Deployment"), old, new), "row {i}");
        }
    }

    #[test]
    fn active_namespaces_release_waiting_objects() {
        let namespace = |uid: &str, ends: bool| {
            let ends = ends.then_some("2026-01-01T00:00:00Z");
            object(json!({"metadata": {"uid": uid, "deletionTimestamp": ends}}))
        };
        let (first, ending, second) = (namespace("a", false), namespace("a", true), namespace("b", false));
        let gvk = Gvk::from_manifest("v1", "Namespace");
        for (name, old, new, comes) in [
            ("it came", None, Some(&first), true),
            ("it stays", Some(&first), Some(&first), false),
            ("it ends", Some(&first), Some(&ending), false),
            ("it is deleted", Some(&ending), None, false),
            ("it was ending when it was first seen", None, Some(&ending), false),
            ("another one, after an event that was missed", Some(&first), Some(&second), true),
            ("another one after one that ended", Some(&ending), Some(&second), true),
        ] {
            let (old, new) = (old.and_then(cached), new.and_then(cached));
            assert_eq!(brings_namespace(&gvk, old, new), comes, "{name}");
            assert!(!brings_namespace(&Gvk::from_manifest("v1", "ConfigMap"), old, new), "{name}");
            assert!(!brings_namespace(&Gvk::from_manifest("example.io/v1", "Namespace"), old, new), "{name}");
        }
    }

    #[test]
    fn member_changes_that_reconcile_a_work() {
        let (old, plain) = (object(json!({})), json!({}));
        for (name, patch, to_execution, to_status) in [
            ("nothing", plain, false, false),
            ("a version", json!({"metadata": {"resourceVersion": "2"}}), false, false),
            ("who owns which field", json!({"metadata": {"managedFields": [{"manager": "m"}]}}), false, false),
            ("status", json!({"metadata": {"resourceVersion": "2"}, "status": {"readyReplicas": 1}}), false, true),
            ("a field that appears in status", json!({"status": {"replicas": 1}}), false, true),
            ("spec", json!({"metadata": {"generation": 2}, "spec": {"replicas": 2}}), true, true),
            ("a field of spec that goes", json!({"spec": {"replicas": null}}), true, true),
            ("another top-level field", json!({"data": {"a": "b"}}), true, true),
            ("a label", json!({"metadata": {"labels": {"a": "b"}}}), true, true),
            ("the managed label", json!({"metadata": {"labels": null}}), true, true),
            ("an annotation", json!({"metadata": {"annotations": {"a": "b"}}}), true, true),
            (
                "the Deployment controller's note",
                json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "2"}}}),
                false,
                true,
            ),
            ("a finalizer", json!({"metadata": {"finalizers": ["x"]}}), false, true),
            ("a deletion that begins", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), true, true),
            ("another object of the name", json!({"metadata": {"uid": "v"}}), true, true),
        ] {
            let new = object(patch);
            let (old, new) = (cached(&old), cached(&new));
            assert_eq!(requeues(old, new, false), to_execution, "{name}");
            assert!(!requeues(old, new, true), "{name}, by us");
            assert_eq!(changes_status(old, new), to_status, "{name}");
        }
        let seen = cached(&old);
        assert!(requeues(seen, None, false), "it is deleted: made anew");
        assert!(requeues(seen, None, true), "by us: the Work may wait for that");
        assert!(!changes_status(seen, None), "it is deleted: its status stays");
        assert!(requeues(None, seen, false) && changes_status(None, seen), "it appears");
        assert!(!requeues(None, seen, true), "it appears, by us");
        assert!(!requeues(None, None, false) && !changes_status(None, None));
    }

    #[test]
    fn old_object_names_the_work() {
        let ours = object(json!({})).0;
        let unlabelled = object(json!({"metadata": {"labels": null}})).0;
        let other = object(json!({"metadata": {"annotations": {"work.karmada.io/name": "web-y"}}})).0;
        let nameless = object(json!({"metadata": {"annotations": {"work.karmada.io/name": ""}}})).0;
        let named = |name| Some(("karmada-es-m1", name));
        for (name, old, new, want) in [
            ("it appears", None, Some(&ours), named("web-x")),
            ("it goes", Some(&ours), None, named("web-x")),
            ("the label is taken off", Some(&ours), Some(&unlabelled), named("web-x")),
            ("the label is put on", Some(&unlabelled), Some(&ours), named("web-x")),
            ("another Work's name is put on", Some(&ours), Some(&other), named("web-x")),
            ("not managed", None, Some(&unlabelled), None),
            ("no name", None, Some(&nameless), None),
            ("nothing", None, None, None),
        ] {
            assert_eq!(work_of(old, new), want, "{name}");
        }
    }
}
