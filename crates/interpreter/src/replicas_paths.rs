//! Places at which kinds with a scale subresource have their replicas.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_fleet::Gvk;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};

/// `specReplicasPath` (`.spec.replicas`) of the kinds that were looked up; `None` for a kind without a scale
/// subresource.
pub type ReplicasPaths = BTreeMap<Gvk, Option<Arc<str>>>;

/// Place at which a kind has its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicasPath {
    /// At this path, such as `.spec.replicas`.
    At(Arc<str>),
    /// It has no scale subresource.
    Nowhere,
    /// It is no kind of Kubernetes, and its definition was not looked up.
    NotLookedUp,
}

/// JSON pointer of a path such as `.spec.replicas`.
#[must_use]
pub fn replicas_pointer(path: &str) -> String {
    let keys = path.trim_start_matches('.').split('.');
    keys.map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect()
}

/// The paths of the kinds that a definition defines.
#[must_use]
pub fn replicas_paths(definition: &CustomResourceDefinition) -> ReplicasPaths {
    let spec = &definition.spec;
    let path = |version: &CustomResourceDefinitionVersion| {
        let scale = version.subresources.as_ref()?.scale.as_ref()?;
        Some(scale.spec_replicas_path.as_str().into())
    };
    let versions = spec.versions.iter().map(|version| {
        let gvk = Gvk {
            group: spec.group.as_str().into(),
            version: version.name.as_str().into(),
            kind: spec.names.kind.as_str().into(),
        };
        (gvk, path(version))
    });
    versions.collect()
}

#[cfg(test)]
mod tests {
    use ironclad_api::labels::RETAIN_REPLICAS;
    use serde_json::{Value, json};

    use super::*;
    use crate::Interpreter;

    fn farm(version: &str, label: &str, replicas: i64) -> Value {
        json!({"apiVersion": format!("x.io/{version}"), "kind": "Farm",
            "metadata": {"name": "f", "labels": {RETAIN_REPLICAS: label}}, "spec": {"size": {"n": replicas}, "color": "red"}})
    }

    #[test]
    fn replicas_of_defined_kinds_are_retained_at_the_path_of_their_version() {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": {"name": "farms.x.io"},
            "spec": {"group": "x.io", "scope": "Namespaced", "names": {"plural": "farms", "kind": "Farm"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"scale":
                    {"specReplicasPath": ".spec.size.n", "statusReplicasPath": ".status.n"}}},
                {"name": "v1beta1", "served": true, "storage": false, "schema": schema},
            ]},
        }))
        .unwrap();
        let known = Interpreter::default().with_replicas_paths(replicas_paths(&definition).into());
        let kept = |version: &str, label: &str| {
            known.for_a_decision().retain(&farm(version, label, 1), &farm(version, label, 4)).unwrap()
        };
        assert_eq!(kept("v1", "true"), farm("v1", "true", 4));
        assert_eq!(kept("v1", "false"), farm("v1", "false", 1));
        assert_eq!(kept("v1beta1", "true"), farm("v1beta1", "true", 1), "without a scale subresource");
    }

    #[test]
    fn paths_become_pointers() {
        for (path, want) in [
            (".spec.replicas", "/spec/replicas"),
            (".spec.size.n", "/spec/size/n"),
            (".spec.a/b.c~d", "/spec/a~1b/c~0d"),
        ] {
            assert_eq!(replicas_pointer(path), want);
        }
    }

    #[test]
    fn places_of_replicas() {
        let gvk = Gvk::from_manifest;
        let farm = |version: &str| gvk(&format!("x.io/{version}"), "Farm");
        let known: ReplicasPaths = [(farm("v1"), Some(".spec.n".into())), (farm("v2"), None)].into();
        let interpreter = Interpreter::default().with_replicas_paths(known.into());
        for (kind, want) in [
            (gvk("apps/v1", "Deployment"), ReplicasPath::At(".spec.replicas".into())),
            (farm("v1"), ReplicasPath::At(".spec.n".into())),
            (farm("v2"), ReplicasPath::Nowhere),
            (farm("v3"), ReplicasPath::NotLookedUp),
        ] {
            assert_eq!(interpreter.replicas_path(&kind), want, "{kind}");
        }
    }

    #[test]
    fn paths_are_looked_up_only_where_the_label_asks_for_them() {
        let gvk = |version: &str| Gvk::from_manifest(&format!("x.io/{version}"), "Farm");
        let known: ReplicasPaths = [(gvk("v2"), None)].into();
        let interpreter = Interpreter::default().with_replicas_paths(known.into());
        let web =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"labels": {RETAIN_REPLICAS: "true"}}});
        for (name, manifest, want) in [
            ("a kind that was not looked up", farm("v1", "true", 1), Some(gvk("v1"))),
            ("another label", farm("v1", "no", 1), None),
            ("a kind that was looked up", farm("v2", "true", 1), None),
            ("a kind of Kubernetes", web, None),
        ] {
            assert_eq!(interpreter.missing_replicas_path(&manifest), want, "{name}");
        }
    }
}
