//! Plan of applying objects: the decisions of policies, detector, scheduler, dependencies and overrides, taken over the
//! fleet with these objects in it.
//!
//! Objects are applied in the order of the file: a template is claimed by the policies that exist by then. Each
//! template gets one reconcile of the scheduler. Where another order or other delays lead to other copies, these are
//! alternatives.

mod alternatives;
mod objects;
#[cfg(test)]
mod tests;
mod three_way;

use std::collections::{BTreeMap, BTreeSet};

use ironclad_fleet::{
    Because, Binding, ClusterName, ObjectKey, PolicyKey, because::propagation::Reason,
    targets::targets as target_clusters,
};
use ironclad_interpreter::{Dependency, Interpreter};
use ironclad_propagation::{
    detector::claim::Claim, namespace, overrides, skipped_resources::Skipped, template::Identity,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub use self::{
    alternatives::{Alternative, Course},
    objects::{Change, InvalidFile, OBJECTS_MAX, Object, Planned, check},
    three_way::Apply,
};
use crate::{
    Fleet, Preemption, Scheduling,
    preemption::{self, PreemptionPlan},
    replay::Replay,
    why::is_namespace,
};

/// Input of a plan.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The fleet as it is.
    pub before: &'a Fleet,
    /// The objects as they are once applied, in order.
    pub applied: &'a [Value],
    /// The policies that are applied.
    pub policies: &'a BTreeSet<PolicyKey>,
    /// The templates that are applied.
    pub templates: &'a BTreeSet<ObjectKey>,
    /// Feature gate `PropagationPolicyPreemption`.
    pub preemption: Preemption,
    /// Answers about kinds.
    pub interpreter: &'a Interpreter,
    /// The wall clock.
    pub now: Timestamp,
}

/// Changes of the templates.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApplyPlan {
    /// Those that are applied, and those that change by it.
    pub templates: Vec<TemplateChange>,
    /// Number of other templates, which do not change.
    pub unchanged: usize,
    /// Changed objects whose effect on copies is not followed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_followed: Vec<String>,
    /// Objects that workloads refer to. A fleet that lacks one of them makes the plan incomplete.
    #[serde(skip)]
    pub needs: Vec<Dependency>,
    /// Clusters whose nodes decide on workloads, and that were not asked for them.
    #[serde(skip)]
    pub unasked: BTreeSet<ClusterName>,
    /// Clusters whose nodes could not be asked, each with the reason: what fits there is by their summaries.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes_unknown: BTreeMap<ClusterName, String>,
}

/// Change of one template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateChange {
    pub template: ObjectKey,
    /// Policies that claim or lose it, and why.
    pub because: Vec<Because>,
    /// Its binding, as `namespace/name`.
    pub binding: Option<String>,
    /// True if the binding exists already.
    pub made: bool,
    /// Replicas that are wanted.
    pub replicas: i32,
    /// Its copy in each cluster that has one or would.
    pub copies: BTreeMap<ClusterName, CopyChange>,
    /// The scheduler's decision, with a reason for each cluster.
    pub scheduling: Option<Scheduling>,
    /// Other outcomes, where the outcome depends on order or time that nobody knows before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
}

impl TemplateChange {
    /// True if a copy is created, changed or removed, or may be.
    #[must_use]
    pub fn moves(&self) -> bool {
        let copies = self.copies.values().chain(self.alternatives.iter().flat_map(|other| other.copies.values()));
        copies.into_iter().any(|copy| copy.change() != "stays")
    }
}

/// A template's copy in one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyChange {
    /// Its replicas now; absent if there is none.
    pub before: Option<i32>,
    /// Its replicas then.
    pub after: Option<i32>,
    /// True if its content changes, apart from its replicas.
    pub differs: bool,
    /// The override policies that apply to it then.
    pub overrides: Vec<String>,
    /// Error if it can't be made.
    pub error: Option<String>,
}

impl CopyChange {
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

impl ApplyPlan {
    /// True if no copy would be created, changed or removed, as far as all changes are followed.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.not_followed.is_empty() && !self.templates.iter().any(TemplateChange::moves)
    }
}

/// Follows the applied objects to the copies in the clusters.
#[must_use]
pub fn plan_apply(question: &Question<'_>) -> ApplyPlan {
    let detected = Detected::of(question, Seeing::OneByOne);
    let followed = detected.followed(question, &detected.order());
    let mut found = ApplyPlan { needs: followed.needs.clone(), ..ApplyPlan::default() };
    let changes;
    (changes, found.unasked) = alternatives::add(question, &detected, followed);
    for (key, change) in changes {
        // A template that gets a binding is reported even if no cluster fits.
        let is_bound = change.binding.is_some() && !change.made;
        let is_asked = question.templates.contains(&key) || detected.of_policies.contains_key(&key);
        if change.moves() || is_bound || is_asked {
            found.templates.push(change);
        } else {
            found.unchanged += 1;
        }
    }
    found
}

/// Most times that the scheduler takes the members of groups again, for each template.
const WOKEN_MAX: usize = 3;

/// How the controllers see the objects of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seeing {
    /// Each is acted on before the next one is there.
    OneByOne,
    /// The same, and the scheduler has followed the changed clusters before the rest is there.
    ClustersFirst,
    /// All are there before the first is acted on.
    AtOnce,
}

/// The fleet once the detector has taken all templates, before the first is scheduled. It takes them side by side, and
/// is faster than the scheduler, which takes one after the other.
struct Detected<'a> {
    replay: Replay<'a>,
    of_policies: BTreeMap<ObjectKey, Vec<Because>>,
    because: BTreeMap<ObjectKey, Vec<Because>>,
}

/// Results of the templates in one order of scheduling.
struct Followed<'a> {
    replay: Replay<'a>,
    changes: BTreeMap<ObjectKey, TemplateChange>,
    /// Templates that get another result, or none: their order may matter.
    competing: Vec<ObjectKey>,
    needs: Vec<Dependency>,
    unasked: BTreeSet<ClusterName>,
}

impl<'a> Detected<'a> {
    fn of(question: &Question<'a>, seeing: Seeing) -> Self {
        let (mut replay, of_policies) = claimed(question, seeing);
        let templates: Vec<ObjectKey> = replay.fleet.world.templates.keys().cloned().collect();
        let because = templates.into_iter().map(|key| (key.clone(), replay.claim(&key))).collect();
        Self { replay, of_policies, because }
    }

    /// The order in which the scheduler is expected to take the templates: by key.
    fn order(&self) -> Vec<ObjectKey> {
        self.replay.fleet.world.templates.keys().cloned().collect()
    }

    /// The policies that have the templates.
    fn claims(&self) -> BTreeMap<&ObjectKey, Option<PolicyKey>> {
        let templates = self.replay.fleet.world.templates.iter();
        templates.map(|(key, template)| (key, Claim::of_template(template).map(|claim| claim.policy()))).collect()
    }

    /// Schedules these templates in their order.
    fn followed(&self, question: &Question<'_>, order: &[ObjectKey]) -> Followed<'a> {
        let mut replay = self.replay.clone();
        let (mut placements, mut competing, mut unasked) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let mut left = order.len() * (1 + WOKEN_MAX);
        let mut order = order.iter();
        while let Some(key) = order.next().cloned().or_else(|| replay.next_woken())
            && left > 0
        {
            left -= 1;
            let present = replay.fleet.world.binding_of(&key).map(|binding| binding.spec().clusters.clone());
            let mut placement = replay.template(&key);
            if let (Some(present), Some(scheduling)) = (present, &placement.scheduling)
                && (present != scheduling.result || scheduling.failure.is_some())
                && !competing.contains(&key)
            {
                competing.push(key.clone());
            }
            if placement.scheduling.as_ref().is_some_and(|scheduling| scheduling.runs) {
                unasked.append(&mut placement.unasked);
            }
            let mut because = self.because.get(&key).cloned().unwrap_or_default();
            placement.because.retain(|one| !because.contains(one));
            because.append(&mut placement.because);
            placement.because = because;
            replay.dependencies(&key);
            if !placement.skipped {
                placements.insert(key, placement);
            }
        }
        let dependencies = replay.changed_dependencies(&question.before.world);
        let all: BTreeSet<ObjectKey> = placements.keys().chain(dependencies.keys()).cloned().collect();
        let mut changes = BTreeMap::new();
        for key in all {
            let mut placement = placements.remove(&key).unwrap_or_default();
            let mut because = self.of_policies.get(&key).cloned().unwrap_or_default();
            placement.because.retain(|one| !because.contains(one));
            because.append(&mut placement.because);
            let template = replay.fleet.world.templates.get(&key);
            let mut because =
                without_existing_claim(because, template.and_then(|template| Claim::of_template(template)));
            because.extend(dependencies.get(&key).into_iter().flatten().cloned());
            let change = change(question, &replay.fleet, &key, because, placement.scheduling);
            changes.insert(key, change);
        }
        Followed { needs: replay.needs(), replay, changes, competing, unasked }
    }
}

/// True for a Cluster: the scheduler follows its changes without any policy.
fn is_cluster(object: &Value) -> bool {
    let identity = Identity::of(object);
    identity.kind == "Cluster" && identity.group() == "cluster.karmada.io"
}

/// The fleet once the objects are applied and policies have claimed their templates, with the reasons by template.
fn claimed<'a>(question: &Question<'a>, seeing: Seeing) -> (Replay<'a>, BTreeMap<ObjectKey, Vec<Because>>) {
    let mut replay = Replay::new(question.before.clone(), question.interpreter, question.now);
    let mut of_policies: BTreeMap<ObjectKey, Vec<Because>> = BTreeMap::new();
    if seeing == Seeing::AtOnce {
        for object in question.applied {
            drop(replay.fleet.insert(object.clone()));
        }
    }
    if seeing == Seeing::ClustersFirst {
        for object in question.applied.iter().filter(|object| is_cluster(object)) {
            drop(replay.fleet.insert(object.clone()));
        }
        let templates: Vec<ObjectKey> = replay.fleet.world.templates.keys().cloned().collect();
        templates.iter().for_each(|key| drop(replay.template(key)));
    }
    for object in question.applied {
        // They were inserted before: an invalid one is reported by then.
        if seeing != Seeing::AtOnce && replay.fleet.insert(object.clone()).is_err() {
            continue;
        }
        let key = Identity::of(object).key();
        if question.templates.contains(&key) {
            let because = replay.claim(&key);
            let is_last_word =
                |because: &Because| matches!(because, Because::Propagation(Reason::NoPolicyMatches { .. }));
            of_policies.entry(key).or_default().extend(because.into_iter().filter(|one| !is_last_word(one)));
        }
    }
    of_policies.retain(|_, because| !because.is_empty());
    for key in question.policies {
        for (template, because) in replay.policy(key, question.preemption) {
            of_policies.entry(template).or_default().extend(because);
        }
    }
    (replay, of_policies)
}

/// Preemptions for the workloads that are applied or that applied policies claim, the highest priority first, each by
/// itself over the fleet.
#[must_use]
pub fn preemptions(question: &Question<'_>, given: preemption::As) -> Vec<PreemptionPlan> {
    let (mut replay, of_policies) = claimed(question, Seeing::OneByOne);
    let keys: BTreeSet<&ObjectKey> = question.templates.iter().chain(of_policies.keys()).collect();
    for key in &keys {
        replay.claim(key);
    }
    let world = &replay.fleet.world;
    let bindings = keys.iter().filter_map(|key| world.binding_of(key)).map(|binding| binding.key()).collect();
    preemption::of_bindings(&replay.fleet, bindings, given, question.now)
}

/// Names the claim that stays only where nothing else is to be said of it.
fn without_existing_claim(mut because: Vec<Because>, claim: Option<Claim>) -> Vec<Because> {
    because.retain(|reason| !matches!(reason, Because::Propagation(Reason::StaysClaimed { .. })));
    if because.is_empty() {
        because.extend(claim.map(|claim| Because::from(Reason::StaysClaimed { policy: claim.policy() })));
    }
    because
}

/// Change of one template.
fn change(
    question: &Question<'_>,
    after: &Fleet,
    key: &ObjectKey,
    because: Vec<Because>,
    scheduling: Option<Scheduling>,
) -> TemplateChange {
    let before = question.before.world.binding_of(key);
    let then = after.world.binding_of(key);
    let binding = then.as_ref().or(before.as_ref());
    // A binding without a placement follows its referrers and is not scheduled.
    let is_scheduled = then.as_ref().is_some_and(|binding| binding.spec().placement.is_some());
    let mut change = TemplateChange {
        template: key.clone(),
        because,
        binding: then.as_ref().map(|binding| binding.key().to_string()),
        made: before.is_some(),
        replicas: binding.map_or(0, |binding| binding.spec().replicas),
        copies: BTreeMap::new(),
        scheduling: scheduling.filter(|_| is_scheduled),
        alternatives: Vec::new(),
    };
    let [mut present, mut planned] = [&before, &then].map(|binding| binding.as_ref().map(targets).unwrap_or_default());
    if binding.is_none() {
        (present, planned) = (synced(question.before, key), synced(after, key));
        // Namespace sync needs none.
        let lacks_policy = |one: &Because| matches!(one, Because::Propagation(Reason::NoPolicyMatches { .. }));
        change.because.retain(|because| planned.is_empty() || !lacks_policy(because));
    }
    let all: BTreeSet<&ClusterName> = present.keys().chain(planned.keys()).collect();
    for name in all {
        let copy = CopyChange {
            before: present.get(name).copied(),
            after: planned.get(name).copied(),
            ..CopyChange::default()
        };
        change.copies.insert(name.clone(), overridden(question, after, key, name, copy));
    }
    change
}

/// Clusters to which namespace sync brings a Namespace.
fn synced(fleet: &Fleet, key: &ObjectKey) -> BTreeMap<ClusterName, i32> {
    let template = fleet.world.templates.get(key).filter(|_| is_namespace(key));
    if template.is_none_or(|template| !namespace::is_synced(template, &Skipped::default())) {
        return BTreeMap::new();
    }
    let staying = fleet.world.clusters.iter().filter(|(_, cluster)| cluster.metadata.deletion_timestamp.is_none());
    staying.map(|(name, _)| (name.clone(), 0)).collect()
}

/// Applies the overrides to the copy, now and then.
fn overridden(
    question: &Question<'_>,
    after: &Fleet,
    key: &ObjectKey,
    cluster: &ClusterName,
    mut copy: CopyChange,
) -> CopyChange {
    let Some(cluster) = after.world.clusters.get(cluster) else { return copy };
    let manifest = |fleet: &Fleet| {
        let template = fleet.world.templates.get(key)?;
        let overridden = overrides::apply((**template).clone(), cluster, &fleet.cluster_overrides, &fleet.overrides);
        Some(overridden.map_err(|error| error.to_string()))
    };
    let (before, after) = (manifest(question.before), manifest(after));
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

/// Clusters of the binding's copies, with replicas. Copies that only referrers need have 0: the replicas are the
/// referrers'.
fn targets(binding: &Binding) -> BTreeMap<ClusterName, i32> {
    let spec = binding.spec();
    let of_scheduler = spec.clusters.len();
    let all = target_clusters(spec).into_iter().enumerate();
    all.map(|(at, target)| (target.cluster, if at < of_scheduler { target.replicas } else { 0 })).collect()
}

/// Annotation with the manifest that `kubectl apply` applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Content of a copy as a user sees it: without status and replicas, and without the labels and annotations that
/// propagation adds.
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

/// The names in the record of applied override policies.
fn recorded(kind: &str, record: &str) -> Vec<String> {
    let record: Value = serde_json::from_str(record).unwrap_or_default();
    let all = record.as_array().into_iter().flatten();
    all.filter_map(|one| one["policyName"].as_str().map(|name| format!("{kind} {name}"))).collect()
}
