//! Match of a template to a policy (specification/propagation.md 4.2-specification/propagation.md 4.4).

use std::{cmp::Reverse, sync::Arc};

use ironclad_api::{
    ObjectMeta, finalizers, labels,
    policy::{ActivationPreference, ClusterPropagationPolicy, PropagationPolicy, PropagationSpec},
};
use ironclad_fleet::PolicyKey;

use crate::{
    selector::{self, Implicit},
    template::Identity,
};

/// Policy of either kind.
#[derive(Debug, Clone, Copy)]
pub enum Policy<'a> {
    /// A PropagationPolicy.
    Namespaced(&'a PropagationPolicy),
    /// A ClusterPropagationPolicy.
    Cluster(&'a ClusterPropagationPolicy),
}

impl<'a> Policy<'a> {
    #[must_use]
    pub fn metadata(self) -> &'a ObjectMeta {
        match self {
            Self::Namespaced(policy) => &policy.metadata,
            Self::Cluster(policy) => &policy.metadata,
        }
    }

    /// Its spec, as stored.
    #[must_use]
    pub fn spec(self) -> &'a PropagationSpec {
        match self {
            Self::Namespaced(policy) => &policy.spec,
            Self::Cluster(policy) => &policy.spec,
        }
    }

    #[must_use]
    pub fn key(self) -> PolicyKey {
        let of = |text: &Option<String>| -> Arc<str> { text.as_deref().unwrap_or("").into() };
        let metadata = self.metadata();
        PolicyKey {
            namespace: match self {
                Self::Namespaced(_) => of(&metadata.namespace),
                Self::Cluster(_) => "".into(),
            },
            name: of(&metadata.name),
        }
    }

    /// The label that carries its permanent id.
    #[must_use]
    pub fn id_label(self) -> &'static str {
        match self {
            Self::Namespaced(_) => labels::PROPAGATION_POLICY_PERMANENT_ID,
            Self::Cluster(_) => labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
        }
    }

    /// The finalizer that guards its claims.
    #[must_use]
    pub fn finalizer(self) -> &'static str {
        match self {
            Self::Namespaced(_) => finalizers::PROPAGATION_POLICY_CONTROLLER,
            Self::Cluster(_) => finalizers::CLUSTER_PROPAGATION_POLICY_CONTROLLER,
        }
    }

    /// Its permanent id, if set.
    #[must_use]
    pub fn permanent_id(self) -> Option<&'a str> {
        let id = self.metadata().labels.as_ref()?.get(self.id_label())?;
        (!id.is_empty()).then_some(id)
    }

    /// Returns true if it is being deleted.
    #[must_use]
    pub fn is_deleting(self) -> bool {
        self.metadata().deletion_timestamp.is_some()
    }

    /// Returns true if it waits for edits of its templates (specification/propagation.md 6.5).
    #[must_use]
    pub fn is_lazy(self) -> bool {
        self.spec().activation_preference == Some(ActivationPreference::Lazy)
    }

    /// The most specific match of its selectors; `None` if it does not match. A PropagationPolicy matches templates of
    /// its own namespace only.
    #[must_use]
    pub fn matches(self, template: &Identity<'_>) -> Option<Implicit> {
        if let Self::Namespaced(policy) = self
            && (template.namespace.is_empty() || policy.metadata.namespace.as_deref() != Some(template.namespace))
        {
            return None;
        }
        selector::best(&self.spec().resource_selectors, template)
    }
}

/// Order among matching policies: the greatest is chosen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    /// A PropagationPolicy precedes every ClusterPropagationPolicy.
    namespaced: bool,
    /// Then the higher explicit priority.
    priority: i32,
    /// Then the more specific selector.
    implicit: Implicit,
    /// Then the name that is first in the alphabet.
    name: Reverse<&'a str>,
}

/// The chosen policy, and the others that match.
#[derive(Debug, Clone)]
pub struct Choice<'a> {
    /// The chosen policy.
    pub policy: Policy<'a>,
    /// Its match.
    pub by: Implicit,
    /// The others that match, best first, each with the reason why it was not chosen.
    pub losers: Vec<(Policy<'a>, &'static str)>,
}

/// Chooses among candidates. Policies that are being deleted do not match.
#[must_use]
pub fn choose<'a>(candidates: impl Iterator<Item = Policy<'a>>, template: &Identity<'_>) -> Option<Choice<'a>> {
    let mut ranked: Vec<(Rank<'a>, Policy<'a>)> = candidates
        .filter(|policy| !policy.is_deleting())
        .filter_map(|policy| {
            let rank = Rank {
                namespaced: matches!(policy, Policy::Namespaced(_)),
                priority: policy.spec().priority(),
                implicit: policy.matches(template)?,
                name: Reverse(policy.metadata().name.as_deref().unwrap_or("")),
            };
            Some((rank, policy))
        })
        .collect();
    ranked.sort_by(|a, b| b.0.cmp(&a.0));
    let mut ranked = ranked.into_iter();
    let (best, policy) = ranked.next()?;
    let losers = ranked.map(|(rank, policy)| (policy, why_lost(&rank, &best))).collect();
    Some(Choice { policy, by: best.implicit, losers })
}

fn why_lost(loser: &Rank<'_>, winner: &Rank<'_>) -> &'static str {
    if loser.namespaced != winner.namespaced {
        "a PropagationPolicy takes precedence over a ClusterPropagationPolicy"
    } else if loser.priority != winner.priority {
        "its priority is lower"
    } else if loser.implicit != winner.implicit {
        "its selector is less specific"
    } else {
        "its name comes later"
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn pp(name: &str, priority: i32, selector: Value) -> PropagationPolicy {
        let mut full = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        full.as_object_mut().unwrap().extend(selector.as_object().unwrap().clone());
        serde_json::from_value(json!({"metadata": {"namespace": "prod", "name": name}, "spec": {"priority": priority, "resourceSelectors": [full]}})).unwrap()
    }

    fn cpp(name: &str, priority: i32, selector: Value) -> ClusterPropagationPolicy {
        let pp = pp(name, priority, selector);
        let mut cpp = ClusterPropagationPolicy::new(name, pp.spec);
        cpp.metadata.name = Some(name.into());
        cpp
    }

    fn web() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "prod", "name": "web", "labels": {"app": "web"}}})
    }

    fn winner(pps: &[&PropagationPolicy], cpps: &[&ClusterPropagationPolicy]) -> Option<String> {
        let web = web();
        let all = pps.iter().map(|p| Policy::Namespaced(p)).chain(cpps.iter().map(|p| Policy::Cluster(p)));
        choose(all, &Identity::of(&web)).map(|choice| choice.policy.key().name.to_string())
    }

    #[test]
    fn policy_order_of_the_specification() {
        let zeta = pp("zeta", 0, json!({"name": "web"}));
        let beta = pp("beta", 0, json!({"labelSelector": {"matchLabels": {"app": "web"}}}));
        let alpha = pp("alpha", 5, json!({}));
        let all = cpp("all", 100, json!({"name": "web"}));
        for (name, pps, cpps, want) in [
            ("explicit priority first", vec![&zeta, &beta, &alpha], vec![&all], Some("alpha")),
            ("then the more specific selector", vec![&zeta, &beta], vec![&all], Some("zeta")),
            ("by label beats nothing else", vec![&beta], vec![&all], Some("beta")),
            ("the cluster's policy when no other matches", vec![], vec![&all], Some("all")),
            ("none", vec![], vec![], None),
        ] {
            assert_eq!(winner(&pps, &cpps).as_deref(), want, "{name}");
        }
        let (a, b) = (pp("a", 1, json!({})), pp("b", 1, json!({})));
        assert_eq!(winner(&[&b, &a], &[]).as_deref(), Some("a"), "the smaller name");
    }

    #[test]
    fn deleted_and_foreign_policies_are_not_chosen() {
        let mut deleting = pp("a", 9, json!({}));
        deleting.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let b = pp("b", 0, json!({}));
        assert_eq!(winner(&[&deleting, &b], &[]).as_deref(), Some("b"), "a policy being deleted");
        let mut elsewhere = pp("a", 9, json!({}));
        elsewhere.metadata.namespace = Some("test".into());
        assert_eq!(winner(&[&elsewhere], &[]), None, "a policy of another namespace");
        let node = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
        assert!(
            choose([Policy::Namespaced(&b)].into_iter(), &Identity::of(&node)).is_none(),
            "a namespaced policy never takes a cluster-scoped template"
        );
    }

    #[test]
    fn policies_not_chosen_have_reasons() {
        let (a, b, c) = (pp("a", 1, json!({"name": "web"})), pp("b", 1, json!({"name": "web"})), pp("c", 1, json!({})));
        let (d, e) = (pp("d", 0, json!({"name": "web"})), cpp("e", 9, json!({})));
        let web = web();
        let all = [
            Policy::Namespaced(&d),
            Policy::Cluster(&e),
            Policy::Namespaced(&c),
            Policy::Namespaced(&b),
            Policy::Namespaced(&a),
        ];
        let choice = choose(all.into_iter(), &Identity::of(&web)).unwrap();
        let reasons: Vec<String> = choice.losers.iter().map(|(p, why)| format!("{}: {why}", p.key().name)).collect();
        assert_eq!(
            reasons,
            [
                "b: its name comes later",
                "c: its selector is less specific",
                "d: its priority is lower",
                "e: a PropagationPolicy takes precedence over a ClusterPropagationPolicy"
            ]
        );
    }

    proptest! {
        #[test]
        fn the_order_of_candidates_does_not_matter(mut policies in prop::collection::vec((0..3_i32, 0..3_usize, "[a-d]{1,2}"), 1..8), seed in any::<u64>()) {
            policies.sort_by(|a, b| a.2.cmp(&b.2));
            policies.dedup_by(|a, b| a.2 == b.2);
            let make = |(priority, kind, name): &(i32, usize, String)| pp(name, *priority, [json!({}), json!({"labelSelector": {}}), json!({"name": "web"})][*kind].clone());
            let forward: Vec<_> = policies.iter().map(make).collect();
            let mut shuffled = forward.clone();
            let n = shuffled.len();
            for i in 0..n { shuffled.swap(i, (seed as usize).wrapping_mul(i + 7) % n); }
            prop_assert_eq!(winner(&forward.iter().collect::<Vec<_>>(), &[]), winner(&shuffled.iter().collect::<Vec<_>>(), &[]));
        }
    }
}
