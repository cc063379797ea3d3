//! Crash, staleness and drop matrices over scenarios of preemption: whichever single write is disturbed, and whichever
//! single event of a watch is late or lost, the same bindings leave, and the fleet settles in the same state as
//! undisturbed.

use std::{future::Future, pin::Pin, time::Duration};

use anyhow::ensure;
use ironclad_api::policy::PropagationPolicy;
use ironclad_scheduling::preempt::Mode;
use ironclad_testkit::sim::{
    EventFault, Fault, World,
    matrix::{self, Disturbance, Pass, Played},
};
use k8s_openapi::api::{apps::v1::Deployment, scheduling::v1::PriorityClass};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::preemption_sim::{App, HIGH, RUNNING, bindings, create, result, running};

type Acting<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

struct Scenario {
    name: &'static str,
    running: &'static [App],
    act: for<'a> fn(&'a mut World, &'a Client) -> Acting<'a>,
    /// Placements at the end, as `member1:3`.
    ends: &'static [(&'static str, &'static str)],
}

const BOTH: &[&str] = &["member1", "member2"];

fn deployments(user: &Client) -> Api<Deployment> {
    Api::namespaced(user.clone(), "default")
}

async fn placed(user: &Client, app: &str) -> anyhow::Result<String> {
    let Some(binding) = bindings(user).get_opt(&format!("{app}-deployment")).await? else { return Ok(String::new()) };
    let targets: Vec<String> = result(&binding).iter().map(|(name, replicas)| format!("{name}:{replicas}")).collect();
    Ok(targets.join(" "))
}

async fn until_placed(world: &mut World, user: &Client, app: &str, want: &str) -> anyhow::Result<()> {
    world.until(&format!("{app} is on {want:?}"), async || Ok(placed(user, app).await? == want)).await
}

async fn until_preempted(world: &mut World, user: &Client, app: &str) -> anyhow::Result<()> {
    let name = format!("{app}-deployment");
    world
        .until(&format!("{app} is preempted"), async || {
            Ok(!bindings(user).get(&name).await?.spec.graceful_eviction_tasks.is_empty())
        })
        .await
}

const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "the victim waits",
        running: &RUNNING,
        act: |world, user| {
            Box::pin(async move {
                create(user, &HIGH).await?;
                until_placed(world, user, "high", "member1:3").await
            })
        },
        ends: &[("high", "member1:3"), ("low", ""), ("mid", "member1:4"), ("keep", "member2:8")],
    },
    Scenario {
        name: "the victim moves",
        running: &[
            App { name: "keep", replicas: 8, priority: 100, on: &["member2"] },
            App { name: "low", replicas: 4, priority: 0, on: BOTH },
            App { name: "mid", replicas: 4, priority: 5, on: &["member1"] },
        ],
        act: |world, user| {
            Box::pin(async move {
                let fewer = Patch::Merge(json!({"spec": {"replicas": 4}}));
                deployments(user).patch("keep", &PatchParams::default(), &fewer).await?;
                until_placed(world, user, "keep", "member2:4").await?;
                world.pass(Duration::from_secs(30)).await?;
                create(user, &App { on: &["member1"], ..HIGH }).await?;
                until_placed(world, user, "high", "member1:3").await?;
                until_placed(world, user, "low", "member2:4").await
            })
        },
        ends: &[("high", "member1:3"), ("low", "member2:4"), ("mid", "member1:4"), ("keep", "member2:4")],
    },
    Scenario {
        name: "two victims",
        running: &[
            App { name: "low", replicas: 2, priority: 0, on: &["member1"] },
            App { name: "lower", replicas: 2, priority: -1, on: &["member1"] },
            App { name: "top", replicas: 4, priority: 100, on: &["member1"] },
        ],
        act: |world, user| {
            Box::pin(async move {
                create(user, &App { replicas: 4, on: &["member1"], ..HIGH }).await?;
                until_placed(world, user, "high", "member1:4").await
            })
        },
        ends: &[("high", "member1:4"), ("low", ""), ("lower", ""), ("top", "member1:4")],
    },
    Scenario {
        name: "a victim preempts another one",
        running: &[
            App { name: "low", replicas: 8, priority: 0, on: &["member2"] },
            App { name: "mid", replicas: 8, priority: 5, on: BOTH },
        ],
        act: |world, user| {
            Box::pin(async move {
                create(user, &App { replicas: 8, on: &["member1"], ..HIGH }).await?;
                until_placed(world, user, "high", "member1:8").await?;
                until_placed(world, user, "mid", "member2:8").await
            })
        },
        ends: &[("high", "member1:8"), ("mid", "member2:8"), ("low", "")],
    },
    Scenario {
        name: "the preemptor is deleted",
        running: &RUNNING,
        act: |world, user| {
            Box::pin(async move {
                create(user, &HIGH).await?;
                until_preempted(world, user, "low").await?;
                deployments(user).delete("high", &DeleteParams::background()).await?;
                // Long before its task would end.
                let begun = world.clock().mono();
                until_placed(world, user, "low", "member1:4").await?;
                let took = world.clock().mono() - begun;
                ensure!(took < Duration::from_secs(120), "it returned after {took:?}");
                Ok(())
            })
        },
        ends: &[("low", "member1:4"), ("mid", "member1:4"), ("keep", "member2:8")],
    },
    Scenario {
        name: "the victim's class is deleted while it is used",
        running: &RUNNING,
        act: |world, user| {
            Box::pin(async move {
                let classes: Api<PriorityClass> = Api::all(user.clone());
                classes.delete("mid", &DeleteParams::default()).await?;
                world.pass(Duration::from_secs(20)).await?;
                let priority = async || -> anyhow::Result<Option<i32>> {
                    let mid = bindings(user).get("mid-deployment").await?;
                    Ok(mid.spec.schedule_priority.map(|resolved| resolved.priority))
                };
                ensure!(priority().await? == Some(5), "the binding keeps its numbers");
                // The next change of the policy finds no class, and the default is 0 and Never.
                let policies: Api<PropagationPolicy> = Api::namespaced(user.clone(), "default");
                let later = Patch::Merge(json!({"spec": {"priority": 1}}));
                policies.patch("mid", &PatchParams::default(), &later).await?;
                world.until("it has the default", async || Ok(priority().await? == Some(0))).await?;
                create(user, &HIGH).await?;
                until_placed(world, user, "high", "member1:3").await
            })
        },
        ends: &[("high", "member1:3"), ("keep", "member2:8")],
    },
];

fn play(scenario: &Scenario, disturbance: Disturbance) -> anyhow::Result<Played> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let (mut world, user) = running(Mode::Evict, scenario.running).await?;
        let faults = world.faults.clone();
        let before = (faults.writes(), faults.events());
        disturbance.plan(&faults);
        let acted = async {
            (scenario.act)(&mut world, &user).await?;
            world
                .until("nothing is left of the preemptions", async || {
                    let all = bindings(&user).list(&ListParams::default()).await?.items;
                    Ok(all.iter().all(|binding| {
                        let held = binding.status.as_ref().map_or(0, |status| status.nominated_clusters.len());
                        held == 0 && binding.spec.graceful_eviction_tasks.is_empty()
                    }))
                })
                .await?;
            // Those that wait are tried again after five minutes, and then report the capacity of the end.
            world.pass(Duration::from_secs(330)).await?;
            world.until_still().await?;
            for (app, want) in scenario.ends {
                let is = placed(&user, app).await?;
                ensure!(is == *want, "{app} is on {is:?}, not on {want:?}");
            }
            anyhow::Ok(())
        };
        let acted = acted.await;
        matrix::show(disturbance, &world.history);
        if let Err(error) = acted {
            let lines = world.history.lines();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            return Err(error.context(format!("the history ends with\n{tail}\n")));
        }
        Ok(Played::since(&faults, before, world.state().await?))
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
    a_conflict_at_any_write: Pass::Writes(Fault::Conflict), 4;
    a_crash_after_the_answer_to_any_write: Pass::Writes(Fault::KillAfterAnswer), 4;
    a_crash_before_the_answer_to_any_write: Pass::Writes(Fault::KillBeforeAnswer), 4;
    a_lost_answer_to_any_write: Pass::Writes(Fault::LoseAnswer), 4;
    an_event_lost_with_a_list_in_its_place: Pass::Events(EventFault::Expire), 3;
    an_event_that_comes_late: Pass::Events(EventFault::Hold(Duration::from_secs(7))), 3;
}
