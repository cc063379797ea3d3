//! Objects that workloads refer to, propagated to the clusters of the workloads (specification/propagation.md 8).

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::work::{BindingSnapshot, ResourceBinding};
use ironclad_fleet::{Because, BindingKey, BindingRef, Gvk, ObjectKey, World, because::propagation::Reason};
use ironclad_interpreter::Dependency;
use ironclad_propagation::{
    dependencies::{self, Effect},
    detector::binding,
    template::Identity,
};
use serde_json::Value;

use super::{Replay, next_ids};

impl Replay<'_> {
    /// One reconcile of the dependencies of a template: creates, patches and deletes the bindings of the objects that
    /// its workload refers to.
    pub fn dependencies(&mut self, key: &ObjectKey) {
        let fleet = self.fleet.clone();
        let world = &fleet.world;
        let (Some(present), Some(template)) = (world.binding_of(key), world.templates.get(key)) else {
            return;
        };
        let (binding, interpreter) = (present.view(), self.interpreter);
        // A template that can't be read is the decision's to report.
        let needs = dependencies::needs(binding, Some(template), interpreter).unwrap_or_default();
        let objects: Vec<&Value> = needs.iter().flat_map(|need| found(world, need)).collect();
        let (edge, _) = dependencies::edge(binding);
        let attached: Vec<Arc<ResourceBinding>> = world
            .bindings
            .values()
            .filter(|one| {
                let view = BindingRef::from(&***one);
                let labels = one.metadata.labels.as_ref();
                labels.is_some_and(|labels| labels.contains_key(&edge))
                    || objects.iter().any(|object| {
                        let object = Identity::of(object);
                        let namespace = dependencies::dependents::namespace_of(binding, &object);
                        let name = ironclad_api::names::binding_name(object.kind, object.name);
                        binding::binds(view, &object)
                            || (*view.key().namespace == *namespace && *view.key().name == *name)
                    })
            })
            .cloned()
            .collect();
        let named = attached.iter().flat_map(|one| &one.spec.required_by);
        let referrers: Vec<BindingRef<'_>> = named.filter_map(|snapshot| referrer(world, snapshot)).collect();
        let seen = dependencies::Seen {
            unlisted: &[],
            binding,
            template: Some(template),
            objects: &objects,
            attached: &attached,
            referrers: &referrers,
            interpreter,
        };
        let plan = dependencies::decide(&seen, next_ids(&mut self.decisions));
        for effect in plan.effects {
            match effect {
                Effect::PatchBinding { patch } => self.fleet.patch_binding(&binding.key(), &patch),
                Effect::Create(binding) => self.fleet.world.insert_binding(*binding),
                Effect::Patch { key, patch } => self.fleet.patch_binding(&key, &patch),
                Effect::Delete { key, .. } => drop(self.fleet.world.bindings.remove(&key)),
                Effect::Retry | Effect::Event(_) => {}
            }
        }
        self.needs.extend(needs);
    }

    /// Objects whose referrers differ from those in `before`, with their referrers now.
    pub(crate) fn changed_dependencies(&self, before: &World) -> BTreeMap<ObjectKey, Vec<Because>> {
        let (before, after) = (&before.bindings, &self.fleet.world.bindings);
        let needed =
            |bindings: &BTreeMap<BindingKey, Arc<ResourceBinding>>, key: &BindingKey| -> Vec<BindingSnapshot> {
                bindings.get(key).map(|binding| binding.spec.required_by.clone()).unwrap_or_default()
            };
        let mut objects = BTreeMap::new();
        for (key, binding) in before.iter().chain(after) {
            let then = needed(after, key);
            if needed(before, key) == then {
                continue;
            }
            let by = |snapshot: &BindingSnapshot| {
                let (namespace, name) = (snapshot.namespace.as_str().into(), snapshot.name.as_str().into());
                Because::from(Reason::NeededBy { binding: BindingKey { namespace, name } })
            };
            let mut because: Vec<Because> = then.iter().map(by).collect();
            if because.is_empty() {
                because.push(Reason::NotNeeded { binding: key.clone() }.into());
            }
            let resource = &binding.spec.resource;
            let object = ObjectKey {
                gvk: Gvk::from_manifest(&resource.api_version, &resource.kind),
                namespace: resource.namespace.as_str().into(),
                name: resource.name.as_str().into(),
            };
            objects.insert(object, because);
        }
        objects
    }
}

/// The objects of the fleet that a reference means.
fn found<'a>(world: &'a World, need: &Dependency) -> Vec<&'a Value> {
    let key = ObjectKey {
        gvk: Gvk::from_manifest(&need.api_version, &need.kind),
        namespace: need.namespace.as_str().into(),
        name: need.name.as_str().into(),
    };
    if !need.name.is_empty() {
        return world.templates.get(&key).map(|object| &**object).into_iter().collect();
    }
    let all = world.templates.values().map(|object| &**object);
    all.filter(|object| dependencies::selects(need, &Identity::of(object))).collect()
}

fn referrer<'a>(world: &'a World, snapshot: &BindingSnapshot) -> Option<BindingRef<'a>> {
    let key = BindingKey { namespace: snapshot.namespace.as_str().into(), name: snapshot.name.as_str().into() };
    let namespaced = world.bindings.get(&key).map(|binding| BindingRef::Namespaced(binding));
    namespaced.or_else(|| world.cluster_bindings.get(&key).map(|binding| BindingRef::Cluster(binding)))
}
