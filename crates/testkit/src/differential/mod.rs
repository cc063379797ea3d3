//! Differential tests: plays scripts of requests on a real kube-apiserver and on the embedded server, and compares
//! answers.
//!
//! Scenarios are files in `tests/differential/<area>/*.http` ([`script`]). Each runs on both servers, in a namespace of
//! its own and beside others. Values that always differ are masked ([`mask`]); every other difference is an error
//! unless `tests/differential/known.yaml` lists it with its reason, and listed differences must still occur.
//!
//! While working on the server: `IRONCLAD_DIFFERENTIAL_REAL` and `IRONCLAD_DIFFERENTIAL_OURS` name kubeconfigs of
//! servers that run already, `IRONCLAD_DIFFERENTIAL_ONLY` parts of the names of the scenarios to play.
//! `IRONCLAD_DIFFERENTIAL_KUBECTL` is a kubectl of another version than the pinned one (`cargo xtask kubectl-matrix`).

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::real::{Binaries, Config, Kubectl, RealEnv};

pub use self::{
    compare::{Difference, Known, compare, compare_notes},
    ours::Ours,
    script::{Scenario, parse},
    side::{Answer, As, Side, Stream},
};

pub mod authorization;
mod certificates;
mod compare;
mod event_counts;
pub mod mask;
mod ours;
mod play;
pub mod script;
mod side;
pub mod webhooks;

/// Concurrent scenarios: they mostly wait.
const AT_ONCE: usize = 6;

#[derive(Debug, Default)]
pub struct Outcome {
    pub scenarios: usize,
    pub steps: usize,
    /// Differences that are not accepted.
    pub unknown: Vec<Difference>,
    /// Names of known differences that did not occur.
    pub stale: Vec<String>,
}

pub fn scenarios(directory: &Path) -> anyhow::Result<Vec<Scenario>> {
    let mut found = BTreeMap::new();
    let mut directories: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(current) = directories.pop() {
        for entry in fs::read_dir(&current).with_context(|| current.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|e| e == "http") {
                let name = path.strip_prefix(directory)?.with_extension("").display().to_string();
                found.insert(name, path);
            }
        }
    }
    found.into_iter().map(|(name, path)| parse(&name, &fs::read_to_string(path)?)).collect()
}

/// Plays the scenarios on both servers; `None` where real Kubernetes is not available.
pub async fn run(directory: &Path) -> anyhow::Result<Option<Outcome>> {
    let home = tempfile::Builder::new().prefix("ironclad-differential-").tempdir()?;
    let only = std::env::var("IRONCLAD_DIFFERENTIAL_ONLY").unwrap_or_default();
    let wanted: Vec<&str> = only.split(',').filter(|part| !part.is_empty()).collect();
    let mut scenarios = scenarios(directory)?;
    scenarios.retain(|s| wanted.is_empty() || wanted.iter().any(|part| s.name.contains(part)));
    let known: Vec<Known> = serde_saphyr::from_str(&fs::read_to_string(directory.join("known.yaml"))?)?;

    let Some(servers) = Servers::start_or_skip(home.path()).await? else { return Ok(None) };
    certificates::write_files(home.path())?;
    let (real, ours) = (&servers.real, &servers.ours);

    let mut outcome = Outcome { scenarios: scenarios.len(), ..Outcome::default() };
    let differences: Vec<Vec<Difference>> = stream::iter(&scenarios)
        .map(|scenario| differences(real, ours, scenario))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let mut met = vec![false; known.len()];
    for difference in differences.into_iter().flatten() {
        let mut covered = false;
        for (known, met) in known.iter().zip(&mut met) {
            if known.covers(&difference) {
                (covered, *met) = (true, true);
            }
        }
        if !covered {
            outcome.unknown.push(difference);
        }
    }
    outcome.steps = scenarios.iter().map(|s| s.steps.len()).sum();
    if wanted.is_empty() {
        outcome.stale = known
            .iter()
            .zip(met)
            .filter(|(known, met)| !met && !known.sometimes)
            .map(|(k, _)| k.name.clone())
            .collect();
    }
    Ok(Some(outcome))
}

/// The two servers that are compared; those that were started end when it is dropped.
struct Servers {
    real: Side,
    ours: Side,
    _started: (Option<RealEnv>, Option<Ours>),
}

impl Servers {
    /// Starts both servers, or uses those of variables; `None` where real Kubernetes is not available.
    async fn start_or_skip(home: &Path) -> anyhow::Result<Option<Self>> {
        let Some(binaries) = Binaries::find_or_skip()? else { return Ok(None) };
        let given = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let (mut env, mut embedded) = (None, None);
        let real = match given("IRONCLAD_DIFFERENTIAL_REAL") {
            Some(path) => path,
            None => {
                let config = Config { plane: true, members: 0, ..Config::default() };
                env.insert(RealEnv::start(config).await?).plane().kubeconfig()
            }
        };
        let ours = match given("IRONCLAD_DIFFERENTIAL_OURS") {
            Some(path) => path,
            None => embedded.insert(Ours::start(home).await?).kubeconfig().to_owned(),
        };
        let side = async |name: &str, kubeconfig: &Path| {
            let kubectl = Kubectl::new(&binaries, kubeconfig, &home.join(name));
            let kubectl = match given("IRONCLAD_DIFFERENTIAL_KUBECTL") {
                Some(program) => kubectl.with_program(program),
                None => kubectl,
            };
            Side::new(kubeconfig, kubectl, home).await
        };
        let (real, ours) = (side("real", &real).await?, side("ours", &ours).await?);
        Ok(Some(Self { real, ours, _started: (env, embedded) }))
    }
}

async fn differences(real: &Side, ours: &Side, scenario: &Scenario) -> anyhow::Result<Vec<Difference>> {
    // Unlike any other text in the answers, so that it can be masked; the same on both, so that lengths agree.
    let namespace = format!("{}-{:04x}", scenario.name.replace(['/', '_'], "-"), std::process::id() & 0xffff);
    let on = async |side: &Side| {
        prepare(side, &namespace).await?;
        play::play(side, scenario, &namespace).await
    };
    let (seen_real, seen_ours) = tokio::join!(on(real), on(ours));
    let seen_real = seen_real.with_context(|| format!("{} on the real server", scenario.name))?;
    let mut out = Vec::new();
    match seen_ours {
        Ok(seen_ours) => {
            for (n, ((step, real), ours)) in scenario.steps.iter().zip(seen_real).zip(seen_ours).enumerate() {
                compare_notes(&format!("{}:{}:", scenario.name, n + 1), &step.line, &real, &ours, &mut out);
            }
        }
        // A server that closes the connection is a difference, too.
        Err(error) => {
            let (ours, real) = (format!("{error:#}").into(), Value::Array(seen_real));
            out.push(Difference {
                place: format!("{}:0:", scenario.name),
                line: "all".to_owned(),
                real: Some(real),
                ours: Some(ours),
            });
        }
    }
    Ok(out)
}

async fn prepare(side: &Side, namespace: &str) -> anyhow::Result<()> {
    let body = serde_json::to_vec(&json!({"metadata": {"name": namespace}}))?;
    let made = side.ask(As::Admin, "POST", "/api/v1/namespaces", &[], body.into()).await?;
    ensure!(made.code == 201, "namespace {namespace}: {}", String::from_utf8_lossy(&made.body));
    for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/{namespace}/{path}");
        crate::real::until(&path, std::time::Duration::from_secs(60), async || {
            let code = side.ask(As::Admin, "GET", &path, &[], Bytes::new()).await?.code;
            ensure!(code == 200, "{code}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}
