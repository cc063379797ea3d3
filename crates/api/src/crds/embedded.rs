//! Schemas of the Kubernetes types that our kinds embed, as a kube-apiserver publishes them.
//!
//! `data/embedded-schemas.json` is an extract of its OpenAPI, made by `cargo run -p ironclad-api --example
//! embedded_schemas`. Limits that are only in the markers of Kubernetes' sources, not in the OpenAPI, are added here.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value, json};

/// Prefix of references in the published schemas.
pub(super) const PREFIX: &str = "#/components/schemas/";

const CONDITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Condition";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
/// Pattern of a quantity (specification/api.md 0).
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The schema of a Kubernetes type by its OpenAPI name, with references to others like it.
pub(super) fn schema(name: &str) -> Option<&'static Value> {
    static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
        let mut schemas: BTreeMap<String, Value> =
            serde_json::from_str(include_str!("../../data/embedded-schemas.json")).expect("the extract is JSON");
        if let Some(condition) = schemas.get_mut(CONDITION) {
            limit_condition(condition);
        }
        schemas.insert(QUANTITY.to_owned(), quantity());
        schemas
    });
    SCHEMAS.get(name)
}

/// int-or-string in the short form of specification/api.md 0.
fn quantity() -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": QUANTITY_PATTERN,
        "x-kubernetes-int-or-string": true,
    })
}

/// Limits of a condition (specification/api.md 1).
fn limit_condition(condition: &mut Value) {
    let limits = json!({
        "type": {
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": { "enum": ["True", "False", "Unknown"] },
        "observedGeneration": { "minimum": 0 },
        "reason": { "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$" },
        "message": { "maxLength": 32768 },
    });
    for (field, limits) in limits.as_object().into_iter().flatten() {
        if let (Some(property), Value::Object(limits)) = (condition["properties"][field].as_object_mut(), limits) {
            property.extend(limits.clone());
        }
    }
}

/// Reduces an OpenAPI document of a kube-apiserver to these types and their references, in the form of
/// `data/embedded-schemas.json`. Removes descriptions, keywords that a structural schema must not have, defaults that
/// are zero values, and enums: Karmada's schemas lack those (the effect of a Cluster's taint is not one of
/// Kubernetes').
pub fn prune(published: &Map<String, Value>, roots: &[&str]) -> BTreeMap<String, Value> {
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
