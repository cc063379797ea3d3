//! The objects that decisions on evictions read, and the decisions of a leader that starts now.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::policy::ClusterTaintPolicy;
use ironclad_failover::{Evictions, Flags, Now, taint_manager::Row, taint_policy};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Clusters, World};
use jiff::Timestamp;

use crate::{Fleet, Settings};

/// The objects that decisions on evictions read.
#[derive(Debug, Default)]
pub struct Objects {
    pub clusters: Clusters,
    /// All ClusterTaintPolicies.
    pub policies: Vec<Arc<ClusterTaintPolicy>>,
    /// Bindings of all namespaces, or of one.
    pub bindings: Vec<Binding>,
}

impl Objects {
    /// Without the bindings of other namespaces.
    #[must_use]
    pub fn of(mut self, namespace: Option<&str>) -> Self {
        let is_in =
            |b: &Binding| b.metadata().namespace.as_deref().is_none_or(|own| namespace.is_none_or(|n| n == own));
        self.bindings.retain(is_in);
        self
    }

    /// The fleet of these objects, for a leader with these settings.
    #[must_use]
    pub fn fleet(&self, settings: &Settings) -> Fleet {
        let namespaced = self.bindings.iter().filter_map(|binding| match binding {
            Binding::Namespaced(one) => Some((binding.key(), one.clone())),
            Binding::Cluster(_) => None,
        });
        let world = World { clusters: self.clusters.clone(), bindings: namespaced.collect(), ..World::default() };
        Fleet { world, settings: settings.clone(), ..Fleet::default() }
    }

    /// Waiting evictions, decided from these objects, which must be those of all namespaces.
    #[must_use]
    pub fn rows(&self, flags: Flags, wall: Timestamp) -> Vec<Row> {
        let bindings: BTreeMap<BindingKey, Binding> = self.bindings.iter().map(|b| (b.key(), b.clone())).collect();
        let now = Now { wall, mono: std::time::Duration::ZERO };
        self.decisions(flags, wall).rows_from_objects(&bindings, &self.clusters, now)
    }

    /// The decisions as a leader that starts now with these flags would come to them.
    #[must_use]
    pub fn decisions(&self, flags: Flags, wall: Timestamp) -> Evictions {
        let now = Now { wall, mono: std::time::Duration::ZERO };
        let mut evictions = Evictions::new(flags, now);
        let mut faulty = BTreeMap::new();
        for (name, cluster) in &self.clusters {
            let recovering = taint_policy::is_recovering(cluster, &self.policies).into();
            if evictions.cluster(name, Some(cluster), recovering, now) {
                faulty.insert(name.clone(), ());
            }
        }
        let on = |name: &ClusterName| {
            let name = name.clone();
            let here = self.bindings.iter().filter(move |b| b.spec().target(&name.0).is_some());
            here.cloned().collect::<Vec<_>>()
        };
        let found: Vec<_> =
            faulty.keys().flat_map(|name| on(name).into_iter().map(|binding| (name.clone(), binding))).collect();
        evictions.evaluate(found, now);
        evictions
    }
}
