//! Kinds that the tenant writes, and objects that are there before.

use std::collections::BTreeSet;

use anyhow::Context as _;
use ironclad_api::crds::crds;
use serde_json::{Value, json};

use super::{
    CANARY_TEXT, OWN, OWN_NAME, TENANT, VICTIM,
    schema::{Field, fields, harmless},
};

/// Names of labels and annotations are read from the constants.
const NAMES: [&str; 2] = [include_str!("../../../api/src/labels.rs"), include_str!("../../../api/src/annotations.rs")];

/// A namespaced kind.
pub(super) struct Kind {
    pub(super) name: String,
    /// Of the collection in the tenant's namespace.
    pub(super) path: String,
    pub(super) schema: Value,
    /// A valid object that controllers act on, without a name.
    pub(super) base: Value,
    /// Labels and annotations of controllers mean something on it.
    pub(super) takes_marks: bool,
}

/// All namespaced kinds of ours, in every served version.
pub(super) fn our_kinds() -> anyhow::Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    for crd in crds().iter().filter(|crd| crd.spec.scope == "Namespaced") {
        for version in crd.spec.versions.iter().filter(|version| version.served) {
            let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
            let mut schema = serde_json::to_value(schema.context("a version has a schema")?)?;
            let properties = schema["properties"].as_object_mut().context("it has properties")?;
            properties.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&&**name));
            let (group, kind) = (&crd.spec.group, &crd.spec.names.kind);
            let mut base = json!({"apiVersion": format!("{group}/{}", version.name), "kind": kind, "metadata": {}});
            let filled = harmless("", &schema);
            for (name, value) in filled.as_object().into_iter().flatten() {
                base[name.as_str()] = value.clone();
            }
            if let Some(spec) = spec_of(kind) {
                base["spec"] = spec;
            }
            kinds.push(Kind {
                name: format!("{kind}.{}", version.name),
                path: format!("/apis/{group}/{}/namespaces/{OWN}/{}", version.name, crd.spec.names.plural),
                schema,
                base,
                takes_marks: ["PropagationPolicy", "ResourceBinding", "Work"].contains(&kind.as_str()),
            });
        }
    }
    Ok(kinds)
}

/// A spec that is acted on.
fn spec_of(kind: &str) -> Option<Value> {
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "more"});
    let placement = json!({"clusterAffinity": {"clusterNames": ["member1", "member2"]}});
    Some(match kind {
        "PropagationPolicy" => json!({
            "resourceSelectors": [selector], "placement": placement, "conflictResolution": "Overwrite",
            "propagateDeps": true, "priority": 7,
        }),
        "OverridePolicy" => json!({
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "swept"}],
            "overrideRules": [{"overriders": {"plaintext": [{"path": "/data/k", "operator": "add", "value": "v"}]}}],
        }),
        "ResourceBinding" => json!({
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": OWN, "name": OWN_NAME},
            "clusters": [{"name": "member1"}], "conflictResolution": "Overwrite", "propagateDeps": true,
        }),
        "Work" => json!({"workload": {"manifests": [{
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OWN_NAME, "namespace": OWN}, "data": {"k": "w"},
        }]}}),
        "FederatedResourceQuota" => json!({
            "overall": {"cpu": "100", "pods": "100"},
            "staticAssignments": [{"clusterName": "member1", "hard": {"cpu": "10"}}],
        }),
        "FederatedHPA" => json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3,
        }),
        "CronFederatedHPA" => json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "rules": [{"name": "r", "schedule": "*/5 * * * *", "targetReplicas": 2}],
        }),
        "MultiClusterService" => json!({"types": ["CrossCluster"], "ports": [{"name": "p", "port": 80}]}),
        "MultiClusterIngress" => {
            json!({"defaultBackend": {"service": {"name": OWN_NAME, "port": {"number": 80}}}})
        }
        "ServiceImport" => json!({"type": "ClusterSetIP", "ports": [{"port": 80}]}),
        _ => return None,
    })
}

/// Kinds of Kubernetes that a policy of the tenant sends to the members: their marks are of interest.
pub(super) fn template_kinds() -> Vec<Kind> {
    let kind = |api_version: &str, plural: &str, mut base: Value| {
        let root = if api_version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{api_version}") };
        base["apiVersion"] = json!(api_version);
        base["metadata"] = json!({});
        Kind {
            name: base["kind"].as_str().unwrap_or_default().to_owned(),
            path: format!("{root}/namespaces/{OWN}/{plural}"),
            schema: json!({}),
            base,
            takes_marks: true,
        }
    };
    vec![
        kind("v1", "configmaps", json!({"kind": "ConfigMap", "data": {"k": "v"}})),
        kind("apps/v1", "deployments", deployment()),
    ]
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i:1", "envFrom": [{"secretRef": {"name": OWN_NAME}}]}],
                },
            },
        },
    })
}

/// Fields of metadata, with these labels and annotations.
pub(super) fn metadata_fields(names: Option<&[String]>) -> Vec<Field> {
    let text = json!({"type": "string"});
    let marks: serde_json::Map<String, Value> =
        names.unwrap_or_default().iter().map(|name| (name.clone(), text.clone())).collect();
    let schema = json!({"type": "object", "properties": {
        "name": text, "namespace": text, "generateName": text, "uid": text, "resourceVersion": text, "selfLink": text,
        "deletionTimestamp": text, "creationTimestamp": text, "generation": {"type": "integer"},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": {"type": "object", "properties": marks, "additionalProperties": text},
        "annotations": {"type": "object", "properties": marks, "additionalProperties": text},
        "finalizers": {"type": "array", "items": text},
        "ownerReferences": {"type": "array", "items": {
            "type": "object", "required": ["apiVersion", "kind", "name", "uid"],
            "properties": {
                "apiVersion": text, "kind": text, "name": text, "uid": text, "controller": {"type": "boolean"},
                "blockOwnerDeletion": {"type": "boolean"},
            },
        }},
        "managedFields": {"type": "array", "items": {"type": "object", "properties": {
            "manager": text, "operation": text, "apiVersion": text, "fieldsType": text, "fieldsV1": {}, "subresource": text,
            "time": text,
        }}},
    }});
    fields(&schema, "metadata")
}

/// Names of labels and annotations that controllers read.
pub(super) fn known_names() -> Vec<String> {
    let quoted = NAMES.iter().flat_map(|source| source.split('"').skip(1).step_by(2));
    let names: BTreeSet<String> = quoted.filter(|name| name.contains("karmada.io/")).map(str::to_owned).collect();
    names.into_iter().collect()
}

/// Namespaces and rights.
pub(super) fn around() -> Vec<(String, Value)> {
    let namespace = |name: &str| ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": name}}));
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}");
    vec![
        namespace(OWN),
        namespace(VICTIM),
        namespace("kube-system"),
        namespace("karmada-cluster"),
        (
            format!("{rbac}/roles"),
            json!({"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        ),
        (
            format!("{rbac}/rolebindings"),
            json!({
                "metadata": {"name": "all"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TENANT}],
            }),
        ),
    ]
}

/// Objects in a member that nobody propagated.
pub(super) fn in_member() -> Vec<(String, Value)> {
    let map = json!({"metadata": {"name": OWN_NAME}, "data": {"k": CANARY_TEXT}});
    vec![
        ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": "kube-system"}})),
        ("/api/v1/namespaces/kube-system/configmaps".to_owned(), map),
    ]
}

fn policy(name: &str, selectors: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name},
        "spec": {
            "resourceSelectors": selectors, "placement": {"clusterAffinity": {"clusterNames": ["member1", "member2"]}},
            "propagateDeps": true,
        },
    })
}

/// Objects of somebody else, with the names of the tenant's; they are propagated.
pub(super) fn of_others() -> Vec<(String, Value)> {
    let core = |namespace: &str, plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let map = json!({"metadata": {"name": OWN_NAME, "annotations": {"a": CANARY_TEXT}}, "data": {"k": CANARY_TEXT}});
    let secret = json!({"metadata": {"name": OWN_NAME}, "stringData": {"token": CANARY_TEXT}});
    let policies = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{VICTIM}");
    let mut web = deployment();
    web["metadata"]["annotations"] = json!({"a": CANARY_TEXT});
    vec![
        (core(VICTIM, "configmaps"), map.clone()),
        (core(VICTIM, "secrets"), secret.clone()),
        (core("kube-system", "configmaps"), map),
        (core("karmada-cluster", "secrets"), secret),
        (format!("/apis/apps/v1/namespaces/{VICTIM}/deployments"), web),
        (
            format!("{policies}/propagationpolicies"),
            policy(
                "theirs",
                json!([
                    {"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "apps/v1", "kind": "Deployment"},
                ]),
            ),
        ),
        (
            format!("{policies}/overridepolicies"),
            json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": "theirs"},
                "spec": {"overrideRules": [{"overriders": {
                    "annotationsOverrider": [{"operator": "add", "value": {"b": CANARY_TEXT}}],
                }}]},
            }),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
            json!({"metadata": {"name": "victim", "annotations": {"a": CANARY_TEXT}}, "rules": []}),
        ),
        (
            "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies".to_owned(),
            json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
                "metadata": {"name": "theirs"},
                "spec": {
                    "resourceSelectors": [{
                        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "victim",
                    }],
                    "placement": {"clusterAffinity": {"clusterNames": ["member1"]}},
                },
            }),
        ),
    ]
}

/// Objects of the tenant that stay: templates, and a policy that sends them out.
pub(super) fn of_tenant() -> Vec<(String, Value)> {
    let maps = format!("/api/v1/namespaces/{OWN}/configmaps");
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"k": "v"}});
    vec![
        (maps.clone(), map(OWN_NAME)),
        (maps.clone(), map("more")),
        (maps, map("swept")),
        (
            format!("/api/v1/namespaces/{OWN}/secrets"),
            json!({"metadata": {"name": OWN_NAME}, "stringData": {"token": "own"}}),
        ),
        (format!("/apis/apps/v1/namespaces/{OWN}/deployments"), deployment()),
        (
            format!("/apis/policy.karmada.io/v1alpha1/namespaces/{OWN}/propagationpolicies"),
            policy(
                "everything",
                json!([
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": "swept"},
                    {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchExpressions": [
                        {"key": "never", "operator": "DoesNotExist"},
                    ]}},
                    {"apiVersion": "apps/v1", "kind": "Deployment"},
                ]),
            ),
        ),
    ]
}
