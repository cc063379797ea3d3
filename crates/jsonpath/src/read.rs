//! Templates and paths, read.

use serde_json::Value;

use super::{Compare, Operand, Part, PathError, Pick, Step};

/// Maximum nesting of ranges, and of filters and lists of paths.
const DEPTH_MAX: usize = 16;

pub(super) fn template(text: &str) -> Result<Vec<Part>, PathError> {
    // Open ranges, the innermost last; the template itself is the first.
    let mut open: Vec<(Vec<Step>, Vec<Part>)> = vec![(Vec::new(), Vec::new())];
    let mut rest = text;
    while let Some(brace) = rest.find('{') {
        add(&mut open, &rest[..brace]);
        let inner = &rest[brace + 1..];
        let close = closing(inner, '}').ok_or(PathError::Unclosed)?;
        let action = inner[..close].trim();
        rest = &inner[close + 1..];
        if action == "end" {
            let (steps, parts) = open.pop().filter(|_| !open.is_empty()).ok_or(PathError::NoRange)?;
            push(&mut open, Part::Range(steps, parts));
        } else if let Some(over) = action.strip_prefix("range").filter(|over| over.starts_with([' ', '\t', '.', '['])) {
            if open.len() > DEPTH_MAX {
                return Err(PathError::TooDeep);
            }
            open.push((path(over.trim(), DEPTH_MAX)?, Vec::new()));
        } else {
            push(&mut open, self::action(action)?);
        }
    }
    add(&mut open, rest);
    // A range that is not closed ends with the template.
    while let Some((steps, parts)) = open.pop() {
        if open.is_empty() {
            return Ok(parts);
        }
        push(&mut open, Part::Range(steps, parts));
    }
    Ok(Vec::new())
}

fn push(open: &mut [(Vec<Step>, Vec<Part>)], part: Part) {
    if let Some((_, parts)) = open.last_mut() {
        parts.push(part);
    }
}

fn add(open: &mut [(Vec<Step>, Vec<Part>)], text: &str) {
    if !text.is_empty() {
        push(open, Part::Text(text.to_owned()));
    }
}

/// The end of what a bracket opened, outside of quotes and inner brackets.
fn closing(text: &str, close: char) -> Option<usize> {
    outside(text, |rest| rest.starts_with(close)).map(|(at, _)| at)
}

/// Splits the text where `found` first matches outside of quotes and inner brackets.
fn outside(text: &str, found: impl Fn(&str) -> bool) -> Option<(usize, &str)> {
    let (mut quote, mut depth, mut escaped) = (None, 0_u32, false);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), _) => quote = (c != open).then_some(open),
            (None, _) if depth == 0 && found(&text[at..]) => return Some((at, &text[at..])),
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
    }
    None
}

fn action(text: &str) -> Result<Part, PathError> {
    if let Some(plain) = unquoted(text) {
        return Ok(Part::Text(plain));
    }
    if matches!(text, "true" | "false") || text.parse::<f64>().is_ok_and(f64::is_finite) {
        return Ok(Part::Text(text.to_owned()));
    }
    path(text, DEPTH_MAX).map(Part::Path)
}

/// Parses a path from its first step; empty, `$` and `@` mean the current value.
fn path(text: &str, depth: usize) -> Result<Vec<Step>, PathError> {
    let rest = text.strip_prefix(['$', '@']).unwrap_or(text);
    if !rest.is_empty() && !rest.starts_with(['.', '[']) {
        return Err(PathError::Syntax(text.to_owned()));
    }
    steps(rest, depth)?.ok_or_else(|| PathError::Syntax(text.to_owned()))
}

/// Returns the content of quotes, with escapes as in Go.
fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    let mut plain = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            c if c == quote => return None,
            c => plain.push(c),
        }
    }
    Some(plain)
}

/// `None` if it can't be read.
fn steps(text: &str, depth: usize) -> Result<Option<Vec<Step>>, PathError> {
    let depth = depth.checked_sub(1).ok_or(PathError::TooDeep)?;
    let (mut steps, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let Some(close) = closing(inner, ']') else { return Ok(None) };
            let Some(step) = bracket(inner[..close].trim(), depth)? else { return Ok(None) };
            steps.push(step);
            rest = &inner[close + 1..];
            continue;
        }
        let after = if let Some(after) = rest.strip_prefix("..") {
            if after.is_empty() {
                return Ok(None);
            }
            steps.push(Step::Deep);
            after
        } else {
            let Some(after) = rest.strip_prefix('.') else { return Ok(None) };
            if after.is_empty() && steps.is_empty() {
                break;
            }
            after
        };
        if after.starts_with('[') {
            rest = after;
            continue;
        }
        let Some((found, after)) = name(after) else { return Ok(None) };
        steps.push(named(found));
        rest = after;
    }
    Ok(Some(steps))
}

fn named(name: String) -> Step {
    if name == "*" { Step::All } else { Step::Name(name) }
}

/// Parses a name up to the next step; a backslash escapes the next character.
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

fn bracket(text: &str, depth: usize) -> Result<Option<Step>, PathError> {
    if text == "*" {
        return Ok(Some(Step::All));
    }
    if let Some(inner) = text.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter(inner.trim(), depth);
    }
    let mut picks = Vec::new();
    let mut rest = text;
    loop {
        let end = closing(rest, ',').unwrap_or(rest.len());
        let Some(pick) = pick(rest[..end].trim(), depth)? else { return Ok(None) };
        picks.push(pick);
        match rest.get(end + 1..) {
            Some(more) => rest = more,
            None => return Ok(Some(Step::Pick(picks))),
        }
    }
}

/// Parses one element of a list in brackets: `'a.b'` is a path, `"a.b"` is a name.
fn pick(text: &str, depth: usize) -> Result<Option<Pick>, PathError> {
    if let Some(inner) = text.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\'')) {
        let steps = steps(&format!(".{inner}"), depth)?;
        let name = || unquoted(text).map(|name| vec![Step::Name(name)]);
        return Ok(steps.filter(|steps| !steps.is_empty()).or_else(name).map(Pick::Path));
    }
    if let Some(name) = unquoted(text) {
        return Ok(Some(Pick::Path(vec![Step::Name(name)])));
    }
    Ok(index_or_slice(text))
}

fn index_or_slice(text: &str) -> Option<Pick> {
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        // The same as `[:]`.
        [""] => Some(Pick::Slice { from: None, to: None, step: 1 }),
        [index] => Some(Pick::Index(index.parse().ok()?)),
        [from, to] => Some(Pick::Slice { from: number(from)?, to: number(to)?, step: 1 }),
        [from, to, step] => {
            let step = usize::try_from(number(step)?.unwrap_or(1)).ok().filter(|step| *step > 0)?;
            Some(Pick::Slice { from: number(from)?, to: number(to)?, step })
        }
        _ => None,
    }
}

fn filter(text: &str, depth: usize) -> Result<Option<Step>, PathError> {
    const SIGNS: [(&str, Compare); 6] = [
        ("==", Compare::Equal),
        ("!=", Compare::Differs),
        ("<=", Compare::AtMost),
        (">=", Compare::AtLeast),
        ("<", Compare::Less),
        (">", Compare::More),
    ];
    let sign_of = |rest: &str| SIGNS.into_iter().find(|(sign, _)| rest.starts_with(sign));
    let Some((at, rest)) = outside(text, |rest| sign_of(rest).is_some()) else {
        let left = operand(text, depth)?.filter(|left| matches!(left, Operand::Path(_)));
        return Ok(left.map(|left| Step::Filter { left, compare: None }));
    };
    let Some((sign, compare)) = sign_of(rest) else { return Ok(None) };
    let (left, right) = (operand(text[..at].trim(), depth)?, operand(rest[sign.len()..].trim(), depth)?);
    Ok(left.zip(right).map(|(left, right)| Step::Filter { left, compare: Some((compare, right)) }))
}

fn operand(text: &str, depth: usize) -> Result<Option<Operand>, PathError> {
    if let Some(text) = unquoted(text) {
        return Ok(Some(Operand::Is(Value::String(text))));
    }
    if text.starts_with(['@', '$', '.', '[']) {
        let rest = text.strip_prefix(['$', '@']).unwrap_or(text);
        return Ok(steps(rest, depth)?.map(Operand::Path));
    }
    Ok(serde_json::from_str(text).ok().map(Operand::Is))
}
