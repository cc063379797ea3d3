use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CREATED: &str = "2026-01-01T10:00:30Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn object(rules: &Value, status: &Value) -> CronFederatedHPA {
    serde_json::from_value(json!({
        "metadata": {"name": "c", "namespace": "shop", "creationTimestamp": CREATED},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "rules": rules},
        "status": {"executionHistories": status},
    }))
    .unwrap()
}

fn rule(extra: &Value) -> Value {
    let mut rule = json!({"name": "r", "schedule": "* * * * *", "targetReplicas": 4});
    for (field, value) in extra.as_object().unwrap() {
        rule[field] = value.clone();
    }
    rule
}

fn planned(object: &CronFederatedHPA, now: &str) -> Plan {
    decide(&Seen { object, options: &Options::default(), now: at(now) })
}

/// Scheduled times of what is due, of what was missed, and the next time.
fn times(plan: &Plan) -> (Vec<String>, Vec<String>, Option<String>) {
    let history = &plan.status.execution_histories[0];
    let missed = history.failed_executions.iter().map(|failed| failed.schedule_time.0.to_string()).collect();
    let due = plan.due.iter().map(|due| due.scheduled.to_string()).collect();
    (due, missed, history.next_execution_time.as_ref().map(|time| time.0.to_string()))
}

#[test]
fn rules_are_executed_once_at_each_of_their_times() {
    let next = |time: &str| json!([{"ruleName": "r", "nextExecutionTime": time}]);
    let none = json!([]);
    type Row<'a> = (&'a str, Value, Value, &'a str, &'a [&'a str], &'a [&'a str], Option<&'a str>);
    let rows: &[Row<'_>] = &[
        ("a new one waits", json!({}), none.clone(), "2026-01-01T10:00:40Z", &[], &[], Some("2026-01-01T10:01:00Z")),
        (
            "its time has come",
            json!({}),
            next("2026-01-01T10:01:00Z"),
            "2026-01-01T10:01:00.2Z",
            &["2026-01-01T10:01:00Z"],
            &[],
            Some("2026-01-01T10:02:00Z"),
        ),
        (
            "no process has handled it since its creation",
            json!({"schedule": "1 10 * * *"}),
            none.clone(),
            "2026-01-01T10:02:30Z",
            &["2026-01-01T10:01:00Z"],
            &[],
            Some("2026-01-02T10:01:00Z"),
        ),
        (
            "the last of several times is executed, the others are missed",
            json!({"failedHistoryLimit": 2}),
            next("2026-01-01T10:01:00Z"),
            "2026-01-01T10:05:10Z",
            &["2026-01-01T10:05:00Z"],
            &["2026-01-01T10:04:00Z", "2026-01-01T10:03:00Z"],
            Some("2026-01-01T10:06:00Z"),
        ),
        (
            "too late by more than the deadline",
            json!({"schedule": "0 10 * * *"}),
            next("2026-01-02T10:00:00Z"),
            "2026-01-03T10:01:41Z",
            &[],
            &["2026-01-03T10:00:00Z", "2026-01-02T10:00:00Z"],
            Some("2026-01-04T10:00:00Z"),
        ),
        (
            "just within the deadline",
            json!({"schedule": "0 10 * * *"}),
            next("2026-01-03T10:00:00Z"),
            "2026-01-03T10:01:40Z",
            &["2026-01-03T10:00:00Z"],
            &[],
            Some("2026-01-04T10:00:00Z"),
        ),
        (
            "no failures are kept with a limit of 0",
            json!({"schedule": "0 10 * * *", "failedHistoryLimit": 0}),
            next("2026-01-03T10:00:00Z"),
            "2026-01-03T12:00:00Z",
            &[],
            &[],
            Some("2026-01-04T10:00:00Z"),
        ),
        (
            "a changed schedule begins now",
            json!({"schedule": "30 * * * *"}),
            next("2026-01-01T10:01:00Z"),
            "2026-01-01T10:40:00Z",
            &[],
            &[],
            Some("2026-01-01T11:30:00Z"),
        ),
        (
            "a schedule that became more frequent does not wait for the old time",
            json!({"schedule": "*/5 * * * *"}),
            next("2026-01-01T18:00:00Z"),
            "2026-01-01T10:40:00Z",
            &[],
            &[],
            Some("2026-01-01T10:45:00Z"),
        ),
        (
            "a suspended rule has no next time",
            json!({"suspend": true}),
            next("2026-01-01T10:01:00Z"),
            "2026-01-01T10:02:00Z",
            &[],
            &[],
            None,
        ),
        (
            "a rule that is no longer suspended begins now",
            json!({}),
            json!([{"ruleName": "r"}]),
            "2026-01-01T10:30:10Z",
            &[],
            &[],
            Some("2026-01-01T10:31:00Z"),
        ),
        (
            "a rule that was added begins now",
            json!({}),
            json!([{"ruleName": "other"}]),
            "2026-01-01T10:30:10Z",
            &[],
            &[],
            Some("2026-01-01T10:31:00Z"),
        ),
        (
            "periods are counted from the time before",
            json!({"schedule": "@every 90s"}),
            next("2026-01-01T10:02:00Z"),
            "2026-01-01T10:03:31Z",
            &["2026-01-01T10:03:30Z"],
            &["2026-01-01T10:02:00Z"],
            Some("2026-01-01T10:05:00Z"),
        ),
        (
            "the zone of the rule counts",
            json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}),
            next("2026-03-29T01:00:00Z"),
            "2026-03-29T01:00:01Z",
            &["2026-03-29T01:00:00Z"],
            &[],
            Some("2026-03-30T00:30:00Z"),
        ),
    ];
    for (name, extra, status, now, due, missed, next) in rows {
        let plan = planned(&object(&json!([rule(extra)]), status), now);
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(times(&plan), (texts(due), texts(missed), next.map(str::to_owned)), "{name}");
        assert_eq!(plan.wake.map(|time| time.to_string()), next.map(str::to_owned), "{name}");
        assert_eq!(plan.invalid, [], "{name}");
    }
}

#[test]
fn rules_that_cannot_run_are_named() {
    for (extra, want) in [
        (json!({"schedule": "61 * * * *"}), "spec.rules[r].schedule \"61 * * * *\" is invalid: "),
        (json!({"timeZone": "Mars/Base"}), "spec.rules[r].timeZone: unknown time zone Mars/Base"),
    ] {
        let plan = planned(&object(&json!([rule(&extra)]), &json!([])), "2026-01-01T10:01:00Z");
        assert!(plan.invalid[0].message.starts_with(want), "{:?}", plan.invalid);
        assert_eq!((plan.due, plan.wake), (vec![], None));
    }
}

#[test]
fn histories_follow_the_list_and_its_limits() {
    let rules = json!([rule(&json!({"name": "b", "successfulHistoryLimit": 1})), rule(&json!({"name": "a"}))]);
    let done = json!({"scheduleTime": CREATED, "executionTime": CREATED, "appliedReplicas": 1});
    let next = "2026-01-01T10:01:00Z";
    let status = json!([
        {"ruleName": "gone", "nextExecutionTime": next, "successfulExecutions": [done]},
        {"ruleName": "a", "nextExecutionTime": next},
        {"ruleName": "b", "nextExecutionTime": next, "successfulExecutions": [done]},
    ]);
    let object = object(&rules, &status);
    let options = Options::default();
    let seen = Seen { object: &object, options: &options, now: at("2026-01-01T10:01:00.5Z") };
    let mut plan = decide(&seen);
    assert_eq!(plan.due.iter().map(|due| due.rule.as_str()).collect::<Vec<_>>(), ["b", "a"], "in their order");
    let due = plan.due.clone();
    record(&seen, &mut plan, &due[0], Ok(Set::Replicas(4)));
    record(&seen, &mut plan, &due[1], Err("no".into()));
    let next = "2026-01-01T10:02:00Z";
    let execution = json!({"scheduleTime": "2026-01-01T10:01:00Z", "executionTime": "2026-01-01T10:01:00Z"});
    let with = |field: &str, value: Value| {
        let mut execution = execution.clone();
        execution[field] = value;
        json!([execution])
    };
    assert_eq!(
        serde_json::to_value(&plan.status).unwrap(),
        json!({"executionHistories": [
            {"ruleName": "b", "nextExecutionTime": next, "successfulExecutions": with("appliedReplicas", json!(4))},
            {"ruleName": "a", "nextExecutionTime": next, "failedExecutions": with("message", json!("no"))},
        ]})
    );
}

#[test]
fn rules_set_what_their_target_has() {
    let of = |version: &str, extra: &Value| {
        let mut object = object(&json!([]), &json!([]));
        object.spec.scale_target_ref.api_version = Some(version.into());
        let rule = serde_json::from_value(extra.clone()).unwrap();
        set(&object.spec, &rule)
    };
    let base = |extra: Value| {
        let mut all = json!({"name": "r", "schedule": "* * * * *"});
        all.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        all
    };
    assert_eq!(of("apps/v1", &base(json!({"targetReplicas": 0}))), Ok(Set::Replicas(0)));
    assert!(of("apps/v1", &base(json!({"targetMinReplicas": 1}))).is_err());
    let min = base(json!({"targetMinReplicas": 2}));
    assert_eq!(of(FEDERATED_HPA_VERSION, &min), Ok(Set::Bounds { min: Some(2), max: None }));
    assert!(of(FEDERATED_HPA_VERSION, &base(json!({"targetReplicas": 2}))).is_err());
}

#[test]
fn bounds_of_a_federated_hpa() {
    let hpa = |min: Option<i32>, max| FederatedHPASpec { min_replicas: min, max_replicas: max, ..Default::default() };
    for (hpa, min, max, want) in [
        (hpa(Some(2), 5), Some(3), None, Ok((3, 5))),
        (hpa(None, 5), None, Some(7), Ok((1, 7))),
        (hpa(Some(2), 5), Some(3), Some(4), Ok((3, 4))),
        (
            hpa(Some(2), 5),
            Some(6),
            None,
            Err("minReplicas 6 would exceed maxReplicas 5: the rule has to set targetMaxReplicas, too"),
        ),
        (
            hpa(Some(2), 5),
            None,
            Some(1),
            Err("minReplicas 2 would exceed maxReplicas 1: the rule has to set targetMinReplicas, too"),
        ),
    ] {
        assert_eq!(bounds(&hpa, min, max), want.map_err(str::to_owned));
    }
}

proptest! {
    /// Whenever the process looks, each time of the schedule is executed once or missed, never both, and the status
    /// of a second look at the same moment is the same.
    #[test]
    fn no_time_is_executed_twice_or_forgotten(
        schedule in prop::sample::select(vec!["* * * * *", "*/7 * * * *", "@every 95s", "30 1-3 * * *", "0 0 1 * *"]),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin"]),
        waits in prop::collection::vec(1_i64..5_000, 1..30),
    ) {
        let rule = rule(&json!({"schedule": schedule, "timeZone": zone, "successfulHistoryLimit": 32, "failedHistoryLimit": 32}));
        let mut object = object(&json!([rule]), &json!([]));
        let options = Options::default();
        let mut now = at("2026-03-28T23:30:00Z");
        object.metadata.creation_timestamp = Some(Time(now));
        let mut handled = std::collections::BTreeSet::new();
        for wait in waits {
            now += SignedDuration::from_secs(wait);
            let known = object.status.clone().unwrap_or_default();
            let seen = Seen { object: &object, options: &options, now };
            let mut plan = decide(&seen);
            for due in plan.due.clone() {
                prop_assert!(due.scheduled <= now && now.duration_since(due.scheduled) <= options.starting_deadline);
                prop_assert!(handled.insert(due.scheduled), "{} twice", due.scheduled);
                record(&seen, &mut plan, &due, Ok(Set::Replicas(4)));
            }
            let old = known.execution_histories.first().map_or(0, |history| history.failed_executions.len());
            let failed = &plan.status.execution_histories[0].failed_executions;
            if failed.len() < 32 {
                for failed in &failed[..failed.len() - old] {
                    prop_assert!(handled.insert(failed.schedule_time.0), "{} twice", failed.schedule_time.0);
                }
            }
            prop_assert!(plan.wake.is_some_and(|wake| wake > now));
            object.status = Some(plan.status.clone());
            let again = decide(&Seen { object: &object, options: &options, now });
            prop_assert!(again.due.is_empty());
            prop_assert_eq!(again.status, plan.status);
        }
        let failed = object.status.as_ref().unwrap().execution_histories[0].failed_executions.len();
        if failed < 32 {
            let zone = ironclad_cron::time_zone(zone).unwrap();
            let schedule = Schedule::parse(schedule, zone).unwrap().once();
            let mut time = at("2026-03-28T23:30:00Z");
            while let Some(next) = schedule.next(time).filter(|next| *next <= now) {
                prop_assert!(handled.contains(&next), "{next} was forgotten");
                time = next;
            }
        }
    }
}
