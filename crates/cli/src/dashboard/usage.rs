//! CPU and memory that are used, as members measure it.

use std::time::Duration;

use ironclad_api::cluster::Cluster;
use ironclad_dashboard::Reference;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use kube::{Client, config::Kubeconfig};
use serde_json::{Value, json};

use super::observe;
use crate::{
    logs::pod_selector,
    members::{self, Silent},
    print,
    report::answer,
    top::{self, figures::Figure},
};

/// Time for the answers of a member.
const MEMBER_MAX: Duration = Duration::from_secs(5);

/// The view of the nodes of a cluster.
pub(super) async fn of_nodes(
    client: &Client,
    kubeconfig: Option<&Kubeconfig>,
    clock: &Clock,
    cluster: &str,
) -> anyhow::Result<Value> {
    let clusters = [Api::<Cluster>::all(client.clone()).get(cluster).await?];
    let members = members::connect(client, kubeconfig, members::Way::default(), &clusters).await;
    let members = members::without_unready(members, &clusters);
    let found = top::of_nodes(&members, None, false, clock, MEMBER_MAX).await;
    let row = |figure: &Figure| json!({ "name": figure.name, "used": figure.used, "of": figure.of });
    Ok(json!({ "rows": found.rows.iter().map(row).collect::<Vec<_>>(), "notes": notes(&found.silent) }))
}

/// The view of the Pods of all copies of a template.
pub(super) async fn of_pods(
    client: &Client,
    kubeconfig: Option<&Kubeconfig>,
    clock: &Clock,
    template: &Reference,
) -> anyhow::Result<Value> {
    let (resource, Some(clusters)) = observe::copies(client, template).await? else {
        return Ok(json!({ "rows": [], "notes": [observe::NO_COPIES] }));
    };
    let namespace = if resource.namespaced { template.namespace.as_str() } else { "" };
    let name = &template.name;
    let members = members::connect(client, kubeconfig, members::Way::default(), &clusters).await;
    let members = members::without_unready(members, &clusters);
    let read = members::ask(&members, clock, MEMBER_MAX, async |cluster, client| {
        let copy = crate::tree::api(client.clone(), &resource, namespace).get_opt(name).await;
        let Some(copy) = copy.map_err(|error| answer(&error))? else { return Ok(Vec::new()) };
        let is_pod = resource.api.kind == "Pod" && resource.api.group.is_empty();
        let selector = pod_selector(&copy.data);
        if !is_pod && selector.is_none() {
            return Ok(Vec::new());
        }
        let mut found = top::of_pods(&client, &cluster.name, namespace, selector.as_deref()).await?;
        found.retain(|figure| !is_pod || figure.name == *name);
        Ok(found)
    })
    .await;
    let row = |figure: Figure| json!({ "cluster": figure.cluster, "name": figure.name, "used": figure.used });
    let rows: Vec<Value> = read.answered.into_iter().flat_map(|(_, figures)| figures).map(row).collect();
    Ok(json!({ "rows": rows, "notes": notes(&read.silent) }))
}

fn notes(silent: &Silent) -> Vec<String> {
    silent.iter().map(|(cluster, why)| format!("cluster {cluster} could not be asked: {}", print::line(why))).collect()
}
