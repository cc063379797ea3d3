//! Tests of the decision about a Job.

use k8s_openapi::api::{
    batch::v1::JobSpec,
    core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus},
};

use super::*;
use crate::testkit::{PodMaker, at, meta, pod};

fn job(change: impl FnOnce(&mut JobSpec)) -> Job {
    let mut spec = JobSpec { parallelism: Some(2), completions: Some(3), ..JobSpec::default() };
    change(&mut spec);
    Job { metadata: meta("j"), spec: Some(spec), status: None }
}

fn tracked(maker: PodMaker) -> Arc<Pod> {
    let mut pod = maker.build();
    pod.metadata.finalizers = Some(vec![ends::FINALIZER.into()]);
    Arc::new(pod)
}

fn plan(job: Job, pods: Vec<PodMaker>, now: i64) -> Plan {
    let pods = pods.into_iter().map(tracked).collect();
    decide(&Seen { job: Arc::new(job), pods, awaited: 0 }, at(now))
}

/// The plan once the ends of these pods are counted.
fn settled(mut job: Job, pods: Vec<PodMaker>, now: i64) -> Plan {
    let mut pods: Vec<Arc<Pod>> = pods.into_iter().map(tracked).collect();
    for _ in 0..4 {
        let plan = decide(&Seen { job: Arc::new(job.clone()), pods: pods.clone(), awaited: 0 }, at(now));
        job.status = Some(plan.status);
        for pod in &mut pods {
            if plan.release.contains(pod) {
                Arc::make_mut(pod).metadata.finalizers = None;
            }
        }
    }
    decide(&Seen { job: Arc::new(job), pods, awaited: 0 }, at(now))
}

fn failed(name: &str, when: i64) -> PodMaker {
    let mut maker = pod(name).phase("Failed");
    maker.status().container_statuses = Some(vec![ContainerStatus {
        state: Some(ContainerState {
            terminated: Some(ContainerStateTerminated {
                finished_at: Some(Time(at(when))),
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        }),
        ..ContainerStatus::default()
    }]);
    maker
}

fn done(name: &str) -> PodMaker {
    pod(name).phase("Succeeded")
}

fn changed_conditions(plan: &Plan) -> String {
    let conditions = plan.status.conditions.iter().flatten();
    conditions.map(|c| format!("{}:{}", c.type_, c.reason.as_deref().unwrap_or(""))).collect::<Vec<_>>().join(" ")
}

#[test]
fn pods_and_conditions() {
    let indexed = |s: &mut JobSpec| s.completion_mode = Some("Indexed".into());
    let with_index = |p: PodMaker, i: &str| p.annotation(indexes::INDEX, i);
    let complete = "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached";
    let limit = "FailureTarget:BackoffLimitExceeded Failed:BackoffLimitExceeded";
    for (name, job, pods, now, create, delete, want) in [
        ("creates pods up to the parallelism", job(|_| {}), vec![], 0, vec![0, 1], 0, ""),
        ("never more than the remaining completions", job(|_| {}), vec![done("a"), done("b")], 0, vec![0], 0, ""),
        ("one active, one succeeded, one is created", job(|_| {}), vec![done("a"), pod("b")], 0, vec![0], 0, ""),
        ("all succeeded: complete", job(|_| {}), vec![done("a"), done("b"), done("c")], 0, vec![], 0, complete),
        (
            "enough succeeded: remaining pods are deleted first",
            job(|_| {}),
            vec![done("a"), done("b"), done("c"), pod("d")],
            0,
            vec![],
            1,
            "SuccessCriteriaMet:CompletionsReached",
        ),
        ("parallelism shrinks", job(|s| s.parallelism = Some(1)), vec![pod("a").ready(0), pod("b")], 0, vec![], 1, ""),
        ("created suspended", job(|s| s.suspend = Some(true)), vec![], 0, vec![], 0, "Suspended:JobSuspended"),
        (
            "suspended while active",
            job(|s| s.suspend = Some(true)),
            vec![pod("a")],
            0,
            vec![],
            1,
            "Suspended:JobSuspended",
        ),
        ("a second before the backoff ends no pod is created", job(|_| {}), vec![failed("a", 100)], 109, vec![], 0, ""),
        ("after the backoff the failed pod is replaced", job(|_| {}), vec![failed("a", 100)], 110, vec![0, 1], 0, ""),
        (
            "the second failure doubles the backoff",
            job(|_| {}),
            vec![failed("a", 90), failed("b", 100)],
            119,
            vec![],
            0,
            "",
        ),
        (
            "more failures than backoffLimit",
            job(|s| s.backoff_limit = Some(0)),
            vec![failed("a", 0)],
            50,
            vec![],
            0,
            limit,
        ),
        (
            "active pods of a failed Job are deleted first",
            job(|s| s.backoff_limit = Some(0)),
            vec![failed("a", 0), pod("b")],
            50,
            vec![],
            1,
            "FailureTarget:BackoffLimitExceeded",
        ),
        ("Indexed: the lowest missing indexes", job(indexed), vec![with_index(done("a"), "0")], 0, vec![1, 2], 0, ""),
        (
            "Indexed: an active index is not created again",
            job(indexed),
            vec![with_index(pod("a"), "1")],
            0,
            vec![0],
            0,
            "",
        ),
        (
            "without completions one success is enough",
            job(|s| s.completions = None),
            vec![done("a")],
            0,
            vec![],
            0,
            complete,
        ),
    ] {
        let first = plan(job.clone(), pods.clone(), now);
        let deleted = first.delete.len() + first.withdraw.len();
        assert_eq!((first.create.clone(), deleted), (create, delete), "{name}");
        assert_eq!(changed_conditions(&settled(job, pods, now)), want, "{name}");
    }
}

#[test]
fn deadlines() {
    let mut j = job(|s| s.active_deadline_seconds = Some(60));
    j.status = Some(JobStatus { start_time: Some(Time(at(100))), ..JobStatus::default() });
    assert_eq!(plan(j.clone(), vec![pod("a").ready(0), pod("b").ready(0)], 159).requeue_at, Some(at(160)));
    assert_eq!(changed_conditions(&plan(j, vec![], 160)), "FailureTarget:DeadlineExceeded Failed:DeadlineExceeded");
}

#[test]
fn resuming_restarts_the_deadline() {
    let mut j = job(|s| s.suspend = Some(true));
    j.status = Some(plan(j.clone(), vec![], 10).status);
    assert_eq!(j.status.as_ref().unwrap().start_time, None);
    j.spec.as_mut().unwrap().suspend = None;
    let resumed = plan(j, vec![], 20);
    assert_eq!(
        (changed_conditions(&resumed).as_str(), resumed.status.start_time),
        ("Suspended:JobResumed", Some(Time(at(20))))
    );
}

#[test]
fn pods_killed_by_the_deadline_count_as_failed() {
    let mut j = job(|s| s.active_deadline_seconds = Some(60));
    j.status = Some(JobStatus { start_time: Some(Time(at(0))), ..JobStatus::default() });
    let over = plan(j.clone(), vec![pod("a"), pod("b")], 60);
    assert_eq!((over.delete.len(), changed_conditions(&over).as_str()), (2, "FailureTarget:DeadlineExceeded"));
    j.status = Some(over.status);
    let end = settled(j, vec![pod("a").phase("Failed").terminating(), pod("b").phase("Failed").terminating()], 61);
    assert_eq!(end.status.failed, Some(2));
    assert_eq!(changed_conditions(&end), "FailureTarget:DeadlineExceeded Failed:DeadlineExceeded");
}

#[test]
fn a_job_does_not_end_before_deletions_are_observed() {
    let mut j = job(|s| s.active_deadline_seconds = Some(60));
    j.status = Some(JobStatus { start_time: Some(Time(at(0))), ..JobStatus::default() });
    for (awaited, want) in
        [(1, "FailureTarget:DeadlineExceeded"), (0, "FailureTarget:DeadlineExceeded Failed:DeadlineExceeded")]
    {
        let seen = Seen { job: Arc::new(j.clone()), pods: Vec::new(), awaited };
        assert_eq!(changed_conditions(&decide(&seen, at(60))), want, "{awaited} awaited");
    }
}

#[test]
fn withdrawn_pods_do_not_count() {
    let suspended = plan(job(|s| s.suspend = Some(true)), vec![pod("a")], 0);
    let shrunk = plan(job(|s| s.parallelism = Some(1)), vec![pod("a"), pod("b")], 0);
    for plan in [suspended, shrunk] {
        assert_eq!((plan.withdraw.len(), plan.delete.len(), plan.status.failed), (1, 0, None));
    }
}

#[test]
fn failure_and_success_policies_end_the_job() {
    let indexed = |name: &str, phase: &str, index: &str| pod(name).phase(phase).annotation(indexes::INDEX, index);
    let of = |spec: serde_json::Value| {
        let mut spec: JobSpec = serde_json::from_value(spec).unwrap();
        spec.completion_mode = Some("Indexed".into());
        (spec.completions, spec.parallelism) = (Some(3), Some(3));
        Job { metadata: meta("j"), spec: Some(spec), status: None }
    };
    let per_index = serde_json::json!({"template": {}, "backoffLimit": 100, "backoffLimitPerIndex": 0});
    let mut most = per_index.clone();
    most["maxFailedIndexes"] = 0.into();
    let enough = serde_json::json!({"template": {}, "successPolicy": {"rules": [{"succeededCount": 1}]}});
    let leader = serde_json::json!({"template": {}, "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let failed = |reason: &str| format!("FailureTarget:{reason} Failed:{reason}");
    for (name, job, pods, want, indexes) in [
        ("other indexes go on", of(per_index.clone()), vec![indexed("a", "Failed", "0")], String::new(), Some("0")),
        (
            "every index has ended",
            of(per_index),
            vec![indexed("a", "Failed", "0"), indexed("b", "Succeeded", "1"), indexed("c", "Succeeded", "2")],
            failed("FailedIndexes"),
            Some("0"),
        ),
        (
            "too many failed indexes",
            of(most),
            vec![indexed("a", "Failed", "0")],
            failed("MaxFailedIndexesExceeded"),
            Some("0"),
        ),
        (
            "enough successes",
            of(enough),
            vec![indexed("a", "Succeeded", "1")],
            "SuccessCriteriaMet:SuccessPolicy Complete:SuccessPolicy".to_owned(),
            None,
        ),
        ("not the chosen index", of(leader), vec![indexed("a", "Succeeded", "1")], String::new(), None),
    ] {
        let plan = settled(job, pods, 1_000);
        assert_eq!(changed_conditions(&plan), want, "{name}");
        assert_eq!(plan.status.failed_indexes.as_deref(), indexes, "{name}");
    }
}

#[test]
fn terminating_pods_are_replaced_at_once_or_after_their_end() {
    let waits = job(|s| s.pod_replacement_policy = Some("Failed".into()));
    for (name, job, want) in [("at once", job(|_| {}), vec![0, 1]), ("after their end", waits, vec![0])] {
        assert_eq!(plan(job, vec![pod("a").phase("Running").terminating()], 0).create, want, "{name}");
    }
}

#[test]
fn a_finished_or_deleted_job_holds_no_pod() {
    let mut over = job(|_| {});
    over.status = Some(settled(job(|s| s.completions = Some(0)), vec![], 0).status);
    let mut deleted = job(|_| {});
    deleted.metadata.deletion_timestamp = Some(Time(at(1)));
    for job in [over, deleted] {
        let plan = plan(job, vec![done("a"), pod("b").phase("Running").terminating(), pod("c")], 2);
        assert_eq!(plan.release.len(), 2, "those that ended or are being deleted");
    }
}

#[test]
fn pods_without_the_finalizer_get_it() {
    let seen = Seen { job: Arc::new(job(|_| {})), pods: vec![pod("a").arc(), tracked(pod("b"))], awaited: 0 };
    let plan = decide(&seen, at(0));
    assert_eq!(plan.track.iter().filter_map(|p| p.metadata.name.as_deref()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn finished_pods_stay_counted() {
    let mut j = job(|_| {});
    j.status = Some(JobStatus { succeeded: Some(2), ..JobStatus::default() });
    assert_eq!(plan(j, vec![], 0).create, [0], "two finished pods were deleted");
}

fn restarted(name: &str, count: i32) -> PodMaker {
    pod(name).restarts(count).phase("Running")
}

#[test]
fn restarts_in_place_count_against_the_limit() {
    let job = |policy: &str, limit: Option<i32>| {
        job(|s| {
            s.template.spec.get_or_insert_default().restart_policy = Some(policy.into());
            s.backoff_limit = limit;
        })
    };
    let over = "FailureTarget:BackoffLimitExceeded";
    for (name, job, pods, want) in [
        ("below the limit", job("OnFailure", Some(2)), vec![restarted("a", 1)], ""),
        ("the limit is reached", job("OnFailure", Some(2)), vec![restarted("a", 2)], over),
        ("restarts of all pods together", job("OnFailure", Some(2)), vec![restarted("a", 1), restarted("b", 1)], over),
        ("no limit: the first restart", job("OnFailure", Some(0)), vec![restarted("a", 1)], over),
        ("no limit, no restart", job("OnFailure", Some(0)), vec![restarted("a", 0)], ""),
        ("the default", job("OnFailure", None), vec![restarted("a", 5)], ""),
        ("pods that ended do not count", job("OnFailure", Some(2)), vec![restarted("a", 2).phase("Succeeded")], ""),
        ("only under OnFailure", job("Never", Some(2)), vec![restarted("a", 2)], ""),
    ] {
        assert_eq!(changed_conditions(&plan(job, pods, 0)), want, "{name}");
    }
}

#[test]
fn a_success_ends_the_backoff() {
    let done_at = |name: &str, when: i64| failed(name, when).phase("Succeeded");
    for (name, pods, now, create) in [
        ("the failure came after the success", vec![done_at("a", 90), failed("b", 100)], 105, vec![]),
        ("the success came after the failure", vec![failed("a", 90), done_at("b", 100)], 105, vec![0, 1]),
        ("one failure since the success", vec![failed("a", 80), done_at("b", 90), failed("c", 100)], 111, vec![0, 1]),
    ] {
        assert_eq!(plan(job(|_| {}), pods, now).create, create, "{name}");
    }
}

#[test]
fn each_index_has_its_own_backoff_and_the_job_has_no_limit() {
    let job = || {
        job(|s| {
            s.completion_mode = Some("Indexed".into());
            (s.completions, s.parallelism, s.backoff_limit_per_index) = (Some(9), Some(9), Some(1));
        })
    };
    let of = |index: i32, when: i64, before: i32| {
        let pod = failed(&format!("p{index}"), when).annotation(indexes::INDEX, &index.to_string());
        pod.annotation(ends::INDEX_FAILURES, &before.to_string())
    };
    let plan_at = |now| plan(job(), vec![of(0, 100, 0), of(1, 95, 0)], now);
    assert_eq!((plan_at(104).create, plan_at(104).requeue_at), ((2..9).collect(), Some(at(105))));
    assert_eq!(plan_at(105).create, (1..9).collect::<Vec<_>>());
    assert_eq!(plan_at(110).create, (0..9).collect::<Vec<_>>());
    let all = settled(job(), (0..9).map(|index| of(index, 100, 1)).collect(), 1_000);
    assert_eq!(changed_conditions(&all), "FailureTarget:FailedIndexes Failed:FailedIndexes", "nine failures");
}

#[test]
fn a_failure_counts_before_a_success_of_the_same_moment() {
    let job = job(|s| (s.completions, s.backoff_limit) = (Some(1), Some(0)));
    let both = settled(job, vec![done("a"), failed("b", 0)], 50);
    assert_eq!(changed_conditions(&both), "FailureTarget:BackoffLimitExceeded Failed:BackoffLimitExceeded");
}
