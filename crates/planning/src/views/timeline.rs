//! Events and changed conditions in one order, newest first.

use std::cmp::Reverse;

use ironclad_api::Condition;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Time of it; the last one if it happened again.
    pub at: Timestamp,
    /// The first time, if it happened again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Timestamp>,
    /// Number of times.
    pub count: i64,
    /// `Normal` or `Warning` of an event; `Condition` of a condition that changed.
    #[serde(rename = "type")]
    pub class: String,
    pub reason: String,
    pub message: String,
    /// `Kind namespace/name`.
    pub object: String,
    /// Namespace of the object, empty if it has none.
    pub namespace: String,
    /// Component that tells it.
    pub source: String,
}

/// An Event of `v1`; `None` if it has no time.
#[must_use]
pub fn event(event: &Value) -> Option<Entry> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let time = |pointer: &str| text(pointer).parse::<Timestamp>().ok();
    let first = time("/firstTimestamp").or_else(|| time("/eventTime")).or_else(|| time("/metadata/creationTimestamp"));
    let last = time("/series/lastObservedTime").or_else(|| time("/lastTimestamp")).or(first)?;
    let count = event.pointer("/series/count").or_else(|| event.get("count")).and_then(Value::as_i64).unwrap_or(1);
    let namespace = text("/involvedObject/namespace");
    let sources = ["/source/component", "/reportingComponent"].map(text);
    Some(Entry {
        at: last,
        first: first.filter(|first| count > 1 && *first < last),
        count: count.max(1),
        class: text("/type").to_owned(),
        reason: text("/reason").to_owned(),
        message: text("/message").to_owned(),
        object: object(text("/involvedObject/kind"), namespace, text("/involvedObject/name")),
        namespace: namespace.to_owned(),
        source: sources.into_iter().find(|source| !source.is_empty()).unwrap_or_default().to_owned(),
    })
}

/// The conditions of an object, each at its last change.
pub fn conditions<'a>(
    kind: &str,
    namespace: &str,
    name: &str,
    all: &'a [Condition],
) -> impl Iterator<Item = Entry> + use<'a> {
    let (object, namespace) = (object(kind, namespace, name), namespace.to_owned());
    all.iter().map(move |condition| {
        let said = if condition.message.is_empty() { String::new() } else { format!(": {}", condition.message) };
        Entry {
            at: condition.last_transition_time.0,
            first: None,
            count: 1,
            class: "Condition".to_owned(),
            reason: condition.reason.clone(),
            message: format!("{} is {}{said}", condition.type_, condition.status),
            object: object.clone(),
            namespace: namespace.clone(),
            source: "condition".to_owned(),
        }
    })
}

/// Everything in order, newest first.
#[must_use]
pub fn timeline(entries: impl IntoIterator<Item = Entry>) -> Vec<Entry> {
    let mut all: Vec<Entry> = entries.into_iter().collect();
    all.sort_by(|a, b| (Reverse(a.at), &a.object, &a.reason).cmp(&(Reverse(b.at), &b.object, &b.reason)));
    all
}

fn object(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn events_of_all_forms_are_read() {
        let about = json!({"kind": "ResourceBinding", "namespace": "shop", "name": "web"});
        for (name, form, want) in [
            ("once", json!({"firstTimestamp": at(5), "lastTimestamp": at(5)}), Some((at(5), None, 1))),
            (
                "again",
                json!({"firstTimestamp": at(5), "lastTimestamp": at(9), "count": 3}),
                Some((at(9), Some(at(5)), 3)),
            ),
            (
                "of the newer API",
                json!({"eventTime": "2026-01-01T00:00:05.000000Z", "firstTimestamp": null, "count": null}),
                Some((at(5), None, 1)),
            ),
            (
                "a series",
                json!({"eventTime": at(5), "series": {"count": 2, "lastObservedTime": at(7)}}),
                Some((at(7), Some(at(5)), 2)),
            ),
            ("by its creation", json!({"metadata": {"creationTimestamp": at(1)}}), Some((at(1), None, 1))),
            ("no time", json!({}), None),
        ] {
            let mut whole = json!({"involvedObject": about, "type": "Warning", "reason": "R", "message": "m",
                "reportingComponent": "c"});
            whole.as_object_mut().unwrap().extend(form.as_object().unwrap().clone());
            let found = event(&whole);
            assert_eq!(found.as_ref().map(|entry| (entry.at, entry.first, entry.count)), want, "{name}");
            let Some(entry) = found else { continue };
            let told = [&entry.object, &entry.source, &entry.class].map(String::as_str);
            assert_eq!(told, ["ResourceBinding shop/web", "c", "Warning"]);
        }
    }

    #[test]
    fn conditions_and_events_are_in_one_order() {
        let condition = |kind: &str, status: &str, second| -> Condition {
            serde_json::from_value(json!({"type": kind, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": at(second)}))
            .unwrap()
        };
        let all = [condition("Scheduled", "True", 1), condition("FullyApplied", "False", 3)];
        let between = event(&json!({"involvedObject": {"kind": "Work", "name": "w"}, "type": "Normal",
            "reason": "E", "message": "m", "firstTimestamp": at(2)}));
        let entries = timeline(conditions("ResourceBinding", "", "web", &all).chain(between));
        let told: Vec<String> =
            entries.iter().map(|one| format!("{} {} {}", one.class, one.object, one.message)).collect();
        assert_eq!(
            told,
            [
                "Condition ResourceBinding web FullyApplied is False",
                "Normal Work w m",
                "Condition ResourceBinding web Scheduled is True",
            ]
        );
    }
}
