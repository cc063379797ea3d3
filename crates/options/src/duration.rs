//! Durations in messages.

use std::time::Duration;

/// A duration as Go prints it, for messages that people know: `1m30s`, `500ms`, `0s`.
#[must_use]
pub fn in_words(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 && millis > 0 {
        return format!("{millis}ms");
    }
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let fraction = if millis > 0 { format!(".{millis:03}").trim_end_matches('0').to_owned() } else { String::new() };
    match (hours, minutes) {
        (0, 0) => format!("{seconds}{fraction}s"),
        (0, minutes) => format!("{minutes}m{seconds}{fraction}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        for (millis, want) in [(0, "0s"), (500, "500ms"), (1_500, "1.5s"), (90_000, "1m30s"), (3_600_000, "1h0m0s")] {
            assert_eq!(in_words(Duration::from_millis(millis)), want);
        }
    }
}
