//! Capacity that is held for preemptors until they use it (specification/scheduling.md 15.7, step 5).

use std::sync::Arc;

use ironclad_api::work::{ObjectReference, ResourceBinding, ResourceBindingSpec, TargetCluster};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName};

use super::{
    Capacity, Slot,
    demand::{Demand, Part},
    free::Assumed,
    models::Nodes,
    place,
};
use crate::{Options, options::schedules_component_sets, priority::priority};

/// Workload that asks for capacity: nominations of a lower priority, and its own, do not count for it.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Absent if nothing is held for the workload.
    template: Option<&'a ObjectReference>,
    priority: i32,
}

impl<'a> Asker<'a> {
    /// The workload of a binding with this spec.
    #[must_use]
    pub fn of(spec: &'a ResourceBindingSpec) -> Self {
        Self::with(Some(&spec.resource), priority(spec))
    }

    /// A workload of this priority; without its template if nothing is held for it.
    #[must_use]
    pub(crate) fn with(template: Option<&'a ObjectReference>, priority: i32) -> Self {
        Self { template, priority }
    }

    fn yields_to(&self, nominated: &Nominated) -> bool {
        let other = &nominated.template;
        let is_own = self.template.is_some_and(|own| {
            own.kind == other.kind
                && own.name == other.name
                && own.namespace == other.namespace
                && own.api_version == other.api_version
        });
        self.priority <= nominated.priority && !is_own
    }
}

/// Capacity held for one preemptor in one cluster.
#[derive(Debug, Clone)]
pub(super) struct Nominated {
    template: Arc<ObjectReference>,
    priority: i32,
    /// Request of one replica or one component set.
    parts: Arc<[Part]>,
    count: i64,
}

impl Capacity {
    /// Holds capacity for a preemptor on the clusters that it is nominated for, instead of what was held for it before.
    /// A binding that is deleted or whose scheduling is suspended holds none.
    pub fn nominate(&mut self, binding: &ResourceBinding, nominated: &[TargetCluster], options: &Options) {
        let (spec, key) = (&binding.spec, BindingRef::from(binding).key());
        self.withdraw_nomination(&key);
        if nominated.is_empty() || binding.metadata.deletion_timestamp.is_some() || spec.scheduling_suspended() {
            return;
        }
        let sets = spec.placement.as_ref().is_some_and(|placement| schedules_component_sets(options, spec, placement));
        let parts: Arc<[Part]> = Demand::of(spec, sets).into_parts().into();
        let template = Arc::new(spec.resource.clone());
        for target in nominated {
            let count = if sets { 1 } else { i64::from(target.replicas) };
            let held = Nominated { template: template.clone(), priority: priority(spec), parts: parts.clone(), count };
            let cluster = ClusterName::from(target.name.as_str());
            self.answers.forget(&cluster);
            self.slots.entry(cluster).or_default().nominated.insert(key.clone(), held);
        }
        let clusters = nominated.iter().map(|target| target.name.as_str().into()).collect();
        self.nominations.insert(key, clusters);
    }

    /// Gives up what is held for a preemptor. Returns the clusters that have more capacity for others by that.
    pub fn withdraw_nomination(&mut self, key: &BindingKey) -> Vec<ClusterName> {
        let clusters = self.nominations.remove(key).unwrap_or_default();
        for cluster in &clusters {
            self.answers.forget(cluster);
            let Some(slot) = self.slots.get_mut(cluster) else { continue };
            slot.nominated.remove(key);
            if slot.is_unused() {
                self.slots.remove(cluster);
            }
        }
        clusters
    }

    /// Number of bindings for which capacity is held.
    #[must_use]
    pub fn nominated_count(&self) -> usize {
        self.nominations.len()
    }
}

impl Slot {
    /// Amounts that are taken from the free capacity, and the nodes, with the nominations that the asker yields to;
    /// `None` if there are none.
    pub(super) fn held(
        &self,
        asker: &Asker<'_>,
        taken: &Assumed,
        nodes: Option<&Nodes>,
    ) -> Option<(Assumed, Option<Nodes>)> {
        if !self.nominated.values().any(|held| asker.yields_to(held)) {
            return None;
        }
        let (mut taken, mut nodes) = (taken.clone(), nodes.cloned());
        for held in self.nominated.values().filter(|held| asker.yields_to(held)) {
            taken.add(&held.parts, held.count);
            if let Some(nodes) = &mut nodes {
                place(nodes, &held.parts, held.count);
            }
        }
        Some((taken, nodes))
    }
}
