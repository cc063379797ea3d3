//! Agreement of `why`, `tree` and `plan apply` with what happens afterwards (specification/operations.md 2.20): random
//! small fleets, explained and simulated whole.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    taints::NO_SCHEDULE,
};
use ironclad_cli::plan::apply::of_plane;
use ironclad_fleet::{
    Gvk, ObjectKey, World,
    tree::{LinkState, tree},
};
use ironclad_interpreter::Interpreter;
use ironclad_planning::{
    Fleet, Preemption,
    why::{Explanation, explain},
};
use ironclad_seam::{Rng, Stream};
use ironclad_testkit::sim::{
    runner::{Runner, setup},
    script::{App, Spread},
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

/// Time for which explanations have to hold in a fleet that nobody changes.
const FOLLOWED: Duration = Duration::from_secs(600);
/// Time after which an applied manifest has arrived in all members.
const APPLIED: Duration = Duration::from_secs(60);
const MEMBERS: usize = 3;

#[tokio::test(start_paused = true)]
async fn explanations_hold_for_the_next_ten_minutes() -> anyhow::Result<()> {
    let mut met = BTreeSet::new();
    for seed in 0..8 {
        met.extend(explained(seed).await.map_err(|error| error.context(format!("fleet {seed}")))?);
    }
    // A property that never meets what it is about proves nothing.
    for what in ["placed", "unschedulable", "unclaimed", "a link is broken", "no link is broken", "refused by a taint"]
    {
        ensure!(met.contains(what), "no fleet had one that is {what}: {met:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn planned_applies_are_what_happens() -> anyhow::Result<()> {
    let mut met = BTreeSet::new();
    for seed in 0..8 {
        met.extend(applied(seed).await.map_err(|error| error.context(format!("fleet {seed}")))?);
    }
    for what in ["claimed first by a broad policy", "another placement", "scaled", "nothing"] {
        ensure!(met.contains(what), "no fleet had one that is {what}: {met:?}");
    }
    Ok(())
}

/// A workload, which may ask for more clusters than there are, or for one that does not exist.
fn draw(draws: &Stream, n: u64) -> App {
    let members: Vec<String> = (1..=MEMBERS).map(|n| format!("member{n}")).collect();
    let (mut spread, mut affinity) = (Spread::Copies(1), Vec::new());
    match draws.below(6) {
        0 => spread = Spread::Everywhere,
        1 => spread = Spread::Copies(2),
        2 => spread = Spread::Divided(2),
        3 => spread = Spread::Copies(MEMBERS + 1),
        4 => affinity = vec!["member9".to_owned()],
        _ => affinity = vec![members[draws.below(MEMBERS as u64) as usize].clone()],
    }
    App { replicas: 1 + draws.below(3) as i32, spread, affinity, ..App::new(&format!("w{n}")) }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey { gvk: Gvk::from_manifest("apps/v1", "Deployment"), namespace: "default".into(), name: name.into() }
}

/// The fleet as the verbs read it.
async fn fleet(runner: &Runner) -> anyhow::Result<Fleet> {
    let (user, all) = (runner.world.user(), ListParams::default());
    let mut world = runner.world.model.fleet();
    let policies: Api<PropagationPolicy> = Api::all(user.clone());
    policies.list(&all).await?.items.into_iter().for_each(|policy| world.insert_policy(policy));
    let policies: Api<ClusterPropagationPolicy> = Api::all(user.clone());
    policies.list(&all).await?.items.into_iter().for_each(|policy| world.insert_cluster_policy(policy));
    let deployments: Api<Deployment> = Api::namespaced(user, "default");
    for deployment in deployments.list(&all).await?.items {
        let mut template = serde_json::to_value(&deployment)?;
        template["apiVersion"] = "apps/v1".into();
        template["kind"] = "Deployment".into();
        world.insert_template(template);
    }
    Ok(Fleet { world, ..Fleet::default() })
}

fn explanation(runner: &Runner, fleet: &Fleet, name: &str) -> anyhow::Result<Explanation> {
    let now = runner.world.clock().wall_seconds();
    explain(fleet, &key(name), &Interpreter::default(), now).with_context(|| format!("no template {name}"))
}

/// Links of a state in the tree of a template, by their objects.
fn links(world: &World, explanation: &Explanation, state: LinkState) -> anyhow::Result<Vec<String>> {
    let tree = tree(world, &explanation.template, &explanation.for_tree()).context("no tree")?;
    Ok(tree.links.iter().filter(|link| link.state == state).map(|link| link.object.clone()).collect())
}

/// Clusters and replicas of a workload as `member1:2`; empty without a binding.
fn placed(runner: &Runner, name: &str) -> Vec<String> {
    runner.placed(name).unwrap_or_default()
}

/// Explains every workload of the fleet of a seed, and compares with its state ten minutes later.
async fn explained(seed: u64) -> anyhow::Result<BTreeSet<&'static str>> {
    let draws = Rng::from_seed(seed).child("explained").stream("draws");
    let mut setup = setup(MEMBERS, 5.0);
    setup.seed = seed;
    let mut runner = Runner::new(setup).await?;
    if draws.below(2) == 0 {
        runner.taint(&["member1"], NO_SCHEDULE).await?;
    }
    let apps: Vec<App> = (1..=3 + draws.below(3)).map(|n| draw(&draws, n)).collect();
    for app in &apps {
        runner.add(app, |_| {}).await?;
    }
    let alone = App::new("alone");
    let deployments: Api<Deployment> = Api::namespaced(runner.world.user(), "default");
    deployments.create(&PostParams::default(), &alone.deployment()?).await?;
    runner.settle(&[]).await?;

    let mut met = BTreeSet::new();
    let before = fleet(&runner).await?;
    let names: Vec<&str> = apps.iter().map(|app| app.name.as_str()).chain([alone.name.as_str()]).collect();
    let mut said = Vec::new();
    for name in &names {
        let explanation = explanation(&runner, &before, name)?;
        let broken = links(&before.world, &explanation, LinkState::Broken)?;
        let waiting = links(&before.world, &explanation, LinkState::Waiting)?;
        said.push((*name, placed(&runner, name), explanation, broken, waiting));
    }
    runner.world.pass(FOLLOWED).await?;
    let after = fleet(&runner).await?;
    for (name, was, explanation, broken, waiting) in said {
        let now = placed(&runner, name);
        ensure!(now == was, "{name} moved from {was:?} to {now:?} in a fleet that nobody changes");
        let Some(scheduling) = &explanation.scheduling else {
            ensure!(now.is_empty(), "{name} is on {now:?}, and why finds no binding");
            ensure!(broken == ["no policy"], "{name} has no policy, and tree finds {broken:?} broken");
            met.insert("unclaimed");
            continue;
        };
        match &scheduling.failure {
            Some(failure) => {
                ensure!(now.is_empty(), "{name} is on {now:?}, and why says: {failure}");
                ensure!(!broken.is_empty(), "{name} runs nowhere ({failure}), and tree finds nothing broken");
                met.insert("unschedulable");
            }
            None => {
                ensure!(scheduling.agrees, "{name} stays on {now:?}, and why would place it elsewhere: {scheduling:?}");
                met.insert("placed");
            }
        }
        for (cluster, outcome) in scheduling.cycles.iter().flat_map(|cycle| &cycle.clusters) {
            let is_there = now.iter().any(|target| target.starts_with(&format!("{cluster}:")));
            let text = outcome.because.to_string();
            ensure!(
                !is_there || !text.contains("untolerated taint") || scheduling.agrees,
                "{name} in {cluster}: {text}"
            );
            if text.contains("untolerated taint") {
                met.insert("refused by a taint");
            }
        }
        let later = self::explanation(&runner, &after, name)?;
        ensure!(
            links(&after.world, &later, LinkState::Broken)? == broken,
            "tree finds other links of {name} broken than {broken:?}"
        );
        if broken.is_empty() {
            ensure!(waiting.is_empty(), "{name} is settled, and tree finds that {waiting:?} wait");
            let clusters: BTreeSet<String> = runner.copies(name).into_iter().collect();
            let targets: BTreeSet<String> =
                now.iter().filter_map(|target| Some(target.split_once(':')?.0.to_owned())).collect();
            ensure!(clusters == targets, "{name} is placed on {now:?}, its copies are in {clusters:?}");
            met.insert("no link is broken");
        } else {
            met.insert("a link is broken");
        }
    }
    Ok(met)
}

/// Plans a manifest over the fleet of a seed, applies it, and compares.
async fn applied(seed: u64) -> anyhow::Result<BTreeSet<&'static str>> {
    let draws = Rng::from_seed(seed).child("applied").stream("draws");
    let mut setup = setup(MEMBERS, 5.0);
    setup.seed = seed;
    let mut runner = Runner::new(setup).await?;
    let apps: Vec<App> = (1..=3).map(|n| draw(&draws, n)).collect();
    runner.settle(&apps).await?;
    let whole = |object: Value, api_version: &str, kind: &str| {
        let mut object = object;
        (object["apiVersion"], object["kind"]) = (api_version.into(), kind.into());
        object
    };
    let policy = |app: &App| -> anyhow::Result<Value> {
        Ok(whole(serde_json::to_value(app.policy()?)?, "policy.karmada.io/v1alpha1", "PropagationPolicy"))
    };
    let deployment = |app: &App| -> anyhow::Result<Value> {
        Ok(whole(serde_json::to_value(app.deployment()?)?, "apps/v1", "Deployment"))
    };
    let (what, manifest): (&'static str, Vec<Value>) = match seed % 4 {
        0 => {
            // A policy of all Deployments is there first; the file has the workload before its own policy.
            let mut broad = policy(&App { spread: Spread::Everywhere, affinity: Vec::new(), ..App::new("broad") })?;
            broad["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
            let policies: Api<PropagationPolicy> = Api::namespaced(runner.world.user(), "default");
            policies.create(&PostParams::default(), &serde_json::from_value(broad)?).await?;
            runner.world.pass(APPLIED).await?;
            let new = App { affinity: vec!["member2".to_owned()], ..App::new("new") };
            ("claimed first by a broad policy", vec![deployment(&new)?, policy(&new)?])
        }
        1 => {
            let moved = App { affinity: vec!["member3".to_owned()], spread: Spread::Copies(1), ..apps[0].clone() };
            ("another placement", vec![policy(&moved)?])
        }
        2 => ("scaled", vec![deployment(&App { replicas: apps[0].replicas + 2, ..apps[0].clone() })?]),
        _ => ("nothing", vec![policy(&apps[0])?, deployment(&apps[0])?]),
    };
    let user = runner.world.user();
    let (_, planned) =
        of_plane(&user, manifest.clone(), Some("default"), Preemption::Off, runner.world.clock(), |_| ()).await?;
    ensure!(planned.not_followed.is_empty(), "{:?}", planned.not_followed);
    let names: Vec<String> = apps.iter().map(|app| app.name.clone()).chain(["new".to_owned()]).collect();
    let before: Vec<Vec<String>> = names.iter().map(|name| placed(&runner, name)).collect();

    for object in &manifest {
        let kind = object["kind"].as_str().unwrap_or_default();
        let (group, version) = if kind == "Deployment" { ("apps", "v1") } else { ("policy.karmada.io", "v1alpha1") };
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(user.clone(), "default", &resource);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(object)).await?;
    }
    runner.world.pass(APPLIED).await?;
    for (name, before) in names.iter().zip(before) {
        let change = planned.templates.iter().find(|change| *change.template.name == **name);
        let want = match change {
            None => before,
            Some(change) => {
                let copies = change.copies.iter().filter_map(|(cluster, copy)| Some((cluster, copy.after?)));
                copies.map(|(cluster, replicas)| format!("{cluster}:{replicas}")).collect()
            }
        };
        let really = placed(&runner, name);
        ensure!(really == want, "{what}: {name} is really on {really:?}, foreseen on {want:?}: {change:#?}");
    }
    ensure!(what != "nothing" || planned.is_quiet(), "nothing changes, and the plan says {planned:#?}");
    Ok(BTreeSet::from([what]))
}
