//! Workloads that fail in a cluster leave it (specification/failover.md 5): unhealthy for longer than tolerated, they
//! are moved. The cluster itself may be healthy, so the task is what keeps the scheduler from choosing it again
//! (IR-20).
//!
//! Independent of the gate `Failover`. State between two decisions is in [`Memory`]; none of it is stored: after a
//! restart the aggregated status shows since when a copy is unhealthy (IR-15).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ironclad_api::{
    events::{
        APPLICATION_FAILOVER_SKIPPED, DEPENDENCIES_NOT_PROPAGATED, EVICT_WORKLOAD_FROM_CLUSTER_FAILED,
        EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED,
    },
    eviction::{APPLICATION_FAILURE, PRODUCER_APPLICATION_FAILOVER, PRODUCER_CLUSTER_APPLICATION_FAILOVER},
    policy::{ApplicationFailoverBehavior, PurgeMode},
    work::{GracefulEvictionTask, ResourceHealth},
};
use ironclad_fleet::{
    Binding, ClusterName, Clusters, Event, Plan,
    because::{eviction::NoTarget, migration::Reason},
    eviction_task::{self, Why},
};
use ironclad_scheduling::{Options, Peers};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    Now,
    flags::eviction::Check,
    preserved_state::{self, PreserveError},
    taint_manager::pre_scheduling_check::{Snapshot, has_target},
};

/// Default number of seconds that a workload may be unhealthy.
const TOLERATION_SECONDS: i32 = 300;
/// Default grace period of an old copy, in seconds.
const GRACE_PERIOD_SECONDS: i32 = 600;
/// Recheck interval of an unhealthy workload without another target.
const NO_SUBSTITUTE_RECHECK: Duration = Duration::from_secs(300);
/// A record must be older than the toleration, not as old.
const TICK: Duration = Duration::from_millis(1);

/// Monotonic time since which a binding is unhealthy, by cluster; negative where a former process saw the change.
/// A new binding of the same name starts without state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    uid: String,
    since: BTreeMap<ClusterName, SignedDuration>,
}

impl Memory {
    /// True if there is nothing to remember.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.since.is_empty()
    }
}

/// Input of the decision on one binding.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The binding, with the status that is about to be written.
    pub binding: &'a Binding,
    /// True if anything judges the health of its kind.
    pub health_is_judged: bool,
    pub clusters: &'a Clusters,
    /// A person paused evictions: nothing leaves.
    pub paused: bool,
    /// `--pre-scheduling-check`.
    pub check: Check,
    /// Flags and gates of the scheduler, which the check asks.
    pub scheduler: &'a Options,
    /// Groups of workloads; `None` while gate `WorkloadAffinity` is off.
    pub peers: Option<&'a Peers>,
    /// Gate `StatefulFailoverInjection`.
    pub state_injection: bool,
    /// State kept from the previous decision.
    pub memory: &'a Memory,
    /// Start of this process: earlier changes of health were seen by a former process.
    pub began: Timestamp,
    /// Since when the binding asks for application failover, if this process saw it begin to: monotonic time since the
    /// origin of the memory. Failures before the request do not evict.
    pub asked: Option<Duration>,
    /// The same time as stored in the binding, if the request is younger than the binding: also from before this
    /// process.
    pub asked_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A merge patch of the binding, on the version seen.
    Depart {
        /// Without resourceVersion.
        patch: Value,
    },
    /// Tell people.
    Event(Event),
}

/// Next reconcile, apart from changes of the binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Changes alone.
    OnEvent,
    /// After this long.
    After(Duration),
    /// With backoff.
    Backoff,
}

/// Outcome of a reconcile.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision that nobody applies changes nothing"]
pub struct Decision {
    /// Effects, in this order, and their reasons.
    pub plan: Plan<Effect>,
    /// State for the next decision, whether or not the writes succeed.
    pub memory: Memory,
    /// Next reconcile.
    pub next: Next,
}

/// Decides on one binding; monotonic time counts from the origin of its memory.
pub fn decide(seen: &Seen<'_>, now: Now) -> Decision {
    let mut decision = Decision { plan: Plan::default(), memory: Memory::default(), next: Next::OnEvent };
    let spec = seen.binding.spec();
    let Some(application) = watched(seen) else {
        decision.plan.note(Reason::NotWatched.into());
        return decision;
    };
    let uid = seen.binding.uid();
    // A missing report is neither healthy nor unhealthy.
    let silent = spec.clusters.iter().map(|target| ClusterName::from(target.name.as_str())).filter(|cluster| {
        !lines(seen.binding).any(|(name, _)| *name == *cluster.0) && spec.eviction(&cluster.0).is_none()
    });
    let remembered = silent.filter_map(|cluster| Some((known(seen, &cluster)?, cluster)));
    let mut since: BTreeMap<ClusterName, SignedDuration> = remembered.map(|(at, cluster)| (cluster, at)).collect();
    let tolerated = tolerated(application);
    let mut due = Vec::new();
    for failure in failures(seen, now) {
        since.insert(failure.cluster.clone(), failure.since);
        if failure.is_due(tolerated) {
            due.push(failure.cluster);
            continue;
        }
        decision.next = sooner(decision.next, tolerated - failure.lasted + TICK);
        let (for_seconds, of_seconds) = (failure.lasted.as_secs(), tolerated.as_secs());
        decision.plan.note(Reason::UnhealthyTolerated { cluster: failure.cluster, for_seconds, of_seconds }.into());
    }
    if !since.is_empty() {
        decision.memory = Memory { uid: uid.to_owned(), since };
    }
    if seen.paused {
        for cluster in due {
            let reason = Reason::Paused { cluster };
            record_event(seen, APPLICATION_FAILOVER_SKIPPED, &reason.to_string(), Event::warning, &mut decision);
            decision.plan.note(reason.into());
        }
    } else if !due.is_empty() {
        depart(seen, application, &due, tolerated, now.wall, &mut decision);
    }
    decision
}

/// Clusters that a binding is about to leave whatever its groups of workloads say: it is unhealthy there for too long,
/// and another cluster can take it. The other members of its groups need not stay there with it.
#[must_use]
pub fn leaving(seen: &Seen<'_>, now: Now) -> BTreeSet<ClusterName> {
    let Some(application) = watched(seen) else { return BTreeSet::new() };
    let tolerated = tolerated(application);
    let due: Vec<ClusterName> = failures(seen, now)
        .into_iter()
        .filter(|failure| failure.is_due(tolerated))
        .map(|failure| failure.cluster)
        .collect();
    with_substitute(&Seen { peers: None, ..*seen }, &due, now.wall).0.into_iter().collect()
}

/// A copy that is unhealthy.
struct UnhealthyCopy {
    /// Since the origin of the memory.
    since: SignedDuration,
    lasted: Duration,
    cluster: ClusterName,
}

impl UnhealthyCopy {
    fn is_due(&self, tolerated: Duration) -> bool {
        self.lasted > tolerated || tolerated.is_zero()
    }
}

/// Unhealthy copies. If not all may be evicted, those that are unhealthy for longest are evicted first, so they come
/// first.
fn failures(seen: &Seen<'_>, now: Now) -> Vec<UnhealthyCopy> {
    let mono = SignedDuration::try_from(now.mono).unwrap_or(SignedDuration::MAX);
    let asked = seen.asked.and_then(|asked| SignedDuration::try_from(asked).ok()).unwrap_or(SignedDuration::MIN);
    let copy = |cluster: ClusterName| {
        let at = known(seen, &cluster).unwrap_or_else(|| mono - lasted_before(seen, &cluster, now.wall));
        let since = at.max(asked).min(mono);
        UnhealthyCopy { since, lasted: Duration::try_from(mono - since).unwrap_or_default(), cluster }
    };
    let mut copies: Vec<UnhealthyCopy> = unhealthy(seen.binding).into_iter().map(copy).collect();
    copies.sort_by(|a, b| (a.since, &a.cluster).cmp(&(b.since, &b.cluster)));
    copies
}

/// Since when an earlier decision knows that the copy is unhealthy.
fn known(seen: &Seen<'_>, cluster: &ClusterName) -> Option<SignedDuration> {
    seen.memory.since.get(cluster).filter(|_| seen.memory.uid == seen.binding.uid()).copied()
}

/// Time for which an unhealthy copy stays.
fn tolerated(application: &ApplicationFailoverBehavior) -> Duration {
    let seconds = application.decision_conditions.toleration_seconds.unwrap_or(TOLERATION_SECONDS);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Age of a failure that this process has not seen yet: by the status, if the health changed before the process
/// started, else zero; at most since failover was requested. Stored times have whole seconds, so the wait is never too
/// short.
fn lasted_before(seen: &Seen<'_>, cluster: &ClusterName, now: Timestamp) -> SignedDuration {
    let status = seen.binding.status().map(|status| status.aggregated_status.as_slice()).unwrap_or_default();
    let line = status.iter().find(|line| *line.cluster_name == *cluster.0);
    let turned = line.and_then(|line| line.health_transition_time.as_ref()).map(|time| time.0);
    let Some(turned) = turned.filter(|turned| *turned < seen.began) else { return SignedDuration::ZERO };
    let counts = seen.asked_at.map_or(turned, |asked| asked.max(turned));
    now.duration_since(counts).saturating_sub(SignedDuration::from_secs(1)).max(SignedDuration::ZERO)
}

/// The behaviour, if the binding requests one and its health is reported (5.2).
fn watched<'a>(seen: &Seen<'a>) -> Option<&'a ApplicationFailoverBehavior> {
    let binding = seen.binding;
    let reported = binding.status().is_some_and(|status| !status.aggregated_status.is_empty());
    let alive = binding.metadata().deletion_timestamp.is_none();
    binding.spec().failover.as_ref()?.application.as_ref().filter(|_| reported && alive && seen.health_is_judged)
}

fn lines(binding: &Binding) -> impl Iterator<Item = (&str, Option<ResourceHealth>)> {
    let lines = binding.status().map(|status| status.aggregated_status.as_slice()).unwrap_or_default();
    lines.iter().map(|line| (line.cluster_name.as_str(), line.health))
}

/// Targets that are reported unhealthy and not being evicted yet.
fn unhealthy(binding: &Binding) -> Vec<ClusterName> {
    let spec = binding.spec();
    lines(binding)
        .filter(|(_, health)| *health == Some(ResourceHealth::Unhealthy))
        .filter(|(name, _)| spec.target(name).is_some() && spec.eviction(name).is_none())
        .map(|(name, _)| ClusterName::from(name))
        .collect()
}

fn depart(
    seen: &Seen<'_>,
    application: &ApplicationFailoverBehavior,
    due: &[ClusterName],
    tolerated: Duration,
    now: Timestamp,
    decision: &mut Decision,
) {
    let spec = seen.binding.spec();
    let (going, staying) = with_substitute(seen, due, now);
    for cluster in staying {
        let reason = Reason::NoSubstitute { cluster };
        record_event(seen, APPLICATION_FAILOVER_SKIPPED, &reason.to_string(), Event::warning, decision);
        decision.plan.note(reason.into());
        decision.next = sooner(decision.next, NO_SUBSTITUTE_RECHECK);
    }
    let mut tasks = Vec::new();
    for cluster in going {
        match task(seen, application, &cluster, tolerated) {
            Ok(task) => {
                tasks.push(eviction_task::dated(task, now));
                decision.plan.note(Reason::UnhealthyTooLong { cluster }.into());
            }
            Err(error) => {
                let error = with_sources(&error);
                record_event(seen, EVICT_WORKLOAD_FROM_CLUSTER_FAILED, &error, Event::warning, decision);
                decision.plan.note(Reason::StateUnreadable { cluster, error }.into());
                decision.next = Next::Backoff;
            }
        }
    }
    if let Some(patch) = eviction_task::patch(spec, &tasks) {
        decision.plan.effects.push(Effect::Depart { patch });
        for task in &tasks {
            let message = format!("Evict from cluster {} succeed.", task.from_cluster);
            record_event(seen, EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED, &message, Event::normal, decision);
        }
        if !spec.propagate_deps && matches!(seen.binding, Binding::Namespaced(_)) {
            let message =
                "application failover is set and propagateDeps is not: what the workload refers to stays behind";
            record_event(seen, DEPENDENCIES_NOT_PROPAGATED, message, Event::warning, decision);
        }
    }
}

/// Clusters that may be left (IR-16): those that the check lets the workload leave. Of several copies one that can't be
/// replaced may leave, too, but not below `minGroups`. Switched off, the check guards the last copies all the same.
fn with_substitute(seen: &Seen<'_>, due: &[ClusterName], now: Timestamp) -> (Vec<ClusterName>, Vec<ClusterName>) {
    let all_due = due.len() >= seen.binding.spec().clusters.len();
    let check = match seen.check {
        Check::Off if all_due => Check::Relaxed,
        check => check,
    };
    let snapshot = Snapshot { clusters: seen.clusters, scheduler: seen.scheduler, peers: seen.peers, now };
    let may_leave = |left: &BTreeSet<ClusterName>| match has_target(seen.binding, left, &snapshot, check) {
        Ok(()) => true,
        Err(NoTarget::AllInUse { .. } | NoTarget::NoSpreadConstraint) => !all_due,
        Err(_) => false,
    };
    let (mut left, mut going, mut staying) = (BTreeSet::new(), Vec::new(), Vec::new());
    for cluster in due {
        left.insert(cluster.clone());
        if may_leave(&left) {
            going.push(cluster.clone());
        } else {
            left.remove(cluster);
            staying.push(cluster.clone());
        }
    }
    (going, staying)
}

fn task(
    seen: &Seen<'_>,
    application: &ApplicationFailoverBehavior,
    cluster: &ClusterName,
    tolerated: Duration,
) -> Result<GracefulEvictionTask, PreserveError> {
    let spec = seen.binding.spec();
    let purge_mode = application.purge_mode();
    let producer = match seen.binding {
        Binding::Namespaced(_) => PRODUCER_APPLICATION_FAILOVER,
        Binding::Cluster(_) => PRODUCER_CLUSTER_APPLICATION_FAILOVER,
    };
    let message = format!("unhealthy in cluster {cluster} for more than {} s", tolerated.as_secs());
    let mut task =
        eviction_task::task(spec, cluster, &Why { purge_mode, reason: APPLICATION_FAILURE, producer, message });
    match purge_mode {
        PurgeMode::Gracefully => {
            task.grace_period_seconds = Some(application.grace_period_seconds.unwrap_or(GRACE_PERIOD_SECONDS));
        }
        PurgeMode::Never => task.suppress_deletion = Some(true),
        PurgeMode::Directly => {}
    }
    if let Some(rules) = application.state_preservation.as_ref().filter(|_| seen.state_injection) {
        let status = seen.binding.status().map(|status| status.aggregated_status.as_slice()).unwrap_or_default();
        let previous = spec.graceful_eviction_tasks.last();
        task.preserved_label_state = preserved_state::collect(rules, cluster, status, previous)?;
        task.clusters_before_failover = spec.clusters.iter().map(|target| target.name.clone()).collect();
    }
    Ok(task)
}

type MakeEvent = fn(ironclad_api::work::ObjectReference, &'static str, String) -> Event;

fn record_event(seen: &Seen<'_>, reason: &'static str, message: &str, make: MakeEvent, decision: &mut Decision) {
    for about in [seen.binding.reference(), seen.binding.spec().resource.clone()] {
        decision.plan.effects.push(Effect::Event(make(about, reason, message.to_owned())));
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

fn sooner(next: Next, wait: Duration) -> Next {
    match next {
        Next::OnEvent => Next::After(wait),
        Next::After(other) => Next::After(other.min(wait)),
        Next::Backoff => Next::Backoff,
    }
}

#[cfg(test)]
mod tests;
