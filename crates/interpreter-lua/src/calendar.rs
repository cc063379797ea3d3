//! `os.time` and `os.date`: the host's clock in UTC, with English names.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
];

/// A UTC time with a resolution of one second.
pub(crate) struct UtcTime(DateTime);

impl UtcTime {
    /// From seconds since 1970. A value outside the calendar becomes 1970.
    pub(crate) fn of(seconds: i64) -> Self {
        let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH);
        Self(moment.to_zoned(TimeZone::UTC).datetime())
    }

    fn weekday(&self) -> usize {
        usize::try_from(self.0.weekday().to_sunday_zero_offset()).unwrap_or(0)
    }

    /// The fields of `*t` except `isdst`.
    pub(crate) fn parts(&self) -> [(&'static str, i64); 8] {
        let t = &self.0;
        [
            ("year", t.year().into()),
            ("month", t.month().into()),
            ("day", t.day().into()),
            ("hour", t.hour().into()),
            ("min", t.minute().into()),
            ("sec", t.second().into()),
            ("wday", i64::try_from(self.weekday()).unwrap_or(0) + 1),
            ("yday", t.day_of_year().into()),
        ]
    }

    /// Formats the time as `strftime` does. The conversions are those of specification/propagation.md 20.4; any other
    /// letter is printed as it is.
    pub(crate) fn print(&self, format: &str) -> String {
        let mut out = String::new();
        let mut letters = format.chars();
        while let Some(c) = letters.next() {
            match c {
                '%' => match letters.next() {
                    Some(letter) => self.field(letter, &mut out),
                    None => out.push('%'),
                },
                other => out.push(other),
            }
        }
        out
    }

    fn field(&self, letter: char, out: &mut String) {
        let t = &self.0;
        let (day, month) = (DAYS[self.weekday()], MONTHS[usize::try_from(t.month() - 1).unwrap_or(0).min(11)]);
        let twelve = match t.hour() % 12 {
            0 => 12,
            hour => hour,
        };
        let text = match letter {
            'a' => day[..3].to_owned(),
            'A' => day.to_owned(),
            'b' => month[..3].to_owned(),
            'B' => month.to_owned(),
            'c' => self.print("%a %b %d %X %Y"),
            'd' => format!("{:02}", t.day()),
            'F' => self.print("%Y-%m-%d"),
            'H' => format!("{:02}", t.hour()),
            'I' => format!("{twelve:02}"),
            'm' => format!("{:02}", t.month()),
            'M' => format!("{:02}", t.minute()),
            'p' => (if t.hour() < 12 { "AM" } else { "PM" }).to_owned(),
            'P' => (if t.hour() < 12 { "am" } else { "pm" }).to_owned(),
            'S' => format!("{:02}", t.second()),
            'w' => self.weekday().to_string(),
            'x' => self.print("%m/%d/%y"),
            'X' => self.print("%H:%M:%S"),
            'y' => format!("{:02}", t.year().rem_euclid(100)),
            'Y' => t.year().to_string(),
            'z' => "+0000".to_owned(),
            'Z' => "UTC".to_owned(),
            '%' => "%".to_owned(),
            other => format!("%{other}"),
        };
        out.push_str(&text);
    }
}

/// Seconds since 1970 of a date and a time. Fields may exceed their ranges as in C: month 13 is the next January.
pub(crate) fn seconds((year, month, day): (i64, i64, i64), (hour, min, sec): (i64, i64, i64)) -> i64 {
    let months = year.saturating_mul(12).saturating_add(month.saturating_sub(1)).clamp(-9_999 * 12, 9_999 * 12);
    let year = i16::try_from(months.div_euclid(12)).unwrap_or(1970);
    let month = i8::try_from(months.rem_euclid(12) + 1).unwrap_or(1);
    let Ok(first) = DateTime::new(year, month, 1, 0, 0, 0, 0) else { return 0 };
    let whole = |n: i64, unit: i64| SignedDuration::from_secs(n.saturating_mul(unit));
    let rest = [whole(day.saturating_sub(1), 86_400), whole(hour, 3_600), whole(min, 60), whole(sec, 1)];
    let rest = rest.into_iter().fold(SignedDuration::ZERO, SignedDuration::saturating_add);
    match first.saturating_add(rest).to_zoned(TimeZone::UTC) {
        Ok(moment) => moment.timestamp().as_second(),
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_print_as_in_c() {
        let moment = UtcTime::of(1_767_225_845); // 2026-01-01T00:04:05Z, a Thursday
        for (format, want) in [
            ("%Y-%m-%dT%H:%M:%SZ", "2026-01-01T00:04:05Z"),
            ("%F", "2026-01-01"),
            ("%a %A %b %B", "Thu Thursday Jan January"),
            ("%c", "Thu Jan 01 00:04:05 2026"),
            ("%x %X", "01/01/26 00:04:05"),
            ("%I %p %P", "12 AM am"),
            ("%w %y %z %Z", "4 26 +0000 UTC"),
            ("%% %Q %", "% %Q %"),
        ] {
            assert_eq!(moment.print(format), want, "{format}");
        }
    }

    #[test]
    fn dates_round_trip() {
        for (date, time, want) in [
            ((1970, 1, 1), (0, 0, 0), 0),
            ((2026, 1, 1), (0, 4, 5), 1_767_225_845),
            ((2025, 13, 1), (0, 4, 5), 1_767_225_845),
            ((2025, 12, 31), (24, 4, 5), 1_767_225_845),
            ((i64::MAX, 1, 1), (0, 0, 0), 253_370_764_800),
            ((1970, i64::MIN, 1), (0, 0, 0), seconds((-9_999, 1, 1), (0, 0, 0))),
            ((1970, 1, i64::MIN), (i64::MIN, i64::MAX, i64::MIN), seconds((-9_999, 1, 1), (0, 0, 0))),
        ] {
            assert_eq!(seconds(date, time), want, "{date:?} {time:?}");
        }
    }
}
