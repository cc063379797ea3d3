//! Tables: what `kubectl get` prints (specification/apiserver.md 25).

pub(crate) mod age;

use ironclad_jsonpath::{Missing, Rules};
use serde_json::{Value, json};

use crate::{context::Cx, crd::CustomVersion, object, registry::strategy::Strategy, status::ApiError};

/// A column of a table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
}

impl Column {
    fn new(name: &str, kind: &str) -> Self {
        let format = if name == "Name" { "name" } else { "" };
        Self { name: name.into(), kind: kind.into(), format: format.into(), description: String::new(), priority: 0 }
    }

    fn value(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority,
        })
    }
}

/// Makes the cells of an object.
type Print<'a> = dyn Fn(&Value) -> Vec<Value> + 'a;

/// The Table of these objects. Later frames of a watch leave out the column definitions.
pub(crate) fn table(
    cx: &Cx,
    version: &str,
    metadata: Value,
    objects: &[Value],
    with_columns: bool,
) -> Result<Value, ApiError> {
    let include = match cx.query.get("includeObject").unwrap_or_default() {
        "" | "Metadata" => "Metadata",
        "None" => "None",
        "Object" => "Object",
        other => {
            return Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', 'Object', \
                 'None', or empty"
            )));
        }
    };
    let now = cx.state.seam.clock.wall();
    let (columns, print): (Vec<Column>, Box<Print<'_>>) = match cx.resource.custom() {
        Some(custom) => (custom_columns(custom), Box::new(|o| custom_cells(custom, o, now))),
        None => {
            let strategy = cx.resource.builtin().map_or(&Strategy::NONE, |builtin| builtin.strategy);
            (builtin_columns(strategy), Box::new(move |o| (strategy.cells)(o, now)))
        }
    };
    let rows: Vec<Value> = objects
        .iter()
        .map(|value| {
            let mut row = json!({"cells": print(value)});
            match include {
                "Metadata" => row["object"] = object::partial(value.clone(), version),
                "Object" => row["object"] = value.clone(),
                _ => row["object"] = Value::Null,
            }
            row
        })
        .collect();
    let columns = if with_columns { columns.iter().map(Column::value).collect() } else { Value::Null };
    Ok(json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    }))
}

fn builtin_columns(strategy: &Strategy) -> Vec<Column> {
    let column = |(name, kind, priority): &(&str, &str, i64)| Column { priority: *priority, ..Column::new(name, kind) };
    strategy.columns.iter().map(column).collect()
}

fn custom_columns(custom: &CustomVersion) -> Vec<Column> {
    let mut out = vec![Column::new("Name", "string")];
    if custom.columns.is_empty() {
        out.push(Column::new("Age", "date"));
    }
    out.extend(custom.columns.iter().map(|c| Column {
        name: c.name.clone(),
        kind: c.kind.clone(),
        format: c.format.clone(),
        description: c.description.clone(),
        priority: c.priority,
    }));
    out
}

/// Evaluation of printer columns: one that selects nothing, or too much, is an empty cell.
const RULES: Rules = Rules { missing: Missing::Nothing, found_max: 1_000 };

fn custom_cells(custom: &CustomVersion, value: &Value, now: jiff::Timestamp) -> Vec<Value> {
    let mut cells = vec![json!(object::meta_str(value, "name"))];
    if custom.columns.is_empty() {
        cells.push(json!(age::since(object::meta_str(value, "creationTimestamp"), now)));
    }
    for column in &custom.columns {
        let found = column.path.as_ref().and_then(|path| path.select(value, RULES).ok()).unwrap_or_default();
        cells.push(cell(&column.kind, &found, now));
    }
    cells
}

/// The cell of a column of this type: the first of the selected values.
fn cell(kind: &str, found: &[&Value], now: jiff::Timestamp) -> Value {
    match (kind, found) {
        (_, []) => Value::Null,
        ("integer", [one, ..]) if one.is_i64() => (*one).clone(),
        ("integer", [one, ..]) => one.as_f64().map_or(Value::Null, |f| json!(f as i64)),
        ("number" | "boolean", [one, ..]) => (*one).clone(),
        ("date", [one, ..]) => one.as_str().map_or(json!("<invalid>"), |text| json!(age::since(text, now))),
        (_, [one, ..]) => json!(one.as_str().map_or_else(|| one.to_string(), str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_jsonpath::Path;

    use super::*;

    #[test]
    fn a_printer_column_shows_the_first_value_of_its_path() {
        let object = json!({"spec": {"n": 3, "a.b": "dot"}, "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"},
        ]}});
        for (path, want) in [
            (".spec.n", json!("3")),
            (".spec.a\\.b", json!("dot")),
            (".spec['a\\.b']", json!("dot")),
            (".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            (".status.conditions[?(@.type=='Old')].status", json!("False")),
            (".status.conditions[*].type", json!("Ready")),
            (".status.conditions[-1].type", json!("Old")),
            (".status.conditions[5].type", json!(null)),
            (".nope.x", json!(null)),
        ] {
            let path = Path::relaxed(path).unwrap();
            let found = path.select(&object, RULES).unwrap_or_default();
            assert_eq!(cell("string", &found, jiff::Timestamp::UNIX_EPOCH), want, "{path:?}");
        }
    }
}
