//! Simulated members behave like a cluster with kube-controller-manager, kube-scheduler and kwok: scenarios of
//! `tests/members/scenarios` are played on both, and the settled states are compared. `tests/members/known.yaml` lists
//! the differences that are decided.

pub(crate) mod known;
mod play;
pub(crate) mod scenario;
pub(crate) mod state;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use ironclad_testkit::{
    binary::{Daemon, free_port},
    real::{Config, NodeShape, RealEnv},
};
use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig},
};

use self::{
    known::{Known, differences},
    play::{Side, play},
    scenario::Scenario,
};
use crate::propagation_up::kubectl;

/// Scenarios that are played at once, on both sides.
const AT_ONCE: usize = 3;
/// Fewest scenarios.
const SCENARIOS_MIN: usize = 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/members")
}

#[tokio::test]
async fn members_settle_like_a_cluster_with_kube_controller_manager() -> anyhow::Result<()> {
    let nodes = NodeShape { stages: Some(folder().join("stages.yaml")), ..NodeShape::default() };
    let (count, cpu, memory, pods) = (nodes.count.to_string(), nodes.cpu.clone(), nodes.memory.clone(), nodes.pods);
    let config = Config { plane: false, members: 1, nodes, ..Config::default() };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let binaries = ironclad_testkit::real::Binaries::find()?;
    let dir = tempfile::tempdir()?;
    let (data, listen) = (dir.path().join("data"), format!("127.0.0.1:{}", free_port()?));
    let (path, pods) = (data.display().to_string(), pods.to_string());
    let daemon = Daemon::start([
        "up", "--data-dir", &path, "--listen", &listen, "--clusters", "1", "--metrics-bind-address", "0",
        "--startup-delay", "250ms", "--nodes", &count, "--cpu", &cpu, "--memory", &memory, "--pods", &pods,
    ])
    .await?;
    let real = Side { client: env.member(0).client().await?, kubectl: env.member(0).kubectl().clone() };
    let simulated = Side {
        client: client(&data.join("kubeconfig"), "member1").await?,
        kubectl: kubectl(&binaries, &data, "member1", dir.path())?,
    };

    let known = Known::read(&folder().join("known.yaml"))?;
    let scenarios = scenario::all(&folder().join("scenarios"))?;
    let (real, simulated) = (&real, &simulated);
    let found: Vec<Vec<String>> = stream::iter(&scenarios)
        .map(|scenario| async move {
            match tokio::join!(play(real, scenario), play(simulated, scenario)) {
                (Ok(real), Ok(simulated)) => differences(&scenario.name, &real, &simulated),
                // The other scenarios are compared all the same.
                (real, simulated) => {
                    let sides = [("a real cluster", real.err()), ("a simulated member", simulated.err())];
                    let line = |(side, error): (&str, Option<anyhow::Error>)| {
                        Some(format!("{} on {side}: {:#}", scenario.name, error?))
                    };
                    sides.into_iter().filter_map(line).collect()
                }
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    let report = known.judge(&found.concat());
    println!("{} scenarios, {} differences, {} of them decided", scenarios.len(), report.all, report.decided);
    assert!(report.lines.is_empty(), "{} differences:\n{}", report.lines.len(), report.lines.join("\n"));
    daemon.stop().await
}

async fn client(kubeconfig: &Path, context: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
    Ok(Client::try_from(kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?)?)
}

#[test]
fn every_scenario_can_be_read_and_compares_something() -> anyhow::Result<()> {
    let scenarios: Vec<Scenario> = scenario::all(&folder().join("scenarios"))?;
    assert!(scenarios.len() >= SCENARIOS_MIN, "{} scenarios", scenarios.len());
    for scenario in &scenarios {
        let compares = scenario.steps.iter().any(|step| matches!(step, scenario::Step::Compare(_)));
        assert!(compares, "{} compares nothing", scenario.name);
        for kind in &scenario.kinds {
            state::path(kind, "ns").with_context(|| format!("{}: kind {kind}", scenario.name))?;
        }
    }
    Known::read(&folder().join("known.yaml")).map(drop)
}
