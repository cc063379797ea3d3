//! Comparison of two values.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    path::Element,
    set::Set,
    typed::{List, Map, Ref, Relation, Shape},
};

/// Fields that differ, by kind of change.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
}

impl Comparison {
    /// Removes fields at or below these paths.
    pub(super) fn without(self, ignored: &Set) -> Self {
        if ignored.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.difference_below(ignored),
            modified: self.modified.difference_below(ignored),
            added: self.added.difference_below(ignored),
        }
    }
}

pub(super) fn compare(of: Ref<'_>, old: &Value, new: &Value) -> Comparison {
    let mut walker = Walker { path: Vec::new(), out: Comparison::default() };
    walker.value(of, Some(old), Some(new));
    walker.out
}

/// Compares as JSON, where 1 and 1.0 are the same number.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(name, x)| y.get(name).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

struct Walker {
    path: Vec<Element>,
    out: Comparison,
}

impl Walker {
    fn value(&mut self, of: Ref<'_>, old: Option<&Value>, new: Option<&Value>) {
        let leaf = match (old, new) {
            (Some(old_value), Some(new_value)) if !of.alike(old_value, new_value) => {
                // The shapes differ: all fields of the old value were removed, all of the new one added.
                self.shape(&of.shape(old), old, new);
                self.shape(&of.shape(new), old, new)
            }
            (_, Some(_)) => self.shape(&of.shape(new), old, new),
            (_, None) => self.shape(&of.shape(old), old, new),
        };
        if !leaf {
            match (old, new) {
                (None, _) => self.out.added.insert(&self.path),
                (_, None) => self.out.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Records the value and returns `true` if its shape is a leaf.
    fn shape(&mut self, shape: &Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        match shape {
            Shape::Scalar(_) => self.leaf(old, new),
            Shape::List(list) => {
                let items = |value: Option<&'_ Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
                if list.relation == Relation::Atomic || items(old) && items(new) {
                    return self.leaf(old, new);
                }
                self.list(list, list_of(old), list_of(new));
                false
            }
            Shape::Map(map) => {
                let members =
                    |value: Option<&'_ Value>| value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
                if map.atomic || members(old) && members(new) {
                    return self.leaf(old, new);
                }
                self.map(map, old.and_then(Value::as_object), new.and_then(Value::as_object));
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) -> bool {
        match (old, new) {
            (None, _) => self.out.added.insert(&self.path),
            (_, None) => self.out.removed.insert(&self.path),
            (Some(old), Some(new)) if !equal(old, new) => self.out.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn map(
        &mut self,
        map: &Map<'_>,
        old: Option<&serde_json::Map<String, Value>>,
        new: Option<&serde_json::Map<String, Value>>,
    ) {
        let names = old.into_iter().flat_map(serde_json::Map::keys);
        let added = new.into_iter().flatten().map(|(name, _)| name);
        let added = added.filter(|name| !old.is_some_and(|old| old.contains_key(*name)));
        for name in names.chain(added) {
            let Some(of) = map.member(name) else { continue };
            self.path.push(Element::field(name));
            self.value(of, old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
            self.path.pop();
        }
    }

    fn list(&mut self, list: &List<'_>, old: &[Value], new: &[Value]) {
        let mut items: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(element) = list.element(item) {
                items.entry(element).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(element) = list.element(item) {
                items.entry(element).or_default().1.push(item);
            }
        }
        for (element, (old, new)) in items {
            self.path.push(element);
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => self.value(list.item, old.first().copied(), new.first().copied()),
                ([_, _, ..], [_, _, ..]) => {
                    let same = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                    if !same {
                        self.out.modified.insert(&self.path);
                    }
                }
                ([_, _, ..], rest) => {
                    if let Some(new) = rest.first() {
                        self.value(list.item, None, Some(new));
                    }
                    self.out.removed.insert(&self.path);
                }
                (rest, _) => {
                    if let Some(old) = rest.first() {
                        self.value(list.item, Some(old), None);
                    }
                    self.out.added.insert(&self.path);
                }
            }
            self.path.pop();
        }
    }
}

fn list_of(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
