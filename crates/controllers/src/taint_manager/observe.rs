//! What the decisions on evictions are told: clusters, the bindings on them, and whether people paused evictions.

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    conditions::{self, binding::EVICTION_PENDING},
    namespaces,
    work::ResourceBindingSpec,
};
use ironclad_failover::{Bound, Evictions, Flags, Now, eviction::PAUSE_CONFIG_MAP, guards, taint_policy};
use ironclad_fleet::{BindingKey, ClusterName, gates::Gate};
use ironclad_runtime::{Key, WatchScope};
use kube::Api;

use crate::{AnyBinding, Context, index::BY_TARGET};

/// The flags, with what gates say.
pub(super) fn flags(cx: &Context) -> Flags {
    let mut flags = cx.settings.failover.clone();
    flags.eviction.state_preservation = cx.settings.gates.enabled(Gate::StatefulFailoverInjection);
    flags
}

/// Everything as it stands at the start, in one go, so that the line is in the order of due times (6.8).
pub(super) fn fill(cx: &Context, evictions: &mut Evictions, now: Now) {
    evictions.hold(if is_paused(cx) { guards::Held::Paused } else { guards::Held::No });
    let mut faulty = Vec::new();
    for (name, cluster) in cx.all_clusters().iter() {
        if evictions.cluster(name, Some(cluster), recovering(cx, cluster), now) {
            faulty.push(name.clone());
        }
    }
    let found: Vec<_> = faulty.iter().flat_map(|name| on(cx, name)).collect();
    evictions.evaluate(found, now);
    // What a process before this one showed, and did not live to take back.
    for bound in cx.bindings.list().into_iter().map(Bound::from) {
        if bound.status().is_some_and(|status| conditions::is_true(&status.conditions, EVICTION_PENDING)) {
            evictions.binding(&bound.key(), Some(&bound), now);
        }
    }
}

/// One cluster as it is now, and the bindings on it if they are to be evaluated.
pub(super) fn cluster(
    cx: &Context,
    evictions: &mut Evictions,
    name: &ClusterName,
    cluster: Option<&Arc<Cluster>>,
    now: Now,
) {
    let recovering = cluster.map_or(false.into(), |cluster| recovering(cx, cluster));
    if evictions.cluster(name, cluster.map(|cluster| &**cluster), recovering, now) {
        evictions.evaluate(on(cx, name), now);
    }
}

fn recovering(cx: &Context, cluster: &Cluster) -> ironclad_failover::eviction::Recovering {
    let faulty = ironclad_failover::taints::is_faulty(cluster);
    (faulty && taint_policy::is_recovering(cluster, &cx.taint_policies.list())).into()
}

/// All clusters, and all bindings on faulty ones, once more: the net under lost events.
pub(super) fn rescan(cx: &Context) {
    let clusters = cx.all_clusters();
    cx.taint_manager.tell(|evictions, now| {
        let gone: Vec<_> = evictions.episodes().keys().filter(|name| !clusters.contains_key(*name)).cloned().collect();
        for name in &gone {
            evictions.cluster(name, None, false.into(), now);
        }
        for (name, cluster) in clusters.iter() {
            evictions.cluster(name, Some(cluster), recovering(cx, cluster), now);
        }
        let faulty: Vec<_> = evictions.episodes().keys().cloned().collect();
        evictions.evaluate(faulty.iter().flat_map(|name| on(cx, name)), now);
    });
}

/// The bindings whose result has the cluster.
fn on(cx: &Context, name: &ClusterName) -> Vec<(ClusterName, Bound)> {
    cx.bindings.by_index(BY_TARGET, &name.0).into_iter().map(|binding| (name.clone(), binding.into())).collect()
}

/// The binding of this key, with what we wrote last.
pub(super) fn bound(cx: &Context, key: &BindingKey) -> Option<Bound> {
    cx.bindings.get(&Key::new(&key.namespace, &key.name)).map(Bound::from)
}

/// How many more replicas of a binding a cluster holds, as the scheduler would be told.
pub(super) fn room(cx: &Context, spec: &ResourceBindingSpec, cluster: &ClusterName) -> Option<i64> {
    let capacity = cx.scheduler.capacity();
    ironclad_scheduling::room_for_leaving(spec, cluster, &capacity, cx.scheduler.options())
}

/// Whether a change of a binding can change who is evicted.
pub(super) fn matters(old: &Bound, new: &Bound) -> bool {
    let (a, b) = (old.metadata(), new.metadata());
    a.uid != b.uid
        || a.generation != b.generation
        || a.deletion_timestamp != b.deletion_timestamp
        || a.annotations != b.annotations
        || old.spec().clusters != new.spec().clusters
        || old.is_observed() != new.is_observed()
}

/// Watches the ConfigMap by which people pause evictions, and waits until it is known.
pub(super) async fn watch_pause(cx: &Arc<Context>) {
    let informer = &cx.taint_manager.pause;
    let weak = Arc::downgrade(cx);
    informer.on_change(move |_| {
        if let Some(cx) = weak.upgrade() {
            super::on_pause(&cx);
        }
    });
    let scope = WatchScope { labels: None, fields: Some(format!("metadata.name={PAUSE_CONFIG_MAP}")) };
    let api = Api::namespaced(cx.plane.clone(), namespaces::SYSTEM);
    informer.start("failover pause", &cx.seam, &cx.seam.tasks, api, &scope);
    informer.synced().await;
}

/// Whether people paused evictions.
pub(super) fn is_paused(cx: &Context) -> bool {
    let found = cx.taint_manager.pause.get(namespaces::SYSTEM, PAUSE_CONFIG_MAP);
    guards::is_paused(found.as_ref().and_then(|map| map.data.as_ref()))
}

impl From<AnyBinding> for Bound {
    fn from(binding: AnyBinding) -> Self {
        match binding {
            AnyBinding::Namespaced(binding) => Self::Namespaced(binding),
            AnyBinding::Cluster(binding) => Self::Cluster(binding),
        }
    }
}

impl From<Bound> for AnyBinding {
    fn from(binding: Bound) -> Self {
        match binding {
            Bound::Namespaced(binding) => Self::Namespaced(binding),
            Bound::Cluster(binding) => Self::Cluster(binding),
        }
    }
}
