//! Converts the schemas that schemars derives into structural schemas of a CRD.
//!
//! Structural means no references, no `oneOf` for enums, and one type each. specification/api.md also demands: no
//! defaults but the marked ones, nothing nullable, no unsigned formats, and embedded Kubernetes types as Kubernetes
//! publishes them, without descriptions.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::embedded;
use crate::schema::Kind;

/// Attribute of a field whose default the CRD contains (specification/api.md 19 lists them all). Admission sets all
/// other defaults.
const DEFAULT_MARKER: &str = "x-ironclad-default";
/// Prefix of references in derived schemas.
const DEFINITIONS: &str = "#/$defs/";
/// Deepest nesting of a schema. Our types are finite; a cycle ends in a message instead of a stack overflow.
const DEPTH_MAX: usize = 40;

/// The schema of a whole object.
pub(super) fn root_schema<K: Kind>() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut properties = json!({
        "apiVersion": { "type": "string", "description": "Group and version of the object." },
        "kind": { "type": "string", "description": "Kind of the object." },
        "metadata": { "type": "object" },
    });
    let mut required = Vec::new();
    for member in K::MEMBERS {
        let derived = (member.schema)(&mut generator).to_value();
        properties[member.name] = Transform { generator: &generator }.schema(&derived, DEPTH_MAX);
        if member.required {
            required.push(member.name);
        }
    }
    let mut schema = json!({
        "type": "object",
        "description": paragraph(K::DESCRIPTION),
        "properties": properties,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

struct Transform<'a> {
    generator: &'a SchemaGenerator,
}

impl Transform<'_> {
    fn schema(&self, derived: &Value, depth: usize) -> Value {
        assert!(depth > 0, "the types of this crate do not nest without end");
        let Some(derived) = derived.as_object() else { return json!({}) };
        let mut schema = self.base(derived, depth);
        for (keyword, value) in derived {
            match keyword.as_str() {
                "$ref" | "default" | "nullable" | "title" => {}
                "anyOf" | "oneOf" if !derived.contains_key("x-kubernetes-int-or-string") => {}
                DEFAULT_MARKER => {
                    schema.insert("default".to_owned(), value.clone());
                }
                "description" => {
                    let text = paragraph(value.as_str().unwrap_or_default());
                    schema.insert(keyword.clone(), text.into());
                }
                "const" => {
                    schema.insert("enum".to_owned(), json!([value]));
                }
                "type" => {
                    schema.insert(keyword.clone(), without_null(value));
                }
                "properties" => {
                    let properties = value.as_object().into_iter().flatten();
                    let properties = properties.map(|(name, of)| (name.clone(), self.schema(of, depth - 1)));
                    schema.insert(keyword.clone(), Value::Object(properties.collect()));
                }
                "items" | "additionalProperties" if value.is_object() => {
                    schema.insert(keyword.clone(), self.schema(value, depth - 1));
                }
                "required" => {
                    schema.insert(keyword.clone(), sorted(value));
                }
                _ => {
                    schema.insert(keyword.clone(), value.clone());
                }
            }
        }
        if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            schema.remove("format");
            schema.remove("minimum");
        }
        Value::Object(schema)
    }

    /// The schema that it refers to or selects; its own keywords are added to that.
    fn base(&self, derived: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        let object = |value| match value {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        if let Some(reference) = derived.get("$ref").and_then(Value::as_str) {
            return object(self.resolve(reference, depth - 1));
        }
        if derived.contains_key("x-kubernetes-int-or-string") {
            return Map::new();
        }
        let choice = derived.get("anyOf").or_else(|| derived.get("oneOf")).and_then(Value::as_array);
        let Some(choice) = choice else { return Map::new() };
        // An optional field: its type, or null.
        let mut types = choice.iter().filter(|of| of.get("type") != Some(&json!("null")));
        if let (Some(only), None) = (types.next(), types.next())
            && choice.len() == 2
        {
            return object(self.schema(only, depth - 1));
        }
        // An enum whose variants have descriptions.
        let names: Vec<&Value> = choice.iter().filter_map(|of| of.get("const")).collect();
        assert_eq!(names.len(), choice.len(), "the only choices in our types are optional fields and plain enums");
        object(json!({ "type": "string", "enum": names }))
    }

    fn resolve(&self, reference: &str, depth: usize) -> Value {
        let name = reference.strip_prefix(DEFINITIONS).or_else(|| reference.strip_prefix(embedded::PREFIX));
        let name = name.expect("references are to definitions");
        if name.starts_with("io.k8s.") {
            let published = embedded::schema(name);
            let published = published.unwrap_or_else(|| panic!("data/embedded-schemas.json lacks {name}"));
            return self.schema(published, depth);
        }
        let defined = self.generator.definitions().get(name).expect("the generator defines what it refers to");
        self.schema(defined, depth)
    }
}

/// `["string", "null"]` is a string.
fn without_null(type_: &Value) -> Value {
    match type_.as_array() {
        Some(types) => types.iter().find(|of| *of != "null").cloned().unwrap_or(Value::Null),
        None => type_.clone(),
    }
}

fn sorted(names: &Value) -> Value {
    let mut names: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.sort_unstable();
    json!(names)
}

/// A doc comment without line breaks inside paragraphs.
fn paragraph(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}
