//! Identities, rights and bootstrap objects of agents, which serve members in pull mode (specification/operations.md
//! 2.6, 10.3 to 10.5).

use serde_json::{Value, json};

use crate::{labels, names, namespaces};

pub use crate::names::AGENT_GROUP;

/// Prefix of the users of agents; the name of the cluster follows.
pub const AGENT_USER_PREFIX: &str = "system:karmada:agent:";
/// User by which karmadactl's `register` asks for the rights of an agent. Here it may make the agent's namespaces, and
/// no rights: the control plane makes them.
pub const RBAC_GENERATOR: &str = "system:karmada:agent:rbac-generator";
/// Longest life of a certificate of [`RBAC_GENERATOR`], seconds: the shortest that an API server lets be asked for.
pub const RBAC_GENERATOR_LIFE: i32 = 600;
/// Signer of the certificates of agents.
pub const AGENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Group of bootstrap tokens with which members are registered.
pub const BOOTSTRAP_GROUP: &str = "system:bootstrappers:karmada:default-cluster-token";
/// Prefix of the users of bootstrap tokens; the id of the token follows.
pub const BOOTSTRAP_USER_PREFIX: &str = "system:bootstrap:";

/// Prefix of the Secrets of bootstrap tokens in [`namespaces::KUBE_SYSTEM`]; the id of the token follows.
pub const TOKEN_SECRET_PREFIX: &str = "bootstrap-token-";
/// Type of these Secrets.
pub const TOKEN_SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Key of such a Secret that limits the token to one cluster.
pub const TOKEN_CLUSTER_NAME: &str = "ironclad-cluster-name";
/// Namespace that everybody may read.
pub const KUBE_PUBLIC: &str = "kube-public";
/// ConfigMap of [`KUBE_PUBLIC`] with the address of the control plane, its certificate, and a signature by each token.
pub const CLUSTER_INFO: &str = "cluster-info";
/// Key of that ConfigMap: a kubeconfig without users.
pub const CLUSTER_INFO_KUBECONFIG: &str = "kubeconfig";
/// Prefix of its keys of signatures; the id of the token follows.
pub const CLUSTER_INFO_SIGNATURE_PREFIX: &str = "jws-kubeconfig-";

/// Annotation of a Cluster: holders of bootstrap tokens get a certificate of its agent although that is alive.
pub const ALLOW_REREGISTER: &str = "agent.ironclad.io/allow-reregister";

/// Annotation of the Lease of an agent: beginning and end of its certificate, RFC 3339, separated by `/`.
pub const CERTIFICATE_LIFE: &str = "agent.ironclad.io/certificate";
/// Annotation of it: [`TUNNEL_OPEN`], [`TUNNEL_OFF`], or the reason for which the control plane has no way to the
/// member.
pub const TUNNEL: &str = "agent.ironclad.io/tunnel";
/// At least one tunnel is open.
pub const TUNNEL_OPEN: &str = "open";
/// The agent opens none.
pub const TUNNEL_OFF: &str = "off";

/// Group of the streams that agents open.
pub const AGENT_API_GROUP: &str = "agent.ironclad.io";

const RBAC: &str = "rbac.authorization.k8s.io";

/// The user of a cluster's agent, which is the common name of its certificate.
#[must_use]
pub fn agent_user(cluster: &str) -> String {
    format!("{AGENT_USER_PREFIX}{cluster}")
}

/// The cluster of an agent's user. `None` for others, and for [`RBAC_GENERATOR`].
#[must_use]
pub fn cluster_of_agent(user: &str) -> Option<&str> {
    if user == RBAC_GENERATOR {
        return None;
    }
    user.strip_prefix(AGENT_USER_PREFIX).filter(|cluster| !cluster.is_empty())
}

/// Returns false for the name with which an agent would be [`RBAC_GENERATOR`].
#[must_use]
pub fn may_have_agent(cluster: &str) -> bool {
    cluster_of_agent(&agent_user(cluster)).is_some()
}

/// The path of the stream over which an agent lets the control plane reach its member.
#[must_use]
pub fn tunnel_path(cluster: &str) -> String {
    format!("/apis/{AGENT_API_GROUP}/v1alpha1/clusters/{cluster}/tunnel")
}

fn labelled(name: &str, namespace: Option<&str>, (key, value): (&str, &str)) -> Value {
    let mut metadata = json!({"name": name, "labels": {key: value}});
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    metadata
}

fn binding(kind: &str, metadata: Value, role: (&str, &str), subject: (&str, &str)) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": role.0, "name": role.1},
        "subjects": [{"apiGroup": RBAC, "kind": subject.0, "name": subject.1}],
    })
}

/// Namespaces of the control plane in which the agent of a cluster has rights: that of the Secrets of clusters, and its
/// execution namespace.
#[must_use]
pub fn agent_namespaces(cluster: &str) -> [Value; 2] {
    [namespaces::CLUSTER.to_owned(), names::execution_namespace(cluster)].map(|name| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {labels::SYSTEM: labels::TRUE}}})
    })
}

/// Roles and bindings of the agent of a cluster: rights that are limited further by admission.
#[must_use]
pub fn agent_rights(cluster: &str) -> Vec<Value> {
    let user = agent_user(cluster);
    let label = (labels::SYSTEM, "true");
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let named = |mut rule: Value, names: &[&str]| {
        rule["resourceNames"] = json!(names);
        rule
    };
    let (impersonator, election) = (format!("{cluster}-impersonator"), format!("karmada-agent-{cluster}"));
    let (clusters, works) = ("cluster.karmada.io", "work.karmada.io");
    let read = ["get", "list", "watch"];
    let (everywhere, space) = (format!("system:karmada:{cluster}:agent"), names::execution_namespace(cluster));
    let cluster_rules = json!([
        named(rule(clusters, &["clusters"], &["get", "patch", "update"]), &[cluster]),
        rule(clusters, &["clusters"], &["create", "list", "watch"]),
        named(rule(clusters, &["clusters/status"], &["get", "patch", "update"]), &[cluster]),
        named(rule(AGENT_API_GROUP, &["clusters/tunnel"], &["get"]), &[cluster]),
        rule(
            "config.karmada.io",
            &["resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"],
            &read,
        ),
        rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get"]),
        named(rule("", &["namespaces"], &["get"]), &[namespaces::KUBE_SYSTEM, namespaces::CLUSTER, &space]),
        named(rule("coordination.k8s.io", &["leases"], &["get", "update"]), &[cluster, &election]),
        rule("coordination.k8s.io", &["leases"], &["create"]),
        rule("certificates.k8s.io", &["certificatesigningrequests"], &["get", "create"]),
        rule("", &["events"], &["create", "patch", "update"]),
        rule("events.k8s.io", &["events"], &["create", "patch", "update"]),
    ]);
    let of_secrets = format!("system:karmada:{cluster}:agent-secret");
    let secret_rules = json!([
        named(rule("", &["secrets"], &["get", "patch", "update"]), &[cluster, &impersonator]),
        rule("", &["secrets"], &["create"]),
    ]);
    let of_works = format!("system:karmada:{cluster}:agent-work");
    let work_rules = json!([
        rule(works, &["works"], &["get", "list", "watch", "create", "update", "patch", "delete"]),
        rule(works, &["works/status"], &["patch", "update"]),
    ]);
    let role = |kind: &str, metadata: Value, rules: Value| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules});
    let subject = ("User", user.as_str());
    vec![
        role("ClusterRole", labelled(&everywhere, None, label), cluster_rules),
        binding("ClusterRoleBinding", labelled(&everywhere, None, label), ("ClusterRole", &everywhere), subject),
        role("Role", labelled(&of_secrets, Some(namespaces::CLUSTER), label), secret_rules),
        binding("RoleBinding", labelled(&of_secrets, Some(namespaces::CLUSTER), label), ("Role", &of_secrets), subject),
        role("Role", labelled(&of_works, Some(&space), label), work_rules),
        binding("RoleBinding", labelled(&of_works, Some(&space), label), ("Role", &of_works), subject),
    ]
}

/// Roles and bindings by which members are registered with a bootstrap token, and by which agents renew their
/// certificates. `is_reviewed`: our admission sees all writes to this control plane. Without it nothing would limit
/// [`RBAC_GENERATOR`] to agents' namespaces and its own requests, so it gets no such rights.
#[must_use]
pub fn bootstrap_rights(is_reviewed: bool) -> Vec<Value> {
    let label = ("karmada.io/bootstrapping", "rbac-defaults");
    let (bootstrap, renewal) = (
        "system:karmada:certificatesigningrequest:autoapprover",
        "system:karmada:certificatesigningrequest:selfautoapprover",
    );
    let approved = |name: &str, subresource: &str| {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": labelled(name, None, label),
            "rules": [{"apiGroups": ["certificates.k8s.io"], "verbs": ["create"],
                "resources": [format!("certificatesigningrequests/{subresource}")]}],
        })
    };
    let rule = |group: &str, resources: &[&str], verb: &str| json!({"apiGroups": [group], "resources": resources, "verbs": [verb]});
    let bound = |name: &str, role: &str, subject: (&str, &str)| {
        binding("ClusterRoleBinding", labelled(name, None, label), ("ClusterRole", role), subject)
    };
    // Karmada's names: over its control plane, this takes the rights of an administrator away.
    let generator = "system:karmada:agent-rbac-generator";
    let info = "system:karmada:bootstrap-signer-clusterinfo";
    let mut generates = vec![rule("cluster.karmada.io", &["clusters"], "get")];
    if is_reviewed {
        generates.extend([
            rule("", &["namespaces"], "create"),
            // Admission answers these. Without it an API server refuses whatever grants more than this role.
            rule(RBAC, &["clusterrolebindings", "clusterroles", "rolebindings", "roles"], "create"),
            rule("certificates.k8s.io", &["certificatesigningrequests"], "delete"),
        ]);
    }
    vec![
        approved(bootstrap, "clusteragent"),
        approved(renewal, "selfclusteragent"),
        bound("system:karmada:agent-bootstrap", "system:node-bootstrapper", ("Group", BOOTSTRAP_GROUP)),
        bound("system:karmada:agent-autoapprove-bootstrap", bootstrap, ("Group", BOOTSTRAP_GROUP)),
        bound("system:karmada:agent-autoapprove-certificate-rotation", renewal, ("Group", AGENT_GROUP)),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": labelled(generator, None, label),
            "rules": generates,
        }),
        bound(generator, generator, ("User", RBAC_GENERATOR)),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": labelled(info, Some(KUBE_PUBLIC), label),
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLUSTER_INFO], "verbs": ["get"]}],
        }),
        binding("RoleBinding", labelled(info, Some(KUBE_PUBLIC), label), ("Role", info), ("User", "system:anonymous")),
    ]
}

/// The kubeconfig in [`CLUSTER_INFO`]: server and certificates (PEM) of the control plane, without users.
#[must_use]
pub fn cluster_info(server: &str, certificates_base64: &str) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "preferences": {}, "current-context": "", "contexts": [], "users": [],
        "clusters": [{"name": "", "cluster": {"certificate-authority-data": certificates_base64, "server": server}}],
    });
    config.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_agents_name_their_cluster() {
        assert_eq!(agent_user("m1"), "system:karmada:agent:m1");
        for (user, want) in [
            ("system:karmada:agent:m1", Some("m1")),
            ("system:karmada:agent:rbac-generator", None),
            ("system:karmada:agent:", None),
            ("alice", None),
        ] {
            assert_eq!(cluster_of_agent(user), want, "{user}");
        }
        assert!(may_have_agent("m1") && !may_have_agent("rbac-generator"));
    }

    #[test]
    fn rights_of_an_agent_are_its_own() {
        let objects = agent_rights("m1");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names: Vec<String> = objects
            .iter()
            .map(|o| {
                format!("{} {}/{}", text(&o["kind"]), text(&o["metadata"]["namespace"]), text(&o["metadata"]["name"]))
            })
            .collect();
        assert_eq!(
            names,
            [
                "ClusterRole /system:karmada:m1:agent",
                "ClusterRoleBinding /system:karmada:m1:agent",
                "Role karmada-cluster/system:karmada:m1:agent-secret",
                "RoleBinding karmada-cluster/system:karmada:m1:agent-secret",
                "Role karmada-es-m1/system:karmada:m1:agent-work",
                "RoleBinding karmada-es-m1/system:karmada:m1:agent-work",
            ]
        );
        for binding in objects.iter().filter(|o| o["subjects"].is_array()) {
            assert_eq!(binding["subjects"][0]["name"], "system:karmada:agent:m1");
        }
    }
}
