//! Sets of paths, and `fieldsV1`, their form on the wire.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::Element;

/// A set of paths. A path may be a member and have members below it: then a list item is owned, and so are some of
/// its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    pub(super) members: BTreeSet<Element>,
    pub(super) children: BTreeMap<Element, Set>,
}

/// Maximum nesting of `fieldsV1`, that of the object it describes.
const DEPTH_MAX: usize = 256;

impl Set {
    /// Creates a set of the fields at these paths, each given by field names: `&[&["status"], &["metadata", "name"]]`.
    pub fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds a path; the empty one is never a member.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => drop(self.members.insert(last.clone())),
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Returns `true` if a path is a member.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self.children.get(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// Returns `true` if there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Members of either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let merged = out.children.get(element).map_or_else(|| child.clone(), |mine| mine.union(child));
            out.children.insert(element.clone(), merged);
        }
        out
    }

    /// Members of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, child)| {
            let both = child.intersection(other.children.get(element)?);
            (!both.is_empty()).then(|| (element.clone(), both))
        });
        Self { members: self.members.intersection(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Members of this set that are not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, child)| match other.children.get(element) {
            None => Some((element.clone(), child.clone())),
            Some(theirs) => {
                let rest = child.difference(theirs);
                (!rest.is_empty()).then(|| (element.clone(), rest))
            }
        });
        Self { members: self.members.difference(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Members of this set that are neither in the other nor below one of its members.
    pub fn difference_below(&self, other: &Self) -> Self {
        let children = self.children.iter().filter_map(|(element, child)| {
            if other.members.contains(element) {
                return None;
            }
            match other.children.get(element) {
                None => Some((element.clone(), child.clone())),
                Some(theirs) => {
                    let rest = child.difference_below(theirs);
                    (!rest.is_empty()).then(|| (element.clone(), rest))
                }
            }
        });
        Self { members: self.members.difference(&other.members).cloned().collect(), children: children.collect() }
    }

    /// Levels of the longest path.
    pub(super) fn depth(&self) -> usize {
        let below = self.children.values().map(Self::depth).max().unwrap_or(0);
        if self.members.is_empty() && below == 0 { 0 } else { below + 1 }
    }

    /// The paths, longer ones shortened to this many levels, at least one.
    pub(super) fn cut(&self, depth: usize) -> Self {
        let mut members = self.members.clone();
        if depth <= 1 {
            members.extend(self.children.keys().cloned());
            return Self { members, children: BTreeMap::new() };
        }
        let children = self.children.iter().map(|(element, child)| (element.clone(), child.cut(depth - 1)));
        Self { members, children: children.collect() }
    }

    /// The paths that have at most this many levels.
    pub(super) fn within(&self, depth: usize) -> Self {
        if depth == 0 {
            return Self::default();
        }
        let children = self.children.iter().map(|(element, child)| (element.clone(), child.within(depth - 1)));
        let children = children.filter(|(_, child)| !child.is_empty());
        Self { members: self.members.clone(), children: children.collect() }
    }

    /// Returns all members, parents before children.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for element in &self.members {
            let mut path = prefix.clone();
            path.push(element.clone());
            out.push(path);
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect(prefix, out);
            prefix.pop();
        }
    }

    /// Returns `fieldsV1`.
    pub fn to_fields_v1(&self) -> Value {
        let mut out = Map::new();
        for element in &self.members {
            out.insert(element.to_fields_v1(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            let mut below = match child.to_fields_v1() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if self.members.contains(element) && !below.is_empty() {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(element.to_fields_v1(), Value::Object(below));
        }
        Value::Object(out)
    }

    /// Parses `fieldsV1`.
    ///
    /// # Errors
    /// An element is malformed, or the nesting is too deep.
    pub fn from_fields_v1(value: &Value) -> Result<Self, String> {
        Ok(Self::read(value, 0)?.0.unwrap_or_default())
    }

    /// Parses the members below a node, and `true` if the node itself is a member.
    fn read(value: &Value, depth: usize) -> Result<(Option<Self>, bool), String> {
        if depth > DEPTH_MAX {
            return Err(format!("fieldsV1 is nested deeper than {DEPTH_MAX} levels"));
        }
        let mut out: Option<Self> = None;
        let mut is_member = false;
        for (name, below) in value.as_object().into_iter().flatten() {
            if name == "." {
                is_member = true;
                continue;
            }
            let Some(element) = Element::from_fields_v1(name)? else { continue };
            let (children, member) = Self::read(below, depth + 1)?;
            let set = out.get_or_insert_default();
            if member {
                set.members.insert(element.clone());
            }
            if let Some(children) = children {
                set.children.insert(element, children);
            }
        }
        let leaf = out.is_none();
        Ok((out, is_member || leaf))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> Set {
        Set::from_fields_v1(&value).expect("fieldsV1")
    }

    #[test]
    fn wire_form() {
        for value in [
            json!({}),
            json!({"f:data": {"f:x": {}}}),
            json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {"v:\"x.io/f\"": {}}}}),
            json!({"f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}, "i:3": {}}}),
        ] {
            assert_eq!(set(value.clone()).to_fields_v1(), value);
        }
        assert_eq!(set(json!({"x:unknown": {}, "f:a": {}})).to_fields_v1(), json!({"f:a": {}}));
        for bad in [json!({"k:x": {}}), json!({"nocolon": {}}), json!({"i:x": {}}), json!({"k:1": {}})] {
            assert!(Set::from_fields_v1(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn algebra() {
        let a = set(json!({"f:a": {".": {}, "f:x": {}, "f:y": {}}, "f:b": {}}));
        let b = set(json!({"f:a": {"f:y": {}, "f:z": {}}, "f:b": {}}));
        assert_eq!(a.union(&b), set(json!({"f:a": {".": {}, "f:x": {}, "f:y": {}, "f:z": {}}, "f:b": {}})));
        assert_eq!(a.intersection(&b), set(json!({"f:a": {"f:y": {}}, "f:b": {}})));
        assert_eq!(a.difference(&b), set(json!({"f:a": {".": {}, "f:x": {}}})));
        assert_eq!(a.difference_below(&Set::of_fields(&[&["a"]])), set(json!({"f:b": {}})));
        assert_eq!(a.difference(&Set::of_fields(&[&["a"]])), set(json!({"f:a": {"f:x": {}, "f:y": {}}, "f:b": {}})));
    }

    fn any_set() -> impl Strategy<Value = Set> {
        let element = prop_oneof![
            "[ab]".prop_map(Element::Field),
            (0..2i64).prop_map(Element::Index),
            "[ab]".prop_map(|name| Element::Member(super::super::path::Scalar(name.into()))),
            "[ab]".prop_map(|name| Element::Key(vec![("name".to_owned(), super::super::path::Scalar(name.into()))])),
        ];
        let path = proptest::collection::vec(element, 1..4);
        proptest::collection::vec(path, 0..8).prop_map(|paths| {
            let mut set = Set::default();
            paths.iter().for_each(|path| set.insert(path));
            set
        })
    }

    proptest! {
        #[test]
        fn sets_are_sets(a in any_set(), b in any_set()) {
            let has = |set: &Set, path: &Vec<Element>| set.has(path);
            for path in a.union(&b).paths() {
                prop_assert!(has(&a, &path) || has(&b, &path));
                prop_assert_eq!(has(&a.intersection(&b), &path), has(&a, &path) && has(&b, &path));
                prop_assert_eq!(has(&a.difference(&b), &path), has(&a, &path) && !has(&b, &path));
            }
            prop_assert_eq!(a.union(&b).paths(), b.union(&a).paths());
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)).paths().len(), a.paths().len());
            prop_assert_eq!(set(a.to_fields_v1()).paths(), a.paths());
        }

        #[test]
        fn no_value_panics(value in crate::arbitrary::json()) {
            if let Ok(set) = Set::from_fields_v1(&value) {
                prop_assert_eq!(Set::from_fields_v1(&set.to_fields_v1()).map(|set| set.paths()), Ok(set.paths()));
            }
        }
    }
}
