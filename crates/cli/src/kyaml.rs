//! KYAML: YAML in braces and quotes, laid out as kubectl prints it.

use std::fmt::Write as _;

use serde_json::Value;

/// Words that some reader of YAML takes for something else than text.
const WORDS: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "~"];

/// One document.
#[must_use]
pub(crate) fn document(value: &Value) -> String {
    let mut text = "---\n".to_owned();
    add(&mut text, value, 0);
    text.push('\n');
    text
}

/// Adds a value whose first line is indented already.
fn add(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if map.is_empty() => text.push_str("{}"),
        Value::Object(map) => {
            text.push_str("{\n");
            for (name, value) in map {
                pad(text, indent + 2);
                if is_plain(name) {
                    text.push_str(name)
                } else {
                    add_quoted(text, name)
                }
                text.push_str(": ");
                add(text, value, indent + 2);
                text.push_str(",\n");
            }
            pad(text, indent);
            text.push('}');
        }
        Value::Array(list) if list.is_empty() => text.push_str("[]"),
        // Elements that have brackets themselves share the lines of the list's.
        Value::Array(list) if list.iter().all(Value::is_object) || list.iter().all(Value::is_array) => {
            text.push('[');
            for (index, value) in list.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                add(text, value, indent);
            }
            text.push(']');
        }
        Value::Array(list) => {
            text.push_str("[\n");
            for value in list {
                pad(text, indent + 2);
                add(text, value, indent + 2);
                text.push_str(",\n");
            }
            pad(text, indent);
            text.push(']');
        }
        Value::String(lines) if lines.contains('\n') => add_lines(text, lines, indent),
        Value::String(line) => add_quoted(text, line),
        other => text.push_str(&other.to_string()),
    }
}

fn pad(text: &mut String, indent: usize) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// True for keys that need no quotes.
fn is_plain(name: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    let (first, last) = (name.chars().next(), name.chars().next_back());
    first.is_some_and(|c| c.is_alphabetic() || c == '_')
        && last.is_some_and(|c| c.is_alphanumeric() || c == '_')
        && name.chars().all(is_inner)
        && !WORDS.contains(&&*name.to_lowercase())
}

fn add_quoted(text: &mut String, line: &str) {
    text.push('"');
    add_escaped(text, line);
    text.push('"');
}

fn add_escaped(text: &mut String, line: &str) {
    for c in line.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push('\t'),
            c if c.is_control() => write!(text, "\\x{:02x}", u32::from(c)).expect("a String takes all"),
            c => text.push(c),
        }
    }
}

/// A text of several lines, each on one of its own, as a quoted text whose line breaks are escaped.
fn add_lines(text: &mut String, lines: &str, indent: usize) {
    text.push_str("\"\\\n");
    let mut rest = lines;
    while !rest.is_empty() {
        let (line, is_ended) = match rest.split_once('\n') {
            Some((line, after)) => {
                rest = after;
                (line, true)
            }
            None => (std::mem::take(&mut rest), false),
        };
        pad(text, indent + 2);
        // Spaces at the begin of a line are skipped by readers, unless they are escaped.
        text.push(if line.starts_with([' ', '\t']) { '\\' } else { ' ' });
        add_escaped(text, line);
        text.push_str(if is_ended { "\\n\\\n" } else { "\\\n" });
    }
    pad(text, indent + 2);
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As kubectl 1.36 prints it.
    const POD: &str = r#"---
{
  apiVersion: "v1",
  kind: "Pod",
  metadata: {
    labels: {},
    name: "a",
  },
  spec: {
    containers: [{
      args: [
        "x",
        "y",
      ],
      image: "i",
      name: "c",
    }, {
      image: "j",
      name: "d",
    }],
    lists: [[
      1,
    ]],
    mixed: [
      2.5,
      null,
      {},
      {
        a: true,
      },
    ],
    objects: [{
      b: [],
    }, {}],
  },
}
"#;

    #[test]
    fn objects_are_laid_out_as_by_kubectl() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {}, "name": "a"}, "spec": {
            "containers": [{"args": ["x", "y"], "image": "i", "name": "c"}, {"image": "j", "name": "d"}],
            "lists": [[1]], "mixed": [2.5, null, {}, {"a": true}], "objects": [{"b": []}, {}]}});
        assert_eq!(document(&pod), POD);
        assert_eq!(serde_saphyr::from_str::<Value>(POD).unwrap(), pod);
    }

    #[test]
    fn keys_are_quoted_where_readers_would_take_them_for_something_else() {
        for (plain, quoted) in [
            (vec!["_x", "a-b", "a_b", "a.b/c-d_e", "é", "empty"], vec![]),
            (vec![], vec!["", "-a", ".inf", "0b1", "1", "1.5", "2020-01-01", "NO", "Null", "a b", "a+b", "a,b", "a."]),
            (vec![], vec!["a:b", "a@b", "null", "off", "on", "true", "y", "yes", "~"]),
        ] {
            assert!(
                plain.iter().all(|key| is_plain(key)) && !quoted.iter().any(|key| is_plain(key)),
                "{plain:?} {quoted:?}"
            );
        }
    }

    #[test]
    fn texts_are_quoted_and_lines_stand_below_each_other() {
        let texts = json!({"data": {
            "multi": "line1\nline2\n  indented\n\ntail", "quote": "a \"q\" \\ b", "trail": "a\n", "uni": "é \u{1} 😀"}});
        let want = "---\n{\n  data: {\n    multi: \"\\\n       line1\\n\\\n       line2\\n\\\n      \\  indented\\n\\\n       \\n\\\n       \
                    tail\\\n      \",\n    quote: \"a \\\"q\\\" \\\\ b\",\n    trail: \"\\\n       a\\n\\\n      \",\n    uni: \"é \\x01 😀\",\n  },\n}\n";
        assert_eq!(document(&texts), want);
        assert_eq!(serde_saphyr::from_str::<Value>(want).unwrap(), texts);
    }
}
