//! Where two answers differ, and which of the differences are decided.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

/// One place where the embedded server answers otherwise than the real one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `<scenario>:<step number>:<path in the answer>`.
    pub place: String,
    /// The step's first line.
    pub line: String,
    /// What the real server answered; nothing if it is absent.
    pub real: Option<Value>,
    /// What the embedded one answered.
    pub ours: Option<Value>,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), Value::to_string);
        let (real, ours) = (text(&self.real), text(&self.ours));
        let same = real.chars().zip(ours.chars()).take_while(|(a, b)| a == b).count();
        let show = |text: &str| excerpt(text, same);
        write!(f, "{}  ({})\n    real: {}\n    ours: {}", self.place, self.line, show(&real), show(&ours))
    }
}

/// So much of a long text is shown, and so much of it before where the two begin to differ.
const SHOWN: usize = 400;
const BEFORE: usize = 60;

fn excerpt(text: &str, at: usize) -> String {
    let from = if text.chars().count() <= SHOWN { 0 } else { at.saturating_sub(BEFORE) };
    let shown: String = text.chars().skip(from).take(SHOWN).collect();
    format!(
        "{}{shown}{}",
        if from > 0 { "…" } else { "" },
        if text.chars().nth(from + SHOWN).is_some() { "…" } else { "" }
    )
}

/// Adds where the notes of one step differ. Answers of different codes have nothing else in common: that is one difference.
pub fn compare_notes(place: &str, line: &str, real: &Value, ours: &Value, out: &mut Vec<Difference>) {
    if real.get("code") == ours.get("code") {
        return compare(place, line, real, ours, out);
    }
    let told = |note: &Value| {
        let mut told = note.get("code").map(Value::to_string).unwrap_or_default();
        for part in ["body", "stdout", "stderr"] {
            let part = &note[part];
            let part = part.get("message").unwrap_or(part);
            if !part.is_null() {
                told.push_str(&format!(" {part}"));
            }
        }
        Some(Value::String(told))
    };
    out.push(Difference { place: format!("{place}.code"), line: line.to_owned(), real: told(real), ours: told(ours) });
}

/// Adds where the two differ, at the deepest path that says it.
pub fn compare(place: &str, line: &str, real: &Value, ours: &Value, out: &mut Vec<Difference>) {
    let mut push = |place: String, real: Option<&Value>, ours: Option<&Value>| {
        out.push(Difference { place, line: line.to_owned(), real: real.cloned(), ours: ours.cloned() });
    };
    match (real, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let inner = format!("{place}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => compare(&inner, line, a, b, out),
                    (a, b) => {
                        out.push(Difference { place: inner, line: line.to_owned(), real: a.cloned(), ours: b.cloned() })
                    }
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{place}.{i}"), line, a, b, out);
            }
        }
        (a, b) if a != b => push(place.to_owned(), Some(a), Some(b)),
        _ => {}
    }
}

/// A difference that is decided.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Patterns of [`Difference::place`]; `*` stands for anything.
    pub places: Vec<String>,
    /// Why it stays.
    pub reason: String,
}

impl Known {
    /// Whether this explains the difference.
    #[must_use]
    pub fn covers(&self, difference: &Difference) -> bool {
        self.places.iter().any(|pattern| matches(pattern, &difference.place))
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            rest.is_empty() || text.char_indices().any(|(at, _)| matches(rest, &text[at..])) || matches(rest, "")
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_told_at_their_place() {
        let mut found = Vec::new();
        let real = json!({"code": 200, "body": {"a": 1, "b": [1, {"c": 2}], "d": "x"}});
        let ours = json!({"code": 200, "body": {"a": 1, "b": [1, {"c": 3}], "e": [1]}});
        compare("s:1:", "GET /", &real, &ours, &mut found);
        let told: Vec<String> = found.iter().map(|d| d.place.clone()).collect();
        assert_eq!(told, ["s:1:.body.b.1.c", "s:1:.body.d", "s:1:.body.e"]);
        assert_eq!(found[1].ours, None);
    }

    #[test]
    fn patterns() {
        for (pattern, text, want) in [
            ("a:1:.b", "a:1:.b", true),
            ("a:*:.b", "a:12:.b", true),
            ("*.b", "a:1:.b", true),
            ("*.b", "a:1:.b.c", false),
            ("a*", "a:1:.b", true),
            ("a*c*", "a:1:.b", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }
}
