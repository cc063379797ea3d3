//! Durations on the command line.

use std::{fmt, str::FromStr, time::Duration};

use jiff::SignedDuration;

/// The longest duration that is accepted.
const MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Reads `90s`, `5m`, `1h30m`, `500ms` and what else [`jiff::SignedDuration`] reads; a bare number is seconds.
///
/// # Errors
/// If the text is not a duration, or is negative or longer than 100 years.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bare = text.parse().ok().map(Duration::from_secs);
    let parsed = || Duration::try_from(text.parse::<SignedDuration>().ok()?).ok();
    let duration = bare.or_else(parsed).filter(|duration| *duration <= MAX);
    duration.ok_or_else(|| format!("{text:?} is not a duration (write it like 90s, 5m or 1h30m)"))
}

/// A duration on the command line. It prints as in the flags' documentation: `5ms`, `60s`, `2m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period(pub Duration);

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        duration(text).map(Self)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_secs(), self.0.subsec_millis()) {
            (seconds, 0) if seconds >= 120 && seconds.is_multiple_of(60) => write!(f, "{}m", seconds / 60),
            (seconds, 0) => write!(f, "{seconds}s"),
            _ => write!(f, "{}ms", self.0.as_millis()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        for (text, want) in [("90s", 90), ("5m", 300), ("1h30m", 5_400), ("7", 7), ("0", 0), ("2000ms", 2)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(want)), "{text}");
        }
        for text in ["", "m", "-5s", "5d", "1h7", "99999999999999999999s", "9999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(duration("5d").unwrap_err(), "\"5d\" is not a duration (write it like 90s, 5m or 1h30m)");
    }
}
