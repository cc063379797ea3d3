//! Wake rules of the FederatedHPA controller. Those for autoscalers that members run are in
//! [`distributed_hpa`](super::distributed_hpa::target).

use ironclad_api::autoscaling::FederatedHPA;

/// Returns true if the object has to be reconciled at once: it is new or gone, or its spec or its annotations, which
/// say how metrics are merged, changed. After a change of its status the next round is scheduled already.
#[must_use]
pub fn object(old: Option<&FederatedHPA>, new: Option<&FederatedHPA>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let (a, b) = (&old.metadata, &new.metadata);
    old.spec != new.spec || a.uid != b.uid || a.annotations != b.annotations
}

/// Returns true if the object does not scale its old target any more.
#[must_use]
pub fn leaves_target(old: &FederatedHPA, new: Option<&FederatedHPA>) -> bool {
    new.is_none_or(|new| old.spec.scale_target_ref != new.spec.scale_target_ref)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn spec_and_annotations_of_an_object_wake_it() {
        let of = |pointer: &str, value: Value| -> FederatedHPA {
            let mut one = json!({
                "metadata": {"namespace": "shop", "name": "web", "uid": "u", "annotations": {}, "resourceVersion": "1"},
                "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
                "status": {"desiredReplicas": 0, "currentReplicas": 0}});
            *one.pointer_mut(pointer).unwrap() = value;
            serde_json::from_value(one).unwrap()
        };
        let base = of("/metadata/resourceVersion", json!("1"));
        for (name, new, wakes, leaves) in [
            ("nothing", of("/metadata/resourceVersion", json!("2")), false, false),
            ("its status", of("/status/desiredReplicas", json!(4)), false, false),
            ("its maximum", of("/spec/maxReplicas", json!(4)), true, false),
            ("its target", of("/spec/scaleTargetRef/name", json!("api")), true, true),
            ("an annotation", of("/metadata/annotations", json!({"a": "b"})), true, false),
            ("another one of its name", of("/metadata/uid", json!("v")), true, false),
        ] {
            assert_eq!(object(Some(&base), Some(&new)), wakes, "{name}");
            assert_eq!(leaves_target(&base, Some(&new)), leaves, "{name}");
        }
        assert!(object(None, Some(&base)) && object(Some(&base), None) && leaves_target(&base, None));
    }
}
