//! `up --demo`: applies the sample and shows where it went; and the commands to go on with.

pub(crate) mod failover;

use std::time::Duration;

use anyhow::{Context as _, bail};
use ironclad_api::{
    cluster::Cluster,
    conditions::{self, cluster::COMPLETE_API_ENABLEMENTS},
    work::ResourceBinding,
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{
    Client, ResourceExt as _,
    api::{DynamicObject, GroupVersionKind, ListParams, PostParams},
    core::ApiResource,
};
use serde_json::Value;

use crate::announce::announce;

/// Scenario of `--demo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Demo {
    /// A sample, and where it went.
    Sample,
    /// The same, and then a failover: a member is lost, what ran there moves, the member comes back.
    Failover,
}

const SAMPLE: &str = include_str!("../../../../samples/web.yaml");
/// Deadline for the sample, which normally needs far less.
const DEADLINE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Applies the sample, waits until it runs, and prints where.
///
/// # Errors
/// If something of it is refused, or does not run in time.
pub(crate) async fn show(client: &Client, clock: &Clock, kubeconfig: &str) -> anyhow::Result<()> {
    members_are_ready(client, clock, kubeconfig).await?;
    let mut templates = Vec::new();
    for text in SAMPLE.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(text).context("parsing the built-in sample")?;
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("the built-in sample has an object without a kind")?;
        let gvk = GroupVersionKind::try_from(types)?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&gvk));
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(e) => {
                return Err(anyhow::Error::new(e).context(format!("applying {} {}", gvk.kind, object.name_any())));
            }
        }
        if gvk.kind == "Deployment" {
            templates.push(object.name_any());
        }
    }
    let bindings: Api<ResourceBinding> = Api::namespaced(client.clone(), "default");
    let began = clock.mono();
    let rows = loop {
        if let Some(rows) = final_rows(&bindings, &templates).await? {
            break rows;
        }
        if clock.mono() - began > DEADLINE {
            bail!(
                "the sample does not run {} s after the start\n  try: kubectl --kubeconfig {kubeconfig} get resourcebindings -o yaml",
                DEADLINE.as_secs()
            );
        }
        clock.sleep(POLL_INTERVAL).await;
    };
    announce(&format!(
        "{:<20} {:<10} {:>8} {:>6} {:<8} {:<8}",
        "DEPLOYMENT", "CLUSTER", "REPLICAS", "READY", "APPLIED", "HEALTH"
    ));
    for row in rows {
        announce(&row);
    }
    Ok(())
}

/// Commands to go on with, from another terminal. `member` is the first member, if there is any; `is_sample` says that
/// the sample runs.
pub(crate) fn next_steps(kubeconfig: &str, member: Option<&str>, is_sample: bool) -> String {
    let name = if is_sample { "web" } else { "NAME" };
    let mut lines = vec![
        ("export", format!("KUBECONFIG={kubeconfig}"), ""),
        ("kubectl", "get deployments,resourcebindings,works -A".to_owned(), ""),
    ];
    if let Some(member) = member {
        lines.push(("kubectl", format!("--context {member} get deployments,pods"), ""));
    }
    lines.push(("ironclad", format!("tree deploy/{name}"), "where it went, down to each copy"));
    lines.push(("ironclad", format!("why deploy/{name}"), "why it is there"));
    let member = member.unwrap_or("CLUSTER");
    lines.push(("ironclad", format!("plan cluster-loss {member}"), "what the loss of a cluster would move"));
    lines.push(("ironclad", "dashboard".to_owned(), "all of it in a browser"));
    let lines = lines.iter().map(|(program, words, says)| format!("  {:<38}  {says}", format!("{program} {words}")));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    let heading = "next, in another terminal:";
    format!("{heading}\n{}\nctrl-c ends it; the same command resumes where it was", lines.join("\n"))
}

/// Waits until every member is ready: replicas that were divided among ready members are not divided again for one that
/// becomes ready later.
async fn members_are_ready(client: &Client, clock: &Clock, kubeconfig: &str) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::all(client.clone());
    let began = clock.mono();
    loop {
        let is_ready = |cluster: &Cluster| {
            let known =
                cluster.status.as_ref().is_some_and(|s| conditions::is_true(&s.conditions, COMPLETE_API_ENABLEMENTS));
            known && cluster.is_ready()
        };
        let all = clusters.list(&ListParams::default()).await.context("listing the members")?;
        if all.items.iter().all(is_ready) {
            return Ok(());
        }
        if clock.mono() - began > DEADLINE {
            bail!(
                "not every member is ready {} s after the start\n  try: kubectl --kubeconfig {kubeconfig} get clusters",
                DEADLINE.as_secs()
            );
        }
        clock.sleep(POLL_INTERVAL).await;
    }
}

/// The rows of the table, once every template runs everywhere it was sent to.
async fn final_rows(bindings: &Api<ResourceBinding>, templates: &[String]) -> anyhow::Result<Option<Vec<String>>> {
    let mut rows = Vec::new();
    for template in templates {
        let Some(binding) = bindings.get_opt(&format!("{template}-deployment")).await? else { return Ok(None) };
        let Some(status) = &binding.status else { return Ok(None) };
        if binding.spec.clusters.is_empty() {
            return Ok(None);
        }
        for target in &binding.spec.clusters {
            let Some(item) = status.aggregated_status.iter().find(|i| i.cluster_name == target.name) else {
                return Ok(None);
            };
            let ready = item.status.as_ref().and_then(|s| s.value()["readyReplicas"].as_i64()).unwrap_or(0);
            if ready != i64::from(target.replicas) || !item.applied {
                return Ok(None);
            }
            let health = item.health.map(|h| format!("{h:?}")).unwrap_or_default();
            rows.push(format!(
                "{:<20} {:<10} {:>8} {:>6} {:<8} {:<8}",
                template, target.name, target.replicas, ready, item.applied, health
            ));
        }
    }
    Ok(Some(rows))
}
