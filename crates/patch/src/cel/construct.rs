//! Values of types that expressions construct for mutations: `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`
//! (specification/apiserver.md 21).
//!
//! The library parses such expressions and cannot evaluate them. They become maps with one more entry, the name of the
//! type, which no field can have. So fields are selected, compared and merged as those of any map.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::SecondsFormat;
use kube_cel::cel::{
    IdedExpr, Value as CelValue,
    common::{
        ast::{EntryExpr, Expr, IdedEntryExpr, LiteralValue, MapEntryExpr, MapExpr, StructExpr, operators},
        types::CelString,
    },
    objects::Key,
};
use serde_json::{Map, Value};

use super::{Made, check::Type};
use crate::json::DEPTH_MAX;

/// Type of the whole object in an apply configuration.
pub const OBJECT: &str = "Object";
/// Type of a list of operations.
pub const OPERATIONS: &str = "list(JSONPatch)";

/// Type of one operation.
const OPERATION: &str = "JSONPatch";
/// Key of the type's name; no field can be called so.
const TYPE: &str = "@type";
/// Fields of an operation that are texts.
pub(super) const TEXTS: [&str; 3] = ["op", "path", "from"];

/// Returns true for types that expressions of mutations may construct.
pub(super) fn is_constructed(name: &str) -> bool {
    name == OPERATION || name == OBJECT || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.'))
}

/// Returns true if the type has the field.
pub(super) fn has_field(type_name: &str, field: &str) -> bool {
    type_name != OPERATION || field == "value" || TEXTS.contains(&field)
}

/// Returns true if the field of an operation must be a text.
pub(super) fn is_text(type_name: &str, field: &str) -> bool {
    type_name == OPERATION && TEXTS.contains(&field)
}

fn text_literal(text: &str) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::String(CelString::from(text))) }
}

/// Replaces the construction by one of a map.
pub(super) fn to_map(value: StructExpr) -> Expr {
    let entry = |key: &str, value: IdedExpr, optional: bool| IdedEntryExpr {
        id: 0,
        expr: EntryExpr::MapEntry(MapEntryExpr { key: text_literal(key), value, optional }),
    };
    let mut entries = vec![entry(TYPE, text_literal(&value.type_name), false)];
    entries.extend(value.entries.into_iter().filter_map(|given| match given.expr {
        EntryExpr::StructField(field) => Some(entry(&field.field, field.value, field.optional)),
        EntryExpr::MapEntry(_) => None,
    }));
    Expr::Map(MapExpr { entries })
}

/// Returns the type of an expression as messages name it; `dyn` or `list` where it is not known.
pub(super) fn result_type(tree: &IdedExpr, known: Type) -> String {
    let literal = |value: &LiteralValue| match value {
        LiteralValue::String(_) => "string",
        LiteralValue::Int(_) => "int",
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Double(_) => "double",
        _ => "dyn",
    };
    match &tree.expr {
        Expr::Struct(value) => value.type_name.clone(),
        Expr::Literal(value) if known == Type::Dyn => literal(value).to_owned(),
        Expr::List(list) => {
            let mut types = list.elements.iter().map(|element| result_type(element, Type::Dyn));
            match types.next() {
                None => "list(dyn)".to_owned(),
                Some(first) if first != "dyn" && types.all(|ty| ty == first) => format!("list({first})"),
                Some(_) => "list".to_owned(),
            }
        }
        Expr::Call(call) if call.func_name == operators::CONDITIONAL && call.args.len() == 3 => {
            joined(&result_type(&call.args[1], Type::Dyn), &result_type(&call.args[2], Type::Dyn))
        }
        Expr::Call(call) if call.func_name == operators::ADD && known == Type::List && call.args.len() == 2 => {
            joined(&result_type(&call.args[0], Type::Dyn), &result_type(&call.args[1], Type::Dyn))
        }
        _ => known.name().to_owned(),
    }
}

/// The type of two alternatives: an empty list is one of any items.
fn joined(a: &str, b: &str) -> String {
    match (a, b) {
        _ if a == b => a.to_owned(),
        ("list(dyn)", list) | (list, "list(dyn)") if list.starts_with("list(") => list.to_owned(),
        _ if a.starts_with("list") && b.starts_with("list") => "list".to_owned(),
        _ => "dyn".to_owned(),
    }
}

/// The type's name and the fields of a constructed value.
fn constructed(value: &CelValue) -> Option<(&str, Vec<(&str, &CelValue)>)> {
    let CelValue::Map(map) = value else { return None };
    let Some(CelValue::String(name)) = map.get(&Key::String(Arc::new(TYPE.to_owned()))) else { return None };
    let mut fields: Vec<(&str, &CelValue)> = map
        .map
        .iter()
        .filter_map(|(key, value)| match key {
            Key::String(key) if **key != TYPE => Some((key.as_str(), value)),
            _ => None,
        })
        .collect();
    fields.sort_by_key(|(name, _)| *name);
    Some((name.as_str(), fields))
}

/// Names of types must repeat the path of fields from the root; lists and maps in between have no name. What is nested
/// too deeply is refused when it is converted.
fn check_names(value: &CelValue, path: &str, depth: usize, out: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    if let Some((name, fields)) = constructed(value) {
        if name != path {
            out.push(format!(
                "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
            ));
        }
        for (field, value) in fields {
            check_names(value, &format!("{path}.{field}"), depth + 1, out);
        }
        return;
    }
    match value {
        CelValue::List(items) => items.iter().for_each(|item| check_names(item, path, depth + 1, out)),
        CelValue::Map(map) => {
            let mut members: Vec<_> = map.map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members.into_iter().for_each(|(_, member)| check_names(member, path, depth + 1, out));
        }
        _ => {}
    }
}

fn checked(value: &CelValue, root: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    check_names(value, root, 0, &mut wrong);
    if wrong.is_empty() { Ok(()) } else { Err(format!("type mismatch: {}", wrong.join("\n"))) }
}

fn number(value: f64) -> Result<Value, String> {
    // Whole numbers are written without a fraction, as Go writes them.
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Ok(Value::from(value as i64));
    }
    serde_json::Number::from_f64(value).map(Value::Number).ok_or_else(|| format!("{value} is no number of JSON"))
}

fn to_json(value: &CelValue, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("the value nests deeper than {DEPTH_MAX}"));
    }
    Ok(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(value) => Value::from(*value),
        CelValue::Int(value) => Value::from(*value),
        CelValue::UInt(value) => Value::from(*value),
        CelValue::Float(value) => number(*value)?,
        CelValue::String(text) => Value::from(text.as_str()),
        CelValue::Bytes(bytes) => Value::from(STANDARD.encode(&**bytes)),
        CelValue::Timestamp(time) => Value::from(time.to_rfc3339_opts(SecondsFormat::AutoSi, true)),
        CelValue::Duration(duration) => Value::from(format!("{}s", duration.num_seconds())),
        CelValue::List(items) => {
            Value::Array(items.iter().map(|item| to_json(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        CelValue::Map(map) => {
            let mut members = Map::new();
            for (key, value) in map.map.iter() {
                let Key::String(key) = key else { return Err(format!("map key {key:?} is not a string")) };
                if **key != TYPE {
                    members.insert(key.to_string(), to_json(value, depth + 1)?);
                }
            }
            Value::Object(members)
        }
        CelValue::Opaque(_) | CelValue::Function(..) => {
            return Err("the value has a type that could not marshal to JSON".to_owned());
        }
    })
}

impl Made {
    /// The apply configuration that an expression of type `Object` results in.
    ///
    /// # Errors
    /// Another type, or names of types that do not match their fields.
    pub fn configuration(&self) -> Result<Value, String> {
        if constructed(&self.0).is_none() {
            let ty = super::types::name_of(&self.0);
            return Err(format!("unsupported return type from ApplyConfiguration expression: {ty}"));
        }
        checked(&self.0, OBJECT)?;
        to_json(&self.0, 0)
    }

    /// The operations of a JSON patch that an expression of type `list(JSONPatch)` results in.
    ///
    /// # Errors
    /// Another type, or names of types that do not match their fields.
    pub fn operations(&self) -> Result<Value, String> {
        const MISMATCH: &str = "type mismatch: JSONPatchType.expression should evaluate to array";
        let CelValue::List(items) = &self.0 else { return Err(MISMATCH.to_owned()) };
        let operations = items.iter().map(|item| {
            let fields = match constructed(item) {
                Some((OPERATION, fields)) => fields,
                _ => return Err(format!("{MISMATCH} of JSONPatch")),
            };
            let mut operation =
                Map::from_iter([("op".to_owned(), Value::from("")), ("path".to_owned(), Value::from(""))]);
            for (name, value) in fields {
                if let Some((root, _)) = constructed(value) {
                    checked(value, root)?;
                }
                let value = to_json(value, 0).map_err(|why| {
                    format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
                })?;
                if TEXTS.contains(&name) && !value.is_string() {
                    return Err(format!("unexpected type for JSONPatchType '{name}' field: {value}"));
                }
                operation.insert(name.to_owned(), value);
            }
            if operation.get("from").and_then(Value::as_str) == Some("") {
                operation.remove("from");
            }
            Ok(Value::Object(operation))
        });
        operations.collect::<Result<_, _>>().map(Value::Array)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::cel::{Binding, Budget, Expression, REQUEST_UNITS_MAX, Variable};

    fn compiled(text: &str) -> Result<Expression, String> {
        Expression::compile_mutation(text, &BTreeMap::from([("object", Variable::Anything)]))
    }

    fn made(text: &str) -> Made {
        let object = json!({"spec": {"replicas": 2, "names": ["a", "b"]}, "a/b~c": 1});
        let expression = compiled(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let mut budget = Budget::new(REQUEST_UNITS_MAX);
        expression
            .make(&[("object", Binding::Plain(&object))], &mut budget)
            .unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn configurations() {
        for (text, want) in [
            ("Object{}", json!({})),
            ("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", json!({"spec": {"replicas": 3}})),
            (
                "Object{metadata: Object.metadata{labels: {'a.b/c': 'x'}, ?annotations: object.?none}}",
                json!({"metadata": {"labels": {"a.b/c": "x"}}}),
            ),
            (
                "Object{spec: Object.spec{containers: object.spec.names.map(n, Object.spec.containers{name: n, on: true})}}",
                json!({"spec": {"containers": [{"name": "a", "on": true}, {"name": "b", "on": true}]}}),
            ),
            ("object.spec.replicas > 1 ? Object{a: 1.0} : Object{a: null}", json!({"a": 1})),
        ] {
            assert_eq!(made(text).configuration(), Ok(want), "{text}");
        }
        for (text, want) in [
            (
                "Object{spec: Object.metadata{a: 1}}",
                "type mismatch: unexpected type name \"Object.metadata\", expected \"Object.spec\", which matches field name path from root Object type",
            ),
            ("object", "unsupported return type from ApplyConfiguration expression: map"),
        ] {
            assert_eq!(made(text).configuration(), Err(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn operations() {
        for (text, want) in [
            ("object.spec.replicas > 5 ? [JSONPatch{op: 'remove', path: '/a'}] : []", json!([])),
            (
                "[JSONPatch{op: 'add', path: '/' + jsonpatch.escapeKey('a/b~c'), value: Object.spec{x: {'y': [1]}}}]",
                json!([{"op": "add", "path": "/a~1b~0c", "value": {"x": {"y": [1]}}}]),
            ),
            (
                "object.spec.names.map(n, JSONPatch{op: 'move', from: '/' + n, path: '/x'})",
                json!([{"op": "move", "from": "/a", "path": "/x"}, {"op": "move", "from": "/b", "path": "/x"}]),
            ),
        ] {
            assert_eq!(made(text).operations(), Ok(want), "{text}");
        }
        let mixed = "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch";
        assert_eq!(made("object.spec.names").operations(), Err(mixed.to_owned()));
    }

    #[test]
    fn types_of_results() {
        for (text, want) in [
            ("Object{}", "Object"),
            ("Object.spec{}", "Object.spec"),
            ("[JSONPatch{op: 'test'}]", "list(JSONPatch)"),
            ("object.x ? [JSONPatch{op: 'test'}] : []", "list(JSONPatch)"),
            ("[JSONPatch{op: 'test'}] + [JSONPatch{op: 'add'}]", "list(JSONPatch)"),
            ("[]", "list(dyn)"),
            ("[1]", "list(int)"),
            ("1", "int"),
            ("object.x ? Object{} : Object{}", "Object"),
            ("object.x", "dyn"),
        ] {
            assert_eq!(compiled(text).unwrap().result_type, want, "{text}");
        }
    }

    #[test]
    fn mistakes() {
        for (text, want) in [
            ("Invalid{}", "undeclared reference to 'Invalid'"),
            ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
            ("JSONPatch{x: 1}", "undefined field 'x'"),
            ("Object{spec: none}", "undeclared reference to 'none'"),
        ] {
            let why = compiled(text).unwrap_err();
            assert!(why.contains(want), "{text}: {why}");
        }
        let elsewhere = Expression::compile("Object{}", &BTreeMap::new()).unwrap_err();
        assert!(elsewhere.contains("undeclared reference to 'Object'"), "{elsewhere}");
    }
}
