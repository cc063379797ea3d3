//! ControllerRevisions.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{AGE, NAME, created, items, name, number, or_none},
            fields::{at, immutable, not_negative, text},
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        validate,
        columns: &[NAME, ("Controller", "string", 0), ("Revision", "string", 0), AGE],
        cells,
        ..Strategy::NONE
    },
    ..Kind::new("apps/v1 controllerrevisions ControllerRevision N")
};

/// A revision of a template is made once and never changes.
fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    not_negative(object, "/revision", out);
    match at(object, "/data") {
        _ if old.is_some() => immutable(object, old, "/data", out),
        Value::Null => out.push(Cause::required("data", "data is mandatory")),
        Value::Object(_) => {}
        _ => out.push(Cause::required("data", "data must be a valid JSON object")),
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let owner = items(o, "/metadata/ownerReferences").find(|r| r["controller"] == true);
    let owner = owner.map(|r| {
        let group = text(r, "/apiVersion").split_once('/').map_or("", |(group, _)| group);
        let kind = [text(r, "/kind"), group].join(".");
        format!("{}/{}", kind.trim_end_matches('.').to_lowercase(), text(r, "/name"))
    });
    vec![name(o), or_none(owner.unwrap_or_default()), json!(number(o, "/revision")), created(o, now)]
}
