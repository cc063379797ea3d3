//! Schemas of single fields that Rust types cannot express.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An integer without a `format` (specification/api.md 0, type `int`).
pub(crate) fn int(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// An object with unknown fields.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A list of objects with unknown fields.
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
