//! Webhook configurations that register our webhooks at a kube-apiserver (specification/admission.md 1.3). All entries
//! come from the one table.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_api::cluster::STORED_GROUP;
use serde_json::{Value, json};

use crate::{
    Config,
    table::{CLUSTER, OWN_FIELD_MANAGERS, Phase, Scope, WEBHOOKS, Webhook},
};

/// Name of the MutatingWebhookConfiguration.
pub const MUTATING: &str = "mutating-config";
/// Name of the ValidatingWebhookConfiguration.
pub const VALIDATING: &str = "validating-config";

/// Address at which a kube-apiserver calls the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// At a URL, `https://host:port` without a path.
    Url(String),
    /// At a Service of its own cluster.
    Service { namespace: String, name: String, port: u16 },
}

impl Endpoint {
    /// The client configuration for a path. `ca` is the PEM bundle of the authorities that signed the server's
    /// certificate.
    #[must_use]
    pub fn client_config(&self, path: &str, ca: &str) -> Value {
        let ca = STANDARD.encode(ca);
        match self {
            Self::Url(base) => json!({"url": format!("{base}{path}"), "caBundle": ca}),
            Self::Service { namespace, name, port } => json!({
                "service": {"namespace": namespace, "name": name, "port": port, "path": path}, "caBundle": ca,
            }),
        }
    }
}

/// The configuration of all webhooks of a phase.
#[must_use]
pub fn configuration(phase: Phase, endpoint: &Endpoint, ca: &str, config: &Config) -> Value {
    let (kind, name) = match phase {
        Phase::Mutating => ("MutatingWebhookConfiguration", MUTATING),
        Phase::Validating => ("ValidatingWebhookConfiguration", VALIDATING),
    };
    let webhooks: Vec<Value> = WEBHOOKS
        .iter()
        .filter(|webhook| webhook.phase() == phase)
        .map(|webhook| entry(webhook, endpoint, ca, config))
        .collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "labels": {"app": "karmada-webhook"}}, "webhooks": webhooks,
    })
}

fn entry(webhook: &Webhook, endpoint: &Endpoint, ca: &str, config: &Config) -> Value {
    let scope = match webhook.scope {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
        Scope::Any => "*",
    };
    let operations: Vec<&str> = webhook.operations.iter().map(|operation| operation.as_str()).collect();
    let groups = if webhook.group == CLUSTER { vec![CLUSTER, STORED_GROUP] } else { vec![webhook.group] };
    let mut entry = json!({
        "name": webhook.name,
        "clientConfig": endpoint.client_config(webhook.path, ca),
        "rules": [{
            "operations": operations, "apiGroups": groups, "apiVersions": [webhook.version],
            "resources": [webhook.resource], "scope": scope,
        }],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "sideEffects": if webhook.has_side_effects { "NoneOnDryRun" } else { "None" },
        "timeoutSeconds": webhook.timeout_seconds,
    });
    if let Some(labelled) = webhook.labelled {
        entry["objectSelector"] = match labelled.value {
            Some(value) => json!({"matchLabels": {labelled.key: value}}),
            None => json!({"matchExpressions": [{"key": labelled.key, "operator": "Exists"}]}),
        };
    }
    let mut conditions = Vec::new();
    if let Some((name, expression)) = webhook.users.condition() {
        conditions.push(json!({"name": name, "expression": expression}));
    }
    if let Some(user) = config.own_user.as_deref().filter(|_| webhook.exempts_own(config)) {
        conditions.push(json!({"name": "not-our-own-writes", "expression": not_ours(user)}));
    }
    if !conditions.is_empty() {
        entry["matchConditions"] = json!(conditions);
    }
    entry
}

/// CEL match condition that is true unless one of our own controllers writes. It checks for absent fields first, since
/// an expression that fails refuses the write.
fn not_ours(user: &str) -> String {
    let user = json!(user);
    format!(
        "!(has(request.userInfo.username) && request.userInfo.username == {user} && has(request.options) && \
         has(request.options.fieldManager) && request.options.fieldManager.startsWith(\"{OWN_FIELD_MANAGERS}\"))"
    )
}

#[cfg(test)]
mod tests {
    use ironclad_fleet::gates::{Gate, Gates};

    use super::*;

    fn own() -> Config {
        Config { own_user: Some("admin".into()), ..Config::default() }
    }

    fn named<'a>(configuration: &'a Value, name: &str) -> &'a Value {
        configuration["webhooks"].as_array().unwrap().iter().find(|w| w["name"] == name).unwrap()
    }

    #[test]
    fn registration_entries() {
        let url = Endpoint::Url("https://10.0.0.1:8443".into());
        let validating = configuration(Phase::Validating, &url, "PEM", &own());
        assert_eq!(validating["metadata"], json!({"name": "validating-config", "labels": {"app": "karmada-webhook"}}));
        assert_eq!(
            named(&validating, "propagationpolicy.karmada.io"),
            &json!({
                "name": "propagationpolicy.karmada.io",
                "clientConfig": {"url": "https://10.0.0.1:8443/validate-propagationpolicy", "caBundle": "UEVN"},
                "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["policy.karmada.io"], "apiVersions": ["*"], "resources": ["propagationpolicies"], "scope": "Namespaced"}],
                "admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": 3,
                "matchConditions": [{"name": "not-our-own-writes", "expression": "!(has(request.userInfo.username) && request.userInfo.username == \"admin\" && has(request.options) && has(request.options.fieldManager) && request.options.fieldManager.startsWith(\"ironclad-\"))"}],
            })
        );
        let protection = named(&validating, "resourcedeletionprotection.karmada.io");
        assert_eq!(protection["objectSelector"]["matchExpressions"][0]["operator"], "Exists");
        assert_eq!(
            (protection.get("matchConditions"), &protection["rules"][0]["scope"]),
            (None, &json!("*")),
            "we are not exempt"
        );
        let binding = |config: &Config| {
            named(&configuration(Phase::Validating, &url, "", config), "resourcebinding.karmada.io").clone()
        };
        assert_eq!(binding(&own())["sideEffects"], "NoneOnDryRun");
        assert!(binding(&own()).get("matchConditions").is_some(), "exempt");
        let enforced = Config { gates: Gates::default().with(Gate::FederatedQuotaEnforcement, true), ..own() };
        assert!(binding(&enforced).get("matchConditions").is_none(), "not while the quota is charged here");
        let service =
            Endpoint::Service { namespace: "karmada-system".into(), name: "ironclad-webhook".into(), port: 443 };
        let mutating = configuration(Phase::Mutating, &service, "", &Config::default());
        let work = named(&mutating, "work.karmada.io");
        assert_eq!(
            work["clientConfig"]["service"],
            json!({"namespace": "karmada-system", "name": "ironclad-webhook", "port": 443, "path": "/mutate-work"})
        );
        assert_eq!(work.get("matchConditions"), None, "without an own user every write is reviewed");
        let secrets = named(&validating, "agentsecret.karmada.io");
        assert_eq!(
            (&secrets["rules"][0]["resources"], &secrets["matchConditions"]),
            (
                &json!(["secrets"]),
                &json!([{"name": "only-agents", "expression": "has(request.userInfo.username) && request.userInfo.username.startsWith(\"system:karmada:agent:\")"}])
            ),
            "not called for writes of others"
        );
        let conditions = |webhook: &Value| webhook["matchConditions"].clone();
        assert_eq!(
            conditions(named(&validating, "agentregistrar.karmada.io")),
            json!([{"name": "only-rbac-generator", "expression": "has(request.userInfo.username) && request.userInfo.username == \"system:karmada:agent:rbac-generator\""}])
        );
        assert_eq!(
            conditions(named(&mutating, "agentrequest.karmada.io")),
            json!([{"name": "only-bootstrap-tokens", "expression": "has(request.userInfo.username) && request.userInfo.username.startsWith(\"system:bootstrap:\")"}])
        );
        let interpreter = named(&validating, "resourceinterpretercustomization.karmada.io");
        assert_eq!(interpreter["timeoutSeconds"], 10);
    }

    #[test]
    fn every_path_of_the_reference_is_registered() {
        let mutating = [
            "cluster", "propagationpolicy", "clusterpropagationpolicy", "overridepolicy", "resourcebinding",
            "clusterresourcebinding", "work", "federatedhpa", "multiclusterservice",
        ];
        let validating = [
            "cluster",
            "propagationpolicy",
            "clusterpropagationpolicy",
            "overridepolicy",
            "clusteroverridepolicy",
            "resourceinterpreterwebhookconfiguration",
            "resourceinterpretercustomization",
            "federatedresourcequota",
            "multiclusteringress",
            "federatedhpa",
            "cronfederatedhpa",
            "multiclusterservice",
            "resourcedeletionprotection",
            "resourcebinding",
            "clustertaintpolicy",
            "priorityclass",
            "horizontalpodautoscaler",
        ];
        let paths: Vec<&str> = WEBHOOKS.iter().map(|webhook| webhook.path).collect();
        for (prefix, names) in [("/mutate-", &mutating[..]), ("/validate-", &validating[..])] {
            for name in names {
                assert!(paths.contains(&format!("{prefix}{name}").as_str()), "{prefix}{name}");
            }
        }
        let of_ours = 1 + 7 + 3 + 1 + 1;
        assert_eq!(
            paths.len(),
            mutating.len() + validating.len() + of_ours,
            "one for namespaces, seven for agents, three for their registration, one for Remedies, one for a kind that is not built"
        );
    }
}
