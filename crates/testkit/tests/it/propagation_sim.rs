//! Propagation in virtual time: one seed has one history, and no single fault at any write changes the final state.

use std::{process::Command, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    cluster::Cluster,
    conditions,
    work::{ResourceBinding, ResourceHealth, Work},
};
use ironclad_seam::Rng;
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    Fault, World, WorldOptions,
    propagation::{self, Disturbance},
};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::json;

const MATRIX: WorldOptions = WorldOptions { seed: 0x1c1ad, members: 2 };

fn digest_in_a_process(seed: u64) -> anyhow::Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_sim"))
        .args(["--propagation", "--seed", &seed.to_string(), "--digest"])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn the_same_seed_has_the_same_history_in_two_processes() -> anyhow::Result<()> {
    for seed in [1, 42, 0x5eed] {
        let (a, b) = (digest_in_a_process(seed)?, digest_in_a_process(seed)?);
        assert_eq!(a, b, "seed {seed}");
    }
    assert_ne!(digest_in_a_process(1)?, digest_in_a_process(2)?, "the digest must depend on the seed");
    Ok(())
}

#[test]
fn a_conflict_at_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::Conflict)
}

#[test]
fn a_crash_after_the_answer_to_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::KillAfterAnswer)
}

#[test]
fn a_crash_before_the_answer_to_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::KillBeforeAnswer)
}

#[test]
fn a_lost_answer_to_any_write_does_not_change_the_final_state() -> anyhow::Result<()> {
    matrix(Fault::LoseAnswer)
}

/// Disturbs every write of the scenario once; the world must reach exactly the states of the undisturbed run.
fn matrix(fault: Fault) -> anyhow::Result<()> {
    let undisturbed = propagation::run(MATRIX, None)?;
    ensure!(undisturbed.writes > 20, "the scenario wrote next to nothing: {}", undisturbed.writes);
    let mut struck = 0;
    for write in 1..=undisturbed.writes {
        let disturbance = Disturbance { write, fault };
        let outcome = propagation::run(MATRIX, Some(disturbance))?;
        struck += u64::from(outcome.struck);
        for (at, (is, want)) in outcome.states.iter().zip(&undisturbed.states).enumerate() {
            let differs = is.lines().zip(want.lines()).find(|(is, want)| is != want);
            ensure!(is == want, "{disturbance:?}: at rest {at} the world differs, first here: {differs:#?}");
        }
    }
    println!("matrix of {fault:?}: {} writes, {struck} struck", undisturbed.writes);
    ensure!(struck + 1 >= undisturbed.writes, "only {struck} faults struck");
    Ok(())
}

/// A member that fails during a write does not delay the others, is reported, and catches up.
#[tokio::test(start_paused = true)]
async fn a_member_that_fails_during_an_apply_delays_no_others_and_catches_up() -> anyhow::Result<()> {
    let mut world = World::start(WorldOptions { seed: 7, members: 3 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let clusters: Api<Cluster> = Api::all(user.clone());
    let deployments: Api<Deployment> = Api::namespaced(user.clone(), "default");
    let bindings: Api<ResourceBinding> = Api::namespaced(user.clone(), "default");
    world
        .until("all are Ready", async || {
            let all = clusters.list(&ListParams::default()).await?.items;
            Ok(all.iter().all(|c| c.is_ready()))
        })
        .await?;
    Api::namespaced(user.clone(), "default").create(&PostParams::default(), &propagation::policy()?).await?;
    let works: Api<Work> = Api::namespaced(user.clone(), "karmada-es-member2");
    deployments.create(&PostParams::default(), &propagation::deployment()?).await?;
    let member2 = world.members.get("member2").context("member2")?.clone();
    // Down before its Work can be applied.
    member2.set_faults(Faults { down: true, ..Faults::default() });
    world
        .until("there is a Work for member2", async || Ok(!works.list(&ListParams::default()).await?.items.is_empty()))
        .await?;
    world
        .until("the others have theirs, and the binding says of whom it is not so", async || {
            let Some(status) = bindings.get("web-deployment").await?.status else { return Ok(false) };
            let line = |name: &str| status.aggregated_status.iter().find(|i| i.cluster_name == name);
            let well = |name| line(name).is_some_and(|i| i.applied && i.health == Some(ResourceHealth::Healthy));
            Ok(well("member1") && well("member3") && line("member2").is_some_and(|i| !i.applied))
        })
        .await?;
    world
        .until("the cluster says why", async || {
            let cluster = clusters.get("member2").await?;
            let conditions = cluster.status.map(|s| s.conditions).unwrap_or_default();
            let ready = conditions::get(&conditions, "Ready").context("no condition Ready")?;
            Ok(ready.status == "False"
                && ready.reason == "ClusterNotReachable"
                && ready.message == "cluster is not reachable")
        })
        .await?;
    member2.set_faults(Faults::default());
    propagation::settled(&mut world, &deployments, 6).await?;
    world.until_quiet().await
}

/// Objects that wait for their namespace reach the member as soon as it exists, not when a backoff ends.
#[tokio::test(start_paused = true)]
async fn a_work_is_applied_as_soon_as_its_namespace_exists() -> anyhow::Result<()> {
    // Longer than many backoffs, shorter than the deadline of health probes.
    const SLOW: Duration = Duration::from_secs(3);
    let mut world = World::start(WorldOptions { seed: 22, members: 1 }).await?;
    world.start_controllers().await;
    let user = world.user();
    let namespaces: Api<Namespace> = Api::all(user.clone());
    let member = world.members.get("member1").context("member1")?.clone();
    for (namespace, slow) in [("first", None), ("shop", Some(SLOW))] {
        // The second time, both kinds are watched in the member, and only the namespace keeps the Deployment waiting.
        member.set_faults(Faults { slow, ..Faults::default() });
        let mut deployment = propagation::deployment()?;
        deployment.metadata.namespace = Some(namespace.into());
        let mut policy = propagation::policy()?;
        policy.metadata.namespace = Some(namespace.into());
        let named = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(named)?).await?;
        Api::namespaced(user.clone(), namespace).create(&PostParams::default(), &policy).await?;
        let deployments: Api<Deployment> = Api::namespaced(user.clone(), namespace);
        deployments.create(&PostParams::default(), &deployment).await?;
        propagation::settled(&mut world, &deployments, 2).await?;
        world.until_quiet().await?;
    }
    let lines = world.history.lines();
    let at = |is: &dyn Fn(&str) -> bool| -> anyhow::Result<Timestamp> {
        let line = lines.iter().rfind(|line| line.contains("->member1 POST ") && is(line));
        Ok(line.and_then(|line| line.split(' ').next()).context("no such line")?.parse()?)
    };
    let sent = at(&|line| line.contains(" /api/v1/namespaces?") && line.contains(" body "))?;
    let answered = at(&|line| line.contains(" /api/v1/namespaces?") && line.ends_with("-> 201"))?;
    let follows = at(&|line| line.contains("/namespaces/shop/deployments?") && line.contains(" body "))?;
    ensure!(answered.duration_since(sent).unsigned_abs() >= SLOW, "the answer came at once");
    // The member's watch delivers the namespace as soon as it is stored, long before the answer.
    let late = follows.duration_since(sent);
    ensure!(late.is_positive() && late.as_millis() < 100, "the Deployment came {late:#} after its namespace was sent");
    let tries = lines.iter().filter(|line| line.contains("->member1 POST ") && line.contains("/shop/deployments?"));
    ensure!(tries.filter(|line| line.contains(" body ")).count() == 1, "it was tried without its namespace");
    Ok(())
}

#[test]
fn fresh_seeds_with_one_fault_each_settle() -> anyhow::Result<()> {
    let root = Rng::from_system();
    println!("fresh seeds from root {:#x}", root.seed());
    let draws = root.stream("seeds");
    let faults = [Fault::Conflict, Fault::KillAfterAnswer, Fault::KillBeforeAnswer, Fault::LoseAnswer];
    for _ in 0..20 {
        let options = WorldOptions { seed: draws.u64(), members: 1 + draws.below(4) as usize };
        let disturbance =
            Disturbance { write: 1 + draws.below(50), fault: faults[draws.below(faults.len() as u64) as usize] };
        propagation::run(options, Some(disturbance)).with_context(|| format!("{options:?} {disturbance:?}"))?;
    }
    Ok(())
}
