//! The omission rule of specification/api.md 0: optional scalars are omitted from JSON when zero, empty or false.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Returns true if a plain optional field is omitted.
pub(crate) fn zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Distinguishes an explicit `null` of a field of any JSON type from an absent field.
pub(crate) fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
