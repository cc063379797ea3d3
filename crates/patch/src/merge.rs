//! JSON merge patch, RFC 7396 (specification/apiserver.md 12).

use serde_json::Value;

/// Merges `patch` into `doc`: objects merge member by member, `null` removes, anything else replaces.
///
/// Lists are replaced whole. As in a kube-apiserver, nulls inside added values are dropped, also those of
/// objects in lists (the RFC would keep the latter); a null that is itself a list item stays.
pub fn merge_patch(doc: &mut Value, patch: &Value) {
    match (&mut *doc, patch) {
        (Value::Object(doc), Value::Object(patch)) => {
            for (key, value) in patch {
                if value.is_null() {
                    doc.remove(key);
                } else if let Some(old) = doc.get_mut(key) {
                    merge_patch(old, value);
                } else {
                    doc.insert(key.clone(), without_nulls(value));
                }
            }
        }
        (doc, patch) => *doc = without_nulls(patch),
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, v)| !v.is_null());
            Value::Object(kept.map(|(k, v)| (k.clone(), without_nulls(v))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::arbitrary;

    #[test]
    fn the_cases_of_the_rfc() {
        for (doc, patch, want) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"a": []}), json!({"a": [{"b": null}, null]}), json!({"a": [{}, null]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut got = doc.clone();
            merge_patch(&mut got, &patch);
            assert_eq!(got, want, "{doc} + {patch}");
        }
    }

    proptest! {
        #[test]
        fn the_same_patch_again_changes_nothing(mut doc in arbitrary::json(), patch in arbitrary::json()) {
            merge_patch(&mut doc, &patch);
            let once = doc.clone();
            merge_patch(&mut doc, &patch);
            prop_assert_eq!(doc, once);
        }
    }
}
