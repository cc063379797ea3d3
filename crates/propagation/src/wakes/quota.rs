//! Wake rules of the quota controller, and the choice of how it accounts for usage.

use ironclad_api::{
    ResourceList, conditions,
    policy::{FederatedResourceQuota, OverridePolicy},
    reasons::binding::QUOTA_EXCEEDED,
    work::ResourceBinding,
};
use ironclad_fleet::BindingRef;

use crate::{overrides, quota::Overall};

/// Parties that account for the usage of quotas, by feature gate and `--controllers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounting {
    /// Gate `FederatedQuotaEnforcement`: admission books usage when bindings are written.
    pub enforced: bool,
    /// Controller `federatedResourceQuotaEnforcement` runs: it counts usage over all bindings.
    pub counted: bool,
}

impl Accounting {
    /// True if usage is counted over all bindings.
    #[must_use]
    pub fn counts(self) -> bool {
        self.enforced && self.counted
    }

    /// The usage that a quota shows: what was counted, with how long it has been so; what admission booked; or the
    /// sum of what members report.
    #[must_use]
    pub fn overall<'a>(self, counted: Option<(&'a ResourceList, std::time::Duration)>) -> Overall<'a> {
        match counted {
            Some((taken, steady)) if self.counts() => Overall::Counted { taken, steady },
            _ if self.enforced => Overall::Booked,
            _ => Overall::Summed,
        }
    }

    /// Returns true if a changed quota has to be reconciled. While admission books usage, a booking alone is no reason:
    /// there is one for each binding.
    #[must_use]
    pub fn quota(self, old: Option<&FederatedResourceQuota>, new: Option<&FederatedResourceQuota>) -> bool {
        let without_booked = |quota: &FederatedResourceQuota| {
            let mut status = quota.status.clone().unwrap_or_default();
            status.overall_used.clear();
            (quota.metadata.generation, quota.metadata.deletion_timestamp.clone(), status)
        };
        match (old, new) {
            (Some(old), Some(new)) if self.enforced => without_booked(old) != without_booked(new),
            _ => true,
        }
    }
}

/// Returns true if a change of a binding has the usage of its namespace counted again: a deleted one gives its usage
/// back, and one that a quota refused may be refused for what was booked for a write that was not made.
#[must_use]
pub fn counts_again(old: Option<&ResourceBinding>, new: Option<&ResourceBinding>) -> bool {
    let refused = |binding: &ResourceBinding| {
        let scheduled = BindingRef::from(binding).scheduled().map(|condition| (&*condition.status, &*condition.reason));
        scheduled == Some((conditions::FALSE, QUOTA_EXCEEDED))
    };
    match (old, new) {
        (old, Some(new)) => refused(new) && !old.is_some_and(refused),
        (old, None) => old.is_some(),
    }
}

/// Returns true if other replicas that members decided are recorded than before: the usage of the namespace is counted
/// again (specification/autoscaling.md 6.6).
#[must_use]
pub fn records_decisions(old: Option<&OverridePolicy>, new: Option<&OverridePolicy>) -> bool {
    let of = |policy: Option<&OverridePolicy>| {
        policy.filter(|policy| overrides::is_of_autoscaler(policy)).map(overrides::recorded)
    };
    of(old) != of(new)
}

/// Returns true if a quota limits a cluster, whose execution space was created.
#[must_use]
pub fn new_space(quota: &FederatedResourceQuota, cluster: &str) -> bool {
    quota.spec.static_assignments.iter().any(|assignment| assignment.cluster_name == cluster)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    const SUMMED: Accounting = Accounting { enforced: false, counted: true };
    const BOOKED: Accounting = Accounting { enforced: true, counted: false };
    const COUNTED: Accounting = Accounting { enforced: true, counted: true };

    #[test]
    fn usage_is_counted_booked_or_summed() {
        let taken = ResourceList::default();
        let counted = Some((&taken, Duration::ZERO));
        assert!(matches!(SUMMED.overall(None), Overall::Summed));
        assert!(matches!(SUMMED.overall(counted), Overall::Summed), "the gate decides");
        assert!(matches!(BOOKED.overall(None), Overall::Booked));
        assert!(matches!(COUNTED.overall(counted), Overall::Counted { .. }));
        assert!(matches!(COUNTED.overall(None), Overall::Booked), "nothing was counted for a quota that is deleted");
    }

    #[test]
    fn a_booking_alone_does_not_wake_a_quota() {
        let quota = |extra: Value| -> FederatedResourceQuota {
            let mut base = json!({"metadata": {"name": "q", "namespace": "n", "generation": 1},
                "spec": {"overall": {"cpu": "1"}}, "status": {"overall": {"cpu": "1"}, "overallUsed": {"cpu": "1"}}});
            crate::testkit::merge(&mut base, &extra);
            serde_json::from_value(base).unwrap()
        };
        let base = quota(json!({}));
        let booking = quota(json!({"status": {"overallUsed": {"cpu": "2"}}}));
        let edited = quota(json!({"metadata": {"generation": 2}}));
        for (name, accounting, old, new, want) in [
            ("a booking", BOOKED, Some(&base), Some(&booking), false),
            ("usage that nobody books", SUMMED, Some(&base), Some(&booking), true),
            ("an edit", BOOKED, Some(&base), Some(&edited), true),
            ("created", BOOKED, None, Some(&base), true),
            ("deleted", BOOKED, Some(&base), None, true),
        ] {
            assert_eq!(accounting.quota(old, new), want, "{name}");
        }
    }

    #[test]
    fn deleted_and_refused_bindings_have_usage_counted_again() {
        let with = |status: &str, reason: &str| -> ResourceBinding {
            serde_json::from_value(json!({
                "metadata": {"name": "web", "namespace": "n"},
                "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
                "status": {"conditions": [{"type": "Scheduled", "status": status, "reason": reason, "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
            }))
            .unwrap()
        };
        let (placed, refused) = (with("True", "Success"), with("False", "QuotaExceeded"));
        for (name, old, new, want) in [
            ("deleted", Some(&placed), None, true),
            ("refused by a quota", Some(&placed), Some(&refused), true),
            ("refused as long as it is known", None, Some(&refused), true),
            ("still refused", Some(&refused), Some(&refused), false),
            ("not any more", Some(&refused), Some(&placed), false),
            ("no cluster fits", Some(&placed), Some(&with("False", "NoClusterFit")), false),
            ("placed", None, Some(&placed), false),
        ] {
            assert_eq!(counts_again(old, new), want, "{name}");
        }
    }

    #[test]
    fn decisions_of_members_wake_the_quotas() {
        let policy = |labels: Value, replicas: i32| -> OverridePolicy {
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "n", "labels": labels},
                "spec": {"overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": {"plaintext": [
                    {"path": "/spec/replicas", "operator": "replace", "value": replicas}]}}]},
            }))
            .unwrap()
        };
        let record = |replicas| policy(json!({"federatedhpa.karmada.io/managed": "true"}), replicas);
        let of_user = policy(json!({}), 5);
        for (name, old, new, want) in [
            ("the first record", None, Some(&record(4)), true),
            ("another number", Some(&record(4)), Some(&record(8)), true),
            ("the same number", Some(&record(4)), Some(&record(4)), false),
            ("the end of the record", Some(&record(4)), None, true),
            ("a policy of a user", None, Some(&of_user), false),
        ] {
            assert_eq!(records_decisions(old, new), want, "{name}");
        }
    }

    #[test]
    fn new_execution_spaces_wake_the_quotas_of_their_cluster() {
        let quota = |clusters: &[&str]| -> FederatedResourceQuota {
            let assigned: Vec<Value> =
                clusters.iter().map(|name| json!({"clusterName": name, "hard": {"cpu": "1"}})).collect();
            serde_json::from_value(
                json!({"metadata": {"name": "q"}, "spec": {"overall": {}, "staticAssignments": assigned}}),
            )
            .unwrap()
        };
        assert!(new_space(&quota(&["m1", "m2"]), "m2"));
        assert!(!new_space(&quota(&["m1"]), "m2") && !new_space(&quota(&[]), "m2"));
    }
}
