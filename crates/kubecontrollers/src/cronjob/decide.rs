//! Decision about a CronJob: the next Job to create, and old Jobs to delete.

use std::sync::Arc;

use ironclad_cron::Schedule;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::{
    api::{
        batch::v1::{CronJob, CronJobStatus, Job},
        core::v1::ObjectReference,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::ResourceExt as _;

use crate::job::{is_finished, is_successful};

const SUCCESSFUL_HISTORY_LIMIT: i32 = 3;
const FAILED_HISTORY_LIMIT: i32 = 1;

pub(crate) struct Seen {
    pub(crate) cron: Arc<CronJob>,
    pub(crate) jobs: Vec<Arc<Job>>,
}

#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Plan {
    /// Scheduled time of the Job to create.
    pub(crate) create: Option<Timestamp>,
    pub(crate) delete: Vec<Arc<Job>>,
    pub(crate) status: CronJobStatus,
    pub(crate) requeue_at: Option<Timestamp>,
    /// Schedule or time zone that cannot be read, for an event: nothing is ever scheduled.
    pub(crate) invalid: Option<Invalid>,
}

/// Reason and message of the event about a schedule that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// Returns the name of the Job of a scheduled time: the same for each attempt.
pub(crate) fn job_name(cron: &str, time: Timestamp) -> String {
    format!("{cron}-{}", time.as_second() / 60)
}

fn completed_at(job: &Job) -> Option<Timestamp> {
    job.status.as_ref()?.completion_time.as_ref().map(|t| t.0)
}

pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let cron = &*seen.cron;
    let spec = &cron.spec;
    let mut plan = Plan { status: cron.status.clone().unwrap_or_default(), ..Plan::default() };
    let active: Vec<&Arc<Job>> = seen.jobs.iter().filter(|j| !is_finished(j)).collect();
    let references = active.iter().map(|job| ObjectReference {
        api_version: Some("batch/v1".into()),
        kind: Some("Job".into()),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
        resource_version: None,
        field_path: None,
    });
    plan.status.active = Some(references.collect()).filter(|list: &Vec<_>| !list.is_empty());
    let succeeded = seen.jobs.iter().filter(|j| is_successful(j)).filter_map(|j| completed_at(j)).max();
    let before = plan.status.last_successful_time.as_ref().map(|t| t.0);
    plan.status.last_successful_time = succeeded.max(before).map(Time);
    if cron.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let kept = |limit: Option<i32>, or: i32| usize::try_from(limit.unwrap_or(or)).unwrap_or(0);
    let finished =
        |successful: bool| seen.jobs.iter().filter(move |j| is_finished(j) && is_successful(j) == successful);
    plan.delete.extend(beyond(finished(true), kept(spec.successful_jobs_history_limit, SUCCESSFUL_HISTORY_LIMIT)));
    plan.delete.extend(beyond(finished(false), kept(spec.failed_jobs_history_limit, FAILED_HISTORY_LIMIT)));
    if spec.suspend == Some(true) {
        return plan;
    }
    let schedule = match schedule_of(cron) {
        Ok(schedule) => schedule,
        Err(why) => {
            plan.invalid = Some(why);
            return plan;
        }
    };
    let born = cron.metadata.creation_timestamp.as_ref().map_or(now, |t| t.0);
    let from = plan.status.last_schedule_time.as_ref().map_or(born, |t| t.0);
    let due = schedule.last(from, now);
    plan.requeue_at = schedule.next(due.unwrap_or(from));
    let Some(due) = due else { return plan };
    let too_late = |seconds: i64| due.checked_add(SignedDuration::from_secs(seconds)).is_ok_and(|until| until < now);
    if spec.starting_deadline_seconds.is_some_and(too_late) {
        return plan;
    }
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => return plan,
        Some("Replace") => plan.delete.extend(active.into_iter().cloned()),
        _ => {}
    }
    plan.create = Some(due);
    plan.status.last_schedule_time = Some(Time(due));
    plan
}

/// Parses the schedule. Stored objects can be older than their validation.
fn schedule_of(cron: &CronJob) -> Result<Schedule, Invalid> {
    let zone = match cron.spec.time_zone.as_deref() {
        None | Some("") => TimeZone::UTC,
        Some(name) => ironclad_cron::time_zone(name).ok_or_else(|| Invalid {
            reason: "UnknownTimeZone",
            message: format!("invalid timeZone: {name:?}: unknown time zone {name}"),
        })?,
    };
    let text = &cron.spec.schedule;
    Schedule::parse(text, zone).map_err(|why| Invalid {
        reason: "UnparseableCronJobSchedule",
        message: format!("unparseable schedule: {text:?} : {why}"),
    })
}

/// Returns the oldest Jobs beyond the number to keep.
fn beyond<'a>(jobs: impl Iterator<Item = &'a Arc<Job>>, keep: usize) -> Vec<Arc<Job>> {
    let mut jobs: Vec<_> = jobs.cloned().collect();
    jobs.sort_by_key(|j| (j.status.as_ref().and_then(|s| s.start_time.clone()), j.name_any()));
    let surplus = jobs.len().saturating_sub(keep);
    jobs.truncate(surplus);
    jobs
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::{CronJobSpec, JobCondition, JobStatus};

    use super::*;
    use crate::testkit::{at, meta};

    fn cron(change: impl FnOnce(&mut CronJobSpec)) -> CronJob {
        let mut spec = CronJobSpec { schedule: "* * * * *".into(), ..CronJobSpec::default() };
        change(&mut spec);
        CronJob { metadata: meta("c"), spec, status: None }
    }

    fn job(name: &str, over: &str) -> Arc<Job> {
        let mut job = Job { metadata: meta(name), ..Job::default() };
        if !over.is_empty() {
            let over = JobCondition { type_: over.into(), status: "True".into(), ..JobCondition::default() };
            job.status = Some(JobStatus {
                completion_time: (over.type_ == "Complete").then(|| Time(at(5))),
                conditions: Some(vec![over]),
                ..JobStatus::default()
            });
        }
        Arc::new(job)
    }

    #[test]
    fn jobs_are_created_and_deleted_by_schedule_policy_and_history() {
        let scheduled = |mut c: CronJob, last: i64| {
            c.status = Some(CronJobStatus { last_schedule_time: Some(Time(at(last))), ..CronJobStatus::default() });
            c
        };
        let done = |n: usize| (0..n).map(|i| job(&format!("d{i}"), "Complete")).collect::<Vec<_>>();
        for (name, cron, jobs, now, create, delete) in [
            ("a second before the scheduled time", cron(|_| {}), vec![], 59, None, vec![]),
            ("at its time", cron(|_| {}), vec![], 60, Some(60), vec![]),
            ("one Job for each scheduled time", scheduled(cron(|_| {}), 60), vec![], 119, None, vec![]),
            ("of many missed times only the last", cron(|_| {}), vec![], 100_000, Some(99_960), vec![]),
            ("suspended", cron(|s| s.suspend = Some(true)), vec![], 60, None, vec![]),
            ("too late", cron(|s| s.starting_deadline_seconds = Some(10)), vec![], 71, None, vec![]),
            (
                "exactly at the starting deadline",
                cron(|s| s.starting_deadline_seconds = Some(10)),
                vec![],
                70,
                Some(60),
                vec![],
            ),
            ("Allow: beside a running Job", cron(|_| {}), vec![job("a", "")], 60, Some(60), vec![]),
            (
                "Forbid: not beside a running Job",
                cron(|s| s.concurrency_policy = Some("Forbid".into())),
                vec![job("a", "")],
                60,
                None,
                vec![],
            ),
            (
                "Replace: in place of the running Job",
                cron(|s| s.concurrency_policy = Some("Replace".into())),
                vec![job("a", "")],
                60,
                Some(60),
                vec!["a"],
            ),
            ("three successful Jobs are kept", scheduled(cron(|_| {}), 60), done(4), 61, None, vec!["d0"]),
            (
                "one failed Job is kept",
                scheduled(cron(|_| {}), 60),
                vec![job("f1", "Failed"), job("f2", "Failed")],
                61,
                None,
                vec!["f1"],
            ),
            ("an invalid schedule creates nothing", cron(|s| s.schedule = "bad".into()), vec![], 60, None, vec![]),
            ("a start with a step", cron(|s| s.schedule = "0/1 * * * *".into()), vec![], 60, Some(60), vec![]),
            ("a second before a period ends", cron(|s| s.schedule = "@every 90s".into()), vec![], 89, None, vec![]),
            ("a period after creation", cron(|s| s.schedule = "@every 90s".into()), vec![], 90, Some(90), vec![]),
            (
                "a period after the last time",
                scheduled(cron(|s| s.schedule = "@every 90s".into()), 100),
                vec![],
                300,
                Some(280),
                vec![],
            ),
        ] {
            let plan = decide(&Seen { cron: Arc::new(cron), jobs }, at(now));
            assert_eq!(plan.create, create.map(at), "{name}");
            assert_eq!(plan.delete.iter().map(|j| j.name_any()).collect::<Vec<_>>(), delete, "{name}");
        }
    }

    #[test]
    fn status_lists_active_jobs() {
        let seen = Seen { cron: Arc::new(cron(|_| {})), jobs: vec![job("a", ""), job("b", "Complete")] };
        let plan = decide(&seen, at(60));
        assert_eq!(plan.status.active.unwrap()[0].name.as_deref(), Some("a"));
        assert_eq!(plan.status.last_successful_time, Some(Time(at(5))));
        assert_eq!(plan.status.last_schedule_time, Some(Time(at(60))));
        assert_eq!(plan.requeue_at, Some(at(120)));
        assert_eq!(job_name("c", at(120)), "c-2");
    }

    #[test]
    fn unreadable_schedule_has_an_event() {
        for (name, cron, want) in [
            ("a schedule", cron(|s| s.schedule = "0/1 * * * *".into()), None),
            (
                "no schedule",
                cron(|s| s.schedule = "bad".into()),
                Some((
                    "UnparseableCronJobSchedule",
                    "unparseable schedule: \"bad\" : expected exactly 5 fields, found 1: [bad]",
                )),
            ),
            (
                "no zone",
                cron(|s| s.time_zone = Some("europe/berlin".into())),
                Some(("UnknownTimeZone", "invalid timeZone: \"europe/berlin\": unknown time zone europe/berlin")),
            ),
        ] {
            let plan = decide(&Seen { cron: Arc::new(cron), jobs: vec![] }, at(60));
            let want = want.map(|(reason, message)| Invalid { reason, message: message.to_owned() });
            assert_eq!(plan.invalid, want, "{name}");
        }
    }
}
