//! Lines of a transcript, short enough to be reviewed.

use std::fmt;

use serde_json::Value;

/// Maximum columns of a line, except for a single long word.
const COLUMNS: usize = 120;

#[derive(Debug, Default)]
pub struct Transcript(String);

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Transcript {
    pub(super) fn script(&mut self, mark: &str, line: &str) {
        self.wrapped(mark, &format!("{mark}  "), line);
    }

    pub(super) fn shown(&mut self, line: &str) {
        self.wrapped("  ", "      ", line);
    }

    /// Adds a value with its name: on one line if it fits, else one member or item per line.
    pub(super) fn value(&mut self, name: &str, value: &Value) {
        self.indented("  ", name, value);
    }

    fn indented(&mut self, indent: &str, name: &str, value: &Value) {
        let line = format!("{name} {value}");
        if indent.len() + line.chars().count() <= COLUMNS {
            self.wrapped(indent, "", &line);
            return;
        }
        let inner = format!("{indent}  ");
        match value {
            Value::Object(fields) => {
                self.wrapped(indent, &inner, name);
                for (key, field) in fields {
                    self.indented(&inner, &format!("{key}:"), field);
                }
            }
            Value::Array(items) => {
                self.wrapped(indent, &inner, name);
                for item in items {
                    self.indented(&inner, "-", item);
                }
            }
            Value::String(text) => match serde_json::from_str(text) {
                Ok(json @ (Value::Object(_) | Value::Array(_))) => {
                    self.indented(indent, &format!("{name} (JSON as text)"), &json);
                }
                _ => self.wrapped(indent, &format!("{inner}  "), &line),
            },
            _ => self.wrapped(indent, &inner, &line),
        }
    }

    /// Adds a text, wrapped at blanks and after commas.
    fn wrapped(&mut self, first: &str, further: &str, text: &str) {
        let mut line = first.to_owned();
        let mut is_empty = true;
        for piece in text.split_inclusive([' ', ',']) {
            if !is_empty && line.chars().count() + piece.trim_end().chars().count() > COLUMNS {
                self.0.push_str(line.trim_end());
                self.0.push('\n');
                further.clone_into(&mut line);
            }
            line.push_str(piece);
            is_empty = false;
        }
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_fits_stays_on_one_line() {
        let mut transcript = Transcript::default();
        transcript.script("> ", "settle");
        transcript.shown("Normal Synced Deployment web: done");
        transcript.value("/spec", &json!({"replicas": 2, "paused": true}));
        let want = "> settle\n  Normal Synced Deployment web: done\n  /spec {\"paused\":true,\"replicas\":2}\n";
        assert_eq!(transcript.to_string(), want);
    }

    #[test]
    fn long_values_take_a_line_for_each_member() {
        let long = "x".repeat(80);
        let mut transcript = Transcript::default();
        let text = format!("{{\"inner\":\"{long}\",\"more\":\"{long}\"}}");
        transcript.value("/spec", &json!({"a": long, "b": [1, 2], "c": text}));
        let want = format!(
            "  /spec\n    a: \"{long}\"\n    b: [1,2]\n    c: (JSON as text)\n      inner: \"{long}\"\n      more: \"{long}\"\n"
        );
        assert_eq!(transcript.to_string(), want);
    }

    #[test]
    fn no_line_is_longer_than_the_columns() {
        let mut transcript = Transcript::default();
        let words = "word ".repeat(100);
        transcript.script("> ", &words);
        transcript.shown(&words);
        transcript.value("/message", &words.trim().into());
        let transcript = transcript.to_string();
        assert!(transcript.lines().all(|line| line.len() <= COLUMNS), "{transcript}");
        assert_eq!(transcript.lines().filter(|line| line.starts_with("> ")).count(), 5);
        assert_eq!(transcript.matches("word").count(), 300);
    }
}
