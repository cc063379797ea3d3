//! Manifests as people read them: without what control planes add, and without the values of Secrets.

use ironclad_propagation::template::Identity;
use serde_json::{Value, json};

use super::{Line, Side};

/// Domains whose labels and annotations propagation sets.
const OWN_DOMAINS: [&str; 2] = ["karmada.io", "ironclad.io"];
/// Annotation with the manifest that `kubectl apply` applied last. It repeats the object, the values of a Secret among
/// it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Fields of a Secret whose values are not shown.
const HIDDEN: [&str; 2] = ["data", "stringData"];
/// Letters of a line that are shown; the rest is a number.
const LETTERS_MAX: usize = 2_000;
/// Lines that are shown; the rest is a number.
const LINES_MAX: usize = 5_000;

/// The part of a template, or of a copy, that its author would write: pruned as copies are, without labels and
/// annotations of propagation. Of the values of a Secret only the length is told, and whether it is another value than
/// that of `beside`.
#[must_use]
pub fn readable(object: &Value, beside: Option<&Value>) -> Value {
    let mut shown = object.clone();
    ironclad_interpreter::prune(&mut shown);
    for map in ["labels", "annotations"] {
        let Some(metadata) = shown.get_mut("metadata").and_then(Value::as_object_mut) else { break };
        let Some(keys) = metadata.get_mut(map).and_then(Value::as_object_mut) else { continue };
        keys.retain(|key, _| key != LAST_APPLIED && !is_own(key));
        if keys.is_empty() {
            metadata.remove(map);
        }
    }
    let identity = Identity::of(object);
    if identity.group().is_empty() && identity.kind == "Secret" {
        for field in HIDDEN {
            let other = beside.and_then(|other| other.get(field));
            let Some(values) = shown.get_mut(field).filter(|values| !values.is_null()) else { continue };
            match values.as_object_mut() {
                Some(values) => {
                    for (key, value) in values {
                        let differs = beside.is_some() && other.and_then(|other| other.get(key)) != Some(value);
                        *value = hidden(field, value, differs);
                    }
                }
                None => *values = json!("not shown"),
            }
        }
    }
    shown
}

/// True for a label or an annotation of propagation.
fn is_own(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    OWN_DOMAINS.iter().any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn hidden(field: &str, value: &Value, differs: bool) -> Value {
    let text = value.as_str().unwrap_or_default();
    let bytes = match field {
        "data" => text.trim_end_matches('=').len() * 3 / 4,
        _ => text.len(),
    };
    let other = if differs { ", another value than that of the template" } else { "" };
    format!("{bytes} bytes{other}").into()
}

/// Number of lines that are only in the second text, and of those that are only in the first one.
#[must_use]
pub fn changes(lines: &[Line]) -> (usize, usize) {
    let of = |side| lines.iter().filter(|line| line.side == side).count();
    (of(Side::Added), of(Side::Removed))
}

/// These lines, cut where they are too many or too long to be shown.
#[must_use]
pub fn cut(mut lines: Vec<Line>) -> Vec<Line> {
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    for line in &mut lines {
        if let Some((end, _)) = line.text.char_indices().nth(LETTERS_MAX) {
            let left = line.text.len() - end;
            line.text.truncate(end);
            line.text.push_str(&format!("… and {left} bytes more"));
        }
    }
    if more > 0 {
        lines.push(Line { side: Side::Both, text: format!("… and {more} lines more") });
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::difference;

    #[test]
    fn what_nobody_wrote_is_left_out() {
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "7", "managedFields": [{}],
            "labels": {"app": "web", "karmada.io/managed": "true", "work.karmada.io/permanent-id": "i", "notkarmada.io/x": "y"},
            "annotations": {LAST_APPLIED: "{}", "work.ironclad.io/applied-fields": "f"}},
            "spec": {"replicas": 2}, "status": {"replicas": 2}});
        let want = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "namespace": "shop", "name": "web", "labels": {"app": "web", "notkarmada.io/x": "y"}}, "spec": {"replicas": 2}});
        assert_eq!(readable(&object, None), want);
    }

    #[test]
    fn values_of_secrets_are_never_shown() {
        let secret = |token: &str| {
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": {LAST_APPLIED: token}},
                "data": {"token": token, "user": "cm9vdA=="}, "stringData": {"plain": token}})
        };
        let told = |object: &Value, beside: Option<&Value>| {
            let shown = readable(object, beside);
            assert!(!shown.to_string().contains("c2Vj"), "{shown}");
            [&shown["data"]["token"], &shown["data"]["user"], &shown["stringData"]["plain"]]
                .map(|value| value.as_str().unwrap().to_owned())
                .join("; ")
        };
        let (own, other) = (secret("c2VjcmV0"), secret("c2VjcmV1"));
        for (name, object, beside, want) in [
            ("alone", &own, None, "6 bytes; 4 bytes; 8 bytes"),
            ("as the template", &own, Some(&own), "6 bytes; 4 bytes; 8 bytes"),
            (
                "another value of the same length",
                &other,
                Some(&own),
                "6 bytes, another value than that of the template; 4 bytes; 8 bytes, another value than that of the template",
            ),
        ] {
            assert_eq!(told(object, beside), want, "{name}");
        }
        let odd = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {}, "data": "c2VjcmV0"});
        assert_eq!(readable(&odd, None)["data"], "not shown");
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}});
        assert_eq!(readable(&config, None), config, "only Secrets");
    }

    #[test]
    fn long_manifests_are_cut() {
        let long = format!("a: {}\nb\n", "ä".repeat(5_000));
        let lines = cut(difference("b\n", &long));
        assert_eq!(changes(&lines), (1, 0));
        assert!(lines[0].text.ends_with("ä… and 6006 bytes more"), "{}", lines[0].text);
        let many: String = (0..6_000).map(|number| format!("{number}\n")).collect();
        let lines = cut(difference(&many, &many));
        assert_eq!(lines.len(), 5_001);
        assert_eq!(lines[5_000].text, "… and 1000 lines more");
    }
}
