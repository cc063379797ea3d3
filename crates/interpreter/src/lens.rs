//! Reads parts of JSON objects of known kinds, without types for whole objects.

pub(crate) use ironclad_patch::text_at as text;
use serde_json::{Map, Value};

/// Object whose shape does not fit its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {path} must be {want}")]
pub struct ShapeError {
    /// Kind and name of the object.
    pub object: String,
    /// JSON pointer of the field.
    pub path: String,
    /// Expected type of the field.
    pub want: &'static str,
}

pub(crate) fn shape(object: &Value, path: impl Into<String>, want: &'static str) -> ShapeError {
    let (kind, namespace, name) =
        (text(object, "/kind"), text(object, "/metadata/namespace"), text(object, "/metadata/name"));
    let object = if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") };
    ShapeError { object, path: path.into(), want }
}

/// The integer at the pointer.
pub(crate) fn integer(object: &Value, pointer: &str) -> Result<Option<i64>, ShapeError> {
    match object.pointer(pointer) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| shape(object, pointer, "a whole number")),
    }
}

/// The list at the pointer, empty if absent.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> Result<&'a [Value], ShapeError> {
    match object.pointer(pointer) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(shape(object, pointer, "a list")),
    }
}

/// The list at the pointer, empty if absent or of another type: a member's status is not ours to validate.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value of a metadata annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// The value of a metadata label.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// The object under a chain of keys, created if missing; `None` if a value of another type is in the way.
pub(crate) fn object_at<'a>(value: &'a mut Value, keys: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut map = value.as_object_mut()?;
    for key in keys {
        let next = map.entry(*key).or_insert_with(|| Value::Object(Map::new()));
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        map = next.as_object_mut()?;
    }
    Some(map)
}

/// The status of the condition of this type, empty if absent.
pub(crate) fn condition<'a>(status: &'a Value, type_: &str) -> &'a str {
    items(status, "/conditions").iter().find(|c| text(c, "/type") == type_).map_or("", |c| text(c, "/status"))
}
