//! Durations as people write them on a command line.

use std::time::Duration;

/// Longest duration that is taken.
const MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Reads `90s`, `5m`, `1h30m`, `500ms`; a bare number is seconds.
///
/// # Errors
/// If the text is no duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration (write it like 90s, 5m or 1h30m)");
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let part = match &rest[..unit] {
            "ms" => Some(Duration::from_millis(number)),
            "s" => Some(Duration::from_secs(number)),
            "" if total.is_zero() => Some(Duration::from_secs(number)),
            "m" => number.checked_mul(60).map(Duration::from_secs),
            "h" => number.checked_mul(3_600).map(Duration::from_secs),
            _ => None,
        };
        total = part.and_then(|part| total.checked_add(part)).filter(|total| *total <= MAX).ok_or_else(bad)?;
        rest = &rest[unit..];
    }
    if text.is_empty() { Err(bad()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, want) in [("90s", 90), ("5m", 300), ("1h30m", 5_400), ("7", 7), ("0", 0), ("2000ms", 2)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(want)), "{text}");
        }
        for text in ["", "5 m", "m", "-5s", "5d", "1h7", "99999999999999999999s", "9999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(duration("5d").unwrap_err(), "\"5d\" is not a duration (write it like 90s, 5m or 1h30m)");
    }
}
