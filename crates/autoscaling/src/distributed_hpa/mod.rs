//! Distributed HorizontalPodAutoscalers: one in each member of the target, bounds divided by weight, and what members
//! decided recorded in an OverridePolicy (specification/autoscaling.md 6).
//!
//! Members scale by themselves, so they do it while the control plane is down. Nothing here computes a number of
//! replicas from metrics.

mod budget;
pub mod effective;
mod ending;
pub mod explain;
pub mod lend;
pub mod manifest;
mod members;
mod moved;
pub mod quota;
mod recorded;
pub mod report;
pub mod scaler;
pub mod split;
pub mod state;
mod status;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    ObjectMeta, annotations,
    cluster::Cluster,
    events, finalizers, labels, names,
    policy::{ClusterOverridePolicy, OverridePolicy},
    work::{ObjectReference, ResourceBinding, Work},
};
use ironclad_fleet::{
    Because, BindingKey, ClusterName, Clusters, Event, Gvk, ObjectKey, Plan, StatusPart, WorkKey,
    because::distributed_hpa::Reason, finalizer, reference,
};
use ironclad_propagation::{
    new_ids::NewIds,
    work::{
        key_of,
        owned::{self, Write},
    },
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::autoscaling::v2::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use serde_json::{Map, Value, json};

use self::{
    scaler::Scaler,
    state::{HandOver, State},
};
use crate::rivals::Rival;

/// `apiVersion` of the control plane's objects.
const API_VERSION: &str = "autoscaling/v2";
/// Kind of the control plane's objects, and of members'.
const KIND: &str = "HorizontalPodAutoscaler";
/// Value of label `resourcetemplate.karmada.io/claimed-by`.
const CLAIMANT: &str = labels::CLAIMED_BY_DISTRIBUTED_HPA;
/// Time after the creation of an object for which a target without a place is no problem.
pub(crate) const PLACED_WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// Interval at which an object is reconciled without an event.
pub const RESYNC: SignedDuration = SignedDuration::from_secs(60);

/// Flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `--federated-hpa-cluster-failure-grace`: a cluster that is not Ready for longer gives its share to the others.
    pub failure_grace: SignedDuration,
}

impl Default for Options {
    fn default() -> Self {
        Self { failure_grace: SignedDuration::from_secs(60) }
    }
}

/// Target of the autoscaler.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Target<'a> {
    /// It does not exist, or the control plane does not serve its kind.
    Missing,
    /// Its kind has no scale subresource.
    NoScale,
    /// It exists.
    Found {
        /// The object.
        template: &'a Value,
        /// JSON pointer of its replicas.
        replicas: &'a str,
    },
}

/// Snapshot of one object.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The object.
    pub scaler: &'a Scaler,
    /// Other enabled autoscalers with the same target.
    pub rivals: &'a [Rival],
    pub target: Target<'a>,
    /// The binding of the target.
    pub binding: Option<&'a ResourceBinding>,
    /// The binding of the object itself, from the time when a policy propagated it.
    pub own_binding: Option<&'a ResourceBinding>,
    pub clusters: &'a Clusters,
    /// The Works with its uid, and those under the names that it uses ([`work_keys`]).
    pub works: &'a [Arc<Work>],
    /// The Works of the target's binding.
    pub target_works: &'a [Arc<Work>],
    /// The OverridePolicy under [`policy_name`].
    pub policy: Option<&'a OverridePolicy>,
    /// ClusterOverridePolicies that may select the object.
    pub cluster_overrides: &'a [Arc<ClusterOverridePolicy>],
    /// OverridePolicies of its namespace that may select the object or its target.
    pub overrides: &'a [Arc<OverridePolicy>],
    /// Quotas of its namespace.
    pub quotas: quota::Quotas<'a>,
    /// Clusters whose report changed or was confirmed since the controller started.
    pub reported: &'a BTreeSet<ClusterName>,
    /// Start of the controller.
    pub started: Timestamp,
    /// Flags.
    pub options: &'a Options,
    /// Current time, in whole seconds.
    pub now: Timestamp,
}

/// One step. They are listed in the order in which to send them.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Patch the metadata of the object; if that fails, nothing else is sent.
    Patch {
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Write of a Work.
    Work(Write),
    /// Delete the binding of the object itself.
    DeleteOwnBinding { key: BindingKey },
    /// Create the OverridePolicy.
    CreatePolicy(Box<OverridePolicy>),
    /// Patch the OverridePolicy.
    PatchPolicy {
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Delete the OverridePolicy.
    DeletePolicy,
    /// Set the replicas of the target through its scale subresource.
    ScaleTarget {
        /// The number.
        replicas: i32,
    },
    /// Set the status of the object.
    Status(StatusPart),
    /// Patch the metadata of the object after everything else: if anything before failed, it is not sent.
    Release {
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Record an event.
    Event(Event),
    /// Reconcile again after this time, unless an event does so earlier.
    RequeueAfter(SignedDuration),
}

/// Returns true for the kind of the objects, in any version.
#[must_use]
pub fn is_kind(gvk: &Gvk) -> bool {
    *gvk.group == *"autoscaling" && *gvk.kind == *KIND
}

/// Returns true if an object carries the label that distributes it.
#[must_use]
pub fn is_enabled(metadata: &ObjectMeta) -> bool {
    label(metadata, labels::FEDERATED_HPA_ENABLED) == Some(labels::TRUE)
}

/// Returns true if members decide the replicas of the target: the object is distributed, or its end is not complete.
#[must_use]
pub fn decides_in_members(hpa: &HorizontalPodAutoscaler) -> bool {
    is_run_by_members(&hpa.metadata)
}

/// The same by the metadata of an object of any kind.
#[must_use]
pub fn is_run_by_members(metadata: &ObjectMeta) -> bool {
    let ours = |list: &Vec<String>| list.iter().any(|finalizer| finalizer == finalizers::FEDERATED_HPA);
    is_enabled(metadata) || metadata.finalizers.as_ref().is_some_and(ours)
}

/// The key of the target whose replicas members decide: that of the spec, unless an earlier one is not handed over yet.
#[must_use]
pub fn target_key(hpa: &HorizontalPodAutoscaler) -> ObjectKey {
    match State::of(hpa.metadata.annotations.as_ref()).target {
        Some(target) => key_in(hpa, &target),
        None => key_in(hpa, &hpa.spec.scale_target_ref),
    }
}

/// The targets that an object is found by: that of the spec, and one that is handed over.
#[must_use]
pub fn target_keys(hpa: &HorizontalPodAutoscaler) -> BTreeSet<ObjectKey> {
    [target_key(hpa), key_in(hpa, &hpa.spec.scale_target_ref)].into()
}

/// Returns true if members still decide the replicas of another target than that of the spec.
fn is_moved(hpa: &HorizontalPodAutoscaler) -> bool {
    // Versions of a kind are the same objects.
    let identity = |key: ObjectKey| (key.gvk.group, key.gvk.kind, key.name);
    identity(target_key(hpa)) != identity(key_in(hpa, &hpa.spec.scale_target_ref))
}

/// The namespace is the object's own, whatever an annotation says.
pub(crate) fn key_in(hpa: &HorizontalPodAutoscaler, target: &CrossVersionObjectReference) -> ObjectKey {
    ObjectKey {
        gvk: Gvk::from_manifest(target.api_version.as_deref().unwrap_or_default(), &target.kind),
        namespace: text(&hpa.metadata.namespace).into(),
        name: target.name.as_str().into(),
    }
}

/// The key of an object of a kind.
fn key_of_kind(gvk: &Gvk, hpa: &HorizontalPodAutoscaler) -> ObjectKey {
    ObjectKey {
        gvk: gvk.clone(),
        namespace: text(&hpa.metadata.namespace).into(),
        name: text(&hpa.metadata.name).into(),
    }
}

/// Reference to the object, for events and override policies.
#[must_use]
pub fn reference_of(scaler: &Scaler) -> ObjectReference {
    reference(&scaler.api_version(), &scaler.kind.gvk.kind, &scaler.hpa.metadata)
}

/// The name of the OverridePolicy.
#[must_use]
pub fn policy_name(scaler: &Scaler) -> String {
    const NAME_MAX: usize = 253;
    let name = text(&scaler.hpa.metadata.name);
    let name = match scaler.kind.is_hpa() {
        true => format!("federatedhpa-{name}"),
        // Objects of two kinds may have one name.
        false => format!("federatedhpa-{name}-{}", scaler.kind.gvk.kind.to_ascii_lowercase()),
    };
    if name.len() <= NAME_MAX {
        return name;
    }
    let hash = names::hash(&name);
    // Names of objects are ASCII; `get` keeps a stored one that is not from ending in the middle of a character.
    let kept = (0..NAME_MAX - hash.len()).rev().find_map(|end| name.get(..end)).unwrap_or_default();
    format!("{}-{hash}", kept.trim_end_matches(['-', '.']))
}

/// Names of the Works of the object in the clusters of the target's binding.
#[must_use]
pub fn work_keys(scaler: &Scaler, binding: &ResourceBinding) -> Vec<WorkKey> {
    let of = |name: &String| work_key(scaler, &ClusterName::from(name.as_str()));
    binding.spec.clusters.iter().map(|target| of(&target.name)).collect()
}

fn work_key(scaler: &Scaler, cluster: &ClusterName) -> WorkKey {
    let metadata = &scaler.hpa.metadata;
    owned::key(cluster, &scaler.kind.gvk.kind, text(&metadata.namespace), text(&metadata.name))
}

/// Index value under which the Works of an object are found: its uid.
#[must_use]
pub fn of_work(work: &Work) -> Vec<String> {
    label(&work.metadata, labels::FEDERATED_HPA_UID)
        .filter(|uid| !uid.is_empty())
        .map(str::to_owned)
        .into_iter()
        .collect()
}

/// Decides over one object. The plan is empty if nothing has to change.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    let hpa = &*seen.scaler.hpa;
    if hpa.metadata.deletion_timestamp.is_some() || !is_enabled(&hpa.metadata) || is_moved(hpa) {
        ending::decide(&mut plan, seen);
        return plan;
    }
    let mut cx = Context::of(seen);
    let rival = Rival::from(seen.scaler);
    if let Some(other) = rival.superior(seen.rivals) {
        let reason = Reason::Conflict { with: other.to_string(), same_kind: other.distributed };
        cx.state = State::default();
        cx.adopt(&mut plan);
        ending::remove(&mut plan, seen);
        cx.refused(&mut plan, &reason);
        return plan;
    }
    let (template, pointer) = match seen.target {
        Target::Missing | Target::NoScale => {
            let target = target_key(hpa);
            let missing = seen.target == Target::Missing;
            let reason = if missing { Reason::TargetMissing { target } } else { Reason::NoScale { target } };
            cx.state = State::default();
            cx.adopt(&mut plan);
            ending::remove(&mut plan, seen);
            cx.refused(&mut plan, &reason);
            return plan;
        }
        Target::Found { template, replicas } => (template, replicas),
    };
    let binding = seen.binding.filter(|binding| binding.metadata.deletion_timestamp.is_none());
    let Some(binding) = binding.filter(|binding| !binding.spec.clusters.is_empty()) else {
        cx.adopt(&mut plan);
        if template.pointer(pointer).and_then(Value::as_i64) == Some(0) {
            cx.refused(&mut plan, &Reason::SwitchedOff { target: target_key(hpa) });
            return plan;
        }
        let created = hpa.metadata.creation_timestamp.as_ref().map(|time| time.0);
        if let Some(left) = created.and_then(|created| state::left(created, PLACED_WITHIN, seen.now)) {
            // It was applied together with its target and the policy, which are about to be handled.
            cx.again_in(left);
            plan.effects.push(Effect::RequeueAfter(cx.next));
            return plan;
        }
        cx.refused(&mut plan, &Reason::NoBinding { target: target_key(hpa) });
        return plan;
    };
    cx.state.target = Some(hpa.spec.scale_target_ref.clone());
    let target = Placed { template, pointer, binding };
    let reports = members::Reports::read(seen);
    let fleet = members::observe(&mut cx, &target, &reports, &mut plan);
    if fleet.members.is_empty() {
        // The shares stay with the clusters that had them: nobody is known to be able to take them.
        cx.adopt(&mut plan);
        cx.refused(&mut plan, &Reason::NoCluster);
        return plan;
    }
    let works = members::divide(&mut cx, &target, &fleet, &reports, &mut ids, &mut plan);
    let policy = recorded::decide(&mut cx, &target, &fleet, &reports, &mut plan);
    cx.adopt(&mut plan);
    plan.effects.extend(works.into_iter().map(Effect::Work));
    members::drop_own_binding(&cx, &mut plan);
    plan.effects.extend(policy);
    status::report(&cx, &fleet, &reports, &mut plan);
    plan.effects.push(Effect::RequeueAfter(cx.next));
    plan
}

/// The target with its place.
#[derive(Debug, Clone, Copy)]
struct Placed<'a> {
    template: &'a Value,
    /// JSON pointer of its replicas.
    pointer: &'a str,
    binding: &'a ResourceBinding,
}

impl Placed<'_> {
    /// Replicas of the template; 0 if it has none.
    fn replicas(&self) -> i64 {
        self.template.pointer(self.pointer).and_then(Value::as_i64).unwrap_or(0)
    }

    /// Replicas that the binding gives a cluster.
    fn given(&self, cluster: &ClusterName) -> i64 {
        let spec = &self.binding.spec;
        match spec.target(&cluster.0) {
            Some(target) if spec.is_workload() => i64::from(target.replicas),
            // A kind whose replicas nobody interprets: every copy has what the template says.
            Some(_) => self.replicas(),
            None => 0,
        }
    }
}

/// One decision.
struct Context<'a> {
    seen: &'a Seen<'a>,
    /// State after the decision.
    state: State,
    /// Quota that leaves fewer replicas than the spec allows.
    quota: Option<Reason>,
    /// Time after which to look again.
    next: SignedDuration,
}

impl<'a> Context<'a> {
    fn of(seen: &'a Seen<'a>) -> Self {
        Self { seen, state: State::of(seen.scaler.hpa.metadata.annotations.as_ref()), quota: None, next: RESYNC }
    }

    /// Looks again after this time at the latest.
    fn again_in(&mut self, wait: SignedDuration) {
        self.next = self.next.min(wait.max(SignedDuration::from_secs(1)));
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.seen.scaler.hpa.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Marks the object as ours and stores the state, in one write.
    fn adopt(&self, plan: &mut Plan<Effect>) {
        let metadata = &self.seen.scaler.hpa.metadata;
        let mut patch = Map::new();
        if let Some(list) = finalizer::added(metadata, finalizers::FEDERATED_HPA) {
            patch.insert("finalizers".into(), json!(list));
        }
        if label(metadata, labels::CLAIMED_BY) != Some(CLAIMANT) {
            patch.insert("labels".into(), json!({labels::CLAIMED_BY: CLAIMANT}));
        }
        let state = (self.state != State::default()).then(|| self.state.text());
        let stored = self.annotation(annotations::FEDERATED_HPA_STATUS);
        if stored != state.as_deref() && State::of(metadata.annotations.as_ref()) != self.state
            || stored.is_some() && state.is_none()
        {
            patch.insert("annotations".into(), json!({annotations::FEDERATED_HPA_STATUS: state}));
        }
        if !patch.is_empty() {
            plan.effects.push(Effect::Patch { patch: json!({"metadata": patch}) });
        }
    }

    /// Reports that the object cannot work, with an event if that is new.
    fn refused(&self, plan: &mut Plan<Effect>, reason: &Reason) {
        status::refused(self, plan, reason);
        plan.note(Because::from(reason.clone()));
        plan.effects.push(Effect::RequeueAfter(self.next));
    }

    fn event(&self, plan: &mut Plan<Effect>, reason: &'static str, message: String) {
        plan.effects.push(Effect::Event(Event::warning(reference_of(self.seen.scaler), reason, message)));
    }
}

/// The event reason for a condition reason of `AbleToScale`.
fn event_reason(reason: &Reason) -> &'static str {
    match reason {
        Reason::Conflict { same_kind: true, .. } => events::AMBIGUOUS_TARGET,
        Reason::Conflict { .. } => events::CONFLICTING_AUTOSCALER,
        Reason::TargetMissing { .. } => events::FAILED_GET_SCALE_TARGET_REF,
        Reason::NoScale { .. } => ironclad_hpa::events::FAILED_GET_SCALE,
        Reason::NoBinding { .. } => events::FAILED_GET_BINDINGS,
        _ => events::FAILED_GET_TARGET_CLUSTERS,
    }
}

/// Works of the object by cluster: with its uid.
fn own_works<'a>(seen: &Seen<'a>) -> BTreeMap<ClusterName, &'a Arc<Work>> {
    let uid = text(&seen.scaler.hpa.metadata.uid);
    let own = seen.works.iter().filter(|work| label(&work.metadata, labels::FEDERATED_HPA_UID) == Some(uid));
    own.filter_map(|work| Some((key_of(work)?.cluster, work))).collect()
}

/// Works of the target by cluster.
fn target_works<'a>(seen: &Seen<'a>) -> BTreeMap<ClusterName, &'a Arc<Work>> {
    seen.target_works.iter().filter_map(|work| Some((key_of(work)?.cluster, work))).collect()
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// True if a cluster can be reached.
fn is_ready(clusters: &Clusters, cluster: &ClusterName) -> bool {
    clusters.get(cluster).is_some_and(|cluster: &Arc<Cluster>| cluster.is_ready())
}
