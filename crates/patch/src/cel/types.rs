//! Types as values of the language: `type(self) == string`. The library has neither `type()` nor the names of types.

use std::sync::Arc;

use kube_cel::cel::{Context, ExecutionError, Value as CelValue, objects::Opaque};

/// Names of types that an expression may use as values.
pub(super) const NAMES: [&str; 10] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"];

/// A type as a value.
#[derive(Debug, PartialEq, Eq)]
struct TypeValue(String);

impl Opaque for TypeValue {
    fn runtime_type_name(&self) -> &str {
        "type"
    }
}

/// Adds `type()`, `dyn()` and the names of types.
pub(super) fn register(functions: &mut Context<'static>) {
    functions.add_function("type", |value: CelValue| Ok::<CelValue, ExecutionError>(type_value(name_of(&value))));
    functions.add_function("dyn", |value: CelValue| Ok::<CelValue, ExecutionError>(value));
    for name in NAMES {
        functions.add_variable_from_value(name, type_value(name));
    }
}

fn type_value(name: &str) -> CelValue {
    CelValue::Opaque(Arc::new(TypeValue(name.to_owned())))
}

/// Name of a value's type.
pub(super) fn name_of(value: &CelValue) -> &str {
    match value {
        CelValue::Bool(_) => "bool",
        CelValue::Int(_) => "int",
        CelValue::UInt(_) => "uint",
        CelValue::Float(_) => "double",
        CelValue::String(_) => "string",
        CelValue::Bytes(_) => "bytes",
        CelValue::List(_) => "list",
        CelValue::Map(_) => "map",
        CelValue::Null => "null_type",
        CelValue::Timestamp(_) => "google.protobuf.Timestamp",
        CelValue::Duration(_) => "google.protobuf.Duration",
        CelValue::Opaque(value) => value.runtime_type_name(),
        CelValue::Function(..) => "function",
    }
}
