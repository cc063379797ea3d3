//! JSON patch, RFC 6902, with the deviations of the library in a kube-apiserver (specification/apiserver.md 12).
//!
//! Deviations from the RFC: `replace` of a missing member adds it, negative indices count from the end, a missing
//! `value` is `null`, `test` for `null` succeeds on a missing member, and text before the first `/` of a pointer is
//! ignored. Only `replace` and `test` may address the whole document.

use serde_json::{Map, Value};

use crate::error::PatchError;

/// A patch with more operations than this is refused with 413.
pub const OPERATIONS_MAX: usize = 10_000;

/// Bytes of JSON that the `copy` operations of one patch may add: without a limit, thirty of them make a gigabyte.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Maximum nesting of a patched document. The parser limits bodies, but `copy` into itself doubles the depth each time.
pub const DEPTH_MAX: usize = 256;

const OPERATION_FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// Parses `patch` and applies it: [`JsonPatch::parse`], then [`JsonPatch::apply`].
///
/// # Errors
/// Those of the two.
pub fn json_patch(doc: &mut Value, patch: &Value) -> Result<(), PatchError> {
    JsonPatch::parse(patch)?.apply(doc)
}

/// A decoded list of operations.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch<'a> {
    operations: Vec<&'a Map<String, Value>>,
}

impl<'a> JsonPatch<'a> {
    /// Parses a patch. Operations are checked when they are applied, so that a later invalid operation does not hide
    /// the failure of an earlier one.
    ///
    /// # Errors
    /// 400 if it is not a list of objects, 413 if it has more than [`OPERATIONS_MAX`] of them.
    pub fn parse(patch: &'a Value) -> Result<Self, PatchError> {
        let list = match patch {
            Value::Array(list) => list,
            Value::Null => return Ok(Self { operations: Vec::new() }),
            other => return Err(undecodable(other, "[]handlers.jsonPatchOp")),
        };
        if list.len() > OPERATIONS_MAX {
            let text =
                format!("The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}", list.len());
            return Err(PatchError::TooLarge(text));
        }
        let operations = list
            .iter()
            .map(|operation| operation.as_object().ok_or_else(|| undecodable(operation, "handlers.jsonPatchOp")))
            .collect::<Result<_, _>>()?;
        Ok(Self { operations })
    }

    /// Returns unknown members of operations as strict validation reports them: `json patch unknown field "[0].zz"`.
    pub fn unknown_fields(&self) -> Vec<String> {
        let mut unknown = Vec::new();
        for (i, operation) in self.operations.iter().enumerate() {
            for name in operation.keys().filter(|name| !OPERATION_FIELDS.contains(&name.as_str())) {
                unknown.push(format!("json patch unknown field \"[{i}].{name}\""));
            }
        }
        unknown
    }

    /// Applies the operations in order. After an error `doc` is half patched: work on a copy.
    ///
    /// # Errors
    /// [`PatchError::Unprocessable`] if an operation does not apply.
    pub fn apply(&self, doc: &mut Value) -> Result<(), PatchError> {
        let mut copied = 0;
        for operation in &self.operations {
            step(doc, operation, &mut copied).map_err(PatchError::Unprocessable)?;
        }
        Ok(())
    }
}

fn undecodable(value: &Value, go_type: &str) -> PatchError {
    let word = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    PatchError::BadRequest(format!(
        "error decoding patch: json: cannot unmarshal {word} into Go value of type {go_type}"
    ))
}

fn step(doc: &mut Value, operation: &Map<String, Value>, copied: &mut usize) -> Result<(), String> {
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => put(doc, pointer(operation, "path", kind)?, value(), kind),
        "remove" => take(doc, pointer(operation, "path", kind)?, kind).map(drop),
        "replace" => replace(doc, pointer(operation, "path", kind)?, value()),
        "move" => {
            let moved = take(doc, pointer(operation, "from", kind)?, kind)?;
            put(doc, pointer(operation, "path", kind)?, moved, kind)
        }
        "copy" => {
            let copy = read(doc, pointer(operation, "from", kind)?, kind)?.cloned().unwrap_or(Value::Null);
            *copied += copy.to_string().len();
            if *copied > COPIED_BYTES_MAX {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {COPIED_BYTES_MAX}"
                ));
            }
            put(doc, pointer(operation, "path", kind)?, copy, kind)
        }
        "test" => {
            let path = pointer(operation, "path", kind)?;
            let found = if path.is_empty() { Some(&*doc) } else { read(doc, path, kind)? };
            if found.unwrap_or(&Value::Null) == operation.get("value").unwrap_or(&Value::Null) {
                Ok(())
            } else {
                Err(format!("testing value {path} failed: test failed"))
            }
        }
        other => Err(format!("Unexpected kind: {other}")),
    }
}

fn pointer<'a>(operation: &'a Map<String, Value>, member: &str, kind: &str) -> Result<&'a str, String> {
    let text = operation.get(member).and_then(Value::as_str);
    text.ok_or_else(|| format!("{kind} operation failed to decode {member}: missing value"))
}

/// Returns the parent of the value at `path`, and the last segment of the path.
fn parent<'d>(doc: &'d mut Value, path: &str, kind: &str) -> Result<(&'d mut Value, String), String> {
    let missing = || format!("{kind} operation does not apply: doc is missing path: \"{path}\": missing value");
    let (_, words) = path.split_once('/').ok_or_else(missing)?;
    let (way, last) = words.rsplit_once('/').map_or((None, words), |(way, last)| (Some(way), last));
    let mut at = doc;
    for word in way.iter().flat_map(|way| way.split('/')).map(unescape) {
        at = match at {
            Value::Object(members) => members.get_mut(&word),
            Value::Array(items) => index(&word, items.len(), items.len()).ok().and_then(|i| items.get_mut(i)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    if at.is_object() || at.is_array() { Ok((at, unescape(last))) } else { Err(missing()) }
}

fn read<'d>(doc: &'d mut Value, path: &str, kind: &str) -> Result<Option<&'d Value>, String> {
    match parent(doc, path, kind)? {
        (Value::Object(members), key) => Ok(members.get(&key)),
        (Value::Array(items), key) => {
            let i = index(&key, items.len(), items.len())?;
            Ok(items.get(i))
        }
        _ => Ok(None),
    }
}

/// Refuses an operation that nests the document too deeply.
fn check_depth(path: &str, value: &Value, kind: &str) -> Result<(), String> {
    if path.split('/').count() + depth(value) > DEPTH_MAX {
        return Err(format!("{kind} operation for path \"{path}\" makes the document deeper than {DEPTH_MAX} levels"));
    }
    Ok(())
}

fn put(doc: &mut Value, path: &str, value: Value, kind: &str) -> Result<(), String> {
    check_depth(path, &value, kind)?;
    match parent(doc, path, kind)? {
        (Value::Object(members), key) => {
            members.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => items.insert(index(&key, items.len() + 1, items.len() + 1)?, value),
        _ => {}
    }
    Ok(())
}

fn take(doc: &mut Value, path: &str, kind: &str) -> Result<Value, String> {
    match parent(doc, path, kind)? {
        (Value::Object(members), key) => {
            members.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        (Value::Array(items), key) => Ok(items.remove(index(&key, items.len(), items.len())?)),
        _ => Ok(Value::Null),
    }
}

fn replace(doc: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        *doc = value;
        return Ok(());
    }
    check_depth(path, &value, "replace")?;
    match parent(doc, path, "replace")? {
        (Value::Object(members), key) => {
            members.insert(key, value);
        }
        (Value::Array(items), key) => {
            let i = index(&key, items.len(), items.len())?;
            items[i] = value;
        }
        _ => {}
    }
    Ok(())
}

/// Parses an index below `end`; a negative one counts back from `base`.
fn index(key: &str, end: usize, base: usize) -> Result<usize, String> {
    let i: i64 = key.parse().map_err(|_| format!("value was not a proper array index: '{key}'"))?;
    let i = if i < 0 { i + base as i64 } else { i };
    usize::try_from(i)
        .ok()
        .filter(|i| *i < end)
        .ok_or_else(|| format!("Unable to access invalid index: {key}: invalid index referenced"))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Replaces `~1` by a slash and `~0` by a tilde, in one pass from left to right.
fn unescape(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (replacement, skip) = match rest.as_bytes().get(at + 1) {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        out.push(replacement);
        rest = &rest[at + skip..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::arbitrary;

    #[test]
    fn operations_that_apply() {
        for (name, doc, patch, want) in [
            ("add a member", json!({}), json!([{"op": "add", "path": "/a", "value": 1}]), json!({"a": 1})),
            ("add without a value", json!({}), json!([{"op": "add", "path": "/a"}]), json!({"a": null})),
            (
                "insert",
                json!({"a": [1, 3]}),
                json!([{"op": "add", "path": "/a/1", "value": 2}]),
                json!({"a": [1, 2, 3]}),
            ),
            ("append", json!({"a": [1]}), json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]})),
            (
                "-1 appends too",
                json!({"a": [1]}),
                json!([{"op": "add", "path": "/a/-1", "value": 2}]),
                json!({"a": [1, 2]}),
            ),
            ("remove", json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2})),
            ("remove the last", json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]})),
            (
                "replace a missing member",
                json!({}),
                json!([{"op": "replace", "path": "/a", "value": 1}]),
                json!({"a": 1}),
            ),
            (
                "replace the root",
                json!({"a": 1}),
                json!([{"op": "replace", "path": "", "value": {"b": 1}}]),
                json!({"b": 1}),
            ),
            ("move", json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
            (
                "copy",
                json!({"a": [1]}),
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                json!({"a": [1], "b": [1]}),
            ),
            (
                "copy a missing member",
                json!({}),
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                json!({"b": null}),
            ),
            (
                "test",
                json!({"a": {"b": 1}}),
                json!([{"op": "test", "path": "/a", "value": {"b": 1}}]),
                json!({"a": {"b": 1}}),
            ),
            ("test for null", json!({}), json!([{"op": "test", "path": "/a", "value": null}]), json!({})),
            ("escapes", json!({"a/b": {"~1": 1}}), json!([{"op": "remove", "path": "/a~1b/~01"}]), json!({"a/b": {}})),
            ("null is no operation", json!({"a": 1}), json!(null), json!({"a": 1})),
        ] {
            let mut got = doc;
            json_patch(&mut got, &patch).expect(name);
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn operations_that_do_not_apply() {
        for (name, doc, patch) in [
            ("a failed test", json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 2}])),
            ("1 is not 1.0", json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1.0}])),
            ("remove a missing member", json!({}), json!([{"op": "remove", "path": "/a"}])),
            ("add under a missing member", json!({}), json!([{"op": "add", "path": "/a/b", "value": 1}])),
            ("add under a number", json!({"a": 1}), json!([{"op": "add", "path": "/a/b", "value": 1}])),
            ("add at the root", json!({}), json!([{"op": "add", "path": "", "value": {}}])),
            ("index at the end", json!({"a": [1]}), json!([{"op": "replace", "path": "/a/1", "value": 1}])),
            ("index past the end", json!({"a": [1]}), json!([{"op": "add", "path": "/a/2", "value": 1}])),
            ("negative index out of range", json!({"a": [1]}), json!([{"op": "remove", "path": "/a/-2"}])),
            ("no index", json!({"a": [1]}), json!([{"op": "remove", "path": "/a/x"}])),
            ("unknown op", json!({}), json!([{"op": "frob", "path": "/a"}])),
            ("no op", json!({}), json!([{}])),
            ("no path", json!({}), json!([{"op": "remove"}])),
            ("move into itself", json!({"a": {}}), json!([{"op": "move", "from": "/a", "path": "/a/b"}])),
        ] {
            let error = json_patch(&mut doc.clone(), &patch).expect_err(name);
            assert_eq!(error.code(), 422, "{name}");
            assert_eq!(error.to_string(), "the server rejected our request due to an error in our request");
        }
    }

    #[test]
    fn bounds_and_forms() {
        let op = json!({"op": "test", "path": "/a", "value": null});
        let patch = |n| Value::Array(vec![op.clone(); n]);
        assert_eq!(json_patch(&mut json!({}), &patch(OPERATIONS_MAX)), Ok(()));
        let error = json_patch(&mut json!({}), &patch(OPERATIONS_MAX + 1)).expect_err("too many");
        assert_eq!(error.code(), 413);
        assert_eq!(
            error.to_string(),
            "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        let double = json!([{"op": "copy", "from": "/a", "path": "/a/-"}]);
        let bomb = Value::Array(vec![double[0].clone(); 40]);
        assert_eq!(json_patch(&mut json!({"a": ["0123456789"]}), &bomb).expect_err("a bomb").code(), 422);
        let deep = json!([{"op": "copy", "from": "/a", "path": "/a/a"}]);
        let nest = Value::Array(vec![deep[0].clone(); DEPTH_MAX + 1]);
        assert_eq!(json_patch(&mut json!({"a": {}}), &nest).expect_err("too deep").code(), 422);
        assert_eq!(json_patch(&mut json!({}), &json!({})).expect_err("an object").code(), 400);
        assert_eq!(json_patch(&mut json!({}), &json!([1])).expect_err("a number").code(), 400);
        let odd = json!([{"op": "test", "path": "/a", "zz": 1}]);
        assert_eq!(JsonPatch::parse(&odd).expect("a patch").unknown_fields(), [r#"json patch unknown field "[0].zz""#]);
    }

    proptest! {
        #[test]
        fn no_patch_panics(
            mut doc in arbitrary::json(),
            ops in proptest::collection::vec(
                (prop_oneof![Just("add"), Just("remove"), Just("replace"), Just("move"), Just("copy"), Just("test")],
                 "(/(a|b|name|-|0|1|-1|~0|~1|)){0,3}", "(/(a|b|name|-|0|1|-1)){0,3}", arbitrary::json()), 0..6),
        ) {
            let patch: Vec<Value> = ops
                .into_iter()
                .map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
                .collect();
            let _ = json_patch(&mut doc, &Value::Array(patch));
        }

        #[test]
        fn no_document_panics(mut doc in arbitrary::json(), patch in arbitrary::json()) {
            let _ = json_patch(&mut doc, &patch);
        }
    }
}
