//! Writes of a preemption: on each victim, and on the preemptor (specification/scheduling.md 15.7, 15.10).

use ironclad_api::{
    Condition,
    conditions::{self, TRUE, binding::PREEMPTED},
    events::{self, PREEMPT_BINDING_SUCCEED},
    eviction::{BINDING_PREEMPTED, PRODUCER_SCHEDULER},
    policy::PurgeMode,
    reasons::binding::PREEMPTED_BY_HIGHER_PRIORITY,
    work::{GracefulEvictionTask, ResourceBinding},
};
use ironclad_fleet::{
    BindingRef, Event,
    eviction_task::{self, Why},
};
use jiff::Timestamp;
use serde_json::Value;

use super::plan::{Plan, Victim};
use crate::priority::priority;

/// Seconds for which a victim does not return to the cluster that it left.
const GRACE_PERIOD_SECONDS: i32 = 300;

/// Writes on a victim.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// Merge patch of the victim, for the version that was read.
    pub patch: Value,
    /// Events on the victim and its template.
    pub events: Vec<Event>,
    /// Number of clusters that it leaves.
    pub clusters: usize,
}

/// The victim is not the one that was chosen any more; nothing may be evicted by the plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ResourceBinding {binding} changed since it was chosen as a victim: {change}")]
pub struct Stale {
    /// The victim.
    pub binding: String,
    pub change: &'static str,
}

/// Returns whether the preemptor, as it is now, still waits for what the plan frees: it is not being deleted, and its
/// status has the nomination of the plan. Victims that were not evicted by then stay.
#[must_use]
pub fn is_wanted(plan: &Plan, preemptor: Option<BindingRef<'_>>) -> bool {
    preemptor.is_some_and(|preemptor| {
        let nominated = preemptor.status().map_or(&[][..], |status| &status.nominated_clusters);
        !preemptor.is_deleting() && nominated == plan.nominated
    })
}

/// The eviction of a victim as it is now, from all clusters for which a plan chose it: one write, so that it is not
/// scheduled again in between. `None` if it has left them already.
///
/// # Errors
/// If its priority or its replicas changed, or it may not leave any more.
pub fn evict<'v>(
    victim: &ResourceBinding,
    chosen: impl IntoIterator<Item = &'v Victim>,
    preemptor: BindingRef<'_>,
    now: Timestamp,
) -> Result<Option<Eviction>, Stale> {
    let (view, spec) = (BindingRef::from(victim), &victim.spec);
    let there = chosen.into_iter().filter_map(|chosen| Some((chosen, spec.target(&chosen.cluster.0)?)));
    let there: Vec<_> = there.collect();
    if there.is_empty() {
        return Ok(None);
    }
    let stale = |change| Err(Stale { binding: view.key().to_string(), change });
    if victim.metadata.deletion_timestamp.is_some() {
        return stale("it is being deleted");
    }
    if spec.scheduling_suspended() {
        return stale("its scheduling is suspended");
    }
    if there.iter().any(|(chosen, _)| priority(spec) != chosen.priority) {
        return stale("its priority");
    }
    if there.iter().any(|(chosen, target)| target.replicas != chosen.replicas) {
        return stale("its replicas");
    }
    // `Directly`: a graceful copy would hold the capacity until the victim runs elsewhere, possibly never.
    let why = Why {
        purge_mode: PurgeMode::Directly,
        reason: BINDING_PREEMPTED,
        producer: PRODUCER_SCHEDULER,
        message: eviction_task::preempted_by(&preemptor.key(), priority(preemptor.spec())),
    };
    let task = |(chosen, _): &(&Victim, _)| {
        let task = eviction_task::dated(eviction_task::task(spec, &chosen.cluster, &why), now);
        GracefulEvictionTask { grace_period_seconds: Some(GRACE_PERIOD_SECONDS), ..task }
    };
    let tasks: Vec<GracefulEvictionTask> = there.iter().map(task).collect();
    let Some(patch) = eviction_task::patch(spec, &tasks) else { return Ok(None) };
    let about = |task: &GracefulEvictionTask| {
        let message = message(task);
        let about = [view.reference(), spec.resource.clone()];
        about.map(|about| Event::warning(about, events::BINDING_PREEMPTED, message.clone()))
    };
    Ok(Some(Eviction { patch, events: tasks.iter().flat_map(about).collect(), clusters: tasks.len() }))
}

/// Condition `Preempted` of a binding whose preemption is under way, if it differs from the present one. It is derived
/// from the task, so a crash after the eviction does not lose it.
pub(crate) fn condition(binding: BindingRef<'_>) -> Option<Condition> {
    let task = binding.spec().graceful_eviction_tasks.iter().rfind(|task| task.reason == BINDING_PREEMPTED)?;
    let mut wanted = conditions::condition(PREEMPTED, TRUE, PREEMPTED_BY_HIGHER_PRIORITY, message(task));
    wanted.last_transition_time = task.creation_timestamp.clone()?;
    let present = conditions::get(binding.status().map_or(&[][..], |status| &status.conditions), PREEMPTED);
    let is_present = present.is_some_and(|present| present.status == TRUE && present.message == wanted.message);
    (!is_present).then_some(wanted)
}

/// Message of a victim's condition and events.
fn message(task: &GracefulEvictionTask) -> String {
    let by = task.message.strip_prefix("preempted ").unwrap_or(&task.message);
    format!("preempted from cluster {} {by}", task.from_cluster)
}

/// Events on the preemptor and its template once all victims are evicted; none if there were none.
#[must_use]
pub fn succeeded(preemptor: BindingRef<'_>, plan: &Plan) -> Vec<Event> {
    if plan.victims.is_empty() {
        return Vec::new();
    }
    let message =
        format!("Preempted {} binding(s): {}", plan.bindings(), crate::decide::cut_event(&listed(plan).join(", ")));
    let about = [preemptor.reference(), preemptor.spec().resource.clone()];
    about.map(|about| Event::normal(about, PREEMPT_BINDING_SUCCEED, message.clone())).into()
}

/// Each victim as `namespace/name@cluster`.
pub(crate) fn listed(plan: &Plan) -> Vec<String> {
    plan.victims.iter().map(|victim| format!("{}@{}", victim.key, victim.cluster)).collect()
}
