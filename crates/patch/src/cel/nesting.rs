//! Nesting depth of an expression, computed before it is parsed: parser and evaluation are recursive.

/// The deepest expression that is parsed.
pub(super) const DEPTH_MAX: usize = 80;

/// Stack that a pair of brackets and an operator need in the parser, in units of a field access.
const BRACKET: usize = 4;
const OPERATOR: usize = 2;

/// Counts within one pair of brackets, or outside of all.
#[derive(Default)]
struct Level {
    /// Operators that nest in the current operand.
    operators: usize,
    /// Chained field accesses.
    fields: usize,
}

/// Returns the nesting depth: brackets, nested operators, chained fields. String literals and comments don't count.
pub(super) fn depth(text: &str) -> usize {
    let mut levels = vec![Level::default()];
    let mut deepest = 0;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c == '/' && rest.starts_with('/') {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        match c {
            '"' | '\'' => rest = after_text(rest, c),
            '(' | '[' | '{' => levels.push(Level::default()),
            ')' | ']' | '}' if levels.len() > 1 => {
                levels.pop();
            }
            _ => {}
        }
        let Some(level) = levels.last_mut() else { continue };
        match c {
            // Operands of these are siblings: they do not nest.
            ',' | '&' | '|' => *level = Level::default(),
            '.' => level.fields += 1,
            '?' => level.operators += BRACKET,
            '!' => level.operators += 1,
            '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' => {
                level.operators += OPERATOR;
                level.fields = 0;
            }
            _ => {}
        }
        let open = levels.iter().map(|l| l.operators + l.fields).sum::<usize>() + BRACKET * (levels.len() - 1);
        deepest = deepest.max(open);
        if deepest > DEPTH_MAX {
            break;
        }
    }
    deepest
}

/// Returns the text after the literal that this quote began.
fn after_text(rest: &str, quote: char) -> &str {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    if rest.starts_with(&triple[1..]) {
        let inside = &rest[2..];
        return inside.find(&triple).map_or("", |end| &inside[end + 3..]);
    }
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return &rest[at + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths() {
        for (text, want) in [
            ("", 0),
            ("true", 0),
            ("self.a.b", 2),
            ("self.a == self.b", 5),
            ("(1)", 4),
            ("((1) + 2)", 8),
            ("self.a(b.c)", 6),
            ("'(((.'", 0),
            ("\"\\\"(((\"", 0),
            ("'''((('''.a", 1),
            ("// (((", 0),
            ("a.b && c.d && e.f", 1),
            ("!!!a", 3),
        ] {
            assert_eq!(depth(text), want, "{text}");
        }
    }
}
