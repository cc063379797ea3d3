//! Times of five fields of which each local time occurs exactly once, whatever the clocks do.
//!
//! Local times are computed as if they were UTC, which skips and repeats nothing, and then mapped to moments.

use jiff::{
    SignedDuration, Timestamp,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

use crate::fields::Fields;

/// More than clocks are ever put back at once.
const REPEATED_MAX: SignedDuration = SignedDuration::from_hours(3);
/// More than clocks are ever put forward at once: islands have moved to the other side of the date line.
const SKIPPED_MAX: SignedDuration = SignedDuration::from_hours(25);

/// Returns the first matching moment after this one.
pub(crate) fn next(fields: &Fields, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let mut local = local_of(after, zone)?;
    loop {
        local = fields.next(local, &TimeZone::UTC)?;
        let at = moment_of(local, zone)?;
        if at > after {
            return Some(at);
        }
    }
}

/// Returns the last matching moment after `from` and not after `until`.
pub(crate) fn last(fields: &Fields, from: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let earliest = local_of(from, zone)?.checked_sub(SKIPPED_MAX).ok()?;
    let mut local = local_of(until, zone)?.checked_add(REPEATED_MAX).ok()?;
    loop {
        local = fields.last(earliest, local, &TimeZone::UTC)?;
        let at = moment_of(local, zone)?;
        if at <= until {
            return (at > from).then_some(at);
        }
        local = local.checked_sub(SignedDuration::from_mins(1)).ok()?;
    }
}

/// The local time of a moment, as if it were UTC.
fn local_of(time: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    Offset::UTC.to_timestamp(zone.to_datetime(time)).ok()
}

/// The moment of a local time.
fn moment_of(local: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(Offset::UTC.to_datetime(local));
    let is_skipped = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
    let earlier = ambiguous.earlier().ok()?;
    if is_skipped { zone.following(earlier).next().map(|change| change.timestamp()) } else { Some(earlier) }
}
