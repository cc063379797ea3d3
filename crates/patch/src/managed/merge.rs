//! Merges an applied configuration into a live object, and removes fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    path::Element,
    set::Set,
    typed::{List, Map, Ref, Relation, Shape},
};

/// Merges `config` into `live`. Both must fit the type; `config` has no duplicates.
pub(super) fn merge(of: Ref<'_>, live: &Value, config: &Value) -> Value {
    value(of, Some(live), Some(config)).unwrap_or(Value::Null)
}

fn value(of: Ref<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    match of.shape(config.or(live)) {
        Shape::Scalar(_) => leaf(live, config),
        Shape::List(list) => {
            let empty = |value: Option<&'_ Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
            if list.relation == Relation::Atomic || empty(live) && empty(config) {
                return leaf(live, config);
            }
            let items = |value: Option<&'_ Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
            let merged = merge_lists(&list, &items(live), &items(config));
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
        Shape::Map(map) => {
            let empty =
                |value: Option<&'_ Value>| value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
            if map.atomic || empty(live) && empty(config) {
                return leaf(live, config);
            }
            let merged = merge_maps(&map, live.and_then(Value::as_object), config.and_then(Value::as_object));
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
    }
}

fn leaf(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    config.or(live).cloned()
}

type Members = serde_json::Map<String, Value>;

fn merge_maps(map: &Map<'_>, live: Option<&Members>, config: Option<&Members>) -> Members {
    let mut out = Members::new();
    let names: BTreeSet<&String> = live.into_iter().chain(config).flat_map(Members::keys).collect();
    for name in names {
        let (live, config) = (live.and_then(|live| live.get(name)), config.and_then(|config| config.get(name)));
        let merged = match map.member(name) {
            Some(of) => value(of, live, config),
            None => leaf(live, config),
        };
        if let Some(merged) = merged {
            out.insert(name.clone(), merged);
        }
    }
    out
}

/// Items of both sides come in the order of the configuration; items of one side keep their place among neighbours.
fn merge_lists(list: &List<'_>, live: &[Value], config: &[Value]) -> Vec<Value> {
    let identify = |items: &[Value]| -> Vec<(Element, Value)> {
        items.iter().filter_map(|item| Some((list.element(item).ok()?, item.clone()))).collect()
    };
    let (live, config) = (identify(live), identify(config));
    let mut live_items: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in &live {
        // An item cannot be merged into duplicates.
        live_items.entry(element).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let config_items: BTreeMap<&Element, &Value> = config.iter().map(|(element, item)| (element, item)).collect();
    let mut shared = config.iter().map(|(element, _)| element).filter(|element| live_items.contains_key(element));
    let mut next_shared = shared.next();
    let mut merged: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::new();
    let mut push = |live: Option<&Value>, config: Option<&Value>| out.extend(value(list.item, live, config));
    let (mut l, mut r) = (0, 0);
    while l < live.len() || r < config.len() {
        if let (Some((live_element, _)), Some((config_element, item))) = (live.get(l), config.get(r)) {
            if live_element == config_element {
                merged.insert(live_element);
                push(live_items.get(live_element).copied().flatten(), Some(item));
                (l, r) = (l + 1, r + 1);
                next_shared = shared.next();
                continue;
            }
            if config_items.contains_key(live_element) && next_shared.is_some_and(|next| next != live_element) {
                // The item follows later, at its position in the configuration.
                l += 1;
                continue;
            }
        }
        if let Some((element, item)) = live.get(l) {
            if !config_items.contains_key(element) {
                push(Some(item), None);
                l += 1;
                continue;
            }
            if merged.contains(element) {
                l += 1;
            }
        }
        if let Some((element, item)) = config.get(r) {
            merged.insert(element);
            push(live_items.get(element).copied().flatten(), Some(item));
            r += 1;
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
    out
}

/// Removes a set of fields from the value; returns `null` if nothing remains.
pub(super) fn remove(of: Ref<'_>, from: &Value, set: &Set) -> Value {
    match of.shape(Some(from)) {
        Shape::Scalar(_) => from.clone(),
        Shape::List(list) => match from {
            Value::Array(items) if list.relation != Relation::Atomic => {
                let kept = items.iter().filter_map(|item| {
                    let Ok(element) = list.element(item) else { return Some(item.clone()) };
                    without(list.item, item, set, &element)
                });
                nonempty(kept.collect::<Vec<_>>(), Vec::is_empty, Value::Array)
            }
            _ => Value::Null,
        },
        Shape::Map(map) => match from {
            Value::Object(members) if !map.atomic => {
                let kept = members.iter().filter_map(|(name, member)| {
                    let element = Element::field(name);
                    let rest = match map.member(name) {
                        Some(of) => without(of, member, set, &element),
                        None => Some(member.clone()).filter(|_| !set.members.contains(&element)),
                    };
                    Some((name.clone(), rest?))
                });
                nonempty(kept.collect::<Members>(), Members::is_empty, Value::Object)
            }
            _ => Value::Null,
        },
    }
}

/// Removes the set from one member; returns `None` if the set contains the member.
fn without(of: Ref<'_>, member: &Value, set: &Set, element: &Element) -> Option<Value> {
    if set.members.contains(element) {
        return None;
    }
    Some(match set.children.get(element).filter(|below| !below.is_empty()) {
        Some(below) => remove(of, member, below),
        None => member.clone(),
    })
}

fn nonempty<T>(value: T, is_empty: impl Fn(&T) -> bool, wrap: impl Fn(T) -> Value) -> Value {
    if is_empty(&value) { Value::Null } else { wrap(value) }
}
