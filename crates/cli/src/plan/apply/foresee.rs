//! What applied objects would lead to: the decisions of the policies, the detector, the scheduler, the dependencies and the
//! overrides, run over the fleet with these objects in it. Nothing here decides anything itself.
//!
//! Of each template one turn of the scheduler is taken; that several of them compete for the same room is not followed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    policy::{ClusterOverridePolicy, OverridePolicy},
};
use ironclad_fleet::{
    Because, ClusterName, ObjectKey, PolicyKey, World, because::propagation::Reason as Road, targets::targets as places,
};
use ironclad_interpreter::{Dependency, Interpreter};
use ironclad_patch::merge::merge_patch;
use ironclad_propagation::{
    detector::{self, binding, claim::Claim},
    new_ids::NewIds,
    overrides,
    policy::{self, Claimed, Held},
    policy_match::Policy,
    skipped_resources::Skipped,
    template::Identity,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::why::placement::{self, Binding, Scheduling};

/// Turns of the detector that lead from a template to its binding at most: claim, id, binding.
const STEPS_MAX: usize = 6;

/// A fleet, as far as these decisions read it.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// Clusters, policies, bindings and templates.
    pub world: World,
    /// All OverridePolicies.
    pub overrides: Vec<Arc<OverridePolicy>>,
    /// All ClusterOverridePolicies.
    pub cluster_overrides: Vec<Arc<ClusterOverridePolicy>>,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The fleet as it is.
    pub before: &'a Fleet,
    /// The fleet with the applied objects in it.
    pub after: &'a Fleet,
    /// The policies that are applied.
    pub policies: &'a BTreeSet<PolicyKey>,
    /// The templates that are applied.
    pub templates: &'a BTreeSet<ObjectKey>,
    /// Gate `PropagationPolicyPreemption`.
    pub preemption: bool,
    /// Answers about kinds.
    pub interpreter: &'a Interpreter,
    /// The wall clock.
    pub now: Timestamp,
}

/// What becomes of the templates.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Foreseen {
    /// Those that are applied, and those that change by it.
    pub templates: Vec<Fate>,
    /// How many others were looked at and stay as they are.
    pub unchanged: usize,
    /// What templates refer to that follow their workloads: a fleet that lacks one of them says less than is true.
    #[serde(skip)]
    pub needs: Vec<Dependency>,
}

/// What becomes of one template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fate {
    /// Which one.
    pub template: ObjectKey,
    /// Who has it, would have it, or loses it, and why.
    pub because: Vec<Because>,
    /// Its binding, as `namespace/name`.
    pub binding: Option<String>,
    /// Whether the binding is there already.
    pub made: bool,
    /// Replicas that are wanted.
    pub replicas: i32,
    /// Its copy in each cluster that has one or would.
    pub copies: BTreeMap<ClusterName, Copy>,
    /// The scheduler's turn, with a reason for each cluster.
    pub scheduling: Option<Scheduling>,
}

/// A template's copy in one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copy {
    /// Its replicas now; absent if there is none.
    pub before: Option<i32>,
    /// Its replicas then.
    pub after: Option<i32>,
    /// Whether it says something else than now, its replicas apart.
    pub differs: bool,
    /// The override policies that apply to it then.
    pub overrides: Vec<String>,
    /// Why it can't be made.
    pub error: Option<String>,
}

impl Copy {
    /// In a word.
    #[must_use]
    pub fn change(&self) -> &'static str {
        match (self.before, self.after, self.differs) {
            _ if self.error.is_some() => "fails",
            (None, _, _) => "new",
            (_, None, _) => "goes",
            (Some(before), Some(after), false) if before == after => "stays",
            (Some(before), Some(after), true) if before == after => "changes",
            (_, _, false) => "scales",
            (_, _, true) => "scales and changes",
        }
    }
}

impl Foreseen {
    /// Whether no copy would be made, changed or taken away.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.templates.iter().all(|fate| fate.copies.values().all(|copy| copy.change() == "stays"))
    }
}

/// Follows the applied objects to the copies in the clusters.
#[must_use]
pub fn foresee(question: &Question<'_>) -> Foreseen {
    let (because, turns) = (BTreeMap::new(), BTreeMap::new());
    let mut road = Way { question, fleet: question.after.clone(), because, turns, needs: Vec::new(), ids: 0 };
    for key in question.policies {
        road.policy(key);
    }
    let templates: Vec<ObjectKey> = road.fleet.world.templates.keys().cloned().collect();
    for key in &templates {
        road.template(key);
        road.follow(key);
    }
    let mut found = Foreseen::default();
    let followers = road.followers();
    let all: BTreeSet<ObjectKey> = road.turns.keys().chain(followers.keys()).cloned().collect();
    for key in &all {
        let mut fate = road.fate(key);
        fate.because.extend(followers.get(key).into_iter().flatten().cloned());
        let moves = fate.copies.values().any(|copy| copy.change() != "stays");
        // One that gets a binding is news, even if there is no place for it.
        let is_bound = fate.binding.is_some() && !fate.made;
        if moves || is_bound || question.templates.contains(key) || road.because.contains_key(key) {
            found.templates.push(fate);
        } else {
            found.unchanged += 1;
        }
    }
    Dependency::sort(&mut road.needs);
    found.needs = road.needs;
    found
}

/// What the turns on one template said.
#[derive(Default)]
struct Turn {
    because: Vec<Because>,
    scheduling: Option<Scheduling>,
}

/// The fleet on its way to what it will be.
pub(super) struct Way<'a> {
    pub(super) question: &'a Question<'a>,
    pub(super) fleet: Fleet,
    /// What a policy did to templates of others.
    because: BTreeMap<ObjectKey, Vec<Because>>,
    /// Of the templates that are looked at.
    turns: BTreeMap<ObjectKey, Turn>,
    /// What follows workloads.
    pub(super) needs: Vec<Dependency>,
    pub(super) ids: u32,
}

impl Way<'_> {
    /// The turn of an applied policy: what it lets go, and what it takes from others.
    fn policy(&mut self, key: &PolicyKey) {
        let fleet = self.fleet.clone();
        let world = &fleet.world;
        let namespaced = world.policies.get(key).map(|policy| Policy::Namespaced(policy));
        let Some(policy) = namespaced.or_else(|| world.cluster_policies.get(key).map(|policy| Policy::Cluster(policy)))
        else {
            return;
        };
        let is_its = |claim: Option<Claim>| claim.is_some_and(|claim| claim.policy() == *key);
        let template_of = |binding: binding::Binding<'_>| {
            let resource = &binding.spec().resource;
            world.templates.iter().find(|(key, _)| is_of(resource, key)).map(|(_, template)| &**template)
        };
        let claimed: Vec<Claimed<'_>> = bindings(world)
            .filter(|binding| is_its(Claim::of_metadata(binding.metadata())))
            .map(|binding| Claimed { binding, template: template_of(binding) })
            .collect();
        let templates: Vec<policy::Template<'_>> = world
            .templates
            .values()
            .filter(|template| is_its(Claim::of_template(template)))
            .map(|template| policy::Template { template, binding: None })
            .collect();
        let held: Vec<Held<'_>> = world
            .templates
            .values()
            .filter_map(|template| {
                let holder = Claim::of_template(template)?.policy();
                let namespaced = world.policies.get(&holder).map(|policy| Policy::Namespaced(policy));
                let holder =
                    namespaced.or_else(|| world.cluster_policies.get(&holder).map(|policy| Policy::Cluster(policy)));
                Some(Held { template, holder })
            })
            .collect();
        let names = names_of(&fleet, policy);
        let seen = policy::Seen {
            policy,
            claimed: &claimed,
            templates: &templates,
            waiting: &[],
            overrides: &names,
            preemption: self.question.preemption.then_some(held.as_slice()),
            now: self.question.now,
        };
        let ids = &mut self.ids;
        let plan = policy::decide(&seen, given(ids));
        let mut reasons = plan.because.into_iter().filter(|because| *because != Because::UpToDate);
        for effect in plan.effects {
            match effect {
                policy::Effect::PatchPolicy { patch } => self.patch_policy(key, &patch),
                policy::Effect::PatchTemplate { key, patch } => {
                    if let Some(template) = self.fleet.world.templates.get_mut(&key) {
                        merge_patch(Arc::make_mut(template), &patch);
                    }
                    self.because.entry(key).or_default().extend(reasons.next());
                }
                policy::Effect::PatchBinding { key, patch } => self.patch_binding(&key, &patch),
                _ => {}
            }
        }
    }

    /// The turns of the detector and of the scheduler on one template.
    fn template(&mut self, key: &ObjectKey) {
        let skipped = Skipped::default();
        if skipped.skips_kind(&key.gvk) || skipped.skips_object(&key.gvk, &key.namespace, &key.name) {
            return;
        }
        let mut because = self.because.get(key).cloned().unwrap_or_default();
        for _ in 0..STEPS_MAX {
            if !self.detect(key, &mut because) {
                break;
            }
        }
        if because.is_empty() {
            let claim = self.fleet.world.templates.get(key).and_then(|template| Claim::of_template(template));
            because.extend(claim.map(|claim| Because::from(Road::StaysClaimed { policy: claim.policy() })));
        }
        let mut turn = Turn { because, scheduling: None };
        // One without a placement is where its referrers are: nobody schedules it.
        let placed = |binding: &Binding| binding.view().spec().placement.is_some();
        if let Some(binding) = placement::standing(&self.fleet.world, key).filter(placed) {
            let (scheduling, clusters) = placement::scheduled(&binding, &self.fleet.world, self.question.now);
            turn.scheduling = Some(scheduling);
            let (world, key) = (&mut self.fleet.world, binding.view().key());
            if let Some(binding) = world.bindings.get_mut(&key) {
                Arc::make_mut(binding).spec.clusters = clusters;
            } else if let Some(binding) = world.cluster_bindings.get_mut(&key) {
                Arc::make_mut(binding).spec.clusters = clusters;
            }
        }
        self.turns.insert(key.clone(), turn);
    }

    /// What became of an object, once all turns are taken.
    fn fate(&mut self, key: &ObjectKey) -> Fate {
        let turn = self.turns.remove(key).unwrap_or_default();
        let before = placement::standing(&self.question.before.world, key);
        let after = placement::standing(&self.fleet.world, key);
        let binding = after.as_ref().or(before.as_ref());
        let mut fate = Fate {
            template: key.clone(),
            because: turn.because,
            binding: after.as_ref().map(|binding| binding.view().key().to_string()),
            made: before.is_some(),
            replicas: binding.map_or(0, |binding| binding.view().spec().replicas),
            copies: BTreeMap::new(),
            scheduling: turn.scheduling,
        };
        let [stands, then] = [&before, &after].map(|binding| binding.as_ref().map(targets).unwrap_or_default());
        let all: BTreeSet<&ClusterName> = stands.keys().chain(then.keys()).collect();
        for name in all {
            let copy = Copy { before: stands.get(name).copied(), after: then.get(name).copied(), ..Copy::default() };
            fate.copies.insert(name.clone(), self.overridden(key, name, copy));
        }
        fate
    }

    /// One turn of the detector; whether it changed something.
    fn detect(&mut self, key: &ObjectKey, because: &mut Vec<Because>) -> bool {
        let fleet = self.fleet.clone();
        let world = &fleet.world;
        let Some(template) = world.templates.get(key) else { return false };
        let standing = placement::standing(world, key);
        let policies: Vec<Policy<'_>> = world
            .policies
            .values()
            .map(|policy| Policy::Namespaced(policy))
            .chain(world.cluster_policies.values().map(|policy| Policy::Cluster(policy)))
            .collect();
        let names: BTreeSet<String> = fleet
            .overrides
            .iter()
            .filter(|policy| policy.metadata.namespace.as_deref() == Some(&*key.namespace))
            .filter_map(|policy| policy.metadata.name.clone())
            .collect();
        let cluster_names = fleet.cluster_overrides.iter().filter_map(|policy| policy.metadata.name.clone()).collect();
        let ids = &mut self.ids;
        let plan = detector::decide(
            &detector::Seen {
                template,
                policies: &policies,
                binding: standing.as_ref().map(Binding::view),
                named: None,
                waiting: None,
                overrides: &names,
                cluster_overrides: &cluster_names,
                priority_classes: None,
                interpreter: self.question.interpreter,
                options: &binding::Options::default(),
                now: self.question.now,
            },
            given(ids),
        );
        for reason in plan.because {
            let is_news = !matches!(reason, Because::UpToDate | Because::Propagation(Road::StaysClaimed { .. }));
            if is_news && !because.contains(&reason) {
                because.push(reason);
            }
        }
        let mut changed = false;
        for effect in plan.effects {
            match effect {
                detector::Effect::PatchTemplate { patch } => {
                    if let Some(template) = self.fleet.world.templates.get_mut(key) {
                        merge_patch(Arc::make_mut(template), &patch);
                        changed = true;
                    }
                }
                detector::Effect::PatchPolicy { policy, patch } => self.patch_policy(&policy, &patch),
                detector::Effect::PatchBinding { key, patch } => {
                    self.patch_binding(&key, &patch);
                    changed = true;
                }
                detector::Effect::CreateBinding(binding) => self.fleet.world.insert_binding(*binding),
                detector::Effect::CreateClusterBinding(binding) => self.fleet.world.insert_cluster_binding(*binding),
                _ => {}
            }
        }
        changed
    }

    fn patch_policy(&mut self, key: &PolicyKey, patch: &Value) {
        let world = &mut self.fleet.world;
        placement::patched(world.policies.get_mut(key), patch);
        placement::patched(world.cluster_policies.get_mut(key), patch);
    }

    /// As the server takes it: a change of the spec is another generation, for which the scheduler looks.
    pub(super) fn patch_binding(&mut self, key: &ironclad_fleet::BindingKey, patch: &Value) {
        let world = &mut self.fleet.world;
        let generation = |generation: Option<i64>| json!({"metadata": {"generation": generation.unwrap_or(0) + 1}});
        let is_spec = patch.get("spec").is_some();
        if let Some(binding) = world.bindings.get_mut(key) {
            let next = generation(binding.metadata.generation);
            placement::patched(Some(&mut *binding), patch);
            placement::patched(Some(binding).filter(|_| is_spec), &next);
        }
        if let Some(binding) = world.cluster_bindings.get_mut(key) {
            let next = generation(binding.metadata.generation);
            placement::patched(Some(&mut *binding), patch);
            placement::patched(Some(binding).filter(|_| is_spec), &next);
        }
    }

    /// What overrides make of the copy, then and now.
    fn overridden(&self, key: &ObjectKey, cluster: &ClusterName, mut copy: Copy) -> Copy {
        let Some(cluster) = self.fleet.world.clusters.get(cluster) else { return copy };
        let made = |fleet: &Fleet, cluster: &Cluster| {
            let template = fleet.world.templates.get(key)?;
            let overridden =
                overrides::apply((**template).clone(), cluster, &fleet.cluster_overrides, &fleet.overrides);
            Some(overridden.map_err(|error| error.to_string()))
        };
        let (before, after) = (made(self.question.before, cluster), made(&self.fleet, cluster));
        if let (Some(Ok(before)), Some(Ok(after))) = (&before, &after) {
            copy.differs = content(&before.manifest) != content(&after.manifest);
        }
        if copy.after.is_some() {
            match after {
                Some(Ok(after)) => {
                    let records = [("ClusterOverridePolicy", after.applied_cluster), ("OverridePolicy", after.applied)];
                    copy.overrides = records
                        .into_iter()
                        .filter_map(|(kind, record)| Some((kind, record?)))
                        .flat_map(|(kind, record)| recorded(kind, &record))
                        .collect();
                }
                Some(Err(error)) => copy.error = Some(error),
                None => {}
            }
        }
        copy
    }
}

pub(super) fn given(decisions: &mut u32) -> NewIds {
    *decisions += 1;
    NewIds::from(format!("given-when-applied-{decisions}-0000"))
}

fn bindings(world: &World) -> impl Iterator<Item = binding::Binding<'_>> {
    let namespaced = world.bindings.values().map(|binding| binding::Binding::Namespaced(binding));
    namespaced.chain(world.cluster_bindings.values().map(|binding| binding::Binding::Cluster(binding)))
}

fn is_of(resource: &ironclad_api::work::ObjectReference, key: &ObjectKey) -> bool {
    let group = resource.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    (group, &*resource.kind) == (&*key.gvk.group, &*key.gvk.kind)
        && (&*resource.namespace, &*resource.name) == (&*key.namespace, &*key.name)
}

/// The override policies that exist where this policy looks for them.
fn names_of(fleet: &Fleet, policy: Policy<'_>) -> BTreeSet<String> {
    match policy {
        Policy::Namespaced(policy) => fleet
            .overrides
            .iter()
            .filter(|one| one.metadata.namespace == policy.metadata.namespace)
            .filter_map(|one| one.metadata.name.clone())
            .collect(),
        Policy::Cluster(_) => {
            fleet.cluster_overrides.iter().filter_map(|policy| policy.metadata.name.clone()).collect()
        }
    }
}

/// Where the binding's copies are, those among them that only its referrers need: whose replicas are theirs, not the copy's.
fn targets(binding: &Binding) -> BTreeMap<ClusterName, i32> {
    let spec = binding.view().spec();
    let of_scheduler = spec.clusters.len();
    let all = places(spec).into_iter().enumerate();
    all.map(|(at, target)| (target.cluster, if at < of_scheduler { target.replicas } else { 0 })).collect()
}

/// What a user would call the content of a copy: neither status nor replicas, and of metadata labels and annotations that are not
/// the road's own.
fn content(manifest: &Value) -> Value {
    let mut content = manifest.clone();
    let of_users = |name: &str| {
        Value::Object(
            manifest
                .pointer(&format!("/metadata/{name}"))
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .filter(|(key, _)| !key.contains("karmada.io/") && *key != LAST_APPLIED)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    };
    let identity = Identity::of(manifest);
    content["metadata"] = json!({
        "name": identity.name, "namespace": identity.namespace,
        "labels": of_users("labels"), "annotations": of_users("annotations"),
    });
    if let Some(map) = content.as_object_mut() {
        map.remove("status");
    }
    if let Some(spec) = content.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("replicas");
    }
    content
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The names in the record of applied override policies.
fn recorded(kind: &str, record: &str) -> Vec<String> {
    let record: Value = serde_json::from_str(record).unwrap_or_default();
    let all = record.as_array().into_iter().flatten();
    all.filter_map(|one| one["policyName"].as_str().map(|name| format!("{kind} {name}"))).collect()
}
