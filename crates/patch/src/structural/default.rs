//! Defaulting, and removal of nulls.

use serde_json::Value;

use super::node::{Additional, Node};

/// Drops members that are `null` where the schema has neither `nullable` nor a default for them.
pub(super) fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    match value {
        Value::Object(members) => members.retain(|name, value| {
            let below = node.and_then(|node| node.child(name));
            let drop = value.is_null() && below.is_some_and(|node| !node.nullable && node.default.is_none());
            if !drop {
                drop_nulls(value, below);
            }
            !drop
        }),
        Value::Array(items) => {
            let below = node.and_then(|node| node.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(item, below));
        }
        _ => {}
    }
}

/// Sets defaults, also inside defaults.
pub(super) fn default(value: &mut Value, node: &Node) {
    match value {
        Value::Object(members) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else { continue };
                let there = members.get(name).is_some_and(|value| !value.is_null() || property.nullable);
                if !there {
                    members.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in members {
                if let Some(property) = node.properties.get(name) {
                    default(value, property);
                } else if let Some(Additional::Of(values)) = &node.additional {
                    fill(value, values);
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = &node.items {
                items.iter_mut().for_each(|item| fill(item, node));
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, node: &Node) {
    if let (true, false, Some(default)) = (value.is_null(), node.nullable, &node.default) {
        *value = default.clone();
    }
    default(value, node);
}
