//! Decision of the binding controller: one Work per target cluster of a binding (specification/propagation.md 9).

mod await_scheduler;
mod charged;
mod completions;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, collections::BTreeSet, sync::Arc, time::Duration};

use ironclad_api::{
    StringMap, annotations,
    cluster::Cluster,
    events, finalizers, labels, names,
    policy::{ClusterOverridePolicy, ConflictResolution, FederatedResourceQuota, OverridePolicy, PurgeMode},
    work::{ResourceBindingSpec, TargetCluster, Work, WorkSpec, WorkloadTemplate},
};
use ironclad_fleet::{
    Because, ClusterName, Event, Gvk, Plan, WorkKey,
    because::propagation::Reason,
    finalizer, merge_patch_between,
    targets::{Target, awaited_source, expected_clusters, staying, targets},
};
use ironclad_interpreter::{InterpretError, Interpreter, MemberReplicas, Operation};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    detector::binding::Binding,
    namespace,
    new_ids::NewIds,
    node_ports, overrides,
    skipped_resources::Skipped,
    template::{self, Identity},
    work::{
        Owner, key_of,
        manifest::{self, Marks},
    },
};

/// Interval at which a binding checks for an old copy that must be deleted first, in case its delete event was missed.
const OLD_COPY_RECHECK: Duration = Duration::from_secs(5);

/// Age of a Work's deletion from which it is reported that the Work is still being deleted. Until then its finalizer
/// runs as it should: the object is deleted from the member.
const DELETION_REPORTED_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Labels that name the owner of a Work.
const OWNER_LABELS: [&str; 4] = [
    labels::RESOURCE_BINDING_PERMANENT_ID,
    labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID,
    labels::FEDERATED_RESOURCE_QUOTA_NAMESPACE,
    labels::FEDERATED_RESOURCE_QUOTA_NAME,
];

/// Annotations that name the owner of a Work.
const OWNER_ANNOTATIONS: [&str; 3] = [
    annotations::RESOURCE_BINDING_NAMESPACE,
    annotations::RESOURCE_BINDING_NAME,
    annotations::CLUSTER_RESOURCE_BINDING_NAME,
];

/// Feature gates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Gate `StatefulFailoverInjection`.
    pub state_injection: bool,
}

/// Snapshot of one binding.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub binding: Binding<'a>,
    pub template: Option<&'a Value>,
    /// All Works with the binding's permanent id.
    pub works: &'a [Arc<Work>],
    /// The Works under [`first_names`], of any owner.
    pub named: &'a [Arc<Work>],
    /// Those of `named` that another existing object owns ([`crate::work::owner`]).
    pub owned: &'a [(WorkKey, Owner)],
    /// All clusters, or at least those that the binding names.
    pub clusters: &'a BTreeMap<ClusterName, Arc<Cluster>>,
    /// All ClusterOverridePolicies.
    pub cluster_overrides: &'a [Arc<ClusterOverridePolicy>],
    /// The OverridePolicies of the template's namespace.
    pub overrides: &'a [Arc<OverridePolicy>],
    /// The FederatedResourceQuotas of that namespace, if they are enforced.
    pub quotas: &'a [Arc<FederatedResourceQuota>],
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
    /// JSON pointer of the template's replicas, if an autoscaler in each member decides them.
    pub member_replicas: Option<&'a str>,
    /// True if that autoscaler goes to zero and comes back by itself.
    pub members_may_rest: bool,
    /// Resources that are not propagated, if namespace sync runs: it takes the Works of namespaces that are left.
    pub namespace_sync: Option<&'a Skipped>,
    /// Feature gates.
    pub options: &'a Options,
    /// Time for which the Works have waited for the scheduler ([`Effect::AwaitScheduler`]).
    pub waited: Duration,
    /// Current time.
    pub now: Timestamp,
}

impl<'a> Seen<'a> {
    /// Works of the binding in a cluster.
    fn works_in(&self, cluster: &ClusterName) -> impl Iterator<Item = &'a Arc<Work>> {
        self.works.iter().filter(move |work| key_of(work).is_some_and(|key| key.cluster == *cluster))
    }
}

/// Write of a binding or Work, or a requeue.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Patch the binding: set permanent id and finalizer, or remove the finalizer.
    PatchBinding {
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    Create(Box<Work>),
    /// Patch a Work.
    Patch {
        key: WorkKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Delete a Work, if it still has this uid.
    Delete {
        key: WorkKey,
        uid: String,
    },
    /// Delete a Work once one of the creates of this plan succeeded: until then it is the only copy.
    DeleteOnceReplaced {
        key: WorkKey,
        uid: String,
    },
    /// Report in the binding's status that these targets have no Work, and why (specification/propagation.md 16).
    CopiesNotMade(BTreeMap<ClusterName, String>),
    /// Wait for the scheduler: remember the start of the wait, and reconcile again after this time.
    AwaitScheduler(Duration),
    /// Reconcile again after this time, unless an event does so earlier.
    RequeueAfter(Duration),
    /// Reconcile again with back-off.
    Retry,
    /// Record an event.
    Event(Event),
}

/// Event on the binding if an orphaned Work could not be deleted (specification/propagation.md 9.1 step 2), by the
/// class of the failure. `None` for a conflict: the decision is made again.
#[must_use]
pub fn cleanup_failed_event(binding: Binding<'_>, work: &WorkKey, class: &str, error: &str) -> Option<Event> {
    let message =
        || format!("Work {} of cluster {} is no longer needed and was not deleted: {error}", work.name, work.cluster);
    (class != "Conflict").then(|| Event::warning(binding.reference(), events::CLEANUP_WORK_FAILED, message()))
}

/// Default names of the binding's Works, by which [`Seen::named`] is looked up.
#[must_use]
pub fn first_names(spec: &ResourceBindingSpec) -> Vec<WorkKey> {
    let resource = &spec.resource;
    let name: Arc<str> = names::work_name(&resource.kind, &resource.namespace, &resource.name).into();
    targets(spec).into_iter().map(|target| WorkKey { cluster: target.cluster, name: name.clone() }).collect()
}

/// Makes the Works match binding, template and overrides. No effects if they do.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    let binding = seen.binding;
    if binding.is_deleting() {
        deleted(&mut plan, seen);
        return plan;
    }
    if let Some(patch) = stamp(binding, &mut ids) {
        // The Works carry the id, so set it first. The watch event of this write reconciles again.
        plan.effects.push(Effect::PatchBinding { patch });
        return plan;
    }
    let left = |cluster: &ClusterName| {
        let mut tasks = binding.spec().graceful_eviction_tasks.iter();
        tasks.any(|task| task.purge_mode == Some(PurgeMode::Directly) && *task.from_cluster == *cluster.0)
    };
    let (left, moved): (Vec<_>, Vec<_>) = orphans(seen).into_iter().partition(|(key, _)| left(&key.cluster));
    let moved: Vec<_> = moved
        .into_iter()
        .filter_map(|(work, object)| match leave_to_namespace_sync(seen, object) {
            Some(effect) => {
                plan.push(effect, Reason::NotATarget { work }.into());
                None
            }
            None => Some((work, object)),
        })
        .collect();
    remove(&mut plan, left, Replacement::Exists);
    let has_work = |cluster: &ClusterName| seen.works_in(cluster).next().is_some();
    let is_ready = |cluster: &ClusterName| seen.clusters.get(cluster).is_some_and(|cluster| cluster.is_ready());
    if let Some(cluster) = awaited_source(binding.spec(), binding.metadata(), has_work, is_ready) {
        remove(&mut plan, moved, Replacement::Exists);
        plan.push(Effect::RequeueAfter(OLD_COPY_RECHECK), Reason::OldCopyRemains { cluster }.into());
        return plan;
    }
    if let Some(left) = await_scheduler::WAIT_MAX.checked_sub(seen.waited).filter(|left| !left.is_zero())
        && await_scheduler::is_pending(binding)
    {
        remove(&mut plan, moved, Replacement::Exists);
        plan.push(Effect::AwaitScheduler(left), Reason::AwaitsScheduler { binding: binding.key() }.into());
        return plan;
    }
    let spec = binding.spec();
    let template = seen
        .template
        .filter(|t| spec.resource.uid.is_empty() || template::text(t, "/metadata/uid") == spec.resource.uid);
    let Some(template) = template else {
        let resource = &spec.resource;
        let gvk = ironclad_fleet::Gvk::from_manifest(&resource.api_version, &resource.kind);
        let (namespace, name) = (resource.namespace.as_str().into(), resource.name.as_str().into());
        remove(&mut plan, moved, Replacement::Exists);
        plan.note(Because::Gone { object: ironclad_fleet::ObjectKey { gvk, namespace, name } });
        return plan;
    };
    // Create the new copies before deleting the old ones, so that a change of placement leaves no time without a copy
    // (docs/decisions/0013).
    let replacement = sync(&mut plan, seen, template, &mut ids);
    remove(&mut plan, moved, replacement);
    plan
}

/// Availability of a replacement for an orphaned copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replacement {
    /// A target has a Work, or there is no target.
    Exists,
    /// This plan creates the first Work.
    Created,
    /// No target can have a Work now.
    Impossible,
}

/// Deletes the Works of a deleted binding. The finalizer is removed once their deletion is requested, without waiting
/// for their end (specification/propagation.md 9.1 step 1).
fn deleted(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    let binding = seen.binding;
    let because = Because::from(Reason::BindingDeleted { binding: binding.key() });
    for work in seen.works.iter().filter(|work| work.metadata.deletion_timestamp.is_none()) {
        plan.effects.extend(leave_to_namespace_sync(seen, work).or_else(|| delete(work)));
    }
    if let Some(rest) = finalizer::removed(binding.metadata(), binding.finalizer()) {
        plan.effects.push(Effect::PatchBinding { patch: json!({"metadata": {"finalizers": rest}}) });
    }
    plan.note(because);
}

/// Gives a Work of a Namespace back to namespace sync, which wants the namespace in every member: if the Work were
/// deleted, the namespace would be, too, with all that is in it (specification/propagation.md 22).
fn leave_to_namespace_sync(seen: &Seen<'_>, work: &Work) -> Option<Effect> {
    let template = seen.template?;
    let key = key_of(work)?;
    let stays = seen.clusters.get(&key.cluster).is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let of_template = work.spec.workload.manifests.first().is_some_and(|m| Identity::of(template).is_named(&m.named()));
    let is_namespace = Identity::of(template).gvk() == Gvk::from_manifest("v1", "Namespace");
    if !(stays && of_template && is_namespace && namespace::is_synced(template, seen.namespace_sync?)) {
        return None;
    }
    let removed = |keys: &[&str]| -> Value { keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect() };
    let patch = json!({"metadata": {"labels": removed(&OWNER_LABELS), "annotations": removed(&OWNER_ANNOTATIONS)}});
    Some(Effect::Patch { key, patch })
}

fn delete(work: &Work) -> Option<Effect> {
    Some(Effect::Delete { key: key_of(work)?, uid: work.metadata.uid.clone().unwrap_or_default() })
}

fn stamp(binding: Binding<'_>, ids: &mut NewIds) -> Option<Value> {
    let mut metadata = serde_json::Map::new();
    if binding.permanent_id().is_none() {
        metadata.insert("labels".into(), json!({binding.id_label(): ids.allocate()}));
    }
    if let Some(list) = finalizer::added(binding.metadata(), binding.finalizer()) {
        metadata.insert("finalizers".into(), json!(list));
    }
    (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
}

/// The Works in clusters that are not expected to have one.
fn orphans<'a>(seen: &Seen<'a>) -> Vec<(WorkKey, &'a Work)> {
    let expected = expected_clusters(seen.binding.spec());
    let mut kept = BTreeSet::new();
    let mut orphans = Vec::new();
    for work in seen.works {
        let Some(key) = key_of(work) else { continue };
        // Two Works of one binding in one cluster would both write one member object: keep the first.
        let wanted = expected.contains(&key.cluster) && kept.insert(key.cluster.clone());
        if !wanted && work.metadata.deletion_timestamp.is_none() {
            orphans.push((key, &**work));
        }
    }
    orphans
}

fn remove(plan: &mut Plan<Effect>, orphans: Vec<(WorkKey, &Work)>, replacement: Replacement) {
    for (work, object) in orphans {
        let (key, uid) = (work.clone(), object.metadata.uid.clone().unwrap_or_default());
        match replacement {
            Replacement::Exists => plan.push(Effect::Delete { key, uid }, Reason::NotATarget { work }.into()),
            Replacement::Created => {
                plan.push(Effect::DeleteOnceReplaced { key, uid }, Reason::NotATarget { work }.into())
            }
            Replacement::Impossible => plan.note(Reason::KeptForWantOfAnother { work }.into()),
        }
    }
}

fn sync(plan: &mut Plan<Effect>, seen: &Seen<'_>, template: &Value, ids: &mut NewIds) -> Replacement {
    let spec = seen.binding.spec();
    let mut targets = targets(spec);
    let only_target = targets.len() == 1;
    let has_copy =
        |target: &Target| seen.works_in(&target.cluster).any(|work| work.metadata.deletion_timestamp.is_none());
    targets.extend(staying(spec).into_iter().filter(has_copy));
    let completions = completions::divide(spec, template, &targets);
    let (mut errors, mut overrides, mut recheck) = (Vec::new(), Vec::new(), None);
    let mut not_made = BTreeMap::new();
    let mut replacement = if targets.is_empty() { Replacement::Exists } else { Replacement::Impossible };
    for (i, target) in targets.iter().enumerate() {
        let copy =
            Copy { seen, template, target, completions: completions.as_ref().map(|shares| shares[i]), only_target };
        match copy.write(plan, ids) {
            Ok(Written::Created) if replacement == Replacement::Impossible => replacement = Replacement::Created,
            Ok(Written::Created) => {}
            Ok(Written::Existing) => replacement = Replacement::Exists,
            Err(because) => {
                if copy.existing().is_some_and(|work| work.metadata.deletion_timestamp.is_none()) {
                    replacement = Replacement::Exists;
                }
                if copy.is_adopted() {
                    plan.note(because);
                    continue;
                }
                if let Some(left) = copy.left_for_deletion(&because) {
                    recheck = recheck.into_iter().chain([left]).min();
                    plan.note(because);
                    continue;
                }
                if let Because::Propagation(Reason::OverrideFailed { .. }) = &because {
                    overrides.push(because.to_string());
                }
                if copy.is_reported_as_not_made(&because) {
                    not_made.insert(target.cluster.clone(), because.to_string());
                }
                errors.push(because.to_string());
                plan.note(because);
            }
        }
    }
    if !not_made.is_empty() {
        plan.effects.push(Effect::CopiesNotMade(not_made));
    }
    if !overrides.is_empty() {
        let (about, message) = (Identity::of(template).reference(), overrides.join("; "));
        plan.effects.push(Effect::Event(Event::warning(about, events::APPLY_OVERRIDE_POLICY_FAILED, message)));
    }
    if !errors.is_empty() {
        let message = errors.join("; ");
        for about in [seen.binding.reference(), Identity::of(template).reference()] {
            plan.effects.push(Effect::Event(Event::warning(about, events::SYNC_WORK_FAILED, message.clone())));
        }
        plan.effects.push(Effect::Retry);
    } else if let Some(left) = recheck {
        plan.effects.push(Effect::RequeueAfter(left));
    }
    replacement
}

/// State of a target's Work before this reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Created,
    Existing,
}

/// Work under construction for one target.
struct Copy<'a> {
    seen: &'a Seen<'a>,
    template: &'a Value,
    target: &'a Target,
    completions: Option<i64>,
    only_target: bool,
}

impl Copy<'_> {
    fn write(&self, plan: &mut Plan<Effect>, ids: &mut NewIds) -> Result<Written, Because> {
        let cluster_name = &self.target.cluster;
        let Some(cluster) = self.seen.clusters.get(cluster_name) else {
            return Err(Reason::ClusterMissing { cluster: cluster_name.clone() }.into());
        };
        let manifest = self.revised().map_err(|error| Reason::NotInterpreted { message: error.to_string() })?;
        let revised = (!self.seen.quotas.is_empty()).then(|| manifest.clone());
        let failed = |error: overrides::OverrideError| Reason::OverrideFailed {
            cluster: cluster_name.clone(),
            message: error.to_string(),
        };
        let without_autoscaler = self.without_autoscaler(&manifest, cluster).map_err(failed)?;
        let mut overridden =
            overrides::apply(manifest, cluster, self.seen.cluster_overrides, self.seen.overrides).map_err(failed)?;
        if let Some(revised) = revised {
            self.within_charge(&revised, &overridden.manifest)?;
        }
        if let Some(pointer) = self.seen.member_replicas {
            let at = |object: &Value| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
            let given = at(without_autoscaler.as_ref().unwrap_or(&overridden.manifest));
            let decided = at(&overridden.manifest) != given;
            // A record may be for replicas that the template had before: its end then is a change by a user.
            let recorded_for = if decided { self.recorded_for() } else { None };
            let template = recorded_for.unwrap_or_else(|| at(self.template));
            let mark = MemberReplicas { template, given, decided, may_rest: self.seen.members_may_rest };
            let annotation = annotations::FEDERATED_HPA_APPLIED_REPLICAS;
            manifest::set_annotation(&mut overridden.manifest, annotation, &mark.to_string());
        }
        let existing = self.existing();
        if let Some((work, owner)) = existing.and_then(|work| self.other_owner(work)) {
            return Err(Reason::WorkOwned { work: work.clone(), owner: owner.to_string() }.into());
        }
        if let Some(existing) = existing.filter(|work| work.metadata.deletion_timestamp.is_some()) {
            let work = key_of(existing).unwrap_or_else(|| WorkKey { cluster: cluster_name.clone(), name: "".into() });
            return Err(Reason::WorkTerminating { work }.into());
        }
        for warning in &overridden.warnings {
            let about = Identity::of(self.template).reference();
            plan.effects.push(Effect::Event(Event::warning(
                about,
                events::APPLY_OVERRIDE_POLICY_FAILED,
                warning.clone(),
            )));
        }
        let work = self.work(existing, overridden, plan, ids);
        let because = Because::from(Reason::PlacedOn { cluster: cluster_name.clone() });
        let Some(existing) = existing else {
            plan.push(Effect::Create(Box::new(work)), because);
            return Ok(Written::Created);
        };
        if let (Some(patch), Some(key)) = (merge_patch_between(&written(existing), &written(&work)), key_of(existing)) {
            plan.push(Effect::Patch { key, patch }, because);
        }
        Ok(Written::Existing)
    }

    /// Refuses an overridden copy that asks for more than its quota was charged.
    fn within_charge(&self, revised: &Value, overridden: &Value) -> Result<(), Because> {
        let (seen, cluster) = (self.seen, &self.target.cluster);
        // What the member decided is counted, too.
        let recorded = self.record().and_then(|policy| overrides::recorded(policy).get(cluster).copied());
        let replicas = self.target.replicas.max(recorded.unwrap_or(0));
        let target = TargetCluster { name: cluster.to_string(), replicas, ..Default::default() };
        match charged::excess(seen.quotas, seen.interpreter, seen.binding.spec(), target, revised, overridden) {
            Ok(None) => Ok(()),
            Ok(Some(message)) => Err(Reason::OverrideFailed { cluster: cluster.clone(), message }.into()),
            Err(error) => Err(Reason::NotInterpreted { message: error.to_string() }.into()),
        }
    }

    /// The override policy in which the autoscaler records what members decided.
    fn record(&self) -> Option<&OverridePolicy> {
        self.seen.overrides.iter().find(|policy| overrides::is_of_autoscaler(policy)).map(|policy| &**policy)
    }

    /// Replicas of the template that the autoscaler's override policy is for.
    fn recorded_for(&self) -> Option<i64> {
        let map = self.record()?.metadata.annotations.as_ref()?;
        map.get(annotations::FEDERATED_HPA_OBSERVED_REPLICAS)?.parse().ok()
    }

    /// The copy with the overrides of users alone, if an autoscaler overrides it, too.
    fn without_autoscaler(
        &self,
        revised: &Value,
        cluster: &Cluster,
    ) -> Result<Option<Value>, overrides::OverrideError> {
        let all = self.seen.overrides;
        if self.seen.member_replicas.is_none() || !all.iter().any(|policy| overrides::is_of_autoscaler(policy)) {
            return Ok(None);
        }
        let of_users: Vec<Arc<OverridePolicy>> =
            all.iter().filter(|policy| !overrides::is_of_autoscaler(policy)).cloned().collect();
        let overridden = overrides::apply(revised.clone(), cluster, self.seen.cluster_overrides, &of_users)?;
        Ok(Some(overridden.manifest))
    }

    /// The template with the replicas and completions of this copy (specification/propagation.md 9.2 steps 1 and 2).
    fn revised(&self) -> Result<Value, InterpretError> {
        let spec = self.seen.binding.spec();
        let gvk = Identity::of(self.template).gvk();
        let scalar = spec.is_workload() && spec.components.is_empty();
        let mut manifest = if scalar && self.seen.interpreter.implements(&gvk, Operation::ReviseReplica) {
            self.seen.interpreter.revise_replica(self.template, self.target.replicas)?
        } else {
            self.template.clone()
        };
        if let (Some(share), Some(completions)) = (self.completions, manifest.pointer_mut("/spec/completions")) {
            *completions = share.into();
        }
        Ok(manifest)
    }

    /// Time left until the deletion of the former Work is reported; `None` if it is time, or if the copy failed for
    /// another reason. The end of the deletion reconciles the binding.
    fn left_for_deletion(&self, because: &Because) -> Option<Duration> {
        let Because::Propagation(Reason::WorkTerminating { .. }) = because else { return None };
        let since = self.existing()?.metadata.deletion_timestamp.as_ref()?.0;
        let left = DELETION_REPORTED_AFTER - self.seen.now.duration_since(since);
        // Clocks differ: a deletion that seems to begin in the future is not reported later.
        left.is_positive().then(|| left.min(DELETION_REPORTED_AFTER).unsigned_abs())
    }

    /// True if the target has no Work of this binding, for a reason that only a person removes. A Work that exists
    /// reports for itself; a missing cluster and the deletion of a former Work end by themselves.
    fn is_reported_as_not_made(&self, because: &Because) -> bool {
        let is_here = |work: &Arc<Work>| key_of(work).is_some_and(|key| key.cluster == self.target.cluster);
        let has_work = self.seen.works.iter().any(is_here);
        let lasts = matches!(
            because,
            Because::Propagation(
                Reason::OverrideFailed { .. } | Reason::NotInterpreted { .. } | Reason::WorkOwned { .. }
            )
        );
        lasts && !has_work
    }

    /// True if the template is an autoscaler that makes its own Works now: this binding is about to be deleted.
    fn is_adopted(&self) -> bool {
        let template = Identity::of(self.template);
        let owner = self.existing().and_then(|work| self.other_owner(work));
        owner.is_some_and(|(_, owner)| {
            template.kind == "HorizontalPodAutoscaler"
                && matches!(owner, Owner::Autoscaler { namespace, name } if namespace == template.namespace && name == template.name)
        })
    }

    /// The Work of this binding in the cluster by its id; otherwise one under the default name for the same object.
    fn existing(&self) -> Option<&Work> {
        let here = |work: &&Arc<Work>| key_of(work).is_some_and(|key| key.cluster == self.target.cluster);
        let own = self.seen.works.iter().filter(here).min_by_key(|work| work.metadata.name.clone());
        own.or_else(|| self.seen.named.iter().filter(here).find(|work| self.is_of_template(work))).map(|work| &**work)
    }

    /// The other owner of a Work that this binding would take over. Two owners would overwrite each other without end.
    fn other_owner(&self, work: &Work) -> Option<&(WorkKey, Owner)> {
        let key = key_of(work)?;
        self.seen.owned.iter().find(|(owned, _)| *owned == key)
    }

    fn is_of_template(&self, work: &Work) -> bool {
        let template = Identity::of(self.template);
        work.spec.workload.manifests.first().is_none_or(|manifest| template.is_named(&manifest.named()))
    }

    fn work(
        &self,
        existing: Option<&Work>,
        overridden: overrides::Overridden,
        plan: &mut Plan<Effect>,
        ids: &mut NewIds,
    ) -> Work {
        let binding = self.seen.binding;
        let spec = binding.spec();
        let mut work = existing.cloned().unwrap_or_else(|| {
            let mut work = Work::new(&self.new_name(plan), WorkSpec::default());
            work.metadata.namespace = Some(names::execution_namespace(&self.target.cluster.0));
            work
        });
        let label_map = work.metadata.labels.get_or_insert_default();
        let binding_id = binding.permanent_id().unwrap_or_default();
        // A former owner that does not exist any more leaves its marks.
        label_map.retain(|key, _| !OWNER_LABELS.contains(&key.as_str()));
        label_map.insert(binding.id_label().into(), binding_id.into());
        if label_map.get(labels::WORK_PERMANENT_ID).is_none_or(String::is_empty) {
            label_map.insert(labels::WORK_PERMANENT_ID.into(), ids.allocate());
        }
        let work_id = label_map[labels::WORK_PERMANENT_ID].clone();

        let resolution = conflict_resolution(self.template, spec.conflict_resolution);
        let annotation_map = work.metadata.annotations.get_or_insert_default();
        let owner = binding_annotations(binding);
        annotation_map.retain(|key, _| !OWNER_ANNOTATIONS.contains(&key.as_str()));
        annotation_map.extend(owner.clone());
        annotation_map.insert(annotations::CONFLICT_RESOLUTION.into(), resolution.into());
        for (key, record) in [
            (annotations::APPLIED_CLUSTER_OVERRIDES, overridden.applied_cluster),
            (annotations::APPLIED_OVERRIDES, overridden.applied),
        ] {
            match record {
                Some(record) => annotation_map.insert(key.into(), record),
                None => annotation_map.remove(key),
            };
        }
        finalizer::add(&mut work.metadata, finalizers::EXECUTION_CONTROLLER);

        let mut manifest = overridden.manifest;
        node_ports::leave_out(self.template, &mut manifest);
        manifest::set_label(&mut manifest, binding.id_label(), binding_id);
        let generation = template::generation(self.template);
        if generation > 0 {
            manifest::set_annotation(&mut manifest, annotations::TEMPLATE_GENERATION, &generation.to_string());
        }
        for (key, value) in &owner {
            manifest::set_annotation(&mut manifest, key, value);
        }
        if self.seen.options.state_injection {
            for (key, value) in self.preserved_state() {
                manifest::set_label(&mut manifest, &key, &value);
            }
        }
        let marks = Marks {
            work_namespace: work.metadata.namespace.as_deref().unwrap_or_default(),
            work_name: work.metadata.name.as_deref().unwrap_or_default(),
            work_id: &work_id,
            conflict_resolution: resolution,
        };
        manifest::finish(&mut manifest, &marks);
        work.spec = WorkSpec {
            workload: WorkloadTemplate { manifests: vec![manifest.into()] },
            suspend_dispatching: Some(self.is_suspended()),
            preserve_resources_on_deletion: Some(spec.preserve_resources_on_deletion.unwrap_or(false)),
        };
        work
    }

    /// The default name, or another if an object of another group or kind uses it (specification/propagation.md 31.1
    /// row 1).
    fn new_name(&self, plan: &mut Plan<Effect>) -> String {
        let template = Identity::of(self.template);
        let name = names::work_name(template.kind, template.namespace, template.name);
        let here = |work: &&Arc<Work>| {
            key_of(work).is_some_and(|key| key.cluster == self.target.cluster && *key.name == *name)
        };
        let Some(other) = self.seen.named.iter().find(here) else { return name };
        let by = other.spec.workload.manifests.first().map_or_else(String::new, |m| {
            let named = m.named();
            Gvk::from_manifest(&named.api_version, &named.kind).to_string()
        });
        let reason = Reason::NameTaken { name: name.clone(), by };
        plan.effects.push(Effect::Event(Event::warning(
            template.reference(),
            events::SYNC_WORK_FAILED,
            reason.to_string(),
        )));
        plan.note(reason.into());
        format!("{name}-{}", names::hash(template.group()))
    }

    fn is_suspended(&self) -> bool {
        self.seen.binding.spec().suspension.as_ref().is_some_and(|suspension| {
            suspension.dispatching == Some(true)
                || suspension
                    .dispatching_on_clusters
                    .as_ref()
                    .is_some_and(|on| on.cluster_names.iter().any(|name| **name == *self.target.cluster.0))
        })
    }

    /// Labels with the preserved state of the evicted copy (specification/propagation.md 9.2 step 8).
    fn preserved_state(&self) -> StringMap {
        let last = self.seen.binding.spec().graceful_eviction_tasks.last();
        last.filter(|task| {
            self.only_target
                && task.purge_mode == Some(PurgeMode::Directly)
                && !task.clusters_before_failover.iter().any(|name| **name == *self.target.cluster.0)
        })
        .map(|task| task.preserved_label_state.clone())
        .unwrap_or_default()
    }
}

/// The fields of a Work that we write.
fn written(work: &Work) -> Value {
    json!({
        "metadata": {
            "labels": work.metadata.labels,
            "annotations": work.metadata.annotations,
            "finalizers": work.metadata.finalizers,
        },
        "spec": work.spec,
    })
}

fn binding_annotations(binding: Binding<'_>) -> StringMap {
    let key = binding.key();
    match binding {
        Binding::Namespaced(_) => StringMap::from([
            (annotations::RESOURCE_BINDING_NAMESPACE.to_owned(), key.namespace.to_string()),
            (annotations::RESOURCE_BINDING_NAME.to_owned(), key.name.to_string()),
        ]),
        Binding::Cluster(_) => {
            StringMap::from([(annotations::CLUSTER_RESOURCE_BINDING_NAME.to_owned(), key.name.to_string())])
        }
    }
}

/// The template's conflict resolution if it is valid, otherwise the policy's (specification/propagation.md 9.2 step
/// 6).
fn conflict_resolution(template: &Value, of_policy: Option<ConflictResolution>) -> &'static str {
    match template::annotation(template, annotations::CONFLICT_RESOLUTION) {
        annotations::CONFLICT_RESOLUTION_OVERWRITE => annotations::CONFLICT_RESOLUTION_OVERWRITE,
        annotations::CONFLICT_RESOLUTION_ABORT => annotations::CONFLICT_RESOLUTION_ABORT,
        _ if of_policy == Some(ConflictResolution::Overwrite) => annotations::CONFLICT_RESOLUTION_OVERWRITE,
        _ => annotations::CONFLICT_RESOLUTION_ABORT,
    }
}
