//! Errors of bytes that are no JSON object, in the words of Go's decoder: they reach users.

/// `None` for an object and for `null`.
pub(super) fn object(bytes: &[u8]) -> Result<(), String> {
    Scanner { rest: bytes, depth: 0 }.document()?;
    let kind = match bytes.trim_ascii_start().first() {
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "bool",
        Some(b'-' | b'0'..=b'9') => "number",
        _ => return Ok(()),
    };
    Err(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
}

/// Objects and lists within each other: what the stack of a worker has room for. Go's decoder takes 10,000.
const DEPTH_MAX: usize = 500;

struct Scanner<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.value()?;
        self.blanks();
        if self.rest.is_empty() { Ok(()) } else { self.unexpected("after top-level value") }
    }

    fn blanks(&mut self) {
        while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn unexpected<T>(&self, place: &str) -> Result<T, String> {
        let Some(first) = self.rest.first() else { return Err("unexpected end of JSON input".to_owned()) };
        let shown = match first {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            other => format!("'{}'", char::from(*other).escape_default()),
        };
        Err(format!("invalid character {shown} {place}"))
    }

    /// Takes this byte, if it is next.
    fn took(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn value(&mut self) -> Result<(), String> {
        self.blanks();
        match self.rest.first() {
            Some(b'{') => self.nested(Self::members),
            Some(b'[') => self.nested(Self::elements),
            Some(b'"') => self.string(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.unexpected("looking for beginning of value"),
        }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.rest = &self.rest[1..];
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        inner(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn members(&mut self) -> Result<(), String> {
        self.blanks();
        if self.took(b'}') {
            return Ok(());
        }
        loop {
            self.blanks();
            if self.rest.first() != Some(&b'"') {
                return self.unexpected("looking for beginning of object key string");
            }
            self.string()?;
            self.blanks();
            if !self.took(b':') {
                return self.unexpected("after object key");
            }
            self.value()?;
            self.blanks();
            if self.took(b'}') {
                return Ok(());
            }
            if !self.took(b',') {
                return self.unexpected("after object key:value pair");
            }
        }
    }

    fn elements(&mut self) -> Result<(), String> {
        self.blanks();
        if self.took(b']') {
            return Ok(());
        }
        loop {
            self.value()?;
            self.blanks();
            if self.took(b']') {
                return Ok(());
            }
            if !self.took(b',') {
                return self.unexpected("after array element");
            }
        }
    }

    fn string(&mut self) -> Result<(), String> {
        self.rest = &self.rest[1..];
        loop {
            match self.rest {
                [b'"', rest @ ..] => {
                    self.rest = rest;
                    return Ok(());
                }
                [b'\\', rest @ ..] => {
                    self.rest = rest;
                    if self.took(b'u') {
                        for _ in 0..4 {
                            if !self.rest.first().is_some_and(u8::is_ascii_hexdigit) {
                                return self.unexpected("in \\u hexadecimal character escape");
                            }
                            self.rest = &self.rest[1..];
                        }
                    } else if !b"bfnrt\\/\"".iter().any(|b| self.took(*b)) {
                        return self.unexpected("in string escape code");
                    }
                }
                [..=0x1f, ..] | [] => return self.unexpected("in string literal"),
                [_, rest @ ..] => self.rest = rest,
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for byte in word.bytes() {
            if !self.took(byte) {
                return self.unexpected(&format!("in literal {word} (expecting '{}')", char::from(byte)));
            }
        }
        Ok(())
    }

    fn digits(&mut self, place: &str) -> Result<(), String> {
        if !self.rest.first().is_some_and(u8::is_ascii_digit) {
            return self.unexpected(place);
        }
        while self.rest.first().is_some_and(u8::is_ascii_digit) {
            self.rest = &self.rest[1..];
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        self.took(b'-');
        if !self.took(b'0') {
            self.digits("in numeric literal")?;
        }
        if self.took(b'.') {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.took(b'e') || self.took(b'E') {
            if !self.took(b'+') {
                self.took(b'-');
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_object_is_refused() {
        for good in ["{}", " { \"a\" : [1, -2.5e+3, true, null, \"\\u00e9\\n\"] } ", "null"] {
            assert_eq!(object(good.as_bytes()), Ok(()), "{good}");
        }
        for (bytes, want) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("nope", "invalid character 'o' in literal null (expecting 'u')"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
            ("5", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair"),
            ("{\"a\":[1 2]}", "invalid character '2' after array element"),
            ("{}x", "invalid character 'x' after top-level value"),
            ("{\"a\\x\":1}", "invalid character 'x' in string escape code"),
        ] {
            assert_eq!(object(bytes.as_bytes()), Err(want.to_owned()), "{bytes}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_on_the_stack_of_a_worker() -> Result<(), Box<dyn std::error::Error>> {
        let deep = |open: &str| object(open.repeat(20_000).as_bytes());
        let all = std::thread::Builder::new().stack_size(2 << 20).spawn(move || ["[", "{\"a\":"].map(deep))?;
        let all = all.join().map_err(|_| "it panicked")?;
        assert!(all.iter().all(|messages| *messages == Err("exceeded max depth".to_owned())), "{all:?}");
        Ok(())
    }
}
