//! Capacity that is held for preemptors until they use it (specification/scheduling.md 15.7, step 5).

use std::{fmt, sync::Arc};

use ironclad_api::work::{ObjectReference, ResourceBinding, ResourceBindingSpec, TargetCluster};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName};

use super::{
    Capacity, Slot,
    demand::{Demand, Part},
    free::Assumed,
    models::Nodes,
    place,
};
use crate::{
    Options,
    estimator::{Before, SetPart, assumed_parts},
    options::schedules_component_sets,
    priority::priority,
};

/// Workload that asks for capacity: nominations of a lower priority, and its own, do not count for it. Who is nominated
/// comes before those of the same priority that were nominated after it.
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

    /// Somebody for whom no nomination counts, to look at the account without them.
    #[must_use]
    pub fn unyielding() -> Self {
        Self::with(None, i32::MAX)
    }

    /// A workload of this priority; without its template if nothing is held for it.
    #[must_use]
    pub(crate) fn with(template: Option<&'a ObjectReference>, priority: i32) -> Self {
        Self { template, priority }
    }

    pub(super) fn is(&self, nominated: &Nominated) -> bool {
        let other = &nominated.template;
        self.template.is_some_and(|own| {
            own.kind == other.kind
                && own.name == other.name
                && own.namespace == other.namespace
                && own.api_version == other.api_version
        })
    }
}

/// Capacity held for one preemptor in one cluster.
#[derive(Debug, Clone)]
pub(super) struct Nominated {
    template: Arc<ObjectReference>,
    priority: i32,
    /// Order of the nominations.
    number: u64,
    /// Request of one replica or one component set.
    pub(super) parts: Arc<[Part]>,
    /// The same with requirements on nodes.
    claimed: Arc<[SetPart]>,
    pub(super) count: i64,
}

impl fmt::Display for Nominated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectReference { namespace, name, .. } = &*self.template;
        write!(f, "{} held for {namespace}/{name}", self.count)
    }
}

impl Capacity {
    /// Holds capacity for a preemptor on the clusters that it is nominated for, instead of what was held for it before.
    /// A binding that is deleted or whose scheduling is suspended holds none.
    pub fn nominate(&mut self, binding: &ResourceBinding, nominated: &[TargetCluster], options: &Options) {
        let (spec, key) = (&binding.spec, BindingRef::from(binding).key());
        let clusters = self.nominations.get(&key).into_iter().flatten();
        let number = clusters.filter_map(|cluster| Some(self.slots.get(cluster)?.nominated.get(&key)?.number)).min();
        self.withdraw_nomination(&key);
        if nominated.is_empty() || binding.metadata.deletion_timestamp.is_some() || spec.scheduling_suspended() {
            return;
        }
        self.nominated += 1;
        let number = number.unwrap_or(self.nominated);
        let sets = spec.placement.as_ref().is_some_and(|placement| schedules_component_sets(options, spec, placement));
        let parts: Arc<[Part]> = Demand::of(spec, sets).into_parts().into();
        let claimed: Arc<[SetPart]> = assumed_parts(spec, &parts).into();
        let template = Arc::new(spec.resource.clone());
        for target in nominated {
            let count = if sets { 1 } else { i64::from(target.replicas) };
            let held = Nominated {
                template: template.clone(),
                priority: priority(spec),
                number,
                parts: parts.clone(),
                claimed: claimed.clone(),
                count,
            };
            let cluster = ClusterName::from(target.name.as_str());
            self.slots.entry(cluster.clone()).or_default().nominated.insert(key.clone(), held);
            self.changed(&cluster, false);
        }
        let clusters = nominated.iter().map(|target| target.name.as_str().into()).collect();
        self.nominations.insert(key, clusters);
    }

    /// Gives up what is held for a preemptor.
    pub fn withdraw_nomination(&mut self, key: &BindingKey) {
        for cluster in &self.nominations.remove(key).unwrap_or_default() {
            if let Some(slot) = self.slots.get_mut(cluster) {
                slot.nominated.remove(key);
                if slot.is_unused() {
                    self.slots.remove(cluster);
                }
            }
            self.changed(cluster, true);
        }
    }

    /// Number of bindings for which capacity is held.
    #[must_use]
    pub fn nominated_count(&self) -> usize {
        self.nominations.len()
    }

    /// Returns whether capacity is held for a binding.
    #[must_use]
    pub fn is_nominated(&self, key: &BindingKey) -> bool {
        self.nominations.contains_key(key)
    }

    /// Clusters on which capacity is held for a binding.
    pub(crate) fn nominated_on(&self, key: &BindingKey) -> &[ClusterName] {
        self.nominations.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a cluster has capacity that is held, or promised and not observed yet, for workloads that the
    /// asker yields to.
    pub(crate) fn awaits_others(&self, cluster: &ClusterName, asker: &Asker<'_>) -> bool {
        let Some(slot) = self.slots.get(cluster) else { return false };
        let promises = slot.workloads.values().filter_map(|key| self.promises.get(key)?.get(cluster));
        !slot.held(asker).is_empty() || promises.into_iter().any(|promise| promise.priority > asker.priority)
    }
}

/// Pods that nominations place.
pub(super) fn before(held: &[&Nominated]) -> Vec<Before> {
    let of = |held: &&Nominated| Before {
        namespace: held.template.namespace.clone(),
        parts: held.claimed.to_vec(),
        sets: held.count,
    };
    held.iter().map(of).collect()
}

impl Slot {
    /// The nominations that the asker yields to.
    pub(super) fn held(&self, asker: &Asker<'_>) -> Vec<&Nominated> {
        if self.nominated.is_empty() {
            return Vec::new();
        }
        let own = self.nominated.values().find(|held| asker.is(held));
        let comes_first = |held: &&Nominated| match own {
            Some(own) => held.number != own.number && (asker.priority, held.number) < (held.priority, own.number),
            None => asker.priority <= held.priority,
        };
        self.nominated.values().filter(comes_first).collect()
    }

    /// Replicas held for the asker itself, and all other nominations of its priority and of higher ones, if some of
    /// them come after it; `None` otherwise.
    pub(super) fn held_later(&self, asker: &Asker<'_>) -> Option<(i64, Vec<&Nominated>)> {
        let own = self.nominated.values().find(|held| asker.is(held))?;
        let others = self.nominated.values().filter(|held| held.number != own.number);
        let others: Vec<&Nominated> = others.filter(|held| asker.priority <= held.priority).collect();
        let is_later = |held: &&Nominated| held.priority == asker.priority && held.number > own.number;
        others.iter().any(is_later).then_some((own.count, others))
    }

    /// The nominations that a plan of the asker leaves alone: those that it yields to, and where capacity is held for
    /// it already, those of its priority that came later. A nomination that is renewed may grow beside them only.
    pub(super) fn held_in_plans(&self, asker: &Asker<'_>) -> Vec<&Nominated> {
        self.held_later(asker).map_or_else(|| self.held(asker), |(_, others)| others)
    }

    /// Amounts that are taken from the summary, and the nodes of the models, with these nominations.
    pub(super) fn with(&self, held: &[&Nominated]) -> (Assumed, Option<Nodes>) {
        let (mut taken, mut nodes) = (self.assumed.clone(), self.nodes.clone());
        for held in held {
            taken.add(&held.parts, held.count);
            if let Some(nodes) = &mut nodes {
                place(nodes, &held.parts, held.count);
            }
        }
        (taken, nodes)
    }
}
