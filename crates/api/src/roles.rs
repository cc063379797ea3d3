//! ClusterRoles that let the users of a namespace work with our kinds (specification/operations.md 10.4).

use k8s_openapi::{
    api::rbac::v1::{ClusterRole, PolicyRule},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::StringMap;

/// Namespaced kinds that users write. Not among them: bindings, which controllers write, and quotas, which limit the
/// users themselves.
const WRITTEN_BY_USERS: [&str; 7] = [
    "cronfederatedhpas", "federatedhpas", "multiclusteringresses", "multiclusterservices", "overridepolicies",
    "propagationpolicies", "serviceexports",
];
/// Namespaced kinds that nobody but controllers and administrators needs: Works are in namespaces of clusters.
const INTERNAL: [&str; 1] = ["works"];

/// Everything through the proxy to members (specification/operations.md 4.3).
pub const CLUSTER_PROXY_ADMIN: &str = "cluster-proxy-admin";

/// Beside `edit` or `view` of a namespace: reading what decides about its workloads, and going to members
/// (specification/operations.md 10.4).
const TENANT: &str = "ironclad-tenant";

/// `karmada-view`, aggregated to `view`, `edit` and `admin`, and `karmada-edit`, aggregated to `edit` and `admin`:
/// roles for the kinds of these definitions, which are costly to decode; `cluster-proxy-admin`; and `ironclad-tenant`.
#[must_use]
pub fn cluster_roles(crds: &[CustomResourceDefinition]) -> [ClusterRole; 4] {
    let mut kinds: Vec<(String, String, bool)> = crds
        .iter()
        .filter(|crd| crd.spec.scope == "Namespaced" && !INTERNAL.contains(&&*crd.spec.names.plural))
        .map(|crd| {
            let has_status =
                crd.spec.versions.iter().any(|v| v.subresources.as_ref().is_some_and(|s| s.status.is_some()));
            (crd.spec.group.clone(), crd.spec.names.plural.clone(), has_status)
        })
        .collect();
    kinds.sort();
    let rules = |verbs: &[&str], resources: &dyn Fn(&str, bool) -> Vec<String>| -> Vec<PolicyRule> {
        let mut rules: Vec<PolicyRule> = Vec::new();
        for (group, plural, has_status) in &kinds {
            let names = resources(plural, *has_status);
            if names.is_empty() {
                continue;
            }
            match rules.iter_mut().find(|rule| rule.api_groups.iter().flatten().any(|known| known == group)) {
                Some(rule) => rule.resources.get_or_insert_default().extend(names),
                None => rules.push(PolicyRule {
                    api_groups: Some(vec![group.clone()]),
                    resources: Some(names),
                    verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
                    ..PolicyRule::default()
                }),
            }
        }
        rules
    };
    let view = rules(&["get", "list", "watch"], &|plural, has_status| {
        let status = has_status.then(|| format!("{plural}/status"));
        std::iter::once(plural.to_owned()).chain(status).collect()
    });
    let edit = rules(&["create", "delete", "deletecollection", "patch", "update"], &|plural, _| {
        if WRITTEN_BY_USERS.contains(&plural) { vec![plural.to_owned()] } else { vec![] }
    });
    let proxy = plain(CLUSTER_PROXY_ADMIN, [rule("cluster.karmada.io", &["clusters/proxy"], &["*"])]);
    let read = ["get", "list"];
    let tenant = [
        rule("cluster.karmada.io", &["clusters"], &read),
        rule("cluster.karmada.io", &["clusters/proxy"], &["get", "create"]),
        rule("policy.karmada.io", &["clusterpropagationpolicies", "clusteroverridepolicies"], &read),
        rule(
            "config.karmada.io",
            &["resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"],
            &read,
        ),
        rule("explain.ironclad.io", &["configuration", "estimates"], &read),
    ];
    [role("karmada-edit", "edit", edit), role("karmada-view", "view", view), proxy, plain(TENANT, tenant)]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(&[group])),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

fn plain<const N: usize>(name: &str, rules: [PolicyRule; N]) -> ClusterRole {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    ClusterRole { metadata, rules: Some(rules.into()), ..ClusterRole::default() }
}

fn role(name: &str, into: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    let aggregated = format!("rbac.authorization.k8s.io/aggregate-to-{into}");
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(StringMap::from([(aggregated, "true".to_owned())])),
            ..ObjectMeta::default()
        },
        rules: Some(rules),
        ..ClusterRole::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn users_of_a_namespace_see_our_kinds_and_write_their_own() {
        let [edit, view, ..] = cluster_roles(&crate::crds::crds());
        let all = |role: &ClusterRole| -> Vec<String> {
            let rules = role.rules.iter().flatten();
            let of = |rule: &PolicyRule| -> Vec<String> {
                let groups = rule.api_groups.clone().unwrap_or_default().join(",");
                rule.resources.iter().flatten().map(|resource| format!("{resource}.{groups}")).collect()
            };
            rules.flat_map(of).collect()
        };
        assert_eq!(
            all(&edit),
            [
                "cronfederatedhpas.autoscaling.karmada.io",
                "federatedhpas.autoscaling.karmada.io",
                "serviceexports.multicluster.x-k8s.io",
                "multiclusteringresses.networking.karmada.io",
                "multiclusterservices.networking.karmada.io",
                "overridepolicies.policy.karmada.io",
                "propagationpolicies.policy.karmada.io",
            ]
        );
        let seen = all(&view);
        for resource in all(&edit).iter().map(String::as_str).chain([
            "resourcebindings.work.karmada.io",
            "resourcebindings/status.work.karmada.io",
            "federatedresourcequotas/status.policy.karmada.io",
        ]) {
            assert!(seen.iter().any(|known| known == resource), "{resource} is not in {seen:?}");
        }
        assert!(
            !seen.iter().any(|resource| resource.starts_with("works") || resource.starts_with("cluster")),
            "{seen:?}"
        );
        assert_eq!(json!(view.metadata.labels), json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"}));
        assert_eq!(json!(edit.metadata.labels), json!({"rbac.authorization.k8s.io/aggregate-to-edit": "true"}));
    }
}
