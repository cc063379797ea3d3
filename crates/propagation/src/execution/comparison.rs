//! Result of a comparison of a member object with its manifest, kept so that the cache need not hold the whole object
//! (specification/propagation.md 13.2, specification/propagation.md 13.6; specification/propagation.md 31 row 29).
//!
//! The object is compared with the manifest of its Work when its event arrives, and the result is cached with it. The
//! result is valid for this manifest only; the cache replaces it when the object changes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use ironclad_api::work::{Manifest, Work};
use ironclad_interpreter::Interpreter;
use serde_json::{Map, Value};

use super::{
    compare,
    object::{finished, object_key},
    ownership,
};
use crate::template::Identity;

/// Result of comparing the content of a member object with one manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// Hash of the manifest.
    manifest: u64,
    /// The object has all values of the manifest.
    same: bool,
    /// The object has no other fields.
    no_more: bool,
}

impl Comparison {
    /// Returns true if the comparison was with this manifest.
    #[must_use]
    pub fn is_of(&self, manifest: &Manifest) -> bool {
        self.manifest == hash(manifest)
    }

    /// Returns true if nothing has to be sent. If this manifest was sent before, the object may have more fields: the
    /// member set them. Otherwise an older manifest may have.
    pub(super) fn is_sufficient(&self, manifest: &Manifest, was_sent: bool) -> bool {
        self.same && (self.no_more || was_sent) && self.is_of(manifest)
    }
}

/// Compares the content of an object with the manifest of its Work, without metadata.
///
/// `None` if the Work is not for this object, or the interpreter cannot compute the retained fields. Not for kinds
/// whose `Retain` needs a webhook: their objects are cached whole.
#[must_use]
pub fn compare_content(work: &Work, object: &Value, interpreter: &Interpreter) -> Option<Comparison> {
    let [raw] = work.spec.workload.manifests.as_slice() else { return None };
    let identity = Identity::of(object);
    let is_it = object_key(work).is_some_and(|key| key == identity.key());
    if !is_it {
        return None;
    }
    let manifest = raw.object();
    let manifest = finished(work, &manifest);
    let is_as_recorded =
        ownership::is_recorded(&manifest, object) && compare::content_difference(&manifest, object).is_none();
    let merged = (!is_as_recorded).then(|| ownership::merge(&manifest, object));
    let (wanted, removed) =
        merged.as_ref().map_or((&*manifest, None), |merged| (&merged.object, merged.removed.as_ref()));
    let desired = interpreter.retain(wanted, object).ok()?;
    Some(Comparison {
        manifest: hash(raw),
        same: removed.is_none() && compare::content_difference(&desired, object).is_none(),
        no_more: compare::surplus(&desired, object).is_none(),
    })
}

/// Hash of the content of an object: everything but metadata and status, independent of the order of map keys.
///
/// Only comparable within one process.
#[must_use]
pub fn content_hash(object: &Map<String, Value>) -> u64 {
    let mut state = DefaultHasher::new();
    for (key, value) in object {
        if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status") {
            key.hash(&mut state);
            value.hash(&mut state);
        }
    }
    state.finish()
}

fn hash(manifest: &Manifest) -> u64 {
    let mut state = DefaultHasher::new();
    manifest.as_str().hash(&mut state);
    state.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testkit::{deployment, merge, work};

    fn of(template: &Value) -> Work {
        work(json!({
            "metadata": {"namespace": "karmada-es-m1", "name": "web-x"}, "spec": {"workload": {"manifests": [template]}},
        }))
    }

    #[test]
    fn comparison_results() {
        let with = |patch: Value| {
            let mut object = deployment();
            merge(&mut object, &patch);
            object
        };
        let answer = |same, no_more| Some((same, no_more));
        for (name, object, want) in [
            ("just the manifest", deployment(), answer(true, true)),
            ("with a default", with(json!({"spec": {"progressDeadlineSeconds": 600}})), answer(true, true)),
            ("with another value", with(json!({"spec": {"replicas": 9}})), answer(false, true)),
            ("with both", with(json!({"spec": {"replicas": 9, "paused": true}})), answer(false, true)),
            (
                "metadata and status do not count",
                with(json!({"metadata": {"labels": {"x": "y"}}, "status": {"a": 1}})),
                answer(true, true),
            ),
            ("another object", with(json!({"metadata": {"name": "other"}})), None),
            ("another kind", with(json!({"kind": "StatefulSet"})), None),
        ] {
            let found = compare_content(&of(&deployment()), &object, &Interpreter::default());
            assert_eq!(found.map(|found| (found.same, found.no_more)), want, "{name}");
        }
        let listed = |toleration: Value| with(json!({"spec": {"template": {"spec": {"tolerations": [toleration]}}}}));
        let (template, object) = (listed(json!({"key": "k"})), listed(json!({"key": "k", "operator": "Equal"})));
        let found = compare_content(&of(&template), &object, &Interpreter::default()).unwrap();
        assert_eq!((found.same, found.no_more), (true, false), "the field may have been the template's");
        let retained = with(json!({"metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": "true"}}}));
        let (none, nine) = (with(json!({"spec": {"replicas": null}})), with(json!({"spec": {"replicas": 9}})));
        let found = |object| compare_content(&of(&retained), object, &Interpreter::default());
        assert_eq!(found(&none), None, "replicas to retain are missing: the decision reports it");
        assert!(found(&nine).is_some_and(|found| found.same), "what is retained is no difference");
    }

    #[test]
    fn comparison_is_valid_for_one_manifest() {
        let find = |same, no_more| Comparison { manifest: hash(&deployment().into()), same, no_more };
        let mut other = deployment();
        merge(&mut other, &json!({"spec": {"replicas": 9}}));
        for (name, found, manifest, was_sent, want) in [
            ("the same, and sent", find(true, false), deployment(), true, true),
            ("the same, not sent: it may have a field that left", find(true, false), deployment(), false, false),
            ("exactly the same", find(true, true), deployment(), false, true),
            ("another", find(false, true), deployment(), true, false),
            ("the manifest changed since", find(true, true), other, true, false),
        ] {
            assert_eq!(found.is_sufficient(&manifest.into(), was_sent), want, "{name}");
        }
    }

    fn content_hash(object: &Value) -> u64 {
        super::content_hash(object.as_object().unwrap())
    }

    #[test]
    fn content_excludes_metadata_and_status() {
        let hash = content_hash(&deployment());
        for (name, patch, differs) in [
            ("status", json!({"status": {"a": 1}}), false),
            ("metadata", json!({"metadata": {"labels": {"a": "b"}}}), false),
            ("who it is", json!({"apiVersion": "v9", "kind": "X"}), false),
            ("spec", json!({"spec": {"replicas": 9}}), true),
            ("any other field", json!({"data": {}}), true),
        ] {
            let mut object = deployment();
            merge(&mut object, &patch);
            assert_eq!(content_hash(&object) != hash, differs, "{name}");
        }
    }

    proptest! {
        #[test]
        fn moved_content_has_another_hash(a in "[a-c]{0,3}", b in "[a-c]{0,3}", c in "[a-c]{0,3}", d in "[a-c]{0,3}") {
            let (left, right) = (json!({"data": {a.clone(): b.clone()}}), json!({"data": {c.clone(): d.clone()}}));
            prop_assert_eq!(content_hash(&left) == content_hash(&right), (a, b) == (c, d));
        }
    }
}
