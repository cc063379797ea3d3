//! JSON as values of the language.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_cel::cel::{
    Value as CelValue,
    objects::{Key, Map},
};
use serde_json::Value;

use crate::structural::{Additional, Node};

/// Reserved words, which must be escaped as field names.
const RESERVED: [&str; 20] = [
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
    "let", "loop", "package", "namespace", "return", "var", "void",
];

/// Returns a field name as expressions write it.
pub(super) fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) || name == "while" {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    let name = name.replace("__", "\0");
    let name = name.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__");
    name.replace('\0', "__underscores__")
}

/// Returns `true` for a map: its member names are data and not escaped.
fn is_map(node: &Node) -> bool {
    node.additional.as_ref().is_some_and(|a| !matches!(a, Additional::Any(false)))
}

/// Converts a value to one of the language, by its schema if there is one.
pub(super) fn convert(value: &Value, node: Option<&Node>) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => {
            let is_float = node.is_some_and(|n| n.ty == Some(crate::structural::JsonType::Number));
            match (number.as_i64(), number.as_u64()) {
                (Some(whole), _) if !is_float => CelValue::Int(whole),
                (None, Some(whole)) if !is_float => CelValue::UInt(whole),
                _ => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => string(text, node),
        Value::Array(items) => {
            let of = node.and_then(|n| n.items.as_deref());
            CelValue::List(Arc::new(items.iter().map(|item| convert(item, of)).collect()))
        }
        Value::Object(members) => {
            // Without declared fields, members keep their names, as those of maps do.
            let keep = node.is_none_or(is_map);
            let members = members.iter().map(|(name, value)| {
                let key = if keep { name.clone() } else { escaped(name) };
                (Key::String(Arc::new(key)), convert(value, node.and_then(|n| n.child(name))))
            });
            CelValue::Map(Map { map: Arc::new(members.collect()) })
        }
    }
}

fn string(text: &str, node: Option<&Node>) -> CelValue {
    let plain = || CelValue::String(Arc::new(text.to_owned()));
    match node.and_then(|n| n.checks.format.as_ref()).map(|f| f.name()) {
        Some("date-time") => chrono::DateTime::parse_from_rfc3339(text).map_or_else(|_| plain(), CelValue::Timestamp),
        Some("date") => match chrono::DateTime::parse_from_rfc3339(&format!("{text}T00:00:00Z")) {
            Ok(time) => CelValue::Timestamp(time),
            Err(_) => plain(),
        },
        Some("duration") => duration(text).map_or_else(plain, CelValue::Duration),
        Some("byte") => STANDARD.decode(text).map_or_else(|_| plain(), |bytes| CelValue::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}

/// Parses a duration as Go writes it: `1h30m`, `250ms`.
fn duration(text: &str) -> Option<chrono::Duration> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0.0;
    while !rest.is_empty() && rest != "0" {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match &rest[..unit_end] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3_600e9,
            "d" => 86_400e9,
            "w" => 604_800e9,
            _ => return None,
        };
        rest = &rest[unit_end..];
        nanos += number * unit;
    }
    // Saturates at the largest value, as casts of floats do.
    Some(chrono::Duration::nanoseconds((sign * nanos) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, want) in [
            ("a", "a"),
            ("a_b", "a_b"),
            ("a__b", "a__underscores__b"),
            ("a.b-c/d", "a__dot__b__dash__c__slash__d"),
            ("namespace", "__namespace__"),
            ("while", "__while__"),
            ("string", "string"),
        ] {
            assert_eq!(escaped(name), want);
        }
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("1h30m", Some(5_400_000)),
            ("250ms", Some(250)),
            ("-1.5s", Some(-1_500)),
            ("0", Some(0)),
            ("", None),
            ("1", None),
            ("1x", None),
        ] {
            assert_eq!(duration(text).map(|d| d.num_milliseconds()), millis, "{text}");
        }
    }
}
