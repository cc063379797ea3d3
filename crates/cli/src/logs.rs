//! `ironclad logs`: what pods in the members say (operations.md 2.9).

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _, future::join_all, stream};
use ironclad_seam::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, LogParams},
};
use serde_json::Value;

use crate::{
    across::{ask, tell},
    connect::Plane,
    members, print,
    report::{Misused, answer},
    resource::Resources,
};

/// Lines of each container that are shown of several pods.
const TAIL_OF_SEVERAL: i64 = 10;

/// What pods in the members say.
///
/// Without -C the members that have the pod are found; lines of several pods begin with where they come from.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ironclad logs web-7db6d54f7d-fbmhf -n shop
  ironclad logs deploy/web -C member1 --tail 20
  ironclad logs -l app=web --since 5m --timestamps
  ironclad logs deploy/web -f")]
pub struct Command {
    /// POD or TYPE/NAME
    #[arg(value_name = "WHAT", required_unless_present = "selector", conflicts_with = "selector")]
    pub what: Option<String>,
    /// Pods with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Only these members
    #[arg(short = 'C', long, alias = "cluster", value_delimiter = ',', value_name = "NAMES")]
    pub clusters: Vec<String>,
    /// The container
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_containers")]
    pub container: Option<String>,
    /// All containers
    #[arg(long)]
    pub all_containers: bool,
    /// Go on
    #[arg(short, long)]
    pub follow: bool,
    /// Of the container that ran before
    #[arg(short, long)]
    pub previous: bool,
    /// With the time of each line
    #[arg(long)]
    pub timestamps: bool,
    /// Lines from the end; -1 for all [default: all of one pod, 10 of several]
    #[arg(long, value_name = "LINES", allow_negative_numbers = true)]
    pub tail: Option<i64>,
    /// Only what is younger
    #[arg(long, value_name = "DURATION", value_parser = crate::duration)]
    pub since: Option<Duration>,
    /// Say before each line where it comes from
    #[arg(long)]
    pub prefix: bool,
    /// How long a member may take to answer
    #[arg(long, value_parser = crate::duration, default_value = "5s", value_name = "DURATION")]
    pub timeout: Duration,
    #[command(flatten)]
    #[allow(missing_docs, reason = "described where it is defined")]
    pub plane: Plane,
}

/// A container somewhere.
struct Source {
    cluster: String,
    pod: String,
    container: String,
    api: Api<Pod>,
}

/// Runs the verb.
///
/// # Errors
/// If nothing is found that could say something, or a server refuses.
pub async fn run(command: &Command, clock: &Clock) -> anyhow::Result<()> {
    let client = command.plane.client().await?;
    let namespace = command.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let mut asked = ask(&command.plane, &client, &command.clusters).await?;
    let answers = join_all(asked.members.iter().map(async |(name, client)| {
        let found = members::within(clock, command.timeout, find(client, command, &namespace)).await;
        (name, client, found.and_then(|found| found.map_err(|error| format!("{error:#}"))))
    }))
    .await;
    let mut sources = Vec::new();
    for (cluster, client, pods) in answers {
        match pods {
            Ok(pods) => {
                for pod in pods {
                    let api = Api::namespaced(client.clone(), &namespace);
                    for container in containers(&pod, command)? {
                        sources.push(Source {
                            cluster: cluster.clone(),
                            pod: pod.name_any(),
                            container,
                            api: api.clone(),
                        });
                    }
                }
            }
            Err(why) => asked.silent.push((cluster.clone(), why)),
        }
    }
    tell(&asked.silent);
    if sources.is_empty() {
        let what = command.what.as_deref().or(command.selector.as_deref()).unwrap_or_default();
        bail!(
            "no member has a pod for {what} in namespace {namespace}\n  try: ironclad get pods -n {namespace} -s members"
        );
    }
    say(&sources, command).await
}

/// The pods that are meant, in one member.
async fn find(client: &Client, command: &Command, namespace: &str) -> anyhow::Result<Vec<Pod>> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let labels = match (&command.selector, command.what.as_deref().and_then(|what| what.split_once('/'))) {
        (Some(selector), _) => selector.clone(),
        (None, Some((kind, name))) if !matches!(kind, "pod" | "pods" | "po") => {
            match selector_of(client, namespace, kind, name).await? {
                Some(selector) => selector,
                None => return Ok(Vec::new()),
            }
        }
        (None, named) => {
            let name = named.map_or(command.what.as_deref().unwrap_or_default(), |(_, name)| name);
            let pod = api.get_opt(name).await.map_err(|e| anyhow::anyhow!(answer(&e)))?;
            return Ok(pod.into_iter().collect());
        }
    };
    let list = api.list(&ListParams::default().labels(&labels)).await.map_err(|e| anyhow::anyhow!(answer(&e)))?;
    Ok(list.items)
}

/// The labels of the pods of a workload or a Service; `None` if the member does not have it.
async fn selector_of(client: &Client, namespace: &str, kind: &str, name: &str) -> anyhow::Result<Option<String>> {
    let resource = Resources::of(client).await?.find(kind)?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource.api);
    let Some(object) = api.get_opt(name).await.map_err(|e| anyhow::anyhow!(answer(&e)))? else { return Ok(None) };
    labels_of(&object.data).map(Some).with_context(|| format!("{kind}/{name} selects no pods"))
}

fn labels_of(object: &Value) -> Option<String> {
    let selector = object.pointer("/spec/selector")?;
    let labels = selector.get("matchLabels").unwrap_or(selector).as_object()?;
    let terms: Vec<String> = labels.iter().filter_map(|(k, v)| Some(format!("{k}={}", v.as_str()?))).collect();
    (!terms.is_empty()).then(|| terms.join(","))
}

/// The containers of a pod whose lines are shown.
fn containers(pod: &Pod, command: &Command) -> Result<Vec<String>, Misused> {
    let all: Vec<String> = pod.spec.iter().flat_map(|s| &s.containers).map(|c| c.name.clone()).collect();
    match &command.container {
        Some(name) => Ok(vec![name.clone()]),
        None if command.all_containers || all.len() == 1 => Ok(all),
        None => Err(Misused(format!(
            "a container name must be specified for pod {}, choose one of: [{}]\n  try: -c NAME, or --all-containers",
            pod.name_any(),
            all.join(" ")
        ))),
    }
}

async fn say(sources: &[Source], command: &Command) -> anyhow::Result<()> {
    let several = sources.len() > 1;
    let tail = match command.tail {
        Some(lines) => Some(lines).filter(|lines| *lines >= 0),
        None => several.then_some(TAIL_OF_SEVERAL),
    };
    let parameters = |source: &Source| LogParams {
        container: Some(source.container.clone()),
        follow: command.follow,
        previous: command.previous,
        timestamps: command.timestamps,
        tail_lines: tail,
        since_seconds: command.since.map(|since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
        ..LogParams::default()
    };
    let mut streams = Vec::new();
    for source in sources {
        let before = if command.prefix || several {
            format!("[{}/{}/{}] ", source.cluster, source.pod, source.container)
        } else {
            String::new()
        };
        let lines = source.api.log_stream(&source.pod, &parameters(source)).await;
        let lines = lines
            .map_err(|e| anyhow::anyhow!(answer(&e)))
            .with_context(|| format!("pod {} in member {} says nothing", source.pod, source.cluster))?;
        streams.push(Box::pin(lines.lines().map_ok(move |line| format!("{before}{line}\n"))));
    }
    if command.follow {
        let mut lines = stream::select_all(streams);
        while let Some(line) = lines.next().await {
            print::out(&line?)?;
        }
        return Ok(());
    }
    // One after the other: what belongs together stays together.
    for lines in &mut streams {
        while let Some(line) = lines.next().await {
            print::out(&line?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whom_a_workload_selects() {
        for (object, want) in [
            (json!({"spec": {"selector": {"matchLabels": {"app": "web", "tier": "a"}}}}), Some("app=web,tier=a")),
            (json!({"spec": {"selector": {"app": "web"}}}), Some("app=web")),
            (json!({"spec": {"selector": {}}}), None),
            (json!({"spec": {}}), None),
        ] {
            assert_eq!(labels_of(&object).as_deref(), want);
        }
    }
}
