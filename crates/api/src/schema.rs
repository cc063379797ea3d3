//! Schemas of single fields that Rust's types cannot say.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An integer without a `format` (api.md 0, type `int`).
pub(crate) fn int(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// An object of which nothing is known.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of objects of which nothing is known.
pub(crate) fn any_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    })
}

/// A value of any JSON type.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}
