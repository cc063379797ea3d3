//! Crash, staleness and drop matrices over scenarios of failover: whichever single write is disturbed, and
//! whichever single event of a watch is late or lost, the fleet settles in the same state as undisturbed.

use ironclad_failover::flags::eviction::Check;
use std::{future::Future, pin::Pin, time::Duration};

use anyhow::ensure;
use ironclad_simcluster::Faults;
use ironclad_testkit::sim::{
    EventFault, Fault, Setup,
    matrix::{self, Disturbance, Pass, Played},
    runner::{Runner, setup},
    script::{App, Failover, Spread, TaintPolicy},
};

type Acting<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

struct Scenario {
    name: &'static str,
    setup: fn() -> Setup,
    app: fn() -> App,
    act: for<'a> fn(&'a mut Runner) -> Acting<'a>,
}

const NO_EXECUTE: &str = "NoExecute";
const PREFER: &str = "PreferNoExecute";

fn three() -> Setup {
    setup(3, 0.5)
}

fn unchecked() -> Setup {
    let mut setup = setup(2, 0.5);
    setup.settings.failover.eviction.pre_scheduling_check = Check::Off;
    setup
}

fn pinned(mode: &'static str) -> App {
    App { affinity: vec!["member1".into()], failover: Failover::Cluster { mode, seconds: 0 }, ..App::new("web") }
}

/// Taints the only cluster of the workload, and untaints it after the eviction.
async fn evict_in_vain(runner: &mut Runner) -> anyhow::Result<()> {
    runner.taint(&["member1"], NO_EXECUTE).await?;
    runner.until("it is evicted", |runner| Ok(runner.tasks("web")?.len() == 1)).await?;
    runner.world.pass(Duration::from_secs(20)).await?;
    runner.untaint(&["member1"], NO_EXECUTE).await?;
    runner.until_settled("web", &["member1:1"]).await
}

/// Taints clusters with NoExecute and waits until the workload has moved.
async fn move_away(runner: &mut Runner, from: &[&str], to: &[&str]) -> anyhow::Result<()> {
    runner.taint(from, NO_EXECUTE).await?;
    runner.until_settled("web", to).await
}

const SCENARIOS: [Scenario; 10] = [
    Scenario {
        name: "B20, B28: NoExecute, gracefully",
        setup: three,
        app: || App::new("web"),
        act: |runner| Box::pin(move_away(runner, &["member1"], &["member2:1"])),
    },
    Scenario {
        name: "B16: PreferNoExecute, directly",
        setup: three,
        app: || App { failover: Failover::Cluster { mode: "Directly", seconds: 5 }, ..App::new("web") },
        act: |runner| {
            Box::pin(async move {
                runner.taint(&["member1"], PREFER).await?;
                runner.until_settled("web", &["member2:1"]).await
            })
        },
    },
    Scenario {
        name: "B40: divided",
        setup: three,
        app: || App { spread: Spread::Divided(1), replicas: 3, ..App::new("web") },
        act: |runner| Box::pin(move_away(runner, &["member1"], &["member2:3"])),
    },
    Scenario {
        name: "B53: two faults of one workload",
        setup: || setup(5, 2.0),
        app: || App { spread: Spread::Copies(2), ..App::new("web") },
        act: |runner| Box::pin(move_away(runner, &["member1", "member2"], &["member3:1", "member4:1"])),
    },
    Scenario {
        name: "B23: recovered in time",
        setup: three,
        app: || App { tolerates: Some(300), ..App::new("web") },
        act: |runner| {
            Box::pin(async move {
                runner.taint(&["member1"], NO_EXECUTE).await?;
                runner.at(60.0).await?;
                runner.untaint(&["member1"], NO_EXECUTE).await?;
                runner.at(400.0).await?;
                ensure!(runner.evictions().is_empty());
                runner.until_settled("web", &["member1:1"]).await
            })
        },
    },
    Scenario {
        name: "B32: no substitute, and back",
        setup: unchecked,
        app: || pinned("Gracefully"),
        act: |runner| Box::pin(evict_in_vain(runner)),
    },
    Scenario {
        name: "B33: no substitute, directly, and back",
        setup: unchecked,
        app: || pinned("Directly"),
        act: |runner| Box::pin(evict_in_vain(runner)),
    },
    Scenario {
        name: "B35: parked until a cluster joins",
        setup: || Setup { spares: 1, ..setup(2, 0.5) },
        app: || App { affinity: vec!["member1".into(), "member3".into()], ..App::new("web") },
        act: |runner| {
            Box::pin(async move {
                runner.taint(&["member1"], NO_EXECUTE).await?;
                runner.at(60.0).await?;
                runner.world.join("member3").await?;
                runner.until_settled("web", &["member3:1"]).await
            })
        },
    },
    Scenario {
        name: "B9, B12: a lost member, a policy, and back",
        setup: three,
        app: || App { failover: Failover::Cluster { mode: "Gracefully", seconds: 5 }, ..App::new("web") },
        act: |runner| {
            Box::pin(async move {
                runner.taint_policy(&TaintPolicy { effect: PREFER, add_after: 20, remove_after: 20 }).await?;
                runner.fault("member1", Faults { down: true, ..Faults::default() })?;
                runner.until("it has left", |runner| Ok(runner.placed("web")? == ["member2:1"])).await?;
                runner.fault("member1", Faults::default())?;
                runner.until_settled("web", &["member2:1"]).await?;
                runner
                    .until("the taints are removed", |runner| {
                        Ok(runner.world.model.look(|f| f.clusters.values().all(|c| c.spec.taints.is_empty())))
                    })
                    .await
            })
        },
    },
    Scenario {
        name: "B29, B30: a copy that starts late",
        setup: three,
        // Of two clusters, since one without nodes is not preferred to others.
        app: || App { affinity: vec!["member1".into(), "member2".into()], ..App::new("web") },
        act: |runner| {
            Box::pin(async move {
                runner.remove_nodes("member2")?;
                runner.taint(&["member1"], NO_EXECUTE).await?;
                runner.until("it is placed", |runner| Ok(runner.placed("web")? == ["member2:1"])).await?;
                runner.untaint(&["member1"], NO_EXECUTE).await?;
                runner.world.pass(Duration::from_secs(30)).await?;
                runner.restore_node("member2")?;
                runner.until_settled("web", &["member2:1"]).await
            })
        },
    },
];

fn play(scenario: &Scenario, disturbance: Disturbance) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let mut runner = Runner::new((scenario.setup)()).await?;
        runner.settle(&[(scenario.app)()]).await?;
        let faults = runner.world.faults.clone();
        let before = (faults.writes(), faults.events());
        disturbance.plan(&faults);
        let acted = async {
            (scenario.act)(&mut runner).await?;
            runner.world.until_quiet().await
        };
        if let Err(error) = acted.await {
            let lines = runner.world.history.lines();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            return Err(error.context(format!("the history ends with\n{tail}\n")));
        }
        Ok(Played::since(&faults, before, runner.world.state().await?))
    })
}

macro_rules! passes {
    ($($name:ident: $pass:expr, $at_most:expr;)+) => {$(
        #[test]
        fn $name() -> anyhow::Result<()> {
            matrix::run(&SCENARIOS, |scenario| scenario.name.to_owned(), play, $pass, $at_most)
        }
    )+};
}

passes! {
    a_conflict_at_any_write: Pass::Writes(Fault::Conflict), 8;
    a_crash_after_the_answer_to_any_write: Pass::Writes(Fault::KillAfterAnswer), 12;
    a_crash_before_the_answer_to_any_write: Pass::Writes(Fault::KillBeforeAnswer), 12;
    a_lost_answer_to_any_write: Pass::Writes(Fault::LoseAnswer), 12;
    an_event_lost_with_a_list_in_its_place: Pass::Events(EventFault::Expire), 10;
    an_event_that_comes_late: Pass::Events(EventFault::Hold(Duration::from_secs(7))), 10;
}
