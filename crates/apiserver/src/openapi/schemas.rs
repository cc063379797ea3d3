//! `components.schemas`: built-in kinds from the schema table, custom kinds from their CRDs.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_patch::{
    builtin,
    schema::{Element, Field, Form, ListType, Schema, SchemaId, Type},
};
use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use crate::{registry::Resource, schema::OBJECT_META};

/// Schemas by name; what they refer to is added at the end.
pub(super) struct Schemas {
    texts: Arc<Descriptions>,
    out: Map<String, Value>,
    wanted: Vec<SchemaId>,
    seen: BTreeSet<SchemaId>,
}

const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// Descriptions of the fields that every custom kind has, as a kube-apiserver publishes them.
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should \
    convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this \
    from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Place of schemas in a document.
const REFERENCE: &str = "#/components/schemas/";

fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

impl Schemas {
    pub(super) fn new(texts: Arc<Descriptions>) -> Self {
        Self { texts, out: Map::new(), wanted: Vec::new(), seen: BTreeSet::new() }
    }

    /// Adds the schema of a resource's kind.
    pub(super) fn add(&mut self, resource: &Resource) {
        match resource.custom() {
            None => self.want(builtin::table().kind(&resource.group, &resource.version, &resource.kind)),
            Some(custom) => {
                let mut reversed: Vec<&str> = resource.group.split('.').rev().collect();
                reversed.push(&resource.version);
                let base = reversed.join(".");
                let name = format!("{base}.{}", resource.kind);
                let gvk = |kind: &str| json!([{"group": resource.group, "version": resource.version, "kind": kind}]);
                let mut schema: Value = serde_json::from_str(&custom.schema.open_api).unwrap_or_default();
                schema["x-kubernetes-group-version-kind"] = gvk(&resource.kind);
                let texts = [("apiVersion", API_VERSION), ("kind", KIND)];
                for (field, description) in texts {
                    schema["properties"][field] = json!({"type": "string", "description": description});
                }
                schema["properties"]["metadata"] = json!({
                    "description": METADATA, "allOf": [reference(OBJECT_META)],
                });
                self.out.insert(name.clone(), schema);
                let list = json!({
                    "type": "object", "required": ["items"], "x-kubernetes-group-version-kind": gvk(&resource.list_kind),
                    "properties": {
                        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": reference(LIST_META),
                        "items": {"type": "array", "items": reference(&name)},
                    },
                });
                self.out.insert(format!("{base}.{}", resource.list_kind), list);
                self.want(builtin::table().named(OBJECT_META));
                self.want(builtin::table().named(LIST_META));
            }
        }
    }

    /// Adds a schema of a kind of which nothing is stored.
    pub(super) fn add_published(&mut self, name: &str, schema: &Value) {
        self.want_references(schema);
        self.out.insert(name.to_owned(), schema.clone());
    }

    fn want_references(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix(REFERENCE)) {
                    self.want(builtin::table().named(name));
                }
                map.values().for_each(|value| self.want_references(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.want_references(value)),
            _ => {}
        }
    }

    fn want(&mut self, id: Option<SchemaId>) {
        if let Some(id) = id.filter(|id| self.seen.insert(*id)) {
            self.wanted.push(id);
        }
    }

    /// All schemas, with all that they refer to.
    pub(super) fn finish(mut self) -> Value {
        while let Some(id) = self.wanted.pop() {
            let schema = builtin::table().get(id);
            let value = self.schema(schema);
            self.out.insert(schema.name.clone(), value);
        }
        Value::Object(self.out)
    }

    fn schema(&mut self, schema: &Schema) -> Value {
        let mut out = match schema.form {
            Form::Object => json!({"type": "object"}),
            Form::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            Form::IntOrString => json!({"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"}),
            Form::Time | Form::MicroTime => json!({"type": "string", "format": "date-time"}),
            Form::AnyObject => json!({"type": "object"}),
            Form::Any => json!({}),
        };
        if let Some(text) = self.texts.of(&schema.name, "") {
            out["description"] = json!(text);
        }
        if schema.form == Form::Object {
            let texts = self.texts.clone();
            let fields = schema.fields.iter();
            let properties: Map<String, Value> =
                fields.map(|(name, field)| (name.clone(), self.field(field, texts.of(&schema.name, name)))).collect();
            if !properties.is_empty() {
                out["properties"] = Value::Object(properties);
            }
        }
        if !schema.required.is_empty() {
            out["required"] = json!(schema.required);
        }
        if !schema.kinds.is_empty() {
            let kinds = schema.kinds.iter().map(|k| json!({"group": k.group, "version": k.version, "kind": k.kind}));
            out["x-kubernetes-group-version-kind"] = kinds.collect();
        }
        if schema.preserve_unknown {
            out["x-kubernetes-preserve-unknown-fields"] = json!(true);
        }
        out
    }

    fn field(&mut self, field: &Field, text: Option<&str>) -> Value {
        let mut out = self.element(&field.element);
        if out.get("$ref").is_some() && (text.is_some() || field.element.default.is_some()) {
            out = json!({"allOf": [out]});
        }
        if let Some(text) = text {
            out["description"] = json!(text);
        }
        if let Some(default) = &field.element.default {
            out["default"] = default.clone();
        }
        let strategy = field.strategy;
        let mut words = Vec::new();
        for (on, word) in
            [(strategy.merge, "merge"), (strategy.replace, "replace"), (strategy.retain_keys, "retainKeys")]
        {
            if on {
                words.push(word);
            }
        }
        if !words.is_empty() {
            out["x-kubernetes-patch-strategy"] = json!(words.join(","));
        }
        if let Some(key) = &field.merge_key {
            out["x-kubernetes-patch-merge-key"] = json!(key);
        }
        out
    }

    fn element(&mut self, element: &Element) -> Value {
        let mut out = match &element.ty {
            Type::String => json!({"type": "string"}),
            Type::Boolean => json!({"type": "boolean"}),
            Type::Integer { bits } => json!({"type": "integer", "format": format!("int{bits}")}),
            Type::Number => json!({"type": "number", "format": "double"}),
            Type::Bytes => json!({"type": "string", "format": "byte"}),
            Type::Schema { id, atomic } => {
                self.want(Some(*id));
                let out = reference(&builtin::table().get(*id).name);
                if *atomic { json!({"allOf": [out], "x-kubernetes-map-type": "atomic"}) } else { out }
            }
            Type::List { item, list } => {
                let mut out = json!({"type": "array", "items": self.element(item)});
                let (kind, keys) = match list {
                    ListType::Atomic => ("atomic", None),
                    ListType::Set => ("set", None),
                    ListType::Map(keys) => ("map", Some(keys)),
                };
                out["x-kubernetes-list-type"] = json!(kind);
                if let Some(keys) = keys {
                    out["x-kubernetes-list-map-keys"] = json!(keys);
                }
                out
            }
            Type::Map { value, atomic } => {
                let mut out = json!({"type": "object", "additionalProperties": self.element(value)});
                if *atomic {
                    out["x-kubernetes-map-type"] = json!("atomic");
                }
                out
            }
            #[allow(unreachable_patterns, reason = "types that say nothing more")]
            _ => json!({}),
        };
        if !element.allowed.is_empty() {
            out["enum"] = json!(element.allowed);
        }
        out
    }
}
