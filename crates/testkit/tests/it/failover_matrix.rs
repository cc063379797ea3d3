//! Crash, staleness and drop matrices over scenarios of failover (testing.md 3.4): whichever single write is disturbed, and
//! whichever single event of a watch is late or lost, the fleet ends as it does undisturbed, and comes to rest.

use std::{future::Future, pin::Pin, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    EventFault, Fault, Setup,
    programme::{App, Failover, Spread, TaintPolicy},
    stage::{Stage, setup},
};

type Acting<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// What is done on a fleet at rest, until it has settled again.
struct Scenario {
    name: &'static str,
    setup: fn() -> Setup,
    app: fn() -> App,
    act: for<'a> fn(&'a mut Stage) -> Acting<'a>,
}

const NO_EXECUTE: &str = "NoExecute";
const PREFER: &str = "PreferNoExecute";

fn three() -> Setup {
    setup(3, 0.5)
}

fn unchecked() -> Setup {
    let mut setup = setup(2, 0.5);
    "off".clone_into(&mut setup.settings.failover.eviction.pre_scheduling_check);
    setup
}

fn pinned(mode: &'static str) -> App {
    App { affinity: vec!["member1".into()], failover: Failover::Cluster { mode, seconds: 0 }, ..App::new("web") }
}

const SCENARIOS: [Scenario; 10] = [
    Scenario {
        name: "B20, B28: NoExecute, gracefully",
        setup: three,
        app: || App::new("web"),
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1"], NO_EXECUTE).await?;
                stage.until_settled("web", &["member2:1"]).await
            })
        },
    },
    Scenario {
        name: "B16: PreferNoExecute, directly",
        setup: three,
        app: || App { failover: Failover::Cluster { mode: "Directly", seconds: 5 }, ..App::new("web") },
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1"], PREFER).await?;
                stage.until_settled("web", &["member2:1"]).await
            })
        },
    },
    Scenario {
        name: "B40: divided",
        setup: three,
        app: || App { spread: Spread::Divided(1), replicas: 3, ..App::new("web") },
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1"], NO_EXECUTE).await?;
                stage.until_settled("web", &["member2:3"]).await
            })
        },
    },
    Scenario {
        name: "B53: two faults of one workload",
        setup: || setup(5, 2.0),
        app: || App { spread: Spread::Copies(2), ..App::new("web") },
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1", "member2"], NO_EXECUTE).await?;
                stage.until_settled("web", &["member3:1", "member4:1"]).await
            })
        },
    },
    Scenario {
        name: "B23: recovered in time",
        setup: three,
        app: || App { tolerates: Some(300), ..App::new("web") },
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1"], NO_EXECUTE).await?;
                stage.at(60.0).await?;
                stage.untaint(&["member1"], NO_EXECUTE).await?;
                stage.at(400.0).await?;
                ensure!(stage.evictions().is_empty());
                stage.until_settled("web", &["member1:1"]).await
            })
        },
    },
    Scenario {
        name: "B32: no substitute, and back",
        setup: unchecked,
        app: || pinned("Gracefully"),
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1"], NO_EXECUTE).await?;
                stage.until("it is evicted", |stage| Ok(stage.tasks("web")?.len() == 1)).await?;
                stage.world.pass(Duration::from_secs(20)).await?;
                stage.untaint(&["member1"], NO_EXECUTE).await?;
                stage.until_settled("web", &["member1:1"]).await
            })
        },
    },
    Scenario {
        name: "B33: no substitute, directly, and back",
        setup: unchecked,
        app: || pinned("Directly"),
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1"], NO_EXECUTE).await?;
                stage.until("it is evicted", |stage| Ok(stage.tasks("web")?.len() == 1)).await?;
                stage.world.pass(Duration::from_secs(20)).await?;
                stage.untaint(&["member1"], NO_EXECUTE).await?;
                stage.until_settled("web", &["member1:1"]).await
            })
        },
    },
    Scenario {
        name: "B35: parked until a cluster joins",
        setup: || Setup { spares: 1, ..setup(2, 0.5) },
        app: || App { affinity: vec!["member1".into(), "member3".into()], ..App::new("web") },
        act: |stage| {
            Box::pin(async move {
                stage.taint(&["member1"], NO_EXECUTE).await?;
                stage.at(60.0).await?;
                stage.world.join("member3").await?;
                stage.until_settled("web", &["member3:1"]).await
            })
        },
    },
    Scenario {
        name: "B9, B12: a lost member, a policy, and back",
        setup: three,
        app: || App { failover: Failover::Cluster { mode: "Gracefully", seconds: 5 }, ..App::new("web") },
        act: |stage| {
            Box::pin(async move {
                stage.taint_policy(&TaintPolicy { effect: PREFER, add_after: 20, remove_after: 20 }).await?;
                stage.fault("member1", Faults { down: true, ..Faults::default() })?;
                stage.until("it has left", |stage| Ok(stage.placed("web")? == ["member2:1"])).await?;
                stage.fault("member1", Faults::default())?;
                stage.until_settled("web", &["member2:1"]).await?;
                stage
                    .until("the taints are gone", |stage| {
                        Ok(stage.world.truth.look(|f| f.clusters.values().all(|c| c.spec.taints.is_empty())))
                    })
                    .await
            })
        },
    },
    Scenario {
        name: "B29, B30: a copy that starts late",
        setup: three,
        app: || App::new("web"),
        act: |stage| {
            Box::pin(async move {
                stage.without_room("member2")?;
                stage.taint(&["member1"], NO_EXECUTE).await?;
                stage.until("it is placed", |stage| Ok(stage.placed("web")? == ["member2:1"])).await?;
                stage.untaint(&["member1"], NO_EXECUTE).await?;
                stage.world.pass(Duration::from_secs(30)).await?;
                stage.with_room("member2")?;
                stage.until_settled("web", &["member2:1"]).await
            })
        },
    },
];

#[derive(Debug, Clone, Copy)]
enum Disturbance {
    None,
    Write(u64, Fault),
    Event(u64, EventFault),
}

struct Played {
    state: String,
    writes: u64,
    events: u64,
    struck: bool,
}

fn play(scenario: &Scenario, disturbance: Disturbance) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut stage = Stage::new((scenario.setup)()).await?;
        stage.settle(&[(scenario.app)()]).await?;
        let faults = stage.world.faults.clone();
        let (writes, events) = (faults.writes(), faults.events());
        match disturbance {
            Disturbance::None => {}
            Disturbance::Write(number, fault) => faults.on_coming_write(number, fault),
            Disturbance::Event(number, fault) => faults.on_coming_event(number, fault),
        }
        let acted = async {
            (scenario.act)(&mut stage).await?;
            stage.world.until_quiet().await
        };
        if let Err(error) = acted.await {
            let lines = stage.world.history.lines();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            return Err(error.context(format!("the history ends with\n{tail}\n")));
        }
        Ok(Played {
            state: stage.world.state().await?,
            writes: faults.writes() - writes,
            events: faults.events() - events,
            struck: !faults.struck().is_empty() || faults.events_struck() > 0,
        })
    })
}

/// Plays all scenarios, or those with `IRONCLAD_SCENARIO` in their names, with each of these disturbances.
fn matrix(disturbances: impl Fn(&Played) -> Vec<Disturbance>) -> anyhow::Result<()> {
    let (mut runs, mut struck, mut wrong) = (0, 0, Vec::new());
    let only = std::env::var("IRONCLAD_SCENARIO").unwrap_or_default();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&only)) {
        let undisturbed = play(scenario, Disturbance::None).context(scenario.name)?;
        println!("{}: {} writes, {} events", scenario.name, undisturbed.writes, undisturbed.events);
        for disturbance in disturbances(&undisturbed) {
            runs += 1;
            let found = match play(scenario, disturbance) {
                Err(error) => Some(format!("{error:#}")),
                Ok(played) => {
                    struck += u64::from(played.struck);
                    let mut lines = played.state.lines().zip(undisturbed.state.lines());
                    let differs = lines.find(|(is, want)| is != want);
                    (played.state != undisturbed.state)
                        .then(|| format!("it ends differently, first here: {differs:#?}"))
                }
            };
            if let Some(found) = &found {
                println!("{}, {disturbance:?}: {found}", scenario.name);
            }
            wrong.extend(found.map(|found| format!("{}, {disturbance:?}: {found}", scenario.name)));
        }
    }
    println!("{runs} runs, {struck} struck");
    ensure!(wrong.is_empty(), "{} of {runs} runs:\n{}", wrong.len(), wrong.join("\n\n"));
    ensure!(struck * 10 >= runs * 9, "only {struck} of {runs} disturbances struck");
    Ok(())
}

/// Which of so many are taken: every so many, from `first` on. `IRONCLAD_MATRIX` says otherwise: `full`, or another step.
fn taken(count: u64, first: u64, every: u64) -> impl Iterator<Item = u64> {
    let (first, every) = match std::env::var("IRONCLAD_MATRIX").as_deref() {
        Ok("full") => (1, 1),
        Ok(step) => (first, step.parse().unwrap_or(every)),
        Err(_) => (first, every),
    };
    (first..=count).step_by(usize::try_from(every.max(1)).unwrap_or(usize::MAX))
}

fn writes(fault: Fault, first: u64, every: u64) -> anyhow::Result<()> {
    matrix(|undisturbed| taken(undisturbed.writes, first, every).map(|n| Disturbance::Write(n, fault)).collect())
}

fn events(fault: EventFault, every: u64) -> anyhow::Result<()> {
    matrix(|undisturbed| taken(undisturbed.events, 1, every).map(|n| Disturbance::Event(n, fault)).collect())
}

#[test]
fn a_conflict_at_any_write() -> anyhow::Result<()> {
    writes(Fault::Conflict, 1, 3)
}

#[test]
fn a_crash_after_the_answer_to_any_write() -> anyhow::Result<()> {
    writes(Fault::KillAfterAnswer, 1, 2)
}

#[test]
fn a_crash_before_the_answer_to_any_write() -> anyhow::Result<()> {
    writes(Fault::KillBeforeAnswer, 2, 2)
}

#[test]
fn a_lost_answer_to_any_write() -> anyhow::Result<()> {
    writes(Fault::LoseAnswer, 1, 2)
}

#[test]
fn an_event_lost_with_a_list_in_its_place() -> anyhow::Result<()> {
    events(EventFault::Expire, 10)
}

#[test]
fn an_event_that_comes_late() -> anyhow::Result<()> {
    events(EventFault::Hold(Duration::from_secs(7)), 10)
}
