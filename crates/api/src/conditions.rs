//! Condition types by kind, and the one way to read and write a list of conditions (specification/api.md 13).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Status: the condition is true.
pub const TRUE: &str = "True";
/// Status: the condition is false.
pub const FALSE: &str = "False";
/// Status: not known.
pub const UNKNOWN: &str = "Unknown";

/// Types on Clusters (specification/api.md 13.1).
pub mod cluster {
    /// The member's health endpoint reports success.
    pub const READY: &str = "Ready";
    /// Discovery of the member's API resources is complete.
    pub const COMPLETE_API_ENABLEMENTS: &str = "CompleteAPIEnablements";
    /// Enough of the member's nodes are ready (ours; only with `--nodes-ready-ratio`). Never a part of [`READY`].
    pub const NODES_READY: &str = "NodesReady";
    /// The clock of the member's agent differs from the control plane's; absent while it does not (ours).
    pub const CLOCK_SKEW: &str = "ClockSkew";
    /// The certificate of the member's agent ends, and was not renewed; absent while that is not so (ours).
    pub const AGENT_CERTIFICATE_EXPIRING: &str = "AgentCertificateExpiring";
    /// The control plane reaches a member in pull mode over its agent; absent where agents open no tunnels (ours).
    pub const TUNNEL_CONNECTED: &str = "TunnelConnected";
    /// Service names resolve in the member.
    pub const SERVICE_DOMAIN_NAME_RESOLUTION_READY: &str = "ServiceDomainNameResolutionReady";
}

/// Types on bindings (specification/api.md 13.2).
pub mod binding {
    /// The binding was scheduled.
    pub const SCHEDULED: &str = "Scheduled";
    /// Every expected cluster has its copy.
    pub const FULLY_APPLIED: &str = "FullyApplied";
    /// An eviction of the binding is in the eviction queue.
    pub const EVICTION_PENDING: &str = "EvictionPending";
    /// A binding of higher priority preempted it.
    pub const PREEMPTED: &str = "Preempted";
    /// Members find no node for pods of the binding, which may preempt others (ours).
    pub const PODS_UNSCHEDULABLE: &str = "PodsUnschedulable";
}

/// Types on Works (specification/api.md 13.3).
pub mod work {
    /// All manifests are applied.
    pub const APPLIED: &str = "Applied";
    /// The Work is dispatched.
    pub const DISPATCHING: &str = "Dispatching";
    /// Unknown while the cluster is not ready.
    pub const AVAILABLE: &str = "Available";
    /// Reserved.
    pub const PROGRESSING: &str = "Progressing";
    /// Reserved.
    pub const DEGRADED: &str = "Degraded";
}

/// Types on MultiClusterServices (specification/api.md 13.4).
pub mod multi_cluster_service {
    /// The Service exists in its clusters.
    pub const SERVICE_APPLIED: &str = "ServiceApplied";
    /// The EndpointSlices exist in their clusters.
    pub const ENDPOINT_SLICE_DISPATCHED: &str = "EndpointSliceDispatched";
}

/// Types on FederatedHPAs (specification/api.md 13.5).
pub mod federated_hpa {
    /// The target can be read and scaled.
    pub const ABLE_TO_SCALE: &str = "AbleToScale";
    /// Metrics give a desired replica count.
    pub const SCALING_ACTIVE: &str = "ScalingActive";
    /// The desired replica count was limited.
    pub const SCALING_LIMITED: &str = "ScalingLimited";
}

/// The condition of this type.
pub fn get<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns true if the condition of this type exists and is True.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    get(conditions, type_).is_some_and(|condition| condition.status == TRUE)
}

/// Sets a condition, in place or at the end of the list. `lastTransitionTime` becomes `now` in whole seconds, or is
/// kept if the status is unchanged. The time in `condition` is ignored.
///
/// Returns true if the list changed.
pub fn set(conditions: &mut Vec<Condition>, condition: Condition, now: &Time) -> bool {
    let mut condition = condition;
    match conditions.iter_mut().find(|old| old.type_ == condition.type_) {
        Some(old) => {
            condition.last_transition_time =
                if old.status == condition.status { old.last_transition_time.clone() } else { whole_seconds(now) };
            let changed = *old != condition;
            *old = condition;
            changed
        }
        None => {
            condition.last_transition_time = whole_seconds(now);
            conditions.push(condition);
            true
        }
    }
}

/// Removes the condition of this type; returns true if it existed.
pub fn remove(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.len() != before
}

/// A condition for [`set`], which adds its time.
pub fn condition(type_: &str, status: &str, reason: &str, message: impl Into<String>) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
    }
}

/// The time in the resolution of the wire format: two writes of equal conditions must be equal.
fn whole_seconds(time: &Time) -> Time {
    Time(jiff::Timestamp::from_second(time.0.as_second()).expect("the second of a timestamp is a timestamp"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::new(second, 250_000_000).unwrap())
    }

    fn stored(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn a_new_condition_is_appended_with_the_time_in_whole_seconds() {
        let mut list = vec![condition("Ready", TRUE, "Fine", "")];
        assert!(set(&mut list, condition("Applied", TRUE, "Done", "all"), &at(10)));
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].last_transition_time, stored(10));
        assert!(is_true(&list, "Applied"));
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        for (name, next, want_change, want_time) in [
            ("nothing changes", condition("Ready", TRUE, "Fine", "ok"), false, stored(10)),
            ("a new message keeps the time", condition("Ready", TRUE, "Fine", "better"), true, stored(10)),
            ("a new reason keeps the time", condition("Ready", TRUE, "Other", "ok"), true, stored(10)),
            ("a new status changes the time", condition("Ready", FALSE, "Fine", "ok"), true, stored(20)),
        ] {
            let mut list = Vec::new();
            set(&mut list, condition("Ready", TRUE, "Fine", "ok"), &at(10));
            assert_eq!(set(&mut list, next, &at(20)), want_change, "{name}");
            assert_eq!(list[0].last_transition_time, want_time, "{name}");
            assert_eq!(list.len(), 1, "{name}");
        }
    }

    #[test]
    fn condition_is_removed_by_its_type() {
        let mut list = vec![condition("Ready", UNKNOWN, "Lost", "")];
        assert!(!remove(&mut list, "Applied"));
        assert!(remove(&mut list, "Ready"));
        assert!(list.is_empty());
        assert!(!is_true(&list, "Ready"));
    }
}
