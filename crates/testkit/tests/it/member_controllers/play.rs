//! Plays a scenario on one cluster.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, bail, ensure};
use ironclad_testkit::real::{Kubectl, until};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    scenario::{Scenario, Step, lookup},
    state::{State, path, state},
};

/// Deadline of a wait.
const DEADLINE: Duration = Duration::from_secs(120);
/// Time between two looks at a cluster that settles.
const LOOK: Duration = Duration::from_millis(700);
/// Looks without a change after which a cluster is settled.
const LOOKS_QUIET: u32 = 6;
/// Looks after which a cluster does not settle.
const LOOKS_MAX: u32 = 150;

/// One of the two clusters.
pub(super) struct Side {
    pub(super) client: Client,
    pub(super) kubectl: Kubectl,
}

/// Plays a scenario in a namespace of its own; returns the compared states by name.
pub(super) async fn play(side: &Side, scenario: &Scenario) -> anyhow::Result<BTreeMap<String, State>> {
    let namespace = scenario.name.as_str();
    side.kubectl.run(["create", "namespace", namespace]).await?;
    until("the namespace is ready", DEADLINE, async || {
        side.kubectl.run(["get", "serviceaccount", "default", "-n", namespace]).await.map(drop)
    })
    .await?;
    let mut states = BTreeMap::new();
    let mut tried = State::new();
    for (n, step) in scenario.steps.iter().enumerate() {
        let place = || format!("step {} of {}", n + 1, scenario.name);
        match step {
            Step::Apply(manifests) => {
                let output = side.kubectl.output(["apply", "-n", namespace, "-f", "-"], manifests).await?;
                output.success().with_context(place)?;
            }
            Step::Run(arguments) => {
                let arguments = arguments.iter().map(|argument| argument.replace("$NS", namespace));
                let arguments: Vec<String> =
                    ["-n".to_owned(), namespace.to_owned()].into_iter().chain(arguments).collect();
                side.kubectl.run(&arguments).await.with_context(place)?;
            }
            Step::Try(wanted) => {
                let arguments = wanted.run.iter().map(|argument| argument.replace("$NS", namespace));
                let arguments: Vec<String> =
                    ["-n".to_owned(), namespace.to_owned()].into_iter().chain(arguments).collect();
                let stdin = wanted.stdin.replace("$NS", namespace);
                let output = side.kubectl.output(&arguments, &stdin).await.with_context(place)?;
                let said = format!("{:?} {}", output.code, output.stderr.trim());
                tried.insert(format!("outcome of step {}", n + 1), said);
            }
            Step::Until(wanted) => {
                let what = format!("{}: {} of {} is {}", place(), wanted.path, wanted.object, wanted.is);
                until(&what, DEADLINE, async || {
                    let got = get(&side.client, namespace, &wanted.object).await?;
                    let got = lookup(&got, &wanted.path);
                    ensure!(*got == wanted.is, "it is {got}");
                    Ok(())
                })
                .await?;
            }
            Step::Compare(name) => {
                let mut state = settled(side, namespace, scenario).await.with_context(place)?;
                state.append(&mut tried);
                states.insert(name.clone(), state);
            }
        }
    }
    side.kubectl.run(["delete", "namespace", namespace, "--wait=false"]).await?;
    Ok(states)
}

/// Returns the state once it has not changed for a while.
async fn settled(side: &Side, namespace: &str, scenario: &Scenario) -> anyhow::Result<State> {
    let (mut last, mut same) = (observe(side, namespace, scenario).await?, 0);
    for _ in 0..LOOKS_MAX {
        if same == LOOKS_QUIET {
            return Ok(last);
        }
        sleep(LOOK).await;
        let now = observe(side, namespace, scenario).await?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    bail!("it does not settle; the last state is {last:#?}")
}

async fn observe(side: &Side, namespace: &str, scenario: &Scenario) -> anyhow::Result<State> {
    let mut objects = Vec::new();
    for plural in &scenario.kinds {
        let list = request(&side.client, &path(plural, namespace)?).await?;
        let kind = list["kind"].as_str().unwrap_or("").trim_end_matches("List").to_owned();
        for item in list["items"].as_array().into_iter().flatten() {
            let mut item = item.clone();
            item["kind"] = json!(kind);
            objects.push(item);
        }
    }
    Ok(state(&objects))
}

/// Returns an object `PLURAL/NAME`; null if it does not exist.
async fn get(client: &Client, namespace: &str, object: &str) -> anyhow::Result<Value> {
    let (plural, name) = object.split_once('/').context("PLURAL/NAME")?;
    match request(client, &format!("{}/{name}", path(plural, namespace)?)).await {
        Err(error) if error.downcast_ref::<kube::Error>().is_some_and(is_not_found) => Ok(Value::Null),
        other => other,
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

async fn request(client: &Client, path: &str) -> anyhow::Result<Value> {
    Ok(client.request(http::Request::get(path).body(Vec::new())?).await?)
}
