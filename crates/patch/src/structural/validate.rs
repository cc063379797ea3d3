//! Validation of values against a schema, with the messages of a kube-apiserver.

use serde_json::{Number, Value};

use super::node::{Additional, Checks, JsonType, Node};
use crate::error::{FieldError, Reason};

/// No more errors than this are collected from one object.
const ERRORS_MAX: usize = 1000;

/// Errors of a value under a node. The count selects the branch of a junctor that came closest.
#[derive(Default)]
struct Verdict {
    errors: Vec<FieldError>,
    matched: usize,
}

impl Verdict {
    fn merge(&mut self, other: Self) {
        self.matched += other.matched;
        for error in other.errors {
            self.add(error);
        }
    }

    fn add(&mut self, error: FieldError) {
        if self.errors.len() < ERRORS_MAX && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }
}

/// Errors of a value. A value that equals its counterpart in `old` is accepted.
pub(super) fn validate(root: &Node, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    verdict(root, value, old, "").errors
}

fn verdict(node: &Node, value: &Value, old: Option<&Value>, path: &str) -> Verdict {
    let mut out = Verdict::default();
    if value.is_null() {
        if !node.type_names().is_empty() && !node.nullable {
            out.add(wrong_type(path, node.type_names(), &Value::from("null")));
        }
        out.merge(allowed(&node.checks, value, path));
    } else {
        let checks = &node.checks;
        if !node.type_names().is_empty() || checks.format.is_some() {
            match type_error(node, value, path) {
                Some(error) => out.add(error),
                None => out.matched += 1,
            }
            out.matched += 1;
        }
        out.merge(junctors(checks, value, old, path));
        out.matched += 1;
        match value {
            Value::String(text) => {
                out.merge(strings(checks, text, path));
                out.matched += 1 + usize::from(checks.format.is_some());
            }
            Value::Number(number) => {
                out.merge(numbers(node, number, path));
                out.matched += 2;
            }
            Value::Array(items) => {
                out.merge(lists(node, items, old, path));
                out.matched += 2;
            }
            _ => {}
        }
        out.merge(allowed(checks, value, path));
        out.matched += 1;
        if let Value::Object(members) = value {
            out.merge(objects(node, members, old, path));
            out.matched += 1;
        }
        out.matched += 1;
    }
    if !out.errors.is_empty() && old == Some(value) {
        out.errors.clear();
    }
    out
}

fn wrong_type(path: &str, wanted: &str, value: &Value) -> FieldError {
    let shown = value.as_str().map_or(String::new(), |text| format!(": {text:?}"));
    let detail = format!("{path} in body must be of type {wanted}{shown}");
    FieldError { reason: Reason::TypeInvalid, ..FieldError::invalid(field(path), value, &detail) }
}

/// Errors about the object as a whole have no field.
fn field(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}

fn invalid(path: &str, value: &Value, detail: &str) -> FieldError {
    FieldError::invalid(field(path), value, &format!("{path} in body {detail}"))
}

/// Returns an error without a field, as Kubernetes does.
fn nowhere(text: String) -> FieldError {
    FieldError::invalid("<nil>", &Value::from(""), &text)
}

fn type_error(node: &Node, value: &Value, path: &str) -> Option<FieldError> {
    let (given, given_format) = match value {
        Value::Bool(_) => (JsonType::Boolean, ""),
        Value::String(_) => (JsonType::String, ""),
        Value::Number(number) if number.is_f64() => (JsonType::Number, "float64"),
        Value::Number(_) => (JsonType::Integer, "int64"),
        Value::Array(_) => (JsonType::Array, ""),
        _ => (JsonType::Object, ""),
    };
    let expects = |ty: JsonType| match ty {
        JsonType::Integer | JsonType::String if node.int_or_string => true,
        ty => !node.int_or_string && node.ty == Some(ty),
    };
    let whole = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let fits = expects(given)
        || given == JsonType::Number && whole && expects(JsonType::Integer)
        || given == JsonType::Integer && expects(JsonType::Number);
    let numeric = expects(JsonType::Integer) || expects(JsonType::Number);
    let textual = matches!(given, JsonType::String | JsonType::Array);
    match &node.checks.format {
        Some(format) if !textual && !fits && given_format != format.name() => {
            Some(wrong_type(path, format.name(), &Value::from(given_format)))
        }
        // The format is checked separately.
        Some(_) if textual && !numeric => None,
        _ if fits => None,
        _ => Some(wrong_type(path, node.type_names(), &Value::from(given.as_str()))),
    }
}

fn allowed(checks: &Checks, value: &Value, path: &str) -> Verdict {
    let mut out = Verdict::default();
    let equals = |allowed: &Value| match (allowed, value) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => allowed == value,
    };
    if !checks.allowed.is_empty() && !checks.allowed.iter().any(equals) {
        let words =
            checks.allowed.iter().map(|allowed| allowed.as_str().map_or_else(|| allowed.to_string(), str::to_owned));
        let words: Vec<String> = words.collect();
        out.add(FieldError::not_supported(field(path), value, &words));
    }
    out
}

fn strings(checks: &Checks, text: &str, path: &str) -> Verdict {
    let mut out = Verdict::default();
    let value = Value::from(text);
    let length = text.chars().count() as u64;
    let at_least = checks.min_length.filter(|min| length < *min);
    let pattern = checks.pattern.as_ref().filter(|pattern| !pattern.is_match(text));
    if let Some(max) = checks.max_length.filter(|max| length > *max) {
        out.add(FieldError::too_long(field(path), max));
    } else if let Some(min) = at_least {
        out.add(invalid(path, &value, &format!("should be at least {min} chars long")));
    } else if let Some(pattern) = pattern {
        out.add(invalid(path, &value, &format!("should match '{}'", pattern.as_str())));
    }
    if let Some(format) = checks.format.as_ref().filter(|format| !format.accepts_text(text)) {
        out.add(wrong_type(path, format.name(), &value));
    }
    out
}

fn numbers(node: &Node, number: &Number, path: &str) -> Verdict {
    let mut out = Verdict { matched: 1, ..Verdict::default() };
    let checks = &node.checks;
    let (value, float) = (Value::Number(number.clone()), number.as_f64().unwrap_or_default());
    let fraction = node.ty == Some(JsonType::Integer) && float.fract() != 0.0;
    if fraction || checks.format.as_ref().is_some_and(|format| !format.accepts_number(float)) {
        let ty = node.type_names();
        let form =
            checks.format.as_ref().map_or("(default format)".to_owned(), |f| format!("with format {}", f.name()));
        out.add(nowhere(format!("Checked value must be of type {ty} {form} in {path}")));
    }
    // Go truncates bounds to integers when it compares integers.
    let bound = |bound: f64| if number.is_f64() { bound } else { bound.trunc() };
    if let Some(factor) = checks.multiple_of.map(bound) {
        let multiple = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
        if factor <= 0.0 {
            let detail = format!("factor MultipleOf declared for {path} must be positive: {}", plain(factor));
            out.add(FieldError::invalid(field(path), &value, &detail));
        } else if (multiple - multiple.round()).abs() > 1e-9 {
            out.add(invalid(path, &value, &format!("should be a multiple of {}", plain(factor))));
        }
    }
    let too_small = |min: &f64| float < *min || checks.exclusive_minimum && float <= *min;
    if let Some(min) = checks.minimum.map(bound).filter(too_small) {
        let words = if checks.exclusive_minimum { "greater than" } else { "greater than or equal to" };
        out.add(invalid(path, &value, &format!("should be {words} {}", plain(min))));
    }
    let too_large = |max: &f64| float > *max || checks.exclusive_maximum && float >= *max;
    if let Some(max) = checks.maximum.map(bound).filter(too_large) {
        let words = if checks.exclusive_maximum { "less than" } else { "less than or equal to" };
        out.add(invalid(path, &value, &format!("should be {words} {}", plain(max))));
    }
    out
}

/// Prints a number as Go does with `%v`.
fn plain(number: f64) -> String {
    if number.abs() >= 1e21 { format!("{number:e}").replace('e', "e+") } else { number.to_string() }
}

fn lists(node: &Node, items: &[Value], old: Option<&Value>, path: &str) -> Verdict {
    let mut out = Verdict { matched: 1, ..Verdict::default() };
    if let Some(below) = &node.items {
        let counterparts = Counterparts::of(node, old);
        for (i, item) in items.iter().enumerate() {
            out.merge(verdict(below, item, counterparts.find(item), &format!("{path}[{i}]")));
        }
    }
    let (length, value) = (items.len() as u64, Value::from(items.len()));
    if let Some(min) = node.checks.min_items.filter(|min| length < *min) {
        out.add(invalid(path, &value, &format!("should have at least {min} items")));
    }
    if let Some(max) = node.checks.max_items.filter(|max| length > *max) {
        out.add(FieldError::too_many(field(path), items.len(), max));
    }
    out
}

/// Items of the old list by their keys: only lists of type map match items.
struct Counterparts<'v> {
    keys: &'v [String],
    items: std::collections::BTreeMap<String, &'v Value>,
}

impl<'v> Counterparts<'v> {
    fn of(node: &'v Node, old: Option<&'v Value>) -> Self {
        let mut this = Self { keys: &node.list_keys, items: std::collections::BTreeMap::new() };
        if let (Some("map"), Some(Value::Array(items))) = (node.list_type.as_deref(), old) {
            for item in items {
                this.items.entry(this.key(item)).or_insert(item);
            }
        }
        this
    }

    fn find(&self, item: &Value) -> Option<&'v Value> {
        if self.items.is_empty() { None } else { self.items.get(&self.key(item)).copied() }
    }

    fn key(&self, item: &Value) -> String {
        let values: Vec<Option<&Value>> = self.keys.iter().map(|key| item.get(key)).collect();
        format!("{values:?}")
    }
}

fn objects(node: &Node, members: &serde_json::Map<String, Value>, old: Option<&Value>, path: &str) -> Verdict {
    let mut out = Verdict::default();
    let value = Value::from(members.len());
    let (length, checks) = (members.len() as u64, &node.checks);
    if let Some(min) = checks.min_properties.filter(|min| length < *min) {
        out.add(invalid(path, &value, &format!("should have at least {min} properties")));
    }
    if let Some(max) = checks.max_properties.filter(|max| length > *max) {
        out.add(FieldError::too_many(field(path), members.len(), max));
    }
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, value) in members {
        let member = match (node.properties.get(name), &node.additional) {
            (Some(property), _) => property,
            (None, Some(Additional::Of(values))) => values,
            (None, Some(Additional::Any(false))) => {
                out.add(FieldError::invalid(
                    field(path),
                    &Value::from(name.as_str()),
                    &format!("{path}.{name} in body is a forbidden property"),
                ));
                continue;
            }
            (None, _) => continue,
        };
        // The new version of the object is not known here, so an invalid value is always an error.
        let is_type = path.is_empty() && (name == "kind" || name == "apiVersion");
        let old = old.filter(|_| !is_type).and_then(|old| old.get(name));
        out.merge(verdict(member, value, old, &below(name)));
    }
    for name in checks.required.iter().filter(|name| !members.contains_key(*name)) {
        out.add(FieldError::required(below(name), ""));
    }
    out
}

fn junctors(checks: &Checks, value: &Value, old: Option<&Value>, path: &str) -> Verdict {
    let mut out = Verdict::default();
    if !checks.any_of.is_empty() {
        let (_, best) = branches(&checks.any_of, value, old, path, true);
        if !best.errors.is_empty() {
            out.add(nowhere(format!("{path:?} must validate at least one schema (anyOf)")));
        }
        out.merge(best);
    }
    if !checks.one_of.is_empty() {
        let (valid, best) = branches(&checks.one_of, value, old, path, false);
        match valid {
            1 => out.merge(best),
            0 => {
                out.add(nowhere(format!("{path:?} must validate one and only one schema (oneOf). Found none valid")));
                out.merge(best);
            }
            valid => {
                let found = format!("Found {valid} valid alternatives");
                out.add(nowhere(format!("{path:?} must validate one and only one schema (oneOf). {found}")));
            }
        }
    }
    let mut valid = 0;
    for node in &checks.all_of {
        let branch = verdict(node, value, old, path);
        valid += usize::from(branch.errors.is_empty());
        out.merge(branch);
    }
    if valid != checks.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        out.add(nowhere(format!("{path:?} must validate all the schemas (allOf){none}")));
    }
    if let Some(not) = &checks.not
        && verdict(not, value, None, path).errors.is_empty()
    {
        out.add(nowhere(format!("{path:?} must not validate the schema (not)")));
    }
    out.matched += 1;
    out
}

/// Returns the number of valid branches, and the first valid one or else the closest one.
fn branches(nodes: &[Node], value: &Value, old: Option<&Value>, path: &str, stop: bool) -> (usize, Verdict) {
    let mut valid = 0;
    let mut best: Option<Verdict> = None;
    for node in nodes {
        let branch = verdict(node, value, old, path);
        if branch.errors.is_empty() {
            valid += 1;
            if valid == 1 {
                best = Some(branch);
            }
            if stop {
                break;
            }
        } else if valid == 0 && best.as_ref().is_none_or(|best| branch.matched > best.matched) {
            best = Some(branch);
        }
    }
    (valid, best.unwrap_or_default())
}

/// Checks that embedded resources have `apiVersion`, `kind` and a valid name.
pub(super) fn embedded(root: &Node, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    embedded_in(root, object, "", &mut errors);
    errors
}

fn embedded_in(node: &Node, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) => {
            for name in ["apiVersion", "kind"].into_iter().filter(|_| node.embedded) {
                match members.get(name) {
                    None => errors.push(FieldError::required(below(name), "")),
                    Some(Value::String(text)) if text.is_empty() => {
                        errors.push(FieldError::invalid(below(name), &Value::from(""), "must not be empty"));
                    }
                    Some(Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                        let detail = format!("unexpected GroupVersion string: {text}");
                        errors.push(FieldError::invalid(below(name), &Value::from(text.as_str()), &detail));
                    }
                    Some(Value::String(_)) => {}
                    Some(other) => errors.push(FieldError::invalid(below(name), other, "must be a string")),
                }
            }
            for (name, value) in members {
                if let Some(node) = node.properties.get(name) {
                    embedded_in(node, value, &below(name), errors);
                } else if let Some(Additional::Of(node)) = &node.additional {
                    embedded_in(node, value, &format!("{path}[{name}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(node) = &node.items {
                for (i, item) in items.iter().enumerate() {
                    embedded_in(node, item, &format!("{path}[{i}]"), errors);
                }
            }
        }
        _ => {}
    }
}
