//! Wake rules of the policy controller, beside [`changes::policy`](super::changes::policy).

use ironclad_api::policy::{PolicyPreemption, PropagationSpec};
use ironclad_fleet::PolicyKey;

use crate::policy_match::Policy;

/// Returns true if this policy should be reconciled because another one's priority dropped from `old` to `new`
/// (specification/propagation.md 6.3). A policy of equal priority gains as well.
fn gains_from(policy: Policy<'_>, other: &PolicyKey, old: i32, new: i32) -> bool {
    let same_scope = policy.key().namespace == other.namespace;
    let priority = policy.spec().priority();
    same_scope
        && policy.key() != *other
        && policy.spec().preemption == Some(PolicyPreemption::Always)
        && new < priority
        && priority <= old
}

/// The policies to reconcile because this one changed, by descending priority.
#[must_use]
pub fn policies_that_gain(all: &[Policy<'_>], old: Policy<'_>, new: Policy<'_>) -> Vec<PolicyKey> {
    let (key, before, after) = (new.key(), old.spec().priority(), new.spec().priority());
    let mut gaining: Vec<Policy<'_>> =
        all.iter().copied().filter(|policy| gains_from(*policy, &key, before, after)).collect();
    gaining.sort_by_key(|policy| (std::cmp::Reverse(policy.spec().priority()), policy.key()));
    gaining.into_iter().map(Policy::key).collect()
}

/// Returns true if a policy waits for an override policy of its scope that was created with this name.
#[must_use]
pub fn awaits(spec: &PropagationSpec, override_policy: &str) -> bool {
    spec.dependent_overrides.iter().any(|needed| needed == override_policy)
}

#[cfg(test)]
mod tests {
    use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy};
    use serde_json::json;

    use super::*;
    use crate::testkit::{cluster_policy, patched, policy};

    #[test]
    fn priority_drop_enqueues_policies_that_gain() {
        let make = |name: &str, priority: i32, preemption: &str| -> PropagationPolicy {
            patched(
                &policy(name, json!({"name": "web"})),
                &json!({"spec": {"priority": priority, "preemption": preemption}}),
            )
        };
        let dropped = PolicyKey { namespace: "shop".into(), name: "d".into() };
        for (name, policy, want) in [
            ("between new and old", make("p", 5, "Always"), true),
            ("at the new one", make("p", 1, "Always"), false),
            ("at the old one: upstream forgets it", make("p", 9, "Always"), true),
            ("that never preempts", make("p", 5, "Never"), false),
            ("itself", make("d", 5, "Always"), false),
        ] {
            assert_eq!(gains_from(Policy::Namespaced(&policy), &dropped, 9, 1), want, "{name}");
        }
        let cluster: ClusterPropagationPolicy = patched(
            &cluster_policy("c", json!({"name": "web"})),
            &json!({"spec": {"priority": 5, "preemption": "Always"}}),
        );
        assert!(!gains_from(Policy::Cluster(&cluster), &dropped, 9, 1), "of another scope");
    }

    #[test]
    fn policies_that_gain_follow_by_priority() {
        let always = |name: &str, priority: i32| -> PropagationPolicy {
            patched(
                &policy(name, json!({"name": "web"})),
                &json!({"spec": {"priority": priority, "preemption": "Always"}}),
            )
        };
        let (low, mid, high) = (always("low", 1), always("mid", 5), always("high", 7));
        let never = policy("never", json!({"name": "web"}));
        let all = [&low, &mid, &high, &never].map(Policy::Namespaced);
        for (name, old, new, want) in [
            ("it drops past two", 10, 3, vec!["high", "mid"]),
            ("it drops past all", 10, 0, vec!["high", "mid", "low"]),
            ("it drops to one: equal is not stronger", 10, 5, vec!["high"]),
            ("it was the equal of one", 7, 6, vec!["high"]),
            ("it rises", 3, 10, vec![]),
            ("it stays", 3, 3, vec![]),
        ] {
            let (old, new) = (always("own", old), always("own", new));
            let gaining = policies_that_gain(&all, Policy::Namespaced(&old), Policy::Namespaced(&new));
            let names: Vec<&str> = gaining.iter().map(|key| &*key.name).collect();
            assert_eq!(names, want, "{name}");
        }
    }

    #[test]
    fn policies_wait_for_the_overrides_that_they_name() {
        let one = |names: &[&str]| -> PropagationPolicy {
            patched(&policy("p", json!({})), &json!({"spec": {"dependentOverrides": names}}))
        };
        for (name, policy, want) in
            [("named", one(&["a", "o"]), true), ("others named", one(&["a"]), false), ("none named", one(&[]), false)]
        {
            assert_eq!(awaits(&policy.spec, "o"), want, "{name}");
        }
    }
}
