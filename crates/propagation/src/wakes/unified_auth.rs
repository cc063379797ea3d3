//! Wake rules of the unified auth controller.

use ironclad_api::work::Work;
use ironclad_fleet::ClusterName;

use super::binding;
use crate::unified_auth::{self, Rule, Subject};

/// Returns true if a changed ClusterRole concerns impersonation: its rules differ, and the old or the new ones grant
/// it.
#[must_use]
pub fn role(old: &[Rule], new: &[Rule]) -> bool {
    old != new && (unified_auth::concerns(old) || unified_auth::concerns(new))
}

/// Returns true if a changed ClusterRoleBinding may concern impersonation: its role or its subjects differ.
#[must_use]
pub fn role_binding(old: &(String, Vec<Subject>), new: &(String, Vec<Subject>)) -> bool {
    old != new
}

/// Returns true if a changed or deleted Work in the execution space of this cluster is one of its impersonation rules.
#[must_use]
pub fn work(cluster: &ClusterName, old: &Work, new: Option<&Work>) -> bool {
    let name = old.metadata.name.as_deref();
    binding::work(Some(old), new) && unified_auth::keys(cluster).iter().any(|key| Some(&*key.name) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resource: &str) -> Rule {
        Rule { groups: vec!["cluster.karmada.io".into()], resources: vec![resource.into()], ..Rule::default() }
    }

    #[test]
    fn only_roles_that_grant_the_proxy_wake_clusters() {
        let (proxy, other) = (rule("clusters/proxy"), rule("clusters"));
        for (name, old, new, want) in [
            ("granted", vec![], vec![proxy.clone()], true),
            ("revoked", vec![proxy.clone()], vec![], true),
            ("unchanged", vec![proxy.clone()], vec![proxy.clone()], false),
            ("another resource", vec![], vec![other.clone()], false),
            ("a further rule", vec![proxy.clone()], vec![proxy, other], true),
        ] {
            assert_eq!(role(&old, &new), want, "{name}");
        }
    }

    #[test]
    fn role_and_subjects_of_a_role_binding_wake_clusters() {
        let binding = |role: &str, user: &str| {
            let subject = Subject { kind: "User".into(), namespace: String::new(), name: user.into() };
            (role.to_owned(), vec![subject])
        };
        let base = binding("proxy", "jane");
        assert!(!role_binding(&base, &base.clone()));
        assert!(role_binding(&base, &binding("proxy", "joe")));
        assert!(role_binding(&base, &binding("view", "jane")));
    }

    #[test]
    fn only_its_own_works_wake_a_cluster() {
        let cluster = ClusterName::from("m1");
        let of = |name: &str, generation: i64| -> Work {
            let metadata = serde_json::json!({"name": name, "generation": generation});
            crate::testkit::work(serde_json::json!({"metadata": metadata, "spec": {"workload": {}}}))
        };
        let [role, _] = unified_auth::keys(&cluster);
        for (name, old, new, want) in [
            ("deleted", of(&role.name, 1), None, true),
            ("changed", of(&role.name, 1), Some(of(&role.name, 2)), true),
            ("a status", of(&role.name, 1), Some(of(&role.name, 1)), false),
            ("another one", of("web", 1), None, false),
        ] {
            assert_eq!(work(&cluster, &old, new.as_ref()), want, "{name}");
        }
    }
}
