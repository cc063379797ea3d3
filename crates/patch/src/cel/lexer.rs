//! The text of an expression in pieces, as the parser's lexer sees them: code, and texts and comments between.

use std::ops::Range;

/// The stretches of code in an expression; `None` if a text in it is not well formed, so that its end is unclear.
pub(super) fn code(text: &str) -> Option<Vec<Range<usize>>> {
    let mut pieces = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        match c {
            '/' if text[at + 1..].starts_with('/') => {
                pieces.push(from..at);
                at = text[at..].find('\n').map_or(text.len(), |end| at + end);
                from = at;
            }
            '"' | '\'' => {
                let before = &text[from..at];
                let word = &before[before.trim_end_matches(|c: char| c.is_alphanumeric() || c == '_').len()..];
                let is_raw = match word {
                    "" | "b" | "B" | "in" => false,
                    "r" | "R" | "br" | "bR" | "Br" | "BR" => true,
                    // A name directly before a text: the lexer may cut it in several ways.
                    _ => return None,
                };
                pieces.push(from..at);
                at = end_of_text(text, at, c, is_raw)?;
                from = at;
            }
            c => at += c.len_utf8(),
        }
    }
    pieces.push(from..text.len());
    Some(pieces)
}

/// The end of the text that begins with this quote.
fn end_of_text(text: &str, at: usize, quote: char, is_raw: bool) -> Option<usize> {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let is_triple = text[at..].starts_with(&triple);
    let close = if is_triple { triple.as_str() } else { &triple[..1] };
    let mut at = at + close.len();
    loop {
        let rest = &text[at..];
        if rest.starts_with(close) {
            return Some(at + close.len());
        }
        let c = rest.chars().next()?;
        if !is_triple && matches!(c, '\n' | '\r') {
            return None;
        }
        at += match c {
            '\\' if !is_raw => 1 + escape(&rest[1..])?,
            c => c.len_utf8(),
        };
    }
}

/// Bytes of an escape behind its backslash.
fn escape(rest: &str) -> Option<usize> {
    let digits = |from: usize, count: usize, radix: u32| {
        let digits = rest.get(from..from + count)?;
        digits.chars().all(|c| c.is_digit(radix)).then_some(from + count)
    };
    match rest.chars().next()? {
        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`' => Some(1),
        '0'..='3' => digits(0, 3, 8),
        'x' | 'X' => digits(1, 2, 16),
        'u' => digits(1, 4, 16),
        'U' => digits(1, 8, 16),
        _ => None,
    }
}

/// The expression with pairs of `!` and of signs replaced by blanks: the parser reads an operand of such a pair twice,
/// and then applies one operator instead of none.
pub(super) fn without_pairs(text: &str) -> String {
    let Some(pieces) = code(text) else { return text.to_owned() };
    let mut out = text.as_bytes().to_vec();
    // Operators of one run, and whether a value ends before them.
    let mut run: Vec<(usize, u8)> = Vec::new();
    let mut after_value = false;
    let mut end_run = |run: &mut Vec<(usize, u8)>, after_value: bool| {
        // Behind a value, the first sign is a subtraction.
        let signs = if after_value && run.first().is_some_and(|(_, c)| *c == b'-') { &run[1..] } else { &run[..] };
        let paired = signs.len() - signs.len() % 2;
        signs[..paired].iter().for_each(|(at, _)| out[*at] = b' ');
        run.clear();
    };
    for (n, piece) in pieces.iter().enumerate() {
        let bytes = text.as_bytes();
        for at in piece.clone() {
            let c = bytes[at];
            let is_operator = c == b'-' || (c == b'!' && bytes.get(at + 1) != Some(&b'='));
            if is_operator {
                if run.last().is_some_and(|(_, last)| *last != c) {
                    end_run(&mut run, after_value);
                    after_value = false;
                }
                run.push((at, c));
            } else if !c.is_ascii_whitespace() {
                end_run(&mut run, after_value);
                after_value = c.is_ascii_alphanumeric() || matches!(c, b'_' | b')' | b']' | b'}' | b'"' | b'\'' | b'`');
            }
        }
        // Between two pieces is a string literal, which is a value, or a comment, which is none.
        let is_text = pieces.get(n + 1).is_some_and(|next| !text[piece.end..next.start].starts_with('/'));
        if is_text {
            end_run(&mut run, after_value);
            after_value = true;
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_comments_are_no_code() {
        for (text, want) in [
            ("a", Some("a")),
            ("a + 'b(' + c", Some("a + | + c")),
            (r#"r"\" == "" || x"#, Some("r| == | || x")),
            (r#"b'\'' + br'\' + x"#, Some("b| + br| + x")),
            (r#""\"(" + x"#, Some("| + x")),
            ("'''(' '\n''' + x", Some("| + x")),
            ("'' + x", Some("| + x")),
            ("a // (\n + b", Some("a |\n + b")),
            ("x in'a'", Some("x in|")),
            ("'a\n'", None),
            ("'a", None),
            (r"'\q'", None),
            (r"'\u00e'", None),
            (r"'\u00e9\101\x41'", Some("|")),
            (r#"rb"\""#, None),
            (r#"1r"\""#, None),
        ] {
            let found = code(text).map(|pieces| {
                let pieces: Vec<&str> = pieces.into_iter().map(|piece| &text[piece]).collect();
                pieces.join("|").trim_end_matches('|').to_owned() + if text.ends_with(['\'', '"']) { "|" } else { "" }
            });
            assert_eq!(found.as_deref(), want, "{text}");
        }
    }

    #[test]
    fn pairs_of_operators_are_blanks() {
        for (text, want) in [
            ("!a", "!a"),
            ("!!a", "  a"),
            ("!!!a", "  !a"),
            ("! ! a", "    a"),
            ("!(!a)", "!(!a)"),
            ("a != !!b", "a !=   b"),
            ("--a", "  a"),
            ("---a", "  -a"),
            ("a - b", "a - b"),
            ("a--b", "a--b"),
            ("a---b", "a-  b"),
            ("(a)--b", "(a)--b"),
            ("'a'--b", "'a'--b"),
            ("'--' + --b", "'--' +   b"),
            ("!// !\n!a", " // !\n a"),
        ] {
            assert_eq!(without_pairs(text), want, "{text}");
        }
    }
}
