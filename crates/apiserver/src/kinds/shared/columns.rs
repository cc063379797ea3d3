//! Columns and cells that several kinds have.

use crate::kinds::shared::fields::text;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{object, registry::strategy::Column, select::selector_text, table::age};

pub(crate) const NAME: Column = ("Name", "string", 0);
pub(crate) const AGE: Column = ("Age", "string", 0);
pub(crate) const CONTAINERS: Column = ("Containers", "string", 1);
pub(crate) const IMAGES: Column = ("Images", "string", 1);
pub(crate) const SELECTOR: Column = ("Selector", "string", 1);

pub(crate) fn name(object: &Value) -> Value {
    json!(object::meta_str(object, "name"))
}

pub(crate) fn created(object: &Value, now: Timestamp) -> Value {
    json!(age::since(object::meta_str(object, "creationTimestamp"), now))
}

/// A text; `<none>` if it is empty.
pub(crate) fn or_none(text: impl Into<String>) -> Value {
    let text = text.into();
    json!(if text.is_empty() { "<none>".to_owned() } else { text })
}

pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// A value without quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Labels as `a=b,c=d`.
pub(crate) fn label_text(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    pairs.map(|(k, v)| format!("{k}={}", plain(v))).collect::<Vec<_>>().join(",")
}

/// Containers, images: the wide cells of a workload's template.
pub(crate) fn template_cells(object: &Value, pointer: &str) -> [Value; 2] {
    let join = |key: &str| {
        let containers = items(object, pointer).map(|c| c[key].as_str().unwrap_or_default());
        json!(containers.collect::<Vec<_>>().join(","))
    };
    [join("name"), join("image")]
}

pub(crate) const TEMPLATE: &str = "/spec/template/spec/containers";

pub(crate) fn selector_cell(object: &Value) -> Value {
    or_none(selector_text(object).unwrap_or_default())
}

/// Either name of a field: core/v1 and events.k8s.io/v1.
pub(crate) fn either<'a>(o: &'a Value, a: &str, b: &str) -> &'a str {
    match text(o, a) {
        "" => text(o, b),
        found => found,
    }
}

/// Access modes by their short names.
pub(crate) fn access_modes_cell(o: &Value, pointer: &str) -> Value {
    let short = items(o, pointer).filter_map(Value::as_str).map(|mode| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        other => other,
    });
    json!(short.collect::<Vec<_>>().join(","))
}

/// The phase of a volume or claim.
pub(crate) fn phase_cell(o: &Value) -> Value {
    json!(if object::terminating(o) { "Terminating" } else { text(o, "/status/phase") })
}

/// The VolumeAttributesClass of a volume or claim.
pub(crate) fn attributes_class_cell(o: &Value) -> Value {
    json!(match text(o, "/spec/volumeAttributesClassName") {
        "" => "<unset>",
        class => class,
    })
}
