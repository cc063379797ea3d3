//! `plan cluster-loss` and `plan taint`: who leaves, when, and where each ends is what then happens
//! (specification/failover.md 13, invariant 32).

use std::{collections::BTreeSet, time::Duration};

use anyhow::ensure;
use ironclad_api::{
    Taint,
    conditions::{binding::EVICTION_PENDING, is_true},
};
use ironclad_failover::Flags;
use ironclad_fleet::{ClusterName, World};
use ironclad_planning::{FailoverPlan, MoveStatus, Options, Script, plan_failover};
use ironclad_seam::Stream;
use ironclad_simcluster::Faults;

use super::{Met, Trace, draw, fleet, shares};
use crate::sim::script::{HAND_KEY, TaintPolicy};

/// Time after which all expected evictions have happened.
const FOLLOWED: Duration = Duration::from_secs(500);
/// State of what would have left, and did not.
const ABANDONED: &str = "Abandoned";
/// Difference between the times of an eviction beyond one interval of probes.
const TOLERANCE: Duration = Duration::from_secs(3);

/// Fault of a member and its end. The times are far from those of evictions, since the real probes have their own
/// phase.
struct Fault {
    script: Script,
    loss: bool,
    effect: &'static str,
    ends: Option<Duration>,
}

impl Fault {
    fn draw(draws: &Stream, cluster: &ClusterName) -> Self {
        let effect = ["NoExecute", "PreferNoExecute"][draws.below(2) as usize];
        let loss = draws.chance(0.5);
        let ends = match draws.below(3) {
            0 => None,
            1 => Some(Duration::from_secs(if loss { 10 } else { 30 })),
            _ => Some(Duration::from_secs(250)),
        };
        let taint = Taint { key: HAND_KEY.into(), value: None, effect: effect.into(), time_added: None };
        let script = match loss {
            true => Script::cluster_loss(std::slice::from_ref(cluster), ends),
            false => Script::taint(cluster, &taint, ends),
        };
        Self { script, loss, effect, ends }
    }
}

/// Checks the plan of a seed's fault over its fleet.
pub(super) async fn check(seed: u64, trace: &Trace) -> anyhow::Result<Met> {
    let (setup, draws) = draw::world(seed);
    let failover = setup.settings.failover.clone();
    let members = setup.members;
    let (mut runner, _, _) = draw::start(setup, &draws, trace).await?;
    let policy = TaintPolicy {
        effect: ["NoExecute", "PreferNoExecute"][draws.below(2) as usize],
        add_after: 30,
        remove_after: 20,
    };
    runner.taint_policy(&policy).await?;
    draw::settle(&mut runner).await?;
    let before = fleet(&runner.world).await?;
    // The member with most workloads.
    let on = |member: &String| before.world.bindings.values().filter(|one| one.spec.target(member).is_some()).count();
    let member = (1..=members).map(|n| format!("member{n}")).max_by_key(on).unwrap_or_default();
    let fault = Fault::draw(&draws, &member.as_str().into());
    let scheduling = before.settings.scheduler.clone();
    let flags = Flags { scheduler: scheduling.clone(), ..failover };
    let every = flags.health.status_update_frequency;
    let options = Options {
        flags,
        scheduling,
        modelling: before.settings.modelling(),
        horizon: FOLLOWED,
        nodes: before.nodes.clone(),
        ..Options::default()
    };
    let now = runner.world.clock().wall_seconds();
    let found = plan_failover(&before.world, &fault.script, &options, now);

    let began = runner.world.model.since_beginning(runner.world.clock().mono());
    if fault.loss {
        runner.fault(&member, Faults { down: true, ..Faults::default() })?;
    } else {
        runner.taint(&[&member], fault.effect).await?;
    }
    if let Some(at) = fault.ends {
        runner.world.pass(at).await?;
        if fault.loss {
            runner.world.member(&member)?.set_faults(Faults::default());
        } else {
            runner.untaint(&[&member], fault.effect).await?;
        }
    }
    runner.world.pass(FOLLOWED - fault.ends.unwrap_or_default()).await?;

    let after = fleet(&runner.world).await?.world;
    let story = || format!("{member}, {:?}: {:#?}", fault.script, found.timeline);
    let evictions = runner.evictions();
    let real: BTreeSet<(&str, &ClusterName)> =
        evictions.iter().map(|eviction| (eviction.binding.as_str(), &eviction.cluster)).collect();
    let moves: Vec<(String, &ClusterName)> =
        found.moves.iter().map(|one| (one.binding.to_string(), &one.from)).collect();
    let planned: BTreeSet<(&str, &ClusterName)> = moves.iter().map(|(key, from)| (key.as_str(), *from)).collect();
    ensure!(real == planned, "really {real:?}, foreseen {planned:?} in {}", story());
    for one in &found.moves {
        let name = one.binding.to_string();
        let times = evictions.iter().filter(|eviction| eviction.binding == name && eviction.cluster == one.from);
        let really = times.map(|eviction| eviction.at.saturating_sub(began)).min().unwrap_or_default();
        ensure!(
            really.abs_diff(one.evicted) <= every + TOLERANCE,
            "{name} really leaves after {really:?}, foreseen {:?} in {}",
            one.evicted,
            story()
        );
    }
    ends(&found, &after).map_err(|error| error.context(story()))?;
    for (key, binding) in &after.bindings {
        let conditions = binding.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let pending = is_true(conditions, EVICTION_PENDING);
        let waits = found.waits.iter().any(|one| one.state != ABANDONED && one.binding == *key);
        ensure!(pending == waits, "{key} waits: {pending}, foreseen {waits} in {}", story());
    }
    Ok(met(&found, &fault))
}

/// Every binding ends where it was foreseen.
fn ends(found: &FailoverPlan, after: &World) -> anyhow::Result<()> {
    let of = |binding: &ironclad_api::work::ResourceBinding| {
        shares(binding.spec.clusters.iter().map(|target| (target.name.as_str(), target.replicas)))
    };
    for (key, binding) in &after.bindings {
        let Some(moved) = found.moves.iter().rfind(|one| one.binding == *key) else { continue };
        let foreseen = shares(moved.ends.iter().map(|(name, replicas)| (name.as_str(), *replicas)));
        ensure!(of(binding) == foreseen, "{key} really ends on {:?}, foreseen {foreseen:?}", of(binding));
        let kept = binding.spec.eviction(&moved.from.0).is_some();
        let foreseen = moved.cleared.is_none() && binding.spec.target(&moved.from.0).is_none();
        if moved.status == MoveStatus::Moved && moved.because.is_some() {
            // Reports do not show whether it fits on the nodes, and the plan says so.
            continue;
        }
        let reports = binding.status.as_ref().map(|status| &status.aggregated_status);
        ensure!(
            kept == foreseen,
            "{key} keeps its old copy: {kept}, foreseen {foreseen}, {:?}; members report {}",
            moved.status,
            serde_json::to_string(&reports)?
        );
    }
    Ok(())
}

fn met(found: &FailoverPlan, fault: &Fault) -> Met {
    let mut met = Met::new();
    met.insert(match (fault.loss, fault.effect) {
        (true, _) => "lost",
        (false, "NoExecute") => "tainted NoExecute",
        _ => "tainted PreferNoExecute",
    });
    match (fault.loss, fault.ends.map(|at| at.as_secs())) {
        (true, Some(10)) => drop(met.insert("back before anybody noticed")),
        (true, Some(_)) if !found.moves.is_empty() => drop(met.insert("back after the evictions")),
        (false, Some(30)) => drop(met.insert("untainted in the middle")),
        _ => {}
    }
    for one in &found.moves {
        met.insert(match one.status {
            MoveStatus::Moved if one.because.is_some() => "may not fit on the nodes",
            MoveStatus::Moved => "moved",
            MoveStatus::MovedButKept => "moved but kept",
            MoveStatus::Returned => "returned",
            MoveStatus::NotRunning => "does not start",
            MoveStatus::Unschedulable => "unschedulable",
        });
    }
    for one in &found.waits {
        match one.state.as_str() {
            "Parked" => drop(met.insert("parked")),
            ABANDONED => drop(met.insert("abandoned")),
            _ => {}
        }
    }
    met
}
