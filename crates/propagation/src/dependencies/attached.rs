//! Binding of a dependency: the clusters of its referrers, and their common settings (specification/propagation.md
//! 8.4, specification/propagation.md 8.5).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    OwnerReference,
    annotations::DEPENDENCY_POLICY_CONFLICT,
    events, finalizers, labels,
    policy::{ConflictResolution, SuspendClusters},
    work::{BindingSnapshot, BindingSuspension, ResourceBinding, ResourceBindingSpec},
};
use ironclad_fleet::{
    Because, Event, Plan, because::propagation::Reason, merge_patch_between, targets::clusters_of_referrer,
};
use serde_json::{Value, json};

use super::{Effect, Seen, edge};
use crate::{
    detector::binding::Binding,
    new_ids::NewIds,
    template::{self, Identity},
    template_hash::{APPLIED_TEMPLATE, TemplateHash},
};

/// Attached binding under construction, and its stored version.
pub(super) struct Attached<'a> {
    old: Option<&'a ResourceBinding>,
    new: ResourceBinding,
    referrers: &'a [Binding<'a>],
}

impl<'a> Attached<'a> {
    pub(super) fn of(existing: &'a ResourceBinding, seen: &Seen<'a>) -> Self {
        Self { old: Some(existing), new: existing.clone(), referrers: seen.referrers }
    }

    pub(super) fn fresh(namespace: &str, name: &str, seen: &Seen<'a>) -> Self {
        let mut new = ResourceBinding::new(name, ResourceBindingSpec::default());
        new.metadata.namespace = Some(namespace.to_owned());
        Self { old: None, new, referrers: seen.referrers }
    }

    /// Creates it, required by `by`.
    pub(super) fn create(mut self, plan: &mut Plan<Effect>, by: Binding<'_>, object: &Value, ids: &mut NewIds) {
        let identity = Identity::of(object);
        self.new
            .metadata
            .labels
            .get_or_insert_default()
            .insert(labels::RESOURCE_BINDING_PERMANENT_ID.into(), ids.allocate());
        self.new.metadata.finalizers = Some(vec![finalizers::BINDING_CONTROLLER.into()]);
        self.new.metadata.owner_references = Some(vec![OwnerReference {
            api_version: identity.api_version.into(),
            kind: identity.kind.into(),
            name: identity.name.into(),
            uid: identity.uid.into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]);
        self.refresh_resource(object);
        self.need(by);
        self.resolve(by);
        self.report_conflict(plan);
        let because = Because::from(Reason::NeededBy { binding: by.key() });
        plan.push(Effect::Create(Box::new(self.new)), because);
    }

    /// Adds `by` to the bindings that require it.
    pub(super) fn attach(mut self, plan: &mut Plan<Effect>, by: Binding<'_>, object: &Value) {
        if self.new.spec.placement.is_none() {
            self.refresh_resource(object);
        }
        self.need(by);
        self.resolve(by);
        self.write(plan, by);
    }

    /// Removes `by` from the bindings that require it. A binding that none requires and no policy created is deleted.
    pub(super) fn release(mut self, plan: &mut Plan<Effect>, by: Binding<'_>) {
        let (label, _) = edge(by);
        if let Some(map) = &mut self.new.metadata.labels {
            map.remove(&label);
        }
        let key = by.key();
        self.new.spec.required_by.retain(|snapshot| !is(snapshot, &key));
        self.resolve(by);
        if self.new.spec.placement.is_none() && self.new.spec.required_by.is_empty() {
            if self.new.metadata.deletion_timestamp.is_none() {
                let key = Binding::from(&self.new).key();
                let uid = self.new.metadata.uid.clone().unwrap_or_default();
                plan.push(Effect::Delete { key: key.clone(), uid }, Reason::NotNeeded { binding: key }.into());
            }
            return;
        }
        self.write(plan, by);
    }

    fn write(self, plan: &mut Plan<Effect>, by: Binding<'_>) {
        let written = |binding: &ResourceBinding| json!({"metadata": {"labels": binding.metadata.labels, "annotations": binding.metadata.annotations}, "spec": binding.spec});
        let Some(old) = self.old else { return };
        match merge_patch_between(&written(old), &written(&self.new)) {
            Some(patch) => {
                self.report_conflict(plan);
                let key = Binding::from(old).key();
                plan.push(Effect::Patch { key, patch }, Reason::NeededBy { binding: by.key() }.into());
            }
            None => plan.note(Because::UpToDate),
        }
    }

    /// A conflict is told once: with the write that records it.
    fn report_conflict(&self, plan: &mut Plan<Effect>) {
        let told = self.old.and_then(recorded_conflict);
        let Some(message) = recorded_conflict(&self.new).filter(|message| Some(*message) != told) else { return };
        let about = Binding::from(&self.new).reference();
        plan.effects.push(Effect::Event(Event::warning(about, events::DEPENDENCY_POLICY_CONFLICT, message)));
    }

    /// Updates the reference to the object as for a template: a status write of the object costs no write
    /// (specification/propagation.md 7.2).
    fn refresh_resource(&mut self, object: &Value) {
        let content = TemplateHash::of(object).to_text();
        let map = self.new.metadata.annotations.get_or_insert_default();
        let unchanged = map.get(APPLIED_TEMPLATE) == Some(&content);
        map.insert(APPLIED_TEMPLATE.into(), content);
        let mut resource = Identity::of(object).reference();
        let known = &self.new.spec.resource.resource_version;
        resource.resource_version = if unchanged && !known.is_empty() {
            known.clone()
        } else {
            template::text(object, "/metadata/resourceVersion").into()
        };
        self.new.spec.resource = resource;
    }

    fn need(&mut self, by: Binding<'_>) {
        let (label, id) = edge(by);
        self.new.metadata.labels.get_or_insert_default().insert(label, id);
        let key = by.key();
        let snapshot = BindingSnapshot {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            clusters: clusters_of_referrer(by.spec()),
        };
        match self.new.spec.required_by.iter_mut().find(|snapshot| is(snapshot, &key)) {
            Some(old) => *old = snapshot,
            None => self.new.spec.required_by.push(snapshot),
        }
    }

    /// Computes the common settings of the referrers, records which of them conflict, and drops deleted referrers.
    fn resolve(&mut self, by: Binding<'_>) {
        let conflict = self.settle(by);
        match (conflict, &mut self.new.metadata.annotations) {
            (Some(conflict), annotations) => {
                annotations.get_or_insert_default().insert(DEPENDENCY_POLICY_CONFLICT.into(), conflict);
            }
            (None, Some(annotations)) => drop(annotations.remove(DEPENDENCY_POLICY_CONFLICT)),
            (None, None) => {}
        }
    }

    /// Computes the common settings, and drops deleted referrers. Returns the settings that conflict.
    fn settle(&mut self, by: Binding<'_>) -> Option<String> {
        let current = by.key();
        let mut there: Vec<Binding<'_>> = Vec::new();
        let mut deleted: Vec<BindingSnapshot> = Vec::new();
        self.new.spec.required_by.retain(|snapshot| {
            if is(snapshot, &current) {
                there.push(by);
                return true;
            }
            match self.referrers.iter().find(|referrer| is(snapshot, &referrer.key())) {
                Some(referrer) => there.push(*referrer),
                None => deleted.push(snapshot.clone()),
            }
            deleted.last() != Some(snapshot)
        });
        for snapshot in deleted {
            let label = ironclad_api::names::depended_by_label(&snapshot.namespace, &snapshot.name);
            self.new.metadata.labels.get_or_insert_default().remove(&label);
        }
        if self.new.spec.placement.is_some() {
            return None;
        }
        if there.is_empty() {
            self.new.spec.conflict_resolution = Some(ConflictResolution::Abort);
            self.new.spec.preserve_resources_on_deletion = None;
            self.new.spec.suspension = None;
            return None;
        }
        let overwrite: BTreeSet<bool> = there
            .iter()
            .map(|referrer| referrer.spec().conflict_resolution == Some(ConflictResolution::Overwrite))
            .collect();
        let preserve: BTreeSet<bool> =
            there.iter().map(|referrer| referrer.spec().preserve_resources_on_deletion.unwrap_or(false)).collect();
        let resolution =
            if overwrite.contains(&true) { ConflictResolution::Overwrite } else { ConflictResolution::Abort };
        self.new.spec.conflict_resolution = Some(resolution);
        self.new.spec.preserve_resources_on_deletion = Some(preserve.contains(&true));
        self.new.spec.suspension = suspension(&self.new.spec.required_by, &there);
        // Clients of Karmada look for these words.
        let mut fields = Vec::new();
        if overwrite.len() > 1 {
            fields.push("ConflictResolution conflicted (Overwrite vs Abort), Overwrite is used");
        }
        if preserve.len() > 1 {
            fields.push("PreserveResourcesOnDeletion conflicted (true vs false), true is used");
        }
        (!fields.is_empty()).then(|| format!("the bindings that need this disagree: {}", fields.join("; ")))
    }
}

fn recorded_conflict(binding: &ResourceBinding) -> Option<&str> {
    binding.metadata.annotations.as_ref()?.get(DEPENDENCY_POLICY_CONFLICT).map(String::as_str)
}

fn is(snapshot: &BindingSnapshot, key: &ironclad_fleet::BindingKey) -> bool {
    *snapshot.namespace == *key.namespace && *snapshot.name == *key.name
}

/// A cluster is suspended if all referrers in it are suspended there.
fn suspension(required_by: &[BindingSnapshot], referrers: &[Binding<'_>]) -> Option<BindingSuspension> {
    let mut needed: BTreeMap<&str, bool> = BTreeMap::new();
    for (snapshot, referrer) in required_by.iter().zip(referrers) {
        for target in &snapshot.clusters {
            let suspended = referrer.spec().suspension.as_ref().is_some_and(|suspension| {
                suspension.dispatching == Some(true)
                    || suspension
                        .dispatching_on_clusters
                        .as_ref()
                        .is_some_and(|on| on.cluster_names.contains(&target.name))
            });
            needed.entry(&target.name).and_modify(|all| *all &= suspended).or_insert(suspended);
        }
    }
    let names: Vec<String> =
        needed.into_iter().filter(|(_, suspended)| *suspended).map(|(n, _)| n.to_owned()).collect();
    (!names.is_empty()).then(|| BindingSuspension {
        dispatching_on_clusters: Some(SuspendClusters { cluster_names: names }),
        ..BindingSuspension::default()
    })
}
