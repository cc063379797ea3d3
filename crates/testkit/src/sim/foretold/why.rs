//! `why` and `tree`: what they say of every workload agrees with what the next ten minutes show.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    ObjectMeta,
    conditions::{self, TRUE, binding::SCHEDULED},
};
use ironclad_fleet::{
    Because, Binding, ClusterName, ObjectKey, World,
    because::propagation::Reason,
    targets::expected_clusters,
    tree::{Explained, Link, LinkState, Tree, explains_itself, tree},
};
use ironclad_interpreter::Interpreter;
use ironclad_planning::why::{Explanation, answer, explain};
use ironclad_propagation::detector::claim::{Claim, ClaimScope};
use ironclad_scheduling::trigger::responsible;
use ironclad_seam::Stream;
use ironclad_simcluster::Faults;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Met, Trace, deployments,
    draw::{self, Fleet, User},
    fleet, shares,
};
use crate::sim::{runner::Runner, script::HAND_KEY};

/// Time within which a statement must come true, beyond the ten minutes of a Deployment's progress deadline.
const SHOWS: Duration = Duration::from_secs(630);

/// Waits for somebody outside of the control plane, as `tree` says it.
const WAITS_FOR_OTHERS: [&str; 7] = [
    "suspended", "could not be asked", "has claimed it", "is not made: ", "waits until the old copy", "is being ",
    // Pods that wait for nodes; the object says so only while it has a deadline.
    "not healthy yet",
];

/// Statements about one workload.
struct Answer {
    why: Explanation,
    tree: Tree,
}

/// Checks the statements about the workloads of a seed's fleet at a drawn moment.
pub(super) async fn check(seed: u64, trace: &Trace) -> anyhow::Result<Met> {
    let (setup, draws) = draw::world(seed);
    let gate = setup.settings.gates.clone();
    let (mut runner, user, drawn) = draw::start(setup, &draws, trace).await?;
    let mut met = Met::new();
    if draws.chance(0.6) {
        runner.world.until_still().await?;
        met.insert("at rest");
    } else {
        // A binding is made and scheduled within less than a second.
        let at_most = [300, 8_000][draws.below(2) as usize];
        runner.world.pass(Duration::from_millis(draws.below(at_most))).await?;
        met.insert("in motion");
    }
    let mut lost = BTreeSet::new();
    for _ in 0..draws.below(3) {
        met.extend(act(&draws, &mut runner, &user, &drawn, &mut lost).await?);
        let at_most = [300, 45_000][draws.below(2) as usize];
        runner.world.pass(Duration::from_millis(draws.below(at_most))).await?;
    }
    if !lost.is_empty() {
        // Nobody can know what nobody has noticed.
        runner.world.pass(Duration::from_secs(90)).await?;
    }
    let now = runner.world.clock().wall_seconds();
    let shown = now.checked_add(SHOWS)?;
    let evicted_before = runner.evictions().len();
    let answers = ask(&runner, &lost).await?;
    let before = fleet(&runner.world).await?;
    let settings = before.settings;
    runner.world.pass(SHOWS).await?;

    let after = fleet(&runner.world).await?;
    let allocatable = |world: &World| -> Vec<Value> {
        summaries(world).into_iter().map(|summary| summary["allocatable"].clone()).collect()
    };
    // At the start of a fleet it is not reported yet.
    let all_reported = allocatable(&before.world) == allocatable(&after.world);
    if !all_reported {
        met.insert("members report their capacity later");
    }
    let after_tree = ask(&runner, &lost).await?;
    let evictions = runner.evictions();
    let evicted: BTreeSet<&str> = evictions[evicted_before..].iter().map(|one| one.binding.as_str()).collect();
    for (key, Answer { why, tree }) in &answers {
        let binding = after.world.binding_of(key);
        let Answer { why: why_then, tree: then } = after_tree.get(key).with_context(|| format!("{key} is gone"))?;
        let story = || {
            format!(
                "\nat {now}, with gates {gate:?} and {lost:?} lost\nwhy: {}\ntree: {}\nten minutes later: {}\nbinding: {}\nresources: {}\nthen: {}",
                serde_json::to_string_pretty(why).unwrap_or_default(),
                lines(tree),
                lines(then),
                serde_json::to_string_pretty(&binding.as_ref().map(|one| (one.spec(), one.status())))
                    .unwrap_or_default(),
                json!(summaries(&before.world)),
                json!(summaries(&after.world)),
            )
        };
        let is_evicted = binding.as_ref().is_some_and(|binding| evicted.contains(&*binding.key().to_string()));
        if is_evicted {
            met.insert("evicted meanwhile");
        } else if loses_its_policy(why) {
            // `why` says so, and which policy takes the template then is decided once that one is gone.
            met.insert("its policy is being deleted");
        } else if is_new_in_a_group(why, binding.as_ref()) {
            // Other members may be new, too, and who is scheduled first takes clusters from the others.
            met.insert("new member of a group");
        } else if waits_for_capacity(why) && has_grown(why, why_then, binding.as_ref()) {
            met.insert("capacity was freed later");
        } else if all_reported || why.scheduling.as_ref().is_none_or(|scheduling| scheduling.failure.is_none()) {
            placement(why, binding.as_ref(), &settings.scheduler, shown, &mut met).with_context(story)?;
            progress(why, tree, then, lost.is_empty(), &mut met).with_context(story)?;
        }
        truth(key, then, binding.as_ref(), &after.world, &lost, &mut met).with_context(story)?;
    }
    Ok(met)
}

fn loses_its_policy(why: &Explanation) -> bool {
    why.policy.iter().any(|because| matches!(because, Because::Propagation(Reason::ClaimantDeleting { .. })))
}

fn is_new_in_a_group(why: &Explanation, binding: Option<&Binding>) -> bool {
    let is_new = why.binding.as_ref().is_some_and(|binding| !binding.made);
    is_new && binding.is_some_and(|binding| binding.spec().workload_affinity_groups.is_some())
}

/// Returns true if no cycle finds clusters in which enough replicas fit.
fn waits_for_capacity(why: &Explanation) -> bool {
    why.scheduling.as_ref().is_some_and(|scheduling| scheduling.failure.is_some() && scheduling.result.is_empty())
}

/// Returns true if more fits now into a cluster of the binding than did before, its own replicas included.
fn has_grown(before: &Explanation, then: &Explanation, binding: Option<&Binding>) -> bool {
    let fits = |why: &Explanation, cluster: &str| {
        let cycles = why.scheduling.iter().flat_map(|scheduling| &scheduling.cycles);
        cycles.filter_map(|cycle| cycle.clusters.get(&ClusterName::from(cluster))?.available).max()
    };
    let targets = binding.map_or(&[][..], |binding| &binding.spec().clusters);
    targets.iter().any(|target| {
        let then = fits(then, &target.name).map(|fits| fits + i64::from(target.replicas));
        fits(before, &target.name).zip(then).is_some_and(|(before, then)| then > before)
    })
}

/// Resources of the members, as they report them.
fn summaries(world: &World) -> Vec<Value> {
    let summary = |cluster: &ironclad_api::cluster::Cluster| {
        json!(cluster.status.as_ref().and_then(|status| status.resource_summary.as_ref()))
    };
    world.clusters.values().map(|cluster| summary(cluster)).collect()
}

/// Reads what `why` and `tree` say now of all Deployments.
async fn ask(runner: &Runner, lost: &BTreeSet<String>) -> anyhow::Result<BTreeMap<ObjectKey, Answer>> {
    let (interpreter, now) = (Interpreter::default(), runner.world.clock().wall_seconds());
    let mut fleet = fleet(&runner.world).await?;
    for (key, template) in deployments(&runner.world.user()).await? {
        fleet.world.templates.insert(key, template.into());
    }
    // Nobody can ask them.
    fleet.world.members.retain(|name, _| !lost.contains(&*name.0));
    let keys: Vec<ObjectKey> =
        fleet.world.templates.keys().filter(|key| &*key.gvk.kind == "Deployment").cloned().collect();
    let mut answers = BTreeMap::new();
    for key in keys {
        let why = explain(&fleet, &key, &interpreter, now).with_context(|| format!("{key} can't be explained"))?;
        let explained = if explains_itself(&fleet.world, &key) { Explained::default() } else { why.for_tree() };
        let tree = tree(&fleet.world, &key, &explained).with_context(|| format!("{key} has no tree"))?;
        answers.insert(key, Answer { why, tree });
    }
    Ok(answers)
}

/// The binding is where `why` said that the scheduler places it.
fn placement(
    why: &Explanation,
    then: Option<&Binding>,
    options: &ironclad_scheduling::Options,
    shown: Timestamp,
    met: &mut Met,
) -> anyhow::Result<()> {
    let Some(binding) = &why.binding else {
        ensure!(then.is_none(), "it was said that there would be no binding");
        ensure!(!why.policy_lines().is_empty(), "no reason was given for the lack of a binding");
        met.insert("no binding");
        return Ok(());
    };
    let then = then.context("it was said that there would be a binding")?;
    let Some(scheduling) = &why.scheduling else { return Ok(()) };
    if !binding.made {
        met.insert("binding foretold");
    }
    let real = shares(then.spec().clusters.iter().map(|target| (target.name.as_str(), target.replicas)));
    let is_withdrawn = scheduling.withdrawn.is_some_and(|at| at < shown);
    if is_withdrawn {
        met.insert("withdrawn");
    }
    let stays = scheduling.result.iter().filter(|_| !is_withdrawn);
    let foretold = shares(stays.map(|target| (target.name.as_str(), target.replicas)));
    ensure!(real == foretold, "it runs on {real:?}, and was said to run on {foretold:?}");
    if responsible(then.view(), options).is_ok() {
        let conditions = then.status().map_or(&[][..], |status| &status.conditions);
        let scheduled = conditions::get(conditions, SCHEDULED).is_some_and(|condition| condition.status == TRUE);
        // Where the result stands no cycle runs, and the condition is that of the last one.
        if scheduling.runs {
            ensure!(
                scheduled != scheduling.failure.is_some(),
                "Scheduled is {scheduled}, and why says {:?}",
                scheduling.failure
            );
        }
        met.insert(if scheduling.failure.is_some() { "unschedulable" } else { "scheduled" });
    }
    let names: BTreeSet<&str> = then.spec().clusters.iter().map(|target| target.name.as_str()).collect();
    for cycle in &scheduling.cycles {
        for name in cycle.clusters.keys() {
            let answer = answer(why, name);
            if !names.contains(&*name.0) {
                ensure!(!answer.because.is_empty(), "why not {name} gave no reason");
            } else if answer.replicas.is_none() {
                let said = answer.because.iter().any(|line| line.contains("would place it there"));
                ensure!(said, "it is in {name} now, and why not {name} said {:?}", answer.because);
                met.insert("placed later");
            }
        }
    }
    Ok(())
}

/// Checks that what was in order still is, what waited waits no more, and what was broken did not heal by itself.
fn progress(why: &Explanation, before: &Tree, then: &Tree, all_reachable: bool, met: &mut Met) -> anyhow::Result<()> {
    if before.first_broken.is_none() && all_reachable {
        ensure!(then.first_broken.is_none(), "all was in order, and is not any more");
        met.insert("in order");
    }
    let others = |detail: &str| WAITS_FOR_OTHERS.iter().any(|text| detail.contains(text));
    let stops =
        |link: &&Link| link.state == LinkState::Broken || (link.state == LinkState::Waiting && others(&link.detail));
    let will_be_placed =
        why.scheduling.as_ref().is_some_and(|scheduling| scheduling.failure.is_none() && !scheduling.result.is_empty());
    // An old copy stays until the others are healthy.
    let is_held = before.links.iter().any(|link| stops(&link)) || then.links.iter().any(|link| stops(&link));
    let mut stopped_at = None;
    for link in &before.links {
        // What stands under a link that waits for others, or is broken, goes no further than that.
        if stopped_at.is_some_and(|depth| link.depth > depth) {
            continue;
        }
        stopped_at = Some(link).filter(stops).map(|link| link.depth);
        let same = then.links.iter().find(|one| one.object == link.object);
        let state = same.map(|same| same.state);
        match link.state {
            LinkState::Waiting if link.object.starts_with("leaving ") && is_held => {}
            LinkState::Waiting if !others(&link.detail) => {
                let waits = same.is_some_and(|same| same.state == LinkState::Waiting && same.detail == link.detail);
                ensure!(!waits, "{} waits still: {}", link.object, link.detail);
                met.insert("waits");
            }
            // Its last cycle failed, and it was said that the next one will not.
            LinkState::Broken if link.object.starts_with("ResourceBinding ") && will_be_placed => {}
            LinkState::Broken if !link.detail.contains("will be put there again") => {
                ensure!(
                    state != Some(LinkState::Ok),
                    "{} was said to be broken, and healed by itself: {}",
                    link.object,
                    link.detail
                );
                met.insert("broken");
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns true if a policy that stays has claimed the template.
fn is_claimed(template: Option<&Value>, world: &World) -> bool {
    let Some(claim) = template.and_then(Claim::of_template) else { return false };
    let key = claim.policy();
    let stays = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_none();
    match claim.scope {
        ClaimScope::Namespaced => world.policies.get(&key).is_some_and(|policy| stays(&policy.metadata)),
        ClaimScope::Cluster => world.cluster_policies.get(&key).is_some_and(|policy| stays(&policy.metadata)),
    }
}

/// `tree` finds nothing to look at exactly if a policy has the template, and every copy is there and ready.
fn truth(
    key: &ObjectKey,
    tree: &Tree,
    binding: Option<&Binding>,
    world: &World,
    lost: &BTreeSet<String>,
    met: &mut Met,
) -> anyhow::Result<()> {
    let Some(binding) = binding else {
        ensure!(tree.first_broken.is_some(), "there is no binding, and nothing to look at");
        return Ok(());
    };
    let spec = binding.spec();
    let conditions = binding.status().map_or(&[][..], |status| &status.conditions);
    let scheduled = conditions::get(conditions, SCHEDULED).is_some_and(|condition| condition.status == TRUE);
    let is_ready = |cluster: &ClusterName| {
        let copy = world.members.get(cluster).and_then(|objects| objects.get(key));
        let number = |pointer: &str| copy.and_then(|copy| copy.pointer(pointer)).and_then(Value::as_i64).unwrap_or(0);
        copy.is_some() && number("/spec/replicas") == number("/status/readyReplicas") && !lost.contains(&*cluster.0)
    };
    let clusters = expected_clusters(spec);
    let suspended = spec.suspension.as_ref().is_some_and(|suspension| suspension.dispatching == Some(true));
    let orderly = scheduled
        && spec.graceful_eviction_tasks.is_empty()
        && !suspended
        && !spec.scheduling_suspended()
        && !clusters.is_empty()
        && clusters.iter().all(is_ready);
    let claimed = is_claimed(world.templates.get(key).map(|template| &**template), world);
    ensure!(
        tree.first_broken.is_none() == (orderly && claimed),
        "every copy is there and ready: {orderly}; a policy has it: {claimed}; tree finds something to look at: {}",
        tree.first_broken.is_some()
    );
    if orderly && !claimed {
        met.insert("all is ready, and no policy has it");
    }
    met.insert(if orderly { "all is ready" } else { "not all is ready" });
    Ok(())
}

fn lines(tree: &Tree) -> String {
    let line = |link: &Link| format!("\n{}[{:?}] {} {}", "  ".repeat(link.depth), link.state, link.object, link.detail);
    tree.links.iter().map(line).collect()
}

/// One change by a user, or a fault.
async fn act(
    draws: &Stream,
    runner: &mut Runner,
    user: &User,
    fleet: &Fleet,
    lost: &mut BTreeSet<String>,
) -> anyhow::Result<Option<&'static str>> {
    let number = 1 + draws.below(fleet.members as u64);
    let member = format!("member{number}");
    let workload = &fleet.workloads[draws.below(fleet.workloads.len() as u64) as usize];
    Ok(Some(match draws.below(9) {
        0 => {
            runner.taint(&[&member], "NoExecute").await?;
            "tainted NoExecute"
        }
        1 => {
            let taints = json!([{"key": HAND_KEY, "effect": "NoSchedule"}]);
            user.merge(&draw::cluster(number), &json!({"spec": {"taints": taints}})).await?;
            "tainted NoSchedule"
        }
        2 => {
            runner.fault(&member, Faults { down: true, ..Faults::default() })?;
            lost.insert(member);
            "lost"
        }
        3 | 4 => {
            let mut deployment = workload.deployment.clone();
            deployment["spec"]["replicas"] = json!(1 + draws.below(6));
            user.apply(&deployment, false).await?;
            "scaled"
        }
        5 => {
            let Some(policy) = &workload.policy else { return Ok(None) };
            if user.get(policy).await?.is_some() {
                user.delete(policy).await?;
            }
            "policy deleted"
        }
        6 => {
            let Some(mut policy) = workload.policy.clone() else { return Ok(None) };
            policy["spec"]["placement"] = draw::placement(draws, fleet.members);
            user.apply(&policy, false).await?;
            "placement edited"
        }
        7 => {
            let tier = draw::tier(draws);
            user.merge(&draw::cluster(number), &json!({"metadata": {"labels": {"tier": tier}}})).await?;
            "cluster labelled"
        }
        _ => {
            let binding = json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
                "metadata": {"name": format!("{}-deployment", workload.name), "namespace": "default"}});
            if user.get(&binding).await?.is_none() {
                return Ok(None);
            }
            user.merge(&binding, &json!({"spec": {"suspension": {"scheduling": true}}})).await?;
            "scheduling suspended"
        }
    }))
}
