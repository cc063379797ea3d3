//! Schedule and time zone of a CronJob.

use ironclad_cron::Schedule;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::{
    kinds::shared::{
        fields::{at, text},
        formats::wrong,
    },
    status::Cause,
};

/// The schedule of a CronJob. One that names a zone itself stays where it was accepted before.
pub(super) fn schedule(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.schedule";
    let schedule = text(object, "/spec/schedule");
    if schedule.is_empty() {
        return out.push(Cause::required(FIELD, ""));
    }
    if let Err(why) = Schedule::parse(schedule, TimeZone::UTC) {
        wrong(FIELD, schedule, [why.to_string()], out);
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
    if ironclad_cron::time_zone(zone).is_none() {
        wrong(FIELD, zone, [format!("unknown time zone {zone}")], out);
    }
}
