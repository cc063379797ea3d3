//! Aggregation of the members' Job statuses (specification/propagation.md 17; 31, row 5).

use serde_json::{Value, json};

use super::{Reports, latest};
use crate::lens::{self, ShapeError};

pub(super) fn aggregate(template: &Value, old: &Value, reports: &Reports<'_>, now: &str) -> Result<Value, ShapeError> {
    let done = |status: &Value, type_: &str| lens::condition(status, type_) == "True";
    let finished = done(old, "Complete") || done(old, "Failed");
    let all_reported = reports.expected().all(|item| item.status.is_some());
    if finished && all_reported {
        return Ok(old.clone());
    }
    let mut status = super::set_counters(
        template,
        old.as_object().cloned().unwrap_or_default(),
        reports,
        &["active", "succeeded", "failed"],
        &[],
    )?;
    if !finished {
        let new = terminal_conditions(reports, now);
        if !new.is_empty() {
            let conditions = [lens::items(&status, "/conditions").to_vec(), new].concat();
            status["conditions"] = conditions.into();
        }
    }
    let every = |field: &str| -> Option<Vec<&str>> {
        let times: Option<Vec<&str>> = reports
            .all
            .iter()
            .map(|item| item.status.as_deref().map(|s| lens::text(s, &format!("/{field}"))).filter(|t| !t.is_empty()))
            .collect();
        times.filter(|times| !times.is_empty())
    };
    if lens::text(&status, "/startTime").is_empty()
        && let Some(earliest) = every("startTime").and_then(|times| times.into_iter().min())
    {
        status["startTime"] = earliest.into();
    }
    if let Some(last) = every("completionTime").and_then(|times| latest(times.into_iter())) {
        status["completionTime"] = last.into();
    }
    Ok(status)
}

/// The conditions that end the Job, if the reports say that it ended.
fn terminal_conditions(reports: &Reports<'_>, now: &str) -> Vec<Value> {
    let has = |status: &Value, type_: &str| lens::condition(status, type_) == "True";
    let everywhere = |type_: &str| {
        !reports.all.is_empty()
            && reports.all.iter().all(|item| item.status.as_deref().is_some_and(|status| has(status, type_)))
    };
    let condition = |type_: &str, reason: &str, message: &str| json!({"type": type_, "status": "True", "reason": reason, "message": message, "lastProbeTime": now, "lastTransitionTime": now});
    let failed: Vec<(&str, &Value)> = reports.reported().filter(|(_, status)| has(status, "Failed")).collect();
    let mut new = Vec::new();
    if !failed.is_empty() {
        let clusters: Vec<&str> = failed.iter().map(|(cluster, _)| *cluster).collect();
        let message = format!("Job executed failed in member clusters {}", clusters.join(","));
        // A server of 1.31 or newer accepts Failed only together with FailureTarget, which its Job controller sets
        // first.
        if failed.iter().all(|(_, status)| has(status, "FailureTarget")) {
            new.push(condition("FailureTarget", "JobFailed", &message));
        }
        new.push(condition("Failed", "JobFailed", &message));
    }
    if everywhere("Complete") {
        // Likewise it accepts Complete only together with SuccessCriteriaMet.
        if everywhere("SuccessCriteriaMet") {
            new.push(condition(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "All member clusters have met success criteria",
            ));
        }
        new.push(condition("Complete", "Completed", "Job completed"));
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::tests::run;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn job(status: Value) -> Value {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "generation": 1}, "status": status})
    }

    fn complete(succeeded: i64, start: &str, end: &str) -> Option<Value> {
        Some(json!({"succeeded": succeeded, "startTime": start, "completionTime": end,
            "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]}))
    }

    fn types(status: &Value) -> Vec<String> {
        lens::items(status, "/conditions").iter().map(|c| lens::text(c, "/type").to_owned()).collect()
    }

    #[test]
    fn counters_are_summed_until_all_clusters_report() {
        let running = Some(json!({"active": 2, "startTime": "2026-01-01T00:00:05Z"}));
        let got = run(
            &job(json!({"ready": 1})),
            &[("a", complete(3, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")), ("b", running)],
            &["a", "b"],
        );
        assert_eq!(got, json!({"ready": 1, "active": 2, "succeeded": 3, "startTime": "2026-01-01T00:00:00Z"}));
    }

    #[test]
    fn job_completes_when_every_expected_cluster_completed() {
        let a = || ("a", complete(3, "2026-01-01T00:00:01Z", "2026-01-01T01:00:00Z"));
        let b = || ("b", complete(2, "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z"));
        let both = run(&job(json!({})), &[a(), b()], &["a", "b"]);
        assert_eq!(types(&both), ["SuccessCriteriaMet", "Complete"]);
        assert_eq!(both["startTime"], "2026-01-01T00:00:00Z");
        assert_eq!(both["completionTime"], "2026-01-01T02:00:00Z");
        assert_eq!(
            both["conditions"][1],
            json!({"type": "Complete", "status": "True", "reason": "Completed", "message": "Job completed", "lastProbeTime": NOW, "lastTransitionTime": NOW})
        );
        let one_missing = run(&job(json!({})), &[a()], &["a", "b"]);
        assert_eq!(one_missing, json!({"succeeded": 3}), "a cluster without a Work holds it back");
        let one_silent = run(&job(json!({})), &[a(), ("b", None)], &["a", "b"]);
        assert_eq!(one_silent, json!({"succeeded": 3}));
        assert_eq!(run(&job(json!({})), &[], &[]), json!({}), "no report at all is not completion");
    }

    #[test]
    fn job_fails_when_one_cluster_failed() {
        let failed = Some(
            json!({"failed": 1, "conditions": [{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}]}),
        );
        let got = run(&job(json!({})), &[("a", failed.clone()), ("b", failed), ("c", None)], &["a", "b", "c"]);
        assert_eq!(types(&got), ["FailureTarget", "Failed"]);
        assert_eq!(got["conditions"][1]["message"], "Job executed failed in member clusters a,b");
        assert_eq!(got["conditions"][1]["reason"], "JobFailed");
        let old = Some(json!({"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]}));
        assert_eq!(types(&run(&job(json!({})), &[("a", old)], &["a"])), ["Failed"]);
    }

    #[test]
    fn finished_job_status_is_final() {
        let finished = json!({"succeeded": 3, "conditions": [{"type": "Complete", "status": "True"}]});
        let more = || complete(4, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
        assert_eq!(run(&job(finished.clone()), &[("a", more())], &["a"]), finished);
        let open = run(&job(finished.clone()), &[("a", more())], &["a", "b"]);
        assert_eq!(
            (open["succeeded"].clone(), types(&open)),
            (json!(4), vec!["Complete".to_owned()]),
            "b has not reported yet"
        );
    }
}
