//! The copy of the fleet that a plan changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    cluster::Cluster,
    policy::ClusterTaintPolicy,
    work::{AggregatedStatusItem, ResourceBindingSpec, ResourceBindingStatus},
};
use ironclad_failover::Bound;
use ironclad_fleet::{BindingKey, ClusterName, StatusPart, World};
use ironclad_patch::merge_patch;
use ironclad_scheduling as scheduling;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Clusters, bindings of both kinds and taint policies, with the indexes that keep an event's cost small.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    pub(crate) bindings: BTreeMap<BindingKey, Bound>,
    pub(crate) taint_policies: Vec<Arc<ClusterTaintPolicy>>,
    /// Which bindings each cluster is a target of.
    on: BTreeMap<ClusterName, BTreeSet<BindingKey>>,
    /// Which bindings have tasks.
    pub(crate) leaving: BTreeSet<BindingKey>,
}

impl Fleet {
    pub(crate) fn of(world: &World) -> Self {
        let mut fleet = Self {
            clusters: world.clusters.clone(),
            bindings: BTreeMap::new(),
            taint_policies: world.taint_policies.values().cloned().collect(),
            on: BTreeMap::new(),
            leaving: BTreeSet::new(),
        };
        for (key, binding) in &world.bindings {
            fleet.put(key, Bound::Namespaced(binding.clone()));
        }
        for (key, binding) in &world.cluster_bindings {
            fleet.put(key, Bound::Cluster(binding.clone()));
        }
        fleet
    }

    /// Puts a binding in the place of the one before, which is returned.
    pub(crate) fn put(&mut self, key: &BindingKey, binding: Bound) -> Option<Bound> {
        let tasks = !binding.spec().graceful_eviction_tasks.is_empty();
        if tasks {
            self.leaving.insert(key.clone())
        } else {
            self.leaving.remove(key)
        };
        let targets: Vec<ClusterName> = binding.spec().clusters.iter().map(|t| t.name.as_str().into()).collect();
        let before = self.bindings.insert(key.clone(), binding);
        for target in before.iter().flat_map(|before| &before.spec().clusters) {
            let name = ClusterName::from(target.name.as_str());
            if !targets.contains(&name)
                && let Some(on) = self.on.get_mut(&name)
            {
                on.remove(key);
            }
        }
        for target in targets {
            self.on.entry(target).or_default().insert(key.clone());
        }
        before
    }

    /// The bindings on a cluster.
    pub(crate) fn on<'a>(&'a self, cluster: &'a ClusterName) -> impl Iterator<Item = (ClusterName, Bound)> + 'a {
        let keys = self.on.get(cluster).into_iter().flatten();
        keys.filter_map(|key| Some((cluster.clone(), self.bindings.get(key)?.clone())))
    }
}

/// The binding as the scheduler takes it.
pub(crate) fn for_scheduler(binding: &Bound) -> scheduling::Binding<'_> {
    match binding {
        Bound::Namespaced(binding) => scheduling::Binding::from(&**binding),
        Bound::Cluster(binding) => scheduling::Binding::from(&**binding),
    }
}

/// The binding with a merge patch applied to it, its generation counted up if its spec changed.
pub(crate) fn patched_binding(binding: &Bound, patch: &Value) -> Bound {
    let before = binding.spec().clone();
    let mut after = match binding {
        Bound::Namespaced(binding) => Bound::Namespaced(Arc::new(merged(&**binding, patch))),
        Bound::Cluster(binding) => Bound::Cluster(Arc::new(merged(&**binding, patch))),
    };
    if *after.spec() != before {
        change(&mut after, |generation, _, _| *generation = Some(generation.unwrap_or_default() + 1));
    }
    after
}

/// The binding with a part of its status written.
pub(crate) fn with_status(binding: &Bound, part: &StatusPart) -> Bound {
    let current = serde_json::to_value(binding.status()).unwrap_or_default();
    let current = if current.is_null() { Value::Object(serde_json::Map::new()) } else { current };
    let status = serde_json::from_value(StatusPart::applied(&current, &[part])).ok();
    let mut after = binding.clone();
    change(&mut after, |_, _, standing| *standing = status);
    after
}

/// The binding with other reports from its clusters.
pub(crate) fn with_reports(binding: &Bound, reports: Vec<AggregatedStatusItem>) -> Bound {
    let mut after = binding.clone();
    change(&mut after, |_, _, status| status.get_or_insert_default().aggregated_status = reports);
    after
}

fn change(
    binding: &mut Bound,
    change: impl FnOnce(&mut Option<i64>, &mut ResourceBindingSpec, &mut Option<ResourceBindingStatus>),
) {
    match binding {
        Bound::Namespaced(binding) => {
            let binding = Arc::make_mut(binding);
            change(&mut binding.metadata.generation, &mut binding.spec, &mut binding.status);
        }
        Bound::Cluster(binding) => {
            let binding = Arc::make_mut(binding);
            change(&mut binding.metadata.generation, &mut binding.spec, &mut binding.status);
        }
    }
}

/// An object with a merge patch applied to it. A patch that makes nonsense of it changes nothing: decisions make none.
pub(crate) fn merged<K: Serialize + DeserializeOwned + Clone>(object: &K, patch: &Value) -> K {
    let Ok(mut value) = serde_json::to_value(object) else { return object.clone() };
    merge_patch(&mut value, patch);
    serde_json::from_value(value).unwrap_or_else(|_| object.clone())
}
