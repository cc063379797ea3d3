//! Durations as Go writes them.

use jiff::SignedDuration;

const NANOSECOND: i128 = 1;
const UNITS: [(&str, i128); 8] = [
    ("ns", NANOSECOND),
    ("us", 1_000 * NANOSECOND),
    ("µs", 1_000 * NANOSECOND),
    ("μs", 1_000 * NANOSECOND),
    ("ms", 1_000_000 * NANOSECOND),
    ("s", 1_000_000_000 * NANOSECOND),
    ("m", 60_000_000_000 * NANOSECOND),
    ("h", 3_600_000_000_000 * NANOSECOND),
];

/// Digits after the point that count; further ones are below a nanosecond for every unit.
const FRACTION_DIGITS: usize = 15;

/// Parses `1h30m` or `-1.5s`; zero needs no unit. `None` for anything else, and beyond 292 years.
pub(crate) fn parse(text: &str) -> Option<SignedDuration> {
    let (negative, text) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if text == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut rest = text;
    let mut all: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after_unit = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(after_unit);
        let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        all = all.checked_add(amount(number, *nanoseconds)?)?;
        rest = after;
    }
    let nanoseconds = i64::try_from(all).ok().filter(|_| !text.is_empty())?;
    Some(SignedDuration::from_nanos(if negative { -nanoseconds } else { nanoseconds }))
}

/// Nanoseconds of a number of units.
fn amount(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    let part = digits(fraction)?.checked_mul(unit)? / scale;
    digits(whole)?.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, want) in [
            ("0", Some(0)),
            ("1ns", Some(1)),
            ("1.5s", Some(1_500_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            ("-1h", Some(-3_600_000_000_000)),
            ("+1h30m", Some(5_400_000_000_000)),
            ("2us3µs4μs5ms", Some(5_009_000)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("9223372036854775808ns", None),
            ("99999999999999999999999999999999999999999h", None),
            ("", None),
            ("-", None),
            ("1", None),
            ("h", None),
            ("1d", None),
            ("1.2.3s", None),
            (".s", None),
            ("1 h", None),
            ("0.00000000000000000000000001h", Some(0)),
        ] {
            assert_eq!(parse(text), want.map(SignedDuration::from_nanos), "{text}");
        }
    }
}
