//! Schemas of the Kubernetes types that our kinds embed, as a kube-apiserver publishes them.
//!
//! `data/embedded-schemas.json` is an extract of its OpenAPI, made by `cargo run -p ironclad-api --example
//! embedded_schemas`. Limits that are only in the markers of Kubernetes' sources, not in the OpenAPI, are added here.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Value, json};

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
            serde_json::from_str(include_str!("../../../data/embedded-schemas.json")).expect("the extract is JSON");
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
