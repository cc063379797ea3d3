//! `plan apply`: the copies that it foretells for a file are those that the fleet has once the file is applied.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, ensure};
use ironclad_fleet::{ClusterName, ObjectKey, World, targets::targets};
use ironclad_interpreter::Interpreter;
use ironclad_planning::{
    Preemption,
    apply::{CopyChange, Planned, TemplateChange},
};
use ironclad_seam::Stream;
use serde_json::{Value, json};

use super::{
    Met, Trace,
    draw::{self, Fleet},
    fleet, shares,
};

/// Time after which the controllers see the file.
const ARRIVES: Duration = Duration::from_secs(2);
/// Parts of the keys of labels and annotations that are records.
const RECORDS: [&str; 3] = ["karmada.io/", "ironclad.io/", "deployment.kubernetes.io/"];

/// Copies of each template, by cluster, with replicas.
type Copies = BTreeMap<ObjectKey, BTreeMap<ClusterName, i32>>;

/// Checks the plan of a seed's file over its fleet.
pub(super) async fn check(seed: u64, trace: &Trace) -> anyhow::Result<Met> {
    let (setup, draws) = draw::world(seed);
    let (mut runner, user, drawn) = draw::start(setup, &draws, trace).await?;
    draw::settle(&mut runner).await?;
    let (file, met) = edits(&draws, &drawn);
    let before = fleet(&runner.world).await?;
    let mut applied = Vec::new();
    for object in &file {
        applied.push((user.get(object).await?, user.apply(object, true).await?));
    }
    let (interpreter, now) = (Interpreter::default(), runner.world.clock().wall_seconds());
    // The plan is about what the whole file leaves behind: the controllers see it at once. What they would do of an
    // object before the next one arrives depends on how fast they are.
    runner.world.faults_of(0).freeze_watches(runner.world.clock().mono() + ARRIVES);
    for object in &file {
        user.apply(object, false).await?;
    }
    // Among equal clusters the UID of a template decides (specification/scheduling.md 8.5). A new one gets it now.
    for (object, (_, then)) in file.iter().zip(&mut applied) {
        let real = user.get(object).await?.context("what was applied is there")?;
        then["metadata"]["uid"] = real["metadata"]["uid"].clone();
    }
    let planned = Planned::new(before, applied)?;
    let plan = planned.plan_apply(Preemption::Off, &interpreter, now);
    let present = copies(&planned.before.world);
    let contents = contents(&planned.before.world);
    let story = || {
        let file = serde_json::to_string_pretty(&file).unwrap_or_default();
        format!("\nthe file: {file}\nthe plan: {}", serde_json::to_string_pretty(&plan).unwrap_or_default())
    };
    runner.world.pass(Duration::from_secs(5)).await.with_context(story)?;
    runner.world.until_still().await.with_context(story)?;
    let after = fleet(&runner.world).await?.world;
    let real = copies(&after);
    let mut met: Met = met.into_iter().collect();
    let changes: BTreeMap<&ObjectKey, &TemplateChange> =
        plan.templates.iter().map(|change| (&change.template, change)).collect();
    for key in present.keys().chain(real.keys()).chain(changes.keys().copied()) {
        let of = |all: &Copies| {
            let copies = all.get(key).into_iter().flatten();
            shares(copies.map(|(cluster, replicas)| (&*cluster.0, *replicas)))
        };
        let (really, before) = (of(&real), of(&present));
        let foretold = changes.get(key).map_or_else(|| vec![before.clone()], |change| outcomes(change));
        ensure!(
            foretold.contains(&really),
            "{key} was on {before:?}, is on {really:?}, foretold {foretold:?}{}",
            story()
        );
        met.insert(if foretold.len() == 1 { "one outcome" } else { "one of several outcomes" });
    }
    let now = self::contents(&after);
    for change in &plan.templates {
        let really: BTreeMap<ClusterName, i32> = real.get(&change.template).cloned().unwrap_or_default();
        for (cluster, copy) in happened(change, &really) {
            let key = (cluster.clone(), change.template.clone());
            let (Some(then), Some(now)) = (contents.get(&key), now.get(&key)) else { continue };
            ensure!(
                copy.change() != "stays" || then == now,
                "the copy of {} in {cluster} changed, foretold that it stays{}",
                change.template,
                story()
            );
            met.insert(match copy.change() {
                "stays" => "stays",
                "changes" => "changes",
                "scales" => "scales",
                _ => "scales and changes",
            });
        }
        let moves = |wanted: &str| happened(change, &really).values().any(|copy| copy.change() == wanted);
        for (word, what) in [("new", "new copy"), ("goes", "copy goes")] {
            if moves(word) {
                met.insert(what);
            }
        }
    }
    if plan.is_quiet() {
        met.insert("nothing changes");
    }
    Ok(met)
}

/// The outcomes that are foretold of a template.
fn outcomes(change: &TemplateChange) -> Vec<Vec<String>> {
    let copies = std::iter::once(&change.copies).chain(change.alternatives.iter().map(|other| &other.copies));
    copies.map(|copies| shares(copies.iter().filter_map(|(cluster, copy)| Some((&*cluster.0, copy.after?))))).collect()
}

/// The outcome of those foretold that happened.
fn happened<'a>(
    change: &'a TemplateChange,
    really: &BTreeMap<ClusterName, i32>,
) -> &'a BTreeMap<ClusterName, CopyChange> {
    let is_real = |copies: &BTreeMap<ClusterName, CopyChange>| {
        let after = copies.iter().filter_map(|(cluster, copy)| Some((cluster.clone(), copy.after?)));
        after.collect::<BTreeMap<_, _>>() == *really
    };
    let other = change.alternatives.iter().map(|other| &other.copies).find(|copies| is_real(copies));
    other.filter(|_| !is_real(&change.copies)).unwrap_or(&change.copies)
}

/// Copies of all templates with a binding.
fn copies(world: &World) -> Copies {
    let mut all = Copies::new();
    for binding in world.all_bindings() {
        let spec = binding.spec();
        let resource = &spec.resource;
        let key = ObjectKey {
            gvk: ironclad_fleet::Gvk::from_manifest(&resource.api_version, &resource.kind),
            namespace: resource.namespace.as_str().into(),
            name: resource.name.as_str().into(),
        };
        let of_scheduler = spec.clusters.len();
        let targets = targets(spec).into_iter().enumerate();
        // What only follows others has no replicas of its own.
        let own = targets.map(|(at, target)| (target.cluster, if at < of_scheduler { target.replicas } else { 0 }));
        all.insert(key, own.collect());
    }
    all
}

/// Content of the copies in members that users set: UID, spec, data, labels and annotations, without the records that
/// propagation and the members themselves keep there.
fn contents(world: &World) -> BTreeMap<(ClusterName, ObjectKey), Value> {
    let of_users = |object: &Value, field: &str| {
        let all = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object).into_iter().flatten();
        let kept = all.filter(|(key, _)| !RECORDS.iter().any(|text| key.contains(text)));
        Value::Object(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    let content = |object: &Value| {
        json!([
            object["metadata"]["uid"],
            object["spec"],
            object["data"],
            of_users(object, "labels"),
            of_users(object, "annotations")
        ])
    };
    let all = world.members.iter().flat_map(|(cluster, objects)| objects.iter().map(move |one| (cluster, one)));
    all.map(|(cluster, (key, object))| ((cluster.clone(), key.clone()), content(object))).collect()
}

/// Draws the objects of a file, in the order in which they are applied.
fn edits(draws: &Stream, fleet: &Fleet) -> (Vec<Value>, Vec<&'static str>) {
    let (mut file, mut met) = (Vec::new(), Vec::new());
    for n in 0..1 + draws.below(3) {
        let workload = &fleet.workloads[draws.below(fleet.workloads.len() as u64) as usize];
        match draws.below(9) {
            0 | 1 => {
                let Some(mut policy) = workload.policy.clone() else { continue };
                policy["spec"]["placement"] = draw::placement(draws, fleet.members);
                file.push(policy);
                met.push("placement edited");
            }
            2 => {
                let mut deployment = workload.deployment.clone();
                deployment["spec"]["replicas"] = json!(draws.below(6));
                file.push(deployment);
                met.push("scaled");
            }
            3 => {
                let mut deployment = workload.deployment.clone();
                deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "app:2".into();
                file.push(deployment);
                met.push("image edited");
            }
            4 => {
                let new = draw::workload(draws, 20 + n, fleet.members);
                let mut all: Vec<Value> = new.config.into_iter().chain(new.policy).collect();
                all.insert(draws.below(all.len() as u64 + 1) as usize, new.deployment);
                file.extend(all);
                met.push("new workload");
            }
            5 => {
                let mut cluster = draw::cluster(1 + draws.below(fleet.members as u64));
                cluster["metadata"]["labels"] = json!({"tier": draw::tier(draws)});
                file.push(cluster);
                met.push("cluster labelled");
            }
            6 => {
                let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
                file.push(json!({
                    "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
                    "metadata": {"name": "later", "namespace": "default"},
                    "spec": {"resourceSelectors": selectors, "placement": draw::placement(draws, fleet.members)},
                }));
                met.push("new policy for all");
            }
            _ => {
                let cluster = format!("member{}", 1 + draws.below(fleet.members as u64));
                file.push(json!({
                    "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
                    "metadata": {"name": format!("o-{}", workload.name), "namespace": "default"},
                    "spec": {
                        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": workload.name}],
                        "overrideRules": [{
                            "targetCluster": {"clusterNames": [cluster]},
                            "overriders": {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "9"}]},
                        }],
                    },
                }));
                met.push("override");
            }
        }
    }
    if file.is_empty() {
        file.push(fleet.workloads[0].deployment.clone());
    }
    (last_of_each(file), met)
}

/// Keeps the last form of each object: a plan is about what a file leaves behind, and what several forms of one object
/// leave depends on how far the controllers get in between.
fn last_of_each(file: Vec<Value>) -> Vec<Value> {
    let named = |object: &Value| (object["kind"].clone(), object["metadata"]["name"].clone());
    let later = |n: usize, object: &Value| file[n + 1..].iter().any(|other| named(other) == named(object));
    let last = file.iter().enumerate().filter(|(n, object)| !later(*n, object));
    last.map(|(_, object)| object.clone()).collect()
}
