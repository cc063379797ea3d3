//! The columns of built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object;

use super::{Column, age};

/// How a kind is printed.
pub(crate) struct Printer {
    columns: &'static [(&'static str, &'static str, i64)],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

impl Printer {
    pub(crate) fn columns(&self) -> Vec<Column> {
        let columns = self.columns.iter().map(|(name, kind, priority)| {
            let mut column = Column::new(name, kind);
            column.priority = *priority;
            column
        });
        columns.collect()
    }

    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

fn name(object: &Value) -> Value {
    json!(object::meta_str(object, "name"))
}

fn created(object: &Value, now: Timestamp) -> Value {
    json!(age::since(object::meta_str(object, "creationTimestamp"), now))
}

/// The printer of a kind; the default prints when it was made.
pub(crate) fn printer(_group: &str, _kind: &str) -> Printer {
    Printer { columns: &[("Name", "string", 0), ("Age", "string", 0)], cells: |o, now| vec![name(o), created(o, now)] }
}
