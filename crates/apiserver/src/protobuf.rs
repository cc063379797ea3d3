//! Protobuf request bodies, as kubectl's imperative commands send them (specification/apiserver.md 2): read by a table
//! of messages and turned into the JSON of the same object. Answers are JSON.

use std::{collections::BTreeMap, sync::OnceLock};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ironclad_patch::builtin;
use serde_json::{Map, Value, json};

use crate::status::ApiError;

/// Made by `examples/protobuf_table.rs`.
static TABLE: &str = include_str!("../data/protobuf.txt");
/// The first bytes of every such body.
pub(crate) const PREFIX: &[u8] = b"k8s\0";
const DELETE_OPTIONS: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// Messages within messages.
const DEPTH_MAX: usize = 64;

/// A field of a message.
struct Field {
    name: &'static str,
    /// Its members are the parent's in JSON.
    inlined: bool,
    kind: Kind,
}

enum Kind {
    One(&'static str),
    Many(&'static str),
    /// A map from strings.
    Map(&'static str),
}

type Message = BTreeMap<u64, Field>;

fn table() -> &'static BTreeMap<&'static str, Message> {
    static MESSAGES: OnceLock<BTreeMap<&'static str, Message>> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        let mut out: BTreeMap<&str, Message> = BTreeMap::new();
        let mut current = "";
        for line in TABLE.lines().filter(|l| !l.starts_with('#')) {
            if let Some(name) = line.strip_prefix("message ") {
                current = name;
                out.entry(name).or_default();
                continue;
            }
            let mut words = line.split(' ');
            let (Some(number), Some(name), Some(kind)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(number) = number.parse() else { continue };
            let inner = |open, close| kind.strip_prefix(open).and_then(|k: &str| k.strip_suffix(close));
            let kind = match (inner('[', ']'), inner('{', '}')) {
                (Some(many), _) => Kind::Many(many),
                (_, Some(value)) => Kind::Map(value),
                _ => Kind::One(kind),
            };
            let field = Field { name: name.trim_start_matches('='), inlined: name.starts_with('='), kind };
            out.entry(current).or_default().insert(number, field);
        }
        out
    })
}

/// The object in a protobuf body.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let broken =
        |why: &str| ApiError::bad_request(format!("provided data does not appear to be a protobuf message: {why}"));
    let Some(envelope) = body.strip_prefix(PREFIX) else {
        return Err(ApiError::bad_request(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for part in Parts(envelope) {
        match part.ok_or_else(|| broken("the envelope is cut off"))? {
            (1, Wire::Bytes(meta)) => {
                for part in Parts(meta) {
                    match part.ok_or_else(|| broken("the type is cut off"))? {
                        (1, Wire::Bytes(text)) => version = String::from_utf8_lossy(text).into_owned(),
                        (2, Wire::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (group, short) = version.split_once('/').unwrap_or(("", &version));
    let schema = builtin::table().kind(group, short, &kind);
    let name = match schema {
        Some(id) => builtin::table().get(id).name.replacen("io.k8s.", "k8s.io.", 1),
        // It belongs to every group and is nowhere a resource's kind.
        None if kind == "DeleteOptions" => DELETE_OPTIONS.to_owned(),
        None => String::new(),
    };
    let name = name.replacen("k8s.io.kube-aggregator", "k8s.io.kube_aggregator", 1);
    let name = name.replacen("k8s.io.apiextensions-apiserver", "k8s.io.apiextensions_apiserver", 1);
    if !table().contains_key(name.as_str()) {
        return Err(ApiError::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in protobuf"
        )));
    }
    let mut value = message(&name, raw, DEPTH_MAX).ok_or_else(|| broken("a field is cut off or nested too deeply"))?;
    if !value.is_object() {
        value = json!({});
    }
    value["apiVersion"] = json!(version);
    value["kind"] = json!(kind);
    Ok(value)
}

/// A field's content on the wire.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// The fields of a message; `None` where it is cut off, once.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = Option<(u64, Wire<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let part = self.part();
        if part.is_none() {
            self.0 = &[];
        }
        Some(part)
    }
}

impl<'a> Parts<'a> {
    fn part(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some((tag >> 3, wire))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut out = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            out |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(out);
            }
        }
        None
    }
}

/// The JSON of a message.
fn message(name: &str, bytes: &[u8], depth: usize) -> Option<Value> {
    if depth == 0 {
        return None;
    }
    if let Some(special) = special(name, bytes, depth) {
        return special;
    }
    let fields = table().get(name)?;
    let mut out = Map::new();
    for part in Parts(bytes) {
        let (number, wire) = part?;
        let Some(field) = fields.get(&number) else { continue };
        match &field.kind {
            Kind::One(kind) => {
                let value = single(kind, wire, depth)?;
                match value {
                    Value::Object(members) if field.inlined => out.extend(members),
                    value => {
                        out.insert(field.name.into(), value);
                    }
                }
            }
            Kind::Many(kind) => {
                let slot = out.entry(field.name).or_insert_with(|| json!([]));
                let list = slot.as_array_mut()?;
                match wire {
                    // Numbers may come packed.
                    Wire::Bytes(packed) if matches!(*kind, "int32" | "int64" | "bool" | "uint32" | "uint64") => {
                        let mut numbers = Parts(packed);
                        while !numbers.0.is_empty() {
                            list.push(single(kind, Wire::Varint(numbers.varint()?), depth)?);
                        }
                    }
                    wire => list.push(single(kind, wire, depth)?),
                }
            }
            Kind::Map(kind) => {
                let Wire::Bytes(entry) = wire else { return None };
                let (mut key, mut value) = (String::new(), None);
                for part in Parts(entry) {
                    match part? {
                        (1, Wire::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
                        (2, wire) => value = Some(single(kind, wire, depth)?),
                        _ => {}
                    }
                }
                let value = match value {
                    Some(value) => value,
                    None => single(kind, Wire::Bytes(&[]), depth)?,
                };
                out.entry(field.name).or_insert_with(|| json!({})).as_object_mut()?.insert(key, value);
            }
        }
    }
    Some(Value::Object(out))
}

fn single(kind: &str, wire: Wire<'_>, depth: usize) -> Option<Value> {
    Some(match (kind, wire) {
        ("string", Wire::Bytes(text)) => json!(std::str::from_utf8(text).ok()?),
        ("bytes", Wire::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        ("bool", Wire::Varint(v)) => json!(v != 0),
        ("int32" | "int64", Wire::Varint(v)) => json!(v.cast_signed()),
        ("uint32" | "uint64", Wire::Varint(v)) => json!(v),
        ("double", Wire::Fixed64(v)) => json!(f64::from_bits(v)),
        ("float", Wire::Fixed32(v)) => json!(f32::from_bits(v)),
        (name, Wire::Bytes(bytes)) => message(name, bytes, depth - 1)?,
        _ => return None,
    })
}

/// Messages whose JSON isn't an object of their fields.
fn special(name: &str, bytes: &[u8], depth: usize) -> Option<Option<Value>> {
    let short = name.rsplit('.').next().unwrap_or_default();
    let fields = || Parts(bytes).collect::<Option<Vec<_>>>();
    let varint = |fields: &[(u64, Wire<'_>)], number| {
        let found = fields.iter().rev().find(|(n, _)| *n == number);
        found.and_then(|(_, w)| if let Wire::Varint(v) = w { Some(v.cast_signed()) } else { None })
    };
    let text = |fields: &[(u64, Wire<'_>)], number| {
        let found = fields.iter().rev().find(|(n, _)| *n == number);
        found.and_then(
            |(_, w)| if let Wire::Bytes(b) = w { std::str::from_utf8(b).ok().map(str::to_owned) } else { None },
        )
    };
    Some(match (name.contains("apimachinery"), short) {
        (true, "Quantity") => fields().map(|f| json!(text(&f, 1).unwrap_or_default())),
        (true, "IntOrString") => fields().map(|f| match varint(&f, 1).unwrap_or(0) {
            0 => json!(varint(&f, 2).unwrap_or(0)),
            _ => json!(text(&f, 3).unwrap_or_default()),
        }),
        (true, "Time" | "MicroTime") => fields().and_then(|f| {
            if f.is_empty() {
                return Some(Value::Null);
            }
            let nanos = i32::try_from(varint(&f, 2).unwrap_or(0)).ok()?;
            let at = jiff::Timestamp::new(varint(&f, 1).unwrap_or(0), nanos).ok()?;
            Some(if short == "Time" {
                json!(jiff::Timestamp::from_second(at.as_second()).ok()?.to_string())
            } else {
                json!(format!("{at:.6}"))
            })
        }),
        (true, "Duration") => fields().map(|f| json!(format!("{}s", varint(&f, 1).unwrap_or(0) as f64 / 1e9))),
        (true, "RawExtension" | "FieldsV1") => fields().map(|f| {
            let raw = text(&f, 1).unwrap_or_default();
            serde_json::from_str(&raw).unwrap_or(Value::Null)
        }),
        (false, "ExtraValue") => fields().map(|f| {
            let items =
                f.iter().filter_map(|(_, w)| if let Wire::Bytes(b) = w { std::str::from_utf8(b).ok() } else { None });
            json!(items.collect::<Vec<_>>())
        }),
        (false, "JSON") if name.contains("apiextensions") => fields().map(|f| {
            let raw = text(&f, 1).unwrap_or_default();
            serde_json::from_str(&raw).unwrap_or(Value::Null)
        }),
        (false, "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray") => {
            fields().and_then(|f| or_else(name, &f, depth))
        }
        _ => return None,
    })
}

/// A schema, or an alternative such as a boolean.
fn or_else(name: &str, fields: &[(u64, Wire<'_>)], depth: usize) -> Option<Value> {
    const SCHEMA: &str = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let is_bool = name.ends_with("OrBool");
    let schema_at = if is_bool { 2 } else { 1 };
    let mut out = Value::Null;
    for (number, wire) in fields {
        out = match wire {
            Wire::Bytes(bytes) if *number == schema_at => message(SCHEMA, bytes, depth - 1)?,
            Wire::Varint(v) if is_bool && out.is_null() => json!(*v != 0),
            Wire::Bytes(bytes) => json!([std::str::from_utf8(bytes).ok()?]),
            _ => out,
        };
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(raw in proptest::collection::vec(any::<u8>(), 0..120), kind in 0..3usize) {
            let _ = decode(&raw);
            let (version, kind) = [("v1", "Pod"), ("apps/v1", "Deployment"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")][kind];
            let _ = decode(&envelope(version, kind, &raw));
        }
    }

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn envelope(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
        [PREFIX.to_vec(), field(1, &meta), field(2, raw)].concat()
    }

    #[test]
    fn options_of_a_deletion_are_read_in_any_group() {
        let preconditions = field(2, &field(1, b"u"));
        let raw = [vec![1 << 3, 5], preconditions, field(4, b"Background")].concat();
        for version in ["v1", "policy/v1"] {
            let want = json!({
                "apiVersion": version, "kind": "DeleteOptions", "gracePeriodSeconds": 5,
                "preconditions": {"uid": "u"}, "propagationPolicy": "Background",
            });
            assert_eq!(decode(&envelope(version, "DeleteOptions", &raw)).unwrap(), want, "{version}");
        }
    }

    #[test]
    fn a_config_map_is_read() {
        let metadata = field(1, &field(1, b"a"));
        let data = field(2, &[field(1, b"k"), field(2, b"v")].concat());
        let body = envelope("v1", "ConfigMap", &[metadata, data].concat());
        let want = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        assert_eq!(decode(&body).unwrap(), want);
    }

    #[test]
    fn every_built_in_kind_has_its_message() {
        for kind in crate::kinds::builtins() {
            let body = envelope(&crate::registry::group_version(kind.group, kind.version), kind.kind, b"");
            assert_eq!(decode(&body).map_err(|e| e.message).unwrap()["kind"], kind.kind);
        }
    }

    #[test]
    fn every_type_is_known() {
        for (name, fields) in table() {
            for field in fields.values() {
                let (Kind::One(kind) | Kind::Many(kind) | Kind::Map(kind)) = &field.kind;
                assert!(!kind.contains('.') || table().contains_key(kind), "{name}.{}: {kind}", field.name);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for body in [
            &b"hello"[..],
            b"k8s\0\xff",
            b"k8s\0\x12\xff\xff\xff\xff\xff",
            &envelope("v1", "Nope", b""),
            &envelope("v1", "Pod", b"\x0a\x7f"),
        ] {
            assert_eq!(decode(body).unwrap_err().code, 400, "{body:?}");
        }
    }
}
