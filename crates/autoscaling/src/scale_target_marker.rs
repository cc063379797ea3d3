//! Marks of workloads that keep the replicas which the autoscalers of members decide (specification/autoscaling.md 5).
//!
//! For HorizontalPodAutoscalers that a policy propagates as they are. Those of the distributed design have rules of
//! their own.

use ironclad_api::labels;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

/// Snapshot of one workload.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The autoscalers of its namespace that name it as their target.
    pub autoscalers: &'a [&'a HorizontalPodAutoscaler],
    /// True if it has the label.
    pub is_marked: bool,
    /// True if an autoscaler that named it was deleted, or names another workload or is not propagated any more.
    pub was_released: bool,
}

/// Change of the label of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Set,
    Remove,
    /// Leave it as it is.
    Keep,
}

/// Returns true if a policy propagates the autoscaler to members, where it runs as it is.
#[must_use]
pub fn is_propagated(autoscaler: &HorizontalPodAutoscaler) -> bool {
    let ids = [labels::PROPAGATION_POLICY_PERMANENT_ID, labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID];
    let has = |id: &str| autoscaler.metadata.labels.as_ref().is_some_and(|all| all.contains_key(id));
    autoscaler.metadata.deletion_timestamp.is_none() && ids.into_iter().any(has) && !is_distributed(autoscaler)
}

/// Returns true if the autoscaler is one of the distributed design.
#[must_use]
pub fn is_distributed(autoscaler: &HorizontalPodAutoscaler) -> bool {
    let value = autoscaler.metadata.labels.as_ref().and_then(|all| all.get(labels::FEDERATED_HPA_ENABLED));
    value.is_some_and(|value| value == labels::TRUE)
}

/// Decides about the label. One that a user set stays, unless an autoscaler was the reason for it.
#[must_use]
pub fn decide(seen: &Seen<'_>) -> Mark {
    if seen.autoscalers.iter().any(|autoscaler| is_distributed(autoscaler)) {
        return Mark::Keep;
    }
    match (seen.autoscalers.iter().any(|autoscaler| is_propagated(autoscaler)), seen.is_marked) {
        (true, false) => Mark::Set,
        (false, true) if seen.was_released => Mark::Remove,
        _ => Mark::Keep,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hpa(labels: &[&str], deleted: bool) -> HorizontalPodAutoscaler {
        let labels: serde_json::Map<_, _> = labels.iter().map(|label| ((*label).to_owned(), json!("true"))).collect();
        let mut metadata = json!({"name": "h", "labels": labels});
        if deleted {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let target = json!({"kind": "Deployment", "name": "web"});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}))
            .unwrap()
    }

    #[test]
    fn marks() {
        let propagated = || hpa(&[labels::PROPAGATION_POLICY_PERMANENT_ID], false);
        let by_cluster_policy = || hpa(&[labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID], false);
        let distributed = || hpa(&[labels::FEDERATED_HPA_ENABLED, labels::PROPAGATION_POLICY_PERMANENT_ID], false);
        for (name, hpas, is_marked, was_released, want) in [
            ("propagated", vec![propagated()], false, false, Mark::Set),
            ("by a cluster policy", vec![by_cluster_policy()], false, false, Mark::Set),
            ("marked already", vec![propagated()], true, false, Mark::Keep),
            ("not propagated", vec![hpa(&[], false)], false, false, Mark::Keep),
            ("deleted", vec![], true, true, Mark::Remove),
            ("being deleted", vec![hpa(&[labels::PROPAGATION_POLICY_PERMANENT_ID], true)], true, true, Mark::Remove),
            ("another one is left", vec![propagated()], true, true, Mark::Keep),
            ("a user's own label", vec![], true, false, Mark::Keep),
            ("a target of the distributed design", vec![distributed(), propagated()], false, false, Mark::Keep),
            ("of the distributed design, released", vec![distributed()], true, true, Mark::Keep),
        ] {
            let autoscalers: Vec<&HorizontalPodAutoscaler> = hpas.iter().collect();
            let seen = Seen { autoscalers: &autoscalers, is_marked, was_released };
            assert_eq!(decide(&seen), want, "{name}");
        }
    }
}
