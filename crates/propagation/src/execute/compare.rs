//! Whether a member object is what the manifest says, seen through the defaults that the member put in (row 27 of 31).

use ironclad_api::quantity::Amount;
use serde_json::{Map, Value};

/// Fields of metadata that are compared; the others are the member's.
const METADATA: [&str; 2] = ["labels", "annotations"];
/// Maps of quantities: `1000m` and `1` are the same there.
const QUANTITIES: [&str; 5] = ["requests", "limits", "capacity", "hard", "overhead"];

/// Where the member object first says something else than `desired`; what `desired` does not mention does not count.
///
/// `desired` is the manifest after retention, so its labels and annotations are complete and compared as a whole.
#[must_use]
pub fn difference(desired: &Value, observed: &Value) -> Option<String> {
    for field in METADATA {
        let map = |object: &Value| -> Map<String, Value> {
            object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        if map(desired) != map(observed) {
            return Some(format!("/metadata/{field}"));
        }
    }
    let (desired, observed) = (desired.as_object()?, observed.as_object()?);
    top_level(desired).find_map(|(key, value)| covers(value, observed.get(key), key, &format!("/{key}")))
}

/// Whether the member object has a field, outside of metadata and status, that `desired` does not mention: a default of
/// the member, or what the manifest once had.
#[must_use]
pub fn has_more(desired: &Value, observed: &Value) -> bool {
    let (Some(desired), Some(observed)) = (desired.as_object(), observed.as_object()) else {
        return desired != observed;
    };
    top_level(observed).any(|(key, value)| more(desired.get(key), value))
}

fn top_level(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    object.iter().filter(|(key, _)| !matches!(key.as_str(), "metadata" | "status" | "apiVersion" | "kind"))
}

fn more(desired: Option<&Value>, observed: &Value) -> bool {
    match (desired, observed) {
        (None, observed) => !says_nothing(observed),
        (Some(Value::Object(desired)), Value::Object(observed)) => {
            observed.iter().any(|(key, value)| more(desired.get(key), value))
        }
        (Some(Value::Array(desired)), Value::Array(observed)) => {
            observed.iter().enumerate().any(|(i, value)| more(desired.get(i), value))
        }
        _ => false,
    }
}

/// An empty map, list or text is the same as none: servers leave such fields out.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(says_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn covers(desired: &Value, observed: Option<&Value>, parent: &str, at: &str) -> Option<String> {
    let Some(observed) = observed else { return (!says_nothing(desired)).then(|| at.to_owned()) };
    match (desired, observed) {
        (Value::Object(desired), Value::Object(observed)) => desired.iter().find_map(|(key, value)| {
            let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            if QUANTITIES.contains(&parent) && same_amount(value, observed.get(key)) {
                return None;
            }
            covers(value, observed.get(key), key, &at)
        }),
        (Value::Array(desired), Value::Array(observed)) => {
            if desired.len() != observed.len() {
                return Some(at.to_owned());
            }
            desired
                .iter()
                .enumerate()
                .find_map(|(i, value)| covers(value, observed.get(i), parent, &format!("{at}/{i}")))
        }
        _ => (desired != observed && !(says_nothing(desired) && says_nothing(observed))).then(|| at.to_owned()),
    }
}

fn same_amount(desired: &Value, observed: Option<&Value>) -> bool {
    let amount = |value: &Value| match value {
        Value::String(text) => Amount::parse(text).ok(),
        Value::Number(number) => Amount::parse(&number.to_string()).ok(),
        _ => None,
    };
    amount(desired).is_some_and(|desired| observed.and_then(amount) == Some(desired))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs() {
        for (name, desired, observed, want) in [
            ("equal", json!({"spec": {"a": 1}}), json!({"spec": {"a": 1}}), None),
            ("a default of the member", json!({"spec": {"a": 1}}), json!({"spec": {"a": 1, "b": 2}}), None),
            (
                "a default inside a list",
                json!({"spec": {"c": [{"name": "x"}]}}),
                json!({"spec": {"c": [{"name": "x", "policy": "Always"}]}}),
                None,
            ),
            ("a value", json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}}), Some("/spec/a")),
            ("a missing field", json!({"spec": {"a": {"b/c": 1}}}), json!({"spec": {"a": {}}}), Some("/spec/a/b~1c")),
            ("one more in a list", json!({"spec": {"c": [1]}}), json!({"spec": {"c": [1, 2]}}), Some("/spec/c")),
            ("one less in a list", json!({"spec": {"c": [1, 2]}}), json!({"spec": {"c": [1]}}), Some("/spec/c")),
            ("an element", json!({"spec": {"c": [1, 2]}}), json!({"spec": {"c": [1, 3]}}), Some("/spec/c/1")),
            ("null is none", json!({"data": null}), json!({}), None),
            (
                "empty is none",
                json!({"spec": {"a": {}, "b": [], "c": "", "d": {"e": null}}}),
                json!({"spec": {}}),
                None,
            ),
            ("false is something", json!({"spec": {"a": false}}), json!({"spec": {}}), Some("/spec/a")),
            (
                "zero is something",
                json!({"spec": {"replicas": 0}}),
                json!({"spec": {"replicas": 1}}),
                Some("/spec/replicas"),
            ),
            (
                "amounts by value",
                json!({"spec": {"requests": {"cpu": "1000m"}}}),
                json!({"spec": {"requests": {"cpu": "1"}}}),
                None,
            ),
            (
                "other amounts",
                json!({"spec": {"requests": {"cpu": "1000m"}}}),
                json!({"spec": {"requests": {"cpu": "2"}}}),
                Some("/spec/requests/cpu"),
            ),
            ("status is the member's", json!({"status": {"a": 1}}), json!({"status": {"a": 2}}), None),
            (
                "so are versions and uids",
                json!({"metadata": {"resourceVersion": "1"}}),
                json!({"metadata": {"resourceVersion": "2", "uid": "u"}}),
                None,
            ),
            (
                "labels as a whole",
                json!({"metadata": {"labels": {"a": "b"}}}),
                json!({"metadata": {"labels": {"a": "b", "c": "d"}}}),
                Some("/metadata/labels"),
            ),
            (
                "annotations as a whole",
                json!({"metadata": {}}),
                json!({"metadata": {"annotations": {"c": "d"}}}),
                Some("/metadata/annotations"),
            ),
            ("a new top-level field", json!({"data": {"a": "b"}}), json!({}), Some("/data")),
        ] {
            assert_eq!(difference(&desired, &observed).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn what_the_member_has_besides() {
        for (name, desired, observed, want) in [
            (
                "nothing",
                json!({"spec": {"a": 1}}),
                json!({"spec": {"a": 1}, "status": {}, "metadata": {"uid": "u"}}),
                false,
            ),
            ("a field", json!({"spec": {"a": 1}}), json!({"spec": {"a": 1, "b": 1}}), true),
            ("a top-level field", json!({}), json!({"data": {"a": "b"}}), true),
            ("inside a list", json!({"spec": {"c": [{"n": 1}]}}), json!({"spec": {"c": [{"n": 1, "p": 2}]}}), true),
            ("an empty one", json!({"spec": {}}), json!({"spec": {"a": {}}}), false),
        ] {
            assert_eq!(has_more(&desired, &observed), want, "{name}");
        }
    }

    proptest! {
        #[test]
        fn an_object_never_differs_from_itself_with_defaults(a in 0..3_i32, list in prop::collection::vec(0..3_i32, 0..3), extra in "[x-z]", value in 0..3_i32) {
            let desired = json!({"spec": {"a": a, "list": list.iter().map(|n| json!({"n": n})).collect::<Vec<_>>()}});
            let mut observed = desired.clone();
            observed["spec"][&extra] = json!(value);
            for element in observed["spec"]["list"].as_array_mut().unwrap() { element[&extra] = json!(value); }
            prop_assert_eq!(difference(&desired, &observed), None);
            prop_assert!(has_more(&desired, &observed));
        }
    }
}
