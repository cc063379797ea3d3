//! Parsing of a schema's JSON into nodes.

use serde_json::{Map, Value};

use super::{
    DEPTH_MAX, NODES_MAX,
    format::Format,
    node::{Additional, Checks, JsonType, Node, Rule},
    pattern::Pattern,
};
use crate::error::FieldError;

/// Members of OpenAPI schemas that Kubernetes refuses.
const UNSUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

struct Parser {
    errors: Vec<FieldError>,
    nodes: usize,
}

pub(super) fn parse(schema: &Value, path: &str) -> Result<Node, Vec<FieldError>> {
    let mut parser = Parser { errors: Vec::new(), nodes: 0 };
    let node = parser.node(schema, path, 0);
    if parser.errors.is_empty() {
        return Ok(node);
    }
    parser.errors.sort();
    Err(parser.errors)
}

impl Parser {
    fn node(&mut self, schema: &Value, path: &str, depth: usize) -> Node {
        self.nodes += 1;
        if depth > DEPTH_MAX || self.nodes > NODES_MAX {
            if self.nodes != usize::MAX {
                let detail = format!("a schema may have {NODES_MAX} nodes and nest {DEPTH_MAX} levels deep: split it");
                self.errors.push(FieldError::forbidden(path, &detail));
            }
            // One error is enough: skip the rest.
            self.nodes = usize::MAX - 1;
            return Node::default();
        }
        let Value::Object(schema) = schema else {
            self.errors.push(FieldError::invalid(path, schema, "must be a schema object"));
            return Node::default();
        };
        for name in UNSUPPORTED.into_iter().filter(|name| schema.get(*name).is_some_and(|value| !is_nothing(value))) {
            self.errors.push(FieldError::forbidden(format!("{path}.{name}"), &format!("{name} is not supported")));
        }
        let mut node = Node {
            ty: self.ty(schema, path),
            nullable: truth(schema, "nullable"),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            preserve_unknown: self.preserve_unknown(schema, path),
            embedded: truth(schema, "x-kubernetes-embedded-resource"),
            int_or_string: truth(schema, "x-kubernetes-int-or-string"),
            list_type: text(schema, "x-kubernetes-list-type"),
            list_keys: texts(schema, "x-kubernetes-list-map-keys"),
            map_type: text(schema, "x-kubernetes-map-type"),
            titled: text(schema, "title").is_some(),
            described: text(schema, "description").is_some(),
            rules: list(schema, "x-kubernetes-validations").map(rule).collect(),
            ..Node::default()
        };
        node.checks = self.checks(schema, node.ty, node.int_or_string, path, depth);
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, property) in properties {
                let below = self.node(property, &format!("{path}.properties[{name}]"), depth + 1);
                node.properties.insert(name.clone(), Box::new(below));
            }
        }
        match schema.get("items") {
            None | Some(Value::Null) => {}
            Some(Value::Array(_)) => {
                let field = format!("{path}.items");
                self.errors.push(FieldError::forbidden(field, "items must be a schema object and not an array"));
            }
            Some(items) => node.items = Some(Box::new(self.node(items, &format!("{path}.items"), depth + 1))),
        }
        node.additional = match schema.get("additionalProperties") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(allowed)) => Some(Additional::Any(*allowed)),
            Some(values) => {
                let below = self.node(values, &format!("{path}.additionalProperties"), depth + 1);
                Some(Additional::Of(Box::new(below)))
            }
        };
        node
    }

    fn ty(&mut self, schema: &Map<String, Value>, path: &str) -> Option<JsonType> {
        let name = text(schema, "type")?;
        let found = JsonType::ALL.iter().find(|(word, _)| *word == name).map(|(_, ty)| *ty);
        if found.is_none() {
            let field = format!("{path}.type");
            if name == "null" {
                let detail = "type cannot be set to null, use nullable as an alternative";
                self.errors.push(FieldError::forbidden(&field, detail));
            }
            let words = JsonType::ALL.map(|(word, _)| word);
            self.errors.push(FieldError::not_supported(field, &Value::from(name), &words));
        }
        found
    }

    fn preserve_unknown(&mut self, schema: &Map<String, Value>, path: &str) -> bool {
        let name = "x-kubernetes-preserve-unknown-fields";
        let value = schema.get(name).filter(|value| !value.is_null());
        if value == Some(&Value::Bool(false)) {
            let field = format!("{path}.{name}");
            self.errors.push(FieldError::invalid(field, &Value::Bool(false), "must be true or undefined"));
        }
        value == Some(&Value::Bool(true))
    }

    fn checks(
        &mut self,
        schema: &Map<String, Value>,
        ty: Option<JsonType>,
        int_or_string: bool,
        path: &str,
        depth: usize,
    ) -> Checks {
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let size = |name: &str| schema.get(name).and_then(Value::as_i64).map(|n| u64::try_from(n).unwrap_or(0));
        let mut junctor = |name: &str| -> Vec<Node> {
            let nodes = list(schema, name).enumerate();
            nodes.map(|(i, below)| self.node(below, &format!("{path}.{name}[{i}]"), depth + 1)).collect()
        };
        let (all_of, any_of, one_of) = (junctor("allOf"), junctor("anyOf"), junctor("oneOf"));
        let not = schema.get("not").filter(|not| !not.is_null());
        let not = not.map(|not| Box::new(self.node(not, &format!("{path}.not"), depth + 1)));
        let pattern = text(schema, "pattern").and_then(|pattern| {
            Pattern::compile(&pattern)
                .map_err(|error| {
                    let detail = format!("must be a valid regular expression, but isn't: {error}");
                    self.errors.push(FieldError::invalid(format!("{path}.pattern"), &Value::from(pattern), &detail));
                })
                .ok()
        });
        // A format has no effect where two types are possible.
        let format = text(schema, "format").filter(|_| !int_or_string).and_then(|name| Format::find(&name, ty));
        Checks {
            format,
            maximum: number("maximum"),
            exclusive_maximum: truth(schema, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: truth(schema, "exclusiveMinimum"),
            max_length: size("maxLength"),
            min_length: size("minLength"),
            pattern,
            max_items: size("maxItems"),
            min_items: size("minItems"),
            unique_items: truth(schema, "uniqueItems"),
            multiple_of: number("multipleOf"),
            max_properties: size("maxProperties"),
            min_properties: size("minProperties"),
            required: texts(schema, "required"),
            allowed: list(schema, "enum").cloned().collect(),
            all_of,
            any_of,
            one_of,
            not,
        }
    }
}

fn rule(value: &Value) -> Rule {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    Rule {
        rule: text("rule").unwrap_or_default(),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: text("reason"),
        field_path: text("fieldPath"),
        optional_old_self: value["optionalOldSelf"].as_bool(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn truth(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn text(schema: &Map<String, Value>, name: &str) -> Option<String> {
    schema.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(schema: &Map<String, Value>, name: &str) -> Vec<String> {
    list(schema, name).filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list<'s>(schema: &'s Map<String, Value>, name: &str) -> impl Iterator<Item = &'s Value> {
    schema.get(name).and_then(Value::as_array).into_iter().flatten()
}
