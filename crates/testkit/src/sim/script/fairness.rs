//! The end of a run in which capacity was scarce: who waits may wait, and nothing is left of preemptions
//! (specification/scheduling.md 15; specification/proposals/002.md).
//!
//! Capacity is counted by the nodes and pods of members.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    conditions::{self, FALSE, binding::SCHEDULED},
    eviction::BINDING_PREEMPTED,
    policy::PurgeMode,
    reasons::binding::UNSCHEDULABLE,
    work::{GracefulEvictionTask, PreemptionPolicy, ResourceBinding},
};
use ironclad_fleet::{BindingKey, ClusterName, World as Fleet};
use ironclad_scheduling::preempt::Mode;

use super::{App, Peers, Shortage, Spread};
use crate::sim::{
    World,
    checker::{
        capacity::{self, priority},
        machines::{self, Machines},
    },
};

pub(super) type AllMachines = BTreeMap<ClusterName, Machines>;

/// Checks all workloads that request capacity.
pub(super) fn check(world: &World, apps: &[App], shortage: &Shortage) -> anyhow::Result<()> {
    // One after the other: both are parts of one state.
    let machines = world.model.ask(|checker| checker.machines().clone());
    world.model.look(|fleet| check_in(fleet, &machines, apps, shortage))
}

fn check_in(fleet: &Fleet, machines: &AllMachines, apps: &[App], shortage: &Shortage) -> anyhow::Result<()> {
    let sized: Vec<(&App, &ResourceBinding)> = apps
        .iter()
        .filter(|app| app.exists && app.cpu > 0)
        .map(|app| {
            let key = BindingKey { namespace: "default".into(), name: app.binding().into() };
            Ok((app, &**fleet.bindings.get(&key).with_context(|| format!("{} has no binding", app.name))?))
        })
        .collect::<anyhow::Result<_>>()?;
    for name in fleet.clusters.keys() {
        let promised = capacity::promised(fleet, name);
        // The member's own scheduler may not find nodes for all of it.
        let all = machines.get(name).map_or(0, |machines| machines.millicores() + machines.waiting());
        ensure!(promised <= all, "{promised}m of {all}m are promised in {name}");
    }
    let of: BTreeMap<&str, &App> = sized.iter().map(|(app, _)| (&*app.name, *app)).collect();
    // What is still held explains why others wait.
    for (app, binding) in &sized {
        let clusters = binding.spec.graceful_eviction_tasks.iter().map(|task| ClusterName::from(&*task.from_cluster));
        let holders = || clusters.map(|name| format!("{name}: {}", capacity::holders(fleet, &name)));
        // A task waits until the workload runs elsewhere, and it may find no node there.
        let is_short = machines.values().any(|machines| machines.is_short_of(&app.name, app.cpu));
        rests(app, binding, is_short).with_context(|| holders().collect::<Vec<_>>().join("\n"))?;
    }
    for (app, binding) in &sized {
        if let Some(why) = waits(app, binding) {
            let why = why.with_context(|| format!("{app}"))?;
            waits_rightly(fleet, machines, &of, app, binding, why, shortage).with_context(|| format!("{app}"))?;
        }
    }
    Ok(())
}

/// Workloads without replicas that wait although nodes have room for them, in clusters in which everything that was
/// placed has arrived. Groups and quotas may have other reasons.
pub(super) fn idle(world: &World, apps: &[App]) -> BTreeSet<String> {
    if world.model.ask(|checker| checker.has_quotas()) {
        return BTreeSet::new();
    }
    let machines = world.model.ask(|checker| checker.machines().clone());
    let of =
        |fleet: &Fleet| apps.iter().filter(|app| is_idle(fleet, &machines, app)).map(|app| app.name.clone()).collect();
    world.model.look(of)
}

fn is_idle(fleet: &Fleet, machines: &AllMachines, app: &App) -> bool {
    let key = BindingKey { namespace: "default".into(), name: app.binding().into() };
    let Some(binding) = fleet.bindings.get(&key) else { return false };
    let spec = &binding.spec;
    let is_asked = app.exists && app.cpu > 0 && app.peers == Peers::None && app.spread != Spread::OneZone;
    let is_known = spec.replicas == app.replicas && capacity::cpu(spec) == app.cpu;
    let waits = spec.clusters.is_empty() && app.replicas > 0 && !spec.scheduling_suspended();
    if !is_asked || !is_known || !waits || binding.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let allowed = |name: &str| app.affinity.is_empty() || app.affinity.iter().any(|allowed| allowed == name);
    let counts = fleet.clusters.iter().filter(|(name, _)| allowed(&name.0)).filter_map(|(name, cluster)| {
        let there = machines.get(name).filter(|there| there.are_settled())?;
        let has_arrived = |other: &ResourceBinding| {
            let placed = other.spec.target(&name.0).map_or(0, |target| target.replicas);
            usize::try_from(placed).is_ok_and(|placed| placed == there.pods_of(&other.spec.resource.name))
        };
        let is_held = |other: &ResourceBinding| {
            let nominated = other.status.iter().flat_map(|status| &status.nominated_clusters);
            nominated.into_iter().any(|held| held.name == *name.0)
        };
        let is_open = cluster.is_ready() && cluster.spec.taints.is_empty() && spec.eviction(&name.0).is_none();
        let is_known = is_open && fleet.bindings.values().all(|other| has_arrived(other) && !is_held(other));
        is_known.then(|| machines::fits(there.free(&|_| false), app.cpu))
    });
    fits(app, counts) >= i64::from(app.replicas)
}

/// No task but those that keep the last copies, no nomination; condition `Preempted` only while something is missing.
fn rests(app: &App, binding: &ResourceBinding, is_short: bool) -> anyhow::Result<()> {
    let (spec, status) = (&binding.spec, binding.status.clone().unwrap_or_default());
    let tasks = spec.graceful_eviction_tasks.len() - kept_copies(binding).count();
    ensure!(tasks == 0 || is_short, "{} has tasks: {:?}", app.name, spec.graceful_eviction_tasks);
    let held = &status.nominated_clusters;
    ensure!(held.is_empty(), "capacity is still held for {}: {held:?}", app.name);
    let preempted = conditions::get(&status.conditions, conditions::binding::PREEMPTED);
    let whole = placed(binding) == app.replicas;
    ensure!(!whole || preempted.is_none(), "{} has all its replicas and condition Preempted", app.name);
    Ok(())
}

/// Tasks that keep copies of a workload that waits (docs/decisions/0185): it was evicted, and before it ran elsewhere
/// as a whole, its other clusters were taken by a higher priority.
pub(super) fn kept_copies(binding: &ResourceBinding) -> impl Iterator<Item = &GracefulEvictionTask> {
    let tasks = binding.spec.graceful_eviction_tasks.iter().filter(|_| placed(binding) < binding.spec.replicas);
    tasks.filter(|task| task.purge_mode == Some(PurgeMode::Gracefully) && task.reason != BINDING_PREEMPTED)
}

fn placed(binding: &ResourceBinding) -> i32 {
    binding.spec.clusters.iter().map(|target| target.replicas).sum()
}

/// The message of condition `Scheduled` of a workload that waits; `None` if it waits for nothing.
pub(super) fn waits<'a>(app: &App, binding: &'a ResourceBinding) -> Option<anyhow::Result<&'a str>> {
    if placed(binding) == app.replicas {
        return None;
    }
    let conditions = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let scheduled = conditions::get(conditions, SCHEDULED).filter(|condition| condition.status == FALSE);
    // Groups may leave no cluster at all.
    let capacity = |reason: &str| reason == UNSCHEDULABLE || app.peers != Peers::None;
    Some(match scheduled {
        Some(scheduled) if capacity(&scheduled.reason) => Ok(&scheduled.message),
        scheduled => Err(anyhow::anyhow!("it has {} replicas and no reason to wait: {scheduled:?}", placed(binding))),
    })
}

/// Replicas that a workload without any could place if so many fitted into each of its clusters.
fn fits(app: &App, counts: impl Iterator<Item = i64>) -> i64 {
    let mut counts: Vec<i64> = counts.collect();
    counts.sort_unstable();
    let at_most = if let Spread::Divided(n) = app.spread { n } else { counts.len() };
    counts.iter().rev().take(at_most).sum()
}

/// Returns an error if a workload waits for capacity that is free, or that a lower priority holds, and no limit
/// explains it.
fn waits_rightly(
    fleet: &Fleet,
    machines: &AllMachines,
    of: &BTreeMap<&str, &App>,
    app: &App,
    binding: &ResourceBinding,
    why: &str,
    shortage: &Shortage,
) -> anyhow::Result<()> {
    if app.peers != Peers::None || app.spread == Spread::OneZone || !binding.spec.clusters.is_empty() {
        return Ok(());
    }
    let allowed = |name: &str| app.affinity.is_empty() || app.affinity.iter().any(|allowed| allowed == name);
    let clusters = || fleet.clusters.keys().filter(|name| allowed(&name.0));
    let free = |name: &ClusterName, left: &dyn Fn(&str) -> bool| {
        machines.get(name).map_or_else(Vec::new, |machines| machines.free(left))
    };
    let counts = |name: &ClusterName, left: &dyn Fn(&str) -> bool| machines::fits(free(name, left), app.cpu);
    let wanted = i64::from(app.replicas);
    let now = fits(app, clusters().map(|name| counts(name, &|_| false)));
    let shown = || -> Vec<String> {
        clusters().map(|name| format!("{name}: {:?}m free by node", free(name, &|_| false))).collect()
    };
    ensure!(now < wanted, "it waits although {now} replicas fit ({}): {why}", shown().join(", "));
    let resolved = binding.spec.schedule_priority.as_ref();
    let may_preempt = resolved.and_then(|p| p.preemption_policy) == Some(PreemptionPolicy::PreemptLowerPriority);
    let limited = why.contains("victim limit exceeded") || why.contains("made no progress");
    if shortage.mode != Mode::Evict || !may_preempt || limited {
        return Ok(());
    }
    let lower = |other: &&std::sync::Arc<ResourceBinding>| {
        let grouped = of.get(&*other.spec.resource.name).is_some_and(|app| app.peers != Peers::None);
        priority(&other.spec) < priority(&binding.spec) && !grouped
    };
    let after = |name: &ClusterName| {
        let there = fleet.bindings.values().filter(lower).filter(|b| b.spec.target(&name.0).is_some());
        let lower: Vec<&str> = there.map(|b| &*b.spec.resource.name).collect();
        let left: &dyn Fn(&str) -> bool = &|other| lower.contains(&other);
        let free = machines.get(name).map_or_else(Vec::new, |machines| machines.free_beside_waiting(left));
        machines::fits(free, app.cpu)
    };
    let after = fits(app, clusters().map(after));
    ensure!(after < wanted, "lower priorities hold what it waits for, {after} replicas: {why}");
    Ok(())
}
