//! Messages of Go's parser about text that is not JSON.
//!
//! serde_json reports positions, Go the character and the expected token. The text is scanned again only after it was
//! rejected.

/// Context of a value, which decides what may follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Top,
    Array,
    Object,
}

/// Returns the message about the first mistake; `None` if the text is JSON.
pub(super) fn explain(text: &[u8]) -> Option<String> {
    let mut reader = Reader { text, at: 0 };
    reader.document().err()
}

struct Reader<'b> {
    text: &'b [u8],
    at: usize,
}

type Outcome = Result<(), String>;

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek()
    }

    fn wrong<T>(&self, context: &str) -> Result<T, String> {
        let Some(byte) = self.peek() else { return Err("unexpected end of JSON input".to_owned()) };
        let shown = match byte {
            b'\'' => "\\'".to_owned(),
            b'"' => "\"".to_owned(),
            b'\\' => "\\\\".to_owned(),
            b'\n' => "\\n".to_owned(),
            b'\r' => "\\r".to_owned(),
            b'\t' => "\\t".to_owned(),
            0x20..=0x7e => char::from(byte).to_string(),
            // Go prints the byte as a character of its own.
            0xa1..=0xff if byte != 0xad => char::from(byte).to_string(),
            0x80..=0xad => format!("\\u{byte:04x}"),
            _ => format!("\\x{byte:02x}"),
        };
        Err(format!("invalid character '{shown}' {context}"))
    }

    /// Scans the document without recursion: the text decides about the depth.
    fn document(&mut self) -> Outcome {
        let mut way = vec![Inside::Top];
        loop {
            // A value begins here.
            let opened = match self.space() {
                Some(b'{') => {
                    self.at += 1;
                    way.push(Inside::Object);
                    match self.space() {
                        Some(b'}') => false,
                        _ => {
                            self.key()?;
                            true
                        }
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    way.push(Inside::Array);
                    self.space() != Some(b']')
                }
                _ => {
                    self.scalar()?;
                    false
                }
            };
            if opened {
                continue;
            }
            // A value ended, or an empty object or list is about to.
            loop {
                let next = self.space();
                match (way.last().copied().unwrap_or(Inside::Top), next) {
                    (Inside::Top, None) => return Ok(()),
                    (Inside::Top, Some(_)) => return self.wrong("after top-level value"),
                    (Inside::Object, Some(b'}')) | (Inside::Array, Some(b']')) => {
                        self.at += 1;
                        way.pop();
                    }
                    (Inside::Object, Some(b',')) => {
                        self.at += 1;
                        self.space();
                        self.key()?;
                        break;
                    }
                    (Inside::Array, Some(b',')) => {
                        self.at += 1;
                        break;
                    }
                    (Inside::Object, _) => return self.wrong("after object key:value pair"),
                    (Inside::Array, _) => return self.wrong("after array element"),
                }
            }
        }
    }

    fn key(&mut self) -> Outcome {
        if self.peek() != Some(b'"') {
            return self.wrong("looking for beginning of object key string");
        }
        self.string()?;
        if self.space() != Some(b':') {
            return self.wrong("after object key");
        }
        self.at += 1;
        Ok(())
    }

    fn scalar(&mut self) -> Outcome {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.wrong("looking for beginning of value"),
        }
    }

    fn literal(&mut self, word: &str) -> Outcome {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return self.wrong(&format!("in literal {word} (expecting '{}')", char::from(expected)));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Outcome {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return self.wrong(context);
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Outcome {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits("in numeric literal")?,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn string(&mut self) -> Outcome {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            for _ in 0..4 {
                                if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                                    return self.wrong("in \\u hexadecimal character escape");
                                }
                                self.at += 1;
                            }
                        }
                        _ => return self.wrong("in string escape code"),
                    }
                }
                Some(0..0x20) | None => return self.wrong("in string literal"),
                Some(_) => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_of_go() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            ("nope", "invalid character 'o' in literal null (expecting 'u')"),
            ("hello", "invalid character 'h' looking for beginning of value"),
            ("{a}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\"1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("[1 2]", "invalid character '2' after array element"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u00g\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("-", "unexpected end of JSON input"),
            ("-a", "invalid character 'a' in numeric literal"),
            ("1.a", "invalid character 'a' after decimal point in numeric literal"),
            ("1ea", "invalid character 'a' in exponent of numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            ("'", "invalid character '\\'' looking for beginning of value"),
        ] {
            assert_eq!(explain(text.as_bytes()).as_deref(), Some(want), "{text:?}");
        }
        for text in ["{}", " [ ] ", "[1,{\"a\":[null,true,false,-0.5e+3]},\"\\u00e9\\n\"]", "0"] {
            assert_eq!(explain(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn accepted_text_has_no_syntax_error(bytes in proptest::collection::vec(prop_oneof![
            Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b','), Just(b':'), Just(b'"'), Just(b'1'), Just(b'.'), Just(b'a'), any::<u8>(),
        ], 0..30)) {
            let accepted = serde_json::from_slice::<serde_json::Value>(&bytes).is_ok();
            prop_assert!(!accepted || explain(&bytes).is_none());
        }
    }
}
