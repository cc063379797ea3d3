//! Walk over a document along its schema.

use std::{collections::BTreeSet, fmt};

use ironclad_quantity::Quantity;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{DecodeError, Decoded, STRICT_ERRORS_MAX, bytes, time};
use crate::schema::{Element, Form, Printed, SchemaId, Table, Type};

/// Decoder of Kubernetes whose messages are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `json: cannot unmarshal …`
    Json,
    /// `cannot restore map from …`
    Unstructured,
}

pub(super) struct Walked {
    value: Value,
    strict: Vec<String>,
    error: Option<String>,
}

impl Walked {
    pub(super) fn finish(self) -> Result<Decoded, DecodeError> {
        match self.error {
            Some(text) => Err(DecodeError::Type(text)),
            None => Ok(Decoded { value: self.value, strict: self.strict }),
        }
    }
}

pub(super) fn typed<'de, D: Deserializer<'de, Error = serde_json::Error>>(
    source: D,
    table: &Table,
    schema: SchemaId,
    dialect: Dialect,
) -> Result<Walked, serde_json::Error> {
    let ty = Type::Schema { id: schema, atomic: false };
    walk(source, Some(table), Target::Of(&ty), dialect)
}

pub(super) fn any<'de, D: Deserializer<'de, Error = serde_json::Error>>(
    source: D,
) -> Result<Walked, serde_json::Error> {
    walk(source, None, Target::Any, Dialect::Json)
}

fn walk<'de, D: Deserializer<'de, Error = serde_json::Error>>(
    source: D,
    table: Option<&Table>,
    target: Target<'_>,
    dialect: Dialect,
) -> Result<Walked, serde_json::Error> {
    let mut cx = Context {
        table,
        dialect,
        path: String::new(),
        fields: Vec::new(),
        owner: "",
        strict: Vec::new(),
        seen: BTreeSet::new(),
        error: None,
    };
    let value = Seed { cx: &mut cx, target }.deserialize(source)?;
    let value = value.unwrap_or_else(|| match target {
        Target::Of(_) => Value::Object(Map::new()),
        _ => Value::Null,
    });
    Ok(Walked { value, strict: cx.strict, error: cx.error })
}

/// Expected type of a value.
#[derive(Clone, Copy)]
enum Target<'t> {
    Of(&'t Type),
    /// Anything, duplicates reported.
    Any,
    /// Anything, nothing reported.
    Raw,
}

struct Context<'t> {
    table: Option<&'t Table>,
    dialect: Dialect,
    /// Path of the current value, for strict errors.
    path: String,
    /// Names of the enclosing struct fields, for type errors.
    fields: Vec<&'t str>,
    /// The innermost struct, for type errors.
    owner: &'t str,
    strict: Vec<String>,
    seen: BTreeSet<String>,
    error: Option<String>,
}

impl<'t> Context<'t> {
    fn report(&mut self, what: &str, name: &str) {
        if self.strict.len() >= STRICT_ERRORS_MAX {
            return;
        }
        let dot = if self.path.is_empty() { "" } else { "." };
        let text = format!("{what} field {:?}", format!("{}{dot}{name}", self.path));
        if self.seen.insert(text.clone()) {
            self.strict.push(text);
        }
    }

    fn refuse(&mut self, text: String) {
        self.error.get_or_insert(text);
    }

    /// Reports that the value `given` does not fit the type `wanted`.
    fn mismatch(&mut self, given: &Given, wanted: &Type) {
        let text = match self.dialect {
            Dialect::Json => {
                let place = match self.fields.as_slice() {
                    [] => "value".to_owned(),
                    fields => format!("struct field {}.{}", self.owner, fields.join(".")),
                };
                format!("json: cannot unmarshal {} into Go {place} of type {}", given.json(), self.go_type(wanted))
            }
            Dialect::Unstructured => self.unstructured(given, wanted),
        };
        self.refuse(text);
    }

    fn unstructured(&self, given: &Given, wanted: &Type) -> String {
        let wanted = match wanted {
            Type::Map { .. } => return format!("cannot restore map from {}", given.go_kind()),
            Type::List { .. } | Type::Bytes => return format!("cannot restore slice from {}", given.go_kind()),
            Type::Schema { .. } => return format!("cannot restore struct from: {}", given.go_kind()),
            other => self.go_type(other),
        };
        match (given, wanted.as_str()) {
            // Go can convert a number to a string of one character, and reports that separately.
            (Given::Integer, "string") => format!("cannot convert int64 to {wanted}"),
            (Given::Float, "int32" | "int64") => format!("cannot convert float64 to {wanted}"),
            _ => format!("unrecognized type: {wanted}"),
        }
    }

    fn go_type(&self, ty: &Type) -> String {
        match ty {
            Type::String => "string".to_owned(),
            Type::Boolean => "bool".to_owned(),
            Type::Integer { bits } => format!("int{bits}"),
            Type::Number => "float64".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Schema { id, .. } => self.table.map_or("object", |table| table.get(*id).go_name()).to_owned(),
            Type::List { item, .. } => format!("[]{}", self.go_type(&item.ty)),
            Type::Map { value, .. } => format!("map[string]{}", self.go_type(&value.ty)),
            Type::Any => "interface {}".to_owned(),
        }
    }

    /// Returns the form of the schema that `ty` refers to, if it refers to one.
    fn form(&self, ty: &Type) -> Option<Form> {
        match ty {
            Type::Schema { id, .. } => self.table.map(|table| table.get(*id).form),
            _ => None,
        }
    }

    fn zero(&self, ty: &Type) -> Value {
        match (ty, self.form(ty)) {
            (_, Some(Form::Object)) => Value::Object(Map::new()),
            (_, Some(Form::Quantity)) => Value::from("0"),
            (_, Some(Form::IntOrString)) => Value::from(0),
            (Type::String | Type::Bytes, _) => Value::from(""),
            (Type::Boolean, _) => Value::from(false),
            (Type::Integer { .. } | Type::Number, _) => Value::from(0),
            _ => Value::Null,
        }
    }
}

/// Kind of a value in messages.
enum Given {
    Bool,
    Integer,
    Float,
    String,
    Array,
    Object,
}

impl Given {
    fn json(&self) -> String {
        match self {
            Self::Bool => "bool",
            Self::Integer | Self::Float => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
        .to_owned()
    }

    fn go_kind(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Integer => "int64",
            Self::Float => "float64",
            Self::String => "string",
            Self::Array => "slice",
            Self::Object => "map",
        }
    }
}

/// Reader of one value. `None` means no value: `null`, or one of the wrong type.
struct Seed<'c, 't> {
    cx: &'c mut Context<'t>,
    target: Target<'t>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl Seed<'_, '_> {
    fn number(self, number: Number) -> Option<Value> {
        let given = if number.is_f64() { Given::Float } else { Given::Integer };
        let ty = match self.target {
            Target::Of(ty) => ty,
            Target::Any | Target::Raw => return Some(Value::Number(number)),
        };
        let limits = |bits: u8| if bits == 32 { (i32::MIN.into(), i32::MAX.into()) } else { (i64::MIN, i64::MAX) };
        match (ty, self.cx.form(ty)) {
            (Type::Any, _) | (_, Some(Form::Any | Form::AnyObject)) => return Some(Value::Number(number)),
            (Type::Number, _) => return Some(Value::Number(number)),
            (Type::Integer { bits }, _) => {
                let (min, max) = limits(*bits);
                if let Some(integer) = number.as_i64().filter(|n| (min..=max).contains(n)) {
                    return Some(Value::from(integer));
                }
                if self.cx.dialect == Dialect::Unstructured {
                    // Whole floats count as integers there.
                    if let Some(float) = number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() <= max as f64) {
                        return Some(Value::from(float as i64));
                    }
                    self.cx.mismatch(&given, ty);
                } else {
                    // Go reports the number when its kind is right and its value is not.
                    let text =
                        format!("json: cannot unmarshal number {number} into Go {} of type int{bits}", self.go_field());
                    self.cx.refuse(text);
                }
            }
            (_, Some(Form::IntOrString)) => match number.as_i64().filter(|n| i32::try_from(*n).is_ok()) {
                Some(integer) => return Some(Value::from(integer)),
                None => {
                    self.cx.refuse(format!("json: cannot unmarshal number {number} into Go value of type int32"));
                }
            },
            (_, Some(Form::Quantity)) => return self.quantity(&number.to_string()),
            (_, Some(Form::Time | Form::MicroTime)) => self.custom("number", "string"),
            _ => self.cx.mismatch(&given, ty),
        }
        None
    }

    fn go_field(&self) -> String {
        format!("struct field {}.{}", self.cx.owner, self.cx.fields.join("."))
    }

    fn quantity(self, text: &str) -> Option<Value> {
        match Quantity::parse(text.trim()) {
            Ok(quantity) => Some(Value::from(quantity.to_string())),
            Err(error) => {
                self.cx.refuse(error.reason.to_string());
                None
            }
        }
    }

    /// Reports the error of a type with its own decoder.
    fn custom(self, given: &str, wanted: &str) {
        self.cx.refuse(format!("json: cannot unmarshal {given} into Go value of type {wanted}"));
    }

    fn text(self, text: &str) -> Option<Value> {
        let ty = match self.target {
            Target::Of(ty) => ty,
            Target::Any | Target::Raw => return Some(Value::from(text)),
        };
        let read = match (ty, self.cx.form(ty)) {
            (Type::String | Type::Any, _) | (_, Some(Form::Any | Form::AnyObject | Form::IntOrString)) => {
                Ok(text.to_owned())
            }
            (_, Some(Form::Quantity)) => return self.quantity(text),
            (_, Some(Form::Time)) => time::time(text),
            (_, Some(Form::MicroTime)) => time::micro_time(text),
            (Type::Bytes, _) => bytes::normal(text),
            _ => {
                self.cx.mismatch(&Given::String, ty);
                return None;
            }
        };
        match read {
            Ok(text) => Some(Value::String(text)),
            Err(error) => {
                self.cx.refuse(error);
                None
            }
        }
    }
}

impl<'de, 't> Visitor<'de> for Seed<'_, 't> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        match self.target {
            Target::Any | Target::Raw => Ok(Some(Value::Null)),
            Target::Of(Type::Any) => Ok(Some(Value::Null)),
            Target::Of(_) => Ok(None),
        }
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        let ty = match self.target {
            Target::Of(ty) => ty,
            Target::Any | Target::Raw => return Ok(Some(Value::Bool(value))),
        };
        match (ty, self.cx.form(ty)) {
            (Type::Boolean | Type::Any, _) | (_, Some(Form::Any | Form::AnyObject)) => {
                return Ok(Some(Value::Bool(value)));
            }
            (_, Some(Form::IntOrString)) => self.custom("bool", "int32"),
            (_, Some(Form::Quantity)) => drop(self.quantity("true")),
            (_, Some(Form::Time | Form::MicroTime)) => self.custom("bool", "string"),
            _ => self.cx.mismatch(&Given::Bool, ty),
        }
        Ok(None)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(value).and_then(|number| self.number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let item: Option<&'t Element> = match self.target {
            Target::Any | Target::Raw | Target::Of(Type::Any) => None,
            Target::Of(Type::List { item, .. }) => Some(item),
            Target::Of(ty) if matches!(self.cx.form(ty), Some(Form::Any | Form::AnyObject)) => None,
            Target::Of(ty) => {
                while items.next_element::<IgnoredAny>()?.is_some() {}
                match self.cx.form(ty) {
                    Some(Form::Quantity) => drop(self.quantity("[]")),
                    Some(Form::IntOrString) => self.custom("array", "int32"),
                    Some(Form::Time | Form::MicroTime) => self.custom("array", "string"),
                    _ => self.cx.mismatch(&Given::Array, ty),
                }
                return Ok(None);
            }
        };
        let target = match (item, self.target) {
            (Some(item), _) => Target::Of(&item.ty),
            (None, Target::Of(ty)) if self.cx.form(ty).is_some() => Target::Raw,
            (None, Target::Raw) => Target::Raw,
            (None, _) => Target::Any,
        };
        let mut out = Vec::new();
        let length = self.cx.path.len();
        loop {
            self.cx.path.push_str(&format!("[{}]", out.len()));
            let next = items.next_element_seed(Seed { cx: &mut *self.cx, target })?;
            self.cx.path.truncate(length);
            match (next, item) {
                (None, _) => return Ok(Some(Value::Array(out))),
                (Some(Some(value)), _) => out.push(value),
                (Some(None), Some(item)) => out.push(self.cx.zero(&item.ty)),
                (Some(None), None) => out.push(Value::Null),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let shape = match self.target {
            Target::Raw => Shape::Free(Target::Raw),
            Target::Any | Target::Of(Type::Any) => Shape::Free(Target::Any),
            Target::Of(Type::Map { value, .. }) => Shape::Map(value),
            Target::Of(ty @ Type::Schema { id, .. }) => match self.cx.form(ty) {
                Some(Form::Object) => Shape::Object(*id),
                Some(Form::Any | Form::AnyObject) => Shape::Free(Target::Raw),
                form => {
                    while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                    match form {
                        Some(Form::Quantity) => drop(self.quantity("{}")),
                        Some(Form::IntOrString) => self.custom("object", "int32"),
                        _ => self.custom("object", "string"),
                    }
                    return Ok(None);
                }
            },
            Target::Of(ty) => {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                self.cx.mismatch(&Given::Object, ty);
                return Ok(None);
            }
        };
        match shape {
            Shape::Object(id) => object(self.cx, id, members),
            Shape::Map(value) => map(self.cx, Target::Of(&value.ty), members),
            Shape::Free(target) => map(self.cx, target, members),
        }
    }
}

enum Shape<'t> {
    Object(SchemaId),
    Map(&'t Element),
    Free(Target<'t>),
}

fn object<'de, A: MapAccess<'de>>(
    cx: &mut Context<'_>,
    id: SchemaId,
    mut members: A,
) -> Result<Option<Value>, A::Error> {
    let Some(table) = cx.table else { return Ok(None) };
    let schema = table.get(id);
    let mut out = Map::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let (length, owner) = (cx.path.len(), cx.owner);
    while let Some(name) = members.next_key::<String>()? {
        let Some((known, field)) = schema.fields.get_key_value(&name) else {
            if schema.preserve_unknown {
                let value = members.next_value_seed(Seed { cx: &mut *cx, target: Target::Any })?;
                out.insert(name, value.unwrap_or(Value::Null));
            } else {
                cx.report("unknown", &name);
                members.next_value::<IgnoredAny>()?;
            }
            continue;
        };
        if !seen.insert(known) {
            cx.report("duplicate", &name);
        }
        if length > 0 {
            cx.path.push('.');
        }
        cx.path.push_str(&name);
        cx.owner = schema.short_name();
        cx.fields.push(known);
        let value = members.next_value_seed(Seed { cx: &mut *cx, target: Target::Of(&field.element.ty) })?;
        cx.fields.pop();
        cx.owner = owner;
        cx.path.truncate(length);
        match value {
            Some(value) if field.printed == Printed::UnlessZero && is_zero(&value, &field.element.ty) => {
                out.remove(&name);
            }
            Some(value) => drop(out.insert(name, value)),
            None if field.element.nullable => drop(out.insert(name, Value::Null)),
            None => drop(out.remove(&name)),
        }
    }
    Ok(Some(Value::Object(out)))
}

/// Returns `true` for Go's zero value; structs are never empty.
fn is_zero(value: &Value, ty: &Type) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => matches!(ty, Type::Integer { .. } | Type::Number) && number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && matches!(ty, Type::Map { .. }),
    }
}

fn map<'de, 't, A: MapAccess<'de>>(
    cx: &mut Context<'t>,
    target: Target<'t>,
    mut members: A,
) -> Result<Option<Value>, A::Error> {
    let mut out = Map::new();
    let length = cx.path.len();
    while let Some(name) = members.next_key::<String>()? {
        let reported = !matches!(target, Target::Raw);
        if reported && out.contains_key(&name) {
            cx.report("duplicate", &name);
        }
        if length > 0 {
            cx.path.push('.');
        }
        cx.path.push_str(&name);
        let value = members.next_value_seed(Seed { cx: &mut *cx, target })?;
        cx.path.truncate(length);
        let value = match (value, target) {
            (Some(value), _) => value,
            (None, Target::Of(ty)) => cx.zero(ty),
            (None, _) => Value::Null,
        };
        out.insert(name, value);
    }
    Ok(Some(Value::Object(out)))
}
