//! The five fields of a schedule.

use jiff::{SignedDuration, Timestamp, Zoned, civil::Date, tz::TimeZone};

/// Years in which a time is looked for. The 29th of February is at most eight years away, but Kubernetes looks no
/// further than five either.
const YEARS: i16 = 5;

/// One field: its bounds and the names of its values.
struct Bounds {
    least: u32,
    most: u32,
    /// The end of a range without one.
    last: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const MINUTE: Bounds = Bounds { least: 0, most: 59, last: 59, names: &[] };
const HOUR: Bounds = Bounds { least: 0, most: 23, last: 23, names: &[] };
const DAY: Bounds = Bounds { least: 1, most: 31, last: 31, names: &[] };
const MONTH: Bounds = Bounds { least: 1, most: 12, last: 12, names: &MONTHS };
const WEEKDAY: Bounds = Bounds { least: 0, most: 6, last: 6, names: &WEEKDAYS };
/// As crontab(5) has it: 7 is Sunday, too.
const WEEKDAY_TO_SEVEN: Bounds = Bounds { most: 7, ..WEEKDAY };

/// Set of the values of a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Values {
    /// One bit for each value.
    bits: u64,
    /// True if the field is `*` or `?`, or contains them without a step.
    star: bool,
}

impl Values {
    fn contain(self, value: i8) -> bool {
        u32::try_from(value).ok().and_then(|value| self.bits.checked_shr(value)).is_some_and(|bits| bits & 1 == 1)
    }

    /// The next greater value.
    fn above(self, value: i8) -> Option<i8> {
        (value + 1..64).find(|next| self.contain(*next))
    }

    /// The next smaller value.
    fn below(self, value: i8) -> Option<i8> {
        (0..value).rev().find(|next| self.contain(*next))
    }
}

/// Minutes, hours, days of the month, months and days of the week of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    minutes: Values,
    hours: Values,
    days: Values,
    months: Values,
    weekdays: Values,
}

impl Fields {
    /// Parses five fields; messages are those of the cron library of a kube-apiserver.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::parse_with(text, &WEEKDAY)
    }

    /// The same; Sunday is 0 and 7.
    pub(crate) fn parse_to_seven(text: &str) -> Result<Self, String> {
        let mut fields = Self::parse_with(text, &WEEKDAY_TO_SEVEN)?;
        let days = &mut fields.weekdays.bits;
        *days = (*days | (*days >> 7) & 1) & 0x7f;
        Ok(fields)
    }

    fn parse_with(text: &str, weekday: &Bounds) -> Result<Self, String> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        Ok(Self {
            minutes: field(minutes, &MINUTE)?,
            hours: field(hours, &HOUR)?,
            days: field(days, &DAY)?,
            months: field(months, &MONTH)?,
            weekdays: field(weekdays, weekday)?,
        })
    }

    /// Returns true if no minute matches, without a search of each hour of years.
    fn is_never(&self) -> bool {
        [self.minutes, self.hours, self.months].iter().any(|values| values.bits == 0)
    }

    /// Returns the first matching minute after a time.
    pub(crate) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.is_never() {
            return None;
        }
        let minute = after.as_second().div_euclid(60).checked_add(1)?;
        let mut at = Timestamp::from_second(minute.checked_mul(60)?).ok()?.to_zoned(zone.clone());
        let last_year = at.year().checked_add(YEARS)?;
        while at.year() <= last_year {
            at = if !self.months.contain(at.month()) {
                start_of(at.date().last_of_month().tomorrow().ok()?, zone)?
            } else if !self.day_matches(at.date()) {
                start_of(at.date().tomorrow().ok()?, zone)?
            } else if !self.hours.contain(at.hour()) {
                moved(&at, 60 - i64::from(at.minute()))?
            } else if !self.minutes.contain(at.minute()) {
                let next = self.minutes.above(at.minute()).unwrap_or(60);
                moved(&at, i64::from(next - at.minute()))?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }

    /// Returns the last matching minute after `from` and not after `until`.
    pub(crate) fn last(&self, from: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if self.is_never() {
            return None;
        }
        let minute = until.as_second().div_euclid(60);
        let mut at = Timestamp::from_second(minute.checked_mul(60)?).ok()?.to_zoned(zone.clone());
        let first_year = at.year().checked_sub(YEARS)?;
        while at.timestamp() > from && at.year() >= first_year {
            at = if !self.months.contain(at.month()) {
                moved(&start_of(at.date().first_of_month(), zone)?, -1)?
            } else if !self.day_matches(at.date()) {
                moved(&start_of(at.date(), zone)?, -1)?
            } else if !self.hours.contain(at.hour()) {
                moved(&at, -1 - i64::from(at.minute()))?
            } else if !self.minutes.contain(at.minute()) {
                let before = self.minutes.below(at.minute()).unwrap_or(-1);
                moved(&at, i64::from(before - at.minute()))?
            } else {
                return Some(at.timestamp());
            };
        }
        None
    }

    /// Returns true for a day that both fields contain, or, if neither is a star, one of them.
    fn day_matches(&self, date: Date) -> bool {
        let day = self.days.contain(date.day());
        let weekday = self.weekdays.contain(date.weekday().to_sunday_zero_offset());
        if self.days.star || self.weekdays.star { day && weekday } else { day || weekday }
    }
}

/// The first moment of a day, which is not midnight where the clocks skip it.
fn start_of(date: Date, zone: &TimeZone) -> Option<Zoned> {
    date.to_zoned(zone.clone()).ok()?.start_of_day().ok()
}

/// The time this many minutes of elapsed time later.
fn moved(at: &Zoned, minutes: i64) -> Option<Zoned> {
    at.checked_add(SignedDuration::from_mins(minutes)).ok()
}

/// Parses a list of ranges.
fn field(text: &str, bounds: &Bounds) -> Result<Values, String> {
    let mut all = Values::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let values = range(part, bounds)?;
        all = Values { bits: all.bits | values.bits, star: all.star || values.star };
    }
    Ok(all)
}

/// Parses `*`, `3` or `1-5`, any of them with a step: `3/2` is every second value from 3 on.
fn range(text: &str, bounds: &Bounds) -> Result<Values, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let star = matches!(ends[0], "*" | "?");
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.least, bounds.last),
        [one] => {
            let one = value(one, bounds)?;
            (one, one)
        }
        [low, high] => (value(low, bounds)?, value(high, bounds)?),
        _ => {
            value(ends[0], bounds)?;
            return Err(format!("too many hyphens: {text}"));
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.last;
            }
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.least {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.least));
    }
    if end > bounds.most {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.most));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let values = (start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    Ok(Values { bits: values.fold(0, |bits, value| bits | (1_u64 << value)), star: star && step == 1 })
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().zip(bounds.least..).find(|(known, _)| **known == name) {
        Some((_, number)) => Ok(number),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let parsed = text.strip_prefix('+').unwrap_or(text).parse::<i64>();
    match parsed {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => u32::try_from(number).map_err(|_| format!("end of range ({number}) above maximum: {text}")),
        Err(_) => Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")),
    }
}
