//! The omission rule of api.md 0: optional scalars are left out of JSON when zero, empty or false.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Whether a plain optional field is left out.
pub(crate) fn zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Keeps an explicit `null` of a field of any JSON type apart from an absent field.
pub(crate) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
