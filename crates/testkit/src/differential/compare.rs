//! Comparison of two answers, and the list of accepted differences.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `<scenario>:<step number>:<path in the answer>`.
    pub place: String,
    /// The step's first line.
    pub line: String,
    pub real: Option<Value>,
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

/// Characters of a long text that are shown from the first difference on, and before it.
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

/// Adds the differences between the records of one step. If the status codes differ, that is the only
/// difference.
pub fn compare_notes(place: &str, line: &str, real: &Value, ours: &Value, out: &mut Vec<Difference>) {
    if real.get("never").is_some() {
        // The script waits for a state that the kube-apiserver never reaches: agreement would prove nothing.
        let (real, ours) = (Some(real.clone()), Some(ours.clone()));
        return out.push(Difference { place: format!("{place}.never"), line: line.to_owned(), real, ours });
    }
    if real.get("code") == ours.get("code") {
        return compare(place, line, real, ours, out);
    }
    let summary = |note: &Value| {
        let mut text = note.get("code").map(Value::to_string).unwrap_or_default();
        for part in ["body", "stdout", "stderr"] {
            let part = &note[part];
            let part = part.get("message").unwrap_or(part);
            if !part.is_null() {
                text.push_str(&format!(" {part}"));
            }
        }
        Some(Value::String(text))
    };
    out.push(Difference {
        place: format!("{place}.code"),
        line: line.to_owned(),
        real: summary(real),
        ours: summary(ours),
    });
}

/// Adds the differences at the deepest paths.
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

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    pub name: String,
    /// Patterns of [`Difference::place`]: `*` stands for one name or number, `**` for several.
    pub places: Vec<String>,
    pub reason: String,
    /// Set if the difference does not occur in every run.
    #[serde(default)]
    pub sometimes: bool,
}

impl Known {
    pub fn covers(&self, difference: &Difference) -> bool {
        self.places.iter().any(|pattern| matches(pattern, &difference.place))
    }
}

/// Reports whether the pattern describes `text`: `*` stands for one name, number or part of one, `**` for any number of
/// them.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(start) else { return false };
    let (is_deep, rest) = rest.strip_prefix('*').map_or((false, rest), |rest| (true, rest));
    let end = if is_deep { None } else { text.find(['.', ':']) };
    let end = end.unwrap_or(text.len());
    (0..=end).any(|at| text.is_char_boundary(at) && matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_are_reported_at_the_deepest_path() {
        let mut found = Vec::new();
        let real = json!({"code": 200, "body": {"a": 1, "b": [1, {"c": 2}], "d": "x"}});
        let ours = json!({"code": 200, "body": {"a": 1, "b": [1, {"c": 3}], "e": [1]}});
        compare("s:1:", "GET /", &real, &ours, &mut found);
        let places: Vec<String> = found.iter().map(|d| d.place.clone()).collect();
        assert_eq!(places, ["s:1:.body.b.1.c", "s:1:.body.d", "s:1:.body.e"]);
        assert_eq!(found[1].ours, None);
    }

    #[test]
    fn an_unmet_until_is_a_difference_even_on_both_servers() {
        let (never, seen) = (json!({"never": "code is 404, not 200", "last": {"code": 404}}), json!({"code": 200}));
        for (name, real, ours, want) in [
            ("met on neither server", &never, &never, vec!["s:1:.never"]),
            ("met only on the embedded server", &never, &seen, vec!["s:1:.never"]),
            ("met only on the real server", &seen, &never, vec!["s:1:.code"]),
            ("met on both servers", &seen, &seen, vec![]),
        ] {
            let mut found = Vec::new();
            compare_notes("s:1:", "GET /", real, ours, &mut found);
            assert_eq!(found.iter().map(|d| &*d.place).collect::<Vec<_>>(), want, "{name}");
        }
    }

    #[test]
    fn one_star_stays_within_a_name_and_two_cross_names() {
        for (pattern, text, want) in [
            ("a:1:.b", "a:1:.b", true),
            ("a:*:.b", "a:12:.b", true),
            ("*:*:.b", "area/a:1:.b", true),
            ("*.b", "a:1:.b", false),
            ("**.b", "a:1:.b", true),
            ("**.b", "a:1:.b.c", false),
            ("a:1:.b.*", "a:1:.b.c", true),
            ("a:1:.b.*", "a:1:.b.c.d", false),
            ("a:1:.b.**", "a:1:.b.c.d", true),
            ("a:1:.b*", "a:1:.b.c", false),
            ("a:1:.b**c", "a:1:.b.0.c", true),
            ("a*c*", "a:1:.b", false),
            ("*:*:.body.items.*.kind", "list/a:3:.body.items.0.kind", true),
            ("*:*:.body.items.*.kind", "list/a:3:.body.items.0.spec.scaleTargetRef.kind", false),
            ("*:*:.body.items.*.kind", "list/a:3:.body.items.0.roleRef.kind", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }
}
