//! Defaults, preparation and validation of any object: by the strategy of its built-in kind, or by the schema of its
//! CRD (specification/apiserver.md 7, 15, 16).

use serde_json::Value;

use crate::{context::Cx, registry::Resource, schema, status::Cause};

/// Drops or sets what a client can't choose in a new object.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    match resource.builtin().and_then(|builtin| builtin.strategy.prepare_create) {
        Some(prepare) if object.is_object() => prepare(object),
        Some(_) => {}
        None if resource.has_status() => {
            if let Some(map) = object.as_object_mut() {
                map.remove("status");
            }
        }
        None => {}
    }
}

/// Carries over what an update of this kind may not leave out.
pub(crate) fn prepare_update(resource: &Resource, old: &Value, new: &mut Value) {
    if let Some(builtin) = resource.builtin() {
        (builtin.strategy.prepare_update)(old, new);
    }
}

/// The defaults to fill in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defaults {
    /// The defaults of every object of the kind.
    Plain,
    /// And what the server generates for a new one.
    Creating,
}

/// Fills in defaults.
pub(crate) fn default(resource: &Resource, object: &mut Value, which: Defaults) {
    if let Some(custom) = resource.custom() {
        custom.schema.default(object);
    } else if let Some(builtin) = resource.builtin() {
        (builtin.strategy.defaults)(object);
        if which == Defaults::Creating {
            (builtin.strategy.generate)(object);
        }
        schema::complete(resource, object);
    }
}

/// Validates an object or, with `old`, a change. The writer is warned of tolerated mistakes.
pub(crate) fn validate(cx: &Cx, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let resource = &*cx.resource;
    let mut out = Vec::new();
    if let Some(custom) = resource.custom() {
        let (mistakes, warnings) = custom.schema.validate(object, old);
        warnings.into_iter().for_each(|warning| cx.warn(warning));
        out = mistakes;
    } else if let Some(builtin) = resource.builtin() {
        (builtin.strategy.validate_gated)(cx.state.options.feature_gates, object, old, &mut out);
        (builtin.strategy.validate)(object, old, &mut out);
    }
    out
}

/// Advice for the writer of an object.
pub(crate) fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    resource.builtin().map(|builtin| (builtin.strategy.warnings)(object, old)).unwrap_or_default()
}
