//! `x-kubernetes-list-type`: members of sets and keys of maps occur once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use crate::error::FieldError;

/// Returns an error for each value that occurs more than once, at its second index.
pub(super) fn validate(root: &Node, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, object, "", &mut errors);
    errors
}

fn walk(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if let Some(below) = node.properties.get(name) {
                    let dot = if path.is_empty() { "" } else { "." };
                    walk(below, value, &format!("{path}{dot}{name}"), errors);
                } else if let Some(Additional::Of(below)) = &node.additional {
                    walk(below, value, &format!("{path}[{name}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            match node.list_type.as_deref() {
                Some("set") => {
                    for i in repeated(items.iter().map(ToString::to_string)) {
                        errors.push(FieldError::duplicate(format!("{path}[{i}]"), &items[i]));
                    }
                }
                Some("map") => map(node, items, path, errors),
                _ => {}
            }
            if let Some(below) = &node.items {
                for (i, item) in items.iter().enumerate() {
                    walk(below, item, &format!("{path}[{i}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn map(node: &Node, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    if let Some(i) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{i}]"), &items[i], detail));
        return;
    }
    let keys: Vec<Value> = items
        .iter()
        .map(|item| {
            let given = node.list_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
            Value::Object(given.collect::<Map<_, _>>())
        })
        .collect();
    for i in repeated(keys.iter().map(ToString::to_string)) {
        errors.push(FieldError::duplicate(format!("{path}[{i}]"), &keys[i]));
    }
}

/// Returns the index of the second occurrence of each repeated value.
fn repeated(values: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (i, value) in values.enumerate() {
        let times = seen.entry(value).or_insert(0);
        *times += 1;
        if *times == 2 {
            found.push(i);
        }
    }
    found
}
