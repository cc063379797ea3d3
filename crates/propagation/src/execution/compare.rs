//! Comparison of a member object with its manifest that ignores defaults set by the member
//! (specification/propagation.md 31 row 27).

use ironclad_api::quantity::Amount;
use serde_json::{Map, Value};

use crate::template;

/// Fields of metadata that are compared; the member owns the others.
const METADATA: [&str; 2] = ["labels", "annotations"];
/// Maps of quantities in built-in kinds: `1000m` equals `1`, and servers store the shorter form.
const AMOUNT_MAPS: [&str; 10] =
    ["allocatable", "capacity", "default", "defaultRequest", "hard", "limits", "max", "min", "overhead", "requests"];
/// Single quantities in built-in kinds.
const AMOUNTS: [&str; 4] = ["averageValue", "divisor", "sizeLimit", "targetAverageValue"];
/// Maps that servers drop if empty. Other empty objects have a meaning: `emptyDir: {}`, `podSelector: {}`.
const MAPS: [&str; 12] = [
    "annotations", "binaryData", "data", "labels", "limits", "matchLabels", "metadata", "nodeSelector", "parameters",
    "requests", "resources", "stringData",
];

/// JSON pointer of the first field whose value differs from `desired`. Fields that `desired` lacks are ignored.
///
/// `desired` is the manifest after retention, so its labels and annotations are complete and compared as a whole.
/// Lists must have equal lengths and are compared by element. The member owns status and other metadata.
#[must_use]
pub fn difference(desired: &Value, observed: &Value) -> Option<String> {
    metadata_difference(desired, observed).or_else(|| content_difference(desired, observed))
}

/// [`difference`] of labels and annotations alone.
#[must_use]
pub(super) fn metadata_difference(desired: &Value, observed: &Value) -> Option<String> {
    let none = Map::new();
    let differs = |field: &&&str| map(desired, field).unwrap_or(&none) != map(observed, field).unwrap_or(&none);
    METADATA.iter().find(differs).map(|field| format!("/metadata/{field}"))
}

/// [`difference`] outside of metadata.
#[must_use]
pub(super) fn content_difference(desired: &Value, observed: &Value) -> Option<String> {
    let none = Map::new();
    let built_in = is_built_in(desired);
    let observed = observed.as_object().unwrap_or(&none);
    content(desired.as_object().unwrap_or(&none)).find_map(|(key, value)| {
        differs(value, observed.get(key), Under::top(key, built_in)).map(|at| pointer(key, &at))
    })
}

/// JSON pointer of the first field outside of metadata and status that `desired` lacks: a default of the member, or a
/// field that the manifest once had.
#[must_use]
pub fn surplus(desired: &Value, observed: &Value) -> Option<String> {
    let none = Map::new();
    let desired = desired.as_object().unwrap_or(&none);
    content(observed.as_object().unwrap_or(&none))
        .find_map(|(key, value)| more(desired.get(key), value, Under::top(key, true)).map(|at| pointer(key, &at)))
}

/// Most paths that [`missing`] returns.
const MISSING_MAX: usize = 3;

/// JSON pointers of the first fields of `sent`, outside of metadata and status, that an answer to its write lacks.
/// Another value is no loss: admission may change it. Nor is a value whose absence means the same; built-in kinds leave
/// out false, 0 and empty texts. Elements of lists are found by name, others by place if both lists are equally long.
#[must_use]
pub fn missing(sent: &Value, answer: &Value) -> Vec<String> {
    let (none, mut paths) = (Map::new(), Vec::new());
    let built_in = is_built_in(sent);
    let answer = answer.as_object().unwrap_or(&none);
    for (key, value) in content(sent.as_object().unwrap_or(&none)) {
        // Secrets take it, and answer with `data`.
        if key != "stringData" {
            lacks(value, answer.get(key), Under::top(key, built_in), &pointer(key, ""), &mut paths);
        }
    }
    paths
}

fn lacks(sent: &Value, answer: Option<&Value>, under: Under<'_>, path: &str, paths: &mut Vec<String>) {
    if paths.len() == MISSING_MAX {
        return;
    }
    let Some(answer) = answer.filter(|value| !value.is_null()) else {
        let is_zero = match sent {
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            _ => false,
        };
        if !(is_nothing(sent, under) || (is_zero && under.built_in)) {
            paths.push(path.to_owned());
        }
        return;
    };
    match (sent, answer) {
        (Value::Object(sent), Value::Object(answer)) => {
            for (key, value) in sent {
                lacks(value, answer.get(key), under.at(key), &format!("{path}{}", pointer(key, "")), paths);
            }
        }
        (Value::Array(sent), Value::Array(answer)) => {
            let same_length = sent.len() == answer.len();
            for (i, value) in sent.iter().enumerate() {
                let found = match value.get("name").filter(|name| name.is_string()) {
                    Some(name) => answer.iter().find(|other| other.get("name") == Some(name)),
                    None if same_length => answer.get(i),
                    // Admission may have merged or added elements.
                    None => continue,
                };
                lacks(value, found, under, &format!("{path}/{i}"), paths);
            }
        }
        _ => {}
    }
}

pub(super) fn is_built_in(object: &Value) -> bool {
    let group = template::group(template::text(object, "/apiVersion"));
    !group.contains('.') || group.ends_with(".k8s.io")
}

fn map<'a>(object: &'a Value, field: &str) -> Option<&'a Map<String, Value>> {
    object.get("metadata")?.get(field)?.as_object()
}

fn content(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    object.iter().filter(|(key, _)| is_content(key))
}

/// Returns true for the top-level fields that a manifest sets.
pub(super) fn is_content(key: &str) -> bool {
    !matches!(key, "metadata" | "status" | "apiVersion" | "kind")
}

fn pointer(key: &str, rest: &str) -> String {
    format!("/{}{rest}", key.replace('~', "~0").replace('/', "~1"))
}

/// Path of a value in the object. Elements of a list have the path of the list.
#[derive(Clone, Copy)]
struct Under<'a> {
    parent: &'a str,
    field: &'a str,
    built_in: bool,
}

impl<'a> Under<'a> {
    fn top(field: &'a str, built_in: bool) -> Self {
        Self { parent: "", field, built_in }
    }

    fn at(self, field: &'a str) -> Self {
        Self { parent: self.field, field, ..self }
    }
}

fn differs(desired: &Value, observed: Option<&Value>, under: Under<'_>) -> Option<String> {
    let here = || Some(String::new());
    let Some(observed) = observed.filter(|value| !value.is_null()) else {
        return if is_nothing(desired, under) { None } else { here() };
    };
    match (desired, observed) {
        (Value::Object(desired), Value::Object(observed)) => desired
            .iter()
            .find_map(|(key, value)| differs(value, observed.get(key), under.at(key)).map(|at| pointer(key, &at))),
        (Value::Array(desired), Value::Array(observed)) if desired.len() == observed.len() => {
            desired.iter().zip(observed).enumerate().find_map(|(i, (desired, observed))| {
                differs(desired, Some(observed), under).map(|at| format!("/{i}{at}"))
            })
        }
        // A default replaced a null or an empty text.
        (Value::Null, _) => None,
        (desired, observed) => {
            if is_same(desired, observed, under) {
                None
            } else {
                here()
            }
        }
    }
}

fn is_same(desired: &Value, observed: &Value, under: Under<'_>) -> bool {
    let is_amount = under.built_in && (AMOUNT_MAPS.contains(&under.parent) || AMOUNTS.contains(&under.field));
    desired == observed
        || (is_amount && amount(desired).is_some_and(|desired| amount(observed) == Some(desired)))
        || matches!((desired, observed), (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64()))
}

fn amount(value: &Value) -> Option<Amount> {
    match value {
        Value::String(text) => Amount::parse(text).ok(),
        Value::Number(number) => Amount::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Returns true if omitting the field means the same. False and 0 do not count, since many fields have other defaults;
/// nor do empty texts, which may be a label's value. If this accepts too little, a PUT changes nothing; if it accepts
/// too much, a change is missed.
fn is_nothing(value: &Value, under: Under<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() && (under.parent, under.field) == ("env", "value"),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) if map.is_empty() => MAPS.contains(&under.field),
        Value::Object(map) => map.iter().all(|(key, value)| is_nothing(value, under.at(key))),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn more(desired: Option<&Value>, observed: &Value, under: Under<'_>) -> Option<String> {
    match (desired, observed) {
        (None | Some(Value::Null), observed) => (!is_nothing(observed, under)).then(String::new),
        (Some(Value::Object(desired)), Value::Object(observed)) => observed
            .iter()
            .find_map(|(key, value)| more(desired.get(key), value, under.at(key)).map(|at| pointer(key, &at))),
        (Some(Value::Array(desired)), Value::Array(observed)) => observed
            .iter()
            .enumerate()
            .find_map(|(i, value)| more(desired.get(i), value, under).map(|at| format!("/{i}{at}"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_differ() {
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
                json!({"spec": {"nodeSelector": {}, "b": [], "env": [{"name": "e", "value": ""}], "d": {"e": null}}}),
                json!({"spec": {"env": [{"name": "e"}]}}),
                None,
            ),
            (
                "an empty text may be a choice",
                json!({"spec": {"nodeSelector": {"role": ""}}}),
                json!({"spec": {}}),
                Some("/spec/nodeSelector"),
            ),
            (
                "an empty object may be a choice",
                json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
                json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}),
                Some("/spec/volumes/0/emptyDir"),
            ),
            ("null leaves it to the member", json!({"spec": {"a": null}}), json!({"spec": {"a": 1}}), None),
            ("a null in the member is none", json!({"spec": {"a": 1}}), json!({"spec": {"a": null}}), Some("/spec/a")),
            ("numbers by value", json!({"spec": {"a": 1.0, "b": 2}}), json!({"spec": {"a": 1, "b": 2}}), None),
            ("another type", json!({"spec": {"a": [1]}}), json!({"spec": {"a": {"b": 1}}}), Some("/spec/a")),
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
            (
                "an amount as a number",
                json!({"spec": {"limits": {"cpu": 1}}}),
                json!({"spec": {"limits": {"cpu": "1"}}}),
                None,
            ),
            (
                "no amount",
                json!({"spec": {"limits": {"cpu": "x"}}}),
                json!({"spec": {"limits": {"cpu": "y"}}}),
                Some("/spec/limits/cpu"),
            ),
            (
                "a single amount",
                json!({"spec": {"emptyDir": {"sizeLimit": "1024Mi"}}}),
                json!({"spec": {"emptyDir": {"sizeLimit": "1Gi"}}}),
                None,
            ),
            (
                "texts are no amounts",
                json!({"data": {"cpu": "1000m"}}),
                json!({"data": {"cpu": "1"}}),
                Some("/data/cpu"),
            ),
            (
                "nor are those of foreign kinds",
                json!({"apiVersion": "x.io/v1", "spec": {"limits": {"cpu": "1000m"}}}),
                json!({"apiVersion": "x.io/v1", "spec": {"limits": {"cpu": "1"}}}),
                Some("/spec/limits/cpu"),
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
    fn surplus_fields_of_the_member() {
        for (name, desired, observed, want) in [
            (
                "nothing",
                json!({"spec": {"a": 1}}),
                json!({"spec": {"a": 1}, "status": {}, "metadata": {"uid": "u"}}),
                None,
            ),
            ("a field", json!({"spec": {"a": 1}}), json!({"spec": {"a": 1, "b": 1}}), Some("/spec/b")),
            ("a top-level field", json!({}), json!({"data": {"a": "b"}}), Some("/data")),
            (
                "in a list",
                json!({"spec": {"c": [{"n": 1}]}}),
                json!({"spec": {"c": [{"n": 1, "p": 2}]}}),
                Some("/spec/c/0/p"),
            ),
            ("an empty map", json!({"spec": {}}), json!({"spec": {"nodeSelector": {}}}), None),
            ("in the place of a null", json!({"spec": {"a": null}}), json!({"spec": {"a": 1}}), Some("/spec/a")),
        ] {
            assert_eq!(surplus(&desired, &observed).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn fields_that_an_answer_lacks() {
        let cr = |spec: Value| json!({"apiVersion": "x.io/v1", "kind": "X", "spec": spec});
        let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
        for (name, sent, answer, want) in [
            ("all is there", cr(json!({"a": 1})), cr(json!({"a": 1, "b": 2})), &[][..]),
            (
                "a field that the schema does not have",
                cr(json!({"a": 1, "b": {"c": 2}})),
                cr(json!({"a": 1})),
                &["/spec/b"],
            ),
            ("one below", cr(json!({"b": {"c": 2, "d": 3}})), cr(json!({"b": {"d": 3}})), &["/spec/b/c"]),
            ("another value is admission's", cr(json!({"a": 1})), cr(json!({"a": 2})), &[]),
            ("null and empty mean the same", cr(json!({"a": null, "b": []})), cr(json!({})), &[]),
            ("false of a custom kind", cr(json!({"a": false})), cr(json!({})), &["/spec/a"]),
            (
                "false, 0 and \"\" of a built-in kind",
                pod(json!({"hostPID": false, "a": 0, "b": ""})),
                pod(json!({})),
                &[],
            ),
            ("true of a built-in kind", pod(json!({"hostUsers": true})), pod(json!({})), &["/spec/hostUsers"]),
            (
                "a container behind one that admission added",
                pod(json!({"containers": [{"name": "a", "image": "i", "x": 1}]})),
                pod(json!({"containers": [{"name": "proxy"}, {"name": "a", "image": "i"}]})),
                &["/spec/containers/0/x"],
            ),
            (
                "a container that was taken away",
                pod(json!({"containers": [{"name": "a"}]})),
                pod(json!({"containers": [{"name": "b"}]})),
                &["/spec/containers/0"],
            ),
            ("elements without names", cr(json!({"l": [{"a": 1}]})), cr(json!({"l": [{}]})), &["/spec/l/0/a"]),
            ("more of them", cr(json!({"l": [{"a": 1}]})), cr(json!({"l": [{}, {}]})), &[]),
            (
                "the first three",
                cr(json!({"a": 1, "b": 1, "c": 1, "d": 1})),
                cr(json!({})),
                &["/spec/a", "/spec/b", "/spec/c"],
            ),
            (
                "what Secrets take in another form",
                json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "b"}}),
                json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": "Yg=="}}),
                &[],
            ),
            ("status and metadata", json!({"metadata": {"x": 1}, "status": {"y": 1}}), json!({}), &[]),
        ] {
            assert_eq!(missing(&sent, &answer), want, "{name}");
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
            prop_assert!(surplus(&desired, &observed).is_some());
        }
    }
}
