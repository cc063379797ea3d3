//! CronFederatedHPA: which rules are due, what they set, and the history of it (specification/autoscaling.md 4).
//!
//! The next time of a rule stands in its history, so a rule is executed once for each of its times, whichever process
//! executes it, and times at which none was running are found later.

use ironclad_api::{
    Time,
    autoscaling::{
        CronFederatedHPA, CronFederatedHPARule, CronFederatedHPASpec, CronFederatedHPAStatus, ExecutionHistory,
        FailedExecution, FederatedHPASpec, SuccessfulExecution,
    },
};
use ironclad_cron::Schedule;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// apiVersion of a target that is a FederatedHPA.
pub const FEDERATED_HPA_VERSION: &str = "autoscaling.karmada.io/v1alpha1";

/// Successes, and failures, that a history keeps if the rule does not say.
const HISTORY_LIMIT: i32 = 3;

/// Flags and environment of the controller.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--cron-federated-hpa-starting-deadline`: a rule that is late by more is not executed.
    pub starting_deadline: SignedDuration,
    /// Zone of rules that name none: that of the process.
    pub zone: TimeZone,
}

impl Default for Options {
    fn default() -> Self {
        Self { starting_deadline: SignedDuration::from_secs(100), zone: TimeZone::UTC }
    }
}

/// Snapshot of one object.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub object: &'a CronFederatedHPA,
    /// Flags.
    pub options: &'a Options,
    /// Current time.
    pub now: Timestamp,
}

/// Number that a rule sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Replicas of a workload.
    Replicas(i32),
    /// Bounds of a FederatedHPA; an absent one is left as it is.
    Bounds {
        /// `minReplicas`.
        min: Option<i32>,
        /// `maxReplicas`.
        max: Option<i32>,
    },
}

/// Rule whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Its name.
    pub rule: String,
    /// The time of its schedule.
    pub scheduled: Timestamp,
    /// The change it makes, or the reason why it makes none.
    pub set: Result<Set, String>,
}

/// Rule that never runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Its name.
    pub rule: String,
    /// The field, its value and what is wrong with it.
    pub message: String,
}

/// Changes to make now.
#[derive(Debug, Clone, Default, PartialEq)]
#[must_use]
pub struct Plan {
    /// Rules to execute, in the order of the list: the last one wins.
    pub due: Vec<Due>,
    /// Rules that never run.
    pub invalid: Vec<Invalid>,
    /// The status, but for the executions of `due`.
    pub status: CronFederatedHPAStatus,
    /// First time at which a rule is due.
    pub wake: Option<Timestamp>,
}

/// Returns whether the target is a FederatedHPA, which has bounds instead of replicas.
#[must_use]
pub fn is_federated_hpa(spec: &CronFederatedHPASpec) -> bool {
    spec.scale_target_ref.api_version.as_deref() == Some(FEDERATED_HPA_VERSION)
}

/// Decides which rules are due, and when the next one is.
pub fn decide(seen: &Seen<'_>) -> Plan {
    let mut plan = Plan::default();
    if seen.object.metadata.deletion_timestamp.is_some() {
        plan.status = seen.object.status.clone().unwrap_or_default();
        return plan;
    }
    let known = seen.object.status.as_ref().map_or(&[][..], |status| &status.execution_histories);
    for rule in &seen.object.spec.rules {
        let history = known.iter().find(|history| history.rule_name == rule.name);
        let mut next = history.cloned().unwrap_or_default();
        next.rule_name.clone_from(&rule.name);
        let planned = next.next_execution_time.take().map(|time| time.0);
        match schedule(rule, &seen.options.zone) {
            Err(message) => plan.invalid.push(Invalid { rule: rule.name.clone(), message }),
            Ok(_) if rule.suspend == Some(true) => {}
            Ok(schedule) => {
                let planned = valid(&schedule, planned, seen.now).or_else(|| schedule.next(since(seen, known)));
                let time = turn(seen, rule, &schedule, planned, &mut next, &mut plan.due);
                plan.wake = [plan.wake, time].into_iter().flatten().min();
                next.next_execution_time = time.map(Time);
            }
        }
        trim(rule, &mut next);
        plan.status.execution_histories.push(next);
    }
    plan
}

/// Adds the outcome of an execution to the status of the plan. `applied` is what was set, or why it failed.
pub fn record(seen: &Seen<'_>, plan: &mut Plan, due: &Due, applied: Result<Set, String>) {
    let rule = seen.object.spec.rules.iter().find(|rule| rule.name == due.rule);
    let history = plan.status.execution_histories.iter_mut().find(|history| history.rule_name == due.rule);
    let (Some(rule), Some(history)) = (rule, history) else { return };
    let (schedule_time, execution_time) = (Time(due.scheduled), Time(whole_second(seen.now)));
    match applied {
        Ok(set) => {
            let (replicas, min, max) = match set {
                Set::Replicas(replicas) => (Some(replicas), None, None),
                Set::Bounds { min, max } => (None, min, max),
            };
            let success = SuccessfulExecution {
                schedule_time,
                execution_time,
                applied_replicas: replicas,
                applied_min_replicas: min,
                applied_max_replicas: max,
            };
            history.successful_executions.insert(0, success);
        }
        Err(message) => {
            history.failed_executions.insert(0, FailedExecution { schedule_time, execution_time, message });
        }
    }
    trim(rule, history);
}

/// Bounds that a FederatedHPA has after the rule.
///
/// # Errors
/// The message of the failure, if the minimum exceeded the maximum.
pub fn bounds(hpa: &FederatedHPASpec, min: Option<i32>, max: Option<i32>) -> Result<(i32, i32), String> {
    let bounds = (min.or(hpa.min_replicas).unwrap_or(1), max.unwrap_or(hpa.max_replicas));
    if bounds.0 <= bounds.1 {
        return Ok(bounds);
    }
    let missing = if max.is_none() { "targetMaxReplicas" } else { "targetMinReplicas" };
    Err(format!("minReplicas {} would exceed maxReplicas {}: the rule has to set {missing}, too", bounds.0, bounds.1))
}

/// Time from which the first execution of a rule is looked for: the creation of an object that no process has handled
/// yet, otherwise now.
fn since(seen: &Seen<'_>, known: &[ExecutionHistory]) -> Timestamp {
    let created = seen.object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    created.filter(|created| known.is_empty() && *created < seen.now).unwrap_or(seen.now)
}

/// The time that was planned, unless the schedule has changed since.
fn valid(schedule: &Schedule, planned: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    planned.filter(|planned| schedule.has(*planned) && schedule.next(now).is_none_or(|next| *planned <= next))
}

/// Executes a rule whose planned time has passed, and records the times before the last one as missed. Returns the
/// next time.
fn turn(
    seen: &Seen<'_>,
    rule: &CronFederatedHPARule,
    schedule: &Schedule,
    planned: Option<Timestamp>,
    history: &mut ExecutionHistory,
    due: &mut Vec<Due>,
) -> Option<Timestamp> {
    let planned = planned?;
    if planned > seen.now {
        return Some(planned);
    }
    let last = schedule.last(planned, seen.now).unwrap_or(planned);
    let is_late = seen.now.duration_since(last) > seen.options.starting_deadline;
    let limit = limit(rule.failed_history_limit);
    let before = before(schedule, planned, last, limit);
    let missed: Vec<Timestamp> = is_late.then_some(last).into_iter().chain(before).collect();
    for time in missed.into_iter().take(limit).rev() {
        let message = "missed: no controller executed the rule in time".to_owned();
        let execution_time = Time(whole_second(seen.now));
        history.failed_executions.insert(0, FailedExecution { schedule_time: Time(time), execution_time, message });
    }
    if !is_late {
        due.push(Due { rule: rule.name.clone(), scheduled: last, set: set(&seen.object.spec, rule) });
    }
    schedule.next(last)
}

/// Times of the schedule from `planned` to before `last`, the last ones first, at most `limit`.
fn before(schedule: &Schedule, planned: Timestamp, last: Timestamp, limit: usize) -> Vec<Timestamp> {
    let mut times = Vec::new();
    let mut end = last;
    while times.len() < limit && end > planned {
        let until = end.checked_sub(SignedDuration::from_secs(1)).unwrap_or(planned);
        end = schedule.last(planned, until).unwrap_or(planned);
        times.push(end);
    }
    times
}

fn set(spec: &CronFederatedHPASpec, rule: &CronFederatedHPARule) -> Result<Set, String> {
    if is_federated_hpa(spec) {
        let (min, max) = (rule.target_min_replicas, rule.target_max_replicas);
        let is_set = min.is_some() || max.is_some();
        let missing = || "the rule sets neither targetMinReplicas nor targetMaxReplicas of the FederatedHPA".to_owned();
        return is_set.then_some(Set::Bounds { min, max }).ok_or_else(missing);
    }
    rule.target_replicas.map(Set::Replicas).ok_or_else(|| "the rule sets no targetReplicas".to_owned())
}

fn schedule(rule: &CronFederatedHPARule, local: &TimeZone) -> Result<Schedule, String> {
    let zone = match &rule.time_zone {
        None => local.clone(),
        Some(name) => ironclad_cron::time_zone(name)
            .ok_or_else(|| format!("spec.rules[{}].timeZone: unknown time zone {name}", rule.name))?,
    };
    let parsed = Schedule::parse_to_seven(&rule.schedule, zone);
    let invalid = |error| format!("spec.rules[{}].schedule {:?} is invalid: {error}", rule.name, rule.schedule);
    parsed.map(Schedule::once).map_err(invalid)
}

fn trim(rule: &CronFederatedHPARule, history: &mut ExecutionHistory) {
    history.successful_executions.truncate(limit(rule.successful_history_limit));
    history.failed_executions.truncate(limit(rule.failed_history_limit));
}

/// Executions of one kind that a history keeps.
fn limit(given: Option<i32>) -> usize {
    usize::try_from(given.unwrap_or(HISTORY_LIMIT)).unwrap_or(0)
}

/// Resolution of the wire format: two writes of one time must be equal.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).expect("the second of a timestamp is a timestamp")
}

#[cfg(test)]
mod tests;
