//! Reads of JSON values by pointer (RFC 6901).

use serde_json::Value;

/// The string at a JSON pointer; empty if it is absent or of another type.
pub fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
