//! Index of placed bindings by cluster and priority: who could make room where (specification/scheduling.md 15.3).
//!
//! A changed binding costs its own targets. A search on a cluster reads the bindings below a priority only.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    conditions::{TRUE, binding::PREEMPTED},
    eviction::BINDING_PREEMPTED,
    policy::DEFAULT_SCHEDULER_NAME,
    work::{GracefulEvictionTask, ResourceBinding, ResourceBindingSpec},
};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName};
use jiff::Timestamp;

use crate::{
    capacity::{
        Footprint,
        demand::{self, Demand},
    },
    estimator::Workload,
    preempt::preemptors::NOMINATED_FOR,
    priority::priority,
};

/// Placed ResourceBindings by cluster, and those that were preempted.
#[derive(Debug, Clone, Default)]
pub struct Placed {
    clusters: BTreeMap<ClusterName, Occupants>,
    entries: BTreeMap<BindingKey, Entry>,
    /// Bindings that were preempted, with the time of the last preemption.
    preempted: BTreeMap<BindingKey, Option<Timestamp>>,
}

/// Places of one binding in the index.
#[derive(Debug, Clone)]
struct Entry {
    priority: i32,
    clusters: Box<[ClusterName]>,
}

/// A binding on one cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Occupant {
    pub(super) workload: Workload,
    /// Requests of the replicas that its result names on the cluster.
    pub(super) footprint: Footprint,
    /// Replicas of its target there.
    pub(super) replicas: i32,
    /// `status.lastScheduledTime`.
    pub(super) scheduled: Option<Timestamp>,
    /// Affinity group; its members share their clusters.
    pub(super) group: Option<Arc<str>>,
    /// Responsible scheduler; `None` is the one with the default name.
    pub(super) scheduler: Option<Arc<str>>,
    /// False if it is being deleted or its scheduling is suspended: it could not be placed again.
    pub(super) may_leave: bool,
    /// Time of its last preemption from any cluster.
    pub(super) preempted: Option<Timestamp>,
}

/// Footprint of a binding with `replicas` on a cluster. A workload of several components is there as a whole.
fn footprint(spec: &ResourceBindingSpec, replicas: i32) -> Footprint {
    let whole = !spec.components.is_empty() && replicas == 0;
    let (parts, count) = (Demand::of(spec, whole).into_parts(), if whole { 1 } else { i64::from(replicas) });
    let mut amounts = demand::total(&parts);
    amounts.values_mut().for_each(|amount| *amount = amount.saturating_mul(count));
    Footprint::new(amounts, demand::pods(&parts).saturating_mul(count))
}

/// Bindings on one cluster, by priority.
#[derive(Debug, Clone, Default)]
pub(super) struct Occupants(BTreeMap<(i32, BindingKey), Occupant>);

impl Occupants {
    /// Number of bindings.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether any has a priority below this one.
    pub(super) fn has_below(&self, priority: i32) -> bool {
        self.0.first_key_value().is_some_and(|((lowest, _), _)| *lowest < priority)
    }

    /// Those with a priority below this one, lowest first.
    pub(super) fn below(&self, priority: i32) -> impl Iterator<Item = (i32, &BindingKey, &Occupant)> {
        let below = self.0.iter().take_while(move |((other, _), _)| *other < priority);
        below.map(|((priority, key), occupant)| (*priority, key, occupant))
    }

    /// Those with this priority or a higher one.
    pub(super) fn from(&self, priority: i32) -> impl Iterator<Item = (&BindingKey, &Occupant)> {
        let from = self.0.iter().rev().take_while(move |((other, _), _)| *other >= priority);
        from.map(|((_, key), occupant)| (key, occupant))
    }
}

impl Placed {
    /// Index of these bindings, for a single question.
    #[must_use]
    pub fn of<'a>(bindings: impl IntoIterator<Item = &'a ResourceBinding>) -> Self {
        let mut placed = Self::default();
        for binding in bindings {
            placed.update(binding);
        }
        placed
    }

    /// Records a binding that was added or changed.
    pub fn update(&mut self, binding: &ResourceBinding) {
        let view = BindingRef::from(binding);
        let (spec, key) = (&binding.spec, view.key());
        let before = self.preempted.get(&key).copied().flatten();
        self.remove(&key);
        let preempted = preempted_at(binding).max(before);
        let scheduler = named(&spec.scheduler_name).map(Arc::<str>::from);
        let group = spec.workload_affinity_groups.as_ref().map(|groups| groups.affinity_group.as_str());
        let group: Option<Arc<str>> = group.filter(|group| !group.is_empty()).map(Into::into);
        let priority = priority(spec);
        let may_leave = binding.metadata.deletion_timestamp.is_none() && !spec.scheduling_suspended();
        let workload = Workload::from(&spec.resource);
        let mut clusters = Vec::with_capacity(spec.clusters.len());
        for target in &spec.clusters {
            let footprint = footprint(spec, target.replicas);
            // Without requests it frees nothing (specification/scheduling.md 15.3).
            if !footprint.requests_resources() {
                continue;
            }
            let occupant = Occupant {
                workload,
                footprint,
                replicas: target.replicas,
                scheduled: view.last_scheduled(),
                group: group.clone(),
                scheduler: scheduler.clone(),
                may_leave,
                preempted,
            };
            // The names are those of the index: each exists once.
            let cluster = ClusterName::from(target.name.as_str());
            let cluster = self.clusters.get_key_value(&cluster).map_or(cluster, |(known, _)| known.clone());
            self.clusters.entry(cluster.clone()).or_default().0.insert((priority, key.clone()), occupant);
            clusters.push(cluster);
        }
        if preempted.is_some() || tasks(binding).next().is_some() {
            self.preempted.insert(key.clone(), preempted);
        }
        if !clusters.is_empty() {
            self.entries.insert(key, Entry { priority, clusters: clusters.into() });
        }
    }

    /// Returns whether a change of a binding is none for the index: reports of clusters change a status often.
    #[must_use]
    pub fn is_unchanged(old: &ResourceBinding, new: &ResourceBinding) -> bool {
        let read = |binding: &ResourceBinding| {
            let scheduled = BindingRef::from(binding).last_scheduled();
            (binding.metadata.generation, binding.metadata.deletion_timestamp.is_some(), scheduled)
        };
        // A preemption changes the spec, too, so the condition need not be compared.
        read(old) == read(new)
    }

    /// Forgets a binding.
    pub fn remove(&mut self, key: &BindingKey) {
        self.preempted.remove(key);
        let Some(entry) = self.entries.remove(key) else { return };
        for cluster in &entry.clusters {
            if let Some(all) = self.clusters.get_mut(cluster) {
                all.0.remove(&(entry.priority, key.clone()));
                if all.0.is_empty() {
                    self.clusters.remove(cluster);
                }
            }
        }
    }

    /// Returns whether a binding was preempted while this index followed it.
    #[must_use]
    pub fn was_preempted(&self, key: &BindingKey) -> bool {
        self.preempted.contains_key(key)
    }

    /// Bindings that were preempted lately: no nomination lasts longer.
    #[must_use]
    pub fn preempted(&self, now: Timestamp) -> Vec<BindingKey> {
        let is_recent =
            |at: &Option<Timestamp>| at.is_none_or(|at| now.duration_since(at) < NOMINATED_FOR.saturating_mul(2));
        self.preempted.iter().filter(|(_, at)| is_recent(at)).map(|(key, _)| key.clone()).collect()
    }

    /// Bindings on the cluster.
    pub(super) fn on(&self, cluster: &ClusterName) -> Option<&Occupants> {
        self.clusters.get(cluster)
    }

    /// Priority with which a binding is in the index.
    pub(super) fn priority_of(&self, key: &BindingKey) -> Option<i32> {
        self.entries.get(key).map(|entry| entry.priority)
    }
}

/// Name of a scheduler; `None` is the one with the default name.
pub(super) fn named(scheduler: &str) -> Option<&str> {
    Some(scheduler).filter(|name| !name.is_empty() && *name != DEFAULT_SCHEDULER_NAME)
}

/// Tasks of preemptions.
fn tasks(binding: &ResourceBinding) -> impl Iterator<Item = &GracefulEvictionTask> {
    binding.spec.graceful_eviction_tasks.iter().filter(|task| task.reason == BINDING_PREEMPTED)
}

/// Time of a binding's last preemption, from its tasks and its condition.
fn preempted_at(binding: &ResourceBinding) -> Option<Timestamp> {
    let of_tasks = tasks(binding).filter_map(|task| task.creation_timestamp.as_ref().map(|time| time.0)).max();
    let conditions = binding.status.iter().flat_map(|status| &status.conditions);
    let of_condition = conditions
        .filter(|condition| condition.type_ == PREEMPTED && condition.status == TRUE)
        .map(|condition| condition.last_transition_time.0)
        .max();
    of_tasks.max(of_condition)
}
