//! Autoscalers decide like those of kube-controller-manager: scenarios of `tests/autoscalers/scenarios.yaml` are played
//! on a real cluster and on a simulated member, whose HorizontalPodAutoscalers decide by the functions of
//! FederatedHPAs; replicas, status, conditions and events are compared once they have settled.
//! `tests/autoscalers/known.yaml` lists the differences that are decided (specification/autoscaling.md 2).

pub(crate) mod load;
mod play;
mod scenario;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use ironclad_kubecontrollers::AutoscalingOptions;
use ironclad_seam::{Clock, Seam};
use ironclad_simcluster::{Member, MemberOptions, Shape};
use ironclad_store::{Commit, Engine, MemoryBackend, Options as StoreOptions};
use ironclad_testkit::real::{Config, MetricsServer, NodeShape, RealEnv};
use jiff::SignedDuration;

use self::{
    load::Metrics,
    play::Side,
    scenario::{Scenarios, Step, read},
};
use crate::member_controllers::known::{Known, differences};

/// Scenarios that are played at once, on both sides.
const AT_ONCE: usize = 10;
/// Fewest scenarios.
const SCENARIOS_MIN: usize = 20;
/// Time between two evaluations, on both sides.
const SYNC_PERIOD: i64 = 1;
/// Window of scaling down, on both sides.
const STABILIZATION: i64 = 4;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/autoscalers")
}

/// Scenarios that are played together: the files of scenarios and of decided differences, and gate `HPAScaleToZero`.
struct Suite {
    scenarios: &'static str,
    known: &'static str,
    scales_to_zero: bool,
}

const SUITES: [Suite; 2] = [
    Suite { scenarios: "scenarios.yaml", known: "known.yaml", scales_to_zero: false },
    Suite { scenarios: "zero_scenarios.yaml", known: "zero_known.yaml", scales_to_zero: true },
];

#[tokio::test]
async fn autoscalers_decide_like_kube_controller_manager() -> anyhow::Result<()> {
    play(&SUITES[0]).await
}

#[tokio::test]
async fn autoscalers_scale_to_zero_like_kube_controller_manager() -> anyhow::Result<()> {
    play(&SUITES[1]).await
}

async fn play(suite: &Suite) -> anyhow::Result<()> {
    let stages = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/members/stages.yaml");
    let nodes = NodeShape { stages: Some(stages), ..NodeShape::default() };
    let gates = suite.scales_to_zero.then(|| "--feature-gates=HPAScaleToZero=true".to_owned());
    let mut manager_flags = vec![
        format!("--horizontal-pod-autoscaler-sync-period={SYNC_PERIOD}s"),
        format!("--horizontal-pod-autoscaler-downscale-stabilization={STABILIZATION}s"),
        "--horizontal-pod-autoscaler-cpu-initialization-period=0s".to_owned(),
    ];
    manager_flags.extend(gates.clone());
    let api_server_flags = gates.into_iter().collect();
    let config = Config { plane: false, members: 1, nodes, manager_flags, api_server_flags };
    let Some(env) = RealEnv::start_or_skip(config).await? else { return Ok(()) };
    let client = env.member(0).client().await?;
    let clock = Clock::system();
    let real = Side { client: client.clone(), metrics: Metrics::new(client, clock.clone()) };
    let _server = MetricsServer::start(env.member(0), Arc::new(real.metrics.clone())).await?;
    let (member, simulated) = simulated(suite.scales_to_zero).await?;

    let known = Known::read(&folder().join(suite.known))?;
    let scenarios = read(&folder().join(suite.scenarios))?;
    let (real, simulated) = (&real, &simulated);
    let found: Vec<Vec<String>> = stream::iter(&scenarios)
        .map(|(name, steps)| async move {
            match tokio::join!(real.play(name, steps), simulated.play(name, steps)) {
                (Ok(real), Ok(simulated)) => differences(name, &real, &simulated),
                // The other scenarios are compared all the same.
                (real, simulated) => {
                    let sides = [("a real cluster", real.err()), ("a simulated member", simulated.err())];
                    let line =
                        |(side, error): (&str, Option<anyhow::Error>)| Some(format!("{name} on {side}: {:#}", error?));
                    sides.into_iter().filter_map(line).collect()
                }
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    member.end();
    let report = known.judge(&found.concat());
    println!("{} scenarios, {} differences, {} of them decided", scenarios.len(), report.all, report.decided);
    assert!(report.lines.is_empty(), "{} differences:\n{}", report.lines.len(), report.lines.join("\n"));
    Ok(())
}

/// Starts a simulated member in this process.
async fn simulated(scale_to_zero: bool) -> anyhow::Result<(Member, Side)> {
    let seam = Seam::system("autoscalers");
    let engine = Engine::open(Box::new(MemoryBackend::default()), Commit::Inline, seam.clock.clone())?;
    let autoscaling = AutoscalingOptions {
        sync_period: SignedDuration::from_secs(SYNC_PERIOD),
        downscale_stabilization: SignedDuration::from_secs(STABILIZATION),
        cpu_initialization_period: SignedDuration::ZERO,
        scale_to_zero,
        ..AutoscalingOptions::of_one_cluster()
    };
    let options = MemberOptions {
        name: "simulated".into(),
        shape: Shape { nodes: 8, ..Shape::default() },
        startup_delay: Duration::from_millis(250),
        autoscaling,
        ..MemberOptions::default()
    };
    let member = Member::start(options, engine.store_with("simulated", StoreOptions::member()), seam.clone()).await?;
    member.ready().await;
    let metrics = Metrics::new(member.client(), seam.clock.clone());
    member.server().mount_in_front(Arc::new(metrics.clone()));
    for group in Metrics::groups() {
        member.server().announce(&group).map_err(|error| anyhow::anyhow!(error.message))?;
    }
    let side = Side { client: member.client(), metrics };
    Ok((member, side))
}

#[test]
fn every_scenario_can_be_read_and_compares_something() -> anyhow::Result<()> {
    let mut count = 0;
    for suite in SUITES {
        let scenarios: Scenarios = read(&folder().join(suite.scenarios))?;
        count += scenarios.len();
        for (name, steps) in &scenarios {
            let compares = |step: &Step| matches!(step, Step::Compare(_) | Step::Refused(_));
            assert!(steps.iter().any(compares), "{name} compares nothing");
        }
        Known::read(&folder().join(suite.known))?;
    }
    assert!(count >= SCENARIOS_MIN, "{count} scenarios");
    Ok(())
}
