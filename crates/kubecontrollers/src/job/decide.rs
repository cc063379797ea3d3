//! Decision about a Job: pods to create or delete, and its completion.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition, JobSpec, JobStatus, SuccessPolicyRule},
        core::v1::Pod,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{
    ends::{self, Ends, Failures, is_tracked, replaces_failed_only},
    indexes,
};
use crate::pods::{is_active, is_terminating, phase, ready_since, restarts_of_all};

/// Failed pods are replaced after this wait, doubled for each further failure ...
const BACKOFF_SECONDS: i64 = 10;
/// ... up to this.
const BACKOFF_SECONDS_MAX: i64 = 600;
/// Most pods that one reconcile creates.
const BURST: usize = 500;
/// Default of `spec.backoffLimit` unless each index has a limit.
const BACKOFF_LIMIT: i32 = 6;

const COMPLETIONS_REACHED: &str = "CompletionsReached";

pub(crate) struct Seen {
    pub(crate) job: Arc<Job>,
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Number of further pods whose deletion was requested and not yet observed.
    pub(crate) awaited: usize,
}

#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Plan {
    /// Places of the pods to create: completion indexes, or arbitrary numbers.
    pub(crate) create: Vec<i32>,
    /// Failures of each index before a new pod of it.
    pub(crate) index_failures: BTreeMap<i32, i32>,
    /// Active pods to delete; they count as failed.
    pub(crate) delete: Vec<Arc<Pod>>,
    /// Active pods to delete without counting them.
    pub(crate) withdraw: Vec<Arc<Pod>>,
    /// Active pods that lack the finalizer.
    pub(crate) track: Vec<Arc<Pod>>,
    /// Pods that no longer need the finalizer.
    pub(crate) release: Vec<Arc<Pod>>,
    pub(crate) status: JobStatus,
    pub(crate) idle: bool,
    pub(crate) requeue_at: Option<Timestamp>,
}

pub(crate) fn is_indexed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|s| s.completion_mode.as_deref()) == Some("Indexed")
}

pub(crate) fn is_finished(job: &Job) -> bool {
    verdict_of(job).is_some()
}

pub(crate) fn is_successful(job: &Job) -> bool {
    conditions(job).iter().any(|c| c.type_ == "Complete" && c.status == "True")
}

/// The time at which it finished, if it is known.
pub(crate) fn finished_at(job: &Job) -> Option<Timestamp> {
    verdict_of(job)?.last_transition_time.as_ref().map(|time| time.0)
}

/// The condition that says that it is over.
fn verdict_of(job: &Job) -> Option<&JobCondition> {
    conditions(job).iter().find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
}

fn conditions(job: &Job) -> &[JobCondition] {
    job.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default()
}

fn after(from: Timestamp, seconds: i64) -> Timestamp {
    from.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// Reason and message of a finished Job.
type Verdict = (String, String);

fn verdict(reason: &str, message: &str) -> Verdict {
    (reason.to_owned(), message.to_owned())
}

pub(crate) fn decide(seen: &Seen, now: Timestamp) -> Plan {
    let job = &*seen.job;
    let spec = job.spec.clone().unwrap_or_default();
    let mut plan = Plan { status: job.status.clone().unwrap_or_default(), idle: true, ..Plan::default() };
    let ended = |p: &&Arc<Pod>| is_tracked(p) && !is_active(p);
    // Ends after the Job's own do not count.
    if is_finished(job) || job.metadata.deletion_timestamp.is_some() {
        plan.release = seen.pods.iter().filter(ended).cloned().collect();
        return plan;
    }
    let mut conditions = Conditions { list: plan.status.conditions.take().unwrap_or_default(), now };
    let finishing = ["FailureTarget", "SuccessCriteriaMet"].iter().any(|type_| conditions.verdict(type_).is_some());
    let mut ends = ends::count(job, &seen.pods, finishing);
    plan.release = std::mem::take(&mut ends.release);
    let active: Vec<&Arc<Pod>> = seen.pods.iter().filter(|p| is_active(p)).collect();
    let terminating = seen.pods.iter().filter(|p| is_terminating(p) && !crate::pods::is_finished(p)).count();
    let terminating = terminating + seen.awaited;
    let ready = active.iter().filter(|p| ready_since(p).is_some()).count();
    let suspended = spec.suspend == Some(true);
    suspend(&mut plan.status, &mut conditions, suspended, now);
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);

    // What was decided before stays; of two new verdicts the failure counts.
    let decided = conditions.verdict("SuccessCriteriaMet");
    let restarts = running(&seen.pods).map(restarts_of_all).sum();
    let failure = match &decided {
        Some(_) => None,
        None => failure(&plan.status, &conditions, &spec, &ends, restarts, now),
    };
    let success = match &failure {
        Some(_) => None,
        None => decided.or_else(|| success(&spec, &ends, active.len())),
    };
    let still = active.is_empty() && terminating == 0 && ends.uncounted.is_none();
    if success.is_some() || failure.is_some() {
        let go = active.iter().map(|p| (*p).clone()).collect();
        // Pods beyond the completions are surplus, those that a policy or a failure ends have failed.
        let surplus = success.as_ref().is_some_and(|(reason, _)| reason == COMPLETIONS_REACHED);
        *(if surplus { &mut plan.withdraw } else { &mut plan.delete }) = go;
        if let Some((reason, message)) = &success {
            conditions.set("SuccessCriteriaMet", reason, message);
            if still {
                conditions.set("Complete", reason, message);
                plan.status.completion_time = Some(Time(now));
            }
        } else if let Some((reason, message)) = &failure {
            conditions.set("FailureTarget", reason, message);
            if still {
                conditions.set("Failed", reason, message);
            }
        }
    } else if suspended {
        plan.withdraw = active.iter().map(|p| (*p).clone()).collect();
    } else {
        let parallelism = spec.parallelism.unwrap_or(1).max(0);
        let wanted = match spec.completions {
            Some(completions) => {
                let open = completions.saturating_sub(ends.succeeded).saturating_sub(number(ends.failed_indexes.len()));
                parallelism.min(open)
            }
            None if ends.succeeded > 0 => number(active.len()).min(parallelism),
            None => parallelism,
        };
        let wanted = usize::try_from(wanted).unwrap_or(0);
        resize(&mut plan, job, &active, terminating, &ends, wanted, now);
        if let Some(seconds) = spec.active_deadline_seconds
            && let Some(start) = &plan.status.start_time
        {
            let until = after(start.0, seconds);
            plan.requeue_at = Some(plan.requeue_at.map_or(until, |at| at.min(until)));
        }
        // Pods that were adopted, or that an earlier version created.
        let leaves = |pod: &Arc<Pod>| plan.withdraw.iter().any(|other| other.metadata.uid == pod.metadata.uid);
        plan.track = active.iter().filter(|p| !is_tracked(p) && !leaves(p)).map(|p| (*p).clone()).collect();
    }
    let acts = !plan.create.is_empty() || !plan.delete.is_empty() || !plan.withdraw.is_empty();
    plan.idle = still || (!acts && ready == active.len());
    let some = |n: i32| (n > 0).then_some(n);
    plan.status.active = some(number(active.len()));
    plan.status.ready = Some(number(ready));
    plan.status.succeeded = some(ends.counted_succeeded);
    plan.status.failed = some(ends.counted_failed);
    plan.status.uncounted_terminated_pods = ends.uncounted;
    if is_indexed(job) {
        plan.status.completed_indexes = indexes::text(&ends.completed);
        if spec.backoff_limit_per_index.is_some() {
            plan.status.failed_indexes = indexes::text(&ends.failed_indexes);
        }
    }
    plan.status.conditions = (!conditions.list.is_empty()).then_some(conditions.list);
    plan
}

/// Returns the pods whose restarts count: those that have not ended.
fn running(pods: &[Arc<Pod>]) -> impl Iterator<Item = &Pod> {
    pods.iter().map(|pod| &**pod).filter(|pod| matches!(phase(pod), "Running" | "Pending"))
}

/// Returns why the Job has succeeded, if it has.
fn success(spec: &JobSpec, ends: &Ends, active: usize) -> Option<Verdict> {
    let rules = spec.success_policy.as_ref().map(|policy| policy.rules.as_slice()).unwrap_or_default();
    let meets = |rule: &SuccessPolicyRule| {
        let below = spec.completions.unwrap_or(0);
        let among = rule.succeeded_indexes.as_deref().map(|text| indexes::parse(text, below));
        let count = match &among {
            Some(among) => ends.completed.intersection(among).count(),
            None => ends.completed.len(),
        };
        let wanted = match (rule.succeeded_count, &among) {
            (Some(wanted), _) => usize::try_from(wanted).unwrap_or(0),
            (None, Some(among)) => among.len(),
            (None, None) => return false,
        };
        count >= wanted
    };
    if let Some(n) = rules.iter().position(meets) {
        return Some(verdict("SuccessPolicy", &format!("Matched rules at index {n}")));
    }
    let done = match spec.completions {
        Some(wanted) => ends.succeeded >= wanted,
        None => ends.succeeded > 0 && active == 0,
    };
    done.then(|| verdict(COMPLETIONS_REACHED, "Reached expected number of succeeded pods"))
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

/// Returns why the Job has failed, if it has.
fn failure(
    status: &JobStatus,
    conditions: &Conditions,
    spec: &JobSpec,
    ends: &Ends,
    restarts: i32,
    now: Timestamp,
) -> Option<Verdict> {
    if let Some(before) = conditions.verdict("FailureTarget") {
        return Some(before);
    }
    if let Some(message) = &ends.fails_job {
        return Some(verdict("PodFailurePolicy", message));
    }
    let default = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { BACKOFF_LIMIT };
    let limit = spec.backoff_limit.unwrap_or(default);
    // Containers that restart in their pod: the limit is reached with the restart, not exceeded by the next.
    let in_place = spec.template.spec.as_ref().and_then(|s| s.restart_policy.as_deref()) == Some("OnFailure");
    if ends.failed > limit || (in_place && restarts >= limit.max(1)) {
        return Some(verdict("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    let over = |start: &Time| spec.active_deadline_seconds.is_some_and(|s| after(start.0, s) <= now);
    if status.start_time.as_ref().is_some_and(over) {
        return Some(verdict("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    let failed = ends.failed_indexes.len();
    let most = spec.max_failed_indexes.and_then(|most| usize::try_from(most).ok());
    if most.is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(verdict("MaxFailedIndexesExceeded", message));
    }
    let completions = spec.completions.and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    (failed > 0 && failed + ends.completed.len() >= completions)
        .then(|| verdict("FailedIndexes", "Job has failed indexes"))
}

fn resize(
    plan: &mut Plan,
    job: &Job,
    active: &[&Arc<Pod>],
    terminating: usize,
    ends: &Ends,
    wanted: usize,
    now: Timestamp,
) {
    if active.len() > wanted {
        let mut victims = active.to_vec();
        // Delete pods that are not ready first: they lose the least work.
        victims.sort_by_key(|p| (ready_since(p).is_some(), p.metadata.name.clone()));
        plan.withdraw = victims.into_iter().take(active.len() - wanted).cloned().collect();
        return;
    }
    let awaited = if replaces_failed_only(job) { terminating } else { 0 };
    let missing = (wanted - active.len()).saturating_sub(awaited).min(BURST);
    if missing == 0 {
        return;
    }
    let per_index = job.spec.as_ref().is_some_and(|s| s.backoff_limit_per_index.is_some());
    let until = ends.since_success.filter(|_| !per_index).map(|failures| backoff(&failures));
    if let Some(until) = until.filter(|until| *until > now) {
        plan.requeue_at = Some(until);
        return;
    }
    plan.create = if is_indexed(job) {
        let working: BTreeSet<i32> = active.iter().filter_map(|p| indexes::of(p)).collect();
        let completions = job.spec.as_ref().and_then(|s| s.completions).unwrap_or(0);
        let is_open = |i: &i32| ![&ends.completed, &ends.failed_indexes, &working].iter().any(|set| set.contains(i));
        let (wait, create): (Vec<_>, Vec<_>) = (0..completions)
            .filter(is_open)
            .take(missing)
            .partition(|index| per_index && ends.of_index.get(index).is_some_and(|failures| backoff(failures) > now));
        plan.requeue_at = wait.iter().filter_map(|index| ends.of_index.get(index)).map(backoff).min();
        create
    } else {
        (0..i32::try_from(missing).unwrap_or(i32::MAX)).collect()
    };
    plan.index_failures.clone_from(&ends.index_failures);
}

/// Returns the time before which failed pods are not replaced.
fn backoff(failures: &Failures) -> Timestamp {
    let doubled = u32::try_from(failures.count.clamp(1, 16) - 1).unwrap_or(0);
    after(failures.last, (BACKOFF_SECONDS << doubled).min(BACKOFF_SECONDS_MAX))
}

struct Conditions {
    list: Vec<JobCondition>,
    now: Timestamp,
}

impl Conditions {
    /// Reason and message of a condition that is true.
    fn verdict(&self, type_: &str) -> Option<Verdict> {
        let condition = self.list.iter().find(|c| c.type_ == type_ && c.status == "True")?;
        Some((condition.reason.clone().unwrap_or_default(), condition.message.clone().unwrap_or_default()))
    }

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
mod tests;
