//! Conversion of a structural schema to a [`Table`], so that decoding and apply handle one form only.

use std::collections::BTreeMap;

use super::node::{Additional, JsonType, Node};
use crate::{
    builtin,
    schema::{Element, Field, Form, Gvk, ListType, Printed, Schema, SchemaId, Strategy, Table, Type},
};

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

pub(super) fn to_table(root: &Node, kind: &Gvk) -> (Table, SchemaId) {
    let mut builder = Builder { table: Table::default(), copied: BTreeMap::new() };
    let id = builder.object(root, true);
    let schema = builder.table.get(id).clone();
    builder.table.fill(id, Schema { name: kind.kind.clone(), kinds: vec![kind.clone()], ..schema });
    (builder.table, id)
}

struct Builder {
    table: Table,
    /// Copied built-in schemas by their id in the built-in table.
    copied: BTreeMap<SchemaId, SchemaId>,
}

impl Builder {
    fn object(&mut self, node: &Node, is_root: bool) -> SchemaId {
        let id = self.table.reserve("");
        let mut schema = Schema { preserve_unknown: node.preserve_unknown, ..Schema::empty("") };
        for (name, property) in &node.properties {
            schema.fields.insert(name.clone(), field(self.element(property)));
        }
        schema.required.clone_from(&node.checks.required);
        if is_root || node.embedded {
            for name in ["apiVersion", "kind"] {
                schema.fields.insert(name.to_owned(), field(Element::of(Type::String)));
            }
            if let Some(metadata) = builtin::table().named(METADATA) {
                let id = self.copy(metadata);
                schema.fields.insert("metadata".to_owned(), field(Element::of(Type::Schema { id, atomic: false })));
            }
        }
        self.table.fill(id, schema);
        id
    }

    fn element(&mut self, node: &Node) -> Element {
        Element { ty: self.ty(node), allowed: Vec::new(), default: node.default.clone(), nullable: node.nullable }
    }

    fn ty(&mut self, node: &Node) -> Type {
        let atomic = node.map_type.as_deref() == Some("atomic");
        match (node.ty, &node.additional) {
            _ if node.int_or_string => Type::Any,
            (Some(JsonType::Object), Some(Additional::Of(values))) if node.properties.is_empty() => {
                Type::Map { value: Box::new(self.element(values)), atomic }
            }
            (Some(JsonType::Object), Some(Additional::Any(true))) if node.properties.is_empty() => {
                Type::Map { value: Box::new(Element::of(Type::Any)), atomic }
            }
            (Some(JsonType::Object), _) => Type::Schema { id: self.object(node, false), atomic },
            (Some(JsonType::Array), _) => {
                let item = node.items.as_ref().map_or_else(|| Element::of(Type::Any), |item| self.element(item));
                let list = match node.list_type.as_deref() {
                    Some("set") => ListType::Set,
                    Some("map") => ListType::Map(node.list_keys.clone()),
                    _ => ListType::Atomic,
                };
                Type::List { item: Box::new(item), list }
            }
            (Some(JsonType::String), _) => Type::String,
            (Some(JsonType::Boolean), _) => Type::Boolean,
            (Some(JsonType::Integer), _) => Type::Integer { bits: 64 },
            (Some(JsonType::Number), _) => Type::Number,
            (None, _) => Type::Any,
        }
    }

    fn copy(&mut self, from: SchemaId) -> SchemaId {
        if let Some(id) = self.copied.get(&from) {
            return *id;
        }
        let mut schema = builtin::table().get(from).clone();
        let id = self.table.reserve(&schema.name);
        self.copied.insert(from, id);
        if schema.form == Form::Object {
            for field in schema.fields.values_mut() {
                self.renumber(&mut field.element.ty);
            }
        }
        self.table.fill(id, schema);
        id
    }

    fn renumber(&mut self, ty: &mut Type) {
        match ty {
            Type::Schema { id, .. } => *id = self.copy(*id),
            Type::List { item, .. } => self.renumber(&mut item.ty),
            Type::Map { value, .. } => self.renumber(&mut value.ty),
            _ => {}
        }
    }
}

fn field(element: Element) -> Field {
    Field { element, strategy: Strategy::default(), merge_key: None, printed: Printed::IfGiven, description: None }
}
