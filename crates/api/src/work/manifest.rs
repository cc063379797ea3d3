//! One object of a Work, as caches hold it.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::JsonText;

/// Object for a member. Cheap to clone. Two manifests are equal if their values are, whatever the order of their
/// fields.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest(JsonText);

/// Names of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Named {
    /// `apiVersion` as written, empty if absent.
    pub api_version: String,
    /// `kind`, empty if absent.
    pub kind: String,
    /// Its name and namespace.
    pub metadata: NamedMetadata,
}

/// Name and namespace of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NamedMetadata {
    /// Empty if absent.
    pub namespace: String,
    /// Empty if absent.
    pub name: String,
}

impl Manifest {
    /// The object as JSON text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Parses the object. Keep the result if it is needed twice.
    pub fn object(&self) -> Value {
        self.0.value()
    }

    /// Names of the object; empty where absent or not a string.
    pub fn named(&self) -> Named {
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }
}

impl From<&Value> for Manifest {
    fn from(object: &Value) -> Self {
        Self(object.into())
    }
}

impl From<Value> for Manifest {
    fn from(object: Value) -> Self {
        Self::from(&object)
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn web() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"replicas": 2, "ratio": 0.5, "big": u64::MAX, "off": null, "list": [1, "é\n\"", true, {}]},
        })
    }

    #[test]
    fn manifest_round_trips_through_every_constructor() {
        let text = web().to_string();
        let ways: [Manifest; 3] =
            [web().into(), serde_json::from_value(web()).unwrap(), serde_json::from_str(&text).unwrap()];
        for manifest in ways {
            assert_eq!(manifest.object(), web());
            assert_eq!(serde_json::to_value(&manifest).unwrap(), web());
            assert_eq!(serde_json::to_string(&manifest).unwrap(), text);
        }
    }

    #[test]
    fn manifests_are_equal_in_any_order_of_fields() {
        let of = |text: &str| serde_json::from_str::<Manifest>(text).unwrap();
        assert_eq!(of(r#"{"a": 1, "b": {"c": 2, "d": 3}}"#), of(r#"{"b":{"d":3,"c":2},"a":1}"#));
        assert_ne!(of(r#"{"a": 1}"#), of(r#"{"a": 2}"#));
        assert_ne!(of(r#"{"a": 1}"#), of(r#"{"a": 1, "b": null}"#));
    }

    #[test]
    fn name_and_kind_are_optional() {
        let named = Manifest::from(web()).named();
        assert_eq!((&*named.api_version, &*named.kind), ("apps/v1", "Deployment"));
        assert_eq!((&*named.metadata.namespace, &*named.metadata.name), ("shop", "web"));
        for nothing in [json!({}), json!({"metadata": null}), json!({"kind": 1}), json!(null), json!([1])] {
            assert_eq!(Manifest::from(nothing).named(), Named::default());
        }
    }

    #[test]
    fn invalid_json_is_rejected() {
        assert!(serde_json::from_str::<Manifest>(r#"{"a": }"#).is_err());
    }
}
