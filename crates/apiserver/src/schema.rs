//! The schemas of kinds, as crate `patch` reads them: types, unknown fields, defaults.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, OnceLock, Weak},
};

use ironclad_patch::{
    FieldError, PatchError, builtin,
    decode::{self, DecodeError, Decoded},
    managed::{Set, Tracker},
    schema::{Gvk, SchemaId, Table},
    strategic,
    structural::Structural,
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{registry::Resource, status::Cause};

/// The name of the schema of every object's metadata.
pub(crate) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The structural schema of a version of a CRD.
#[derive(Debug)]
pub(crate) struct CustomSchema {
    structural: Structural,
    /// The same as a table, built on the first use for field ownership.
    table: OnceLock<(Table, SchemaId)>,
    /// `openAPIV3Schema` as it was sent, for OpenAPI: as text, since it is seldom asked for and a tree takes ten times
    /// as much.
    pub(crate) open_api: Arc<str>,
}

/// Schemas in use, by kind and text.
type InUse = HashMap<(Gvk, Arc<str>), Weak<CustomSchema>>;

/// Those of this process: a control plane and simulated members have most CRDs in common, and schemas of large
/// operators are most of a server's memory.
static IN_USE: LazyLock<Mutex<InUse>> = LazyLock::new(Mutex::default);

/// Mistakes of a schema and of its CEL rules; `path` begins their fields.
pub(crate) fn mistakes(open_api: &Value, path: &str) -> Vec<Cause> {
    causes(Structural::parse(open_api, path).map_or_else(|errors| errors, |structural| structural.check_rules(path)))
}

impl CustomSchema {
    /// The schema of a kind, parsed once for all servers of this process that have it; `None` if it is not structural.
    pub(crate) fn of(gvk: Gvk, open_api: &Value) -> Option<Arc<Self>> {
        let key: (Gvk, Arc<str>) = (gvk, open_api.to_string().into());
        if let Some(known) = IN_USE.lock().get(&key).and_then(Weak::upgrade) {
            return Some(known);
        }
        let structural = Structural::parse(open_api, "").ok()?;
        let schema = Arc::new(Self { structural, table: OnceLock::new(), open_api: key.1.clone() });
        let mut in_use = IN_USE.lock();
        in_use.retain(|_, schema| schema.strong_count() > 0);
        in_use.insert(key, Arc::downgrade(&schema));
        Some(schema)
    }

    /// Drops what the schema doesn't know; answers what strict validation says of it.
    pub(crate) fn prune(&self, object: &mut Value) -> Result<Vec<String>, DecodeError> {
        let unknown = self.structural.prune(object);
        let mut strict = Vec::new();
        if let (Some(metadata), Some(schema)) = (object.get_mut("metadata"), builtin::table().named(OBJECT_META)) {
            let decoded = decode::value(metadata.take(), builtin::table(), schema)?;
            *metadata = decoded.value;
            strict.extend(decoded.strict.iter().map(|text| text.replacen('"', "\"metadata.", 1)));
        }
        strict.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
        Ok(strict)
    }

    /// Fills in defaults, and drops nulls that mean nothing.
    pub(crate) fn default(&self, object: &mut Value) {
        self.structural.drop_nulls(object);
        self.structural.default(object);
    }

    /// Validates an object or, with `old`, a change. Returns its mistakes and the warnings for the writer.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> (Vec<Cause>, Vec<String>) {
        let Some(old) = old else { return (causes(self.structural.validate(object)), Vec::new()) };
        let findings = self.structural.validate_update(object, old);
        (causes(findings.errors), findings.ratcheted.iter().map(ToString::to_string).collect())
    }
}

/// Errors of crate `patch` as causes.
fn causes(errors: Vec<FieldError>) -> Vec<Cause> {
    let cause = |e: FieldError| Cause { reason: e.reason.as_str().to_owned(), message: e.message, field: e.field };
    errors.into_iter().map(cause).collect()
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
            decoded.strict.extend(custom.schema.prune(&mut decoded.value)?);
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
            let strict = custom.schema.prune(&mut value)?;
            Ok(Decoded { value, strict })
        }
        (None, Some(schema)) => {
            // An empty list takes the owners away, as an empty entry does; reading drops it.
            let cleared = value.pointer("/metadata/managedFields").and_then(Value::as_array).is_some_and(Vec::is_empty);
            let mut decoded = decode::value(value, builtin::table(), schema)?;
            if cleared {
                decoded.value["metadata"]["managedFields"] = serde_json::json!([{}]);
            }
            Ok(decoded)
        }
        (None, None) => Ok(Decoded { value, strict: vec![] }),
    }
}

/// The same for the kind of a subresource; a value without a known schema is unchanged.
pub(crate) fn check_kind(group: &str, version: &str, kind: &str, value: Value) -> Result<Value, DecodeError> {
    match builtin::table().kind(group, version, kind) {
        Some(schema) => decode::value(value, builtin::table(), schema).map(|decoded| decoded.value),
        None => Ok(value),
    }
}

/// Calls with the field tracker of a subresource's kind; `None` without a known schema.
pub(crate) fn with_kind_tracker<R>(
    (group, version, kind): (&str, &str, &str),
    subresource: &str,
    call: impl FnOnce(&Tracker<'_>) -> R,
) -> Option<R> {
    let (table, reset) = (builtin::table(), Set::default());
    let schema = table.kind(group, version, kind)?;
    let api_version = &crate::registry::group_version(group, version);
    Some(call(&Tracker { table, schema, api_version, kind, subresource, reset: &reset }))
}

/// Calls with the tracker of ownership for the Scale of any kind; `None` when no schema of it is known.
pub(crate) fn with_scale_tracker<R>(call: impl FnOnce(&Tracker<'_>) -> R) -> Option<R> {
    let (table, reset) = (builtin::table(), Set::default());
    let schema = table.kind("autoscaling", "v1", "Scale")?;
    let api_version = "autoscaling/v1";
    Some(call(&Tracker { table, schema, api_version, kind: "Scale", subresource: "scale", reset: &reset }))
}

/// Calls with the tracker of ownership for a resource's kind; `None` when the kind has no schema.
pub(crate) fn with_tracker<R>(
    resource: &Resource,
    subresource: &str,
    call: impl FnOnce(&Tracker<'_>) -> R,
) -> Option<R> {
    let (table, schema) = match resource.custom() {
        Some(custom) => {
            let (table, schema) = custom.schema.table.get_or_init(|| {
                let (group, version) = (resource.group.clone(), resource.version.clone());
                custom.schema.structural.table(&Gvk { group, version, kind: resource.kind.clone() })
            });
            (table, *schema)
        }
        None => (builtin::table(), of_kind(resource)?),
    };
    let reset = match subresource {
        "" if resource.builtin().is_some_and(|builtin| builtin.strategy.server_owns_spec) => {
            Set::of_fields(&[&["spec"], &["status"]])
        }
        "" if resource.has_status() => Set::of_fields(&[&["status"]]),
        "status" => {
            let keeps_metadata = resource.custom().is_none();
            let fields = table.get(schema).fields.keys().map(String::as_str);
            let fields = fields.filter(|f| *f != "status" && !(keeps_metadata && *f == "metadata"));
            let paths: Vec<[&str; 1]> = fields.map(|f| [f]).collect();
            Set::of_fields(&paths.iter().map(<[&str; 1]>::as_slice).collect::<Vec<_>>())
        }
        _ => Set::default(),
    };
    let api_version = resource.api_version();
    let tracker =
        Tracker { table, schema, api_version: &api_version, kind: &resource.kind, subresource, reset: &reset };
    Some(call(&tracker))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_schemas_of_a_kind_are_kept_once_as_long_as_they_are_used() {
        let gvk = |kind: &str| Gvk { group: "shared.example".into(), version: "v1".into(), kind: kind.into() };
        let text = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let first = CustomSchema::of(gvk("A"), &text).unwrap();
        assert!(Arc::ptr_eq(&first, &CustomSchema::of(gvk("A"), &text).unwrap()));
        // The table that ownership of fields needs names the kind.
        assert!(!Arc::ptr_eq(&first, &CustomSchema::of(gvk("B"), &text).unwrap()));
        let other = json!({"type": "object"});
        assert!(!Arc::ptr_eq(&first, &CustomSchema::of(gvk("A"), &other).unwrap()));
        drop(first);
        CustomSchema::of(gvk("C"), &other);
        assert!(IN_USE.lock().keys().all(|(known, _)| *known != gvk("A")));
    }
}
