//! Values with their types: lists and maps that merge, and others that are one leaf.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    path::{Element, Scalar},
    set::Set,
};
use crate::schema::{Field, Form, ListType, Printed, SchemaId, Table, Type};

#[derive(Clone, Copy)]
pub(super) struct Ref<'t> {
    table: &'t Table,
    what: What<'t>,
    /// An enclosing object preserves unknown fields, and so does everything inside it.
    free: bool,
}

#[derive(Clone, Copy)]
enum What<'t> {
    Type(&'t Type),
    Schema(SchemaId, bool),
    /// No schema: objects merge, lists are leaves.
    Deduced,
    /// No schema: everything is a leaf.
    Untyped,
}

/// Forms that a type allows.
struct Atom<'t> {
    scalar: Option<Primitive>,
    list: Option<List<'t>>,
    map: Option<Map<'t>>,
}

/// Form of a value under a type.
pub(super) enum Shape<'t> {
    Scalar(Primitive),
    List(List<'t>),
    Map(Map<'t>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Primitive {
    Numeric,
    String,
    Boolean,
    Untyped,
}

#[derive(Clone, Copy)]
pub(super) struct List<'t> {
    pub(super) item: Ref<'t>,
    pub(super) relation: Relation<'t>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation<'t> {
    Atomic,
    Set,
    Keyed(&'t [String]),
}

#[derive(Clone, Copy)]
pub(super) struct Map<'t> {
    table: &'t Table,
    fields: Option<&'t BTreeMap<String, Field>>,
    /// The type of undeclared members; `None` if none are allowed.
    values: Option<What<'t>>,
    free: bool,
    pub(super) atomic: bool,
}

pub(super) struct Misfit {
    path: String,
    text: String,
}

/// One line for one misfit, a list for several.
pub(super) fn print(misfits: &[Misfit]) -> String {
    let line = |misfit: &Misfit| match misfit.path.as_str() {
        "" => misfit.text.clone(),
        path => format!("{path}: {}", misfit.text),
    };
    match misfits {
        [one] => line(one),
        several => {
            let lines: Vec<String> = several.iter().map(|misfit| format!("  {}", line(misfit))).collect();
            format!("errors:\n{}", lines.join("\n"))
        }
    }
}

impl<'t> Map<'t> {
    pub(super) fn member(&self, name: &str) -> Option<Ref<'t>> {
        let of = |what| Ref { table: self.table, what, free: self.free };
        match self.field(name) {
            Some(field) => Some(of(What::Type(&field.element.ty))),
            None => self.values.map(of),
        }
    }

    fn field(&self, name: &str) -> Option<&'t Field> {
        self.fields.and_then(|fields| fields.get(name))
    }

    pub(super) fn is_field(&self, name: &str) -> bool {
        self.field(name).is_some()
    }
}

impl List<'_> {
    /// Returns the identity of an item among its siblings.
    pub(super) fn element(&self, item: &Value) -> Result<Element, String> {
        match self.relation {
            Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            Relation::Set => match item {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(Element::Member(Scalar(scalar.clone()))),
            },
            Relation::Keyed(keys) => {
                let members = match item {
                    Value::Object(members) => members,
                    Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
                    _ => return Err("associative list with keys may not have non-map elements".to_owned()),
                };
                let mut found: Vec<(String, Scalar)> = keys
                    .iter()
                    .filter_map(|key| {
                        let value = members.get(key).cloned().or_else(|| self.default_of(key))?;
                        Some((key.clone(), Scalar(value)))
                    })
                    .collect();
                if found.is_empty() {
                    let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                        keys.join(" ")
                    ));
                }
                found.sort();
                Ok(Element::Key(found))
            }
        }
    }

    /// The published default of a key. The table leaves out zero values, which are those of fields that are always
    /// printed.
    fn default_of(&self, key: &str) -> Option<Value> {
        let field = self.item.atom().map.and_then(|map| map.field(key))?;
        let zero = || match field.element.ty {
            _ if field.printed != Printed::Always => None,
            Type::String => Some(Value::from("")),
            Type::Integer { .. } => Some(Value::from(0)),
            Type::Boolean => Some(Value::from(false)),
            _ => None,
        };
        field.element.default.clone().or_else(zero)
    }
}

impl<'t> Ref<'t> {
    pub(super) fn of(table: &'t Table, schema: SchemaId) -> Self {
        Self { table, what: What::Schema(schema, false), free: false }
    }

    /// A value of unknown type: objects merge, lists are leaves.
    pub(super) fn deduced(table: &'t Table) -> Self {
        Self { table, what: What::Deduced, free: false }
    }

    /// The type of a member or an item.
    pub(super) fn below(&self, element: &Element) -> Self {
        let atom = self.atom();
        let below = match element {
            Element::Field(name) => atom.map.and_then(|map| map.member(name)),
            Element::Key(_) => atom.list.map(|list| list.item),
            Element::Member(_) | Element::Index(_) => None,
        };
        below.unwrap_or(Self { what: What::Deduced, ..*self })
    }

    /// The member or item of a value.
    pub(super) fn find<'v>(&self, value: Option<&'v Value>, element: &Element) -> Option<&'v Value> {
        match (value?, element) {
            (Value::Object(members), Element::Field(name)) => members.get(name),
            (Value::Array(items), element) => {
                let list = self.atom().list?;
                items.iter().find(|item| list.element(item).as_ref() == Ok(element))
            }
            _ => None,
        }
    }

    /// Returns `true` for an object that has fields rather than keys, as far as is known.
    pub(super) fn is_struct(&self) -> bool {
        let Atom { list, map, .. } = self.atom();
        match (list, map, self.what) {
            (None, Some(map), _) => map.fields.is_some(),
            (Some(_), Some(_), what) => matches!(what, What::Deduced),
            _ => false,
        }
    }

    fn atom(&self) -> Atom<'t> {
        let scalar = |primitive| Atom { scalar: Some(primitive), list: None, map: None };
        match self.what {
            What::Deduced => self.any(What::Deduced, false),
            What::Untyped => self.any(What::Untyped, true),
            What::Schema(id, atomic) => self.schema(id, atomic),
            What::Type(ty) => match ty {
                Type::String | Type::Bytes => scalar(Primitive::String),
                Type::Boolean => scalar(Primitive::Boolean),
                Type::Integer { .. } | Type::Number => scalar(Primitive::Numeric),
                Type::Any => self.any(What::Deduced, false),
                Type::Schema { id, atomic } => self.schema(*id, *atomic),
                Type::List { item, list } => {
                    let relation = match list {
                        ListType::Atomic => Relation::Atomic,
                        ListType::Set => Relation::Set,
                        ListType::Map(keys) => Relation::Keyed(keys),
                    };
                    let item = Ref { what: What::Type(&item.ty), ..*self };
                    Atom { scalar: None, list: Some(List { item, relation }), map: None }
                }
                Type::Map { value, atomic } => self.map_of(None, Some(What::Type(&value.ty)), self.free, *atomic),
            },
        }
    }

    fn schema(&self, id: SchemaId, atomic: bool) -> Atom<'t> {
        let schema = self.table.get(id);
        match schema.form {
            Form::Object => {
                let free = self.free || schema.preserve_unknown;
                let values = (free || schema.fields.is_empty()).then_some(What::Deduced);
                self.map_of(Some(&schema.fields), values, free, atomic)
            }
            Form::Quantity | Form::Time | Form::MicroTime => {
                Atom { scalar: Some(Primitive::Untyped), list: None, map: None }
            }
            Form::IntOrString | Form::Any => self.any(What::Deduced, false),
            Form::AnyObject if schema.short_name() == "RawExtension" => self.any(What::Untyped, true),
            Form::AnyObject => self.map_of(None, Some(What::Deduced), self.free, false),
        }
    }

    fn map_of(
        &self,
        fields: Option<&'t BTreeMap<String, Field>>,
        values: Option<What<'t>>,
        free: bool,
        atomic: bool,
    ) -> Atom<'t> {
        Atom { scalar: None, list: None, map: Some(Map { table: self.table, fields, values, free, atomic }) }
    }

    fn any(&self, members: What<'t>, atomic: bool) -> Atom<'t> {
        let item = Ref { what: What::Untyped, ..*self };
        Atom {
            scalar: Some(Primitive::Untyped),
            list: Some(List { item, relation: Relation::Atomic }),
            map: Some(Map { table: self.table, fields: None, values: Some(members), free: self.free, atomic }),
        }
    }

    /// Returns the form of this value.
    pub(super) fn shape(&self, value: Option<&Value>) -> Shape<'t> {
        let Atom { scalar, list, map } = self.atom();
        match (value, scalar, list, map) {
            (Some(Value::Bool(_) | Value::Number(_) | Value::String(_)), Some(scalar), ..) => Shape::Scalar(scalar),
            (Some(Value::Array(_)), _, Some(list), _) => Shape::List(list),
            (_, _, _, Some(map)) => Shape::Map(map),
            (_, Some(scalar), ..) => Shape::Scalar(scalar),
            (_, _, Some(list), _) => Shape::List(list),
            (_, None, None, None) => Shape::Scalar(Primitive::Untyped),
        }
    }

    /// Returns `true` if the two values have the same form, so that one walk covers both.
    pub(super) fn alike(&self, a: &Value, b: &Value) -> bool {
        let atom = self.atom();
        let deduced = |value: &Value| match value {
            Value::Bool(_) | Value::Number(_) | Value::String(_) if atom.scalar.is_some() => 1,
            Value::Array(_) if atom.list.is_some() => 2,
            Value::Object(_) if atom.map.is_some() => 3,
            _ => 0,
        };
        let only_one =
            [atom.scalar.is_some(), atom.list.is_some(), atom.map.is_some()].iter().filter(|is| **is).count();
        only_one == 1 || deduced(a) == deduced(b)
    }

    /// Returns the places where a value does not fit the type.
    pub(super) fn misfits(&self, value: &Value, allow_duplicates: bool) -> Vec<Misfit> {
        let mut out = Vec::new();
        self.check(value, allow_duplicates, "", &mut out);
        out
    }

    fn check(&self, value: &Value, allow_duplicates: bool, path: &str, out: &mut Vec<Misfit>) {
        let mut add = |path: &str, text: String| out.push(Misfit { path: path.to_owned(), text });
        match self.shape(Some(value)) {
            Shape::Scalar(primitive) => {
                if let Some(text) = primitive.misfit(value) {
                    add(path, text);
                }
            }
            Shape::Map(map) => match value {
                Value::Null => {}
                Value::Object(members) => {
                    for (name, member) in members {
                        let below = format!("{path}.{name}");
                        match map.member(name) {
                            Some(of) => of.check(member, allow_duplicates, &below, out),
                            None => {
                                let text = "field not declared in schema".to_owned();
                                out.push(Misfit { path: below, text });
                                // Kubernetes stops at the first unknown field of an object.
                                return;
                            }
                        }
                    }
                }
                other => add(path, format!("expected map, got &{{{}}}", go_value(other))),
            },
            Shape::List(list) => match value {
                Value::Null => {}
                Value::Array(items) => {
                    let mut seen = BTreeSet::new();
                    for (i, item) in items.iter().enumerate() {
                        let element = match list.relation {
                            Relation::Atomic => Element::Index(i as i64),
                            _ => match list.element(item) {
                                Ok(element) => element,
                                Err(text) => {
                                    out.push(Misfit { path: path.to_owned(), text: format!("element {i}: {text}") });
                                    return;
                                }
                            },
                        };
                        let below = format!("{path}{element}");
                        if !seen.insert(element.clone()) && !allow_duplicates {
                            let text = format!("duplicate entries for key {element}");
                            out.push(Misfit { path: path.to_owned(), text });
                        }
                        list.item.check(item, allow_duplicates, &below, out);
                    }
                }
                other => add(path, format!("expected list, got &{{{}}}", go_value(other))),
            },
        }
    }

    pub(super) fn fields(&self, value: &Value) -> Set {
        let mut out = Set::default();
        self.collect(value, &mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, value: &Value, path: &mut Vec<Element>, out: &mut Set) {
        match self.shape(Some(value)) {
            Shape::Scalar(_) => out.insert(path),
            Shape::Map(map) if map.atomic => out.insert(path),
            Shape::List(list) if list.relation == Relation::Atomic => out.insert(path),
            Shape::Map(map) => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    path.push(Element::field(name));
                    if let Some(of) = map.member(name) {
                        of.collect(member, path, out);
                    }
                    let empty = member.is_null() || member.as_object().is_some_and(serde_json::Map::is_empty);
                    if empty || !map.is_field(name) {
                        out.insert(path);
                    }
                    path.pop();
                }
            }
            Shape::List(list) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let mut times: BTreeMap<Element, usize> = BTreeMap::new();
                let elements: Vec<Option<Element>> = items.iter().map(|item| list.element(item).ok()).collect();
                for element in elements.iter().flatten() {
                    *times.entry(element.clone()).or_default() += 1;
                }
                for (element, item) in elements.into_iter().zip(items) {
                    let Some(element) = element else { continue };
                    let once = times.get(&element) == Some(&1);
                    path.push(element);
                    // Of duplicates, only their existence is tracked.
                    if once {
                        list.item.collect(item, path, out);
                    }
                    out.insert(path);
                    path.pop();
                }
            }
        }
    }

    /// Returns the set, extended by every declared field above a member.
    pub(super) fn with_fields_above(&self, set: &Set) -> Set {
        let atom = self.atom();
        let mut out = Set { members: set.members.clone(), children: BTreeMap::new() };
        for (element, child) in &set.children {
            if let Element::Field(name) = element
                && atom.map.is_some_and(|map| map.is_field(name))
            {
                out.members.insert(element.clone());
            }
            out.children.insert(element.clone(), self.below(element).with_fields_above(child));
        }
        out
    }
}

impl Primitive {
    pub(super) fn misfit(self, value: &Value) -> Option<String> {
        match (self, value) {
            (_, Value::Null)
            | (Self::Numeric, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
            (Self::Numeric, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
            (Self::String, other) => {
                Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(other)))
            }
            (Self::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_value(other))),
            (Self::Untyped, other) => Some(format!("expected any scalar, got &{{{}}}", go_value(other))),
        }
    }
}

/// `%v`
fn go_value(value: &Value) -> String {
    crate::strategic::go_print(value)
}

/// `%T`
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `%#v`
fn go_syntax(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => format!("[]interface {{}}{{{}}}", list(items.iter().map(go_syntax).collect())),
        Value::Object(members) => {
            let parts = members.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", list(parts))
        }
        scalar => scalar.to_string(),
    }
}
