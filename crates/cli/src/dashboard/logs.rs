//! The last lines of the logs of all copies of a template.

use std::time::Duration;

use futures::AsyncReadExt as _;
use ironclad_dashboard::Reference;
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, ResourceExt,
    api::{ListParams, LogParams},
    config::Kubeconfig,
};
use serde_json::{Value, json};

use super::observe;
use crate::{
    logs::{default_container, pod_selector},
    members, pages, print,
    report::answer,
    resource::Resource,
};

/// Pods whose logs are read, in all members together.
const PODS_MAX: usize = 20;
/// Last lines of each.
const LINES: i64 = 200;
/// Bytes of each.
const BYTES_MAX: i64 = 64 * 1024;
/// Time for all answers of a member.
const MEMBER_MAX: Duration = Duration::from_secs(10);

/// The view of these logs.
pub(super) async fn look(
    client: &Client,
    kubeconfig: Option<&Kubeconfig>,
    clock: &Clock,
    template: &Reference,
) -> anyhow::Result<Value> {
    let (resource, Some(mut clusters)) = observe::copies(client, template).await? else {
        return Ok(json!({ "logs": [], "notes": [observe::NO_COPIES] }));
    };
    let namespace = if resource.namespaced { template.namespace.as_str() } else { "" };
    let (name, mut notes) = (&template.name, Vec::new());
    if clusters.len() > PODS_MAX {
        notes.push(format!("{} of {} clusters are asked", PODS_MAX, clusters.len()));
        clusters.truncate(PODS_MAX);
    }
    let each = PODS_MAX / clusters.len().max(1);
    let members = members::connect(client, kubeconfig, members::Way::default(), &clusters).await;
    let read = members::ask(&members, clock, MEMBER_MAX, async |_, client| {
        of_member(&client, &resource, (namespace, name), each).await
    })
    .await;
    let silent =
        read.silent.iter().map(|(cluster, why)| format!("cluster {cluster} could not be asked: {}", print::line(why)));
    notes.extend(silent);
    let mut logs = Vec::new();
    for (cluster, (all, more)) in read.answered {
        if more > 0 {
            notes.push(format!("{more} more Pods in cluster {cluster} are left out"));
        }
        logs.extend(all.into_iter().map(|mut log| {
            log["cluster"] = cluster.as_str().into();
            log
        }));
    }
    Ok(json!({ "logs": logs, "notes": notes }))
}

/// Logs of Pods in a member, and the number of Pods that are left out.
async fn of_member(
    client: &Client,
    resource: &Resource,
    (namespace, name): (&str, &str),
    pods_max: usize,
) -> Result<(Vec<Value>, usize), String> {
    let copy = crate::tree::api(client.clone(), resource, namespace).get_opt(name).await;
    let Some(copy) = copy.map_err(|error| answer(&error))? else { return Ok((Vec::new(), 0)) };
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let own = resource.api.kind == "Pod" && resource.api.group.is_empty();
    let mut found = if own {
        pods.get_opt(name).await.map_err(|error| answer(&error))?.into_iter().collect()
    } else if let Some(selector) = pod_selector(&copy.data) {
        pages::all(&pods, ListParams::default().labels(&selector)).await.map_err(|error| answer(&error))?
    } else {
        Vec::new()
    };
    found.sort_by_key(ResourceExt::name_any);
    let (more, mut logs) = (found.len().saturating_sub(pods_max), Vec::new());
    for pod in found.iter().take(pods_max) {
        let (name, container) = (pod.name_any(), default_container(pod));
        let read = tail(&pods, &name, container.clone()).await;
        let (text, error) = match read {
            Ok(text) => (text, None),
            Err(why) => (String::new(), Some(why)),
        };
        logs.push(json!({ "pod": name, "container": container, "text": print::escape(&text), "error": error }));
    }
    Ok((logs, more))
}

/// The last lines of a container.
async fn tail(pods: &Api<Pod>, name: &str, container: Option<String>) -> Result<String, String> {
    let parameters =
        LogParams { container, tail_lines: Some(LINES), limit_bytes: Some(BYTES_MAX), ..LogParams::default() };
    let log = pods.log_stream(name, &parameters).await.map_err(|error| answer(&error))?;
    let mut bytes = Vec::new();
    // A member that knows no bound is not believed.
    let log = std::pin::pin!(log);
    let mut bounded = log.take(BYTES_MAX.unsigned_abs());
    bounded.read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
