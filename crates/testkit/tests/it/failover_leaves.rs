//! A deleted Cluster remains while workloads find no other cluster; it names them, and is removed once they can move
//! (specification/failover.md 9.5).

use std::time::Duration;

use anyhow::{Context as _, ensure};
use ironclad_api::{cluster::Cluster, conditions, policy::PropagationPolicy, policy::PurgeMode};
use ironclad_failover::cluster::lifecycle::REMOVAL_BLOCKED;
use ironclad_testkit::sim::{
    runner::{Runner, setup},
    script::{App, Spread},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_removal_is_blocked_reports_it_and_is_removed_later() -> anyhow::Result<()> {
    let mut unjoined = setup(3, 1.0);
    // An unjoin without a drain deletes copies: turn the check of copies off.
    unjoined.rules.purge_mode = PurgeMode::Directly;
    let mut runner = Runner::new(unjoined).await?;
    let held = App { spread: Spread::Copies(3), ..App::new("held") };
    let free = App { affinity: vec!["member1".into(), "member2".into()], ..App::new("free") };
    runner.settle(&[held, free]).await?;
    ensure!(runner.placed("held")?.len() == 3 && runner.placed("free")? == ["member1:1"]);
    let clusters: Api<Cluster> = Api::all(runner.world.user());
    clusters.delete("member1", &DeleteParams::default()).await?;
    let said = |runner: &Runner| {
        let cluster = runner.world.model.look(|fleet| fleet.clusters.get(&"member1".into()).cloned())?;
        let condition = conditions::get(&cluster.status.as_ref()?.conditions, REMOVAL_BLOCKED)?.clone();
        Some((condition.status, condition.message))
    };
    runner.until("the condition reports that removal is blocked", |runner| Ok(said(runner).is_some())).await?;
    runner.until("who can leave has left", |runner| Ok(runner.placed("free")? == ["member2:1"])).await?;
    runner.world.until_quiet().await?;
    let (status, message) = said(&runner).context("removal is not blocked any more")?;
    ensure!(
        status == "True" && message.starts_with("no other cluster for 1 binding: default/held-deployment ("),
        "{message}"
    );
    ensure!(message.ends_with("; edit their policies, or: ironclad unjoin member1 --force"), "{message}");
    let version = async || anyhow::Ok(clusters.get("member1").await?.metadata.resource_version);
    let before = version().await?;
    runner.world.pass(Duration::from_secs(600)).await?;
    ensure!(version().await? == before, "it is said once");
    // Apply the remedy that the condition names.
    let policies: Api<PropagationPolicy> = Api::namespaced(runner.world.user(), "default");
    let fewer = json!({"spec": {"placement": {"spreadConstraints": [
        {"spreadByField": "cluster", "minGroups": 2, "maxGroups": 2}]}}});
    policies.patch("held", &PatchParams::default(), &Patch::Merge(fewer)).await?;
    let deleted = async || Ok(clusters.get_opt("member1").await?.is_none());
    runner.world.until("member1 is deleted", deleted).await?;
    runner.until_settled("held", &["member2:1", "member3:1"]).await
}
