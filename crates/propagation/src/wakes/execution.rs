//! Wake rules of the execution controller, beside those of member objects ([`drift`](super::drift)).

use ironclad_api::work::{Named, Work};

use crate::execution::is_being_propagated;

/// The namespace whose propagation ended with this change of its Work. Objects that wait for the namespace have to be
/// reconciled.
#[must_use]
pub fn resolves_namespace(old: Option<&Work>, new: Option<&Work>) -> Option<String> {
    // Before there was a Work, it was about to be created.
    let settles = old.is_none_or(is_being_propagated) && !new.is_some_and(is_being_propagated);
    if settles { namespace_of(new.or(old)?) } else { None }
}

fn namespace_of(work: &Work) -> Option<String> {
    let [manifest] = work.spec.workload.manifests.as_slice() else { return None };
    let Named { api_version, kind, metadata } = manifest.named();
    (api_version == "v1" && kind == "Namespace" && !metadata.name.is_empty()).then_some(metadata.name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::{patched, work};

    #[test]
    fn works_that_resolve_a_namespace() {
        let brings = |api_version: &str, kind: &str| {
            work(
                json!({"metadata": {"namespace": "karmada-es-m1", "name": "shop-x"}, "spec": {"workload": {"manifests": [
                {"apiVersion": api_version, "kind": kind, "metadata": {"name": "shop"}}]}}}),
            )
        };
        let applied = |work: &Work, status: &str| -> Work {
            patched(
                work,
                &json!({"status": {"conditions": [{"type": "Applied", "status": status, "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
            )
        };
        let coming = brings("v1", "Namespace");
        let with = |patch: Value| -> Work { patched(&coming, &patch) };
        let (done, refused) = (applied(&coming, "True"), applied(&coming, "False"));
        let suspended = with(json!({"spec": {"suspendDispatching": true}}));
        let deleting = with(json!({"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}));
        for (name, old, new, wakes) in [
            ("it is applied", Some(&coming), Some(&done), true),
            ("it is refused: the objects say so, too", Some(&coming), Some(&refused), true),
            ("it was known before", Some(&refused), Some(&done), false),
            ("it is there since long", Some(&done), Some(&done), false),
            ("it is suspended", Some(&coming), Some(&suspended), true),
            ("it goes on its way", None, Some(&coming), false),
            (
                "it is suspended from its start: no wait for a namespace that is not dispatched",
                None,
                Some(&suspended),
                true,
            ),
            ("it is deleted", Some(&coming), Some(&deleting), true),
            ("it is deleted", Some(&coming), None, true),
            ("it is deleted after all that", Some(&deleting), None, false),
        ] {
            assert_eq!(resolves_namespace(old, new).as_deref(), wakes.then_some("shop"), "{name}");
        }
        for other in [brings("example.io/v1", "Namespace"), brings("v1", "ConfigMap")] {
            assert_eq!(resolves_namespace(Some(&other), Some(&applied(&other, "True"))), None, "it brings none");
        }
    }
}
