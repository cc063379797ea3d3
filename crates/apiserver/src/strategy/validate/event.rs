//! Events, in the lax old version and the strict new one (apiserver.md 23).

use serde_json::Value;

use crate::{object, status::Cause};

use super::{at, text};

/// An event of core/v1.
pub(super) fn core(object: &Value, out: &mut Vec<Cause>) {
    place(object, "involvedObject", out);
}

/// An event is with what it is about; what is in no namespace has its events in `default`.
fn place(object: &Value, about: &str, out: &mut Vec<Cause>) {
    let namespace = at(object, &format!("/{about}/namespace"));
    let is = namespace.as_str().unwrap_or_default();
    let own = object::meta_str(object, "namespace");
    if is != own && !(is.is_empty() && matches!(own, "default" | "")) {
        let given = Value::String(is.to_owned());
        out.push(Cause::invalid("involvedObject.namespace", &given, "does not match event.namespace"));
    }
}

/// An event of events.k8s.io/v1. Only its series may change; messages name the fields as core/v1 does.
pub(super) fn event(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    place(object, "regarding", out);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(check: impl FnOnce(&mut Vec<Cause>)) -> Vec<String> {
        let mut out = Vec::new();
        check(&mut out);
        out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
    }

    #[test]
    fn events() {
        let about = |namespace: &str, own: &str| json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": namespace}});
        assert!(told(|out| core(&about("a", "a"), out)).is_empty());
        assert!(told(|out| core(&about("", "default"), out)).is_empty());
        assert_eq!(
            told(|out| core(&about("b", "a"), out)),
            ["involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"]
        );
        let full = json!({
            "metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}, "eventTime": "t", "reportingController": "x.io/c",
            "reportingInstance": "i", "action": "A", "reason": "R", "type": "Normal", "note": "n",
        });
        assert!(told(|out| event(&full, None, out)).is_empty());
        let mut other = full.clone();
        other["note"] = json!("m");
        other["series"] = json!({"count": 2});
        assert_eq!(told(|out| event(&other, Some(&full), out)), ["message: Invalid value: \"m\": field is immutable"]);
        let bare = json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}});
        assert_eq!(
            told(|out| event(&bare, None, out)),
            ["eventTime: Required value", "type: Invalid value: \"\": has invalid value: "]
        );
        let mut timed = bare.clone();
        timed["eventTime"] = json!("t");
        assert_eq!(
            told(|out| event(&timed, None, out)),
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
