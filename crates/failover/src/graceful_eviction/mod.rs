//! End of eviction tasks: which evicted copies may be deleted, and the next reconcile (specification/failover.md 7).
//!
//! A task ends when its cluster is a target again, when the replacements are healthy, or when the user's
//! `gracePeriodSeconds` expired. An empty schedule result keeps the copy indefinitely: it may be the only one (7.6).
//! This decides on tasks only: the Work of an ended task is an orphan, which the binding controller deletes.

mod plugins;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    Time,
    cluster::Cluster,
    conditions::{self, binding::EVICTION_PENDING},
    events::{EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, WAITING_FOR_SOURCE_CLEANUP},
    eviction::BINDING_PREEMPTED,
    policy::PurgeMode,
    work::{AggregatedStatusItem, FailoverRecord, GracefulEvictionTask, ResourceBinding, ResourceBindingSpec, Work},
};
use ironclad_fleet::{
    Binding, BindingKey, BindingRef, ClusterName, Event, Plan, StatusPart, because::migration::Reason, eviction_task,
    not_ready, targets,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use plugins::{CLUSTER_IN_SCHEDULE_RESULT, Plugin, Plugins, RESOURCE_HEALTH, UnknownPlugin, runs_own_replicas};

use crate::eviction_history;

/// Input of the decision on one binding.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The binding; its version is the one to write over.
    pub binding: Binding,
    /// The clusters of the result and of the tasks that are not Ready, or not there.
    pub not_ready: BTreeSet<ClusterName>,
    /// The clusters that hold a Work of the binding.
    pub copies: BTreeSet<ClusterName>,
    /// Those of them whose copy does not run the replicas that the scheduler gave it: see [`runs_own_replicas`].
    pub own_replicas: BTreeSet<ClusterName>,
    /// Those of the preemptors that tasks name which gave up ([`has_given_up`]).
    pub gone_preemptors: BTreeSet<BindingKey>,
    /// True if condition `EvictionPending` is set although no taint manager runs that would remove it.
    pub stale_pending: bool,
}

impl Snapshot {
    /// Snapshot of a binding with its Works, by cluster, over the clusters and the other bindings that are there.
    pub fn new<'a>(
        binding: Binding,
        works: impl IntoIterator<Item = (ClusterName, &'a Work)>,
        cluster: impl Fn(&ClusterName) -> Option<Arc<Cluster>>,
        preemptor: impl Fn(&BindingKey) -> Option<Arc<ResourceBinding>>,
    ) -> Self {
        let spec = binding.spec();
        let tasks = &spec.graceful_eviction_tasks;
        let targets = spec.clusters.iter().map(|target| target.name.as_str());
        let left = tasks.iter().map(|task| task.from_cluster.as_str());
        let not_ready = not_ready(targets.chain(left).map(ClusterName::from), cluster);
        let (mut copies, mut own_replicas) = (BTreeSet::new(), BTreeSet::new());
        for (cluster, work) in works {
            if spec.target(&cluster.0).is_some_and(|target| runs_own_replicas(work, target.replicas)) {
                own_replicas.insert(cluster.clone());
            }
            copies.insert(cluster);
        }
        let is_gone = |key: &BindingKey| has_given_up(preemptor(key).as_deref().map(BindingRef::from));
        let gone_preemptors = tasks.iter().filter_map(eviction_task::preemptor).filter(is_gone).collect();
        Self { binding, not_ready, copies, own_replicas, gone_preemptors, stale_pending: false }
    }

    fn spec(&self) -> &ResourceBindingSpec {
        self.binding.spec()
    }

    /// `status.aggregatedStatus`.
    fn reports(&self) -> &[AggregatedStatusItem] {
        self.binding.status().map_or(&[], |status| &status.aggregated_status)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A merge patch of the binding's task list, on the version seen.
    Tasks {
        /// Without resourceVersion.
        patch: Value,
    },
    /// A part of the binding's status: how the migrations that end here went (14.4).
    Status(StatusPart),
    /// Tell people.
    Event(Event),
}

/// Outcome of a reconcile.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody applies changes nothing"]
pub struct Decision {
    /// Effects, and for every task the reason why it remains or ends.
    pub plan: Plan<Effect>,
    /// Tasks that end, each with the plugin or rule that ended it.
    pub cleared: Vec<Cleared>,
    /// End of a grace period, or time of the next event.
    pub next: Option<Timestamp>,
}

/// A task that ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleared {
    pub task: GracefulEvictionTask,
    /// The plugin or rule, as metrics name it.
    pub by: &'static str,
}

/// Returns whether a preemptor needs no capacity any more: it is deleted or being deleted, or not scheduled.
#[must_use]
pub fn has_given_up(preemptor: Option<BindingRef<'_>>) -> bool {
    preemptor.is_none_or(|preemptor| preemptor.is_deleting() || preemptor.spec().scheduling_suspended())
}

/// Assesses every task of a binding on its own, by the plugins of `--evict-plugins`. `now` is in whole seconds.
pub fn decide(seen: &Snapshot, plugins: &Plugins, now: Timestamp) -> Decision {
    let mut decision = Decision { plan: Plan::default(), cleared: Vec::new(), next: None };
    let mut kept = Vec::new();
    let mut changed = false;
    if seen.stale_pending {
        let none = conditions::condition(EVICTION_PENDING, "", "", "");
        decision.plan.push(Effect::Status(StatusPart::condition(none)), Reason::NothingPends.into());
    }
    for task in &seen.spec().graceful_eviction_tasks {
        let from = ClusterName::from(task.from_cluster.as_str());
        match assess(task, &from, seen, plugins, now) {
            Verdict::Begin => {
                changed = true;
                let grace = task.grace_period_seconds.map(|s| deadline(now, s));
                decision.next = earlier(decision.next, grace);
                kept.push(GracefulEvictionTask { creation_timestamp: Some(Time(now)), ..task.clone() });
                decision.plan.note(Reason::TaskBegins { from }.into());
            }
            Verdict::Keep { until, because } => {
                decision.next = earlier(decision.next, until);
                kept.push(task.clone());
                decision.plan.note(because.into());
                waits_for_source(task, &from, seen, now, &mut decision);
            }
            Verdict::Clear { by, because } => {
                changed = true;
                decision.cleared.push(Cleared { task: task.clone(), by });
                decision.plan.note(because.into());
            }
        }
    }
    if changed {
        decision.plan.effects.push(Effect::Tasks { patch: eviction_task::tasks_patch(&kept) });
    }
    if let Some(part) = history_with(seen, &decision.cleared, now) {
        decision.plan.effects.push(Effect::Status(part));
    }
    for cleared in &decision.cleared {
        let message =
            format!("Evict from cluster {} succeed. Its task ended by {}.", cleared.task.from_cluster, cleared.by);
        for about in [&seen.binding.view().reference(), &seen.spec().resource] {
            let event = Event::normal(about.clone(), EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, message.clone());
            decision.plan.effects.push(Effect::Event(event));
        }
    }
    decision
}

/// Records of the ending migrations for the binding's status: those by taints have one already, others get one.
fn history_with(seen: &Snapshot, cleared: &[Cleared], now: Timestamp) -> Option<StatusPart> {
    let mut history = seen.binding.status().map(|status| status.failover_history.clone()).unwrap_or_default();
    for Cleared { task, .. } in cleared {
        let open = |record: &&FailoverRecord| record.from == task.from_cluster && record.cleared_at.is_none();
        let open_record = history.iter().rev().find(open).cloned();
        let record = open_record.unwrap_or_else(|| FailoverRecord {
            from: task.from_cluster.clone(),
            reason: task.reason.clone(),
            evicted_at: task.creation_timestamp.clone(),
            original_clusters: task.clusters_before_failover.clone(),
            ..FailoverRecord::default()
        });
        let targets = seen.spec().clusters.iter().map(|target| target.name.clone()).collect();
        let record = FailoverRecord { targets, cleared_at: Some(Time(now)), ..record };
        history = serde_json::from_value(eviction_history::recorded(&history, record)).ok()?;
    }
    let mut part = StatusPart::default();
    if !cleared.is_empty() {
        part.fields.insert("failoverHistory".into(), serde_json::to_value(history).ok()?);
    }
    (!part.is_empty()).then_some(part)
}

/// Interval of events about a source that can't be cleaned.
const SOURCE_REPORT_INTERVAL: SignedDuration = SignedDuration::from_mins(5);

/// Records an event every five minutes that nothing starts because a lost cluster can't remove its copy (4.4).
fn waits_for_source(
    task: &GracefulEvictionTask,
    from: &ClusterName,
    seen: &Snapshot,
    now: Timestamp,
    decision: &mut Decision,
) {
    let directly = task.purge_mode == Some(PurgeMode::Directly) && seen.spec().target(&task.from_cluster).is_none();
    let has_copy = seen.copies.contains(from) && seen.not_ready.contains(from);
    let Some(begun) = task.creation_timestamp.as_ref().filter(|_| directly && has_copy) else { return };
    if !targets::waits_for_source(seen.spec(), seen.binding.metadata(), false) {
        return;
    }
    let reported = now.duration_since(begun.0).as_secs().max(0) / SOURCE_REPORT_INTERVAL.as_secs();
    let reason = Reason::WaitsForSource { from: from.clone(), minutes: reported * SOURCE_REPORT_INTERVAL.as_mins() };
    for about in [&seen.binding.view().reference(), &seen.spec().resource] {
        let event = Event::warning(about.clone(), WAITING_FOR_SOURCE_CLEANUP, reason.to_string());
        decision.plan.effects.push(Effect::Event(event));
    }
    decision.plan.note(reason.into());
    let again = SignedDuration::from_secs((reported + 1) * SOURCE_REPORT_INTERVAL.as_secs());
    decision.next = earlier(decision.next, begun.0.checked_add(again).ok());
}

enum Verdict {
    Begin,
    Keep { until: Option<Timestamp>, because: Reason },
    Clear { by: &'static str, because: Reason },
}

/// The steps of 7.3, in order.
fn assess(
    task: &GracefulEvictionTask,
    from: &ClusterName,
    seen: &Snapshot,
    plugins: &Plugins,
    now: Timestamp,
) -> Verdict {
    let from = || from.clone();
    let Some(begun) = &task.creation_timestamp else { return Verdict::Begin };
    let grace = task.grace_period_seconds.map(|seconds| deadline(begun.0, seconds));
    let grace_over = grace.is_some_and(|until| now >= until);
    match task.suppress_deletion {
        Some(true) => return Verdict::Keep { until: None, because: Reason::Suppressed { from: from() } },
        Some(false) => return Verdict::Clear { by: "suppressDeletion", because: Reason::Released { from: from() } },
        None => {}
    }
    let placement = plugins.iter().filter(|plugin| !plugin.needs_current_result());
    if let Some(by) = passing(placement, task, seen) {
        return Verdict::Clear { by, because: Reason::Cleared { from: from(), by } };
    }
    // The Work of a preempted binding does not exist, so no copy is at stake: it may return to the cluster.
    if eviction_task::preemptor(task).is_some_and(|preemptor| seen.gone_preemptors.contains(&preemptor)) {
        return Verdict::Clear { by: PREEMPTOR_DELETED, because: Reason::PreemptorDeleted { from: from() } };
    }
    if task.reason == BINDING_PREEMPTED && grace_over {
        return Verdict::Clear { by: GRACE_PERIOD, because: Reason::GraceEnded { from: from() } };
    }
    if seen.binding.view().observed_generation() != seen.binding.view().generation() {
        return Verdict::Keep { until: running(grace, now), because: Reason::SchedulerLags { from: from() } };
    }
    if seen.spec().clusters.is_empty() {
        return Verdict::Keep { until: running(grace, now), because: Reason::ResultEmpty { from: from() } };
    }
    let health = plugins.iter().filter(|plugin| plugin.needs_current_result());
    if let Some(by) = passing(health, task, seen) {
        return Verdict::Clear { by, because: Reason::Cleared { from: from(), by } };
    }
    if grace_over {
        return Verdict::Clear { by: GRACE_PERIOD, because: Reason::GraceEnded { from: from() } };
    }
    Verdict::Keep { until: grace, because: Reason::ReplacementNotReady { from: from(), until: grace } }
}

/// Clearer of a task in metrics and events, if its own grace period ended it.
const GRACE_PERIOD: &str = "gracePeriodSeconds";
/// Clearer of a task whose preemptor is deleted.
const PREEMPTOR_DELETED: &str = "preemptorDeleted";

fn passing<'a>(
    mut plugins: impl Iterator<Item = &'a dyn Plugin>,
    task: &GracefulEvictionTask,
    seen: &Snapshot,
) -> Option<&'static str> {
    plugins.find(|plugin| plugin.can_clear(task, seen)).map(Plugin::name)
}

fn deadline(begun: Timestamp, seconds: i32) -> Timestamp {
    begun.saturating_add(SignedDuration::from_secs(i64::from(seconds))).unwrap_or(Timestamp::MAX)
}

/// A deadline in the past needs no timer: an event has to come first.
fn running(grace: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    grace.filter(|until| *until > now)
}

fn earlier(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests;
