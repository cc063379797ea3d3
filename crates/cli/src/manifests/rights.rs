//! Rights of `ironclad run` in the control plane (specification/operations.md 10), by what needs them.
//!
//! Any kind may be a template, so that all kinds are read and marked. What else is written has a row each. Rules of
//! roles that are granted to others (users, agents, bootstrap tokens) are within these, as an API server lets nobody
//! grant more than he has.

use ironclad_api::cluster::STORED_GROUP;
use serde_json::{Value, json};

/// API groups, resources and verbs.
type Right = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);

const RBAC: &str = "rbac.authorization.k8s.io";

/// Rights, in the order in which they are printed.
const RIGHTS: [Right; 10] = [
    // Templates of any kind: they are watched, marked as claimed, scaled, and get a status.
    (&["*"], &["*"], &["get", "list", "watch", "patch", "update"]),
    // Our own kinds. Users get roles for them.
    (
        &[
            "apps.karmada.io", "autoscaling.karmada.io", "cluster.karmada.io", "config.karmada.io",
            "multicluster.x-k8s.io", "networking.karmada.io", "policy.karmada.io", "remedy.karmada.io",
            "work.karmada.io",
        ],
        &["*"],
        &["*"],
    ),
    // Namespaces of Works; reports, certificates and credentials; Services of imports, and of what is served here.
    (&[""], &["configmaps", "namespaces", "secrets", "services"], &["create", "delete"]),
    (&["", "events.k8s.io"], &["events"], &["create"]),
    (&["coordination.k8s.io"], &["leases"], &["create"]),
    (&["discovery.k8s.io"], &["endpointslices"], &["create", "delete"]),
    // CustomResourceDefinitions, webhooks and APIs that a process installs.
    (
        &["admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"],
        &[
            "apiservices",
            "customresourcedefinitions",
            "mutatingwebhookconfigurations",
            "validatingwebhookconfigurations",
        ],
        &["create", "delete"],
    ),
    // Agents: they request certificates, which are approved by who may; karmadactl deletes its request.
    (
        &["certificates.k8s.io"],
        &[
            "certificatesigningrequests",
            "certificatesigningrequests/clusteragent",
            "certificatesigningrequests/selfclusteragent",
            "signers",
        ],
        &["approve", "create", "delete"],
    ),
    (&[RBAC], &["clusterrolebindings", "clusterroles", "rolebindings", "roles"], &["create", "delete"]),
    // Users of what is served here.
    (&["authentication.k8s.io", "authorization.k8s.io"], &["subjectaccessreviews", "tokenreviews"], &["create"]),
];

/// `run --aggregate-clusters`: it stores Clusters in the names of those who write them.
const AGGREGATES: [Right; 2] =
    [(&[STORED_GROUP], &["*"], &["*"]), (&["", "authentication.k8s.io"], &["*"], &["impersonate"])];
/// Roles may be written that grant what the account does not have.
const ESCALATES: [Right; 1] = [(&[RBAC], &["clusterroles", "roles"], &["bind", "escalate"])];

/// Rules of the role. Each of the further ones makes its account an administrator.
pub(super) fn rules(aggregates: bool, escalates: bool) -> Vec<Value> {
    let rule =
        |(groups, resources, verbs): &Right| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let further = [(aggregates, AGGREGATES.as_slice()), (escalates, &ESCALATES)];
    let further = further.into_iter().filter(|(is_on, _)| *is_on).flat_map(|(_, rights)| rights);
    RIGHTS.iter().chain(further).map(rule).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ironclad_api::{agents, crds::crds, roles::cluster_roles};

    use super::*;

    /// True if the rules allow the verb on the resource.
    fn allowed(rules: &[Value], group: &str, resource: &str, verb: &str) -> bool {
        let has = |rule: &Value, field: &str, want: &str| {
            rule[field].as_array().into_iter().flatten().any(|one| one == want || one == "*")
        };
        rules
            .iter()
            .any(|rule| has(rule, "apiGroups", group) && has(rule, "resources", resource) && has(rule, "verbs", verb))
    }

    #[test]
    fn our_kinds_are_those_of_the_definitions() {
        let groups: BTreeSet<String> = crds().into_iter().map(|crd| crd.spec.group).collect();
        let of_rule: BTreeSet<String> = RIGHTS[1].0.iter().map(|group| (*group).to_owned()).collect();
        assert_eq!(of_rule, groups);
    }

    /// An API server refuses a role whose rules are beyond those of its writer.
    #[test]
    fn what_is_granted_to_others_is_within() {
        let granted = agents::agent_rights("m1").into_iter().chain(agents::bootstrap_rights(true));
        let granted = granted.chain(cluster_roles(&crds()).into_iter().map(|role| serde_json::to_value(role).unwrap()));
        // Role system:node-bootstrapper of Kubernetes, to which bootstrap tokens are bound.
        let bootstrapper = json!({"rules": [{
            "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
            "verbs": ["create", "get", "list", "watch"],
        }]});
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            rule[field].as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let (own, mut beyond, mut seen) = (rules(false, false), Vec::new(), 0);
        for object in granted.chain([bootstrapper]) {
            for rule in object["rules"].as_array().into_iter().flatten() {
                for group in texts(rule, "apiGroups") {
                    for resource in texts(rule, "resources") {
                        for verb in texts(rule, "verbs") {
                            seen += 1;
                            if !allowed(&own, &group, &resource, &verb) {
                                beyond.push(format!("{verb} {resource}.{group}"));
                            }
                        }
                    }
                }
            }
        }
        assert!(seen > 100, "{seen}");
        assert_eq!(beyond, Vec::<String>::new());
    }

    #[test]
    fn it_is_no_administrator_unless_asked() {
        let plain = rules(false, false);
        for (group, resource, verb, want) in [
            ("apps", "deployments", "patch", true),
            ("apps", "deployments/status", "update", true),
            ("example.com", "anything", "watch", true),
            ("apps", "deployments", "create", false),
            ("apps", "deployments", "delete", false),
            ("", "pods", "delete", false),
            ("", "serviceaccounts", "impersonate", false),
            ("", "serviceaccounts/token", "create", false),
            (RBAC, "clusterroles", "escalate", false),
            (RBAC, "clusterroles", "bind", false),
        ] {
            assert_eq!(allowed(&plain, group, resource, verb), want, "{verb} {resource}.{group}");
        }
        assert!(allowed(&rules(false, true), RBAC, "clusterroles", "escalate"));
        let aggregating = rules(true, false);
        for (group, resource, verb) in [
            (STORED_GROUP, "clusters/status", "update"),
            ("", "groups", "impersonate"),
            ("authentication.k8s.io", "userextras/example.com/team", "impersonate"),
        ] {
            assert!(allowed(&aggregating, group, resource, verb), "{verb} {resource}.{group}");
        }
    }
}
