//! Decision of the dependencies controller: propagates objects that a workload refers to along with it
//! (specification/propagation.md 8; specification/propagation.md 31 rows 16, 22, 23).

mod attached;
pub mod dependents;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ironclad_api::{annotations, events, finalizers, names, selector, work::ResourceBinding};
use ironclad_fleet::{
    Because, BindingKey, Event, Gvk, Plan, because::propagation::Reason, finalizer, merge_patch_between,
};
use ironclad_interpreter::{Dependency, InterpretError, Interpreter, Operation};
use serde_json::{Value, json};

use self::attached::Attached;
use crate::{
    detector::binding::{Binding, binds},
    new_ids::NewIds,
    skipped_resources,
    template::Identity,
};

/// Snapshot of one binding that may have dependencies (the independent binding).
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub binding: Binding<'a>,
    /// Its template, if it exists.
    pub template: Option<&'a Value>,
    /// The objects that [`needs`] named or selected, as far as they exist.
    pub objects: &'a [&'a Value],
    /// Kinds whose objects are unknown now, since they could not be listed: what is attached stays.
    pub unlisted: &'a [Gvk],
    /// The attached bindings: those with this binding's `depended-by` label, those of `objects`, and those under the
    /// default names of such bindings.
    pub attached: &'a [Arc<ResourceBinding>],
    /// All bindings in `requiredBy` of `attached`. One that is missing here counts as deleted.
    pub referrers: &'a [Binding<'a>],
    /// Resource interpreter.
    pub interpreter: &'a Interpreter,
}

/// Write or event.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Patch the finalizer and annotation of the independent binding.
    PatchBinding {
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Create an attached binding.
    Create(Box<ResourceBinding>),
    /// Patch an attached binding.
    Patch {
        key: BindingKey,
        /// Merge patch without resourceVersion.
        patch: Value,
    },
    /// Delete an attached binding that no binding requires.
    Delete { key: BindingKey, uid: String },
    /// Reconcile again with back-off.
    Retry,
    /// Record an event.
    Event(Event),
}

/// The dependencies of the template, sorted, to look up before [`decide`]; none if the binding does not propagate any.
///
/// # Errors
/// If the template is malformed.
pub fn needs(
    binding: Binding<'_>,
    template: Option<&Value>,
    interpreter: &Interpreter,
) -> Result<Vec<Dependency>, InterpretError> {
    let Some(template) = template.filter(|_| follows(binding)) else { return Ok(Vec::new()) };
    if !interpreter.implements(&Identity::of(template).gvk(), Operation::InterpretDependency) {
        return Ok(Vec::new());
    }
    let mut dependencies = interpreter.dependencies(template)?;
    dependencies.retain(|one| {
        let gvk = Gvk::from_manifest(&one.api_version, &one.kind);
        !skipped_resources::is_of_each_cluster(&gvk, &one.namespace, &one.name)
    });
    Ok(dependencies)
}

fn follows(binding: Binding<'_>) -> bool {
    binding.spec().propagate_deps && !binding.is_deleting()
}

/// Returns true if a dependency selects this object.
#[must_use]
pub fn selects(dependency: &Dependency, object: &Identity<'_>) -> bool {
    if dependency.api_version != object.api_version
        || dependency.kind != object.kind
        || dependency.namespace != object.namespace
    {
        return false;
    }
    if !dependency.name.is_empty() {
        return dependency.name == object.name;
    }
    let selector = dependency.label_selector.clone().and_then(|s| serde_json::from_value(s).ok());
    selector.is_some_and(|s| selector::matches(&s, &object.labels).unwrap_or(false))
}

/// Returns true if a change of this object reconciles the binding: its recorded dependencies select it
/// (specification/propagation.md 8.1). If labels changed, check both the old and the new object.
#[must_use]
pub fn recorded_selects(binding: Binding<'_>, object: &Identity<'_>) -> bool {
    let text = binding.metadata().annotations.as_ref().and_then(|map| map.get(annotations::DEPENDENCIES));
    let list: Option<Vec<Dependency>> = text.and_then(|text| serde_json::from_str(text).ok());
    list.is_some_and(|list| list.iter().any(|dependency| selects(dependency, object)))
}

/// The label by which an attached binding refers to this one, and its value.
#[must_use]
pub fn edge(binding: Binding<'_>) -> (String, String) {
    let key = binding.key();
    (names::depended_by_label(&key.namespace, &key.name), binding.permanent_id().unwrap_or_default().to_owned())
}

/// Attaches the objects that the template refers to, and releases those that it no longer refers to.
pub fn decide(seen: &Seen<'_>, mut ids: NewIds) -> Plan<Effect> {
    let mut plan = Plan::default();
    let binding = seen.binding;
    if !follows(binding) {
        release_all(&mut plan, seen);
        return plan;
    }
    let (Some(template), Some(_)) = (seen.template, binding.permanent_id()) else { return plan };
    let dependencies = match needs(binding, seen.template, seen.interpreter) {
        Ok(dependencies) => dependencies,
        Err(error) => {
            let message = error.to_string();
            let about = Identity::of(template).reference();
            plan.effects.push(Effect::Event(Event::warning(about, events::GET_DEPENDENCIES_FAILED, message.clone())));
            plan.push(Effect::Retry, Reason::NotInterpreted { message }.into());
            return plan;
        }
    };
    record(&mut plan, binding, &dependencies);
    let (label, _) = edge(binding);
    let required: Vec<Identity<'_>> = seen
        .objects
        .iter()
        .map(|object| Identity::of(object))
        .filter(|object| dependencies.iter().any(|dependency| selects(dependency, object)))
        .collect();
    for existing in seen.attached.iter().filter(|one| has_label(one, &label)) {
        let resource = &existing.spec.resource;
        if seen.unlisted.contains(&Gvk::from_manifest(&resource.api_version, &resource.kind)) {
            continue;
        }
        let still = required.iter().any(|object| binds(Binding::from(&**existing), object));
        if !still {
            Attached::of(existing, seen).release(&mut plan, binding);
        }
    }
    for object in seen.objects {
        let identity = Identity::of(object);
        if required.iter().any(|one| one.key() == identity.key()) {
            attach(&mut plan, seen, object, &identity, &mut ids);
        }
    }
    plan
}

/// Returns true if the plan creates the binding of a cluster-scoped object. Referrers of several namespaces share it,
/// so that of two such plans the second one has to be decided with the first one's binding.
#[must_use]
pub fn creates_shared(plan: &Plan<Effect>) -> bool {
    let is_shared = |effect: &Effect| match effect {
        Effect::Create(binding) => binding.spec.resource.namespace.is_empty(),
        _ => false,
    };
    plan.effects.iter().any(is_shared)
}

fn has_label(binding: &ResourceBinding, label: &str) -> bool {
    binding.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label))
}

/// Finalizer and annotation of the independent binding. They are written first, so that a crash leaves no attached
/// binding unreleased.
fn record(plan: &mut Plan<Effect>, binding: Binding<'_>, dependencies: &[Dependency]) {
    let metadata = binding.metadata();
    let text = serde_json::to_string(dependencies).expect("references are plain data");
    let mut annotation_map = metadata.annotations.clone().unwrap_or_default();
    annotation_map.insert(annotations::DEPENDENCIES.into(), text);
    let old = json!({"annotations": metadata.annotations});
    let mut patch = merge_patch_between(&old, &json!({"annotations": annotation_map})).unwrap_or_else(|| json!({}));
    if let Some(list) = finalizer::added(metadata, finalizers::BINDING_DEPENDENCIES_DISTRIBUTOR) {
        patch["finalizers"] = json!(list);
    }
    if patch != json!({}) {
        plan.effects.push(Effect::PatchBinding { patch: json!({"metadata": patch}) });
    }
}

fn attach(plan: &mut Plan<Effect>, seen: &Seen<'_>, object: &Value, identity: &Identity<'_>, ids: &mut NewIds) {
    let existing = seen.attached.iter().find(|one| binds(Binding::from(&***one), identity));
    match existing {
        Some(existing) => {
            let controller =
                existing.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
            if controller.is_some_and(|owner| owner.uid != identity.uid)
                || existing.metadata.deletion_timestamp.is_some()
            {
                let because = Because::from(Reason::BindingOfOldTemplate { binding: Binding::from(&**existing).key() });
                let about = seen.binding.reference();
                let event =
                    Event::warning(about, events::SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_FAILED, because.to_string());
                plan.effects.push(Effect::Event(event));
                plan.push(Effect::Retry, because);
                return;
            }
            Attached::of(existing, seen).attach(plan, seen.binding, object);
        }
        // Not scheduled yet: there are no clusters to propagate to.
        None if seen.binding.spec().clusters.is_empty() => {}
        None => {
            let namespace = dependents::namespace_of(seen.binding, identity);
            if namespace.is_empty() {
                // A cluster-scoped object of a cluster-scoped workload has no namespace for an attached binding.
                return;
            }
            let first = names::binding_name(identity.kind, identity.name);
            let taken = seen.attached.iter().any(|one| {
                one.metadata.name.as_deref() == Some(first.as_str())
                    && one.metadata.namespace.as_deref() == Some(namespace.as_str())
            });
            let name = if taken { format!("{first}-{}", names::hash(identity.group())) } else { first };
            Attached::fresh(&namespace, &name, seen).create(plan, seen.binding, object, ids);
        }
    }
}

/// Releases all attached bindings, then removes finalizer and annotation.
fn release_all(plan: &mut Plan<Effect>, seen: &Seen<'_>) {
    let (label, _) = edge(seen.binding);
    for existing in seen.attached.iter().filter(|one| has_label(one, &label)) {
        Attached::of(existing, seen).release(plan, seen.binding);
    }
    let metadata = seen.binding.metadata();
    let mut patch = serde_json::Map::new();
    if let Some(rest) = finalizer::removed(metadata, finalizers::BINDING_DEPENDENCIES_DISTRIBUTOR) {
        patch.insert("finalizers".into(), json!(rest));
    }
    if metadata.annotations.as_ref().is_some_and(|map| map.contains_key(annotations::DEPENDENCIES)) {
        patch.insert("annotations".into(), json!({annotations::DEPENDENCIES: null}));
    }
    if !patch.is_empty() {
        plan.effects.push(Effect::PatchBinding { patch: json!({"metadata": patch}) });
    }
}
