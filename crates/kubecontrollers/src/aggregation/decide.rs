//! Rules of an aggregated ClusterRole: those of all roles that it selects.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use crate::owner::{parse_selector, selects};

pub(crate) fn takes(role: &ClusterRole, of: &ClusterRole) -> bool {
    let mut selectors = role.aggregation_rule.iter().flat_map(|r| r.cluster_role_selectors.iter().flatten());
    role.metadata.name != of.metadata.name
        && selectors.any(|s| parse_selector(s).is_some_and(|s| selects(&s, &of.metadata)))
}

/// Returns the rules that the role should have, if they differ from those it has. A role without an aggregation rule is
/// ignored.
pub(crate) fn decide<'a>(
    role: &ClusterRole,
    all: impl Iterator<Item = &'a Arc<ClusterRole>>,
) -> Option<Vec<PolicyRule>> {
    role.aggregation_rule.as_ref()?;
    let mut sources: Vec<&Arc<ClusterRole>> = all.filter(|of| takes(role, of)).collect();
    sources.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut rules: Vec<PolicyRule> = Vec::new();
    for rule in sources.iter().flat_map(|of| of.rules.iter().flatten()) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    (role.rules.as_deref().unwrap_or_default() != rules).then_some(rules)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn role(name: &str, labels: Value, verbs: &[&str]) -> Arc<ClusterRole> {
        let rules: Vec<_> =
            verbs.iter().map(|v| json!({"apiGroups": ["a"], "resources": ["b"], "verbs": [v]})).collect();
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "rules": rules})).unwrap())
    }

    fn admin(has: &[&str]) -> ClusterRole {
        let mut role = (*role("admin", json!({"to-admin": "true"}), has)).clone();
        role.aggregation_rule = Some(
            serde_json::from_value(json!({"clusterRoleSelectors": [
                {"matchLabels": {"to-admin": "true"}}, {"matchLabels": {"to-edit": "true"}}]}))
            .unwrap(),
        );
        role
    }

    #[test]
    fn rules_of_aggregated_roles() {
        let all = [
            role("z", json!({"to-admin": "true"}), &["list", "get"]),
            role("a", json!({"to-edit": "true"}), &["update", "get"]),
            role("other", json!({}), &["delete"]),
            Arc::new(admin(&["own"])),
        ];
        for (name, has, want) in [
            (
                "rules of the selected roles, sorted by role name, without duplicates",
                &["own"][..],
                Some(vec!["update", "get", "list"]),
            ),
            ("unchanged rules are not written", &["update", "get", "list"], None),
        ] {
            let rules = decide(&admin(has), all.iter());
            let verbs = rules.map(|r| r.iter().map(|r| r.verbs[0].clone()).collect::<Vec<_>>());
            assert_eq!(verbs, want.map(|v| v.into_iter().map(str::to_owned).collect()), "{name}");
        }
        assert_eq!(decide(&all[2], all.iter()), None, "a role without an aggregation rule keeps its rules");
        assert_eq!(decide(&admin(&["own"]), [].iter()), Some(vec![]), "no role is selected");
    }
}
