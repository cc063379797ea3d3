//! The JSONPath of printer columns and scale paths: names, indexes, wildcards and simple filters.

use serde_json::{Value, json};

/// All values that a path selects, in order. A path that can't be read selects nothing.
pub(crate) fn select<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return vec![] };
    let mut found = vec![value];
    for step in &steps {
        found = found.into_iter().flat_map(|v| step.apply(v)).collect();
    }
    found
}

/// Sets what a path of plain names points at, making the maps on the way.
pub(crate) fn set(value: &mut Value, path: &str, to: Value) {
    let mut at = value;
    for name in path.split('.').filter(|p| !p.is_empty()) {
        if !at.is_object() {
            *at = json!({});
        }
        at = at.as_object_mut().expect("made an object above").entry(name).or_insert(Value::Null);
    }
    *at = to;
}

enum Step {
    Name(String),
    Index(i64),
    All,
    /// `?(@.name=="value")`
    Filter {
        path: String,
        equal: bool,
        value: String,
    },
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Step::Name(name) => value.get(name).into_iter().collect(),
            Step::Index(index) => {
                let Some(list) = value.as_array() else { return vec![] };
                let at = if *index < 0 { list.len() as i64 + index } else { *index };
                usize::try_from(at).ok().and_then(|at| list.get(at)).into_iter().collect()
            }
            Step::All => match value {
                Value::Array(list) => list.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => vec![],
            },
            Step::Filter { path, equal, value: wanted } => {
                let elements = value.as_array().into_iter().flatten();
                elements.filter(|e| select(e, path).iter().any(|v| (text(v) == *wanted) == *equal)).collect()
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The longest path that is read: filters nest as deep as it is long.
pub(crate) const PATH_BYTES_MAX: usize = 1_024;

fn parse(path: &str) -> Option<Vec<Step>> {
    if path.len() > PATH_BYTES_MAX {
        return None;
    }
    let mut steps = Vec::new();
    let mut rest = path.trim().strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path.trim());
    rest = rest.strip_prefix('$').unwrap_or(rest);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            steps.push(bracket(&inner[..end])?);
            rest = &inner[end + 1..];
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let mut name = String::new();
            let mut chars = rest.char_indices();
            let mut end = rest.len();
            while let Some((i, c)) = chars.next() {
                match c {
                    '\\' => name.extend(chars.next().map(|(_, c)| c)),
                    '.' | '[' => {
                        end = i;
                        break;
                    }
                    c => name.push(c),
                }
            }
            match name.as_str() {
                "" if rest.starts_with('[') => {}
                "" => return None,
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Name(name)),
            }
            rest = &rest[end..];
        }
    }
    Some(steps)
}

/// Where the bracket closes, quotes and inner brackets left aside.
fn closing(inner: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0, None);
    for (i, c) in inner.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(i),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Some(name) = unquote(inner) {
        return Some(Step::Name(name.to_owned()));
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        let (path, equal, value) = match (filter.split_once("=="), filter.split_once("!=")) {
            (Some((path, value)), _) => (path, true, value),
            (None, Some((path, value))) => (path, false, value),
            (None, None) => return None,
        };
        let path = path.trim().strip_prefix('@')?.to_owned();
        let value = value.trim();
        return Some(Step::Filter { path, equal, value: unquote(value).unwrap_or(value).to_owned() });
    }
    inner.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> Option<&str> {
    ['\'', '"'].iter().find_map(|q| text.strip_prefix(*q).and_then(|t| t.strip_suffix(*q)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_path_panics(path in r#"[.\[\]@?()=*'"a1\\-]{0,60}"#) {
            let _ = select(&json!({"a": [{"a": 1}, "1"]}), &path);
        }
    }

    #[test]
    fn deeply_nested_filters_are_bounded() {
        let path = format!(".a{}", "[?(@.a".repeat(100_000));
        assert!(select(&json!({"a": [1]}), &path).is_empty());
    }

    #[test]
    fn selects() {
        let object = json!({"spec": {"n": 3, "a.b": "dot"}, "status": {"conditions": [
            {"type": "Ready", "status": "True"}, {"type": "Old", "status": "False"},
        ]}});
        for (path, want) in [
            (".spec.n", json!([3])),
            (".spec.a\\.b", json!(["dot"])),
            (".spec['a.b']", json!(["dot"])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?(@.type=='Old')].status", json!(["False"])),
            (".status.conditions[*].type", json!(["Ready", "Old"])),
            (".status.conditions[0].type", json!(["Ready"])),
            (".status.conditions[-1].type", json!(["Old"])),
            (".nope.x", json!([])),
            (".a[", json!([])),
        ] {
            let found: Vec<Value> = select(&object, path).into_iter().cloned().collect();
            assert_eq!(Value::Array(found), want, "{path}");
        }
    }
}
