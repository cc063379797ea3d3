//! The copy of the fleet that the loops change, with the indexes that keep an event's cost small.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::policy::ClusterTaintPolicy;
use ironclad_fleet::{Binding, BindingKey, ClusterName, World};

use crate::world::put_binding;

/// Clusters, bindings of both kinds and taint policies.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) world: World,
    pub(super) taint_policies: Vec<Arc<ClusterTaintPolicy>>,
    /// Bindings by the clusters that they target.
    on: BTreeMap<ClusterName, BTreeSet<BindingKey>>,
    /// Bindings with graceful eviction tasks.
    pub(super) leaving: BTreeSet<BindingKey>,
}

impl Fleet {
    pub(super) fn of(world: &World) -> Self {
        let mut fleet = Self {
            world: world.clone(),
            taint_policies: world.taint_policies.values().cloned().collect(),
            on: BTreeMap::new(),
            leaving: BTreeSet::new(),
        };
        for binding in world.all_bindings() {
            fleet.put(&binding.key(), binding);
        }
        fleet
    }

    /// Puts a binding in the place of the one before, which is returned.
    pub(super) fn put(&mut self, key: &BindingKey, binding: Binding) -> Option<Binding> {
        if binding.spec().graceful_eviction_tasks.is_empty() {
            self.leaving.remove(key);
        } else {
            self.leaving.insert(key.clone());
        }
        let targets: Vec<ClusterName> = binding.spec().clusters.iter().map(|t| t.name.as_str().into()).collect();
        let before = put_binding(&mut self.world, key, binding);
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
    pub(super) fn on<'a>(&'a self, cluster: &'a ClusterName) -> impl Iterator<Item = (ClusterName, Binding)> + 'a {
        let keys = self.on.get(cluster).into_iter().flatten();
        keys.filter_map(|key| Some((cluster.clone(), self.world.binding(key)?)))
    }
}
