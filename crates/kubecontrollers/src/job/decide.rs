//! Decision about a Job: pods to create or delete, and its completion.

use std::{collections::BTreeSet, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobStatus},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::indexes;
use crate::pods::{is_active, is_terminating, phase, ready_since};

/// Failed pods are replaced after this wait, doubled for each further failure ...
const BACKOFF_SECONDS: i64 = 10;
/// ... up to this.
const BACKOFF_SECONDS_MAX: i64 = 600;
/// Most pods that one reconcile creates.
const BURST: usize = 500;
/// Default of `spec.backoffLimit`.
const BACKOFF_LIMIT: i32 = 6;

pub(crate) struct Seen {
    pub(crate) job: Arc<Job>,
    pub(crate) pods: Vec<Arc<Pod>>,
}

#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Plan {
    /// Places of the pods to create: completion indexes, or arbitrary numbers.
    pub(crate) create: Vec<i32>,
    pub(crate) delete: Vec<Arc<Pod>>,
    pub(crate) status: JobStatus,
    /// Its `ttlSecondsAfterFinished` is over: delete the Job.
    pub(crate) expire: bool,
    pub(crate) idle: bool,
    pub(crate) requeue_at: Option<Timestamp>,
}

pub(crate) fn is_indexed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|s| s.completion_mode.as_deref()) == Some("Indexed")
}

pub(crate) fn is_finished(job: &Job) -> bool {
    finished_at(job).is_some()
}

pub(crate) fn is_successful(job: &Job) -> bool {
    conditions(job).iter().any(|c| c.type_ == "Complete" && c.status == "True")
}

fn finished_at(job: &Job) -> Option<Timestamp> {
    let over = conditions(job).iter().find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True");
    over.map(|c| c.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0))
}

fn conditions(job: &Job) -> &[JobCondition] {
    job.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default()
}

fn after(from: Timestamp, seconds: i64) -> Timestamp {
    from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

struct Counts<'a> {
    active: Vec<&'a Arc<Pod>>,
    terminating: usize,
    ready: usize,
    succeeded: i32,
    failed: i32,
    completed: BTreeSet<i32>,
    last_failure: Option<Timestamp>,
}

fn count<'a>(job: &Job, pods: &'a [Arc<Pod>], completions: Option<i32>) -> Counts<'a> {
    let status = job.status.as_ref();
    let active: Vec<_> = pods.iter().filter(|p| is_active(p)).collect();
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let of_phase = |name: &str| number(pods.iter().filter(|p| phase(p) == name).count());
    let mut completed = BTreeSet::new();
    // A finished pod still counts after it is deleted, and is not run again.
    let mut succeeded = of_phase("Succeeded").max(status.and_then(|s| s.succeeded).unwrap_or(0));
    if is_indexed(job) {
        let below = completions.unwrap_or(0);
        completed = indexes::parse(status.and_then(|s| s.completed_indexes.as_deref()).unwrap_or(""), below);
        completed.extend(
            pods.iter().filter(|p| phase(p) == "Succeeded").filter_map(|p| indexes::of(p)).filter(|i| *i < below),
        );
        succeeded = number(completed.len());
    }
    Counts {
        ready: active.iter().filter(|p| ready_since(p).is_some()).count(),
        terminating: pods.iter().filter(|p| is_terminating(p) && !crate::pods::is_finished(p)).count(),
        active,
        succeeded,
        failed: of_phase("Failed").max(status.and_then(|s| s.failed).unwrap_or(0)),
        completed,
        last_failure: pods.iter().filter(|p| phase(p) == "Failed").filter_map(|p| ended_at(p)).max(),
    }
}

fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let statuses = pod.status.as_ref()?.container_statuses.as_deref()?;
    let ends = statuses.iter().filter_map(|c| c.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    ends.map(|t| t.0).max()
}

pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let job = &*seen.job;
    let spec = job.spec.clone().unwrap_or_default();
    let mut plan = Plan { status: job.status.clone().unwrap_or_default(), idle: true, ..Plan::default() };
    if let Some(at) = finished_at(job) {
        if let Some(ttl) = spec.ttl_seconds_after_finished {
            let until = after(at, i64::from(ttl));
            plan.expire = until <= now && job.metadata.deletion_timestamp.is_none();
            plan.requeue_at = Some(until).filter(|until| *until > now);
        }
        return plan;
    }
    if job.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let counts = count(job, &seen.pods, spec.completions);
    let suspended = spec.suspend == Some(true);
    let mut conditions = Conditions { list: plan.status.conditions.take().unwrap_or_default(), now };
    suspend(&mut plan.status, &mut conditions, suspended, now);
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);

    let done = match spec.completions {
        Some(wanted) => counts.succeeded >= wanted,
        None => counts.succeeded > 0 && counts.active.is_empty(),
    };
    let failure = failure(&plan.status, &conditions, &spec, &counts, now);
    let still = counts.active.is_empty() && counts.terminating == 0;
    if done || failure.is_some() {
        plan.delete = counts.active.iter().map(|p| (*p).clone()).collect();
        match failure.filter(|_| !done) {
            Some((reason, message)) => {
                conditions.set("FailureTarget", reason, message);
                if still {
                    conditions.set("Failed", reason, message);
                }
            }
            None => {
                let message = "Reached expected number of succeeded pods";
                conditions.set("SuccessCriteriaMet", "CompletionsReached", message);
                if still {
                    conditions.set("Complete", "CompletionsReached", message);
                    plan.status.completion_time = Some(Time(now));
                }
            }
        }
    } else if suspended {
        plan.delete = counts.active.iter().map(|p| (*p).clone()).collect();
    } else {
        let wanted = match spec.completions {
            Some(completions) => parallelism.min(completions - counts.succeeded),
            None if counts.succeeded > 0 => number(counts.active.len()).min(parallelism),
            None => parallelism,
        };
        resize(&mut plan, job, &counts, usize::try_from(wanted).unwrap_or(0), now);
        if let Some(seconds) = spec.active_deadline_seconds
            && let Some(start) = &plan.status.start_time
        {
            let until = after(start.0, seconds);
            plan.requeue_at = Some(plan.requeue_at.map_or(until, |at| at.min(until)));
        }
    }
    plan.idle = still || (plan.create.is_empty() && plan.delete.is_empty() && counts.ready == counts.active.len());
    let some = |n: i32| (n > 0).then_some(n);
    plan.status.active = some(number(counts.active.len()));
    plan.status.ready = Some(number(counts.ready));
    plan.status.succeeded = some(counts.succeeded);
    plan.status.failed = some(counts.failed);
    if is_indexed(job) {
        plan.status.completed_indexes = indexes::text(&counts.completed);
    }
    plan.status.conditions = (!conditions.list.is_empty()).then_some(conditions.list);
    plan
}

/// Sets or clears the start time: a Job starts when it is first not suspended.
fn suspend(status: &mut JobStatus, conditions: &mut Conditions, suspended: bool, now: Timestamp) {
    let was = conditions.list.iter().any(|c| c.type_ == "Suspended" && c.status == "True");
    if suspended {
        if !was {
            conditions.put("Suspended", "True", "JobSuspended", "Job suspended");
        }
        status.start_time = None;
    } else {
        if was {
            conditions.put("Suspended", "False", "JobResumed", "Job resumed");
        }
        status.start_time.get_or_insert(Time(now));
    }
}

fn failure(
    status: &JobStatus,
    conditions: &Conditions,
    spec: &k8s_openapi::api::batch::v1::JobSpec,
    counts: &Counts<'_>,
    now: Timestamp,
) -> Option<(&'static str, &'static str)> {
    const LIMIT: (&str, &str) = ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    const DEADLINE: (&str, &str) = ("DeadlineExceeded", "Job was active longer than specified deadline");
    if let Some(before) = conditions.list.iter().find(|c| c.type_ == "FailureTarget" && c.status == "True") {
        return Some(if before.reason.as_deref() == Some(DEADLINE.0) { DEADLINE } else { LIMIT });
    }
    if counts.failed > spec.backoff_limit.unwrap_or(BACKOFF_LIMIT) {
        return Some(LIMIT);
    }
    let over = |start: &Time| spec.active_deadline_seconds.is_some_and(|s| after(start.0, s) <= now);
    status.start_time.as_ref().is_some_and(over).then_some(DEADLINE)
}

fn resize(plan: &mut Plan, job: &Job, counts: &Counts<'_>, wanted: usize, now: Timestamp) {
    let active = counts.active.len();
    if active > wanted {
        let mut victims: Vec<_> = counts.active.clone();
        // Delete pods that are not ready first: they lose the least work.
        victims.sort_by_key(|p| (ready_since(p).is_some(), p.metadata.name.clone()));
        plan.delete = victims.into_iter().take(active - wanted).cloned().collect();
        return;
    }
    let missing = (wanted - active).min(BURST);
    if missing == 0 {
        return;
    }
    if let Some(last) = counts.last_failure {
        let doubled = u32::try_from(counts.failed.clamp(1, 16) - 1).unwrap_or(0);
        let until = after(last, (BACKOFF_SECONDS << doubled).min(BACKOFF_SECONDS_MAX));
        if until > now {
            plan.requeue_at = Some(until);
            return;
        }
    }
    plan.create = if is_indexed(job) {
        let working: BTreeSet<i32> = counts.active.iter().filter_map(|p| indexes::of(p)).collect();
        let completions = job.spec.as_ref().and_then(|s| s.completions).unwrap_or(0);
        (0..completions).filter(|i| !counts.completed.contains(i) && !working.contains(i)).take(missing).collect()
    } else {
        (0..i32::try_from(missing).unwrap_or(i32::MAX)).collect()
    };
}

struct Conditions {
    list: Vec<JobCondition>,
    now: Timestamp,
}

impl Conditions {
    fn set(&mut self, type_: &str, reason: &str, message: &str) {
        if !self.list.iter().any(|c| c.type_ == type_ && c.status == "True") {
            self.put(type_, "True", reason, message);
        }
    }

    fn put(&mut self, type_: &str, status: &str, reason: &str, message: &str) {
        self.list.retain(|c| c.type_ != type_);
        self.list.push(JobCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            last_probe_time: Some(Time(self.now)),
            last_transition_time: Some(Time(self.now)),
        });
    }
}

#[cfg(test)]
mod tests {
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

    fn plan(job: Job, pods: Vec<PodMaker>, now: i64) -> Plan {
        let pods = pods.into_iter().map(PodMaker::arc).collect();
        decide(&Seen { job: Arc::new(job), pods }, at(now))
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
            (
                "parallelism shrinks",
                job(|s| s.parallelism = Some(1)),
                vec![pod("a").ready(0), pod("b")],
                0,
                vec![],
                1,
                "",
            ),
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
            (
                "a second before the backoff ends no pod is created",
                job(|_| {}),
                vec![failed("a", 100)],
                109,
                vec![],
                0,
                "",
            ),
            (
                "after the backoff the failed pod is replaced",
                job(|_| {}),
                vec![failed("a", 100)],
                110,
                vec![0, 1],
                0,
                "",
            ),
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
            (
                "Indexed: the lowest missing indexes",
                job(indexed),
                vec![with_index(done("a"), "0")],
                0,
                vec![1, 2],
                0,
                "",
            ),
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
            let plan = plan(job, pods, now);
            assert_eq!((plan.create.clone(), plan.delete.len()), (create, delete), "{name}");
            assert_eq!(changed_conditions(&plan), want, "{name}");
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
    fn a_finished_job_is_deleted_after_its_ttl() {
        let mut j = job(|s| s.ttl_seconds_after_finished = Some(30));
        j.status = Some(plan(job(|_| {}), vec![done("a"), done("b"), done("c")], 100).status);
        assert!(is_finished(&j) && is_successful(&j));
        let before = plan(j.clone(), vec![], 129);
        assert_eq!((before.expire, before.requeue_at), (false, Some(at(130))));
        assert!(plan(j, vec![], 130).expire);
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
    fn finished_pods_stay_counted() {
        let mut j = job(|_| {});
        j.status = Some(JobStatus { succeeded: Some(2), ..JobStatus::default() });
        assert_eq!(plan(j, vec![], 0).create, [0], "two finished pods were deleted");
    }
}
