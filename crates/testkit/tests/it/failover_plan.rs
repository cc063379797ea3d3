//! Forecasts of `ironclad plan` agree with the simulation (specification/failover.md 13, invariant 32): the same small
//! fleets, planned and simulated whole.

use ironclad_failover::flags::eviction::Check;
use std::{collections::BTreeSet, time::Duration};

use anyhow::ensure;
use ironclad_api::{
    Taint,
    conditions::{binding::EVICTION_PENDING, is_true},
    policy::ClusterTaintPolicy,
};
use ironclad_fleet::ClusterName;
use ironclad_planning::{Options, Script, plan_failover};
use ironclad_seam::{Rng, Stream};
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    runner::{Runner, setup},
    script::{App, Failover, HAND_KEY, Spread, TaintPolicy},
};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

/// The state of who would have left, and did not.
const ABANDONED: &str = "Abandoned";
/// Time after which all expected evictions have happened.
const FOLLOWED: Duration = Duration::from_secs(500);

#[tokio::test(start_paused = true)]
async fn what_is_foreseen_is_what_happens() -> anyhow::Result<()> {
    let mut met = BTreeSet::new();
    for seed in 0..12 {
        met.extend(agree(seed).await.map_err(|error| error.context(format!("fleet {seed}")))?);
    }
    // A property that never meets what it is about proves nothing.
    for what in [
        "lost", "back before anybody noticed", "back after the evictions", "tainted NoExecute",
        "tainted PreferNoExecute", "untainted in the middle", "moved", "moved divided", "moved to the next group",
        "parked", "abandoned",
    ] {
        ensure!(met.contains(what), "no fleet had one that is {what}: {met:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_foreseen_is_what_happens_to_a_fresh_fleet() -> anyhow::Result<()> {
    let root = Rng::from_system();
    agree(root.seed()).await.map_err(|error| error.context(format!("fleet {}", root.seed())))?;
    Ok(())
}

/// A workload, and the groups of clusters that its policy names in the place of an affinity, if it does.
struct Drawn {
    app: App,
    groups: Option<[Vec<String>; 2]>,
}

fn draw(draws: &Stream, n: u64, members: usize) -> Drawn {
    let all: Vec<String> = (1..=members).map(|n| format!("member{n}")).collect();
    let own = all[draws.below(members as u64) as usize].clone();
    let (mut spread, mut affinity, mut groups) = (Spread::Copies(1), Vec::new(), None);
    match draws.below(8) {
        0 => {}
        1 => spread = Spread::Copies(2),
        2 => spread = Spread::Divided(1),
        3 | 4 => spread = Spread::Divided(2),
        5 => spread = Spread::Everywhere,
        // It cannot move to another cluster.
        6 => affinity = vec![own],
        _ => groups = Some([vec![own.clone()], all.into_iter().filter(|name| *name != own).collect()]),
    }
    let failover = match draws.below(3) {
        0 => Failover::None,
        1 => Failover::Cluster { mode: "Gracefully", seconds: 20 },
        _ => Failover::Cluster { mode: "Directly", seconds: 40 },
    };
    let replicas = 1 + draws.below(3) as i32;
    let app = App { replicas, spread, affinity, failover, ..App::new(&format!("w{n}")) };
    Drawn { app, groups }
}

/// Draws the fault of a member and its end. The times are far from those of
/// evictions, since the real probes have their own times.
fn script(draws: &Stream, seed: u64, cluster: &ClusterName) -> (Script, bool, &'static str, Option<Duration>) {
    let effect = ["NoExecute", "PreferNoExecute"][draws.below(2) as usize];
    let loss = seed.is_multiple_of(2);
    let ends = match seed % 3 {
        0 => None,
        1 => Some(Duration::from_secs(if loss { 10 } else { 30 })),
        _ => Some(Duration::from_secs(250)),
    };
    if loss {
        return (Script::cluster_loss(std::slice::from_ref(cluster), ends), loss, effect, ends);
    }
    let taint = Taint { key: HAND_KEY.into(), value: None, effect: effect.into(), time_added: None };
    (Script::taint(cluster, &taint, ends), loss, effect, ends)
}

/// Plans and simulates the fleet of a seed, and returns the events that it covered.
async fn agree(seed: u64) -> anyhow::Result<BTreeSet<&'static str>> {
    let draws = Rng::from_seed(seed).child("plan").stream("draws");
    let members = 3 + draws.below(2) as usize;
    let mut setup = setup(members, 5.0);
    setup.seed = seed;
    setup.settings.failover.eviction.pre_scheduling_check = [Check::Strict, Check::Relaxed][draws.below(2) as usize];
    let flags = setup.settings.failover.clone();
    let mut runner = Runner::new(setup).await?;
    let policy = TaintPolicy {
        effect: ["NoExecute", "PreferNoExecute"][draws.below(2) as usize],
        add_after: 30,
        remove_after: 20,
    };
    runner.taint_policy(&policy).await?;
    let drawn: Vec<Drawn> = (1..=2 + draws.below(4)).map(|n| draw(&draws, n, members)).collect();
    for Drawn { app, groups } in &drawn {
        let in_groups = |policy: &mut Value| {
            let Some([first, second]) = groups else { return };
            let placement = &mut policy["spec"]["placement"];
            placement["clusterAffinity"] = Value::Null;
            placement["clusterAffinities"] = json!([
                {"affinityName": "primary", "clusterNames": first},
                {"affinityName": "backup", "clusterNames": second},
            ]);
        };
        runner.add(app, in_groups).await?;
    }
    runner.settle(&[]).await?;

    let mut world = runner.world.model.fleet();
    let policies: Api<ClusterTaintPolicy> = Api::all(runner.world.user());
    policies.list(&ListParams::default()).await?.items.into_iter().for_each(|policy| world.insert_taint_policy(policy));
    // The member with most workloads.
    let on = |member: &str| {
        let is_on = |drawn: &&Drawn| {
            let placed = runner.placed(&drawn.app.name).unwrap_or_default();
            placed.iter().any(|target| target.starts_with(&format!("{member}:")))
        };
        drawn.iter().filter(is_on).count()
    };
    let names = (1..=members).map(|n| format!("member{n}"));
    let member = names.max_by_key(|member| on(member)).unwrap_or_default();
    let cluster = ClusterName::from(member.as_str());
    let (script, loss, effect, ends) = script(&draws, seed, &cluster);
    let options = Options { flags, horizon: FOLLOWED, ..Options::default() };
    let found = plan_failover(&world, &script, &options, runner.world.clock().wall_seconds());

    if loss {
        runner.fault(&member, Faults { down: true, ..Faults::default() })?;
    } else {
        runner.taint(&[&member], effect).await?;
    }
    if let Some(at) = ends {
        runner.world.pass(at).await?;
        if loss {
            runner.world.member(&member)?.set_faults(Faults::default());
        } else {
            runner.untaint(&[&member], effect).await?;
        }
    }
    runner.world.pass(FOLLOWED - ends.unwrap_or_default()).await?;
    let story = || format!("{script:?}: {:#?}", found.timeline);
    let real: BTreeSet<(String, ClusterName)> =
        runner.evictions().into_iter().map(|eviction| (eviction.binding, eviction.cluster)).collect();
    let planned: BTreeSet<(String, ClusterName)> =
        found.moves.iter().map(|one| (one.binding.to_string(), one.from.clone())).collect();
    ensure!(real == planned, "really {real:?}, foreseen {planned:?} in {}", story());
    for Drawn { app, .. } in &drawn {
        let (name, placed) = (&app.name, runner.placed(&app.name)?);
        let moved = found.moves.iter().rfind(|one| *one.binding.name == *format!("{name}-deployment"));
        let Some(moved) = moved else { continue };
        let ends: Vec<String> = moved.ends.iter().map(|(name, replicas)| format!("{name}:{replicas}")).collect();
        ensure!(placed == ends, "{name} really ends on {placed:?}, foreseen {ends:?} in {}", story());
    }
    let pending = |name: &str| -> anyhow::Result<bool> {
        let binding = runner.binding(name)?;
        let conditions = binding.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        Ok(is_true(conditions, EVICTION_PENDING))
    };
    for Drawn { app, .. } in &drawn {
        let waits = found
            .waits
            .iter()
            .any(|one| one.state != ABANDONED && *one.binding.name == *format!("{}-deployment", app.name));
        ensure!(
            pending(&app.name)? == waits,
            "{} {} in {}",
            app.name,
            if waits { "waits only in the plan" } else { "really waits" },
            story()
        );
    }

    let mut met = BTreeSet::new();
    met.insert(match (loss, effect) {
        (true, _) => "lost",
        (false, "NoExecute") => "tainted NoExecute",
        _ => "tainted PreferNoExecute",
    });
    match (loss, ends.map(|at| at.as_secs())) {
        (true, Some(10)) => drop(met.insert("back before anybody noticed")),
        (true, Some(_)) if !found.moves.is_empty() => drop(met.insert("back after the evictions")),
        (false, Some(30)) => drop(met.insert("untainted in the middle")),
        _ => {}
    }
    for one in &found.moves {
        let name = one.binding.name.trim_end_matches("-deployment");
        let Some(Drawn { app, groups }) = drawn.iter().find(|drawn| drawn.app.name == name) else { continue };
        met.insert("moved");
        if matches!(app.spread, Spread::Divided(_)) {
            met.insert("moved divided");
        }
        if groups.is_some() {
            met.insert("moved to the next group");
        }
    }
    for one in &found.waits {
        match one.state.as_str() {
            "Parked" => drop(met.insert("parked")),
            ABANDONED => drop(met.insert("abandoned")),
            _ => {}
        }
    }
    Ok(met)
}
