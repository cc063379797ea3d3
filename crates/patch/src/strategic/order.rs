//! The order of merged lists.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{DIRECTIVE, SET_ORDER, bad_argument, go_print, no_merge_key};
use crate::error::PatchError;

/// Checks that the elements of the patch are in the order of `$setElementOrder`, and all in it.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = patch.iter().filter(|item| key.is_empty() || !is_deletion(item)).peekable();
    let mut given = order.iter();
    while let Some(item) = wanted.peek() {
        if has_directive(item) {
            wanted.next();
            continue;
        }
        let Some(next) = given.next() else {
            let text = format!(
                "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                go_print(&Value::Array(patch.to_vec())),
                go_print(&Value::Array(order.to_vec()))
            );
            return Err(PatchError::Raw(text));
        };
        if identity(item, key)? == identity(next, key)? {
            wanted.next();
        }
    }
    Ok(())
}

/// Sorts the patch's elements by the patch's order and the others by their live order, then merges both: each of the
/// others precedes the first patch element that followed it in the live list. Patch elements that are new to the list
/// precede the elements that they are not ordered against.
pub(super) fn normalize(
    in_patch: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &[Value],
    live: &Positions,
    key: &str,
) -> Result<Vec<Value>, PatchError> {
    for item in patch_order {
        identity(item, key)?;
    }
    let of_patch = Positions::of(patch_order, key);
    let in_patch = sorted_by(in_patch, &of_patch, key)?;
    let server_only = sorted_by(server_only, live, key)?;
    let mut merged = Vec::with_capacity(in_patch.len() + server_only.len());
    let mut patch_items = in_patch.into_iter().peekable();
    let mut server_items = server_only.into_iter().peekable();
    loop {
        let server_first = match (patch_items.peek(), server_items.peek()) {
            (None, None) => return Ok(merged),
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(patch_item), Some(server_item)) => {
                let (patch_at, server_at) = (live.get(patch_item, key)?, live.get(server_item, key)?);
                // An element that is new to the list is first.
                server_at.zip(patch_at).is_some_and(|(server_at, patch_at)| server_at < patch_at)
            }
        };
        merged.extend(if server_first { server_items.next() } else { patch_items.next() });
    }
}

/// Position of each element in a list; of duplicates, the first.
pub(super) struct Positions(BTreeMap<String, usize>);

impl Positions {
    pub(super) fn of(list: &[Value], key: &str) -> Self {
        let mut map = BTreeMap::new();
        for (at, item) in list.iter().enumerate() {
            let id = if key.is_empty() { Some(item) } else { item.get(key) };
            if let Some(id) = id {
                map.entry(id.to_string()).or_insert(at);
            }
        }
        Self(map)
    }

    fn get(&self, item: &Value, key: &str) -> Result<Option<usize>, PatchError> {
        Ok(self.0.get(&identity(item, key)?.to_string()).copied())
    }
}

fn sorted_by(list: Vec<Value>, order: &Positions, key: &str) -> Result<Vec<Value>, PatchError> {
    let mut placed = Vec::with_capacity(list.len());
    for item in list {
        placed.push((order.get(&item, key)?.unwrap_or(usize::MAX), item));
    }
    placed.sort_by_key(|(at, _)| *at);
    Ok(placed.into_iter().map(|(_, item)| item).collect())
}

/// Splits a list into the elements that `by` names and the others.
pub(super) fn partition(list: Vec<Value>, by: &[Value], key: &str) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    if !key.is_empty()
        && !list.is_empty()
        && let Some(at) = by.iter().position(|item| !item.is_object())
    {
        return Err(PatchError::Raw(format!("value for key {at} is not a map")));
    }
    let named = Positions::of(by, key);
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for item in list {
        if named.get(&item, key)?.is_some() { inside.push(item) } else { outside.push(item) }
    }
    Ok((inside, outside))
}

/// Identity of an element: the element itself in lists of primitives, the value of the merge key otherwise.
fn identity<'v>(item: &'v Value, key: &str) -> Result<&'v Value, PatchError> {
    if key.is_empty() {
        return Ok(item);
    }
    let Value::Object(members) = item else { return Err(bad_argument("map[string]interface {}", item)) };
    members.get(key).ok_or_else(|| no_merge_key(members, key))
}

fn has_directive(value: &Value) -> bool {
    value.get(DIRECTIVE).is_some()
}

fn is_deletion(value: &Value) -> bool {
    value.get(DIRECTIVE).and_then(Value::as_str) == Some("delete")
}
