//! Binding of a claimed template, and its merge into the existing one (specification/propagation.md 7,
//! specification/propagation.md 5.3).

#[cfg(test)]
mod tests;

use ironclad_api::{
    ObjectMeta, OwnerReference, annotations, finalizers, labels, names,
    policy::{ActivationPreference, FailoverBehavior, PropagationSpec, Suspension},
    work::{
        BindingSuspension, ClusterResourceBinding, ResolvedPriority, ResourceBinding, ResourceBindingSpec,
        WorkloadAffinityGroups,
    },
};
pub use ironclad_fleet::BindingRef as Binding;
use ironclad_fleet::{
    BindingKey, Plan,
    because::propagation::Reason,
    finalizer,
    gates::{Gate, Gates},
    merge_patch_between,
};
use ironclad_interpreter::{InterpretError, Interpreter, Operation};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    defaults,
    detector::claim::Claim,
    new_ids::NewIds,
    policy_match::Policy,
    template::{self, Identity},
    template_hash::{APPLIED_TEMPLATE, TemplateHash},
};

/// Annotation of a binding: time since which it requests application failover, if not since its creation. Failures
/// before that time do not count (docs/decisions/0016).
pub const APPLICATION_FAILOVER_SINCE: &str = "failover.ironclad.io/application-failover-since";

/// Value of [`APPLICATION_FAILOVER_SINCE`]; `None` if absent or invalid: then the binding requests failover since its
/// creation.
#[must_use]
pub fn application_failover_since(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.annotations.as_ref()?.get(APPLICATION_FAILOVER_SINCE)?.parse().ok()
}

/// Returns true if this is the binding of the template: group, kind, namespace and name of `spec.resource` match.
#[must_use]
pub fn binds(binding: Binding<'_>, template: &Identity<'_>) -> bool {
    let resource = &binding.spec().resource;
    template::group(&resource.api_version) == template.group()
        && resource.kind == template.kind
        && resource.namespace == template.namespace
        && resource.name == template.name
}

/// Feature gates that affect the binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Gate `WorkloadAffinity`.
    pub workload_affinity: bool,
    /// Gate `ResourceQuotaEstimate`.
    pub resource_quota_estimate: bool,
    /// Gate `MultiplePodTemplatesScheduling`.
    pub multiple_pod_templates: bool,
}

impl Options {
    /// The effect of these gates.
    #[must_use]
    pub fn of(gates: &Gates) -> Self {
        Self {
            workload_affinity: gates.enabled(Gate::WorkloadAffinity),
            resource_quota_estimate: gates.enabled(Gate::ResourceQuotaEstimate),
            multiple_pod_templates: gates.enabled(Gate::MultiplePodTemplatesScheduling),
        }
    }
}

/// Operation by which the interpreter sizes the workload (specification/propagation.md 7.4): components if the kind
/// has any and the gate is on, otherwise replicas.
#[must_use]
pub fn sizing_operation(seen: &Seen<'_>) -> Operation {
    let gvk = Identity::of(seen.template).gvk();
    if seen.options.multiple_pod_templates && seen.interpreter.implements(&gvk, Operation::InterpretComponent) {
        Operation::InterpretComponent
    } else {
        Operation::InterpretReplica
    }
}

/// Input of the binding.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The template, which `policy` claimed.
    pub template: &'a Value,
    /// The policy that claimed it.
    pub policy: Policy<'a>,
    /// The claim with the policy's permanent id, which may be newer than `policy`.
    pub claim: &'a Claim,
    /// The template's binding, found by `spec.resource` under any name.
    pub binding: Option<Binding<'a>>,
    /// The object under the binding's default name; may be the same object.
    pub named: Option<Binding<'a>>,
    /// The resolved `schedulePriority` of the policy (specification/scheduling.md 14.3), if set and the gate is on.
    pub schedule_priority: Option<&'a ResolvedPriority>,
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
    /// Feature gates.
    pub options: &'a Options,
    /// Current time.
    pub now: Timestamp,
}

/// Write of the binding.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Create the binding of a namespaced template.
    Create(Box<ResourceBinding>),
    /// Create the binding of a cluster-scoped template.
    CreateCluster(Box<ClusterResourceBinding>),
    /// Patch the existing binding.
    Patch {
        key: BindingKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Reconcile again later: something else has to happen first.
    Retry,
}

/// Creates or updates the binding from policy and template. No effects if it is up to date.
///
/// # Errors
/// If the interpreter cannot read the template. The binding is unchanged then.
pub fn decide(seen: &Seen<'_>, ids: &mut NewIds) -> Result<Plan<Effect>, InterpretError> {
    let mut plan = Plan::default();
    let identity = Identity::of(seen.template);
    let existing = seen.binding.or(seen.named.filter(|named| binds(*named, &identity)));
    if let Some(existing) = existing
        && let Some(owner) = existing.metadata().owner_references.iter().flatten().find(|o| o.controller == Some(true))
        && owner.uid != identity.uid
    {
        plan.push(Effect::Retry, Reason::BindingOfOldTemplate { binding: existing.key() }.into());
        return Ok(plan);
    }
    if let Some(existing) = existing.filter(|existing| existing.is_deleting()) {
        // Its finalizer runs. The template still exists and gets a new binding afterwards.
        plan.push(Effect::Retry, Reason::BindingDeleted { binding: existing.key() }.into());
        return Ok(plan);
    }
    let hash = TemplateHash::of(seen.template);
    let mut draft = Draft::of(existing, &identity);
    if existing.is_none() {
        let name = names::binding_name(identity.kind, identity.name);
        draft.metadata.name = Some(match seen.named {
            Some(other) => {
                let resource = &other.spec().resource;
                let by = format!("the binding of {} {}", resource.kind, resource.api_version);
                plan.note(Reason::NameTaken { name: name.clone(), by }.into());
                format!("{name}-{}", names::hash(identity.group()))
            }
            None => name,
        });
    }
    draft.write(seen, &identity, hash, ids)?;
    match existing {
        None => plan.push(draft.into_create(), Reason::StaysClaimed { policy: seen.policy.key() }.into()),
        Some(existing) => {
            let old = json!({"metadata": metadata_json(existing.metadata()), "spec": existing.spec()});
            match merge_patch_between(&old, &draft.to_json()) {
                Some(patch) => plan.push(
                    Effect::Patch { key: existing.key(), patch },
                    Reason::StaysClaimed { policy: seen.policy.key() }.into(),
                ),
                None => plan.note(ironclad_fleet::Because::UpToDate),
            }
        }
    }
    Ok(plan)
}

/// The metadata that we write.
fn metadata_json(metadata: &ObjectMeta) -> Value {
    json!({
        "labels": metadata.labels,
        "annotations": metadata.annotations,
        "finalizers": metadata.finalizers,
        "ownerReferences": metadata.owner_references,
    })
}

/// Binding under construction.
struct Draft {
    namespaced: bool,
    metadata: ObjectMeta,
    spec: ResourceBindingSpec,
}

impl Draft {
    fn of(existing: Option<Binding<'_>>, identity: &Identity<'_>) -> Self {
        let namespaced = !identity.namespace.is_empty();
        match existing {
            Some(existing) => Self { namespaced, metadata: existing.metadata().clone(), spec: existing.spec().clone() },
            None => {
                let namespace = namespaced.then(|| identity.namespace.to_owned());
                let metadata = ObjectMeta { namespace, ..ObjectMeta::default() };
                Self { namespaced, metadata, spec: ResourceBindingSpec::default() }
            }
        }
    }

    fn to_json(&self) -> Value {
        json!({"metadata": metadata_json(&self.metadata), "spec": self.spec})
    }

    fn into_create(self) -> Effect {
        let name = self.metadata.name.clone().unwrap_or_default();
        if self.namespaced {
            let mut binding = ResourceBinding::new(&name, self.spec);
            binding.metadata = self.metadata;
            Effect::Create(Box::new(binding))
        } else {
            let mut binding = ClusterResourceBinding::new(&name, self.spec);
            binding.metadata = self.metadata;
            Effect::CreateCluster(Box::new(binding))
        }
    }

    fn write(
        &mut self,
        seen: &Seen<'_>,
        identity: &Identity<'_>,
        hash: TemplateHash,
        ids: &mut NewIds,
    ) -> Result<(), InterpretError> {
        let lazy = seen.policy.spec().activation_preference == Some(ActivationPreference::Lazy);
        let mut spec = seen.policy.spec().clone();
        defaults::policy(&mut spec, seen.policy.metadata().namespace.as_deref());
        let recorded = self.metadata.annotations.as_ref().and_then(|a| TemplateHash::parse(a.get(APPLIED_TEMPLATE)?));

        self.write_metadata(seen, identity, hash, lazy, ids);
        self.write_resource(identity, seen.template, recorded.is_some_and(|recorded| recorded.whole == hash.whole));
        self.write_asked(&spec, seen.now);
        self.write_policy(spec, seen.schedule_priority);
        self.write_replicas(seen, identity)?;
        if self.namespaced {
            self.spec.workload_affinity_groups =
                if seen.options.workload_affinity { affinity_groups(seen.policy.spec(), identity) } else { None };
        }
        Ok(())
    }

    fn write_metadata(
        &mut self,
        seen: &Seen<'_>,
        identity: &Identity<'_>,
        hash: TemplateHash,
        lazy: bool,
        ids: &mut NewIds,
    ) {
        let (id_label, finalizer) = if self.namespaced {
            (labels::RESOURCE_BINDING_PERMANENT_ID, finalizers::BINDING_CONTROLLER)
        } else {
            (labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID, finalizers::CLUSTER_RESOURCE_BINDING_CONTROLLER)
        };
        let label_map = self.metadata.labels.get_or_insert_default();
        if label_map.get(id_label).is_none_or(String::is_empty) {
            label_map.insert(id_label.into(), ids.allocate());
        }
        let annotation_map = self.metadata.annotations.get_or_insert_default();
        seen.claim.put_on(label_map, annotation_map);
        annotation_map.insert(APPLIED_TEMPLATE.into(), hash.to_text());
        if lazy {
            let generation = seen.policy.metadata().generation.unwrap_or(0);
            annotation_map.insert(annotations::APPLIED_GENERATION.into(), generation.to_string());
        } else {
            annotation_map.remove(annotations::APPLIED_GENERATION);
        }
        finalizer::add(&mut self.metadata, finalizer);
        self.metadata.owner_references = Some(vec![OwnerReference {
            api_version: identity.api_version.into(),
            kind: identity.kind.into(),
            name: identity.name.into(),
            uid: identity.uid.into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]);
    }

    /// Updates the reference to the template. Its resourceVersion follows every write of the template except a status
    /// write, which would otherwise cost a binding write, a new generation and a reconcile of every controller
    /// (specification/propagation.md 7.2).
    fn write_resource(&mut self, identity: &Identity<'_>, template: &Value, unchanged: bool) {
        let mut resource = identity.reference();
        resource.resource_version = if unchanged && !self.spec.resource.resource_version.is_empty() {
            self.spec.resource.resource_version.clone()
        } else {
            template::text(template, "/metadata/resourceVersion").into()
        };
        self.spec.resource = resource;
    }

    /// Records when the binding starts or stops requesting application failover.
    fn write_asked(&mut self, policy: &PropagationSpec, now: Timestamp) {
        let asks = |behavior: Option<&FailoverBehavior>| behavior.is_some_and(|b| b.application.is_some());
        let created = self.metadata.creation_timestamp.is_none();
        let annotations = self.metadata.annotations.get_or_insert_default();
        match (asks(self.spec.failover.as_deref()), asks(policy.failover.as_ref())) {
            (false, true) if !created => {
                let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
                annotations.insert(APPLICATION_FAILOVER_SINCE.into(), whole.to_string());
            }
            (_, false) => drop(annotations.remove(APPLICATION_FAILOVER_SINCE)),
            (_, true) => {}
        }
    }

    fn write_policy(&mut self, policy: PropagationSpec, priority: Option<&ResolvedPriority>) {
        self.spec.propagate_deps = policy.propagate_deps;
        self.spec.scheduler_name = policy.scheduler_name;
        self.spec.placement = Some(policy.placement.into());
        self.spec.failover = policy.failover.map(Into::into);
        self.spec.conflict_resolution = policy.conflict_resolution;
        self.spec.preserve_resources_on_deletion = policy.preserve_resources_on_deletion;
        self.spec.suspension = merged_suspension(self.spec.suspension.take(), policy.suspension);
        self.spec.schedule_priority = priority.map(|priority| ResolvedPriority {
            preemption_policy: Some(priority.preemption_policy.unwrap_or_default()),
            ..priority.clone()
        });
    }

    /// Sets components, or replicas and requirements, or neither if it is not a workload (specification/propagation.md
    /// 7.4).
    fn write_replicas(&mut self, seen: &Seen<'_>, identity: &Identity<'_>) -> Result<(), InterpretError> {
        let gvk = identity.gvk();
        (self.spec.replicas, self.spec.replica_requirements, self.spec.components) = (0, None, Vec::new());
        if sizing_operation(seen) == Operation::InterpretComponent {
            self.spec.components = seen.interpreter.components(seen.template)?;
            return Ok(());
        }
        if !seen.interpreter.implements(&gvk, Operation::InterpretReplica) {
            return Ok(());
        }
        let found = seen.interpreter.replicas(seen.template)?;
        self.spec.replicas = found.replicas;
        self.spec.replica_requirements = found.requirements.map(Into::into);
        if let Some(requirements) = &mut self.spec.replica_requirements
            && seen.options.resource_quota_estimate
        {
            if requirements.namespace.is_empty() {
                requirements.namespace = identity.namespace.into();
            }
            if requirements.priority_class_name.is_empty() {
                requirements.priority_class_name = priority_class(seen.template).into();
            }
        }
        Ok(())
    }
}

/// The priority class of a template's pods, at the paths of a Pod or of a Kubernetes workload
/// (specification/propagation.md 7.5).
fn priority_class(template: &Value) -> &str {
    ["/spec/template/spec/priorityClassName", "/spec/priorityClassName"]
        .iter()
        .find_map(|pointer| template.pointer(pointer)?.as_str())
        .unwrap_or("")
}

/// Replaces the policy's fields and keeps the scheduling field (specification/propagation.md 7.3).
fn merged_suspension(old: Option<BindingSuspension>, policy: Option<Suspension>) -> Option<BindingSuspension> {
    let scheduling = old.and_then(|old| old.scheduling);
    match policy {
        Some(policy) => Some(BindingSuspension {
            dispatching: policy.dispatching,
            dispatching_on_clusters: policy.dispatching_on_clusters,
            scheduling,
        }),
        None => scheduling.map(|scheduling| BindingSuspension { scheduling: Some(scheduling), ..Default::default() }),
    }
}

fn affinity_groups(policy: &PropagationSpec, template: &Identity<'_>) -> Option<WorkloadAffinityGroups> {
    let affinity = policy.placement.workload_affinity.as_ref()?;
    let group = |key: Option<&str>| {
        let value = key.and_then(|key| Some((key, template.labels.get(key)?)));
        value.map_or_else(String::new, |(key, value)| names::affinity_group(key, value))
    };
    let groups = WorkloadAffinityGroups {
        affinity_group: group(affinity.affinity.as_ref().map(|term| term.group_by_label_key.as_str())),
        anti_affinity_group: group(affinity.anti_affinity.as_ref().map(|term| term.group_by_label_key.as_str())),
    };
    (groups != WorkloadAffinityGroups::default()).then_some(groups)
}
