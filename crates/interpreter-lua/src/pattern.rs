//! Lua 5.1's patterns. The matcher of Lua's own library can run for hours on a short text and cannot be interrupted;
//! this one counts its steps.

/// Captures of one pattern, as in Lua.
const CAPTURES_MAX: usize = 32;
/// Maximum nesting depth of one match.
const DEPTH_MAX: usize = 200;

/// Failure of a match: a malformed pattern, or an exhausted budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatternError {
    Malformed(&'static str),
    /// No steps are left.
    Exhausted,
}
use PatternError::{Exhausted, Malformed};

/// Value of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// Byte range: start, end.
    Text(usize, usize),
    /// A position, counted from 1.
    Position(usize),
}

/// A match and its captures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) captures: Vec<Capture>,
}

#[derive(Debug, Clone, Copy)]
enum Length {
    Open,
    Position,
    Closed(usize),
}

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: usize,
    steps: u64,
}

/// Returns the first match at or after byte `from`, and the steps used. With `anchor`, a leading `^` ties the match to
/// `from`.
pub(crate) fn find(
    text: &[u8],
    pattern: &[u8],
    from: usize,
    anchor: bool,
    steps: &mut u64,
) -> Result<Option<Found>, PatternError> {
    let (tied, pattern) = match pattern.strip_prefix(b"^") {
        Some(rest) if anchor => (true, rest),
        _ => (false, pattern),
    };
    let mut matcher = Matcher { text, pattern, captures: Vec::new(), depth: 0, steps: *steps };
    let mut start = from;
    let found = loop {
        matcher.captures.clear();
        if let Some(end) = matcher.run(start, 0)? {
            break Some(Found { start, end, captures: matcher.captured()? });
        }
        start += 1;
        if tied || start > text.len() {
            break None;
        }
    };
    *steps = matcher.steps;
    Ok(found)
}

impl Matcher<'_> {
    fn step(&mut self) -> Result<(), PatternError> {
        self.steps = self.steps.checked_sub(1).ok_or(Exhausted)?;
        Ok(())
    }

    fn captured(&self) -> Result<Vec<Capture>, PatternError> {
        self.captures
            .iter()
            .map(|(at, length)| match length {
                Length::Closed(n) => Ok(Capture::Text(*at, at + n)),
                Length::Position => Ok(Capture::Position(at + 1)),
                Length::Open => Err(Malformed("unfinished capture")),
            })
            .collect()
    }

    fn run(&mut self, s: usize, p: usize) -> Result<Option<usize>, PatternError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Malformed("pattern too complex"));
        }
        let end = self.match_pattern(s, p);
        self.depth -= 1;
        end
    }

    /// Matches the pattern from `p` at `s`, and returns the end of the match.
    fn match_pattern(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, PatternError> {
        loop {
            self.step()?;
            let Some(&c) = self.pattern.get(p) else { return Ok(Some(s)) };
            match c {
                b'(' if self.pattern.get(p + 1) == Some(&b')') => return self.open(s, p + 2, Length::Position),
                b'(' => return self.open(s, p + 1, Length::Open),
                b')' => return self.close(s, p + 1),
                b'$' if p + 1 == self.pattern.len() => return Ok((s == self.text.len()).then_some(s)),
                b'%' => match self.pattern.get(p + 1) {
                    Some(b'b') => match self.balanced(s, p + 2)? {
                        Some(next) => {
                            (s, p) = (next, p + 4);
                            continue;
                        }
                        None => return Ok(None),
                    },
                    Some(b'f') => {
                        p += 2;
                        if self.pattern.get(p) != Some(&b'[') {
                            return Err(Malformed("missing '[' after '%f' in pattern"));
                        }
                        let end = self.class_end(p)?;
                        let before = if s == 0 { 0 } else { self.text[s - 1] };
                        let here = self.text.get(s).copied().unwrap_or(0);
                        if self.in_set(before, p, end - 1)? || !self.in_set(here, p, end - 1)? {
                            return Ok(None);
                        }
                        p = end;
                        continue;
                    }
                    Some(digit @ b'0'..=b'9') => match self.back_reference(s, *digit)? {
                        Some(next) => {
                            (s, p) = (next, p + 2);
                            continue;
                        }
                        None => return Ok(None),
                    },
                    _ => {}
                },
                _ => {}
            }
            let end = self.class_end(p)?;
            match self.pattern.get(end) {
                Some(b'?') => {
                    if self.single(s, p, end)?
                        && let Some(found) = self.run(s + 1, end + 1)?
                    {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.longest(s, p, end, 0),
                Some(b'+') => return self.longest(s, p, end, 1),
                Some(b'-') => return self.shortest(s, p, end),
                _ => {
                    if !self.single(s, p, end)? {
                        return Ok(None);
                    }
                    (s, p) = (s + 1, end);
                }
            }
        }
    }

    fn longest(&mut self, s: usize, p: usize, end: usize, least: usize) -> Result<Option<usize>, PatternError> {
        let mut n = 0;
        while self.single(s + n, p, end)? {
            n += 1;
        }
        loop {
            if n < least {
                return Ok(None);
            }
            if let Some(found) = self.run(s + n, end + 1)? {
                return Ok(Some(found));
            }
            if n == 0 {
                return Ok(None);
            }
            n -= 1;
        }
    }

    fn shortest(&mut self, mut s: usize, p: usize, end: usize) -> Result<Option<usize>, PatternError> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(&mut self, s: usize, p: usize, length: Length) -> Result<Option<usize>, PatternError> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Malformed("too many captures"));
        }
        self.captures.push((s, length));
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures.pop();
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Result<Option<usize>, PatternError> {
        let open = self.captures.iter().rposition(|(_, length)| matches!(length, Length::Open));
        let Some(open) = open else { return Err(Malformed("invalid pattern capture")) };
        self.captures[open].1 = Length::Closed(s - self.captures[open].0);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[open].1 = Length::Open;
        }
        Ok(found)
    }

    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>, PatternError> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Malformed("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.text.len() {
            self.step()?;
            let c = self.text[at];
            if c == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if c == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Result<Option<usize>, PatternError> {
        let index = usize::from(digit.wrapping_sub(b'1'));
        let Some((at, Length::Closed(n))) = self.captures.get(index).copied() else {
            return Err(Malformed("invalid capture index"));
        };
        self.steps = self.steps.checked_sub(n as u64).ok_or(Exhausted)?;
        Ok(self.text[s..].starts_with(&self.text[at..at + n]).then_some(s + n))
    }

    /// Index after the character class that begins at `p`.
    fn class_end(&self, p: usize) -> Result<usize, PatternError> {
        match self.pattern[p] {
            b'%' if p + 1 < self.pattern.len() => Ok(p + 2),
            b'%' => Err(Malformed("malformed pattern (ends with '%')")),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A `]` directly after the `[` or `[^` is literal.
                loop {
                    match self.pattern.get(at) {
                        None => return Err(Malformed("malformed pattern (missing ']')")),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    /// Returns true if the byte at `s` belongs to the class from `p` to `end`.
    fn single(&mut self, s: usize, p: usize, end: usize) -> Result<bool, PatternError> {
        self.step()?;
        let Some(&c) = self.text.get(s) else { return Ok(false) };
        match self.pattern[p] {
            b'.' => Ok(true),
            b'%' => Ok(of_class(c, self.pattern[p + 1])),
            b'[' => self.in_set(c, p, end - 1),
            other => Ok(other == c),
        }
    }

    /// Returns true if the byte belongs to the set from `[` at `p` to its `]` at `close`.
    fn in_set(&mut self, c: u8, p: usize, close: usize) -> Result<bool, PatternError> {
        let mut at = p + 1;
        let negated = self.pattern[at] == b'^';
        if negated {
            at += 1;
        }
        while at < close {
            self.step()?;
            let first = self.pattern[at];
            if first == b'%' {
                if of_class(c, self.pattern[at + 1]) {
                    return Ok(!negated);
                }
                at += 2;
            } else if at + 2 < close && self.pattern[at + 1] == b'-' {
                if (first..=self.pattern[at + 2]).contains(&c) {
                    return Ok(!negated);
                }
                at += 3;
            } else {
                if first == c {
                    return Ok(!negated);
                }
                at += 1;
            }
        }
        Ok(negated)
    }
}

fn of_class(c: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => c.is_ascii_alphabetic(),
        b'c' => c.is_ascii_control(),
        b'd' => c.is_ascii_digit(),
        b'l' => c.is_ascii_lowercase(),
        b'p' => c.is_ascii_punctuation(),
        b's' => c.is_ascii_whitespace() || c == 0x0b,
        b'u' => c.is_ascii_uppercase(),
        b'w' => c.is_ascii_alphanumeric(),
        b'x' => c.is_ascii_hexdigit(),
        b'z' => c == 0,
        _ => return c == class,
    };
    is != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn first(text: &str, pattern: &str) -> Option<Vec<String>> {
        let mut steps = 100_000;
        let found = find(text.as_bytes(), pattern.as_bytes(), 0, true, &mut steps).unwrap()?;
        if found.captures.is_empty() {
            return Some(vec![text[found.start..found.end].to_owned()]);
        }
        let value = |c: &Capture| match c {
            Capture::Text(from, to) => text[*from..*to].to_owned(),
            Capture::Position(at) => format!("@{at}"),
        };
        Some(found.captures.iter().map(value).collect())
    }

    #[test]
    fn patterns_match_as_in_lua() {
        for (text, pattern, want) in [
            ("hello world", "o w", Some(vec!["o w"])),
            ("hello", "^l", None),
            ("hello", "l+", Some(vec!["ll"])),
            ("hello", "l-o", Some(vec!["llo"])),
            ("key = value", "^(%w+)%s*=%s*(%w+)$", Some(vec!["key", "value"])),
            ("  trim  ", "^%s*(.-)%s*$", Some(vec!["trim"])),
            ("v1.26.3", "^v(%d+)%.(%d+)", Some(vec!["1", "26"])),
            ("f(a(b)c)d", "%b()", Some(vec!["(a(b)c)"])),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some(vec!["THE"])),
            ("say \"hi\" or 'ho'", "([\"'])(.-)%1", Some(vec!["\"", "hi"])),
            ("abc", "()b()", Some(vec!["@2", "@3"])),
            ("a-b", "[a%-]+", Some(vec!["a-"])),
            ("x]y", "[]]", Some(vec!["]"])),
            ("abc123", "[^%d]+", Some(vec!["abc"])),
            ("colour", "colou?r", Some(vec!["colour"])),
            ("color", "colou?r", Some(vec!["color"])),
            ("a$", "a%$", Some(vec!["a$"])),
            ("ab", "a$", None),
            ("", "", Some(vec![""])),
        ] {
            let want = want.map(|list: Vec<&str>| list.into_iter().map(str::to_owned).collect());
            assert_eq!(first(text, pattern), want, "{text} ~ {pattern}");
        }
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for (pattern, want) in [
            ("%", "malformed pattern (ends with '%')"),
            ("[a", "malformed pattern (missing ']')"),
            ("(a", "unfinished capture"),
            ("a)", "invalid pattern capture"),
            ("%1", "invalid capture index"),
            ("%b", "unbalanced pattern"),
            ("%fa", "missing '[' after '%f' in pattern"),
        ] {
            let mut steps = 1_000;
            assert_eq!(find(b"aaa", pattern.as_bytes(), 0, true, &mut steps), Err(Malformed(want)), "{pattern}");
        }
    }

    #[test]
    fn exponential_pattern_runs_out_of_steps() {
        let text = vec![b'a'; 10_000];
        let mut steps = 1_000_000;
        assert_eq!(find(&text, b".-.-.-.-.-b", 0, true, &mut steps), Err(Exhausted));
    }

    proptest! {
        #[test]
        fn no_pattern_panics(text in proptest::collection::vec(any::<u8>(), 0..30), pattern in "[a%\\[\\]()^$.*+?bf1-]{0,12}") {
            let mut steps = 10_000;
            let _ = find(&text, pattern.as_bytes(), 0, true, &mut steps);
        }
    }
}
