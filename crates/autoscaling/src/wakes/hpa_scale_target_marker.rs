//! Wake rules of the scale target marker.

use ironclad_api::ObjectMeta;
use ironclad_fleet::ObjectKey;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::{distributed_hpa::key_in, scale_target_marker::is_propagated};

/// Returns the workloads whose marks have to be decided on again: the one that the autoscaler lets go of, and the one
/// that it scales now. None if these are the same.
#[must_use]
pub fn autoscaler(
    old: Option<&HorizontalPodAutoscaler>,
    new: Option<&HorizontalPodAutoscaler>,
) -> (Option<ObjectKey>, Option<ObjectKey>) {
    let target = |hpa: Option<&HorizontalPodAutoscaler>| {
        hpa.filter(|hpa| is_propagated(hpa)).map(|hpa| key_in(hpa, &hpa.spec.scale_target_ref))
    };
    let (old, new) = (target(old), target(new));
    if old == new { (None, None) } else { (old, new) }
}

/// Returns true if the mark of a workload has to be decided on again: the workload is new, or its labels changed.
#[must_use]
pub fn template(old: Option<&ObjectMeta>, new: &ObjectMeta) -> bool {
    old.is_none_or(|old| old.labels != new.labels)
}

#[cfg(test)]
mod tests {
    use ironclad_api::labels;
    use serde_json::json;

    use super::*;

    #[test]
    fn targets_that_an_autoscaler_takes_and_leaves() {
        let of = |target: &str, label: &str| -> HorizontalPodAutoscaler {
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": "h", "labels": {label: "true"}},
                "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}}}))
            .unwrap()
        };
        let propagated = |target: &str| of(target, labels::PROPAGATION_POLICY_PERMANENT_ID);
        let (web, api, plain) = (propagated("web"), propagated("api"), of("web", "app"));
        let mut scaled = web.clone();
        scaled.spec.max_replicas = 4;
        let (web_key, api_key) = (Some("Deployment shop/web"), Some("Deployment shop/api"));
        for (name, old, new, want) in [
            ("it comes", None, Some(&web), (None, web_key)),
            ("it goes", Some(&web), None, (web_key, None)),
            ("another target", Some(&web), Some(&api), (web_key, api_key)),
            ("another maximum", Some(&web), Some(&scaled), (None, None)),
            ("it is propagated now", Some(&plain), Some(&web), (None, web_key)),
            ("it is not any more", Some(&web), Some(&plain), (web_key, None)),
            ("it never was", None, Some(&plain), (None, None)),
        ] {
            let (left, taken) = autoscaler(old, new);
            let (left, taken) = (left.map(|key| key.to_string()), taken.map(|key| key.to_string()));
            assert_eq!((left.as_deref(), taken.as_deref()), want, "{name}");
        }
    }

    #[test]
    fn labels_of_a_workload_wake_it() {
        let labelled = |value: &str| ObjectMeta {
            labels: Some([("a".to_owned(), value.to_owned())].into()),
            resource_version: Some(value.to_owned()),
            ..ObjectMeta::default()
        };
        let base = labelled("1");
        let mut later = base.clone();
        later.resource_version = Some("9".to_owned());
        assert!(template(None, &base), "created");
        assert!(template(Some(&base), &labelled("2")), "another label");
        assert!(!template(Some(&base), &later), "the same labels");
    }
}
