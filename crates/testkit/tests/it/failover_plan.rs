//! What `ironclad plan` foresees is what happens (failover.md 13, invariant 32): the same small fleets, planned and simulated
//! whole.

use std::{collections::BTreeSet, time::Duration};

use anyhow::ensure;
use ironclad_api::{Taint, policy::ClusterTaintPolicy};
use ironclad_fleet::ClusterName;
use ironclad_planning::{Options, Script, foresee};
use ironclad_seam::Rng;
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    programme::{App, Failover, HAND_KEY, Spread, TaintPolicy},
    stage::{Stage, setup},
};
use kube::{Api, api::ListParams};

/// Long enough that everything that goes has gone.
const FOLLOWED: Duration = Duration::from_secs(500);

#[tokio::test(start_paused = true)]
async fn what_is_foreseen_is_what_happens() -> anyhow::Result<()> {
    for seed in 0..8 {
        agree(seed).await.map_err(|error| error.context(format!("fleet {seed}")))?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_foreseen_is_what_happens_to_a_fresh_fleet() -> anyhow::Result<()> {
    let root = Rng::from_system();
    agree(root.seed()).await.map_err(|error| error.context(format!("fleet {}", root.seed())))
}

async fn agree(seed: u64) -> anyhow::Result<()> {
    let draws = Rng::from_seed(seed).child("plan").stream("draws");
    let members = 3 + draws.below(2) as usize;
    let mut setup = setup(members, 5.0);
    setup.seed = seed;
    ["strict", "relaxed"][draws.below(2) as usize]
        .clone_into(&mut setup.settings.failover.eviction.pre_scheduling_check);
    let flags = setup.settings.failover.clone();
    let mut stage = Stage::new(setup).await?;
    let policy = TaintPolicy {
        effect: ["NoExecute", "PreferNoExecute"][draws.below(2) as usize],
        add_after: 30,
        remove_after: 20,
    };
    stage.taint_policy(&policy).await?;
    let apps: Vec<App> = (1..=1 + draws.below(4))
        .map(|n| App {
            name: format!("w{n}"),
            replicas: 1 + draws.below(3) as i32,
            spread: [Spread::Copies(1), Spread::Copies(2), Spread::Divided(1), Spread::Divided(2), Spread::Everywhere]
                [draws.below(5) as usize],
            affinity: Vec::new(),
            tolerates: None,
            failover: match draws.below(3) {
                0 => Failover::None,
                1 => Failover::Cluster { mode: "Gracefully", seconds: 20 },
                _ => Failover::Cluster { mode: "Directly", seconds: 40 },
            },
        })
        .collect();
    stage.settle(&apps).await?;

    let mut world = stage.world.truth.fleet();
    let policies: Api<ClusterTaintPolicy> = Api::all(stage.world.user());
    policies.list(&ListParams::default()).await?.items.into_iter().for_each(|policy| world.insert_taint_policy(policy));
    let member = format!("member{}", 1 + draws.below(members as u64));
    let cluster = ClusterName::from(member.as_str());
    let loss = draws.chance(0.5);
    let effect = ["NoExecute", "PreferNoExecute"][draws.below(2) as usize];
    let script = if loss {
        Script::cluster_loss(std::slice::from_ref(&cluster), None)
    } else {
        let taint = Taint { key: HAND_KEY.into(), value: None, effect: effect.into(), time_added: None };
        Script::taint(&cluster, &taint, None)
    };
    let options = Options { flags, horizon: FOLLOWED, ..Options::default() };
    let found = foresee(&world, &script, &options, stage.world.clock().wall_seconds());

    if loss {
        stage.fault(&member, Faults { down: true, ..Faults::default() })?;
    } else {
        stage.taint(&[&member], effect).await?;
    }
    stage.world.pass(FOLLOWED).await?;
    let real: BTreeSet<(String, ClusterName)> =
        stage.evictions().into_iter().map(|eviction| (eviction.binding, eviction.cluster)).collect();
    let planned: BTreeSet<(String, ClusterName)> =
        found.moves.iter().map(|one| (one.binding.to_string(), one.from.clone())).collect();
    ensure!(real == planned, "really {real:?}, foreseen {planned:?} in {:#?}", found.timeline);
    for one in &found.moves {
        let app = one.binding.name.trim_end_matches("-deployment").to_owned();
        let ends: Vec<String> = one.ends.iter().map(|(name, replicas)| format!("{name}:{replicas}")).collect();
        ensure!(stage.placed(&app)? == ends, "{app} really ends on {:?}, foreseen {ends:?}", stage.placed(&app)?);
    }
    Ok(())
}
