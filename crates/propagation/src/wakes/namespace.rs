//! Wake rules of the namespace sync controller.

use std::time::Duration;

use ironclad_api::{ObjectMeta, cluster::Cluster, names, policy::OverrideSpec, work::Work};
use serde_json::Value;

use super::changes;
use crate::{
    overrides,
    work::{Owner, owner},
};

/// Returns true if a changed namespace has to be propagated again: its status does not matter, and execution spaces are
/// not propagated.
#[must_use]
pub fn namespace(old: Option<&ObjectMeta>, new: &ObjectMeta) -> bool {
    let rest = Value::Null;
    names::cluster_of_execution_namespace(new.name.as_deref().unwrap_or_default()).is_err()
        && changes::template(old.map(|old| (old, &rest)), Some((new, &rest)))
}

/// Returns the namespace of a changed or deleted Work, if namespace sync made the Work, and the delay until the
/// namespace is reconciled. A deleted Work may have been deleted with its execution space, whose end the cache has not
/// seen yet: created at once, it would be deleted again at once.
#[must_use]
pub fn work<'a>(old: &'a Work, new: Option<&Work>) -> Option<(&'a str, Duration)> {
    if new.is_some_and(|new| !changes::work(Some(&old.metadata), &new.metadata)) {
        return None;
    }
    let mut owners = old.metadata.owner_references.iter().flatten();
    let by = owners.find(|owner| owner.controller == Some(true) && owner.kind == "Namespace")?;
    Some((by.name.as_str(), if new.is_none() { Duration::from_secs(1) } else { Duration::ZERO }))
}

/// Returns the namespace of a Work that its binding left to namespace sync.
#[must_use]
pub fn left_by_binding(old: &Work, new: &Work) -> Option<String> {
    let was_of_binding = matches!(owner(old), Some(Owner::Binding { .. }));
    let named = new.spec.workload.manifests.first()?.named();
    let is_namespace = (&*named.api_version, &*named.kind) == ("v1", "Namespace");
    (was_of_binding && owner(new).is_none() && is_namespace).then(|| named.metadata.name.to_string())
}

/// Returns true if a changed ClusterOverridePolicy applies to namespaces, or did.
#[must_use]
pub fn cluster_override(old: Option<&OverrideSpec>, new: Option<&OverrideSpec>) -> bool {
    old != new && [old, new].into_iter().flatten().any(may_take)
}

/// Returns true if a ClusterOverridePolicy changes the namespaces of a changed cluster otherwise than before.
#[must_use]
pub fn cluster(policy: &OverrideSpec, old: &Cluster, new: &Cluster) -> bool {
    may_take(policy) && overrides::differ(policy, old, new)
}

/// Returns true if a ClusterOverridePolicy may apply to namespaces. One without selectors applies to everything.
fn may_take(spec: &OverrideSpec) -> bool {
    spec.resource_selectors.is_empty()
        || spec.resource_selectors.iter().any(|s| s.api_version == "v1" && s.kind == "Namespace")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testkit::{self, merge, patched};

    #[test]
    fn changes_that_reconcile_a_namespace() {
        let meta = |extra: Value| -> ObjectMeta {
            let mut base = json!({"name": "shop", "resourceVersion": "1"});
            merge(&mut base, &extra);
            serde_json::from_value(base).unwrap()
        };
        for (name, old, new, want) in [
            ("a new one", None, json!({}), true),
            ("a status", Some(json!({})), json!({"resourceVersion": "2"}), false),
            ("a label", Some(json!({})), json!({"labels": {"a": "b"}}), true),
            ("its end", Some(json!({})), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), true),
            ("an execution space", None, json!({"name": "karmada-es-m1"}), false),
        ] {
            assert_eq!(namespace(old.map(meta).as_ref(), &meta(new)), want, "{name}");
        }
    }

    #[test]
    fn override_policies_for_namespaces_wake_all_of_them() {
        let spec = |selectors: Value| -> OverrideSpec {
            serde_json::from_value(json!({"resourceSelectors": selectors, "overrideRules": [
                {"targetCluster": {"labelSelector": {"matchLabels": {"tier": "gold"}}},
                 "overriders": {"plaintext": [{"path": "/a", "operator": "remove"}]}}]}))
            .unwrap()
        };
        let bare = testkit::cluster("m1", "True");
        let gold = patched(&bare, &json!({"metadata": {"labels": {"tier": "gold"}}}));
        for (name, selectors, want) in [
            ("one for namespaces", json!([{"apiVersion": "v1", "kind": "Namespace"}]), true),
            ("one for everything", json!([]), true),
            ("one for others", json!([{"apiVersion": "v1", "kind": "Secret"}]), false),
        ] {
            let spec = spec(selectors);
            assert_eq!(cluster_override(None, Some(&spec)), want, "{name}");
            assert_eq!(cluster_override(Some(&spec), None), want, "{name}: deleted");
            assert!(!cluster_override(Some(&spec), Some(&spec)), "{name}: unchanged");
            assert_eq!(cluster(&spec, &bare, &gold), want, "{name}: it selects the cluster now");
            assert!(!cluster(&spec, &gold, &gold), "{name}: it selects the same clusters");
        }
    }

    #[test]
    fn deleted_work_is_recreated_after_a_delay() {
        let own = json!({"ownerReferences": [
            {"apiVersion": "v1", "kind": "Namespace", "name": "shop", "uid": "u", "controller": true}]});
        let base = |metadata: Value| -> Work {
            patched(
                &testkit::work(json!({"metadata": {"name": "w", "generation": 1}, "spec": {"workload": {}}})),
                &json!({"metadata": metadata}),
            )
        };
        let edited = base(json!({"generation": 2}));
        for (name, old, new, want) in [
            ("deleted", base(own.clone()), None, Some(("shop", Duration::from_secs(1)))),
            ("changed", base(own.clone()), Some(edited.clone()), Some(("shop", Duration::ZERO))),
            ("a status", base(own.clone()), Some(base(own)), None),
            ("of somebody else", base(json!({})), None, None),
            ("of somebody else, changed", base(json!({})), Some(edited), None),
        ] {
            assert_eq!(work(&old, new.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn namespaces_whose_binding_lets_go_are_synced() {
        let of = |kind: &str, bound: bool| -> Work {
            let work = testkit::work(json!({"metadata": {"name": "w"}, "spec": {"workload": {"manifests": [
                {"apiVersion": "v1", "kind": kind, "metadata": {"name": "shop"}}]}}}));
            let marks = json!({"labels": {"clusterresourcebinding.karmada.io/permanent-id": "c"},
                "annotations": {"clusterresourcebinding.karmada.io/name": "shop-namespace"}});
            if bound { patched(&work, &json!({"metadata": marks})) } else { work }
        };
        for (name, old, new, want) in [
            ("it lets go", of("Namespace", true), of("Namespace", false), Some("shop")),
            ("it stays", of("Namespace", true), of("Namespace", true), None),
            ("it was never bound", of("Namespace", false), of("Namespace", false), None),
            ("of another kind", of("Secret", true), of("Secret", false), None),
        ] {
            assert_eq!(left_by_binding(&old, &new).as_deref(), want, "{name}");
        }
    }
}
