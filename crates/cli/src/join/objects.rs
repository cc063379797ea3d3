//! Manifests that a join writes and a dry run shows (specification/operations.md 10.1, 10.2).

use ironclad_api::{
    cluster::Cluster,
    labels::{SYSTEM, TRUE},
    names::{IMPERSONATOR, impersonation_secret, member_cluster_role, member_service_account},
    namespaces::{SECRET_CA_BUNDLE, SECRET_TOKEN},
};
use k8s_openapi::ByteString;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Credential, JoinOptions, credentials::Tokens};

/// Permissions of the control plane in the member.
#[derive(Debug, Clone, PartialEq)]
pub enum Rbac {
    /// Everything.
    Full,
    /// The rules of a ClusterRole.
    Rules(Value),
}

impl Rbac {
    fn rules(&self) -> Value {
        match self {
            Self::Full => json!([
                { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] },
                { "nonResourceURLs": ["*"], "verbs": ["get"] },
            ]),
            Self::Rules(rules) => rules.clone(),
        }
    }
}

/// Objects that a join writes, without credentials.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    /// In the member, in this order.
    pub member: Vec<Value>,
    /// The namespace of credentials in the control plane.
    pub plane_namespace: Value,
    /// The Cluster, which comes last.
    pub cluster: Value,
}

/// The objects of a join of the member with this identity.
#[must_use]
pub fn objects(options: &JoinOptions, id: &str) -> Objects {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": options.namespace, "labels": { SYSTEM: TRUE } },
    });
    let account = member_service_account(&options.cluster);
    let role = member_cluster_role(&account);
    let mut member = vec![
        namespace.clone(),
        service_account(options, IMPERSONATOR),
        service_account(options, &account),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": role, "labels": { SYSTEM: TRUE } },
            "rules": options.rbac.rules(),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": role, "labels": { SYSTEM: TRUE } },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": options.namespace }],
        }),
    ];
    if options.credential == Credential::Static {
        member.push(token_secret(options, IMPERSONATOR));
        member.push(token_secret(options, &account));
    }
    Objects { member, plane_namespace: namespace, cluster: cluster(options, id) }
}

fn service_account(options: &JoinOptions, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": options.namespace, "labels": { SYSTEM: TRUE } },
    })
}

/// A Secret that the member's token controller fills with a token without an end.
fn token_secret(options: &JoinOptions, account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": account, "namespace": options.namespace, "labels": { SYSTEM: TRUE },
            "annotations": { "kubernetes.io/service-account.name": account },
        },
    })
}

fn cluster(options: &JoinOptions, id: &str) -> Value {
    let mut spec = json!({
        "id": id,
        "syncMode": "Push",
        "apiEndpoint": options.address.endpoint,
        "secretRef": { "namespace": options.namespace, "name": options.cluster },
        "impersonatorSecretRef": { "namespace": options.namespace, "name": impersonation_secret(&options.cluster) },
    });
    let mut set = |field: &str, given: bool, value: Value| {
        if given {
            spec[field] = value;
        }
    };
    set("insecureSkipTLSVerification", options.address.insecure, json!(true));
    set("proxyURL", !options.address.proxy.is_empty(), json!(options.address.proxy));
    set("provider", !options.provider.is_empty(), json!(options.provider));
    set("region", !options.region.is_empty(), json!(options.region));
    set("zones", !options.zones.is_empty(), json!(options.zones));
    json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": { "name": options.cluster },
        "spec": spec,
    })
}

/// The two Secrets of the control plane.
pub(super) fn secrets(options: &JoinOptions, tokens: &Tokens) -> [Value; 2] {
    let bytes = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let secret = |name: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": { "name": name, "namespace": options.namespace, "labels": { SYSTEM: TRUE } },
            "data": data,
        })
    };
    [
        secret(&impersonation_secret(&options.cluster), json!({ SECRET_TOKEN: bytes(&tokens.impersonator) })),
        secret(
            &options.cluster,
            json!({ SECRET_CA_BUNDLE: bytes(&tokens.ca_bundle), SECRET_TOKEN: bytes(&tokens.controller) }),
        ),
    ]
}

/// The two Secrets as the Cluster's own.
pub(super) fn owned_secrets(options: &JoinOptions, cluster: &Cluster) -> [Value; 2] {
    let owner = json!([{
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "name": options.cluster, "uid": cluster.uid().unwrap_or_default(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    [impersonation_secret(&options.cluster), options.cluster.clone()].map(|name| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": name, "namespace": options.namespace, "ownerReferences": owner },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::Address;

    fn options() -> JoinOptions {
        JoinOptions::new("m1", Address { endpoint: "https://10.0.0.1:6443".into(), ..Address::default() })
    }

    #[test]
    fn names_that_other_tools_rely_on() {
        let objects = objects(&options(), "uid-1");
        let named: Vec<String> = objects
            .member
            .iter()
            .map(|o| {
                let namespace = o.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("-");
                format!("{namespace} {}", crate::print::name(o))
            })
            .collect();
        assert_eq!(
            named,
            [
                "- namespace/karmada-cluster",
                "karmada-cluster serviceaccount/karmada-impersonator",
                "karmada-cluster serviceaccount/karmada-m1",
                "- clusterrole.rbac.authorization.k8s.io/karmada-controller-manager:karmada-m1",
                "- clusterrolebinding.rbac.authorization.k8s.io/karmada-controller-manager:karmada-m1",
                "karmada-cluster secret/karmada-impersonator",
                "karmada-cluster secret/karmada-m1",
            ]
        );
        assert!(
            objects.member.iter().all(|o| o.pointer("/metadata/labels/karmada.io~1system") == Some(&json!("true")))
        );
        let with_tokens = JoinOptions { credential: Credential::Token { seconds: 3_600 }, ..options() };
        assert_eq!(
            super::objects(&with_tokens, "uid-1").member.len(),
            5,
            "asked-for tokens need no Secret in the member"
        );
    }

    #[test]
    fn the_cluster_says_what_is_given_and_no_more() {
        let plain = objects(&options(), "uid-1").cluster["spec"].clone();
        assert_eq!(
            plain,
            json!({
                "id": "uid-1", "syncMode": "Push", "apiEndpoint": "https://10.0.0.1:6443",
                "secretRef": { "namespace": "karmada-cluster", "name": "m1" },
                "impersonatorSecretRef": { "namespace": "karmada-cluster", "name": "m1-impersonator" },
            })
        );
        let mut given = JoinOptions { provider: "p".into(), region: "r".into(), zones: vec!["z".into()], ..options() };
        given.address.insecure = true;
        given.address.proxy = "http://proxy".into();
        let spec = objects(&given, "uid-1").cluster["spec"].clone();
        assert_eq!((&spec["provider"], &spec["region"], &spec["zones"]), (&json!("p"), &json!("r"), &json!(["z"])));
        assert_eq!((&spec["insecureSkipTLSVerification"], &spec["proxyURL"]), (&json!(true), &json!("http://proxy")));
    }

    #[test]
    fn secrets_of_the_plane() {
        let tokens = Tokens { controller: "c".into(), impersonator: "i".into(), ca_bundle: "ca".into() };
        let [impersonator, controller] = secrets(&options(), &tokens);
        assert_eq!(
            (&impersonator["metadata"]["name"], &impersonator["data"]),
            (&json!("m1-impersonator"), &json!({"token": "aQ=="}))
        );
        assert_eq!(
            (&controller["metadata"]["name"], &controller["data"]),
            (&json!("m1"), &json!({"token": "Yw==", "caBundle": "Y2E="}))
        );
        let mut owner = Cluster::default();
        owner.metadata.uid = Some("u".into());
        let [_, owned] = owned_secrets(&options(), &owner);
        assert_eq!(owned["metadata"]["ownerReferences"][0]["uid"], json!("u"));
        assert_eq!(owned.get("data"), None, "the data is not written again");
    }
}
