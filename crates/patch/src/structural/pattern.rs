//! `pattern`: regular expressions of Go.
//!
//! The two languages are nearly the same. Differences are rewritten to Go's meaning: `\d`, `\w`, `\s` and `\b` are
//! ASCII-only, and `[`, `&&`, `--`, `~~` inside a class are literal. Neither backtracks, so matching takes linear time;
//! the size of the compiled form is limited.

use regex::{Regex, RegexBuilder};

/// Bound on the compiled form of one pattern.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled pattern with its original text.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The mistake, in one line.
    pub fn compile(text: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(&translate(text)).size_limit(COMPILED_BYTES_MAX).build().map_err(|error| {
            let text = error.to_string();
            text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("error parsing regexp").trim().to_owned()
        })?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// Returns the original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the pattern matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match (chars.next(), in_class) {
                (Some('Q'), false) => {
                    let mut quoted = String::new();
                    while let Some(c) = chars.next() {
                        if c == '\\' && chars.peek() == Some(&'E') {
                            chars.next();
                            break;
                        }
                        quoted.push(c);
                    }
                    out.push_str(&regex::escape(&quoted));
                }
                (Some('d'), _) => out.push_str("[0-9]"),
                (Some('D'), _) => out.push_str("[^0-9]"),
                (Some('w'), _) => out.push_str("[0-9A-Za-z_]"),
                (Some('W'), _) => out.push_str("[^0-9A-Za-z_]"),
                (Some('s'), _) => out.push_str("[\\t\\n\\x0C\\r ]"),
                (Some('S'), _) => out.push_str("[^\\t\\n\\x0C\\r ]"),
                (Some('b'), false) => out.push_str("(?-u:\\b)"),
                (Some('B'), false) => out.push_str("(?-u:\\B)"),
                (Some('z'), false) => out.push_str("\\z"),
                (Some(c), _) => out.extend(['\\', c]),
                (None, _) => out.push('\\'),
            },
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if chars.peek() == Some(&'^') {
                    out.extend(chars.next());
                }
                // A bracket right at the start is a member of the class.
                if chars.peek() == Some(&']') {
                    chars.next();
                    out.push_str("\\]");
                }
            }
            '[' if chars.peek() == Some(&':') => {
                // [:alpha:] up to its end.
                out.push('[');
                for c in chars.by_ref() {
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' | '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && chars.peek() == Some(&'-') => out.push_str("\\-"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_go() {
        for (pattern, text, want) in [
            ("^[a-z]+$", "abc", true),
            ("b", "abc", true),
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{661}", false),
            (r"^[\d\.]+$", "1.2", true),
            (r"^\w+$", "é", false),
            (r"^[^\s]+$", "a b", false),
            ("^[[a]$", "[", true),
            ("^[a&&b]+$", "&", true),
            ("^[]a]+$", "]a", true),
            ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            ("^[[:alpha:]]+$", "ab", true),
            (r"\Qa.b\E+", "a.bb", true),
            ("(?i)^ABC$", "abc", true),
            (r"\bx\b", "a x b", true),
        ] {
            assert_eq!(Pattern::compile(pattern).expect(pattern).is_match(text), want, "{pattern} on {text}");
        }
        for pattern in ["(", "[a", "a{2000}{2000}", r"(?=a)", "*"] {
            assert!(Pattern::compile(pattern).is_err(), "{pattern}");
        }
    }
}
