//! Manifests that a join writes and a dry run shows (specification/operations.md 10.1, 10.2).

use anyhow::Context as _;
use ironclad_api::{
    annotations::{CREDENTIALS_OF, JOINED_BY},
    labels::{SYSTEM, TRUE},
    names::{IMPERSONATOR, impersonation_secret, member_cluster_role, member_service_account},
    namespaces::{SECRET_CA_BUNDLE, SECRET_TOKEN},
};
use k8s_openapi::ByteString;
use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::{Value, json};

use super::{
    Credential, JoinOptions,
    credentials::{TOKEN_SECRET, Tokens},
};
use crate::report::Misused;

/// Permissions of the control plane, or of an agent, in the member.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Rbac {
    /// Everything.
    #[default]
    Full,
    /// The rules of a ClusterRole.
    Rules(Value),
}

impl Rbac {
    /// The value of a flag `--rbac`: `full`, or a file with a ClusterRole.
    ///
    /// # Errors
    /// If the file can't be read, is no YAML, or has no rules.
    pub async fn read(flag: &str) -> anyhow::Result<Self> {
        if flag == "full" {
            return Ok(Self::Full);
        }
        let text = tokio::fs::read_to_string(flag).await.with_context(|| format!("--rbac {flag} can't be read"))?;
        let role: Value = serde_saphyr::from_str(&text).with_context(|| format!("--rbac {flag} is no YAML"))?;
        let rules = role.get("rules").filter(|rules| rules.is_array()).cloned();
        let remedy = "a ClusterRole, with its rules as a list under `rules`";
        Ok(Self::Rules(rules.ok_or_else(|| Misused(format!("--rbac {flag} has no rules\n  try: {remedy}")))?))
    }

    /// The rules of the ClusterRole.
    #[must_use]
    pub fn rules(&self) -> Value {
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

/// The objects of a join of the member with identity `id` to the control plane with identity `plane`.
#[must_use]
pub fn objects(options: &JoinOptions, id: &str, plane: &str) -> Objects {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": options.namespace, "labels": { SYSTEM: TRUE } },
    });
    let joined_by = |mut object: Value| {
        object["metadata"]["annotations"][JOINED_BY] = json!(plane);
        object
    };
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
    let member = member.into_iter().map(joined_by).collect();
    Objects { member, plane_namespace: namespace, cluster: cluster(options, id) }
}

fn service_account(options: &JoinOptions, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": options.namespace, "labels": { SYSTEM: TRUE } },
    })
}

/// A Secret that the member's token controller fills with a token that does not expire.
fn token_secret(options: &JoinOptions, account: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": TOKEN_SECRET,
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
    let mut metadata = json!({ "name": options.cluster });
    if !options.labels.is_empty() {
        metadata["labels"] = json!(options.labels);
    }
    json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec })
}

/// Writes what the address does not have any more into the merge with a Cluster that is there: a certificate that is
/// not verified, and a proxy.
pub(super) fn reset_address(cluster: &mut Value, present: &DynamicObject) {
    for field in ["insecureSkipTLSVerification", "proxyURL"] {
        let spec = &mut cluster["spec"];
        if spec.get(field).is_none() && present.data.pointer(&format!("/spec/{field}")).is_some() {
            spec[field] = Value::Null;
        }
    }
}

/// The two Secrets of the control plane, with the tokens if they are known.
pub(super) fn secrets(options: &JoinOptions, tokens: Option<&Tokens>) -> [Value; 2] {
    let bytes = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    let secret = |name: &str, data: Option<Value>| {
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": name, "namespace": options.namespace, "labels": { SYSTEM: TRUE },
                "annotations": { CREDENTIALS_OF: options.cluster },
            },
        });
        if let Some(data) = data {
            secret["data"] = data;
        }
        secret
    };
    let impersonator = tokens.map(|tokens| json!({ SECRET_TOKEN: bytes(&tokens.impersonator) }));
    let own = tokens
        .map(|tokens| json!({ SECRET_CA_BUNDLE: bytes(&tokens.ca_bundle), SECRET_TOKEN: bytes(&tokens.controller) }));
    [secret(&impersonation_secret(&options.cluster), impersonator), secret(&options.cluster, own)]
}

/// A Secret as the Cluster's own, so that it is deleted with it.
pub(super) fn owned(mut secret: Value, cluster: &DynamicObject) -> Value {
    secret["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "name": cluster.name_any(), "uid": cluster.uid().unwrap_or_default(),
        "controller": true, "blockOwnerDeletion": true,
    }]);
    secret
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
        let objects = objects(&options(), "uid-1", "plane");
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
        assert!(objects.member.iter().all(|o| o["metadata"]["annotations"][JOINED_BY] == json!("plane")));
        let with_tokens = JoinOptions { credential: Credential::Token { seconds: 3_600 }, ..options() };
        assert_eq!(
            super::objects(&with_tokens, "uid-1", "plane").member.len(),
            5,
            "requested tokens need no Secret in the member"
        );
    }

    #[test]
    fn cluster_has_only_the_given_fields() {
        let plain = objects(&options(), "uid-1", "plane").cluster["spec"].clone();
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
        let spec = objects(&given, "uid-1", "plane").cluster["spec"].clone();
        assert_eq!((&spec["provider"], &spec["region"], &spec["zones"]), (&json!("p"), &json!("r"), &json!(["z"])));
        assert_eq!((&spec["insecureSkipTLSVerification"], &spec["proxyURL"]), (&json!(true), &json!("http://proxy")));
    }

    #[test]
    fn secrets_of_the_plane() {
        let tokens = Tokens { controller: "c".into(), impersonator: "i".into(), ca_bundle: "ca".into(), expires: None };
        let [impersonator, controller] = secrets(&options(), Some(&tokens));
        assert_eq!(
            (&impersonator["metadata"]["name"], &impersonator["data"]),
            (&json!("m1-impersonator"), &json!({"token": "aQ=="}))
        );
        assert_eq!(
            (&controller["metadata"]["name"], &controller["data"]),
            (&json!("m1"), &json!({"token": "Yw==", "caBundle": "Y2E="}))
        );
        let cluster = serde_json::from_value(json!({"metadata": {"name": "m1", "uid": "u"}})).unwrap();
        let owned = owned(controller, &cluster);
        assert_eq!(owned["metadata"]["ownerReferences"][0]["uid"], json!("u"));
    }

    #[test]
    fn merge_removes_insecure_tls_settings() {
        let present =
            |spec: Value| -> DynamicObject { serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap() };
        let insecure = json!({"insecureSkipTLSVerification": true, "proxyURL": "http://old"});
        let mut cluster = objects(&options(), "uid-1", "plane").cluster;
        reset_address(&mut cluster, &present(json!({})));
        assert_eq!(cluster["spec"].get("proxyURL"), None);
        reset_address(&mut cluster, &present(insecure.clone()));
        assert_eq!(
            (&cluster["spec"]["insecureSkipTLSVerification"], &cluster["spec"]["proxyURL"]),
            (&Value::Null, &Value::Null)
        );
        let mut given = options();
        given.address.proxy = "http://new".into();
        let mut cluster = objects(&given, "uid-1", "plane").cluster;
        reset_address(&mut cluster, &present(insecure));
        assert_eq!(cluster["spec"]["proxyURL"], json!("http://new"));
    }
}
