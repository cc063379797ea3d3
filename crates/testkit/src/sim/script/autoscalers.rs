//! Autoscalers of both designs among faults: a FederatedHPA, and a HorizontalPodAutoscaler that members run
//! (specification/autoscaling.md 2, 6). A seed determines the fleet, the loads, and the faults.
//!
//! The load of each workload is a number of millicores for the whole fleet, which its ready pods share, as behind a
//! load balancer.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::RangeInclusive,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use ironclad_api::{
    annotations::DESCHEDULED, autoscaling::FederatedHPA, policy::PropagationPolicy, work::ResourceBinding,
};
use ironclad_controllers::ControllerList;
use ironclad_fleet::BindingKey;
use ironclad_runtime::Api;
use ironclad_seam::{Rng, Stream};
use ironclad_simcluster::{Faults, UsageRule};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};
use kube::{
    Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::{Action, draw};
use crate::sim::{Cut, Setup, World, WorldOptions, world::FIRST_AGENT};

/// Cpu that each pod uses at the target, in millicores: half of its request.
const AT_TARGET: i64 = 50;
/// Interval at which the load is distributed anew.
const TICK: Duration = Duration::from_secs(5);
/// Percent of the request that pods use at the target.
const TARGET_PERCENT: i64 = 50;
/// Percent within which nothing is scaled: a tenth below and above the target.
const TOLERATED: RangeInclusive<i64> = 45..=55;
/// Time without faults and with constant load after which replicas fit the load: five minutes of stabilization before
/// fewer are wanted, and back-off of what failed during the faults.
const FITS_WITHIN: Duration = Duration::from_secs(1_500);
/// Time for which they have to fit, and not change, to count as settled: the window of scaling down, in which an
/// earlier recommendation counts, a round of the autoscalers, and the distribution of the load.
const LASTS: Duration = Duration::from_secs(300 + 15 + 5);
/// Times that replicas may change direction after the last fault: up while a share is elsewhere or pods are missing,
/// down after the window, and up and down again by loans of what a recommendation within the window wants. Replicas
/// that oscillate from window to window do it more often until they have to fit.
const TURNS_MAX: usize = 5;
/// Time for which they must not change then.
const CONSTANT: Duration = Duration::from_secs(600);
/// Kinds of faults ([`draw::action`]): members, writes, watches, processes.
const FAULTS: [usize; 9] = [0, 1, 3, 4, 5, 7, 8, 9, 10];
/// Beginnings of the lines of history that an error shows besides the last ones.
const PRINTED: [&str; 3] = ["ACTION ", "HEAL", "REPLICAS "];
/// Last lines of history in an error.
const HISTORY_SHOWN: usize = 40;

/// The two designs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Design {
    /// A FederatedHPA scales the template.
    Central,
    /// Each member scales its own copy.
    Distributed,
}

#[derive(Debug, Clone)]
struct Workload {
    design: Design,
    name: &'static str,
    min: i32,
    max: i32,
    /// Replicas of the template at the start.
    replicas: i32,
    /// Load in millicores, changed by steps.
    load: i64,
}

#[derive(Debug)]
enum Step {
    Fault(Action),
    /// The load of a workload becomes this.
    Load(usize, i64),
    /// The nodes of a member are drained: its pods find no node.
    Drain(String),
    /// They accept pods again.
    Uncordon(String),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(action) => write!(f, "{action}"),
            Self::Load(workload, load) => write!(f, "the load of workload {workload} becomes {load}m"),
            Self::Drain(member) => write!(f, "the nodes of {member} are drained"),
            Self::Uncordon(member) => write!(f, "the nodes of {member} accept pods again"),
        }
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Changes of replicas in members.
    pub changes: usize,
    /// Most times that the replicas of a workload changed direction after the last fault.
    pub turns: usize,
    /// Times that the descheduler took replicas back.
    pub descheduled: usize,
    /// The script, and what happened.
    pub story: String,
}

/// The members of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modes {
    /// The control plane reaches them all.
    Push,
    /// Some, at least one, are in pull mode. Their agents hold tunnels open, and have faults of their own.
    Mixed,
}

/// Checks autoscalers in the fleet of a seed.
///
/// # Errors
/// If an invariant is broken; the error has the script and the end of the history.
pub fn check(seed: u64, modes: Modes) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let draws = Rng::from_seed(seed).child("autoscalers").stream("draws");
        let members = 2 + draws.below(3) as usize;
        let workloads = [Design::Central, Design::Distributed].map(|design| workload(&draws, design, members));
        let mut steps = steps(&draws, &workloads, members);
        // A stream of its own: a seed without the descheduler is as it was before there was one.
        let drained = drained(&Rng::from_seed(seed).child("autoscalers").stream("descheduler"), &mut steps, members);
        let mut setup = Setup { nodes: 2, ..WorldOptions { seed, members }.into() };
        if modes == Modes::Mixed {
            let draws = Rng::from_seed(seed).child("autoscalers").stream("pull");
            (setup.pull, setup.tunnels) = (1 + draws.below(members as u64) as usize, true);
            of_agents(&draws, setup.pull, &mut steps);
        }
        if drained {
            setup.settings.controllers = ControllerList::parse("*,descheduler").context("both are names")?;
        }
        let distributed = workloads.iter().filter(|workload| workload.design == Design::Distributed);
        setup.rules.scaled_in_members = distributed.map(|workload| binding_of(workload.name)).collect();
        let story = script(seed, (members, setup.pull), drained, &workloads, &steps);
        let world = World::start(setup).await?;
        let mut scene = Scene {
            drained,
            descheduled: BTreeSet::new(),
            plane: world.user(),
            changed: world.clock().mono(),
            world,
            workloads,
            changes: 0,
            last: BTreeMap::new(),
            printed: BTreeMap::new(),
            directions: None,
        };
        let played = scene.play(&steps).await;
        let lines = scene.world.history.lines();
        let printed = |line: &&String| PRINTED.iter().any(|start| line.contains(&format!("Z {start}")));
        let printed: String = lines.iter().filter(printed).map(|line| format!("{line}\n")).collect();
        let story = format!("{story}what happened\n{printed}");
        match played {
            Ok(()) => Ok(Outcome {
                changes: scene.changes,
                turns: scene.turns(),
                descheduled: scene.descheduled.len(),
                story,
            }),
            Err(error) => {
                let tail = lines[lines.len().saturating_sub(HISTORY_SHOWN)..].join("\n");
                Err(error.context(format!("{story}the history ends with\n{tail}\n")))
            }
        }
    })
}

fn workload(draws: &Stream, design: Design, members: usize) -> Workload {
    let name = match design {
        Design::Central => "central",
        Design::Distributed => "distributed",
    };
    // Each member has at least one replica of what members scale.
    let min = members as i32 + draws.below(3) as i32;
    let max = min + 4 + draws.below(12) as i32;
    let replicas = min + draws.below(3) as i32;
    Workload { design, name, min, max, replicas, load: i64::from(replicas) * AT_TARGET }
}

/// Draws loads, which may ask for less than the minimum and more than the maximum, and faults between them.
fn steps(draws: &Stream, workloads: &[Workload], members: usize) -> Vec<(Duration, Step)> {
    let mut steps = Vec::new();
    for _ in 0..3 + draws.below(6) {
        let after = Duration::from_secs(draws.below(120));
        let step = if draws.chance(0.4) {
            let number = draws.below(workloads.len() as u64) as usize;
            let wanted = 1 + draws.below(workloads[number].max as u64 + 3) as i64;
            Step::Load(number, wanted * AT_TARGET)
        } else {
            let kind = FAULTS[draws.below(FAULTS.len() as u64) as usize];
            Step::Fault(draw::action(draws, kind, members, 1, false))
        };
        steps.push((after, step));
    }
    steps
}

/// Adds faults of agents.
fn of_agents(draws: &Stream, agents: usize, steps: &mut Vec<(Duration, Step)>) {
    for _ in 0..1 + draws.below(3) {
        let agent = FIRST_AGENT + draws.below(agents as u64) as usize;
        let time = Duration::from_millis(500 + draws.below(90_000));
        let action = match draws.below(4) {
            0 | 1 => Action::Crash(agent, time),
            2 => Action::CutWatches(agent, Cut::Reset),
            _ => Action::Freeze(agent, time.min(Duration::from_secs(20))),
        };
        let place = draws.below(steps.len() as u64 + 1) as usize;
        steps.insert(place, (Duration::from_secs(draws.below(60)), Step::Fault(action)));
    }
}

/// In half of the fleets, replicas are divided by capacity, the descheduler runs, and the nodes of a member are drained
/// for longer than it waits. Returns true in those.
fn drained(draws: &Stream, steps: &mut Vec<(Duration, Step)>, members: usize) -> bool {
    if !draws.chance(0.5) {
        return false;
    }
    let member = format!("member{}", 1 + draws.below(members as u64));
    let at = draws.below(steps.len() as u64 + 1) as usize;
    let (after, lasts) = (Duration::from_secs(draws.below(60)), Duration::from_secs(480 + draws.below(480)));
    steps.insert(at, (lasts, Step::Uncordon(member.clone())));
    steps.insert(at, (after, Step::Drain(member)));
    true
}

fn binding_of(workload: &str) -> BindingKey {
    BindingKey { namespace: "default".into(), name: format!("{workload}-deployment").as_str().into() }
}

fn script(
    seed: u64,
    (members, pull): (usize, usize),
    drained: bool,
    workloads: &[Workload],
    steps: &[(Duration, Step)],
) -> String {
    let descheduler = if drained { ", with the descheduler" } else { "" };
    let mut text = format!("seed {seed}: {members} members, {pull} of them in pull mode{descheduler}\n");
    for Workload { name, min, max, replicas, .. } in workloads {
        text.push_str(&format!("  {name}: {replicas} replicas, {min} to {max}\n"));
    }
    for (after, step) in steps {
        text.push_str(&format!("  +{} s {step}\n", after.as_secs()));
    }
    text
}

struct Scene {
    world: World,
    plane: Client,
    workloads: [Workload; 2],
    /// The descheduler runs, and replicas are divided by capacity.
    drained: bool,
    /// Records of the descheduler in the binding of what the FederatedHPA scales.
    descheduled: BTreeSet<String>,
    changes: usize,
    /// Replicas of the copies of each workload, as last seen.
    last: BTreeMap<&'static str, BTreeMap<String, i32>>,
    /// Time of the last change of them.
    changed: tokio::time::Instant,
    /// Last line of the history about each workload.
    printed: BTreeMap<&'static str, String>,
    /// Directions of the changes of each workload since the last fault, repetitions left out.
    directions: Option<BTreeMap<&'static str, Vec<Ordering>>>,
}

impl Scene {
    async fn play(&mut self, steps: &[(Duration, Step)]) -> anyhow::Result<()> {
        self.world.start_controllers().await;
        for workload in self.workloads.clone() {
            self.create(&workload).await?;
        }
        self.fits(FITS_WITHIN).await.context("before anything went wrong")?;
        for (after, step) in steps {
            self.pass(*after).await?;
            match step {
                Step::Fault(action) => action.take(&mut self.world, &mut []).await.with_context(|| step.to_string())?,
                Step::Load(workload, load) => {
                    self.world.history.log(format!("ACTION {step}"));
                    self.workloads[*workload].load = *load;
                }
                Step::Drain(member) => self.drain(step, member).await?,
                Step::Uncordon(member) => {
                    self.world.history.log(format!("ACTION {step}"));
                    self.cordon(member, false).await?;
                }
            }
        }
        self.pass(Duration::from_secs(60)).await?;
        self.world.history.log("HEAL");
        self.world.members.values().for_each(|member| member.set_faults(Faults::default()));
        self.world.heal_processes();
        self.directions = Some(BTreeMap::new());
        self.fits(FITS_WITHIN).await.context("after the last fault")?;
        let before = self.last.clone();
        self.pass(CONSTANT).await?;
        ensure!(self.last == before, "under constant load replicas changed from {before:?} to {:?}", self.last);
        let turns = self.turns();
        ensure!(turns <= TURNS_MAX, "replicas went up and down {turns} times under constant load");
        for workload in &self.workloads {
            self.unfit(workload).await.with_context(|| format!("at rest, {}", workload.name))?;
        }
        Ok(())
    }

    /// Sets whether the nodes of a member accept pods.
    async fn cordon(&self, member: &str, unschedulable: bool) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.world.member(member)?.client());
        for node in nodes.list(&ListParams::default()).await?.items {
            let patch = json!({"spec": {"unschedulable": unschedulable}});
            nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    /// Drains the nodes of a member: its pods are made anew, and find no node.
    async fn drain(&self, step: &Step, member: &str) -> anyhow::Result<()> {
        self.world.history.log(format!("ACTION {step}"));
        self.cordon(member, true).await?;
        let pods: Api<Pod> = Api::namespaced(self.world.member(member)?.client(), "default");
        for pod in pods.list(&ListParams::default()).await?.items {
            match pods.delete(&pod.name_any(), &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Most times that the replicas of a workload changed direction since the last fault.
    fn turns(&self) -> usize {
        let all = self.directions.iter().flat_map(BTreeMap::values);
        all.map(|directions| directions.len().saturating_sub(1)).max().unwrap_or(0)
    }

    async fn create(&self, workload: &Workload) -> anyhow::Result<()> {
        let post = PostParams::default();
        let Workload { design, name, min, max, replicas, .. } = workload;
        let labels = json!({"app": name});
        let deployment: Deployment = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
                    "name": "app", "image": "app:1",
                    "resources": {"requests": {"cpu": format!("{}m", 2 * AT_TARGET)}},
                }]}},
            },
        }))?;
        let mut scheduling = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
        if self.drained {
            scheduling["weightPreference"] = json!({"dynamicWeight": "AvailableReplicas"});
        }
        let policy: PropagationPolicy = serde_json::from_value(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
                "placement": {"clusterAffinity": {}, "replicaScheduling": scheduling},
            },
        }))?;
        let spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": min, "maxReplicas": max,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": TARGET_PERCENT}}}],
        });
        Api::namespaced(self.plane.clone(), "default").create(&post, &deployment).await?;
        Api::namespaced(self.plane.clone(), "default").create(&post, &policy).await?;
        match design {
            Design::Central => {
                let autoscaler: FederatedHPA = serde_json::from_value(json!({
                    "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA",
                    "metadata": {"name": name, "namespace": "default"}, "spec": spec,
                }))?;
                Api::namespaced(self.plane.clone(), "default").create(&post, &autoscaler).await?;
            }
            Design::Distributed => {
                let autoscaler: HorizontalPodAutoscaler = serde_json::from_value(json!({
                    "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
                    "metadata": {"name": name, "namespace": "default",
                        "labels": {"federatedhpa.karmada.io/enabled": "true"}},
                    "spec": spec,
                }))?;
                Api::namespaced(self.plane.clone(), "default").create(&post, &autoscaler).await?;
            }
        }
        Ok(())
    }

    /// The copies of a workload by member.
    async fn copies(&self, workload: &Workload) -> anyhow::Result<BTreeMap<String, Deployment>> {
        let mut copies = BTreeMap::new();
        for (name, member) in self.world.members.iter() {
            let api = Api::<Deployment>::namespaced(member.client(), "default");
            if let Some(copy) = api.get_opt(workload.name).await? {
                copies.insert(name.clone(), copy);
            }
        }
        Ok(copies)
    }

    /// Divides the loads among the pods that are ready.
    async fn share_loads(&self) -> anyhow::Result<()> {
        let mut rules = Vec::new();
        for workload in &self.workloads {
            let pods: i64 = self.copies(workload).await?.values().map(|copy| i64::from(ready(copy))).sum();
            let labels = BTreeMap::from([("app".to_owned(), workload.name.to_owned())]);
            rules.push(UsageRule {
                namespace: "default".to_owned(),
                selector: Some(LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }),
                cpu: Some(Quantity(format!("{}m", workload.load / pods.max(1)))),
                memory: None,
            });
        }
        self.world.members.values().for_each(|member| member.set_usage(rules.clone()));
        Ok(())
    }

    /// Lets time pass under the present loads, and checks what holds at any time.
    async fn pass(&mut self, time: Duration) -> anyhow::Result<()> {
        let mut left = time;
        while !left.is_zero() {
            self.share_loads().await?;
            let step = TICK.min(left);
            self.world.pass(step).await?;
            left -= step;
            self.bounded().await?;
        }
        Ok(())
    }

    /// Checks that nothing is beyond its bounds: the template, or each copy of what members scale.
    async fn bounded(&mut self) -> anyhow::Result<()> {
        for workload in self.workloads.clone() {
            let Workload { design, name, min, max, .. } = workload;
            let copies = self.copies(&workload).await?;
            let seen: BTreeMap<String, i32> =
                copies.iter().map(|(member, copy)| (member.clone(), wanted(copy))).collect();
            let mut bounds = BTreeMap::new();
            if design == Design::Distributed {
                for member in copies.keys() {
                    bounds.extend(self.bounds(name, member).await?.map(|bounds| (member.clone(), bounds)));
                }
            }
            let line = format!("REPLICAS {name} {seen:?} within {bounds:?}");
            if self.printed.get(name) != Some(&line) {
                self.world.history.log(&line);
                self.printed.insert(name, line);
            }
            if self.last.get(name) != Some(&seen) {
                self.changed = self.world.clock().mono();
                let total = seen.values().sum::<i32>();
                let before = self.last.insert(name, seen).map(|before| before.values().sum::<i32>());
                self.changes += usize::from(before.is_some());
                if let (Some(directions), Some(before)) = (&mut self.directions, before) {
                    let (direction, all) = (total.cmp(&before), directions.entry(name).or_default());
                    if direction.is_ne() && all.last() != Some(&direction) {
                        all.push(direction);
                    }
                }
            }
            match design {
                Design::Central => {
                    let key = binding_of(name);
                    let record = self.world.model.look(|fleet| {
                        let annotations = fleet.bindings.get(&key)?.metadata.annotations.as_ref()?;
                        annotations.get(DESCHEDULED).cloned()
                    });
                    self.descheduled.extend(record);
                    let template = self.template(name).await?;
                    let replicas = wanted(&template);
                    ensure!((min..=max).contains(&replicas), "{name} has {replicas} replicas, and not {min} to {max}");
                }
                Design::Distributed => {
                    for (member, copy) in &copies {
                        let replicas = wanted(copy);
                        ensure!((1..=max).contains(&replicas), "{name} has {replicas} replicas in {member}");
                    }
                }
            }
        }
        Ok(())
    }

    /// Bounds of the HorizontalPodAutoscaler in a member.
    async fn bounds(&self, name: &str, member: &str) -> anyhow::Result<Option<RangeInclusive<i32>>> {
        let api = Api::<HorizontalPodAutoscaler>::namespaced(self.world.member(member)?.client(), "default");
        let found = api.get_opt(name).await?;
        Ok(found.map(|hpa| hpa.spec.min_replicas.unwrap_or(1)..=hpa.spec.max_replicas))
    }

    async fn template(&self, name: &str) -> anyhow::Result<Deployment> {
        Ok(Api::<Deployment>::namespaced(self.plane.clone(), "default").get(name).await?)
    }

    /// Waits until the replicas of all workloads fit their loads, and are where they are wanted: no autoscaler wants
    /// another number than it has. At the first such moment autoscalers may still act on what they measured before, so
    /// that it has to last.
    async fn fits(&mut self, within: Duration) -> anyhow::Result<()> {
        let (began, mut fits_since) = (self.world.clock().mono(), None);
        loop {
            let mut unfit = Vec::new();
            for workload in self.workloads.clone() {
                unfit.extend(self.unfit(&workload).await.err().map(|error| format!("{}: {error}", workload.name)));
            }
            let now = self.world.clock().mono();
            fits_since = if unfit.is_empty() { Some(fits_since.unwrap_or(now).max(self.changed)) } else { None };
            if fits_since.is_some_and(|since| now - since >= LASTS) {
                return Ok(());
            }
            let why = if unfit.is_empty() { "replicas changed lately".to_owned() } else { unfit.join("; ") };
            ensure!(now - began < within, "not within {within:?}: {why}");
            self.pass(TICK).await?;
        }
    }

    async fn unfit(&self, workload: &Workload) -> anyhow::Result<()> {
        let Workload { design, name, min, max, load, .. } = workload;
        let copies = self.copies(workload).await?;
        let total: i32 = copies.values().map(wanted).sum();
        ensure!(copies.values().all(|copy| ready(copy) == wanted(copy)), "not all replicas are ready");
        ensure!((*min..=*max).contains(&total), "{total} replicas in the fleet, and not {min} to {max}");
        // As the simulated metrics API has it: all pods of the workload use the same, in whole millicores.
        let usage = load / i64::from(total.max(1));
        match design {
            Design::Central => {
                let next = next(total, usage, *min..=*max);
                ensure!(total == next, "{total} replicas for a load of {load}m, and not {next}");
            }
            Design::Distributed => {
                let mut sums = (0, 0);
                for (member, copy) in &copies {
                    let bounds = self.bounds(name, member).await?;
                    let bounds = bounds.with_context(|| format!("{member} has no autoscaler"))?;
                    sums = (sums.0 + bounds.start(), sums.1 + bounds.end());
                    let (replicas, next) = (wanted(copy), next(wanted(copy), usage, bounds));
                    ensure!(replicas == next, "{replicas} replicas in {member} for a load of {load}m, and not {next}");
                }
                ensure!(sums == (*min, *max), "the bounds in members add up to {sums:?}, and not to {min} and {max}");
            }
        }
        let template = self.template(name).await?;
        let reported = template.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
        ensure!(reported == total, "{reported} replicas are reported at the template, {total} are ready in members");
        if *design == Design::Central {
            let binding = Api::<ResourceBinding>::namespaced(self.plane.clone(), "default")
                .get(&format!("{name}-deployment"))
                .await?;
            let placed: i32 = binding.spec.clusters.iter().map(|target| target.replicas).sum();
            let template = wanted(&template);
            ensure!(placed == total && template == total, "{template} replicas, {placed} placed, {total} in members");
        }
        Ok(())
    }
}

/// Replicas that an autoscaler wants when its pods use this many millicores each, by the published formula
/// (specification/autoscaling.md 2.5); pods request 100 millicores, so that is percent, too.
fn next(replicas: i32, usage: i64, bounds: RangeInclusive<i32>) -> i32 {
    let wanted = if TOLERATED.contains(&usage) {
        replicas
    } else {
        let exact = (i64::from(replicas) * usage + TARGET_PERCENT - 1).div_euclid(TARGET_PERCENT);
        i32::try_from(exact).unwrap_or(i32::MAX)
    };
    wanted.clamp(*bounds.start(), *bounds.end())
}

fn wanted(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)
}

fn ready(deployment: &Deployment) -> i32 {
    deployment.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
}
