//! Runs a script: the fleet settles, faults happen, all is healed, and everything settles again.

use ironclad_failover::flags::eviction::Check;
use ironclad_fleet::{ClusterName, gates::Gate};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use ironclad_api::{
    cluster::Cluster,
    eviction::BINDING_PREEMPTED,
    policy::ClusterTaintPolicy,
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
    work::ResourceBinding,
};
use ironclad_runtime::Api;
use ironclad_simcluster::Faults;
use kube::api::{ListParams, PostParams};

use super::{
    Action, App, CLASSES, Script, Shortage, Spread, TaintPolicy, account,
    action::{self, HAND_KEY, untaint},
    fairness::{self, AllMachines},
    gauges::{self, Expect},
    removal,
    varied::Models,
};
use crate::sim::{
    Setup, World,
    checker::{POLICY_KEY, Preemption, Rates, Rules},
    flags,
    model::Model,
    sometimes::happened,
};

/// Time after the last fault until capacity is shared by priority: nominations of ten minutes may have to end, then
/// tasks of five, and what they freed is scheduled.
const SHARED_WITHIN: Duration = Duration::from_secs(2_400);
/// Time after the last fault from which on nobody may leave in vain: Jobs of members have ended, and their quotas.
const VAIN_AFTER: Duration = Duration::from_secs(120);
/// Lines of history in an error.
const HISTORY_SHOWN: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub digest: String,
    pub history: Vec<String>,
    pub evictions: usize,
    pub seconds: u64,
}

pub fn run(script: &Script) -> anyhow::Result<Outcome> {
    run_showing(script, HISTORY_SHOWN)
}

/// [`run`] with this many lines of history in an error.
pub fn run_showing(script: &Script, shown: usize) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut world = World::start(setup(script)).await?;
        let began = world.clock().mono();
        match drive(&mut world, script).await {
            Ok(()) => Ok(Outcome {
                digest: world.history.digest(),
                history: world.history.lines(),
                evictions: world.model.ask(|checker| checker.evictions().len()),
                seconds: (world.clock().mono() - began).as_secs(),
            }),
            Err(error) => {
                let lines = world.history.lines();
                let tail = lines[lines.len().saturating_sub(shown)..].join("\n");
                Err(error.context(format!("{script}the history ends with\n{tail}\n")))
            }
        }
    })
}

/// Returns the options of the script's world.
fn setup(script: &Script) -> Setup {
    let freezes = script.steps.iter().map(|step| match &step.action {
        Action::Freeze(_, time) | Action::Stall(_, time) => *time,
        Action::Slow(_, time) => *time,
        _ => Duration::ZERO,
    });
    let stale = freezes.max().unwrap_or_default() * 2 + Duration::from_secs(4);
    let skews = script.steps.iter().map(|step| match &step.action {
        Action::Skew(_, ms) => ms.unsigned_abs().div_ceil(1_000) as i64,
        _ => 0,
    });
    let mut asked_taints = BTreeSet::from([(HAND_KEY.to_owned(), NO_EXECUTE.to_owned())]);
    let edits = script.steps.iter().filter_map(|step| match &step.action {
        Action::EditPolicy(policy) => Some(policy),
        _ => None,
    });
    let policies: Vec<&TaintPolicy> = script.taint_policy.iter().chain(edits).collect();
    asked_taints.extend(policies.iter().map(|policy| (POLICY_KEY.to_owned(), policy.effect.to_owned())));
    let least =
        |window: fn(&TaintPolicy) -> i64| policies.iter().map(|policy| window(policy)).min().unwrap_or_default();
    let rules = Rules {
        gate: script.gate,
        rates: Rates { primary: script.rate, ..Rates::default() },
        stale,
        skew: skews.max().unwrap_or_default(),
        asked_taints,
        windows: Some((least(|policy| policy.add_after), least(|policy| policy.remove_after))),
        checked: script.check != Check::Off,
        // Quotas of members may leave no room anywhere.
        late: script.variety.is_none(),
        ..Rules::default()
    };
    let rules = Rules { preemption: script.shortage.map(|s| Preemption { mode: s.mode, limits: s.limits }), ..rules };
    let mut settings = flags::settings(script.gate, script.rate, script.check);
    settings.gates = settings.gates.with(Gate::WorkloadAffinity, script.grouped);
    if let Some(shortage) = &script.shortage {
        settings = flags::with_preemption(settings, shortage.mode, shortage.limits);
    }
    if let Some(variety) = &script.variety {
        settings.failover.health.status_update_frequency = variety.summaries;
        settings.estimators.enabled = variety.estimators;
        settings.gates = settings.gates.with(Gate::CustomizedClusterResourceModeling, variety.models != Models::Off);
    }
    let zones = if script.shortage.is_some_and(|shortage| shortage.zones) { 2 } else { 0 };
    Setup {
        seed: script.world_seed(),
        members: script.members,
        spares: 0,
        pull: script.pull,
        tunnels: script.tunnels,
        nodes: 1,
        zones,
        elected: script.standby,
        settings,
        rules,
    }
}

async fn drive(world: &mut World, script: &Script) -> anyhow::Result<()> {
    let mut apps = script.apps.clone();
    settle(world, script, &apps).await.context("before anything went wrong")?;
    in_vain(world, script, Duration::ZERO).context("before anything went wrong")?;
    let mut by_hand = ByHand::default();
    for step in &script.steps {
        pass(world, script, &apps, step.after).await?;
        step.action.take(world, &mut apps).await.with_context(|| step.to_string())?;
        match step.action {
            Action::Taint(member, effect) => drop(by_hand.insert((member, effect), uid(world, member))),
            Action::Untaint(member, effect) => drop(by_hand.remove(&(member, effect))),
            _ => {}
        }
        gauges::check(world, Expect::Equal)?;
    }
    pass(world, script, &apps, Duration::from_secs(30)).await?;
    manual_taints_remain(world, &by_hand)?;
    world.history.log("HEAL");
    let healed = world.model.since_beginning(world.clock().mono());
    for member in world.members.values() {
        member.set_faults(Faults::default());
    }
    world.heal_processes();
    world.model.with_checker(|checker, at| checker.healed(at));
    let user = world.user();
    if let Some(variety) = &script.variety {
        let retaining = apps.iter().filter(|app| app.exists && app.retains).map(|app| app.name.as_str());
        variety.heal(world, &retaining.collect::<Vec<_>>()).await?;
    }
    action::end_drains(world).await?;
    action::propagate_again(world, &apps).await?;
    // Before, since taints on all clusters can keep a workload on a Cluster in deletion; and after, for clusters that
    // joined anew.
    untaint_all(world, script.members).await?;
    removal::rejoin(world, &apps).await?;
    untaint_all(world, script.members).await?;
    let clusters: Api<Cluster> = Api::all(user.clone());
    world
        .until("all clusters are Ready and without taints", async || {
            let all = clusters.list(&ListParams::default()).await?;
            Ok(all.items.iter().all(|c| c.is_ready() && c.spec.taints.is_empty()))
        })
        .await?;
    let bindings: Api<ResourceBinding> = Api::namespaced(user, "default");
    if let Some(shortage) = &script.shortage {
        action::set_quota(world, None).await?;
        if is_by_node(script) {
            share_fairly(world, &apps, shortage).await?;
        }
    }
    for app in apps.iter().filter(|app| app.exists) {
        let (name, model) = (app.binding(), world.model.clone());
        let waited = world
            .until(&format!("{} is where it should be", app.name), async || {
                let Some(binding) = bindings.get_opt(&name).await? else { return Ok(false) };
                Ok(is_settled(app, &binding, script.members, &machines(&model)).is_ok())
            })
            .await;
        if let Err(error) = waited {
            let unsettled = match bindings.get_opt(&name).await? {
                Some(binding) => is_settled(app, &binding, script.members, &machines(&world.model)).err(),
                None => Some(anyhow::anyhow!("there is no binding")),
            };
            return Err(error.context(format!("{app}: {}", unsettled.map(|e| e.to_string()).unwrap_or_default())));
        }
    }
    rest(world, script).await?;
    for app in apps.iter().filter(|app| app.exists) {
        let binding = bindings.get(&app.binding()).await?;
        is_settled(app, &binding, script.members, &machines(&world.model))
            .with_context(|| format!("at rest: {app}"))?;
    }
    if let Some(shortage) = script.shortage.as_ref().filter(|_| is_by_node(script)) {
        fairness::check(world, &apps, shortage).context("at rest")?;
    }
    gauges::check(world, Expect::Empty)?;
    account::check(world).await?;
    in_vain(world, script, healed + VAIN_AFTER)?;
    seen(world);
    Ok(())
}

/// Lets time pass; with members that differ, it is looked every second whether their accounts agree with their caches,
/// and whether somebody waits who fits.
async fn pass(world: &mut World, script: &Script, apps: &[App], time: Duration) -> anyhow::Result<()> {
    let (mut left, mut before) = (time, [BTreeSet::new(), BTreeSet::new()]);
    let mut idle_before = [BTreeSet::new(), BTreeSet::new()];
    while let Some(variety) = script.variety.as_ref().filter(|_| !left.is_zero()) {
        let second = left.min(Duration::from_secs(1));
        world.pass(second).await?;
        let twice = account::check_cached(world)?;
        // A process may know of a change a moment later.
        let lasts = twice.iter().find(|found| variety.calm && before.iter().all(|before| before.contains(*found)));
        ensure!(lasts.is_none(), "invariant account: {lasts:?}");
        before = [twice, std::mem::take(&mut before[0])];
        let idle = fairness::idle(world, apps);
        let lasts = idle.iter().find(|app| variety.calm && idle_before.iter().all(|before| before.contains(*app)));
        ensure!(lasts.is_none(), "invariant idle: {lasts:?} waits for longer than two seconds although it fits");
        idle_before = [idle, std::mem::take(&mut idle_before[0])];
        left -= second;
    }
    world.pass(left).await
}

/// True if the nodes of all members are watched. Others are counted by models, as in Karmada, by which less fits.
fn is_by_node(script: &Script) -> bool {
    script.pull == 0 || script.tunnels
}

fn machines(model: &Model) -> AllMachines {
    model.ask(|checker| checker.machines().clone())
}

/// Checks that nobody left for a preemptor that still waits, unless capacity changes by itself.
fn in_vain(world: &World, script: &Script, since: Duration) -> anyhow::Result<()> {
    if script.shortage.is_none() {
        return Ok(());
    }
    let found = world.model.look(Clone::clone);
    let found = world.model.ask(|checker| checker.in_vain(since, &found));
    ensure!(found.is_empty(), "invariant in vain: {}", found.join("; "));
    Ok(())
}

/// Waits until nothing happens any more. The task of a preempted workload that finds no other cluster lasts for its
/// grace period, and capacity that a higher priority took stays held until the end of the nomination; nobody writes
/// anything meanwhile.
async fn rest(world: &mut World, script: &Script) -> anyhow::Result<()> {
    if script.shortage.is_none() {
        return world.until_quiet().await;
    }
    let began = world.clock().mono();
    let is_in_preemption = |binding: &ResourceBinding| {
        binding.spec.graceful_eviction_tasks.iter().any(|task| task.reason == BINDING_PREEMPTED)
            || binding.status.as_ref().is_some_and(|status| !status.nominated_clusters.is_empty())
    };
    loop {
        world.until_still().await?;
        let goes_on = world.model.look(|fleet| fleet.bindings.values().any(|binding| is_in_preemption(binding)));
        if !goes_on {
            return Ok(());
        }
        ensure!(world.clock().mono() - began < SHARED_WITHIN, "a preemption does not end");
        world.pass(Duration::from_secs(5)).await?;
    }
}

/// Waits until nothing is left of preemptions, and nobody waits for what a lower priority holds.
async fn share_fairly(world: &mut World, apps: &[App], shortage: &Shortage) -> anyhow::Result<()> {
    let began = world.clock().mono();
    loop {
        let found = fairness::check(world, apps, shortage);
        if found.is_ok() || world.clock().mono() - began > SHARED_WITHIN {
            return found.context("capacity is not shared fairly, long after the last fault");
        }
        world.pass(Duration::from_secs(5)).await?;
    }
}

/// Taints that users set: member, effect, and the uid of the Cluster.
type ByHand = BTreeMap<(usize, &'static str), Option<String>>;

fn uid(world: &World, member: usize) -> Option<String> {
    world.model.look(|fleet| fleet.clusters.get(&action::name(member).as_str().into())?.metadata.uid.clone())
}

/// Checks that no taint of users is lost (invariant 25).
fn manual_taints_remain(world: &World, by_hand: &ByHand) -> anyhow::Result<()> {
    world.model.look(|fleet| {
        for ((member, effect), of) in by_hand {
            let Some(cluster) = fleet.clusters.get(&action::name(*member).as_str().into()) else { continue };
            // A new Cluster has no taints of its predecessor.
            if of.is_none() || cluster.metadata.uid != *of {
                continue;
            }
            let exists = cluster.spec.taints.iter().any(|t| t.key == HAND_KEY && t.effect == *effect);
            ensure!(exists, "invariant 25: {HAND_KEY}:{effect} of {} is lost", action::name(*member));
        }
        Ok(())
    })
}

async fn untaint_all(world: &World, members: usize) -> anyhow::Result<()> {
    let user = world.user();
    for member in 0..members {
        for effect in [NO_EXECUTE, PREFER_NO_EXECUTE, NO_SCHEDULE] {
            untaint(&user, &action::name(member), HAND_KEY, effect).await?;
            // A policy that was deleted, or has another effect now, leaves its taint to a user
            // (specification/failover.md 2.7).
            world.model.with_checker(|checker, at| checker.policy_edited(at));
            untaint(&user, &action::name(member), POLICY_KEY, effect).await?;
        }
    }
    Ok(())
}

/// Creates everything and waits until it is settled.
async fn settle(world: &mut World, script: &Script, apps: &[App]) -> anyhow::Result<()> {
    let user = world.user();
    if let Some(variety) = &script.variety {
        variety.furnish(world).await?;
    }
    world.start_controllers().await;
    if script.standby {
        world.start_process(1);
    }
    let clusters: Api<Cluster> = Api::all(user.clone());
    world
        .until("all clusters are Ready", async || {
            let all = clusters.list(&ListParams::default()).await?;
            Ok(all.items.iter().all(|c| c.is_ready()))
        })
        .await?;
    if let Some(policy) = &script.taint_policy {
        let policies: Api<ClusterTaintPolicy> = Api::all(user.clone());
        policies.create(&PostParams::default(), &policy.object()?).await?;
    }
    if script.shortage.is_some() {
        for (name, class) in CLASSES {
            action::create_class(world, name, class).await?;
        }
    }
    for app in apps.iter().filter(|app| app.exists) {
        action::create(world, app).await?;
        if script.grouped {
            // Who may go to one member only that the first one leaves free comes after it.
            rest(world, script).await?;
        }
    }
    rest(world, script).await
}

/// Returns `true` if the workload is in the state that every healthy fleet reaches.
fn is_settled(app: &App, binding: &ResourceBinding, members: usize, machines: &AllMachines) -> anyhow::Result<()> {
    let spec = &binding.spec;
    let status = binding.status.clone().unwrap_or_default();
    let placed: i32 = spec.clusters.iter().map(|target| target.replicas).sum();
    let (groups, replicas) = (spec.clusters.len(), app.replicas);
    let waits = (app.cpu > 0).then(|| fairness::waits(app, binding)).flatten().transpose()?;
    match app.spread {
        _ if waits.is_some() => {}
        _ if replicas == 0 => ensure!(placed == 0, "{:?}", spec.clusters),
        Spread::Copies(n) => {
            ensure!(groups == n && placed == replicas * n as i32, "{:?}", spec.clusters);
        }
        Spread::Everywhere => {
            ensure!(groups == members && placed == replicas * members as i32, "{:?}", spec.clusters);
        }
        Spread::Divided(n) => ensure!((1..=n).contains(&groups) && placed == replicas, "{:?}", spec.clusters),
        Spread::Weighted | Spread::OneZone => ensure!(placed == replicas, "{:?}", spec.clusters),
    }
    for target in &spec.clusters {
        let Some(line) = status.aggregated_status.iter().find(|item| item.cluster_name == target.name) else {
            bail!("no status is reported from {}", target.name);
        };
        ensure!(line.applied, "not applied in {}", target.name);
        let ready = line.status.as_ref().and_then(|s| s.value().get("readyReplicas")?.as_i64());
        let wanted = app.replicas_in(&target.name, target.replicas);
        let of_cluster = machines.get(&ClusterName::from(target.name.as_str()));
        // The member's own scheduler may have left room on several nodes, and on none of them enough.
        let finds_no_node = of_cluster.is_some_and(|machines| machines.is_short_of(&app.name, app.cpu));
        ensure!(
            finds_no_node || ready.unwrap_or_default() == i64::from(wanted),
            "{ready:?} of {wanted} replicas are ready in {}",
            target.name
        );
    }
    let tasks = spec.graceful_eviction_tasks.len();
    let of_kept_copies = if app.cpu > 0 { fairness::kept_copies(binding).count() } else { 0 };
    let is_short = machines.values().any(|machines| machines.is_short_of(&app.name, app.cpu));
    ensure!(tasks == of_kept_copies || is_short, "there are tasks: {:?}", spec.graceful_eviction_tasks);
    Ok(())
}

/// Records events of [`super::sometimes`].
fn seen(world: &World) {
    let history = world.history.lines();
    let any = |part: &str| history.iter().any(|line| line.contains(part));
    world.model.ask(|checker| {
        let evictions = checker.evictions();
        if !evictions.is_empty() {
            happened("a binding is evicted");
        }
        if evictions.iter().any(|e| e.reason == ironclad_api::eviction::TAINT_PREFER_NO_EXECUTE) {
            happened("a binding is evicted because of PreferNoExecute");
        }
        for what in checker.noted() {
            happened(what);
        }
    });
    if any("killed before the answer") || any("killed after the answer") {
        happened("a process is killed between two writes of one turn");
    }
    if any("cut with 410") || any("becomes 410") {
        happened("a watch ends with 410");
    }
    if history.iter().any(|line| line.contains(" standby") && line.ends_with(" works")) {
        happened("the leader changes");
    }
    if any("answer lost") {
        happened("an answer to a write is lost");
    }
}
