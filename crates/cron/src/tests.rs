use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(text: &str, zone: &str) -> Schedule {
    Schedule::parse(text, time_zone(zone).unwrap()).unwrap()
}

#[test]
fn grammar_is_that_of_a_kube_apiserver() {
    for (text, want) in [
        ("* * * * *", ""),
        ("0/1 * * * *", ""),
        ("5/15 * * * *", ""),
        ("+5 * * * *", ""),
        ("*/5,7-9/2 ? 1 JAN mon-FRI", ""),
        (",1,, * * * *", ""),
        ("@hourly", ""),
        ("@every 1h30m", ""),
        ("@every 0", ""),
        ("TZ=UTC 0 0 * * *", ""),
        ("CRON_TZ=Europe/Berlin @daily", ""),
        ("TZ= 0 0 * * *", ""),
        ("", "expected exactly 5 fields, found 0: []"),
        ("TZ=UTC", "expected exactly 5 fields, found 0: []"),
        ("0 0 * *", "expected exactly 5 fields, found 4: [0 0 * *]"),
        ("0 0 9 * * *", "expected exactly 5 fields, found 6: [0 0 9 * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
        ("0 0 L * *", "failed to parse int from L: strconv.Atoi: parsing \"L\": invalid syntax"),
        ("0 0 15W * *", "failed to parse int from 15W: strconv.Atoi: parsing \"15W\": invalid syntax"),
        ("0 0 * * 1#2", "failed to parse int from 1#2: strconv.Atoi: parsing \"1#2\": invalid syntax"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("@often", "unrecognized descriptor: @often"),
        ("@Daily", "unrecognized descriptor: @Daily"),
        ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
        ("TZ=Mars/X * * * * *", "provided bad location Mars/X: unknown time zone Mars/X"),
        ("TZ=europe/berlin * * * * *", "provided bad location europe/berlin: unknown time zone europe/berlin"),
    ] {
        let found = Schedule::parse(text, TimeZone::UTC).err().map(|e| e.to_string()).unwrap_or_default();
        assert_eq!(found, want, "{text}");
    }
}

#[test]
fn the_seventh_day_is_sunday_for_those_who_want_it() {
    let days = |parsed: Result<Schedule, InvalidSchedule>| {
        let schedule = parsed.unwrap();
        // The 4th of January 2026 is a Sunday.
        let day = |day: i64| Timestamp::from_second(1_767_484_800 + day * 86_400).unwrap();
        (0..7).filter(|number| schedule.has(day(*number))).collect::<Vec<i64>>()
    };
    for (field, want) in [
        ("7", &[0][..]),
        ("0", &[0]),
        ("5-7", &[0, 5, 6]),
        ("1-5", &[1, 2, 3, 4, 5]),
        ("sat,7", &[0, 6]),
        ("*", &[0, 1, 2, 3, 4, 5, 6]),
        ("1/2", &[1, 3, 5]),
        ("*/2", &[0, 2, 4, 6]),
    ] {
        let text = format!("0 0 * * {field}");
        assert_eq!(days(Schedule::parse_to_seven(&text, TimeZone::UTC)), want, "{field}");
        if let Ok(plain) = Schedule::parse(&text, TimeZone::UTC) {
            assert_eq!(days(Ok(plain)), want, "{field} means the same where 7 is not known");
        }
    }
    assert!(Schedule::parse_to_seven("0 0 * * 8", TimeZone::UTC).is_err());
}

#[test]
fn zones_have_exactly_their_names() {
    for (zone, known) in [
        ("Europe/Berlin", true),
        ("UTC", true),
        ("Etc/UTC", true),
        ("europe/berlin", false),
        ("Mars", false),
        ("", false),
    ] {
        assert_eq!(time_zone(zone).is_some(), known, "{zone}");
    }
}

#[test]
fn times_before_and_after() {
    for (text, zone, now, last, next) in [
        ("*/5 * * * *", "UTC", "2024-01-01T10:05:00Z", "2024-01-01T10:05:00Z", "2024-01-01T10:10:00Z"),
        ("*/5 * * * *", "UTC", "2024-01-01T10:04:59Z", "2024-01-01T10:00:00Z", "2024-01-01T10:05:00Z"),
        ("5/15 * * * *", "UTC", "2024-01-01T10:04:59Z", "2024-01-01T09:50:00Z", "2024-01-01T10:05:00Z"),
        ("0/1 * * * *", "UTC", "2024-01-01T10:04:59Z", "2024-01-01T10:04:00Z", "2024-01-01T10:05:00Z"),
        ("0 3 * * 1", "UTC", "2024-01-03T00:00:00Z", "2024-01-01T03:00:00Z", "2024-01-08T03:00:00Z"),
        ("0 3 * * sun", "UTC", "2024-01-03T00:00:00Z", "2023-12-31T03:00:00Z", "2024-01-07T03:00:00Z"),
        // Both day fields are given: either matches.
        ("0 0 10 * 5", "UTC", "2024-01-06T00:00:00Z", "2024-01-05T00:00:00Z", "2024-01-10T00:00:00Z"),
        // A step makes a star a list of days.
        ("0 0 */10 * 5", "UTC", "2024-01-06T00:00:00Z", "2024-01-05T00:00:00Z", "2024-01-11T00:00:00Z"),
        ("0 0 29 2 *", "UTC", "2024-03-01T00:00:00Z", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("@hourly", "UTC", "2024-01-01T10:30:00Z", "2024-01-01T10:00:00Z", "2024-01-01T11:00:00Z"),
        ("@monthly", "UTC", "2024-01-31T10:30:00Z", "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z"),
        ("@weekly", "UTC", "2024-01-03T10:30:00Z", "2023-12-31T00:00:00Z", "2024-01-07T00:00:00Z"),
        ("0 9 * * *", "Europe/Berlin", "2024-07-01T07:00:00Z", "2024-07-01T07:00:00Z", "2024-07-02T07:00:00Z"),
        ("TZ=Asia/Kolkata 0 9 * * *", "UTC", "2024-07-01T03:30:00Z", "2024-07-01T03:30:00Z", "2024-07-02T03:30:00Z"),
        // 02:30 does not exist on the 31st of March.
        ("30 2 * * *", "Europe/Berlin", "2024-03-31T12:00:00Z", "2024-03-30T01:30:00Z", "2024-04-01T00:30:00Z"),
        // 02:30 exists twice on the 27th of October.
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T00:30:00Z", "2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z"),
        ("30 2 * * *", "Europe/Berlin", "2024-10-27T02:00:00Z", "2024-10-27T01:30:00Z", "2024-10-28T01:30:00Z"),
        // Midnight does not exist in Beirut on the 31st of March.
        ("30 1 * * *", "Asia/Beirut", "2024-03-30T22:00:00Z", "2024-03-29T23:30:00Z", "2024-03-30T22:30:00Z"),
        // Half an hour in Lord Howe.
        ("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T20:00:00Z", "2024-10-04T15:45:00Z", "2024-10-06T15:15:00Z"),
    ] {
        let schedule = schedule(text, zone);
        let from = at("2020-01-01T00:00:00Z");
        assert_eq!(
            (schedule.last(from, at(now)), schedule.next(at(now))),
            (Some(at(last)), Some(at(next))),
            "{text} in {zone} at {now}"
        );
    }
}

#[test]
fn schedule_without_times_has_none() {
    let now = at("2024-01-01T00:00:00Z");
    for text in ["0 0 30 2 *", ", * * * *", "0 0 31 4,6,9,11 *"] {
        let schedule = schedule(text, "UTC");
        assert_eq!((schedule.next(now), schedule.last(Timestamp::UNIX_EPOCH, now)), (None, None), "{text}");
    }
    let end = schedule("* * * * *", "UTC");
    assert_eq!((end.next(Timestamp::MAX), schedule("@every 1h", "UTC").next(Timestamp::MAX)), (None, None));
    assert_eq!(end.last(Timestamp::MIN, Timestamp::MIN), None);
}

#[test]
fn periods_are_counted_from_the_time_before() {
    let from = at("2024-01-01T00:00:10.7Z");
    for (text, until, last, next) in [
        ("@every 90s", "2024-01-01T00:01:39Z", None, "2024-01-01T00:01:40Z"),
        ("@every 90s", "2024-01-01T00:01:40Z", Some("2024-01-01T00:01:40Z"), "2024-01-01T00:01:40Z"),
        ("@every 90s", "2024-01-01T00:04:39Z", Some("2024-01-01T00:03:10Z"), "2024-01-01T00:01:40Z"),
        ("@every 1500ms", "2024-01-01T00:00:12Z", Some("2024-01-01T00:00:12Z"), "2024-01-01T00:00:11Z"),
        ("@every -1h", "2024-01-01T00:00:12Z", Some("2024-01-01T00:00:12Z"), "2024-01-01T00:00:11Z"),
        ("@every 1h", "2023-01-01T00:00:00Z", None, "2024-01-01T01:00:10Z"),
    ] {
        let schedule = schedule(text, "UTC");
        assert_eq!(
            (schedule.last(from, at(until)), schedule.next(from)),
            (last.map(at), Some(at(next))),
            "{text} {until}"
        );
    }
}

fn field(values: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = String> {
    let last = *values.end();
    prop_oneof![
        Just("*".to_owned()),
        values.clone().prop_map(|value| value.to_string()),
        (values.clone(), 1..7_u32).prop_map(|(value, step)| format!("{value}/{step}")),
        values.prop_map(move |value| format!("{value}-{last}")),
    ]
}

#[test]
fn each_local_time_occurs_once() {
    for (text, zone, after, want) in [
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"][..]),
        ("*/20 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", &["2026-03-29T01:00:00Z", "2026-03-30T01:00:00Z"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        ("30 * * * *", "Europe/Berlin", "2026-10-24T23:45:00Z", &["2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"]),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T00:00:00Z",
            &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
        ),
        ("@every 1h", "Europe/Berlin", "2026-03-29T00:30:00Z", &["2026-03-29T01:30:00Z"]),
    ] {
        let schedule = schedule(text, zone).once();
        let mut time = at(after);
        for want in want {
            time = schedule.next(time).unwrap();
            assert_eq!(time, at(want), "{text} in {zone} after {after}");
            assert!(schedule.has(time), "{time}");
        }
    }
    assert!(!schedule("0 3 * * *", "UTC").has(at("2026-03-29T01:00:00Z")));
}

proptest! {
    /// Each minute of the local calendar is mapped to its moment by itself; those of the schedule, without repetitions,
    /// are the times.
    #[test]
    fn times_that_occur_once_are_those_of_the_local_calendar(
        fields in (field(0..=59), field(0..=23)),
        (zone, day) in prop::sample::select(vec![
            ("Europe/Berlin", "2026-03-28"), ("Europe/Berlin", "2026-10-24"), ("Australia/Lord_Howe", "2026-04-04"),
            ("Australia/Lord_Howe", "2026-10-03"), ("America/St_Johns", "2026-03-07"), ("Asia/Beirut", "2026-03-28"),
            ("Antarctica/Troll", "2026-10-24"), ("UTC", "2026-01-01"),
        ]),
    ) {
        let (minute, hour) = fields;
        let text = format!("{minute} {hour} * * *");
        let (schedule, plain) = (schedule(&text, zone).once(), schedule(&text, "UTC"));
        let tz = time_zone(zone).unwrap();
        let start = at(&format!("{day}T00:00:00Z"));
        let mut want = std::collections::BTreeSet::new();
        for i in 0..3 * 1440 {
            let local = start + SignedDuration::from_mins(i);
            if plain.has(local) {
                let civil = local.to_zoned(TimeZone::UTC).datetime();
                let mut moments = tz.to_ambiguous_timestamp(civil);
                if matches!(moments.offset(), jiff::tz::AmbiguousOffset::Gap { .. }) {
                    // The first minute that exists.
                    let exists = (1..1500).map(|i| tz.to_ambiguous_timestamp(civil + SignedDuration::from_mins(i)));
                    moments = exists.into_iter().find(|next| !next.is_ambiguous()).unwrap();
                }
                want.insert(moments.earlier().unwrap());
            }
        }
        let (from, until) = (start + SignedDuration::from_hours(24), start + SignedDuration::from_hours(50));
        let want: Vec<_> = want.into_iter().filter(|time| *time > from && *time <= until).collect();
        let mut got = Vec::new();
        let mut time = from;
        while let Some(next) = schedule.next(time).filter(|next| *next <= until) {
            got.push(next);
            time = next;
        }
        prop_assert_eq!(&got, &want, "{} in {}", &text, zone);
        let mut back = Vec::new();
        let mut time = until;
        while let Some(last) = schedule.last(from, time) {
            back.push(last);
            time = last - SignedDuration::from_secs(1);
        }
        back.reverse();
        prop_assert_eq!(back, want, "{} in {}", &text, zone);
    }

    #[test]
    fn last_finds_what_next_found(
        fields in (field(0..=59), field(0..=23), field(1..=28), field(1..=12), field(0..=6)),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Beirut", "Australia/Lord_Howe"]),
        second in 1_577_836_800_i64..1_893_456_000,
    ) {
        let (minute, hour, day, month, weekday) = fields;
        let text = format!("{minute} {hour} {day} {month} {weekday}");
        let schedule = schedule(&text, zone);
        let after = Timestamp::from_second(second).unwrap();
        if let Some(next) = schedule.next(after) {
            let before = next - SignedDuration::from_secs(1);
            prop_assert!(next > after);
            prop_assert_eq!(schedule.last(after, next), Some(next), "{} in {} after {}", &text, zone, after);
            prop_assert_eq!(schedule.last(after, before), None, "{} in {} after {}", &text, zone, after);
        }
    }

    #[test]
    fn no_text_panics(text in "[@*?0-9/,a-zTZ= -]{0,24}") {
        if let Ok(schedule) = Schedule::parse(&text, TimeZone::UTC) {
            let _ = schedule.next(at("2024-01-01T00:00:00Z"));
        }
    }
}
