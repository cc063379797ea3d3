//! Edge cases of failover over the whole chain (specification/failover.md 2.6, 6.8, 13): policies that contradict each
//! other or taint everything, taints that users edit meanwhile, clusters that leave and rejoin under their name, and
//! clocks that disagree. None of them loses a copy, and all of them settle; the checker of the simulation checks every
//! write.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{
    Time,
    cluster::Cluster,
    conditions,
    policy::{ClusterTaintPolicy, PurgeMode},
    taints::{NO_EXECUTE, PREFER_NO_EXECUTE},
};
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    Setup,
    runner::{Runner, setup},
    script::{App, Failover, POLICY_KEY, TaintPolicy, untaint},
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// Workloads of one copy on `member1`, which may move to `member2` and `member3`.
fn apps(count: usize) -> Vec<App> {
    let affinity: Vec<String> = (1..=3).map(|n| format!("member{n}")).collect();
    (1..=count).map(|n| App { affinity: affinity.clone(), ..App::new(&format!("w{n}")) }).collect()
}

/// Starts three members with this many workloads on the first.
async fn runner(rate: f64, count: usize) -> anyhow::Result<Runner> {
    settled(setup(3, rate), count).await
}

async fn settled(setup: Setup, count: usize) -> anyhow::Result<Runner> {
    let mut runner = Runner::new(setup).await?;
    runner.settle(&apps(count)).await?;
    for app in apps(count) {
        ensure!(runner.placed(&app.name)? == ["member1:1"], "{}: {:?}", app.name, runner.placed(&app.name)?);
    }
    Ok(runner)
}

/// Writes a condition of a third party on `member1`.
async fn net(runner: &Runner, status: &str) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(runner.world.user());
    loop {
        let mut cluster = clusters.get("member1").await?;
        let mut net = conditions::condition("Net", status, "Told", "");
        net.last_transition_time = Time(runner.world.clock().wall_seconds());
        let all = &mut cluster.status.get_or_insert_default().conditions;
        all.retain(|condition| condition.type_ != "Net");
        all.push(net);
        match clusters.replace_status("member1", &PostParams::default(), &cluster).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            done => return Ok(done.map(drop)?),
        }
    }
}

async fn create(runner: &Runner, name: &str, spec: Value) -> anyhow::Result<()> {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy",
        "metadata": {"name": name}, "spec": spec,
    });
    let policies: Api<ClusterTaintPolicy> = Api::all(runner.world.user());
    policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
    Ok(())
}

fn when(status: &str) -> Value {
    json!([{"conditionType": "Net", "operator": "In", "statusValues": [status]}])
}

/// Returns `true` if `member1` has the policies' taint.
fn is_tainted(runner: &Runner) -> bool {
    taint_of(runner).is_some()
}

/// Its `timeAdded`.
fn taint_of(runner: &Runner) -> Option<Time> {
    runner.world.model.look(|fleet| {
        let cluster = fleet.clusters.get(&"member1".into())?;
        let taint = cluster.spec.taints.iter().find(|t| t.key == POLICY_KEY && t.effect == NO_EXECUTE)?;
        taint.time_added.clone()
    })
}

/// Returns the generation of `member1`, which counts writes of its taints.
async fn generation(runner: &Runner) -> anyhow::Result<i64> {
    let cluster = Api::<Cluster>::all(runner.world.user()).get("member1").await?;
    cluster.metadata.generation.context("a generation")
}

#[tokio::test(start_paused = true)]
async fn contradictory_policies_settle() -> anyhow::Result<()> {
    let adds = || json!({"targetClusters": {}, "addOnConditions": when("False"), "taints": [{"key": POLICY_KEY, "effect": NO_EXECUTE}]});
    let removes = || json!({"targetClusters": {}, "removeOnConditions": when("False"), "taints": [{"key": POLICY_KEY, "effect": NO_EXECUTE}]});
    let asserts = || {
        json!({"targetCluster": {}, "matchConditions": when("False"), "taintsToAdd": [{
            "key": POLICY_KEY, "effect": NO_EXECUTE, "addOnMatchSeconds": 1, "removeOnMismatchSeconds": 1,
        }]})
    };
    for (name, older, younger, tainted) in [
        ("an older one adds what a younger one removes", adds(), removes(), false),
        ("a younger one adds what an older one removes", removes(), adds(), true),
        ("one of the seed's asserts what a younger one of Karmada's removes", asserts(), removes(), true),
        ("and an older one", removes(), asserts(), true),
    ] {
        let mut runner = runner(0.5, 1).await?;
        create(&runner, "older", older).await?;
        runner.world.pass(Duration::from_secs(2)).await?;
        create(&runner, "younger", younger).await?;
        let before = generation(&runner).await?;
        net(&runner, "False").await?;
        runner.world.until_quiet().await.context(name)?;
        runner.world.pass(Duration::from_secs(600)).await.context(name)?;
        ensure!(is_tainted(&runner) == tainted, "{name}: tainted: {}", is_tainted(&runner));
        let writes = generation(&runner).await? - before;
        ensure!(writes == i64::from(tainted), "{name}: {writes} writes of taints");
        let want = if tainted { "member2:1" } else { "member1:1" };
        runner.until_settled("w1", &[want]).await.context(name)?;
        ensure!(runner.evictions().len() == usize::from(tainted), "{name}: {:?}", runner.evictions());
        net(&runner, "True").await?;
        runner.world.until_quiet().await.context(name)?;
        ensure!(runner.placed("w1")? == [want], "{name}: {:?}", runner.placed("w1")?);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_taints_every_cluster_removes_no_copy() -> anyhow::Result<()> {
    let mut runner = runner(0.5, 3).await?;
    // No condition at all: the seed's spelling taints everything.
    create(
        &runner,
        "all",
        json!({"targetCluster": {}, "taintsToAdd": [{
            "key": POLICY_KEY, "effect": NO_EXECUTE, "addOnMatchSeconds": 5, "removeOnMismatchSeconds": 5,
        }]}),
    )
    .await?;
    let tainted = |runner: &Runner| {
        runner
            .world
            .model
            .look(|f| f.clusters.values().filter(|c| c.spec.taints.iter().any(|t| t.key == POLICY_KEY)).count())
    };
    runner.until("all are tainted", |runner| Ok(tainted(runner) == 3)).await?;
    runner.world.pass(Duration::from_secs(600)).await?;
    // The first cluster is tainted a moment before the others, and the first eviction after idleness is immediate.
    ensure!(runner.evictions().len() <= 1, "{:?}", runner.evictions());
    for app in apps(3) {
        ensure!(!runner.copies(&app.name).is_empty(), "{} runs nowhere", app.name);
    }
    let events: Api<Event> = Api::namespaced(runner.world.user(), "default");
    let events = events.list(&ListParams::default()).await?.items;
    let paused = events.iter().filter(|e| e.reason.as_deref() == Some("EvictionPaused"));
    let messages: Vec<_> = paused.filter_map(|e| e.message.clone()).collect();
    ensure!(messages.iter().any(|m| m.starts_with("evictions are halted")), "{messages:?}");

    // A repaired policy restores the fleet (deleting the policy would leave the taints).
    let policies: Api<ClusterTaintPolicy> = Api::all(runner.world.user());
    let mended = json!({"spec": {"matchConditions": when("False")}});
    policies.patch("all", &PatchParams::default(), &Patch::Merge(mended)).await?;
    runner.until("the taints are removed", |runner| Ok(tainted(runner) == 0)).await?;
    runner
        .until("every workload has one place again", |runner| {
            apps(3).iter().try_fold(true, |all, app| {
                let (placed, copies) = (runner.placed(&app.name)?, runner.copies(&app.name));
                Ok(all && placed.len() == 1 && copies.len() == 1 && runner.tasks(&app.name)?.is_empty())
            })
        })
        .await?;
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn taints_edited_by_users_while_evictions_wait() -> anyhow::Result<()> {
    let mut runner = runner(0.1, 4).await?;
    create(
        &runner,
        "net",
        json!({"targetCluster": {}, "matchConditions": when("False"), "taintsToAdd": [{
            "key": POLICY_KEY, "effect": NO_EXECUTE, "addOnMatchSeconds": 1, "removeOnMismatchSeconds": 1,
        }]}),
    )
    .await?;
    net(&runner, "False").await?;
    runner.until("the first is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
    let first = taint_of(&runner).context("tainted")?;
    runner.world.pass(Duration::from_secs(3)).await?;

    // A user removes the policy's taint: queued evictions are abandoned, and queued again when the policy adds it
    // again.
    untaint(&runner.world.user(), "member1", POLICY_KEY, NO_EXECUTE).await?;
    runner.until("the policy insists", |runner| Ok(taint_of(runner).is_some_and(|again| again.0 > first.0))).await?;
    runner.until("the second is evicted", |runner| Ok(runner.evictions().len() == 2)).await?;
    // Neither a new value of the taint nor a taint that evicts nothing is a new fault.
    let clusters: Api<Cluster> = Api::all(runner.world.user());
    let mut cluster = clusters.get("member1").await?;
    for taint in &mut cluster.spec.taints {
        taint.value = Some("edited".into());
    }
    let added = taint_of(&runner);
    clusters.replace("member1", &PostParams::default(), &cluster).await?;
    for (n, app) in apps(4).iter().enumerate() {
        // member2 or member3, whichever has more capacity.
        runner
            .until("it has left", |runner| Ok(runner.placed(&app.name)?.first().is_some_and(|at| at != "member1:1")))
            .await?;
        let placed = runner.placed(&app.name)?;
        let placed: Vec<&str> = placed.iter().map(String::as_str).collect();
        runner.until_settled(&app.name, &placed).await.with_context(|| format!("workload {n}"))?;
    }
    ensure!(taint_of(&runner) == added, "the time of the taint moved");
    ensure!(runner.evictions().len() == 4, "each once: {:?}", runner.evictions());
    net(&runner, "True").await?;
    runner.until("the taint is removed", |runner| Ok(!is_tainted(runner))).await?;
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn a_rejoined_cluster_of_the_same_name_inherits_no_evictions() -> anyhow::Result<()> {
    for forced in [false, true] {
        let mut unjoined = setup(3, 0.05);
        // An unjoin without a drain deletes copies: turn the check of copies off.
        unjoined.rules.purge_mode = PurgeMode::Directly;
        let mut runner = settled(unjoined, 4).await?;
        runner.taint(&["member1"], NO_EXECUTE).await?;
        runner.until("the first is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
        let clusters: Api<Cluster> = Api::all(runner.world.user());
        clusters.delete("member1", &DeleteParams::default()).await?;
        if forced {
            // Deleted and recreated at once, while its bindings and Works still exist.
            let none = json!({"metadata": {"finalizers": null}});
            clusters.patch("member1", &PatchParams::default(), &Patch::Merge(none)).await?;
        }
        let user = runner.world.user();
        let deleted = async || Ok(Api::<Cluster>::all(user.clone()).get_opt("member1").await?.is_none());
        runner.world.until("member1 is deleted", deleted).await?;
        let evicted = runner.evictions().len();
        runner.world.join("member1").await?;
        runner
            .until("member1 is Ready again", |runner| {
                Ok(runner
                    .world
                    .model
                    .look(|f| f.clusters.get(&"member1".into()).is_some_and(|c| c.ready() == Some("True"))))
            })
            .await?;
        runner.world.pass(Duration::from_secs(120)).await?;
        ensure!(runner.evictions().len() == evicted, "forced {forced}: {:?}", runner.evictions());
        for app in apps(4) {
            let placed = runner.placed(&app.name)?;
            ensure!(placed.len() == 1, "forced {forced}: {} is placed on {placed:?}", app.name);
            let place = placed[0].split(':').next().unwrap_or_default().to_owned();
            ensure!(
                runner.copies(&app.name) == [place],
                "forced {forced}: {} is in {:?}",
                app.name,
                runner.copies(&app.name)
            );
            ensure!(runner.tasks(&app.name)?.is_empty(), "forced {forced}: {} has a task", app.name);
        }
        runner.world.until_quiet().await.with_context(|| format!("forced {forced}"))?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn wrong_clocks_of_members_change_nothing() -> anyhow::Result<()> {
    let mut times = Vec::new();
    for (lost, other) in [(0, 0), (-3_600_000, 3_600_000), (3_600_000, -3_600_000)] {
        let mut runner = Runner::new(setup(3, 0.5)).await?;
        runner.world.skew_member("member1", lost)?;
        runner.world.skew_member("member2", other)?;
        let app = apps(1).remove(0);
        let app = App { failover: Failover::Cluster { mode: "Gracefully", seconds: 20 }, ..app };
        runner.taint_policy(&TaintPolicy { effect: PREFER_NO_EXECUTE, add_after: 60, remove_after: 30 }).await?;
        runner.settle(&[app]).await?;
        runner.fault("member1", Faults { down: true, ..Faults::default() })?;
        runner.until("it is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
        times.push(runner.eviction_times()[0]);
        runner.until("it runs in member2", |runner| Ok(runner.copies("w1").contains(&"member2".into()))).await?;
        runner.fault("member1", Faults::default())?;
        runner.until_settled("w1", &["member2:1"]).await?;
        runner
            .until("the taint is removed", |runner| {
                Ok(runner.world.model.look(|fleet| fleet.clusters.values().all(|c| c.spec.taints.is_empty())))
            })
            .await?;
        runner.world.until_quiet().await?;
    }
    ensure!(times.iter().all(|time| (time - times[0]).abs() < 2.0), "{times:?}");
    Ok(())
}
