//! Removal of fields that a schema does not declare.

use serde_json::Value;

use super::node::{Additional, Node};

const METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes a whole object; returns the removed paths, sorted.
pub(super) fn prune(object: &mut Value, root: &Node) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), dropped: Vec::new() };
    pruner.value(object, Some(root), true, false);
    pruner.dropped.sort();
    pruner.dropped
}

/// Prunes a value that is not a whole object, such as a default.
pub(super) fn prune_inside(value: &mut Value, node: &Node) -> Vec<String> {
    let mut pruner = Pruner { path: String::new(), dropped: Vec::new() };
    pruner.value(value, Some(node), false, false);
    pruner.dropped
}

struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    /// `keep`: unknown members stay here, because this is an item of a list that preserves them.
    fn value(&mut self, value: &mut Value, node: Option<&Node>, is_root: bool, keep: bool) {
        let preserve = keep || node.is_some_and(|node| node.preserve_unknown);
        let length = self.path.len();
        match value {
            Value::Object(members) => members.retain(|name, value| {
                if node.is_some_and(|node| node.embedded || is_root) && METADATA.contains(&name.as_str()) {
                    return true;
                }
                let (known, below) = known(node, name);
                if !known {
                    if !preserve && (length > 0 || !METADATA.contains(&name.as_str())) {
                        let dot = if length == 0 { "" } else { "." };
                        self.dropped.push(format!("{}{dot}{name}", self.path));
                    }
                    return preserve;
                }
                if length > 0 {
                    self.path.push('.');
                }
                self.path.push_str(name);
                self.value(value, below, false, false);
                self.path.truncate(length);
                true
            }),
            Value::Array(items) => {
                let below = node.and_then(|node| node.items.as_deref());
                // Inside a preserved list without a schema for its items, everything is kept.
                if preserve && below.is_none() {
                    return;
                }
                for (i, item) in items.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{i}]"));
                    self.value(item, below, false, preserve);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a member is declared, and its schema.
fn known<'n>(node: Option<&'n Node>, name: &str) -> (bool, Option<&'n Node>) {
    let Some(node) = node else { return (false, None) };
    if let Some(property) = node.properties.get(name) {
        return (true, Some(property));
    }
    match &node.additional {
        Some(Additional::Of(values)) => (true, Some(values)),
        Some(Additional::Any(_)) => (true, None),
        None => (false, None),
    }
}
