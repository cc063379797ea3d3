//! Objects as bytes and as values: what is stored, and how the resourceVersion gets into it without parsing.
//!
//! A stored value is four bytes that say where in the JSON the resourceVersion belongs, then the JSON without it. So an
//! object is served to any number of readers by copying bytes.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value, json};

use ironclad_store::Revision;

/// Levels of nesting in a stored object, its managedFields included. Decoders take 127, and lists, events of watches
/// and reviews put some around an object.
pub(crate) const DEPTH_MAX: usize = 100;

/// True for an object that is nested too deeply to be stored.
pub(crate) fn is_too_deep(object: &Value) -> bool {
    fn deeper(value: &Value, than: usize) -> bool {
        match value {
            Value::Array(items) => than == 0 || items.iter().any(|item| deeper(item, than - 1)),
            Value::Object(members) => than == 0 || members.values().any(|member| deeper(member, than - 1)),
            _ => false,
        }
    }
    deeper(object, DEPTH_MAX)
}

/// Bytes before the JSON in a stored value.
const HEADER: usize = 4;

/// Encodes an object for the store. Its resourceVersion, if any, is left out.
pub(crate) fn encode(object: &Value) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.put_u32_le(0);
    let mut splice = 0usize;
    out.push(b'{');
    let mut first = true;
    for (key, value) in object.as_object().into_iter().flatten() {
        separate(&mut out, &mut first);
        write_value(&mut out, &Value::String(key.clone()));
        out.push(b':');
        match value {
            Value::Object(metadata) if key == "metadata" => write_metadata(&mut out, metadata, &mut splice),
            other => write_value(&mut out, other),
        }
    }
    out.push(b'}');
    let offset = u32::try_from(splice).unwrap_or(0);
    out[..HEADER].copy_from_slice(&offset.to_le_bytes());
    Bytes::from(out)
}

fn write_metadata(out: &mut Vec<u8>, metadata: &Map<String, Value>, splice: &mut usize) {
    out.push(b'{');
    let mut first = true;
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        // The resourceVersion is written before the uid (or the next key), which every stored object has.
        if *splice == 0 && key.as_str() > "resourceVersion" {
            separate(out, &mut first);
            *splice = out.len() - HEADER;
            first = true;
        }
        separate(out, &mut first);
        write_value(out, &Value::String(key.clone()));
        out.push(b':');
        write_value(out, value);
    }
    out.push(b'}');
}

fn separate(out: &mut Vec<u8>, first: &mut bool) {
    if !std::mem::take(first) {
        out.push(b',');
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("a JSON value always serialises into memory");
}

/// Appends the object with its resourceVersion as JSON.
pub(crate) fn write_into(out: &mut BytesMut, stored: &[u8], revision: Revision) {
    let (offset, json) = split(stored);
    if offset == 0 {
        out.extend_from_slice(json);
        return;
    }
    out.reserve(json.len() + 48);
    out.extend_from_slice(&json[..offset]);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(revision.to_string().as_bytes());
    out.extend_from_slice(b"\",");
    out.extend_from_slice(&json[offset..]);
}

/// Appends the object's metadata with its resourceVersion as JSON, without reading the rest. False if it has none.
pub(crate) fn write_metadata_into(out: &mut BytesMut, stored: &[u8], revision: Revision) -> bool {
    let (splice, json) = split(stored);
    let Some(range) = member(json, b"\"metadata\"") else { return false };
    let metadata = &json[range.clone()];
    match splice.checked_sub(range.start).filter(|at| *at < metadata.len()) {
        Some(at) => {
            out.extend_from_slice(&metadata[..at]);
            out.extend_from_slice(b"\"resourceVersion\":\"");
            out.extend_from_slice(revision.to_string().as_bytes());
            out.extend_from_slice(b"\",");
            out.extend_from_slice(&metadata[at..]);
        }
        None => out.extend_from_slice(metadata),
    }
    true
}

/// Range of the value of a member of an object, in JSON that [`encode`] wrote: without white space. `quoted` is its
/// name with its quotes.
fn member(json: &[u8], quoted: &[u8]) -> Option<Range<usize>> {
    let mut at = 1;
    loop {
        let key = at..end_of_value(json, at)?;
        let value = key.end + 1..end_of_value(json, key.end + 1)?;
        if &json[key] == quoted {
            return Some(value);
        }
        if *json.get(value.end)? != b',' {
            return None;
        }
        at = value.end + 1;
    }
}

/// The end of the value that begins here.
fn end_of_value(json: &[u8], from: usize) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = from;
    loop {
        match *json.get(at)? {
            b'"' => {
                at += 1;
                while *json.get(at)? != b'"' {
                    at += if json[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(at),
            b'}' | b']' => depth -= 1,
            b',' | b':' if depth == 0 => return Some(at),
            _ => {}
        }
        at += 1;
    }
}

/// The apiVersion of a stored value, which is its first member.
pub(crate) fn api_version(stored: &[u8]) -> Option<&str> {
    let rest = json(stored).strip_prefix(b"{\"apiVersion\":\"")?;
    let end = rest.iter().position(|c| *c == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}

/// The JSON of a stored value, without its resourceVersion.
pub(crate) fn json(stored: &[u8]) -> &[u8] {
    split(stored).1
}

fn split(stored: &[u8]) -> (usize, &[u8]) {
    let Some((header, json)) = stored.split_first_chunk::<HEADER>() else { return (0, stored) };
    let offset = u32::from_le_bytes(*header) as usize;
    (if offset < json.len() { offset } else { 0 }, json)
}

/// The object as a value, with its resourceVersion.
pub(crate) fn decode(stored: &[u8], revision: Revision) -> Result<Value, serde_json::Error> {
    let mut value: Value = serde_json::from_slice(json(stored))?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".into(), Value::String(revision.to_string()));
    }
    Ok(value)
}

/// The metadata of an object; empty when it has none.
pub(crate) fn metadata(object: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// The metadata of an object, made when it has none.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let slot = object.as_object_mut().expect("made an object above").entry("metadata").or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("made an object above")
}

/// A text of the metadata; empty when absent.
pub(crate) fn meta_str<'a>(object: &'a Value, key: &str) -> &'a str {
    metadata(object).get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    metadata(object)
        .get("finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// True once the object is marked for deletion.
pub(crate) fn terminating(object: &Value) -> bool {
    metadata(object).get("deletionTimestamp").is_some_and(|t| !t.is_null())
}

/// Only the metadata of an object.
pub(crate) fn partial(mut value: Value, version: &str) -> Value {
    let metadata = value.get_mut("metadata").map(Value::take).unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata})
}

/// Adds a finalizer that is not there yet.
pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let list = metadata_mut(object).entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.iter().any(|f| f == finalizer)
    {
        list.push(json!(finalizer));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_is_found_without_reading_the_rest() {
        for (name, object) in [
            (
                "usual",
                json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "uid": "u"}, "spec": {"metadata": 1}}),
            ),
            ("text that looks like it", json!({"a": "\\\"metadata\":{", "metadata": {"name": "}\"", "uid": "u"}})),
            (
                "after lists and numbers",
                json!({"a": [{"metadata": 2}, "]"], "b": -1.5, "metadata": {"uid": "u", "x": [[]]}}),
            ),
        ] {
            let mut out = BytesMut::new();
            assert!(write_metadata_into(&mut out, &encode(&object), Revision::new(7).unwrap()), "{name}");
            let mut want = object["metadata"].clone();
            want["resourceVersion"] = json!("7");
            assert_eq!(serde_json::from_slice::<Value>(&out).unwrap(), want, "{name}");
        }
        let mut out = BytesMut::new();
        assert!(!write_metadata_into(&mut out, &encode(&json!({"a": {"metadata": {}}})), Revision::FIRST));
    }

    #[test]
    fn the_resource_version_is_spliced_in() {
        for (name, metadata) in [
            ("usual", json!({"name": "a", "namespace": "b", "uid": "u"})),
            ("an old resourceVersion is left out", json!({"name": "a", "resourceVersion": "7", "uid": "u"})),
            ("nothing before the uid", json!({"uid": "u"})),
        ] {
            let object =
                json!({"apiVersion": "v1", "data": {"x": "ü\"<"}, "kind": "ConfigMap", "metadata": metadata, "z": [1]});
            let stored = encode(&object);
            let mut out = BytesMut::new();
            let revision = Revision::new(42).unwrap();
            write_into(&mut out, &stored, revision);
            let served: Value = serde_json::from_slice(&out).unwrap();
            let mut want = object.clone();
            metadata_mut(&mut want).insert("resourceVersion".into(), json!("42"));
            assert_eq!(served, want, "{name}");
            assert_eq!(decode(&stored, revision).unwrap(), want, "{name}");
        }
    }
}
