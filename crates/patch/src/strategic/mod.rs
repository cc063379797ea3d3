//! Strategic merge patch: a merge patch whose schema defines which lists merge and by which key
//! (specification/apiserver.md 12).
//!
//! It follows Kubernetes step by step, in the same order, because the order decides which of several mistakes is
//! reported and where new elements of a list end up.

mod lookup;
mod order;

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};

use self::{
    lookup::{Lookup, MergeRule, SchemaPosition},
    order::{Positions, check_order, normalize, partition},
};
use crate::{
    decode::{self, Decoded},
    error::PatchError,
    schema::{SchemaId, Table},
};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Members = Map<String, Value>;

/// Applies `patch` to `doc`, an object of the kind that `schema` describes.
///
/// The result may have wrong types and unknown fields: check it with [`crate::decode::patched`]. After an error `doc`
/// is partly patched: work on a copy.
///
/// # Errors
/// 400 for malformed directives, 422 for lists of lists, 500 (as Kubernetes does) for a missing merge key, an unknown
/// `$patch`, or an undeclared field that both sides have as an object or list.
pub fn apply(doc: &mut Value, patch: Value, table: &Table, schema: SchemaId) -> Result<(), PatchError> {
    let Value::Object(patch) = patch else {
        let text = format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", word(&patch));
        return Err(PatchError::BadRequest(text));
    };
    let original = match doc.take() {
        Value::Object(members) => members,
        _ => Members::new(),
    };
    *doc = Value::Object(merge_map(original, patch, &Lookup { table, place: SchemaPosition::Schema(schema) })?);
    Ok(())
}

/// Applies a patch and reads the result: the object and what strict validation reports.
///
/// # Errors
/// Those of [`apply`], and 422 with Kubernetes' text if the result is no object of its kind.
pub fn patched(mut doc: Value, patch: &Value, table: &Table, schema: SchemaId) -> Result<Decoded, PatchError> {
    apply(&mut doc, patch.clone(), table, schema)?;
    decode::patched(doc, table, schema)
        .map_err(|error| PatchError::Invalid { value: go_print(patch), message: error.to_string() })
}

/// Go's print of a patch (`map[spec:map[replicas:x]]`), for messages about the patched object.
pub fn go_print(value: &Value) -> String {
    let mut out = String::new();
    print_into(&mut out, value);
    out
}

fn print_into(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { " " });
                print_into(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push_str("map[");
            for (i, (name, value)) in members.iter().enumerate() {
                let _ = write!(out, "{}{name}:", if i == 0 { "" } else { " " });
                print_into(out, value);
            }
            out.push(']');
        }
        other => {
            let _ = write!(out, "{other}");
        }
    }
}

fn merge_map(mut original: Members, mut patch: Members, schema: &Lookup<'_>) -> Result<Members, PatchError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Members::new()),
            _ => Err(unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, schema)?;
    for (name, mut value) in patch {
        let (name, deletes) = match name.strip_prefix(DELETE_FROM) {
            Some(_) => (after_slash(&name, DELETE_FROM)?.to_owned(), true),
            None => (name, false),
        };
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let same_type =
            original.get(&name).map(|old| word(old) == word(&value) && number_kind(old) == number_kind(&value));
        match (same_type, value) {
            (None | Some(false), new) => {
                value = new;
                if !deletes {
                    discard_nulls(&mut value);
                    put(&mut original, name, value);
                }
            }
            (Some(true), Value::Object(new)) => {
                let found = schema.object(&name)?;
                let Some(Value::Object(old)) = original.remove(&name) else { continue };
                let merged = if found.strategy.replace { new } else { merge_map(old, new, &found.below)? };
                original.insert(name, Value::Object(merged));
            }
            (Some(true), Value::Array(new)) => {
                let found = schema.list(&name)?;
                let Some(Value::Array(old)) = original.remove(&name) else { continue };
                let merged = merge_lists(old, new, &found, deletes)?;
                original.insert(name, Value::Array(merged));
            }
            (Some(true), new) => put(&mut original, name, new),
        }
    }
    Ok(original)
}

/// Sets a member to a value of the patch; a value that is only a directive sets nothing.
fn put(original: &mut Members, name: String, mut value: Value) {
    if remove_directives(&mut value) {
        original.insert(name, value);
    } else {
        original.remove(&name);
    }
}

/// Applies `$retainKeys`: drops unlisted members, and fails if the patch sets any.
fn retain_keys(original: &mut Members, patch: &mut Members) -> Result<(), PatchError> {
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(kept) = directive else { return Err(malformed()) };
    let is_kept = |name: &str| kept.iter().any(|kept| kept == name);
    for (name, value) in patch.iter() {
        let directive = name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        if !value.is_null() && !directive && !is_kept(name) {
            return Err(malformed());
        }
    }
    original.retain(|name, _| is_kept(name));
    Ok(())
}

/// Merges and orders every list that has a `$setElementOrder`.
fn merge_ordered_lists(original: &mut Members, patch: &mut Members, schema: &Lookup<'_>) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let order = into_list(order)?;
        let name = after_slash(&directive, SET_ORDER)?;
        let (had, given) = (original.contains_key(name), patch.contains_key(name));
        let old = original.remove(name).map_or(Ok(Vec::new()), into_list)?;
        let new = patch.remove(name).map_or(Ok(Vec::new()), into_list)?;
        let found = schema.list(name)?;
        let key = found.merge_key;
        check_order(&new, &order, key)?;
        if !had && !given {
            continue;
        }
        if old.is_empty() && new.is_empty() {
            return Err(PatchError::Raw("no elements in any of the given slices".to_owned()));
        }
        same_types(&old, &new)?;
        let live = Positions::of(&old, key);
        let merged = if !had {
            let mut new = new;
            new.retain_mut(remove_directives);
            new
        } else if given {
            merge_lists(old, new, &found, false)?
        } else {
            old
        };
        let (in_order, server_only) = partition(merged, &order, key)?;
        original.insert(name.to_owned(), Value::Array(normalize(in_order, server_only, &order, &live, key)?));
    }
    Ok(())
}

fn merge_lists(
    old: Vec<Value>,
    new: Vec<Value>,
    found: &MergeRule<'_>,
    deletes: bool,
) -> Result<Vec<Value>, PatchError> {
    if !found.strategy.merge && !deletes {
        return Ok(new);
    }
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    let of_maps = same_types(&old, &new)?;
    if !of_maps && deletes {
        return Ok(old.into_iter().filter(|item| !new.contains(item)).collect());
    }
    if !of_maps {
        let live = Positions::of(&old, "");
        let order = new.clone();
        let merged = without_duplicates(old.into_iter().chain(new).collect());
        let (in_patch, server_only) = partition(merged, &order, "")?;
        return normalize(in_patch, server_only, &order, &live, "");
    }
    let key = found.merge_key;
    if key.is_empty() {
        return Err(PatchError::Raw("cannot merge lists without merge key for struct".to_owned()));
    }
    let (old, new) = special_elements(old, new, key)?;
    let live = Positions::of(&old, key);
    let order = new.clone();
    let merged = merge_elements(old, new, key, &found.below)?;
    let (in_patch, server_only) = partition(merged, &order, key)?;
    normalize(in_patch, server_only, &order, &live, key)
}

/// Removes `$patch` elements from the patch and applies them to the list.
fn special_elements(mut old: Vec<Value>, new: Vec<Value>, key: &str) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(new.len());
    let mut replace = false;
    for item in new {
        let Value::Object(members) = &item else { continue };
        let Some(directive) = members.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let deleted = members.get(key).ok_or_else(|| no_merge_key(members, key))?;
                if let Some(at) = old.iter().position(|item| !item.is_object()) {
                    return Err(PatchError::Raw(format!("value for key {at} is not a map")));
                }
                old.retain(|item| item.get(key) != Some(deleted));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Raw("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => return Err(unknown_directive(directive, members)),
        }
    }
    if replace { Ok((plain, Vec::new())) } else { Ok((old, plain)) }
}

fn merge_elements(
    mut list: Vec<Value>,
    new: Vec<Value>,
    key: &str,
    schema: &Lookup<'_>,
) -> Result<Vec<Value>, PatchError> {
    // An index by key, so that long lists do not take quadratic time.
    let mut index: BTreeMap<String, usize> = BTreeMap::new();
    for (at, item) in list.iter().enumerate() {
        if let Some(value) = item.get(key) {
            index.entry(value.to_string()).or_insert(at);
        }
    }
    for item in new {
        let Value::Object(members) = item else { continue };
        let id = members.get(key).ok_or_else(|| no_merge_key(&members, key))?.to_string();
        match index.get(&id) {
            Some(&at) => {
                let old = match list[at].take() {
                    Value::Object(old) => old,
                    _ => Members::new(),
                };
                list[at] = Value::Object(merge_map(old, members, schema)?);
            }
            None => {
                index.insert(id, list.len());
                list.push(Value::Object(members));
            }
        }
    }
    Ok(list)
}

/// Removes duplicates as Kubernetes does: the last one wins. The order is restored afterwards.
fn without_duplicates(mut list: Vec<Value>) -> Vec<Value> {
    let mut seen: BTreeMap<String, ()> = BTreeMap::new();
    list.retain(|item| seen.insert(item.to_string(), ()).is_none());
    list
}

/// Returns `true` if all elements are objects; an error if they differ in type or are lists.
fn same_types(a: &[Value], b: &[Value]) -> Result<bool, PatchError> {
    let mut first: Option<&Value> = None;
    for item in a.iter().chain(b) {
        match first {
            None if item.is_array() => {
                return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
            }
            None => first = Some(item),
            Some(first) if word(first) == word(item) && number_kind(first) == number_kind(item) => {}
            Some(_) => {
                let lists = Value::Array(vec![Value::Array(a.to_vec()), Value::Array(b.to_vec())]);
                return Err(PatchError::Raw(format!("list element types are not identical: {}", go_print(&lists))));
            }
        }
    }
    Ok(first.is_some_and(Value::is_object))
}

fn into_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(bad_argument("[]interface {}", &other)),
    }
}

fn after_slash<'n>(name: &'n str, prefix: &str) -> Result<&'n str, PatchError> {
    let list = if prefix == DELETE_FROM { "primitive list" } else { "setElementOrder list" };
    match name.split_once('/') {
        Some((before, after)) if before == prefix => Ok(after),
        _ => Err(PatchError::BadRequest(format!("invalid patch format of {list}"))),
    }
}

/// Removes `$patch` objects inside a value; false if the value is one itself.
fn remove_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(members) if members.contains_key(DIRECTIVE) => false,
        Value::Object(members) => {
            members.retain(|_, value| remove_directives(value));
            true
        }
        Value::Array(items) => {
            items.retain_mut(remove_directives);
            true
        }
        _ => true,
    }
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

fn no_merge_key(members: &Members, key: &str) -> PatchError {
    let map = go_print(&Value::Object(members.clone()));
    PatchError::Raw(format!("map: {map} does not contain declared merge key: {key}"))
}

fn unknown_directive(directive: &Value, members: &Members) -> PatchError {
    let map = go_print(&Value::Object(members.clone()));
    PatchError::Raw(format!("unknown patch type: {} in map: {map}", go_print(directive)))
}

fn bad_argument(expected: &str, actual: &Value) -> PatchError {
    let actual = match actual {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    PatchError::Raw(format!("expected a {expected}, but received a {actual}"))
}

fn word(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Go has different types for integers and other numbers.
fn number_kind(value: &Value) -> bool {
    value.as_number().is_some_and(serde_json::Number::is_f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{arbitrary, builtin};

    fn pod(kind: &str) -> SchemaId {
        builtin::table().named(&format!("io.k8s.api.core.v1.{kind}")).expect(kind)
    }

    #[test]
    fn values_inside_maps_and_custom_types() {
        let table = builtin::table();
        let mut doc = json!({"template": {"metadata": {"labels": {"a": "1", "b": "2"}}}});
        let patch = json!({"template": {"metadata": {"labels": {"a": null, "c": "3"}}}});
        apply(&mut doc, patch, table, pod("PodTemplate")).expect("labels merge");
        assert_eq!(doc, json!({"template": {"metadata": {"labels": {"b": "2", "c": "3"}}}}));
        let error = apply(&mut json!({}), json!([]), table, pod("Pod")).expect_err("a list");
        assert_eq!(error.to_string(), "json: cannot unmarshal array into Go value of type map[string]interface {}");
    }

    #[test]
    fn go_prints_maps_by_key() {
        assert_eq!(go_print(&json!({"b": [1, "x", null], "a": {"c": true}})), "map[a:map[c:true] b:[1 x <nil>]]");
    }

    proptest! {
        #[test]
        fn no_patch_panics(mut doc in arbitrary::json(), patch in arbitrary::json()) {
            let mut spec = json!({"spec": doc.clone(), "metadata": doc.clone()});
            let _ = apply(&mut spec, json!({"spec": patch.clone(), "metadata": patch.clone()}), builtin::table(), pod("Pod"));
            let _ = apply(&mut doc, patch, builtin::table(), pod("PodSpec"));
        }

        #[test]
        fn the_same_containers_again_change_nothing(
            old in proptest::collection::vec("[a-d]", 0..4), new in proptest::collection::vec("[a-d]", 1..4),
        ) {
            let list = |names: &[String], image: &str| -> Vec<Value> {
                let mut names = names.to_vec();
                names.sort();
                names.dedup();
                names.iter().map(|name| json!({"name": name, "image": image})).collect()
            };
            let mut doc = json!({"containers": list(&old, "1")});
            let patch = json!({"containers": list(&new, "2")});
            apply(&mut doc, patch.clone(), builtin::table(), pod("PodSpec")).expect("a list of containers");
            let once = doc.clone();
            apply(&mut doc, patch, builtin::table(), pod("PodSpec")).expect("a list of containers");
            prop_assert_eq!(doc, once);
        }
    }
}
