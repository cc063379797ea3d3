//! Times on the wire: RFC 3339 in UTC.

use jiff::{Timestamp, tz::TimeZone};

/// `2006-01-02T15:04:05Z`: whole seconds.
///
/// # Errors
/// If `text` is no RFC 3339 time.
pub fn time(text: &str) -> Result<String, String> {
    print(text, "%Y-%m-%dT%H:%M:%SZ", "2006-01-02T15:04:05Z07:00")
}

/// `2006-01-02T15:04:05.000000Z`: microseconds.
///
/// # Errors
/// If `text` is no RFC 3339 time.
pub fn micro_time(text: &str) -> Result<String, String> {
    print(text, "%Y-%m-%dT%H:%M:%S.%6fZ", "2006-01-02T15:04:05.000000Z07:00")
}

fn print(text: &str, form: &str, layout: &str) -> Result<String, String> {
    let refused = || format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\"");
    if !has_the_form(text.as_bytes()) {
        return Err(refused());
    }
    let time: Timestamp = text.parse().map_err(|_| refused())?;
    Ok(time.to_zoned(TimeZone::UTC).strftime(form).to_string())
}

/// Returns `true` for exactly RFC 3339: the time library accepts more.
fn has_the_form(text: &[u8]) -> bool {
    let digits =
        |range: std::ops::Range<usize>| text.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let is = |at: usize, byte: u8| text.get(at) == Some(&byte);
    let date = digits(0..4) && is(4, b'-') && digits(5..7) && is(7, b'-') && digits(8..10) && is(10, b'T');
    let clock = digits(11..13) && is(13, b':') && digits(14..16) && is(16, b':') && digits(17..19);
    let mut zone = 19;
    if is(zone, b'.') {
        zone += 1;
        let from = zone;
        while text.get(zone).is_some_and(u8::is_ascii_digit) {
            zone += 1;
        }
        if zone == from {
            return false;
        }
    }
    let rest = text.len().saturating_sub(zone);
    let utc = rest == 1 && is(zone, b'Z');
    let offset = rest == 6
        && (is(zone, b'+') || is(zone, b'-'))
        && digits(zone + 1..zone + 3)
        && is(zone + 3, b':')
        && digits(zone + 4..zone + 6);
    date && clock && (utc || offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for (text, want) in [
            ("2024-01-02T03:04:05Z", Some("2024-01-02T03:04:05Z")),
            ("2024-01-02T03:04:05.999Z", Some("2024-01-02T03:04:05Z")),
            ("2024-01-02T03:04:05+02:00", Some("2024-01-02T01:04:05Z")),
            ("2024-01-02T03:04:05", None),
            ("2024-01-02", None),
            ("2024-13-02T03:04:05Z", None),
            ("2024-01-02T03:04:05.Z", None),
            ("2024-01-02T03:04:05Z[UTC]", None),
            ("nope", None),
            ("", None),
        ] {
            assert_eq!(time(text).ok().as_deref(), want, "{text}");
        }
        assert_eq!(micro_time("2024-01-02T03:04:05.25Z").as_deref(), Ok("2024-01-02T03:04:05.250000Z"));
        assert_eq!(
            time("nope"),
            Err(r#"parsing time "nope" as "2006-01-02T15:04:05Z07:00": cannot parse "nope" as "2006""#.to_owned())
        );
    }
}
