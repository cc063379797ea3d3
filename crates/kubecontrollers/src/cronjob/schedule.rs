//! Times of a cron schedule.
//!
//! The cron library runs a time that daylight saving skips at the first moment after the gap, and a repeated one once.
//! Kubernetes' own skips the former.

use std::str::FromStr as _;

use croner::Cron;
use jiff::{Timestamp, Zoned, tz::TimeZone};

pub(crate) struct Schedule {
    cron: Cron,
    zone: TimeZone,
}

impl Schedule {
    /// Parses a schedule of five fields or a macro like `@daily`; `None` if it is invalid or the zone is unknown.
    pub(crate) fn parse(text: &str, zone: Option<&str>) -> Option<Self> {
        let zone = match zone {
            None | Some("" | "UTC" | "Etc/UTC") => TimeZone::UTC,
            Some(name) => TimeZone::get(name).ok()?,
        };
        Some(Self { cron: Cron::from_str(text).ok()?, zone })
    }

    /// Returns the last scheduled time not after this one.
    pub(crate) fn last(&self, until: Timestamp) -> Option<Timestamp> {
        self.cron.find_previous_occurrence(&self.at(until), true).ok().map(|z: Zoned| z.timestamp())
    }

    /// Returns the first scheduled time after this one.
    pub(crate) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.cron.find_next_occurrence(&self.at(after), false).ok().map(|z: Zoned| z.timestamp())
    }

    fn at(&self, time: Timestamp) -> Zoned {
        time.to_zoned(self.zone.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let t = |text: &str| text.parse::<Timestamp>().unwrap();
        for (schedule, now, last, next) in [
            ("*/5 * * * *", "2024-01-01T10:05:00Z", "2024-01-01T10:05:00Z", "2024-01-01T10:10:00Z"),
            ("*/5 * * * *", "2024-01-01T10:04:59Z", "2024-01-01T10:00:00Z", "2024-01-01T10:05:00Z"),
            ("0 3 * * 1", "2024-01-03T00:00:00Z", "2024-01-01T03:00:00Z", "2024-01-08T03:00:00Z"),
            ("@hourly", "2024-01-01T10:30:00Z", "2024-01-01T10:00:00Z", "2024-01-01T11:00:00Z"),
        ] {
            let s = Schedule::parse(schedule, None).unwrap();
            assert_eq!((s.last(t(now)), s.next(t(now))), (Some(t(last)), Some(t(next))), "{schedule} at {now}");
        }
        assert!(Schedule::parse("bad", None).is_none() && Schedule::parse("* * * * *", Some("No/Where")).is_none());
    }
}
