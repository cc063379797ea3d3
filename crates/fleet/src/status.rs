//! Part of an object's status that one decision owns, and the merge of several parts into one write
//! (specification/propagation.md 1.1).

use ironclad_api::Condition;
use serde_json::{Map, Value, json};

use crate::merge_patch_between;

/// A part of a status: the fields and conditions of one writer among several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusPart {
    /// Top-level fields of `.status`, each whole; null removes one.
    pub fields: Map<String, Value>,
    /// Conditions, put in by type. Their time counts only where the status of that type changes. One with an empty
    /// status takes the condition of its type out.
    pub conditions: Vec<Condition>,
}

impl StatusPart {
    /// A part of one condition.
    #[must_use]
    pub fn condition(condition: Condition) -> Self {
        Self { fields: Map::new(), conditions: vec![condition] }
    }

    /// The part that turns the top-level fields of `old` into those of `new`; conditions are a field like any other
    /// here (for kinds whose conditions have one writer, as a Job template's).
    #[must_use]
    pub fn replacing(old: &Value, new: &Value) -> Self {
        let none = Map::new();
        let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
        let mut fields: Map<String, Value> = new
            .iter()
            .filter(|(key, value)| old.get(*key) != Some(*value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            fields.insert(key.clone(), Value::Null);
        }
        Self { fields, conditions: Vec::new() }
    }

    /// Merges a later part of the same writer into this one. The later one was decided over a status that
    /// already showed this one, so it may say only what differs from it.
    #[must_use]
    pub fn followed_by(&self, later: &Self) -> Self {
        let mut both = self.clone();
        both.fields.extend(later.fields.iter().map(|(field, value)| (field.clone(), value.clone())));
        for condition in &later.conditions {
            match both.conditions.iter_mut().find(|existing| existing.type_ == condition.type_) {
                Some(existing) => *existing = condition.clone(),
                None => both.conditions.push(condition.clone()),
            }
        }
        both
    }

    /// Returns whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.conditions.is_empty()
    }

    /// The status with the parts in it: later parts win, conditions keep their place and new ones come at the end.
    #[must_use]
    pub fn applied(current: &Value, parts: &[&Self]) -> Value {
        let mut status = current.as_object().cloned().unwrap_or_default();
        for part in parts {
            for (field, value) in &part.fields {
                if value.is_null() {
                    status.remove(field);
                } else {
                    status.insert(field.clone(), value.clone());
                }
            }
            if part.conditions.is_empty() {
                continue;
            }
            let mut list = match status.remove("conditions") {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            };
            for condition in &part.conditions {
                upsert(&mut list, condition);
            }
            status.insert("conditions".into(), Value::Array(list));
        }
        Value::Object(status)
    }

    /// The merge patch of `.status` that gives every part what it wants; `None` when it is so already.
    #[must_use]
    pub fn patch(current: &Value, parts: &[&Self]) -> Option<Value> {
        let current = if current.is_object() { current.clone() } else { json!({}) };
        merge_patch_between(&current, &Self::applied(&current, parts))
    }
}

fn upsert(list: &mut Vec<Value>, condition: &Condition) {
    if condition.status.is_empty() {
        list.retain(|old| old.get("type").and_then(Value::as_str) != Some(&condition.type_));
        return;
    }
    let mut wanted = json!(condition);
    match list.iter_mut().find(|old| old.get("type") == wanted.get("type")) {
        Some(old) => {
            if old.get("status") == wanted.get("status")
                && let Some(since) = old.get("lastTransitionTime")
            {
                wanted["lastTransitionTime"] = since.clone();
            }
            *old = wanted;
        }
        None => list.push(wanted),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_api::{Time, conditions};

    use super::*;

    fn condition(type_: &str, status: &str, message: &str, second: i64) -> Condition {
        let mut condition = conditions::condition(type_, status, "Because", message);
        condition.last_transition_time = Time(jiff::Timestamp::from_second(second).unwrap());
        condition
    }

    fn part(fields: Value, conditions: &[Condition]) -> StatusPart {
        StatusPart { fields: fields.as_object().unwrap().clone(), conditions: conditions.to_vec() }
    }

    #[test]
    fn a_later_part_keeps_what_an_earlier_one_wants() {
        let part = |text: &str, conditions: Vec<Condition>| {
            let Ok(Value::Object(fields)) = serde_json::from_str(text) else { panic!("not an object: {text}") };
            StatusPart { fields, conditions }
        };
        let condition = |type_: &str, status: &str| ironclad_api::conditions::condition(type_, status, "Because", "");
        let first = part(r#"{"replicas": 6, "ready": 2}"#, vec![condition("A", "False"), condition("B", "True")]);
        let later = part(r#"{"ready": 6, "gone": null}"#, vec![condition("A", "True"), condition("C", "True")]);
        let both = first.followed_by(&later);
        assert_eq!(json!(both.fields), json!({"replicas": 6, "ready": 6, "gone": null}));
        let types: Vec<_> = both.conditions.iter().map(|c| (c.type_.as_str(), c.status.as_str())).collect();
        assert_eq!(types, [("A", "True"), ("B", "True"), ("C", "True")]);
    }

    #[test]
    fn parts_become_one_patch() {
        let stored = |status: &str, message: &str, second: i64| json!(condition("Applied", status, message, second));
        let current = json!({"a": {"b": 1, "c": 2}, "keep": true, "conditions": [stored("True", "m", 1)]});
        for (name, parts, want) in [
            ("nothing wanted", vec![], None),
            ("what is there already", vec![part(json!({"keep": true}), &[condition("Applied", "True", "m", 9)])], None),
            (
                "a field is replaced whole",
                vec![part(json!({"a": {"b": 3}}), &[])],
                Some(json!({"a": {"b": 3, "c": null}})),
            ),
            ("null removes", vec![part(json!({"keep": null, "never": null}), &[])], Some(json!({"keep": null}))),
            (
                "a new message keeps the time",
                vec![part(json!({}), &[condition("Applied", "True", "n", 9)])],
                Some(json!({"conditions": [stored("True", "n", 1)]})),
            ),
            (
                "a new status moves it",
                vec![part(json!({}), &[condition("Applied", "False", "m", 9)])],
                Some(json!({"conditions": [stored("False", "m", 9)]})),
            ),
            (
                "a new type comes last; the order is that of appearance",
                vec![
                    part(json!({}), &[condition("Z", "True", "", 2), condition("B", "True", "", 2)]),
                    part(json!({"x": 1}), &[condition("Applied", "True", "m", 9)]),
                ],
                Some(
                    json!({"x": 1, "conditions": [stored("True", "m", 1), condition("Z", "True", "", 2), condition("B", "True", "", 2)]}),
                ),
            ),
            (
                "a condition without a status takes out the one of its type",
                vec![part(json!({}), &[condition("Applied", "", "", 9), condition("Never", "", "", 9)])],
                Some(json!({"conditions": []})),
            ),
            (
                "the later part wins",
                vec![part(json!({"keep": 1}), &[]), part(json!({"keep": 2}), &[])],
                Some(json!({"keep": 2})),
            ),
        ] {
            let refs: Vec<&StatusPart> = parts.iter().collect();
            assert_eq!(StatusPart::patch(&current, &refs), want, "{name}");
            let applied = StatusPart::applied(&current, &refs);
            assert_eq!(StatusPart::patch(&applied, &refs), None, "{name}, again");
        }
    }

    #[test]
    fn an_absent_status_is_an_empty_one() {
        let part = part(json!({"n": 1}), &[]);
        assert_eq!(StatusPart::patch(&Value::Null, &[&part]), Some(json!({"n": 1})));
    }

    #[test]
    fn replacing_names_only_what_differs() {
        let part = StatusPart::replacing(&json!({"a": 1, "b": 2, "c": 3}), &json!({"a": 1, "b": 3, "d": 4}));
        assert_eq!(Value::Object(part.fields), json!({"b": 3, "c": null, "d": 4}));
    }
}
