//! JSON Patch between two values (specification/admission.md 1.1).

use serde_json::{Value, json};

/// The JSON Patch operations that turn `old` into `new`; none if they are equal. Lists of different lengths are
/// replaced.
#[must_use]
pub(crate) fn json_patch(old: &Value, new: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    compare(old, new, &mut String::new(), &mut out);
    out
}

fn compare(old: &Value, new: &Value, path: &mut String, out: &mut Vec<Value>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().filter(|key| !b.contains_key(*key)) {
                at(path, key, |path| out.push(json!({"op": "remove", "path": path.as_str()})));
            }
            for (key, value) in b {
                at(path, key, |path| match a.get(key) {
                    Some(before) => compare(before, value, path, out),
                    None => out.push(json!({"op": "add", "path": path.as_str(), "value": value})),
                });
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (before, after)) in a.iter().zip(b).enumerate() {
                at(path, &i.to_string(), |path| compare(before, after, path, out));
            }
        }
        _ => out.push(json!({"op": "replace", "path": path.as_str(), "value": new})),
    }
}

/// Runs `then` with the path extended by one key.
fn at(path: &mut String, key: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
    then(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]{1,2}", inner, 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_patch_makes_the_new_one(old in value(), new in value()) {
            // The root is an object: a document is never a bare number.
            let (old, new) = (json!({ "x": old }), json!({ "x": new }));
            let patch = json_patch(&old, &new);
            prop_assert_eq!(patch.is_empty(), old == new);
            let mut patched = old.clone();
            ironclad_patch::json_patch(&mut patched, &Value::Array(patch)).unwrap();
            prop_assert_eq!(patched, new);
        }
    }
}
