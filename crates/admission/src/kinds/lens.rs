//! Reads and edits of JSON objects that keep fields unknown to our types.

pub(crate) use ironclad_patch::text_at as text;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{Denial, request::decode};

/// The value at a pointer, null when absent.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

/// The list at a pointer, empty when absent.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).as_array().map_or(&[], Vec::as_slice)
}

/// A label's value, empty when absent.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    at(object, "/metadata/labels").get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn set_label(object: &mut Value, key: &str, value: &str) {
    if let Some(labels) = map(object, &["metadata", "labels"]) {
        labels.insert(key.to_owned(), json!(value));
    }
}

/// Adds a finalizer if it is not there.
pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let Some(metadata) = map(object, &["metadata"]) else { return };
    let list = metadata.entry("finalizers").or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|known| known == finalizer)
    {
        list.push(json!(finalizer));
    }
}

/// The map at this path, made if absent or null.
fn map<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut at = object.as_object_mut()?;
    for step in path {
        let next = at.entry(*step).or_insert(Value::Null);
        if next.is_null() {
            *next = json!({});
        }
        at = next.as_object_mut()?;
    }
    Some(at)
}

/// Edits a part of an object as its type. Only the differences are written back, so that fields unknown to the type
/// remain.
pub(crate) fn edit<T: DeserializeOwned + Serialize>(
    part: &mut Value,
    change: impl FnOnce(&mut T),
) -> Result<(), Denial> {
    let mut typed: T = decode(part)?;
    let before = serde_json::to_value(&typed).unwrap_or_default();
    change(&mut typed);
    let after = serde_json::to_value(&typed).unwrap_or_default();
    carry(&before, &after, part);
    Ok(())
}

/// Applies to `into` the change from `before` to `after`. A list whose length changed is replaced.
fn carry(before: &Value, after: &Value, into: &mut Value) {
    if before == after {
        return;
    }
    match (before, after, &mut *into) {
        (Value::Object(old), Value::Object(new), Value::Object(target)) => {
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                target.remove(key);
            }
            for (key, value) in new {
                let old = old.get(key).unwrap_or(&Value::Null);
                match target.get_mut(key) {
                    Some(into) => carry(old, value, into),
                    None if old != value => {
                        target.insert(key.clone(), value.clone());
                    }
                    None => {}
                }
            }
        }
        (Value::Array(old), Value::Array(new), Value::Array(target))
            if old.len() == new.len() && new.len() == target.len() =>
        {
            for ((old, new), into) in old.iter().zip(new).zip(target) {
                carry(old, new, into);
            }
        }
        _ => *into = after.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn an_edit_keeps_what_the_type_does_not_know() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Known {
            #[serde(default)]
            a: Option<i32>,
            list: Vec<BTreeMap<String, i32>>,
        }
        let mut part = json!({"unknown": {"x": 1}, "list": [{"b": 1}, {}]});
        edit::<Known>(&mut part, |known| {
            known.a = Some(2);
            known.list[1].insert("c".into(), 3);
        })
        .unwrap();
        assert_eq!(part, json!({"unknown": {"x": 1}, "a": 2, "list": [{"b": 1}, {"c": 3}]}));
    }

    #[test]
    fn labels_and_finalizers_are_added_once() {
        let mut object = json!({"metadata": {"labels": null}});
        set_label(&mut object, "a", "1");
        add_finalizer(&mut object, "f");
        add_finalizer(&mut object, "f");
        assert_eq!(object, json!({"metadata": {"labels": {"a": "1"}, "finalizers": ["f"]}}));
        assert_eq!((label(&object, "a"), label(&object, "b")), ("1", ""));
    }
}
