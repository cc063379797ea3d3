//! State of pods.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use kube::api::ObjectMeta;

/// Annotation that ranks the pods of a ReplicaSet for deletion.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Maximum bytes of a generated name before its suffix, as in Kubernetes.
const BASE_BYTES_MAX: usize = 58;

/// Contribution of a pod to `availableReplicas`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Yes,
    No,
    /// Ready, and available from this time on if it stays ready.
    From(Timestamp),
}

/// The phase, empty if the pod has none yet.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or("")
}

/// Returns `true` if the pod has succeeded or failed.
pub fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns `true` if the pod is being deleted.
pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns `true` if the pod counts as a replica.
pub fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// The condition of this type.
pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_)
}

/// Time since which the pod is ready. A condition without a time counts from the epoch.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|c| c.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0))
}

/// Returns whether the pod has been ready for `min_ready_seconds`.
pub(crate) fn availability(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Availability {
    let Some(since) = ready_since(pod) else { return Availability::No };
    let from = since.saturating_add(SignedDuration::from_secs(i64::from(min_ready_seconds))).unwrap_or(since);
    if min_ready_seconds <= 0 || from <= now { Availability::Yes } else { Availability::From(from) }
}

/// The node that the pod runs on, empty if it has none.
pub fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or("")
}

pub(crate) fn deletion_cost(pod: &Pod) -> i32 {
    let text = pod.metadata.annotations.as_ref().and_then(|a| a.get(DELETION_COST));
    text.and_then(|t| t.parse().ok()).unwrap_or(0)
}

pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.as_ref().and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    statuses.iter().map(|c| c.restart_count).max().unwrap_or(0)
}

/// Returns the number of restarts of all containers.
pub(crate) fn restarts_of_all(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let all = status.iter().flat_map(|s| [&s.init_container_statuses, &s.container_statuses]).flatten().flatten();
    all.fold(0, |sum, container| sum.saturating_add(container.restart_count))
}

/// Creates a pod of this object from a template, without name and owner.
pub(crate) fn from_template(template: Option<&PodTemplateSpec>, of: &ObjectMeta) -> Pod {
    let template = template.cloned().unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            namespace: of.namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// Returns the part of a generated name before its random suffix.
pub(crate) fn name_base(owner: &str) -> String {
    let mut end = (owner.len() + 1).min(BASE_BYTES_MAX) - 1;
    while !owner.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-", &owner[..end])
}

/// The labels of an object.
pub(crate) fn labels(meta: &ObjectMeta) -> &BTreeMap<String, String> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    meta.labels.as_ref().unwrap_or(&NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::{at, pod};

    #[test]
    fn availability_by_time() {
        for (name, ready, min, now, want) in [
            ("not ready is not available", None, 0, 100, Availability::No),
            ("ready is available at once without a minimum", Some(100), 0, 100, Availability::Yes),
            ("a second before the minimum it is not", Some(100), 10, 109, Availability::From(at(110))),
            ("exactly at the minimum it is", Some(100), 10, 110, Availability::Yes),
        ] {
            let mut p = pod("p");
            if let Some(since) = ready {
                p = p.ready(since);
            }
            assert_eq!(availability(&p.build(), min, at(now)), want, "{name}");
        }
    }

    #[test]
    fn long_owner_names_are_truncated() {
        assert_eq!(name_base("web-1"), "web-1-");
        assert_eq!(name_base(&"x".repeat(80)).len(), BASE_BYTES_MAX);
    }
}
