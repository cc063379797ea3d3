//! Base64 of Go's standard encoding: padded, with line breaks ignored.

/// Returns the text without line breaks.
///
/// # Errors
/// Go's message, with the byte at which the text stops being base64.
pub(super) fn normal(text: &str) -> Result<String, String> {
    let wrong = |at: usize| Err(format!("illegal base64 data at input byte {at}"));
    let mut out = String::with_capacity(text.len());
    let mut rest = text.bytes().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    while let Some((at, byte)) = rest.next() {
        if byte != b'=' {
            if !byte.is_ascii_alphanumeric() && byte != b'+' && byte != b'/' {
                return wrong(at);
            }
            out.push(byte as char);
            continue;
        }
        match out.len() % 4 {
            2 => match rest.next() {
                Some((_, b'=')) => out.push_str("=="),
                Some((at, _)) => return wrong(at),
                None => return wrong(text.len()),
            },
            3 => out.push('='),
            _ => return wrong(at),
        }
        return match rest.next() {
            Some((at, _)) => wrong(at),
            None => Ok(out),
        };
    }
    // Go reports the start of the last, incomplete group of four.
    if out.len().is_multiple_of(4) { Ok(out) } else { wrong(text.len() - out.len() % 4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_and_refused() {
        for (text, want) in [
            ("", Ok("")),
            ("YWJj", Ok("YWJj")),
            ("YQ==", Ok("YQ==")),
            ("YWI=", Ok("YWI=")),
            ("YW\r\nJj", Ok("YWJj")),
            ("abc", Err(0)),
            ("abcd!", Err(4)),
            ("YQ=", Err(3)),
            ("YQ=x", Err(3)),
            ("YQ==x", Err(4)),
            ("=", Err(0)),
            ("YWJj\n!", Err(5)),
        ] {
            let want = want.map(str::to_owned).map_err(|at| format!("illegal base64 data at input byte {at}"));
            assert_eq!(normal(text), want, "{text:?}");
        }
    }
}
