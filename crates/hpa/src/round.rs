//! One round of an autoscaler (specification/autoscaling.md 2): from pods and metrics to replicas, conditions, events
//! and status.
//!
use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::MetricStatus;

use crate::{
    calibration::Calibration,
    combine::{Evaluated, Failed, Readings, combine},
    conditions::{self, ScaledToZero},
    events,
    history::History,
    normalize::{Normalized, normalize},
    notice::Notice,
    options::Options,
    plan::Plan,
    pods::{Pod, PodKey},
    proposal::{Workload, propose},
    selecting::Selection,
    source::{self, Asked, Source},
    spec::Spec,
};

/// Time after the last change of the replicas during which clusters that have not arrived at their number hold up
/// scaling down. A cluster that never arrives, since its quota is used up for example, must not hold it up forever.
pub const SETTLING_MAX: jiff::SignedDuration = jiff::SignedDuration::from_secs(300);

/// Snapshot of the workload of an autoscaler.
#[derive(Debug, Clone)]
pub struct Snapshot<'a> {
    /// Replicas of the template.
    pub current: i32,
    /// The pods of the reached clusters.
    pub pods: &'a BTreeMap<PodKey, Arc<Pod>>,
    /// The selector that they were found by, or why there is none.
    pub selection: Selection,
    /// Sum of `status.replicas` of the reached members' scales.
    pub status_replicas: i64,
    /// Pods of reached clusters per replica of the template.
    pub calibration: Calibration,
    /// True while the last change of the replicas has not arrived in all reached clusters.
    pub is_settling: bool,
}

/// Way from the metrics to the replicas, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace<'a> {
    /// Each metric, in the order of the spec.
    pub metrics: Vec<Evaluated<'a>>,
    /// Name and replicas of the proposal that is used.
    pub best: Option<(String, i32)>,
    /// The limits.
    pub normalized: Option<Normalized>,
}

/// Returns true if a round asks for metrics: if the bounds alone do not decide.
#[must_use]
pub fn needs_metrics(spec: &Spec<'_>, current: i32) -> bool {
    by_bounds(spec, current).is_none()
}

/// Reason of a change up to the minimum.
const BELOW_MINIMUM: &str = "Current number of replicas below Spec.MinReplicas";

/// Decision of the bounds alone, without metrics.
enum Bound {
    /// Scaling is switched off.
    Disabled,
    /// Replicas to set, and why.
    Beyond(i32, &'static str),
}

fn by_bounds(spec: &Spec<'_>, current: i32) -> Option<Bound> {
    match current {
        // A user who scales to zero switches the autoscaler off; after its own change to zero it goes on.
        0 if !spec.leaves_zero() => Some(Bound::Disabled),
        0 => None,
        _ if current > spec.max => Some(Bound::Beyond(spec.max, "Current number of replicas above Spec.MaxReplicas")),
        _ if current < spec.min => Some(Bound::Beyond(spec.min, BELOW_MINIMUM)),
        _ => None,
    }
}

/// Decides a round. `readings` are the answers for the metrics of the spec, in its order.
pub fn decide(
    spec: &Spec<'_>,
    seen: &Snapshot<'_>,
    readings: &Readings,
    history: &History,
    options: &Options,
    now: Timestamp,
) -> Plan {
    explain(spec, seen, readings, history, options, now).0
}

/// Decides a round, and tells how.
pub fn explain<'s>(
    spec: &Spec<'s>,
    seen: &Snapshot<'_>,
    readings: &Readings,
    history: &History,
    options: &Options,
    now: Timestamp,
) -> (Plan, Trace<'s>) {
    let (mut plan, trace) = replicas(spec, seen, readings, history, options, now);
    let to_zero = seen.current > 0 && plan.desired == 0 && spec.min == 0 && spec.has_metric_without_pods();
    plan.scaled_to_zero = match spec.scaled_to_zero {
        _ if !options.scale_to_zero => ScaledToZero::Removed,
        Some(true) if seen.current > 0 && !to_zero => ScaledToZero::Outdated,
        _ => ScaledToZero::Becomes(to_zero),
    };
    (plan, trace)
}

fn replicas<'s>(
    spec: &Spec<'s>,
    seen: &Snapshot<'_>,
    readings: &Readings,
    history: &History,
    options: &Options,
    now: Timestamp,
) -> (Plan, Trace<'s>) {
    let current = seen.current;
    let mut trace = Trace { metrics: Vec::new(), best: None, normalized: None };
    let mut plan = Plan { current: Some(current), desired: current, is_complete: true, ..Plan::default() };
    plan.conditions.able = Some(conditions::GOT_SCALE);
    match by_bounds(spec, current) {
        Some(Bound::Disabled) => {
            plan.conditions.active = Some(conditions::DISABLED);
            return (plan, trace);
        }
        Some(Bound::Beyond(bound, because)) => {
            (plan.desired, plan.because) = (bound, because.to_owned());
            return (plan, trace);
        }
        None => {}
    }
    if let Err((notice, condition)) = seen.selection.usable() {
        plan.conditions.active = Some(condition);
        plan.error = Some(notice.message.clone());
        plan.events.extend([Notice::warning(events::FAILED_COMPUTE_METRICS_REPLICAS, notice.message.clone()), notice]);
        plan.is_complete = false;
        return (plan, trace);
    }
    let workload =
        Workload { current, pods: seen.pods, status_replicas: seen.status_replicas, calibration: seen.calibration };
    trace.metrics = evaluate(spec, &workload, readings, options, now);
    let failures = trace.metrics.iter().filter_map(|metric| metric.proposal.as_ref().err());
    plan.events = failures.map(|failed| Notice::warning(failed.reason, failed.message.clone())).collect();
    let combined = combine(&trace.metrics, current);
    plan.conditions.active = Some(combined.active);
    plan.error.clone_from(&combined.error);
    let Some((name, proposal)) = combined.best else {
        plan.events.extend(combined.error.map(|error| Notice::warning(events::FAILED_COMPUTE_METRICS_REPLICAS, error)));
        plan.is_complete = false;
        return (plan, trace);
    };
    plan.metrics = Some(trace.metrics.iter().map(Evaluated::status).collect());
    let holds =
        seen.is_settling && history.settling_since().is_none_or(|since| now.duration_since(since) < SETTLING_MAX);
    let normalized = normalize(proposal, current, spec, history, holds, options, now);
    plan.recommended = Some(proposal);
    plan.because =
        if proposal > current { format!("{name} above target") } else { "All metrics below target".to_owned() };
    plan.desired = normalized.desired;
    if current == 0 && proposal < spec.min {
        // The minimum was raised after the autoscaler had scaled to zero.
        (plan.desired, plan.because) = (plan.desired.max(spec.min), BELOW_MINIMUM.to_owned());
    }
    plan.conditions.able = Some(normalized.able.clone());
    plan.conditions.limited = Some(normalized.limited.clone());
    (trace.best, trace.normalized) = (Some((name, proposal)), Some(normalized));
    (plan, trace)
}

fn evaluate<'s>(
    spec: &Spec<'s>,
    workload: &Workload<'_>,
    readings: &Readings,
    options: &Options,
    now: Timestamp,
) -> Vec<Evaluated<'s>> {
    let tolerances = spec.tolerances(options);
    let unread = Err("it was not read".to_owned());
    let each = spec.metrics.iter().enumerate().map(|(index, metric)| {
        let source = match Source::of(metric, options) {
            Ok(source) => source,
            Err(invalid) => return Evaluated { source: None, proposal: Err(invalid.into()) },
        };
        let reading = readings.get(index).unwrap_or(&unread);
        let reading = reading.as_ref().map_err(|why| unreadable(&source, why));
        let proposal = reading.and_then(|reading| propose(&source, reading, workload, tolerances, options, now));
        Evaluated { source: Some(source), proposal: proposal.map_err(|why| Failed::of(&source, &why)) }
    });
    each.collect()
}

fn unreadable(source: &Source<'_>, why: &str) -> String {
    match source.asked {
        Asked::Usage { resource, .. } => format!("unable to get metrics for resource {resource}: {why}"),
        Asked::Pods(metric) => format!("unable to get metric {}: {why}", metric.name),
        Asked::Object(described, metric) => {
            format!("unable to get metric {}: {why} on {} {}", metric.name, described.kind, described.name)
        }
        Asked::External(metric) => format!("unable to get external metric {}: {why}", metric.name),
    }
}

impl Evaluated<'_> {
    fn status(&self) -> MetricStatus {
        match (&self.source, &self.proposal) {
            (Some(source), Ok(proposal)) => source.status(&proposal.current),
            _ => source::without_value(),
        }
    }
}

#[cfg(test)]
mod tests;
