//! Setting what is absent.

use serde_json::{Map, Value, json};

/// The map at this key, made when it isn't one.
pub(crate) fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = json!({});
    }
    let slot = object.as_object_mut().expect("made an object above").entry(key).or_insert(Value::Null);
    if slot.is_null() {
        *slot = json!({});
    }
    slot
}

/// Sets a key that is absent or null.
pub(crate) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if object.is_null() {
        *object = json!({});
    }
    if let Some(map) = object.as_object_mut() {
        set_in(map, key, value);
    }
}

pub(crate) fn set_in(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    let slot = map.entry(key).or_insert(Value::Null);
    if slot.is_null() || slot.as_str() == Some("") {
        *slot = value.into();
    }
}

/// The elements of a list at this key.
pub(crate) fn each<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}
