//! Index of bindings by the objects they depend on (specification/propagation.md 8.1), so that a change of an object
//! needs no scan of all bindings.

use ironclad_api::{ObjectMeta, annotations, labels};
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
    fn depended_by_labels_share_a_prefix() {
        let label = ironclad_api::names::depended_by_label("shop", "web-deployment");
        let binding = patched(&binding(&[]), &json!({"metadata": {"labels": {(label.clone()): "id"}}}));
        assert_eq!(edges(&binding.metadata), [label]);
    }
}
