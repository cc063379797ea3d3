//! Rates, times and queues as text.

use ironclad_failover::{
    flags::eviction::Mode,
    taint_manager::{Report, Row},
};
use ironclad_planning::evicted::{Answer, span};
use jiff::Timestamp;

use crate::print;

/// One line on the rate in force and why.
pub(super) fn rate(report: &Report, paused: bool) -> String {
    let counts = format!("unhealthy clusters: {} of {}", report.unhealthy, report.clusters);
    let mode = if report.mode == Mode::Observe { "; mode observe: nothing is written" } else { "" };
    let pause = if paused && report.state != "held" { "; a pause was asked for and is not in force yet" } else { "" };
    let reached = report.reached.map(|reached| format!("; this fleet takes {reached:.1}/s")).unwrap_or_default();
    format!("rate {}/s, {} ({}; {counts}){reached}{mode}{pause}", report.rate, report.state, report.because)
}

/// One line on how much waits.
pub(super) fn sums(report: &Report, now: Timestamp) -> String {
    let queued = report.ready.saturating_sub(report.held);
    let end = match report.drained_at {
        _ if queued == 0 => String::new(),
        Some(at) => format!("; the queue is empty in {}", span(now, at)),
        None => ", nothing leaves at this rate".to_owned(),
    };
    let held = if report.held > 0 { format!("; {} held", report.held) } else { String::new() };
    format!("{queued} queued{end}{held}; {} delayed; {} without a target", report.delayed, report.parked)
}

/// Elements of the queue in columns.
pub(super) fn rows(rows: &[Row], now: Timestamp, wide: bool) -> String {
    let mut heading = vec!["POSITION", "BINDING", "FROM", "STATE", "WAITS", "DUE", "EXPECTED", "CAUSE"];
    if wide {
        heading.extend(["PURGE", "ATTEMPTS", "RESOURCE", "REASON"]);
    }
    let cell = |row: &Row| {
        let due = if row.due <= now { "now".to_owned() } else { format!("in {}", span(now, row.due)) };
        let mut cells = vec![
            row.position.map_or_else(|| "-".to_owned(), |place| place.to_string()),
            row.binding.to_string(),
            row.cluster.to_string(),
            row.state.to_string(),
            waits(row.since, now),
            due,
            expected(row.expected, now),
            row.causes.join(","),
        ];
        if wide {
            let because = row.because.clone().unwrap_or_else(|| "-".to_owned());
            cells.extend([row.purge_mode.clone(), row.attempts.to_string(), row.resource.clone(), because]);
        }
        cells
    };
    print::table(&heading, &rows.iter().map(cell).collect::<Vec<_>>())
}

/// Answers of `why evicted` in columns, without what only few have.
pub(super) fn answers(answers: &[Answer], now: Timestamp) -> String {
    let cells = |answer: &Answer| {
        // Behind the colon stands why there is none.
        let target = answer.target.as_deref().and_then(|target| target.split(": ").next());
        vec![
            answer.binding.to_string(),
            answer.cluster.to_string(),
            answer.state.clone(),
            waits(answer.since, now),
            expected(answer.expected, now),
            target.unwrap_or("-").to_owned(),
            answer.waits_because.as_ref().or(answer.frozen.as_ref()).unwrap_or(&answer.because).clone(),
        ]
    };
    let heading = ["BINDING", "FROM", "STATE", "WAITS", "EXPECTED", "TARGET", "BECAUSE"];
    print::table(&heading, &answers.iter().map(cells).collect::<Vec<_>>())
}

fn waits(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(|| "-".to_owned(), |since| span(since, now))
}

fn expected(at: Option<Timestamp>, now: Timestamp) -> String {
    match at {
        Some(at) if at <= now => "now".to_owned(),
        Some(at) => format!("in {}", span(now, at)),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ironclad_failover::taint_manager::Waiting;
    use ironclad_fleet::BindingKey;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn table_of_evictions() {
        let row = |name: &str, state, position, expected| Row {
            binding: BindingKey { namespace: "shop".into(), name: name.into() },
            resource: "apps/v1/Deployment shop/web".into(),
            cluster: "member1".into(),
            state,
            position,
            rebuilt: false,
            since: Some(at(100)),
            due: at(160),
            causes: vec!["k:NoExecute".into()],
            purge_mode: "Gracefully".into(),
            expected,
            attempts: 0,
            because: None,
        };
        let list = [row("web", Waiting::Queued, Some(1), Some(at(182))), row("db", Waiting::Parked, None, None)];
        assert_eq!(
            rows(&list, at(180), false),
            "POSITION   BINDING    FROM      STATE    WAITS   DUE   EXPECTED   CAUSE\n\
             1          shop/web   member1   Queued   1m20s   now   in 2s      k:NoExecute\n\
             -          shop/db    member1   Parked   1m20s   now   -          k:NoExecute\n"
        );
        assert!(
            rows(&list, at(150), true)
                .contains("in 10s   in 32s     k:NoExecute   Gracefully   0          apps/v1/Deployment shop/web")
        );
    }

    #[test]
    fn table_of_explanations() {
        let answer = |name: &str, extra: serde_json::Value| -> Answer {
            let mut answer = serde_json::json!({"binding": {"namespace": "shop", "name": name}, "cluster": "member1",
                "resource": "apps/v1 Deployment web", "state": "Queued", "because": "k:NoExecute", "since": at(100)});
            let all = answer.as_object_mut().unwrap();
            all.extend(extra.as_object().unwrap().clone());
            serde_json::from_value(answer).unwrap()
        };
        let parked = serde_json::json!({"state": "Parked", "target": "none: no cluster fits (m2 is full)",
            "waitsBecause": "no available target cluster"});
        let list = [
            answer("web", serde_json::json!({"expected": at(182), "target": "m2, m3"})),
            answer("db", parked),
            answer(
                "pinned",
                serde_json::json!({"state": "Stays", "since": null, "because": "it tolerates the taints"}),
            ),
        ];
        assert_eq!(
            answers(&list, at(180)),
            "BINDING       FROM      STATE    WAITS   EXPECTED   TARGET   BECAUSE\n\
             shop/web      member1   Queued   1m20s   in 2s      m2, m3   k:NoExecute\n\
             shop/db       member1   Parked   1m20s   -          none     no available target cluster\n\
             shop/pinned   member1   Stays    -       -          -        it tolerates the taints\n"
        );
    }
}
