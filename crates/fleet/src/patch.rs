//! The merge patch that leads from one JSON value to another (RFC 7396).

use serde_json::{Map, Value};

/// The smallest merge patch that makes `new` out of `old`; `None` if they mean the same.
///
/// A merge patch can't write a null, so nulls in `new` count as absent.
#[must_use]
pub fn merge_patch_between(old: &Value, new: &Value) -> Option<Value> {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        let wanted = without_nulls(new);
        return (*old != wanted).then_some(wanted);
    };
    let mut patch = Map::new();
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let change = match old.get(key) {
            Some(old) if old.is_object() && value.is_object() => merge_patch_between(old, value),
            Some(old) if old == value => None,
            _ => Some(without_nulls(value)),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    for (key, value) in old {
        if !value.is_null() && new.get(key).is_none_or(Value::is_null) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Drops nulls in objects, as a merge patch would; nulls inside lists remain.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.clone(), without_nulls(v))).collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// RFC 7396, as the server applies it.
    fn apply(target: &Value, patch: &Value) -> Value {
        let Some(patch) = patch.as_object() else { return patch.clone() };
        let mut map = target.as_object().cloned().unwrap_or_default();
        for (key, value) in patch {
            if value.is_null() {
                map.remove(key);
            } else {
                let next = apply(map.get(key).unwrap_or(&Value::Null), value);
                map.insert(key.clone(), next);
            }
        }
        Value::Object(map)
    }

    #[test]
    fn smallest_patches() {
        for (name, old, new, want) in [
            ("equal", json!({"a": {"b": 1}}), json!({"a": {"b": 1}}), None),
            ("one leaf", json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), Some(json!({"a": {"c": 3}}))),
            ("a key less", json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), Some(json!({"a": {"c": null}}))),
            ("a null is absent", json!({"a": 1}), json!({"a": 1, "b": null}), None),
            ("a list is one value", json!({"a": [1, 2]}), json!({"a": [1]}), Some(json!({"a": [1]}))),
            (
                "an object in the place of a list",
                json!({"a": [1]}),
                json!({"a": {"b": null, "c": 1}}),
                Some(json!({"a": {"c": 1}})),
            ),
            ("an empty object is something", json!({}), json!({"a": {}}), Some(json!({"a": {}}))),
        ] {
            assert_eq!(merge_patch_between(&old, &new), want, "{name}");
        }
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        });
        prop::collection::btree_map("[a-c]", value, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn the_patch_leads_there_and_is_absent_only_when_there(old in object(), new in object()) {
            match merge_patch_between(&old, &new) {
                Some(patch) => prop_assert_eq!(apply(&old, &patch), new),
                None => prop_assert_eq!(old, new),
            }
        }
    }
}
