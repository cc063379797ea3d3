//! Objects that an object refers to and that are propagated along with it (specification/propagation.md 8.3).

use std::collections::BTreeMap;

use ironclad_api::{annotations::IMPORTED_SERVICE_NAME, names, selector};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    kind::Kind,
    lens::{self, ShapeError},
    pod,
};

/// One reference, as in the annotation `resourcebinding.karmada.io/dependencies`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dependency {
    /// Group and version of the referenced objects.
    pub api_version: String,
    pub kind: String,
    /// Its namespace, empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name; empty if `label_selector` selects the objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Selects objects if there is no name: a `metav1.LabelSelector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<Value>,
}

impl Dependency {
    pub(crate) fn named(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            label_selector: None,
        }
    }

    /// References that a script or a webhook returned, sorted and without duplicates. One invalid reference
    /// invalidates all.
    ///
    /// # Errors
    /// If one has no apiVersion or kind, or neither a name nor a valid selector.
    pub fn validated(list: Vec<Value>) -> Result<Vec<Self>, String> {
        let mut found = Vec::with_capacity(list.len());
        for (i, value) in list.into_iter().enumerate() {
            let one: Self = serde_json::from_value(value).map_err(|error| format!("dependency {}: {error}", i + 1))?;
            let missing = |field: &str| Err(format!("dependency {} has no {field}", i + 1));
            if one.api_version.is_empty() {
                return missing("apiVersion");
            }
            if one.kind.is_empty() {
                return missing("kind");
            }
            match (&one.label_selector, one.name.is_empty()) {
                (None, true) => return missing("name and no labelSelector"),
                (Some(selector), true) => serde_json::from_value(selector.clone())
                    .map_err(|error| error.to_string())
                    .and_then(|s| selector::matches(&s, &BTreeMap::new()).map_err(|error| error.to_string()))
                    .map(drop)
                    .map_err(|error| format!("dependency {}: {error}", i + 1))?,
                _ => {}
            }
            found.push(one);
        }
        Self::sort(&mut found);
        Ok(found)
    }

    /// Sorts by apiVersion, kind, namespace, name, then selector; removes duplicates (specification/propagation.md 31,
    /// row 16).
    pub fn sort(list: &mut Vec<Self>) {
        list.sort_by_cached_key(|d| {
            (
                d.api_version.clone(),
                d.kind.clone(),
                d.namespace.clone(),
                d.name.clone(),
                d.label_selector.as_ref().map(Value::to_string),
            )
        });
        list.dedup();
    }
}

pub(crate) fn dependencies(kind: Kind, template: &Value) -> Result<Vec<Dependency>, ShapeError> {
    let namespace = lens::text(template, "/metadata/namespace");
    let name = lens::text(template, "/metadata/name");
    let mut found = match kind {
        Kind::Pod => pod::references(template, "/spec", namespace)?,
        Kind::CronJob => pod::references(template, "/spec/jobTemplate/spec/template/spec", namespace)?,
        Kind::StatefulSet => {
            let mut found = pod::references(template, "/spec/template/spec", namespace)?;
            let claims: Vec<&str> = lens::list(template, "/spec/volumeClaimTemplates")?
                .iter()
                .map(|claim| lens::text(claim, "/metadata/name"))
                .collect();
            found.retain(|d| d.kind != "PersistentVolumeClaim" || !claims.contains(&d.name.as_str()));
            found
        }
        Kind::Ingress => lens::list(template, "/spec/tls")?
            .iter()
            .map(|tls| lens::text(tls, "/secretName"))
            .filter(|secret| !secret.is_empty())
            .map(|secret| Dependency::named("v1", "Secret", namespace, secret))
            .collect(),
        Kind::ServiceImport => {
            // The import may choose the name of its Service (specification/mcs.md 4).
            let chosen =
                template.pointer("/metadata/annotations").and_then(|map| map.get(IMPORTED_SERVICE_NAME)?.as_str());
            let chosen = chosen.filter(|chosen| !chosen.is_empty()).map(str::to_owned);
            let derived = chosen.unwrap_or_else(|| names::derived_service(name));
            let mut slices = Dependency::named("discovery.k8s.io/v1", "EndpointSlice", namespace, "");
            slices.label_selector = Some(json!({"matchLabels": {"kubernetes.io/service-name": derived}}));
            vec![Dependency::named("v1", "Service", namespace, &derived), slices]
        }
        _ => pod::references(template, "/spec/template/spec", namespace)?,
    };
    Dependency::sort(&mut found);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_scripts_are_validated() {
        for (list, want) in [
            (
                json!([{"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "b"},
                    {"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "a"},
                    {"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "b"}]),
                Ok(2),
            ),
            (json!([{"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchLabels": {"a": "b"}}}]), Ok(1)),
            (json!([{"kind": "Secret", "name": "a"}]), Err("dependency 1: missing field `apiVersion`")),
            (json!([{"apiVersion": "v1", "kind": "", "name": "a"}]), Err("dependency 1 has no kind")),
            (json!([{"apiVersion": "v1", "kind": "Secret"}]), Err("dependency 1 has no name and no labelSelector")),
            (
                json!([{"apiVersion": "v1", "kind": "Secret", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
                Err("dependency 1: label selector: In of key \"a\" needs at least one value"),
            ),
            (json!(["secret"]), Err("dependency 1: invalid type: string \"secret\", expected struct Dependency")),
        ] {
            let list = list.as_array().unwrap().clone();
            assert_eq!(Dependency::validated(list).map(|list| list.len()), want.map_err(str::to_owned));
        }
    }

    fn of(object: &Value) -> Vec<String> {
        dependencies(Kind::of(object).unwrap(), object)
            .unwrap()
            .into_iter()
            .map(|d| match d.label_selector {
                Some(selector) => format!("{} {} {}?{selector}", d.api_version, d.kind, d.namespace),
                None => format!("{} {} {}/{}", d.api_version, d.kind, d.namespace, d.name),
            })
            .collect()
    }

    fn workload(api_version: &str, kind: &str, spec: Value) -> Value {
        let template = json!({"template": {"spec": spec}});
        let spec = match kind {
            "Pod" => template["template"]["spec"].clone(),
            "CronJob" => json!({"jobTemplate": {"spec": template}}),
            _ => template,
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": "shop", "name": "w"}, "spec": spec})
    }

    #[test]
    fn pod_references() {
        for (name, spec, want) in [
            ("nothing", json!({"containers": [{}]}), vec![]),
            (
                "environment of every sort of container",
                json!({"initContainers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}],
                       "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "b"}}}, {"valueFrom": {"configMapKeyRef": {"name": "c"}}}]}],
                       "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "d"}}]}]}),
                vec!["v1 ConfigMap shop/a", "v1 ConfigMap shop/c", "v1 Secret shop/b", "v1 Secret shop/d"],
            ),
            (
                "volumes",
                json!({"volumes": [
                    {"configMap": {"name": "a"}}, {"secret": {"secretName": "b"}},
                    {"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "d"}}]}},
                    {"persistentVolumeClaim": {"claimName": "e"}}, {"azureFile": {"secretName": "f"}},
                    {"cephfs": {"secretRef": {"name": "g"}}}, {"cinder": {"secretRef": {"name": "h"}}},
                    {"flexVolume": {"secretRef": {"name": "i"}}}, {"rbd": {"secretRef": {"name": "j"}}},
                    {"scaleIO": {"secretRef": {"name": "k"}}}, {"iscsi": {"secretRef": {"name": "l"}}},
                    {"storageos": {"secretRef": {"name": "m"}}}, {"csi": {"nodePublishSecretRef": {"name": "n"}}},
                    {"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "not"}}}}]}),
                vec![
                    "v1 ConfigMap shop/a",
                    "v1 ConfigMap shop/c",
                    "v1 PersistentVolumeClaim shop/e",
                    "v1 Secret shop/b",
                    "v1 Secret shop/d",
                    "v1 Secret shop/f",
                    "v1 Secret shop/g",
                    "v1 Secret shop/h",
                    "v1 Secret shop/i",
                    "v1 Secret shop/j",
                    "v1 Secret shop/k",
                    "v1 Secret shop/l",
                    "v1 Secret shop/m",
                    "v1 Secret shop/n",
                ],
            ),
            (
                "pull secrets and the account, but not the default one",
                json!({"imagePullSecrets": [{"name": "p"}, {"name": "p"}], "serviceAccountName": "default"}),
                vec!["v1 Secret shop/p"],
            ),
            ("a service account", json!({"serviceAccountName": "robot"}), vec!["v1 ServiceAccount shop/robot"]),
        ] {
            for (api_version, kind) in [
                ("apps/v1", "Deployment"),
                ("apps/v1", "ReplicaSet"),
                ("apps/v1", "DaemonSet"),
                ("apps/v1", "StatefulSet"),
                ("batch/v1", "Job"),
                ("batch/v1", "CronJob"),
                ("v1", "Pod"),
            ] {
                assert_eq!(of(&workload(api_version, kind, spec.clone())), want, "{name}, {kind}");
            }
        }
    }

    #[test]
    fn stateful_set_claims_are_not_dependencies() {
        let mut set = workload(
            "apps/v1",
            "StatefulSet",
            json!({"volumes": [
            {"persistentVolumeClaim": {"claimName": "data"}}, {"persistentVolumeClaim": {"claimName": "shared"}}]}),
        );
        set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        assert_eq!(of(&set), ["v1 PersistentVolumeClaim shop/shared"]);
    }

    #[test]
    fn ingress_and_service_import() {
        let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"namespace": "shop", "name": "i"},
            "spec": {"tls": [{"secretName": "b"}, {}, {"secretName": "a"}]}});
        assert_eq!(of(&ingress), ["v1 Secret shop/a", "v1 Secret shop/b"]);
        let import = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": {"namespace": "shop", "name": "s"}});
        assert_eq!(
            of(&import),
            [
                r#"discovery.k8s.io/v1 EndpointSlice shop?{"matchLabels":{"kubernetes.io/service-name":"derived-s"}}"#,
                "v1 Service shop/derived-s",
            ]
        );
    }
}
