//! Index of bindings by the objects they depend on (specification/propagation.md 8.1), so that a change of an object
//! needs no scan of all bindings.

use ironclad_api::{ObjectMeta, annotations, finalizers, labels};
use ironclad_fleet::Gvk;
use ironclad_interpreter::Dependency;

use crate::{
    detector::binding::Binding,
    template::{self, Identity},
};

/// Replaces the name where a label selector selects the objects.
const ANY: &str = "*";

/// Index values of a binding: its recorded dependencies.
#[must_use]
pub fn recorded(metadata: &ObjectMeta) -> Vec<String> {
    let text = metadata.annotations.as_ref().and_then(|map| map.get(annotations::DEPENDENCIES));
    let list: Vec<Dependency> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let value = |d: Dependency| {
        let name = if d.name.is_empty() { ANY } else { &d.name };
        value(template::group(&d.api_version), &d.kind, &d.namespace, name)
    };
    list.into_iter().map(value).collect()
}

/// Index values under which [`recorded`] has the bindings that may depend on this object.
#[must_use]
pub fn of_object(gvk: &Gvk, metadata: &ObjectMeta) -> [String; 2] {
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let name = metadata.name.as_deref().unwrap_or_default();
    [name, ANY].map(|name| value(&gvk.group, &gvk.kind, namespace, name))
}

fn value(group: &str, kind: &str, namespace: &str, name: &str) -> String {
    format!("{group}/{kind}/{namespace}/{name}")
}

/// The labels by which an attached binding refers to its referrers.
#[must_use]
pub fn edges(metadata: &ObjectMeta) -> Vec<String> {
    let keys = metadata.labels.iter().flatten().map(|(key, _)| key);
    keys.filter(|key| key.starts_with(labels::DEPENDED_BY_PREFIX)).cloned().collect()
}

/// Returns true if this change of a binding may change its attached bindings.
#[must_use]
pub fn binding_counts(old: Option<Binding<'_>>, new: Binding<'_>) -> bool {
    let concerned = |binding: Binding<'_>| {
        let list = binding.metadata().finalizers.iter().flatten();
        binding.spec().propagate_deps || list.into_iter().any(|f| f == finalizers::BINDING_DEPENDENCIES_DISTRIBUTOR)
    };
    let moved = old.is_none_or(|old| {
        old.metadata().generation != new.metadata().generation || old.is_deleting() != new.is_deleting()
    });
    moved && (concerned(new) || old.is_some_and(concerned))
}

/// Namespace of the binding for a dependency: its own namespace, or for a cluster-scoped object the referrer's.
#[must_use]
pub fn namespace_of(by: Binding<'_>, object: &Identity<'_>) -> String {
    if object.namespace.is_empty() { by.key().namespace.to_string() } else { object.namespace.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::{binding, patched};

    #[test]
    fn objects_find_their_dependents() {
        let record = json!([
            {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "conf"},
            {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "namespace": "shop", "labelSelector": {"matchLabels": {"a": "b"}}},
        ]);
        let binding = patched(
            &binding(&[]),
            &json!({"metadata": {"annotations": {annotations::DEPENDENCIES: record.to_string()}}}),
        );
        let recorded = recorded(&binding.metadata);
        for (name, api_version, kind, namespace, object, want) in [
            ("the one named", "v1", "ConfigMap", "shop", "conf", true),
            ("another name", "v1", "ConfigMap", "shop", "other", false),
            ("another namespace", "v1", "ConfigMap", "else", "conf", false),
            ("another kind", "v1", "Secret", "shop", "conf", false),
            ("any, where a selector says which", "discovery.k8s.io/v1", "EndpointSlice", "shop", "x", true),
        ] {
            let metadata =
                ObjectMeta { name: Some(object.into()), namespace: Some(namespace.into()), ..ObjectMeta::default() };
            let values = of_object(&Gvk::from_manifest(api_version, kind), &metadata);
            assert_eq!(values.iter().any(|value| recorded.contains(value)), want, "{name}");
        }
    }

    #[test]
    fn binding_changes_that_count() {
        let with = |generation: i64, deps: bool, finalizer: bool| {
            let list = if finalizer { vec![finalizers::BINDING_DEPENDENCIES_DISTRIBUTOR] } else { vec![] };
            patched(
                &binding(&[]),
                &json!({"metadata": {"generation": generation, "finalizers": list}, "spec": {"propagateDeps": deps}}),
            )
        };
        for (name, old, new, want) in [
            ("a new one that takes dependencies along", None, with(1, true, false), true),
            ("a new one that does not", None, with(1, false, false), false),
            ("a status", Some(with(1, true, false)), with(1, true, false), false),
            ("an edit", Some(with(1, true, false)), with(2, true, false), true),
            ("switched off", Some(with(1, true, false)), with(2, false, false), true),
            ("one that has something to release, after a restart", None, with(2, false, true), true),
        ] {
            let old = old.as_ref().map(Binding::from);
            assert_eq!(binding_counts(old, Binding::from(&new)), want, "{name}");
        }
        let going = patched(&with(1, true, true), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(binding_counts(Some(Binding::from(&with(1, true, true))), Binding::from(&going)), "one being deleted");
    }

    #[test]
    fn depended_by_labels_share_a_prefix() {
        let label = ironclad_api::names::depended_by_label("shop", "web-deployment");
        let binding = patched(&binding(&[]), &json!({"metadata": {"labels": {(label.clone()): "id"}}}));
        assert_eq!(edges(&binding.metadata), [label]);
    }
}
