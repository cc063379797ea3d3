//! Wake rules of the binding controller.

use ironclad_api::{
    policy::OverrideSpec,
    work::{ObjectReference, Work},
};

use crate::{changes, overrides};

/// Returns true if the Works of a binding have to be compared with it again, because one of them was deleted or
/// changed. A new Work and a status are no reason.
#[must_use]
pub fn work(old: Option<&Work>, new: Option<&Work>) -> bool {
    let Some(old) = old else { return false };
    new.is_none_or(|new| changes::work(Some(&old.metadata), &new.metadata))
}

/// Returns true if a changed override policy concerns the template of a binding: its old or its new spec may select it.
#[must_use]
pub fn override_policy(old: Option<&OverrideSpec>, new: Option<&OverrideSpec>, template: &ObjectReference) -> bool {
    old != new && [old, new].into_iter().flatten().any(|spec| overrides::may_take(spec, template))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn work_of(extra: Value) -> Work {
        let mut base = json!({"metadata": {"name": "w", "generation": 1}, "spec": {"workload": {}}});
        crate::testkit::merge(&mut base, &extra);
        serde_json::from_value(base).unwrap()
    }

    #[test]
    fn only_deleted_and_changed_works_wake_their_binding() {
        let base = work_of(json!({}));
        for (name, old, new, want) in [
            ("created", None, Some(base.clone()), false),
            ("status", Some(base.clone()), Some(work_of(json!({"status": {"conditions": []}}))), false),
            ("spec", Some(base.clone()), Some(work_of(json!({"metadata": {"generation": 2}}))), true),
            ("deleted", Some(base.clone()), None, true),
        ] {
            assert_eq!(work(old.as_ref(), new.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn override_policies_wake_bindings_whose_template_they_selected_or_select() {
        let spec = |kind: &str| -> OverrideSpec {
            serde_json::from_value(
                json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": kind}], "overrideRules": []}),
            )
            .unwrap()
        };
        let template = ObjectReference {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            namespace: "shop".into(),
            name: "web".into(),
            ..ObjectReference::default()
        };
        let (selects, other) = (spec("Deployment"), spec("StatefulSet"));
        for (name, old, new, want) in [
            ("created", None, Some(&selects), true),
            ("deleted", Some(&selects), None, true),
            ("unchanged", Some(&selects), Some(&selects), false),
            ("no longer selects it", Some(&selects), Some(&other), true),
            ("selects it now", Some(&other), Some(&selects), true),
            ("never selects it", None, Some(&other), false),
        ] {
            assert_eq!(override_policy(old, new, &template), want, "{name}");
        }
    }
}
