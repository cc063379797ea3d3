//! Values at paths, and the simplest rules about them.

pub(crate) use ironclad_patch::text_at as text;
use serde_json::{Value, json};

use crate::{names, status::Cause};

/// True for a new object and for a change of more than metadata and status. What was stored before a rule was known
/// stays changeable.
pub(crate) fn is_new(object: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| is_changed(old, object))
}

/// True when more than metadata and status changed.
fn is_changed(old: &Value, new: &Value) -> bool {
    let rest = |of: &'_ Value| of.as_object().map_or(0, |map| map.keys().filter(|k| is_rest(k)).count());
    let changed = |(key, value): (&String, &Value)| is_rest(key) && old.get(key) != Some(value);
    rest(old) != rest(new) || new.as_object().into_iter().flatten().any(changed)
}

fn is_rest(key: &str) -> bool {
    key != "metadata" && key != "status"
}

/// JSON of an object with its members in the given order, as error messages quote the structures of a kube-apiserver.
pub(crate) fn quoted(members: &[(&str, Value)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
    format!("{{{}}}", members.join(","))
}

/// A label selector as refusals quote it.
pub(crate) fn quoted_selector(selector: &Value) -> String {
    if !selector.is_object() {
        return selector.to_string();
    }
    let mut members = Vec::new();
    for key in ["matchLabels", "matchExpressions"] {
        if selector[key].as_object().is_some_and(|m| !m.is_empty())
            || selector[key].as_array().is_some_and(|l| !l.is_empty())
        {
            members.push((key, selector[key].clone()));
        }
    }
    quoted(&members)
}

/// A value, null when absent.
pub(crate) fn at<'a>(object: &'a Value, pointer: &str) -> &'a Value {
    object.pointer(pointer).unwrap_or(&Value::Null)
}

pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).as_array().map_or(&[], Vec::as_slice)
}

/// `/spec/selector` as `spec.selector`.
pub(crate) fn field_of(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

/// The value may not be below zero.
pub(crate) fn not_negative(object: &Value, pointer: &str, out: &mut Vec<Cause>) {
    let value = at(object, pointer);
    if value.as_i64().is_some_and(|n| n < 0) {
        out.push(Cause::invalid(field_of(pointer), value, "must be greater than or equal to 0"));
    }
}

/// The value may not change.
pub(crate) fn immutable(object: &Value, old: Option<&Value>, pointer: &str, out: &mut Vec<Cause>) {
    if let Some(old) = old
        && at(object, pointer) != at(old, pointer)
    {
        out.push(Cause::invalid(field_of(pointer), at(object, pointer), "field is immutable"));
    }
}

/// The value must be one of these.
pub(crate) fn one_of(object: &Value, pointer: &str, supported: &[&str], out: &mut Vec<Cause>) {
    let value = text(object, pointer);
    if !value.is_empty() && !supported.contains(&value) {
        out.push(Cause::unsupported(field_of(pointer), &json!(value), supported));
    }
}

/// The text must be a DNS label.
pub(crate) fn label(value: &str, field: &str, out: &mut Vec<Cause>) {
    out.extend(names::dns_label(value).iter().map(|m| Cause::invalid(field, &json!(value), m)));
}
