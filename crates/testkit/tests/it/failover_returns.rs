//! Decisions made before a member, or the control plane itself, came back (specification/failover.md 14.1, IR-15).

use ironclad_failover::flags::eviction::Check;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{eviction::APPLICATION_FAILURE, policy::PropagationPolicy, work::ResourceHealth};
use ironclad_cli::{
    drain::{Options, command::whole},
    evictions::failover::{EvictionSwitch, set},
};
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    runner::{Runner, setup},
    script::{App, Failover},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

/// karmada#5406: a member that returns must not delete a copy that is placed there again meanwhile.
#[tokio::test(start_paused = true)]
async fn a_copy_that_is_placed_again_survives_the_deletion_of_its_work() -> anyhow::Result<()> {
    let mut unchecked = setup(3, 0.5);
    unchecked.settings.failover.eviction.pre_scheduling_check = Check::Off;
    let mut runner = Runner::new(unchecked).await?;
    let failover = Failover::Cluster { mode: "Directly", seconds: 0 };
    let pinned = App { affinity: vec!["member1".into(), "member2".into()], failover, ..App::new("web") };
    // It tolerates unready clusters: otherwise only the return would place it there again.
    let anywhere = json!([{"key": "cluster.karmada.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}]);
    runner.add(&pinned, |policy| policy["spec"]["placement"]["clusterTolerations"] = anywhere).await?;
    runner.settle(&[]).await?;
    let uid = |runner: &Runner| runner.copy("web", "member1").and_then(|copy| copy.pointer("/metadata/uid").cloned());
    let before = uid(&runner).context("no copy")?;

    runner.fault("member1", Faults { down: true, ..Faults::default() })?;
    runner
        .until("it is known", |runner| {
            let lost = |fleet: &ironclad_fleet::World| {
                fleet.clusters.get(&"member1".into()).is_some_and(|c| c.ready() == Some("False"))
            };
            Ok(runner.world.model.look(lost))
        })
        .await?;
    runner.taint(&["member1"], "NoExecute").await?;
    runner
        .until("its Work is being deleted", |runner| {
            Ok(runner.works("web")?.iter().any(|(_, work)| work.metadata.deletion_timestamp.is_some()))
        })
        .await?;
    runner.untaint(&["member1"], "NoExecute").await?;
    let only = Patch::Merge(json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["member1"]}}}}));
    let policies: Api<PropagationPolicy> = Api::namespaced(runner.world.user(), "default");
    policies.patch("web", &PatchParams::default(), &only).await?;
    runner.until("it is placed there again", |runner| Ok(runner.placed("web")? == ["member1:1"])).await?;
    runner.fault("member1", Faults::default())?;
    runner.until_settled("web", &["member1:1"]).await?;
    runner.world.until_quiet().await?;
    ensure!(uid(&runner) == Some(before), "the copy is another one");
    let works = runner.works("web")?;
    ensure!(works.len() == 1 && works[0].1.metadata.deletion_timestamp.is_none(), "{works:?}");
    Ok(())
}

/// IR-15: a restart does not reset the time for which a workload has been unhealthy.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_reset_the_clock_of_application_failover() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(3, 10.0)).await?;
    let app = App { affinity: vec!["member1".into(), "member2".into()], ..App::new("web") };
    let behaviour = json!({"application": {
        "decisionConditions": {"tolerationSeconds": 100}, "purgeMode": "Gracefully", "gracePeriodSeconds": 600,
    }});
    let add = |policy: &mut serde_json::Value| {
        policy["spec"]["failover"] = behaviour;
        policy["spec"]["propagateDeps"] = json!(true);
    };
    runner.add(&app, add).await?;
    runner.settle(&[]).await?;
    runner.remove_nodes("member1")?;
    let ill = |runner: &Runner| {
        let status = runner.binding("web")?.status.clone().unwrap_or_default();
        Ok(status.aggregated_status.first().is_some_and(|line| line.health == Some(ResourceHealth::Unhealthy)))
    };
    runner.until("it is unhealthy", ill).await?;
    let turned = runner.world.clock().mono();
    runner.world.pass(Duration::from_secs(70)).await?;
    runner.world.crash(0, Duration::from_secs(2));
    runner.until("it leaves", |runner| Ok(!runner.tasks("web")?.is_empty())).await?;
    let after = (runner.world.clock().mono() - turned).as_secs_f64();
    ensure!((99.0..106.0).contains(&after), "left {after} s after it turned unhealthy");
    ensure!(runner.tasks("web")?[0].reason == APPLICATION_FAILURE);
    runner.until("it runs elsewhere", |runner| Ok(runner.placed("web")? == ["member2:1"])).await
}

/// Application failover that is enabled for an unhealthy workload grants it the whole toleration, also if the
/// control plane restarts meanwhile.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_count_time_before_application_failover_was_enabled() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(3, 10.0)).await?;
    let app = App { affinity: vec!["member1".into(), "member2".into()], ..App::new("web") };
    runner.add(&app, |_| {}).await?;
    runner.settle(&[]).await?;
    runner.remove_nodes("member1")?;
    let ill = |runner: &Runner| {
        let status = runner.binding("web")?.status.clone().unwrap_or_default();
        Ok(status.aggregated_status.first().is_some_and(|line| line.health == Some(ResourceHealth::Unhealthy)))
    };
    runner.until("it is unhealthy", ill).await?;
    runner.world.pass(Duration::from_secs(300)).await?;
    let policies: Api<PropagationPolicy> = Api::namespaced(runner.world.user(), "default");
    let behaviour = json!({"spec": {"propagateDeps": true, "failover": {"application": {
        "decisionConditions": {"tolerationSeconds": 100}, "purgeMode": "Gracefully", "gracePeriodSeconds": 600,
    }}}});
    policies.patch("web", &PatchParams::default(), &Patch::Merge(behaviour)).await?;
    let asked = runner.world.clock().mono();
    runner.until("it asks", |runner| Ok(runner.binding("web")?.spec.failover.is_some())).await?;
    runner.world.crash(0, Duration::from_secs(2));
    runner.world.pass(Duration::from_secs(60)).await?;
    ensure!(runner.tasks("web")?.is_empty(), "what was before somebody asked counted after the restart");
    runner.until("it leaves", |runner| Ok(!runner.tasks("web")?.is_empty())).await?;
    let after = (runner.world.clock().mono() - asked).as_secs_f64();
    ensure!((99.0..106.0).contains(&after), "left {after} s after it was requested");
    Ok(())
}

/// A pause holds an unhealthy workload, whose time goes on, and no drain.
#[tokio::test(start_paused = true)]
async fn a_pause_holds_application_failover_and_lets_a_drain_go_on() -> anyhow::Result<()> {
    let mut runner = Runner::new(setup(4, 10.0)).await?;
    let behaviour = json!({"application": {
        "decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Gracefully", "gracePeriodSeconds": 600,
    }});
    let ill = App { affinity: vec!["member1".into(), "member2".into()], ..App::new("ill") };
    runner
        .add(&ill, |policy| {
            policy["spec"]["failover"] = behaviour;
            policy["spec"]["propagateDeps"] = json!(true);
        })
        .await?;
    let well = App { affinity: vec!["member3".into(), "member4".into()], ..App::new("well") };
    runner.add(&well, |_| {}).await?;
    runner.settle(&[]).await?;
    let before = runner.placed("well")?;
    let user = runner.world.user();
    set(&user, EvictionSwitch::Paused).await?;
    let cluster_of = |placed: &[String]| placed[0].split(':').next().unwrap_or_default().to_owned();
    runner.remove_nodes(&cluster_of(&runner.placed("ill")?))?;
    runner.world.pass(Duration::from_secs(200)).await?;
    ensure!(runner.tasks("ill")?.is_empty(), "it left in spite of the pause: {:?}", runner.tasks("ill")?);
    let (clock, wanted) = (runner.world.clock().clone(), Options::new(&cluster_of(&before)));
    let drain = whole(&user, &clock, &wanted, false, Duration::ZERO, |_| {});
    let moved = |runner: &Runner| Ok(runner.placed("well")? != before && !runner.placed("well")?.is_empty());
    let (drained, watched) = futures::join!(drain, runner.until("the drain moves it", moved));
    watched?;
    drained?;
    set(&user, EvictionSwitch::Running).await?;
    let resumed = runner.world.clock().mono();
    runner.until("it leaves", |runner| Ok(!runner.tasks("ill")?.is_empty())).await?;
    let after = (runner.world.clock().mono() - resumed).as_secs_f64();
    ensure!(after < 2.0, "left {after} s after the end of the pause");
    Ok(())
}
