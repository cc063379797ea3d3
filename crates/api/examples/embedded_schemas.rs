//! Extracts `crates/api/data/embedded-schemas.json` from OpenAPI v3 documents of a kube-apiserver.
//!
//! Start one, save `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION` of `autoscaling/v2`,
//! `networking.k8s.io/v1` and `admissionregistration.k8s.io/v1` to files, and:
//!
//!     cargo run -p ironclad-api --example embedded_schemas -- FILE... > crates/api/data/embedded-schemas.json

use std::{collections::BTreeMap, env, fs};

use serde_json::{Map, Value};

/// Prefix of references in the published schemas.
const PREFIX: &str = "#/components/schemas/";
const ROOTS: [&str; 16] = [
    "io.k8s.api.admissionregistration.v1.WebhookClientConfig",
    "io.k8s.api.autoscaling.v2.CrossVersionObjectReference",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus",
    "io.k8s.api.autoscaling.v2.MetricSpec",
    "io.k8s.api.core.v1.NodeSelector",
    "io.k8s.api.core.v1.NodeSelectorRequirement",
    "io.k8s.api.core.v1.ServiceStatus",
    "io.k8s.api.core.v1.SessionAffinityConfig",
    "io.k8s.api.core.v1.Taint",
    "io.k8s.api.core.v1.Toleration",
    "io.k8s.api.networking.v1.IngressLoadBalancerStatus",
    "io.k8s.api.networking.v1.IngressSpec",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut published = Map::new();
    for file in env::args().skip(1) {
        let mut document: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
        let schemas = document["components"]["schemas"].take();
        published.extend(schemas.as_object().cloned().ok_or_else(|| format!("{file} has no components.schemas"))?);
    }
    if let Some(missing) = ROOTS.iter().find(|root| !published.contains_key(**root)) {
        return Err(format!("no file defines {missing}").into());
    }
    let pruned = prune(&published, &ROOTS);
    println!("{}", serde_json::to_string_pretty(&pruned)?);
    Ok(())
}

/// Reduces an OpenAPI document of a kube-apiserver to these types and their references, in the form of
/// `data/embedded-schemas.json`. Removes descriptions, keywords that a structural schema must not have, defaults that
/// are zero values, and enums: Karmada's schemas lack those (the effect of a Cluster's taint is not one of
/// Kubernetes').
fn prune(published: &Map<String, Value>, roots: &[&str]) -> BTreeMap<String, Value> {
    let mut pruned = BTreeMap::new();
    let mut wanted: Vec<String> = roots.iter().map(|root| (*root).to_owned()).collect();
    while let Some(name) = wanted.pop() {
        let Some(schema) = published.get(&name).filter(|_| !pruned.contains_key(&name)) else { continue };
        pruned.insert(name, prune_schema(schema, &mut wanted));
    }
    pruned
}

fn prune_schema(schema: &Value, refers_to: &mut Vec<String>) -> Value {
    let Some(schema) = schema.as_object() else { return schema.clone() };
    let mut pruned = Map::new();
    for (keyword, value) in schema {
        match keyword.as_str() {
            "description" | "enum" | "x-kubernetes-group-version-kind" | "x-kubernetes-unions" => {}
            keyword if keyword.starts_with("x-kubernetes-patch-") => {}
            "default" if is_zero(value) => {}
            "$ref" => {
                let name = value.as_str().and_then(|reference| reference.strip_prefix(PREFIX));
                refers_to.extend(name.map(str::to_owned));
                pruned.insert(keyword.clone(), value.clone());
            }
            // The published schemas wrap each reference, to add a default.
            "allOf" => {
                for part in value.as_array().into_iter().flatten() {
                    if let Value::Object(part) = prune_schema(part, refers_to) {
                        pruned.extend(part);
                    }
                }
            }
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties = properties.map(|(name, property)| (name.clone(), prune_schema(property, refers_to)));
                pruned.insert(keyword.clone(), Value::Object(properties.collect()));
            }
            "items" | "additionalProperties" => {
                pruned.insert(keyword.clone(), prune_schema(value, refers_to));
            }
            _ => {
                pruned.insert(keyword.clone(), value.clone());
            }
        }
    }
    Value::Object(pruned)
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) => false,
    }
}
