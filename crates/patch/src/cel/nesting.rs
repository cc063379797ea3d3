//! Nesting depth of an expression, computed before it is parsed: parser and evaluation are recursive.

use super::lexer;

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

/// Returns the nesting depth: brackets, nested operators, chained fields. String literals and comments don't count,
/// unless a literal is malformed: then what the parser takes for code is unclear, and everything counts.
pub(super) fn depth(text: &str) -> usize {
    match lexer::code(text) {
        Some(pieces) => depth_of(pieces.into_iter().map(|piece| &text[piece]), true),
        None => depth_of(std::iter::once(text), false),
    }
}

/// If it is unclear what is code, nothing ends and nothing is a sibling.
fn depth_of<'a>(code: impl Iterator<Item = &'a str>, is_clear: bool) -> usize {
    let mut levels = vec![Level::default()];
    // Of all levels together.
    let (mut inside, mut deepest) = (0, 0);
    for c in code.flat_map(str::chars) {
        match c {
            '(' | '[' | '{' => levels.push(Level::default()),
            ')' | ']' | '}' if is_clear && levels.len() > 1 => {
                let closed = levels.pop().unwrap_or_default();
                inside -= closed.operators + closed.fields;
            }
            _ => {}
        }
        let Some(level) = levels.last_mut() else { continue };
        let before = level.operators + level.fields;
        match c {
            // Operands of these are siblings: they do not nest.
            ',' | '&' | '|' if is_clear => *level = Level::default(),
            '.' => level.fields += 1,
            '?' => level.operators += BRACKET,
            '!' => level.operators += 1,
            '+' | '-' | '*' | '/' | '%' | '<' | '>' | '=' => {
                level.operators += OPERATOR;
                if is_clear {
                    level.fields = 0;
                }
            }
            _ => {}
        }
        inside = inside + level.operators + level.fields - before;
        deepest = deepest.max(inside + BRACKET * (levels.len() - 1));
        if deepest > DEPTH_MAX {
            break;
        }
    }
    deepest
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
            (r#"r"\\" == "" || ((1))"#, 8),
            ("'\\q (((( '", 16),
            ("'a\n'((((", 16),
            ("'\\q' + (')', (')'", 10),
        ] {
            assert_eq!(depth(text), want, "{text}");
        }
    }
}
