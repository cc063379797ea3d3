//! Events, in the lax old version and the strict new one (specification/apiserver.md 23).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
        shared::{
            columns::{either, name, number},
            fields::{at, text},
        },
    },
    object,
    registry::strategy::{Conversion, Strategy},
    status::Cause,
    table::age,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        validate: |o, _, out| validate_core(o, out),
        selectable_fields: &[
            "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
            "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
            "reportingComponent", "source", "type",
        ],
        ..STRATEGY
    },
    ..Kind::new("v1 events Event N short=ev put")
};

pub(in crate::kinds) const NEW: Kind = Kind {
    strategy: Strategy {
        validate,
        selectable_fields: &[
            "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid", "regarding.apiVersion",
            "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingController", "type",
        ],
        conversion: Some(Conversion { api_version: "v1", from_storage, to_storage }),
        ..STRATEGY
    },
    ..Kind::new("events.k8s.io/v1 events Event N short=ev put")
};

/// Both versions are printed, kept and listed alike.
const STRATEGY: Strategy = Strategy {
    columns: &[
        ("Last Seen", "string", 0),
        ("Type", "string", 0),
        ("Reason", "string", 0),
        ("Object", "string", 0),
        ("Subobject", "string", 1),
        ("Source", "string", 1),
        ("Message", "string", 0),
        ("First Seen", "string", 1),
        ("Count", "string", 1),
        ("Name", "string", 1),
    ],
    cells,
    time_to_live: Some(Duration::from_secs(3_600)),
    uncached: true,
    ..Strategy::NONE
};

/// An event of core/v1.
fn validate_core(object: &Value, out: &mut Vec<Cause>) {
    validate_namespace(object, "involvedObject", out);
}

/// An event is with what it is about; what is in no namespace has its events in `default`.
fn validate_namespace(object: &Value, about: &str, out: &mut Vec<Cause>) {
    let namespace = at(object, &format!("/{about}/namespace"));
    let is = namespace.as_str().unwrap_or_default();
    let own = object::meta_str(object, "namespace");
    if is != own && !(is.is_empty() && matches!(own, "default" | "")) {
        let given = Value::String(is.to_owned());
        out.push(Cause::invalid("involvedObject.namespace", &given, "does not match event.namespace"));
    }
}

/// An event of events.k8s.io/v1. Only its series may change; messages name the fields as core/v1 does.
fn validate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    validate_namespace(object, "regarding", out);
    match old {
        None => {
            if at(object, "/eventTime").is_null() {
                out.push(Cause::required("eventTime", ""));
            } else {
                let missing = |field: &&str| text(object, &format!("/{field}")).is_empty();
                let required = ["reportingController", "reportingInstance", "action", "reason"];
                out.extend(required.into_iter().filter(missing).map(|field| Cause::required(field, "")));
            }
            let kind = text(object, "/type");
            if !matches!(kind, "Normal" | "Warning") {
                let given = Value::String(kind.to_owned());
                out.push(Cause::invalid("type", &given, format!("has invalid value: {kind}")));
            }
        }
        Some(old) => {
            for (field, name) in [
                ("regarding", "involvedObject"),
                ("reason", "reason"),
                ("note", "message"),
                ("deprecatedSource", "source"),
                ("deprecatedFirstTimestamp", "firstTimestamp"),
                ("deprecatedLastTimestamp", "lastTimestamp"),
                ("deprecatedCount", "count"),
                ("type", "type"),
                ("eventTime", "eventTime"),
                ("action", "action"),
                ("related", "related"),
                ("reportingController", "reportingController"),
                ("reportingInstance", "reportingInstance"),
            ] {
                let (was, is) = (at(old, &format!("/{field}")), at(object, &format!("/{field}")));
                if was != is {
                    out.push(Cause::invalid(name, is, "field is immutable"));
                }
            }
        }
    }
}

fn from_storage(object: &mut Value) {
    rename(object, false);
    if let Some(map) = object.as_object_mut() {
        // core/v1 prints these when empty, events.k8s.io/v1 doesn't.
        map.retain(|k, v| !(k.starts_with("reporting") && v == ""));
    }
}

fn to_storage(object: &mut Value) {
    rename(object, true);
}

/// events.k8s.io/v1 and core/v1 names of a field.
const FIELDS: &[(&str, &str)] = &[
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

fn rename(object: &mut Value, forward: bool) {
    let Some(map) = object.as_object_mut() else { return };
    for (new, old) in FIELDS {
        let (from, to) = if forward { (new, old) } else { (old, new) };
        if let Some(value) = map.remove(*from) {
            map.insert((*to).into(), value);
        }
    }
}

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let first = either(o, "/firstTimestamp", "/deprecatedFirstTimestamp");
    let first = if first.is_empty() { text(o, "/eventTime") } else { first };
    let last = match text(o, "/series/lastObservedTime") {
        "" => either(o, "/lastTimestamp", "/deprecatedLastTimestamp"),
        observed => observed,
    };
    let last = if last.is_empty() { first } else { last };
    let kind = either(o, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    let target = format!("{kind}/{}", either(o, "/involvedObject/name", "/regarding/name"));
    let component = match either(o, "/source/component", "/deprecatedSource/component") {
        "" => either(o, "/reportingComponent", "/reportingController"),
        component => component,
    };
    let host = either(o, "/source/host", "/deprecatedSource/host");
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    let count = [number(o, "/series/count"), number(o, "/count"), number(o, "/deprecatedCount")];
    let count = count.into_iter().find(|c| *c > 0).unwrap_or(1);
    vec![
        json!(age::since(last, now)),
        json!(text(o, "/type")),
        json!(text(o, "/reason")),
        json!(target),
        json!(either(o, "/involvedObject/fieldPath", "/regarding/fieldPath")),
        json!(source),
        json!(either(o, "/message", "/note").trim()),
        json!(age::since(first, now)),
        json!(count),
        name(o),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(check: impl FnOnce(&mut Vec<Cause>)) -> Vec<String> {
        let mut out = Vec::new();
        check(&mut out);
        out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
    }

    #[test]
    fn events() {
        let about = |namespace: &str, own: &str| json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": namespace}});
        assert!(messages(|out| validate_core(&about("a", "a"), out)).is_empty());
        assert!(messages(|out| validate_core(&about("", "default"), out)).is_empty());
        assert_eq!(
            messages(|out| validate_core(&about("b", "a"), out)),
            ["involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"]
        );
        let full = json!({
            "metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "eventTime": "t", "reportingController": "x.io/c",
            "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal", "note": "n",
        });
        assert!(messages(|out| validate(&full, None, out)).is_empty());
        let mut other = full.clone();
        other["note"] = json!("m");
        other["series"] = json!({"count": 2});
        assert_eq!(
            messages(|out| validate(&other, Some(&full), out)),
            ["message: Invalid value: \"m\": field is immutable"]
        );
        let bare = json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}});
        assert_eq!(
            messages(|out| validate(&bare, None, out)),
            ["eventTime: Required value", "type: Invalid value: \"\": has invalid value: "]
        );
        let mut timed = bare.clone();
        timed["eventTime"] = json!("t");
        assert_eq!(
            messages(|out| validate(&timed, None, out)),
            [
                "reportingController: Required value",
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value",
                "type: Invalid value: \"\": has invalid value: ",
            ]
        );
    }
}
