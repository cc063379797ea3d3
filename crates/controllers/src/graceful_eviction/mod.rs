//! The graceful eviction controller: ends the tasks of bindings that left a cluster, once the copy there may be deleted
//! (specification/failover.md 7).
//!
//! It does not depend on gate `Failover`: evictions that began are finished even if the gate is switched off meanwhile.

mod apply;
pub(crate) mod metrics;
mod observe;

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, work::GracefulEvictionTask};
use ironclad_failover::{
    graceful_eviction,
    wakes::{self, Parts},
};
use ironclad_fleet::Binding;
use ironclad_runtime::{Change, Failure, Key, Next, Queue};
use ironclad_seam::Seam;
use kube::ResourceExt as _;

use self::{apply::Applier, metrics::GracefulMetrics, observe::Observer};
use crate::{
    bindings::{BindingChange, Bindings, queue_key},
    controller::{Controller, Reconciler},
    index::{BY_EVICTION, BY_PREEMPTOR, BY_TARGET},
    settings::Settings,
    setup::{Setup, on_change},
};

struct GracefulEviction {
    seam: Seam,
    settings: Arc<Settings>,
    queue: Queue<Key>,
    bindings: Bindings,
    observer: Observer,
    applier: Applier,
    metrics: GracefulMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let metrics = setup.register(GracefulMetrics::register);
    let this = Arc::new(GracefulEviction {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        queue: setup.queue(GracefulEviction::NAME),
        bindings: setup.bindings().clone(),
        observer: Observer::new(setup),
        applier: Applier::new(setup, metrics.clone()),
        metrics,
    });
    setup.bindings().on_change(&this, GracefulEviction::on_binding);
    on_change(setup.clusters(), &this, GracefulEviction::on_cluster);
    this
}

impl Reconciler for GracefulEviction {
    type Key = Key;
    const NAME: &'static str = "gracefulEviction";
    /// Bindings that are assessed at once.
    const WORKERS: usize = 5;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(seen) = self.observer.observe(key) else { return Ok(Next::Forget) };
        let plugins = &self.settings.failover.evict_plugins;
        let decision = graceful_eviction::decide(&seen, plugins, self.seam.clock.wall_seconds());
        self.applier.apply(key, &seen, &decision).await
    }
}

impl GracefulEviction {
    fn on_binding(&self, change: &BindingChange) {
        fn parts(binding: &Binding) -> Parts<'_> {
            (binding.metadata(), binding.spec(), binding.status())
        }
        fn tasks(parts: Option<Parts<'_>>) -> &[GracefulEvictionTask] {
            parts.map(|(_, spec, _)| spec.graceful_eviction_tasks.as_slice()).unwrap_or_default()
        }
        let (old, new) = (change.old.as_ref().map(parts), change.new.as_ref().map(parts));
        self.metrics.moved(tasks(old), tasks(new));
        let stale_pending = new.is_some_and(|(_, _, status)| self.observer.is_stale_pending(status));
        if (stale_pending || wakes::graceful_eviction::binding(old, new))
            && let Some((metadata, ..)) = new
        {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            self.queue.add(Key::new(&text(&metadata.namespace), &text(&metadata.name)));
        }
        if let Some(preemptor) = &change.old
            && wakes::graceful_eviction::preemptor(
                change.old.as_ref().map(Binding::view),
                change.new.as_ref().map(Binding::view),
            )
        {
            for victim in self.bindings.by_index(BY_PREEMPTOR, &preemptor.view().key().to_string()) {
                self.queue.add(queue_key(&victim));
            }
        }
    }

    /// Enqueues the bindings that leave the cluster, and those that leave another one for it.
    fn on_cluster(&self, change: &Change<Cluster>) {
        let Some(cluster) = change.new.as_ref().or(change.old.as_ref()) else { return };
        if !wakes::graceful_eviction::cluster(change.old.as_deref(), change.new.as_deref()) {
            return;
        }
        let name = cluster.name_any();
        let moving = |binding: &Binding| !binding.spec().graceful_eviction_tasks.is_empty();
        let arriving = self.bindings.by_index(BY_TARGET, &name).into_iter().filter(moving);
        for binding in self.bindings.by_index(BY_EVICTION, &name).into_iter().chain(arriving) {
            self.queue.add(queue_key(&binding));
        }
    }
}
