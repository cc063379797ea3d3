//! Taints in virtual time: windows of a policy, silent agents, and concurrent writers.

use ironclad_failover::flags::eviction::Check;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{
    Taint, Time,
    cluster::{Cluster, ClusterSpec, SyncMode},
    conditions::{self, cluster::READY},
    policy::{ClusterTaintPolicy, TaintState},
    taints::{NO_SCHEDULE, NOT_READY, PREFER_NO_EXECUTE, UNREACHABLE},
};
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{Setup, World, WorldOptions, checker::Rules, flags};
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Namespace,
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;

fn setup(gate: bool) -> Setup {
    let asked = [("example.com/down".to_owned(), PREFER_NO_EXECUTE.to_owned())].into();
    let rules = Rules { gate, asked_taints: asked, ..Rules::default() };
    let options = WorldOptions { seed: 5, members: 2 };
    Setup { settings: flags::settings(gate, 0.5, Check::Strict), rules, ..Setup::from(options) }
}

/// The starter policy of the documentation.
fn starter() -> anyhow::Result<ClusterTaintPolicy> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": { "name": "down" },
        "spec": {
            "matchConditions": [{ "conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"] }],
            "taintsToAdd": [{ "key": "example.com/down", "effect": "PreferNoExecute" }],
        },
    }))?)
}

fn has(cluster: &Cluster, key: &str, effect: &str) -> bool {
    cluster.spec.taints.iter().any(|taint| taint.key == key && taint.effect == effect)
}

/// Returns the transition time of condition Ready.
fn since(cluster: &Cluster) -> anyhow::Result<i64> {
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    Ok(conditions::get(conditions, READY).context("no condition Ready")?.last_transition_time.0.as_second())
}

async fn all_ready(world: &mut World) -> anyhow::Result<Api<Cluster>> {
    world.start_controllers().await;
    let clusters: Api<Cluster> = Api::all(world.user());
    world
        .until("all are Ready", async || {
            let all = clusters.list(&kube::api::ListParams::default()).await?.items;
            Ok(all.iter().all(|cluster| cluster.is_ready()))
        })
        .await?;
    Ok(clusters)
}

#[tokio::test(start_paused = true)]
async fn a_policys_taint_is_added_and_removed_to_the_second() -> anyhow::Result<()> {
    let mut world = World::start(setup(true)).await?;
    let clusters = all_ready(&mut world).await?;
    let policies: Api<ClusterTaintPolicy> = Api::all(world.user());
    policies.create(&PostParams::default(), &starter()?).await?;
    world.member("member1")?.set_faults(Faults { down: true, ..Faults::default() });
    world.until("member1 is False", async || Ok(clusters.get("member1").await?.ready() == Some("False"))).await?;
    let down = since(&clusters.get("member1").await?)?;
    ensure!(has(&clusters.get("member1").await?, NOT_READY, NO_SCHEDULE), "new work stays away at once");
    world
        .until("the policy says when it will taint", async || {
            let status = policies.get("down").await?.status.unwrap_or_default();
            let entry = status.clusters.iter().find(|entry| entry.name == "member1").cloned().unwrap_or_default();
            let taint = entry.taints.first().cloned().unwrap_or_default();
            Ok(entry.matched
                && taint.state == Some(TaintState::Pending)
                && taint.at.is_some_and(|at| at.0.as_second() == down + 300))
        })
        .await?;
    let down_key = "example.com/down";
    world.until("tainted", async || Ok(has(&clusters.get("member1").await?, down_key, PREFER_NO_EXECUTE))).await?;
    let cluster = clusters.get("member1").await?;
    let taint = cluster.spec.taints.iter().find(|taint| taint.key == down_key).context("tainted")?;
    let added = taint.time_added.as_ref().context("timeAdded")?.0.as_second();
    ensure!((300..=301).contains(&(added - down)), "added {} s after Ready became False", added - down);
    ensure!(!has(&clusters.get("member2").await?, down_key, PREFER_NO_EXECUTE));

    world.member("member1")?.set_faults(Faults::default());
    world.until("member1 is True", async || Ok(clusters.get("member1").await?.ready() == Some("True"))).await?;
    let up = since(&clusters.get("member1").await?)?;
    // A crash within the window does not change its length.
    world.pass(Duration::from_secs(60)).await?;
    world.kill_controllers();
    world.start_controllers().await;
    world.until("the taint is removed", async || Ok(clusters.get("member1").await?.spec.taints.is_empty())).await?;
    let waited = world.clock().wall().as_second() - up;
    ensure!((180..=182).contains(&waited), "removed {waited} s after Ready became True");
    let owners = clusters.get("member1").await?;
    ensure!(!owners.annotations().contains_key("policy.karmada.io/taint-owners"), "{:?}", owners.annotations());
    world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn with_the_gate_off_a_policy_does_nothing() -> anyhow::Result<()> {
    let mut world = World::start(setup(false)).await?;
    let clusters = all_ready(&mut world).await?;
    Api::all(world.user()).create(&PostParams::default(), &starter()?).await?;
    world.member("member1")?.set_faults(Faults { down: true, ..Faults::default() });
    world.pass(Duration::from_secs(600)).await?;
    let cluster = clusters.get("member1").await?;
    let keys: Vec<_> = cluster.spec.taints.iter().map(|taint| taint.key.as_str()).collect();
    ensure!(keys == [NOT_READY], "{keys:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_makes_its_cluster_unknown_until_it_returns() -> anyhow::Result<()> {
    let mut world = World::start(setup(false)).await?;
    all_ready(&mut world).await?;
    let user = world.user();
    let clusters: Api<Cluster> = Api::all(user.clone());
    let spec = ClusterSpec { sync_mode: SyncMode::Pull, ..ClusterSpec::default() };
    clusters.create(&PostParams::default(), &Cluster::new("pulled", spec)).await?;
    let namespace = Namespace {
        metadata: ObjectMeta { name: Some("karmada-cluster".into()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    let _ = Api::<Namespace>::all(user.clone()).create(&PostParams::default(), &namespace).await;
    let leases: Api<Lease> = Api::namespaced(user.clone(), "karmada-cluster");
    let mut lease = Lease::default();
    lease.metadata.name = Some("pulled".into());
    leases.create(&PostParams::default(), &lease).await?;
    let clock = world.clock().clone();
    let renew = async || -> anyhow::Result<()> {
        let spec = LeaseSpec { renew_time: Some(MicroTime(clock.wall())), ..LeaseSpec::default() };
        leases.patch("pulled", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await?;
        Ok(())
    };
    let report = async |status: &str| -> anyhow::Result<()> {
        let mut condition = conditions::condition(READY, status, "Told", "");
        condition.last_transition_time = Time(clock.wall_seconds());
        let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        clusters.patch_status("pulled", &PatchParams::default(), &patch).await?;
        Ok(())
    };
    report("True").await?;
    for _ in 0..12 {
        renew().await?;
        world.pass(Duration::from_secs(10)).await?;
    }
    ensure!(clusters.get("pulled").await?.ready() == Some("True"), "its lease is renewed");
    renew().await?;
    let last = clock.wall().as_second();
    world.until("it is Unknown", async || Ok(clusters.get("pulled").await?.ready() == Some("Unknown"))).await?;
    let silent = clock.wall().as_second() - last;
    ensure!((40..=46).contains(&silent), "Unknown after {silent} s of silence");
    let condition = clusters.get("pulled").await?.status.context("status")?.conditions;
    ensure!(conditions::get(&condition, READY).is_some_and(|ready| ready.reason == "ClusterStatusUnknown"));
    world
        .until("one taint took the place of the other", async || {
            let cluster = clusters.get("pulled").await?;
            Ok(has(&cluster, UNREACHABLE, NO_SCHEDULE) && !has(&cluster, NOT_READY, NO_SCHEDULE))
        })
        .await?;
    // The agent is back; its success threshold applies as for any prober.
    for _ in 0..4 {
        renew().await?;
        world.pass(Duration::from_secs(10)).await?;
    }
    report("True").await?;
    world.until("both are removed", async || Ok(clusters.get("pulled").await?.spec.taints.is_empty())).await
}

#[tokio::test(start_paused = true)]
async fn concurrent_writers_of_taints_lose_none_and_restore_none() -> anyhow::Result<()> {
    let mut world = World::start(setup(true)).await?;
    let clusters = all_ready(&mut world).await?;
    let user = world.user();
    let mut policy = starter()?;
    policy.spec.match_conditions.clear();
    policy.spec.taints_to_add.clear();
    policy.spec = serde_json::from_value(json!({
        "addOnConditions": [{ "conditionType": "Net", "operator": "In", "statusValues": ["False"] }],
        "removeOnConditions": [{ "conditionType": "Net", "operator": "In", "statusValues": ["True"] }],
        "taints": [{ "key": "example.com/down", "effect": "PreferNoExecute" }],
    }))?;
    Api::all(user.clone()).create(&PostParams::default(), &policy).await?;
    for i in 0..20 {
        // A condition of a third party flips, the member goes up and down, and a user adds one taint and removes an
        // older one, all in the same moments.
        let mut cluster = clusters.get("member1").await?;
        let mut net = conditions::condition("Net", if i % 2 == 0 { "False" } else { "True" }, "Told", "");
        net.last_transition_time = Time(world.clock().wall_seconds());
        let status = cluster.status.get_or_insert_default();
        status.conditions.retain(|condition| condition.type_ != "Net");
        status.conditions.push(net);
        let _ = clusters.replace_status("member1", &PostParams::default(), &cluster).await;
        world.member("member1")?.set_faults(Faults { down: i % 8 >= 4, ..Faults::default() });
        let mine = Taint { key: format!("mine{i}"), effect: NO_SCHEDULE.into(), ..Taint::default() };
        ironclad_cli::taint::add(&user, clusters.get("member1").await?, mine).await?;
        loop {
            let mut cluster = clusters.get("member1").await?;
            cluster.spec.taints.retain(|taint| taint.key != format!("mine{}", i - 2));
            match clusters.replace("member1", &PostParams::default(), &cluster).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                done => break done.map(|_| ())?,
            }
        }
        world.pass(Duration::from_secs(17)).await?;
    }
    world.member("member1")?.set_faults(Faults::default());
    world.until("it is Ready", async || Ok(clusters.get("member1").await?.ready() == Some("True"))).await?;
    world
        .until("what is left is what was requested", async || {
            let taints = clusters.get("member1").await?.spec.taints;
            let keys: Vec<_> = taints.iter().map(|taint| taint.key.as_str()).collect();
            Ok(keys == ["mine18", "mine19"])
        })
        .await
}
