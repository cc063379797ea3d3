//! The JSONPath templates of Kubernetes, as `{.a.b[0]}`: text with paths in braces, of which every one must be found.
//!
//! Read are names, quoted names, indexes, slices, lists of them, wildcards, `..name`, filters with one comparison and
//! quoted text; `range` is not: it makes no sense in the value of a label.

use serde_json::Value;

/// Bytes of a template that are read.
const TEMPLATE_MAX: usize = 1_024;
/// Values that a path may select on its way: `..` and wildcards multiply.
const FOUND_MAX: usize = 10_000;

/// A template that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Part>);

/// Why a template can't be read, or gives nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// There are no braces: it would be taken as plain text.
    #[error("a path stands in braces, as {{.field}}")]
    NoBraces,
    /// A brace is not closed.
    #[error("unclosed action")]
    Unclosed,
    /// Something in braces can't be read.
    #[error("{0:?} can't be read")]
    Syntax(String),
    /// The template is longer than 1,024 bytes.
    #[error("the template is longer than {TEMPLATE_MAX} bytes")]
    TooLong,
    /// The path leads nowhere.
    #[error("{0} is not found")]
    NotFound(String),
    /// The path selects more than 10,000 values.
    #[error("the path selects more than {FOUND_MAX} values")]
    TooMany,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Path(Vec<Step>),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Name(String),
    Recursive(String),
    All,
    Pick(Vec<Pick>),
    Filter { path: Vec<Step>, compare: Option<(Compare, Value)> },
}

#[derive(Debug, Clone, PartialEq)]
enum Pick {
    Name(String),
    Index(i64),
    Slice { from: Option<i64>, to: Option<i64>, step: i64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Compare {
    Equal,
    Differs,
    Less,
    AtMost,
    More,
    AtLeast,
}

impl JsonPath {
    /// Reads a template.
    ///
    /// # Errors
    /// If it has no braces, or what stands in them can't be read.
    pub fn parse(template: &str) -> Result<Self, PathError> {
        if template.len() > TEMPLATE_MAX {
            return Err(PathError::TooLong);
        }
        let (mut parts, mut rest) = (Vec::new(), template);
        while let Some(open) = rest.find('{') {
            if open > 0 {
                parts.push(Part::Text(rest[..open].to_owned()));
            }
            let inner = &rest[open + 1..];
            let close = closing(inner, '}').ok_or(PathError::Unclosed)?;
            parts.push(action(inner[..close].trim())?);
            rest = &inner[close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        if parts.iter().all(|part| matches!(part, Part::Text(_))) && !template.contains('{') {
            return Err(PathError::NoBraces);
        }
        Ok(Self(parts))
    }

    /// The text of the template with what its paths select; several values are parted by blanks.
    ///
    /// # Errors
    /// If a path selects nothing.
    pub fn render(&self, value: &Value) -> Result<String, PathError> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Path(steps) => {
                    let found: Vec<String> = select(value, steps)?.into_iter().map(printed).collect();
                    text.push_str(&found.join(" "));
                }
            }
        }
        Ok(text)
    }
}

fn printed(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The end of what a bracket opened, outside of quotes and inner brackets.
fn closing(text: &str, close: char) -> Option<usize> {
    let (mut quote, mut depth, mut escaped) = (None, 0_u32, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), _) => quote = (c != open).then_some(open),
            (None, '"' | '\'') => quote = Some(c),
            (None, _) if c == close && depth == 0 => return Some(at),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

fn action(text: &str) -> Result<Part, PathError> {
    let syntax = || PathError::Syntax(text.to_owned());
    if let Some(plain) = unquoted(text) {
        return Ok(Part::Text(plain));
    }
    let rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    if rest.is_empty() && !text.is_empty() {
        return Ok(Part::Path(Vec::new()));
    }
    if !rest.starts_with(['.', '[']) {
        return Err(syntax());
    }
    Ok(Part::Path(steps(rest).ok_or_else(syntax)?))
}

fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut plain = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.push(chars.next()?),
            c if c == quote => return None,
            c => plain.push(c),
        }
    }
    Some(plain)
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let (mut steps, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let close = closing(inner, ']')?;
            steps.push(bracket(inner[..close].trim())?);
            rest = &inner[close + 1..];
        } else if let Some(after) = rest.strip_prefix("..") {
            let (found, after) = name(after)?;
            steps.push(Step::Recursive(found));
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            if after.is_empty() && steps.is_empty() {
                break;
            }
            if after.starts_with('[') {
                rest = after;
                continue;
            }
            let (found, after) = name(after)?;
            steps.push(if found == "*" { Step::All } else { Step::Name(found) });
            rest = after;
        }
    }
    Some(steps)
}

/// A name up to the next step; a backslash takes what follows as it is.
fn name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => return (!name.is_empty()).then_some((name, &text[at..])),
            c if c.is_whitespace() || matches!(c, '{' | '}' | '(' | ')' | '"' | '\'' | ']') => return None,
            c => name.push(c),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

fn bracket(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return self::filter(filter.trim());
    }
    let mut picks = Vec::new();
    let mut rest = text;
    loop {
        let end = closing(rest, ',').unwrap_or(rest.len());
        picks.push(pick(rest[..end].trim())?);
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => return Some(Step::Pick(picks)),
        }
    }
}

fn pick(text: &str) -> Option<Pick> {
    if let Some(name) = unquoted(text) {
        return Some(Pick::Name(name));
    }
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [index] => Some(Pick::Index(index.parse().ok()?)),
        [from, to] => Some(Pick::Slice { from: number(from)?, to: number(to)?, step: 1 }),
        [from, to, step] => {
            let step = number(step)?.unwrap_or(1);
            (step > 0).then_some(Pick::Slice { from: number(from)?, to: number(to)?, step })
        }
        _ => None,
    }
}

fn filter(text: &str) -> Option<Step> {
    let path_of = |text: &str| steps(text.trim().strip_prefix('@')?);
    for (sign, compare) in [
        ("==", Compare::Equal),
        ("!=", Compare::Differs),
        ("<=", Compare::AtMost),
        (">=", Compare::AtLeast),
        ("<", Compare::Less),
        (">", Compare::More),
    ] {
        if let Some((left, right)) = text.split_once(sign) {
            let right = right.trim();
            let wanted = match unquoted(right) {
                Some(text) => Value::String(text),
                None => serde_json::from_str(right).ok()?,
            };
            return Some(Step::Filter { path: path_of(left)?, compare: Some((compare, wanted)) });
        }
    }
    Some(Step::Filter { path: path_of(text)?, compare: None })
}

fn select<'a>(value: &'a Value, steps: &[Step]) -> Result<Vec<&'a Value>, PathError> {
    let mut found = vec![value];
    for step in steps {
        let mut next = Vec::new();
        for value in found {
            step.apply(value, &mut next)?;
            if next.len() > FOUND_MAX {
                return Err(PathError::TooMany);
            }
        }
        found = next;
    }
    if found.is_empty() {
        let last = steps.last().map_or_else(String::new, Step::text);
        return Err(PathError::NotFound(last));
    }
    Ok(found)
}

impl Step {
    fn text(&self) -> String {
        match self {
            Self::Name(name) | Self::Recursive(name) => name.clone(),
            Self::All => "*".to_owned(),
            Self::Pick(_) => "what the brackets name".to_owned(),
            Self::Filter { .. } => "what the filter asks for".to_owned(),
        }
    }

    fn apply<'a>(&self, value: &'a Value, into: &mut Vec<&'a Value>) -> Result<(), PathError> {
        match self {
            Self::Name(name) => match value.get(name).filter(|value| !value.is_null()) {
                Some(found) => into.push(found),
                None => return Err(PathError::NotFound(name.clone())),
            },
            Self::Recursive(name) => recurse(value, name, into),
            Self::All => into.extend(children(value)),
            Self::Pick(picks) => {
                for pick in picks {
                    pick.apply(value, into)?;
                }
            }
            Self::Filter { path, compare } => into.extend(children(value).filter(|element| {
                let found = select(element, path).ok().and_then(|found| found.first().copied());
                match (found, compare) {
                    (None, _) => false,
                    (Some(_), None) => true,
                    (Some(found), Some((compare, wanted))) => compare.holds(found, wanted),
                }
            })),
        }
        Ok(())
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => Box::new(std::iter::empty()),
    }
}

fn recurse<'a>(value: &'a Value, name: &str, into: &mut Vec<&'a Value>) {
    // A status is as deep as the API server let it be, so this does not run away; its width is bounded by the caller.
    match name {
        "*" => into.extend(children(value)),
        _ => into.extend(value.get(name)),
    }
    if into.len() <= FOUND_MAX {
        children(value).for_each(|child| recurse(child, name, into));
    }
}

impl Pick {
    fn apply<'a>(&self, value: &'a Value, into: &mut Vec<&'a Value>) -> Result<(), PathError> {
        let missing = |what: String| PathError::NotFound(what);
        match self {
            Self::Name(name) => {
                let found = value.get(name).filter(|value| !value.is_null());
                into.push(found.ok_or_else(|| missing(name.clone()))?);
            }
            Self::Index(index) => {
                let list = value.as_array().ok_or_else(|| missing(format!("[{index}]")))?;
                let at = if *index < 0 { i64::try_from(list.len()).unwrap_or(i64::MAX) + index } else { *index };
                let found = usize::try_from(at).ok().and_then(|at| list.get(at));
                into.push(found.ok_or_else(|| missing(format!("[{index}]")))?);
            }
            Self::Slice { from, to, step } => {
                let list = value.as_array().ok_or_else(|| missing("a list".to_owned()))?;
                let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
                let place = |at: i64| if at < 0 { (length + at).max(0) } else { at.min(length) };
                let (from, to) = (place(from.unwrap_or(0)), place(to.unwrap_or(length)));
                let (from, to) = (usize::try_from(from).unwrap_or(0), usize::try_from(to).unwrap_or(0));
                let step = usize::try_from(*step).unwrap_or(1).max(1);
                into.extend(list.get(from..to).unwrap_or_default().iter().step_by(step));
            }
        }
        Ok(())
    }
}

impl Compare {
    fn holds(self, found: &Value, wanted: &Value) -> bool {
        let order = match (found, wanted) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (a, b) => (a == b).then_some(std::cmp::Ordering::Equal),
        };
        match self {
            Self::Equal => order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Differs => !order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::AtMost => order.is_some_and(std::cmp::Ordering::is_le),
            Self::More => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::AtLeast => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn templates() {
        let status = json!({
            "a": {"b": "c", "x.y": 1}, "list": [{"n": "p", "v": 1}, {"n": "q", "v": 2}, {"n": "r", "v": 3}], "t": true,
            "deep": {"id": "d1", "more": {"id": "d2"}}, "object": {"k": 1},
        });
        for (template, want) in [
            ("{.a.b}", Ok("c")),
            ("{ .a.b }", Ok("c")),
            ("{$.a.b}", Ok("c")),
            ("{@.a.b}", Ok("c")),
            ("{.a['b']}", Ok("c")),
            ("{.a[\"x.y\"]}", Ok("1")),
            ("{.a.x\\.y}", Ok("1")),
            ("{['a']['b']}", Ok("c")),
            ("v-{.a.b}-{.t}", Ok("v-c-true")),
            ("{\"text\"}", Ok("text")),
            ("{.list[0].n}", Ok("p")),
            ("{.list[-1].n}", Ok("r")),
            ("{.list[0:2].n}", Ok("p q")),
            ("{.list[::2].n}", Ok("p r")),
            ("{.list[0,2].n}", Ok("p r")),
            ("{.list[*].v}", Ok("1 2 3")),
            ("{.list.*.v}", Ok("1 2 3")),
            ("{.list[?(@.n==\"q\")].v}", Ok("2")),
            ("{.list[?(@.v>=2)].n}", Ok("q r")),
            ("{.list[?(@.v<2)].n}", Ok("p")),
            ("{.list[?(@.n!='q')].v}", Ok("1 3")),
            ("{.list[?(@.w)].n}", Err("n is not found")),
            ("{..id}", Ok("d1 d2")),
            ("{.object}", Ok("{\"k\":1}")),
            ("{.nope}", Err("nope is not found")),
            ("{.a.b.c}", Err("c is not found")),
            ("{.list[7].n}", Err("[7] is not found")),
            (".a.b", Err("a path stands in braces, as {.field}")),
            ("", Err("a path stands in braces, as {.field}")),
            ("{.a", Err("unclosed action")),
            ("{}", Err("\"\" can't be read")),
            ("{a.b}", Err("\"a.b\" can't be read")),
            ("{.a[}", Err("unclosed action")),
            ("{.a..}", Err("\".a..\" can't be read")),
            ("{range .list[*]}", Err("\"range .list[*]\" can't be read")),
            ("{.list[1:0:0]}", Err("\".list[1:0:0]\" can't be read")),
        ] {
            let got = JsonPath::parse(template).and_then(|path| path.render(&status));
            let got = got.map_err(|error| error.to_string());
            assert_eq!(got, want.map(ToOwned::to_owned).map_err(ToOwned::to_owned), "{template}");
        }
        let long = format!("{{.{}}}", "x".repeat(TEMPLATE_MAX));
        assert_eq!(JsonPath::parse(&long), Err(PathError::TooLong));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(template in r#"[{}\[\]().$@*'"\\,:?=<>!a-c0-2 é-]{0,40}"#) {
            let value = json!({"a": [{"b": "c"}, {"b": 2}], "b": {"a": null}});
            let _ = JsonPath::parse(&template).map(|path| path.render(&value));
        }
    }
}
