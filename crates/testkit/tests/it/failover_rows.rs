//! Rows of the behaviour table (specification/failover.md 11) that need the whole chain: taints, queue, scheduler,
//! Works and copies in simulated members, in virtual time. The checker of the simulation checks every write, too. Rows
//! that the taint manager alone decides are in `failover/src/taint_manager/tests/rows.rs`.

use ironclad_failover::flags::eviction::Check;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_api::{policy::PurgeMode, work::ResourceBinding};
use ironclad_cli::drain::{Options, command::whole};
use ironclad_fleet::gates::Gate;
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    runner::{Runner, setup},
    script::{App, Failover, Spread, TaintPolicy},
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

const NO_EXECUTE: &str = "NoExecute";
const PREFER: &str = "PreferNoExecute";

fn opted_in(mode: &'static str, seconds: i64) -> Failover {
    Failover::Cluster { mode, seconds }
}

/// One copy on member1, which may move to member2 and member3.
fn one_copy() -> App {
    App { affinity: vec!["member1".into(), "member2".into(), "member3".into()], ..App::new("web") }
}

/// Workloads of one replica each, all on member1, which may move anywhere.
fn many(count: usize) -> Vec<App> {
    (0..count).map(|n| App { spread: Spread::Divided(1), ..App::new(&format!("w{n:02}")) }).collect()
}

/// Starts a fleet with this workload on member1.
async fn runner(members: usize, app: App) -> anyhow::Result<Runner> {
    let mut runner = Runner::new(setup(members, 0.5)).await?;
    let name = app.name.clone();
    runner.settle(&[app]).await?;
    ensure!(runner.placed(&name)? == ["member1:1"], "{:?}", runner.placed(&name)?);
    Ok(runner)
}

#[tokio::test(start_paused = true)]
async fn b14_workloads_without_failover_stay_despite_prefer_no_execute() -> anyhow::Result<()> {
    let mut runner = runner(3, one_copy()).await?;
    runner.taint(&["member1"], PREFER).await?;
    runner.at(600.0).await?;
    ensure!(runner.placed("web")? == ["member1:1"] && runner.tasks("web")?.is_empty());
    // New workloads prefer untainted clusters; with failover they never use the tainted one, without it only if it is
    // all there is.
    runner.add(&App { name: "only".into(), affinity: vec!["member1".into()], ..App::new("only") }, |_| {}).await?;
    let never = App { affinity: vec!["member1".into()], failover: opted_in("Gracefully", 5), ..App::new("never") };
    runner.add(&never, |_| {}).await?;
    runner
        .until("the one without failover is placed", |runner| {
            Ok(runner.placed("only").is_ok_and(|p| p == ["member1:1"]))
        })
        .await?;
    runner.world.pass(Duration::from_secs(60)).await?;
    ensure!(runner.placed("never")?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b15_b28_workloads_with_failover_move_after_their_toleration_and_overlap() -> anyhow::Result<()> {
    let mut runner = runner(3, App { failover: opted_in("Gracefully", 300), ..one_copy() }).await?;
    runner.taint(&["member1"], PREFER).await?;
    runner.at(299.0).await?;
    ensure!(runner.evictions().is_empty());
    runner.until("it is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
    let at = runner.eviction_times()[0];
    ensure!((299.0..302.0).contains(&at), "evicted after {at} s");
    let task = runner.tasks("web")?.remove(0);
    ensure!(task.reason == "TaintPreferNoExecute" && task.purge_mode == Some(PurgeMode::Gracefully), "{task:?}");
    runner.until("both copies exist", |runner| Ok(runner.copies("web").len() == 2)).await?;
    runner.until_settled("web", &["member2:1"]).await?;
    ensure!(runner.copies("web") == ["member2"]);
    // Nothing moves back automatically.
    runner.untaint(&["member1"], PREFER).await?;
    runner.world.until_quiet().await?;
    ensure!(runner.placed("web")? == ["member2:1"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b16_directly_deletes_before_it_creates() -> anyhow::Result<()> {
    let mut runner = runner(3, App { failover: opted_in("Directly", 100), ..one_copy() }).await?;
    runner.taint(&["member1"], PREFER).await?;
    runner.until("it is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
    ensure!((99.0..102.0).contains(&runner.eviction_times()[0]), "{:?}", runner.eviction_times());
    // The checker verifies that both never exist together (invariant 18).
    runner.until_settled("web", &["member2:1"]).await
}

/// With the default check (specification/failover.md 6.9) the survivors take the replicas of a lost cluster.
#[tokio::test(start_paused = true)]
async fn b39_a_divided_workload_that_runs_everywhere_leaves_a_faulty_cluster() -> anyhow::Result<()> {
    let mut relaxed = setup(3, 0.5);
    relaxed.settings.failover.eviction.pre_scheduling_check = Check::default();
    let mut runner = Runner::new(relaxed).await?;
    let affinity = vec!["member1".into(), "member2".into()];
    let app = App { replicas: 4, spread: Spread::Divided(2), affinity, ..App::new("web") };
    runner
        .add(&app, |policy| {
            policy["spec"]["placement"]["replicaScheduling"] = json!({"replicaSchedulingType": "Divided"});
        })
        .await?;
    runner.settle(&[]).await?;
    ensure!(runner.placed("web")?.len() == 2, "{:?}", runner.placed("web")?);
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.until_settled("web", &["member2:4"]).await
}

#[tokio::test(start_paused = true)]
async fn b17_directly_does_not_wait_for_a_lost_cluster() -> anyhow::Result<()> {
    let mut runner = runner(3, App { failover: opted_in("Directly", 5), ..one_copy() }).await?;
    runner.fault("member1", Faults { down: true, ..Faults::default() })?;
    runner.until_ready_is("member1", "False").await?;
    runner.taint(&["member1"], PREFER).await?;
    runner.until("the copy is in member2", |runner| Ok(runner.copies("web").contains(&"member2".into()))).await?;
    ensure!(runner.elapsed() < Duration::from_secs(30), "{:?}", runner.elapsed());
    ensure!(runner.copies("web").contains(&"member1".into()), "what is lost can't be deleted");
    runner.fault("member1", Faults::default())?;
    runner.untaint(&["member1"], PREFER).await?;
    runner.until_settled("web", &["member2:1"]).await?;
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn b18_directly_with_state_waits_for_the_lost_copy_and_preserves_its_state() -> anyhow::Result<()> {
    let mut stateful = setup(3, 0.5);
    stateful.settings.gates = stateful.settings.gates.with(Gate::StatefulFailoverInjection, true);
    let mut runner = Runner::new(stateful).await?;
    let app = App { replicas: 2, failover: opted_in("Directly", 5), ..one_copy() };
    runner
        .add(&app, |policy| {
            policy["spec"]["failover"]["cluster"]["statePreservation"] =
                json!({"rules": [{"aliasLabelName": "ready-before", "jsonPath": "{.readyReplicas}"}]});
        })
        .await?;
    runner.settle(&[]).await?;
    ensure!(runner.placed("web")? == ["member1:2"], "{:?}", runner.placed("web")?);
    runner.fault("member1", Faults { down: true, ..Faults::default() })?;
    runner.until_ready_is("member1", "False").await?;
    runner.taint(&["member1"], PREFER).await?;
    runner.until("it is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
    let task = runner.tasks("web")?.remove(0);
    ensure!(task.preserved_label_state.get("ready-before").map(String::as_str) == Some("2"), "{task:?}");
    // Only one copy may run, and it is unknown whether that in member1 has ended.
    runner.at(660.0).await?;
    ensure!(
        runner.placed("web")? == ["member2:2"] && runner.copies("web") == ["member1"],
        "{:?}",
        runner.copies("web")
    );
    let events: Api<Event> = Api::namespaced(runner.world.user(), "default");
    let events = events.list(&ListParams::default()).await?.items;
    let waits = events.iter().filter(|e| e.reason.as_deref() == Some("WaitingForSourceCleanup")).count();
    ensure!(waits >= 1, "no event says why nothing happens");

    runner.fault("member1", Faults::default())?;
    runner.until("it runs in member2 alone", |runner| Ok(runner.copies("web") == ["member2"])).await?;
    let copy = runner.copy("web", "member2").context("a copy")?;
    ensure!(copy["metadata"]["labels"]["ready-before"] == "2", "{}", copy["metadata"]["labels"]);
    runner.untaint(&["member1"], PREFER).await?;
    runner.until_settled("web", &["member2:2"]).await?;
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn b63_a_drain_moves_at_its_own_rate_with_the_gate_off() -> anyhow::Result<()> {
    let mut off = setup(3, 0.5);
    off.settings.gates = off.settings.gates.with(Gate::Failover, false);
    // The checker finds every taint NoExecute, and every eviction by the taint manager.
    (off.rules.gate, off.rules.asked_taints) = (false, BTreeSet::new());
    let mut runner = Runner::new(off).await?;
    let names = ["a", "b", "c", "d"];
    runner.settle(&names.map(|name| App { name: name.into(), ..one_copy() })).await?;
    for name in names {
        ensure!(runner.placed(name)? == ["member1:1"], "{name}: {:?}", runner.placed(name)?);
    }
    let (user, clock) = (runner.world.user(), runner.world.clock().clone());
    let (began, left) = (clock.mono(), RefCell::new(BTreeMap::new()));
    let wanted = Options::new("member1");
    let drain = whole(&user, &clock, &wanted, true, Duration::ZERO, |_| {});
    let watch = runner.until("all have left", |runner| {
        for name in names {
            if !runner.placed(name)?.contains(&"member1:1".to_owned()) {
                left.borrow_mut().entry(name).or_insert_with(|| clock.mono() - began);
            }
        }
        Ok(left.borrow().len() == names.len())
    });
    // Time passes until the drain reports that the old copies are deleted.
    let (drained, watched) = futures::join!(drain, watch);
    watched?;
    ensure!(drained?.evicted == 4);
    let mut times: Vec<f64> = left.borrow().values().map(Duration::as_secs_f64).collect();
    times.sort_by(f64::total_cmp);
    ensure!(times.windows(2).all(|pair| pair[1] - pair[0] >= 1.7), "0.5/s: {times:?}");
    ensure!(times[3] - times[0] < 9.0, "it dawdles: {times:?}");
    let taints = runner.world.model.look(|fleet| fleet.clusters[&"member1".into()].spec.taints.clone());
    let taints: Vec<_> = taints.iter().map(|t| (t.key.as_str(), t.effect.as_str())).collect();
    ensure!(taints == [("cluster.karmada.io/unschedulable", "NoSchedule")], "{taints:?}");
    for name in names {
        // The cluster with more capacity.
        let placed = runner.placed(name)?;
        ensure!(placed == ["member2:1"] || placed == ["member3:1"], "{name}: {placed:?}");
        let placed: Vec<&str> = placed.iter().map(String::as_str).collect();
        runner.until_settled(name, &placed).await?;
    }
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn b29_b30_an_unhealthy_new_copy_keeps_the_old_one_without_limit() -> anyhow::Result<()> {
    let mut runner = runner(3, one_copy()).await?;
    runner.remove_nodes("member2")?;
    runner.remove_nodes("member3")?;
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.at(660.0).await?;
    ensure!(runner.placed("web")? == ["member2:1"] && runner.tasks("web")?.len() == 1, "{:?}", runner.tasks("web")?);
    ensure!(runner.copies("web") == ["member1", "member2"]);
    // The cluster recovers: the migration continues.
    runner.untaint(&["member1"], NO_EXECUTE).await?;
    runner.world.pass(Duration::from_secs(120)).await?;
    ensure!(runner.placed("web")? == ["member2:1"] && runner.copies("web").len() == 2);
    runner.restore_node("member2")?;
    runner.until_settled("web", &["member2:1"]).await
}

#[tokio::test(start_paused = true)]
async fn b31_b32_b33_workloads_without_a_substitute_return() -> anyhow::Result<()> {
    // Directly, too, the last copy stays while nothing can start elsewhere.
    for mode in ["Gracefully", "Directly"] {
        let mut unchecked = setup(3, 0.5);
        unchecked.settings.failover.eviction.pre_scheduling_check = Check::Off;
        let mut runner = Runner::new(unchecked).await?;
        let pinned = App { affinity: vec!["member1".into()], failover: opted_in(mode, 0), ..App::new("web") };
        runner.settle(&[pinned]).await?;
        let uid =
            |runner: &Runner| runner.copy("web", "member1").and_then(|copy| copy.pointer("/metadata/uid").cloned());
        let before = uid(&runner);
        runner.taint(&["member1"], NO_EXECUTE).await?;
        runner.until("it is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
        runner.at(120.0).await?;
        ensure!(runner.tasks("web")?.len() == 1, "the task is kept while nothing takes it");
        ensure!(!runner.copies("web").is_empty(), "{mode}: {:?}", runner.copies("web"));
        runner.untaint(&["member1"], NO_EXECUTE).await?;
        runner.until_settled("web", &["member1:1"]).await?;
        ensure!(uid(&runner) == before, "{mode}: the copy is another one");
        runner.world.until_quiet().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b34_b35_nothing_is_evicted_without_a_target_until_a_cluster_joins() -> anyhow::Result<()> {
    let mut four = setup(3, 0.5);
    four.spares = 1;
    let mut runner = Runner::new(four).await?;
    let app = App { affinity: vec!["member1".into(), "member4".into()], ..App::new("web") };
    runner.settle(&[app]).await?;
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.at(60.0).await?;
    ensure!(runner.evictions().is_empty() && runner.copies("web") == ["member1"]);
    runner.world.join("member4").await?;
    runner.until_settled("web", &["member4:1"]).await
}

#[tokio::test(start_paused = true)]
async fn b36_to_b41_duplicated_and_divided_workloads() -> anyhow::Result<()> {
    let on = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>();
    let both = on(&["member1", "member2"]);
    let all = on(&["member1", "member2", "member3"]);
    let rows: [(&str, App, &[&str]); 4] = [
        (
            "B36, B41: copies everywhere are not taken away",
            App { spread: Spread::Everywhere, affinity: both.clone(), ..App::new("web") },
            &["member1:1", "member2:1"],
        ),
        (
            "B37: two of three",
            App { spread: Spread::Copies(2), affinity: all.clone(), ..App::new("web") },
            &["member2:1", "member3:1"],
        ),
        (
            "B38: two of two",
            App { spread: Spread::Copies(2), affinity: both.clone(), ..App::new("web") },
            &["member1:1", "member2:1"],
        ),
        (
            "B40: divided, with room elsewhere",
            App { spread: Spread::Divided(1), replicas: 3, affinity: all, ..App::new("web") },
            &["member2:3"],
        ),
    ];
    for (name, app, want) in rows {
        let mut runner = Runner::new(setup(3, 0.5)).await?;
        runner.settle(&[app]).await?;
        runner.taint(&["member1"], NO_EXECUTE).await?;
        runner.at(60.0).await?;
        ensure!(runner.placed("web")? == want, "{name}: {:?}", runner.placed("web")?);
        runner.until_settled("web", want).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b42_b43_too_many_faulty_clusters_halt_and_one_that_recovers_resumes_at_once() -> anyhow::Result<()> {
    let mut runner = runner(3, one_copy()).await?;
    // The cluster with the workload last, so that it is never the only faulty one.
    runner.taint(&["member2", "member1"], NO_EXECUTE).await?;
    runner.at(120.0).await?;
    ensure!(runner.evictions().is_empty());
    runner.untaint(&["member2"], NO_EXECUTE).await?;
    let recovered = runner.elapsed().as_secs_f64();
    runner.until("it is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
    let after = runner.eviction_times()[0] - recovered;
    ensure!(after < 1.0, "resumed after {after} s");
    runner.until_settled("web", &["member2:1"]).await
}

#[tokio::test(start_paused = true)]
async fn b47_b51_recovery_abandons_what_waits() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(2, 0.5)).await?;
    runner.settle(&many(20)).await?;
    let on_first = (0..20).filter(|n| runner.placed(&format!("w{n:02}")).is_ok_and(|p| p == ["member1:1"])).count();
    ensure!(on_first >= 6, "only {on_first} workloads are on member1");
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.at(9.0).await?;
    runner.untaint(&["member1"], NO_EXECUTE).await?;
    let evicted = runner.evictions().len();
    ensure!((4..=5).contains(&evicted), "{evicted}");
    runner.world.pass(Duration::from_secs(60)).await?;
    ensure!(runner.evictions().len() == evicted, "evicted after the recovery: {:?}", runner.evictions());
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn b48_a_restart_neither_loses_nor_repeats_evictions() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(2, 0.5)).await?;
    runner.settle(&many(12)).await?;
    let on_first: Vec<String> = (0..12)
        .map(|n| format!("w{n:02}"))
        .filter(|name| runner.placed(name).is_ok_and(|p| p == ["member1:1"]))
        .collect();
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.at(5.0).await?;
    let before = runner.evictions().len();
    ensure!(before >= 1 && before < on_first.len());
    runner.world.crash(0, Duration::from_secs(2));
    let crashed = runner.elapsed().as_secs_f64();
    runner.until("everything is evicted", |runner| Ok(runner.evictions().len() == on_first.len())).await?;
    // After the warm-up of the new leader, which the checker watches, too.
    ensure!(runner.eviction_times()[before] >= crashed + 42.0, "{:?}", runner.eviction_times());
    for name in &on_first {
        runner.until_settled(name, &["member2:1"]).await?;
    }
    ensure!(runner.evictions().len() == on_first.len());
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn b53_two_faults_of_one_workload_are_handled_one_after_the_other() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(5, 2.0)).await?;
    let all: Vec<String> = (1..=5).map(|n| format!("member{n}")).collect();
    runner.settle(&[App { spread: Spread::Copies(2), affinity: all, ..App::new("web") }]).await?;
    ensure!(runner.placed("web")? == ["member1:1", "member2:1"], "{:?}", runner.placed("web")?);
    runner.taint(&["member1", "member2"], NO_EXECUTE).await?;
    runner.until_settled("web", &["member3:1", "member4:1"]).await?;
    ensure!(runner.evictions().len() == 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn b56_a_repeated_eviction_keeps_the_existing_task() -> anyhow::Result<()> {
    let mut runner = runner(3, one_copy()).await?;
    runner.remove_nodes("member2")?;
    runner.remove_nodes("member3")?;
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.until("it is placed anew", |runner| Ok(runner.placed("web")? == ["member2:1"])).await?;
    runner.untaint(&["member1"], NO_EXECUTE).await?;
    // A user moves it back while its cluster is tainted at the same time.
    let bindings: Api<ResourceBinding> = Api::namespaced(runner.world.user(), "default");
    let patch = json!({"spec": {"clusters": [{"name": "member1", "replicas": 1}]}});
    bindings.patch("web-deployment", &PatchParams::default(), &Patch::Merge(patch)).await?;
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.until("it left again", |runner| Ok(runner.placed("web")? == ["member2:1"])).await?;
    ensure!(runner.tasks("web")?.len() <= 1, "{:?}", runner.tasks("web")?);
    runner.restore_node("member2")?;
    runner.until_settled("web", &["member2:1"]).await
}

#[tokio::test(start_paused = true)]
async fn the_whole_chain_from_a_lost_member_over_a_policy_and_back() -> anyhow::Result<()> {
    let mut runner = runner(3, App { failover: opted_in("Gracefully", 20), ..one_copy() }).await?;
    runner.taint_policy(&TaintPolicy { effect: PREFER, add_after: 60, remove_after: 30 }).await?;
    runner.fault("member1", Faults { down: true, ..Faults::default() })?;
    runner.until("it is evicted", |runner| Ok(runner.evictions().len() == 1)).await?;
    // At most 40 s until the loss is detected, 60 s until the taint, 20 s of toleration.
    ensure!((109.0..125.0).contains(&runner.eviction_times()[0]), "{:?}", runner.eviction_times());
    runner.until("it runs in member2", |runner| Ok(runner.copies("web").contains(&"member2".into()))).await?;
    runner.fault("member1", Faults::default())?;
    runner.until_settled("web", &["member2:1"]).await?;
    runner
        .until("the taint is removed", |runner| {
            Ok(runner.world.model.look(|fleet| fleet.clusters.values().all(|c| c.spec.taints.is_empty())))
        })
        .await?;
    runner.world.until_quiet().await
}

#[tokio::test(start_paused = true)]
async fn a_loss_of_the_control_planes_own_network_moves_nothing() -> anyhow::Result<()> {
    // Invariant 37: all members are cut off for ten minutes, and every binding is as before.
    let mut runner = Runner::new(setup(3, 10.0)).await?;
    runner.taint_policy(&TaintPolicy { effect: NO_EXECUTE, add_after: 20, remove_after: 20 }).await?;
    runner
        .settle(&[
            App { failover: opted_in("Directly", 0), ..one_copy() },
            App { name: "all".into(), spread: Spread::Everywhere, ..App::new("all") },
        ])
        .await?;
    let before = (runner.placed("web")?, runner.placed("all")?);
    for member in ["member1", "member2", "member3"] {
        runner.fault(member, Faults { partition: true, ..Faults::default() })?;
    }
    runner.world.pass(Duration::from_secs(600)).await?;
    for member in ["member1", "member2", "member3"] {
        runner.fault(member, Faults::default())?;
    }
    runner
        .until("all is well again", |runner| {
            Ok(runner
                .world
                .model
                .look(|fleet| fleet.clusters.values().all(|c| c.ready() == Some("True") && c.spec.taints.is_empty())))
        })
        .await?;
    runner.world.until_quiet().await?;
    ensure!(runner.evictions().is_empty(), "{:?}", runner.evictions());
    ensure!((runner.placed("web")?, runner.placed("all")?) == before);
    Ok(())
}

/// Two people drain two of four clusters at the same time: whatever has room in the others ends there.
#[tokio::test(start_paused = true)]
async fn two_drains_at_once_both_end_well() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(4, 0.5)).await?;
    let apps = [
        App { replicas: 6, spread: Spread::Weighted, ..App::new("divided") },
        App { replicas: 3, spread: Spread::Divided(1), ..App::new("one") },
        App { spread: Spread::Everywhere, ..App::new("everywhere") },
        App { spread: Spread::Copies(2), ..App::new("two") },
        App::new("single"),
    ];
    runner.settle(&apps).await?;
    let (user, clock) = (runner.world.user(), runner.world.clock().clone());
    let options = ["member1", "member2"].map(Options::new);
    let drains = options.each_ref().map(|wanted| whole(&user, &clock, wanted, true, Duration::from_secs(600), |_| {}));
    let drained = ["member1:", "member2:"];
    let watch = runner.until("nothing is left in either", |runner| {
        let mut left = false;
        for app in &apps {
            left |= runner.placed(&app.name)?.iter().any(|at| drained.iter().any(|from| at.starts_with(from)));
            left |= !runner.tasks(&app.name)?.is_empty();
        }
        Ok(!left)
    });
    let (ended, watched) = futures::join!(futures::future::join_all(drains), watch);
    for drain in ended {
        drain?;
    }
    watched?;
    ensure!(runner.placed("everywhere")? == ["member3:1", "member4:1"], "{:?}", runner.placed("everywhere")?);
    for app in &apps {
        let placed: Vec<String> = runner.placed(&app.name)?;
        let placed: Vec<&str> = placed.iter().map(String::as_str).collect();
        runner.until_settled(&app.name, &placed).await?;
    }
    Ok(())
}
