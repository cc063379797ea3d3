//! Check that a schema is structural, with the messages of a kube-apiserver.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    list_type,
    node::{Additional, JsonType, Node},
    prune, validate,
};
use crate::error::FieldError;

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

#[derive(Clone, Copy)]
struct Way {
    /// Inside `metadata`, `apiVersion` or `kind` of an object.
    in_metadata: bool,
    /// Reason why a default is forbidden here.
    no_default: Option<&'static str>,
}

/// Returns all mistakes, sorted by text.
pub(super) fn check(root: &Node, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if root.nullable {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    invariants(root, Level::Root, path, &mut errors);
    complete(root, Some(root), path, path, &mut errors);
    if errors.is_empty() {
        defaults(root, path, &mut errors);
    }
    extensions(root, path, true, Way { in_metadata: false, no_default: None }, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors.dedup();
    errors
}

fn invariants(node: &Node, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    if node.ty == Some(JsonType::Array) && node.items.is_none() {
        errors.push(FieldError::required(at("items"), "must be specified"));
    }
    if let Some(items) = &node.items {
        invariants(items, Level::Item, &at("items"), errors);
    }
    for (name, property) in &node.properties {
        invariants(property, Level::Field, &at(&format!("properties[{name}]")), errors);
    }
    if let Some(additional) = &node.additional {
        if level == Level::Root {
            errors.push(FieldError::forbidden(at("additionalProperties"), "must not be used at the root"));
        }
        if let Additional::Of(values) = additional {
            invariants(values, Level::Field, &at("additionalProperties"), errors);
        }
    }
    if node.int_or_string && node.preserve_unknown {
        let field = at("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, &json!(true), "must be false if x-kubernetes-int-or-string is true"));
    }
    if node.int_or_string && node.embedded {
        let field = at("x-kubernetes-embedded-resource");
        errors.push(FieldError::invalid(field, &json!(true), "must be false if x-kubernetes-int-or-string is true"));
    }
    let (any_of, first_all_of) = (is_int_or_string(&node.checks.any_of), node.checks.all_of.first());
    let first_all_of = first_all_of.is_some_and(|first| is_int_or_string(&first.checks.any_of));
    junctors(node, any_of, first_all_of, path, errors);
    type_of(node, level, path, errors);
    metadata(node, level, path, errors);
    if node.embedded && node.additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(at("additionalProperties"), detail));
    }
    if node.embedded && !node.preserve_unknown && node.properties.is_empty() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(at("properties"), detail));
    }
}

fn type_of(node: &Node, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.type");
    match node.ty {
        Some(JsonType::Object) => {}
        Some(ty) if node.embedded => {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            errors.push(FieldError::invalid(&field, &json!(ty.as_str()), detail));
        }
        None if node.embedded => {
            errors.push(FieldError::required(&field, "must be object if x-kubernetes-embedded-resource is true"));
        }
        None if !node.int_or_string && !node.preserve_unknown => {
            let detail = match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            errors.push(FieldError::required(&field, detail));
        }
        _ => {}
    }
    if let (Level::Root, Some(ty)) = (level, node.ty.filter(|ty| *ty != JsonType::Object)) {
        errors.push(FieldError::invalid(field, &json!(ty.as_str()), "must be object at the root"));
    }
}

fn metadata(node: &Node, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let is_object = level == Level::Root || node.embedded;
    let name_of = |node: &Node| json!(node.ty.map_or("", JsonType::as_str));
    if is_object {
        for name in ["kind", "apiVersion"] {
            if let Some(node) = node.properties.get(name).filter(|node| node.ty != Some(JsonType::String)) {
                let field = format!("{path}.properties[{name}].type");
                errors.push(FieldError::invalid(field, &name_of(node), "must be string"));
            }
        }
    }
    let Some(metadata) = node.properties.get("metadata") else { return };
    let field = format!("{path}.properties[metadata]");
    if is_object && metadata.ty != Some(JsonType::Object) {
        errors.push(FieldError::invalid(format!("{field}.type"), &name_of(metadata), "must be object"));
    }
    let names_only = metadata.properties.keys().all(|name| name == "name" || name == "generateName");
    if level == Level::Root && !(names_only && has_no_constraints(metadata)) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(field, detail));
    }
}

fn has_no_constraints(node: &Node) -> bool {
    let checks = &node.checks;
    !node.nullable
        && node.additional.is_none()
        && node.items.is_none()
        && !node.preserve_unknown
        && !node.embedded
        && !node.int_or_string
        && node.list_type.is_none()
        && node.list_keys.is_empty()
        && node.map_type.is_none()
        && node.rules.is_empty()
        && !node.titled
        && !node.described
        && has_no_checks(checks)
}

fn has_no_checks(checks: &super::node::Checks) -> bool {
    checks.format.is_none()
        && [checks.maximum, checks.minimum, checks.multiple_of].iter().all(Option::is_none)
        && [checks.max_length, checks.min_length, checks.max_items, checks.min_items].iter().all(Option::is_none)
        && [checks.max_properties, checks.min_properties].iter().all(Option::is_none)
        && checks.pattern.is_none()
        && checks.required.is_empty()
        && checks.allowed.is_empty()
        && [&checks.all_of, &checks.any_of, &checks.one_of].iter().all(|nodes| nodes.is_empty())
        && checks.not.is_none()
}

/// `anyOf: [{type: integer}, {type: string}]`: the one junctor that may name types.
fn is_int_or_string(any_of: &[Node]) -> bool {
    let [a, b] = any_of else { return false };
    let bare = |node: &Node| node.properties.is_empty() && node.default.is_none() && has_no_constraints(node);
    bare(a) && bare(b) && a.ty == Some(JsonType::Integer) && b.ty == Some(JsonType::String)
}

fn junctors(node: &Node, skip_any_of: bool, skip_first_all_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    let checks = &node.checks;
    if !skip_any_of {
        for (i, below) in checks.any_of.iter().enumerate() {
            nested(below, false, &format!("{path}.anyOf[{i}]"), errors);
        }
    }
    for (i, below) in checks.all_of.iter().enumerate() {
        nested(below, skip_first_all_of && i == 0, &format!("{path}.allOf[{i}]"), errors);
    }
    for (i, below) in checks.one_of.iter().enumerate() {
        nested(below, false, &format!("{path}.oneOf[{i}]"), errors);
    }
    if let Some(not) = &checks.not {
        nested(not, false, &format!("{path}.not"), errors);
    }
}

/// Checks that a node inside a junctor only narrows the declaration outside.
fn nested(node: &Node, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    junctors(node, skip_any_of, false, path, errors);
    if let Some(items) = &node.items {
        nested(items, false, &format!("{path}.items"), errors);
    }
    for (name, property) in &node.properties {
        nested(property, false, &format!("{path}.properties[{name}]"), errors);
    }
    let additional = matches!(node.additional, Some(Additional::Of(_) | Additional::Any(true)));
    for (found, name, detail) in [
        (node.ty.is_some(), "type", "must be empty to be structural"),
        (additional, "additionalProperties", "must be undefined to be structural"),
        (node.default.is_some(), "default", "must be undefined to be structural"),
        (node.titled, "title", "must be empty to be structural"),
        (node.described, "description", "must be empty to be structural"),
        (node.nullable, "nullable", "must be false to be structural"),
        (node.preserve_unknown, "x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        (node.embedded, "x-kubernetes-embedded-resource", "must be false to be structural"),
        (node.int_or_string, "x-kubernetes-int-or-string", "must be false to be structural"),
        (!node.list_keys.is_empty(), "x-kubernetes-list-map-keys", "must be empty to be structural"),
        (node.list_type.is_some(), "x-kubernetes-list-type", "must be undefined to be structural"),
        (node.map_type.is_some(), "x-kubernetes-map-type", "must be undefined to be structural"),
        (!node.rules.is_empty(), "x-kubernetes-validations", "must be empty to be structural"),
        (node.properties.contains_key("metadata"), "properties[metadata]", "must not be specified in a nested context"),
    ] {
        if found {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
}

/// Checks that everything inside a junctor is declared outside of it. `declared` is the counterpart outside.
fn complete(checks: &Node, declared: Option<&Node>, outside: &str, path: &str, errors: &mut Vec<FieldError>) {
    let junctors = checks.checks.all_of.iter().enumerate().map(|(i, node)| (node, format!("{path}.allOf[{i}]")));
    let any_of = checks.checks.any_of.iter().enumerate().map(|(i, node)| (node, format!("{path}.anyOf[{i}]")));
    let one_of = checks.checks.one_of.iter().enumerate().map(|(i, node)| (node, format!("{path}.oneOf[{i}]")));
    let not = checks.checks.not.iter().map(|node| (&**node, format!("{path}.not")));
    for (node, path) in junctors.chain(any_of).chain(one_of).chain(not) {
        complete_nested(node, declared, outside, &path, errors);
    }
}

fn complete_nested(node: &Node, declared: Option<&Node>, outside: &str, path: &str, errors: &mut Vec<FieldError>) {
    let Some(known) = declared else {
        errors.push(FieldError::required(outside, &format!("because it is defined in {path}")));
        return;
    };
    complete(node, declared, outside, path, errors);
    if let Some(items) = &node.items {
        let below = (format!("{outside}.items"), format!("{path}.items"));
        complete_nested(items, known.items.as_deref(), &below.0, &below.1, errors);
    }
    for (name, property) in &node.properties {
        let below = (format!("{outside}.properties[{name}]"), format!("{path}.properties[{name}]"));
        complete_nested(property, known.property(name), &below.0, &below.1, errors);
    }
}

/// Checks that defaults are valid and have no unknown fields.
fn defaults(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        let field = format!("{path}.default");
        let mut pruned = default.clone();
        if !prune::prune_inside(&mut pruned, node).is_empty() {
            errors.push(FieldError::invalid(&field, default, "must not have unknown fields"));
        }
        let mut found = validate::validate(node, default, None);
        found.extend(list_type::validate(node, default));
        for error in found {
            let below = if error.field == "<nil>" { String::new() } else { format!(".{}", error.field) };
            errors.push(FieldError { field: format!("{field}{below}"), ..error });
        }
    }
    if let Some(items) = &node.items {
        defaults(items, &format!("{path}.items"), errors);
    }
    for (name, property) in &node.properties {
        defaults(property, &format!("{path}.properties[{name}]"), errors);
    }
}

/// Checks extensions that exclude one another, and the form of rules, as the validation of CRDs does.
fn extensions(node: &Node, path: &str, is_root: bool, way: Way, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    if let (Some(reason), true) = (way.no_default, node.default.is_some()) {
        errors.push(FieldError::forbidden(at("default"), &format!("must not be set {reason}")));
    }
    if way.in_metadata && node.embedded {
        let field = at("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(field, "must not be used inside of resource meta"));
    }
    if node.checks.unique_items {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(at("uniqueItems"), detail));
    }
    if !node.properties.is_empty() && matches!(node.additional, Some(Additional::Of(_) | Additional::Any(false))) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(at("additionalProperties"), detail));
    }
    map_type(node, path, errors);
    list(node, path, errors);
    rules(node, path, errors);
    if let Some(Additional::Of(values)) = &node.additional {
        let inside = "inside additionalProperties applying to object metadata";
        let way = if way.in_metadata { Way { no_default: Some(inside), ..way } } else { way };
        extensions(values, &at("additionalProperties"), false, way, errors);
    }
    for (name, property) in &node.properties {
        let below = match name.as_str() {
            "metadata" | "kind" | "apiVersion" if is_root || node.embedded => Way {
                in_metadata: true,
                no_default: match name.as_str() {
                    _ if !is_root => way.no_default,
                    "metadata" => Some("in top-level metadata"),
                    "kind" => Some("in top-level kind"),
                    _ => Some("in top-level apiVersion"),
                },
            },
            _ => way,
        };
        extensions(property, &at(&format!("properties[{name}]")), false, below, errors);
    }
    if let Some(items) = &node.items {
        extensions(items, &at("items"), false, way, errors);
    }
}

fn map_type(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map_type) = &node.map_type else { return };
    let detail = "must be object if x-kubernetes-map-type is specified";
    match node.ty {
        Some(JsonType::Object) => {}
        None => errors.push(FieldError::required(format!("{path}.type"), detail)),
        Some(ty) => errors.push(FieldError::invalid(format!("{path}.type"), &json!(ty.as_str()), detail)),
    }
    if map_type != "atomic" && map_type != "granular" {
        let field = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(field, &json!(map_type), &["atomic", "granular"]));
    }
}

fn list(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    let list_type = node.list_type.as_deref();
    let keys = json!(node.list_keys);
    if !node.list_keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let field = at("x-kubernetes-list-type");
        errors.push(match list_type {
            None => FieldError::required(field, detail),
            Some(other) => FieldError::invalid(field, &json!(other), detail),
        });
    }
    let Some(list_type) = list_type else { return };
    let item = node.items.as_deref();
    match node.ty {
        Some(JsonType::Array) => {
            if let ("set", Some(item)) = (list_type, item) {
                set_items(item, &at("items"), errors);
            }
        }
        None => errors.push(FieldError::required(at("type"), "must be array if x-kubernetes-list-type is specified")),
        Some(ty) => {
            let detail = "must be array if x-kubernetes-list-type is specified";
            errors.push(FieldError::invalid(at("type"), &json!(ty.as_str()), detail));
        }
    }
    if !["atomic", "set", "map"].contains(&list_type) {
        let field = at("x-kubernetes-list-type");
        errors.push(FieldError::not_supported(field, &json!(list_type), &["atomic", "set", "map"]));
    }
    if list_type != "map" {
        return;
    }
    if node.list_keys.is_empty() {
        let field = at("x-kubernetes-list-map-keys");
        errors.push(FieldError::required(field, "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(item) = item else {
        errors.push(FieldError::required(at("items"), "must have a schema if x-kubernetes-list-type is map"));
        return;
    };
    if item.ty != Some(JsonType::Object) {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(at("items.type"), &json!(item.ty.map_or("", JsonType::as_str)), detail));
        return;
    }
    let mut seen = BTreeSet::new();
    for key in &node.list_keys {
        match item.properties.get(key) {
            Some(property) => {
                if matches!(property.ty, Some(JsonType::Array | JsonType::Object)) {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    errors.push(FieldError::invalid(
                        at(&format!("items.properties[{key}].type")),
                        &json!("object"),
                        detail,
                    ));
                }
                if property.nullable {
                    let field = at(&format!("items.properties[{key}].nullable"));
                    let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    errors.push(FieldError::forbidden(field, detail));
                }
                if property.default.is_none() && !item.checks.required.contains(key) {
                    let field = at(&format!("items.properties[{key}].default"));
                    let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    errors.push(FieldError::required(field, detail));
                }
            }
            None => {
                let field = at("x-kubernetes-list-map-keys");
                errors.push(FieldError::invalid(field, &keys, "entries must all be names of item properties"));
            }
        }
        if !seen.insert(key) {
            let field = at("x-kubernetes-list-map-keys");
            errors.push(FieldError::invalid(field, &keys, "must not contain duplicate entries"));
        }
    }
}

fn set_items(item: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let value = item.list_type.as_deref().map_or(Value::Null, Value::from);
    match item.ty {
        Some(JsonType::Array) if item.list_type.as_deref().is_some_and(|list_type| list_type != "atomic") => {
            errors.push(FieldError::invalid(format!("{path}.x-kubernetes-list-type"), &value, detail));
        }
        Some(JsonType::Object) if item.map_type.as_deref() != Some("atomic") => {
            errors.push(FieldError::invalid(format!("{path}.x-kubernetes-map-type"), &value, detail));
        }
        _ => {}
    }
}

fn rules(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    for (i, rule) in node.rules.iter().enumerate() {
        let at = |name: &str| format!("{path}.x-kubernetes-validations[{i}].{name}");
        let (text, message) = (rule.rule.trim(), rule.message.as_deref().unwrap_or_default());
        if text.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(at("message"), &json!(message), "must be non-empty if specified"));
        } else if message.trim().contains(['\n', '\r']) {
            errors.push(FieldError::invalid(at("message"), &json!(message), "must not contain line breaks"));
        } else if text.contains(['\n', '\r']) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        let expression = rule.message_expression.as_deref().unwrap_or_default();
        if !expression.is_empty() && expression.trim().is_empty() {
            errors.push(FieldError::required(
                at("messageExpression"),
                "messageExpression must be non-empty if specified",
            ));
        }
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(at("reason"), &json!(reason), &REASONS));
        }
        let field_path = rule.field_path.as_deref().unwrap_or_default();
        if !field_path.is_empty() && field_path.trim().is_empty() {
            errors.push(FieldError::invalid(at("fieldPath"), &json!(field_path), "must be non-empty if specified"));
        }
        if field_path.contains(['\n', '\r']) {
            errors.push(FieldError::invalid(at("fieldPath"), &json!(field_path), "must not contain line breaks"));
        }
    }
}
