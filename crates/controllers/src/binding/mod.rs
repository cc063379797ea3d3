//! The binding controller: from bindings to Works, one for each target cluster (specification/propagation.md 9).

mod apply;
pub(crate) mod metrics;
mod observe;
mod waits;

use std::sync::Arc;

use ironclad_api::{
    policy::{ClusterOverridePolicy, OverridePolicy},
    work::Work,
};
use ironclad_autoscaling::distributed_hpa::wakes::target as target_wakes;
use ironclad_fleet::{Binding, Gvk};
use ironclad_propagation::{binding, changes, new_ids::NewIds, wakes};
use ironclad_runtime::{Change, Failure, Key, Next, Queue};
use ironclad_seam::Seam;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::DynamicObject;

use self::{apply::Applier, metrics::BindingMetrics, observe::Observer, waits::SchedulerWaits};
use crate::{
    bindings::{BindingChange, Bindings, queue_key},
    controller::{Controller, Reconciler},
    index::{BY_TEMPLATE, binding_of, template_name},
    interpreter::{Interpreters, Resolved},
    objects::Objects,
    setup::{Setup, on_change, on_interpretation},
};

struct BindingController {
    seam: Seam,
    queue: Queue<Key>,
    bindings: Bindings,
    templates: Arc<Objects<DynamicObject>>,
    interpreters: Arc<Interpreters>,
    observer: Observer,
    applier: Applier,
    metrics: BindingMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let waits = Arc::new(SchedulerWaits::default());
    let observer = Observer::new(setup, waits.clone());
    let this = Arc::new(BindingController {
        seam: setup.seam.clone(),
        queue: setup.queue(BindingController::NAME),
        bindings: setup.bindings().clone(),
        templates: setup.templates().clone(),
        interpreters: setup.interpreters().clone(),
        applier: Applier::new(setup, waits),
        metrics: setup.register(BindingMetrics::register),
        observer,
    });
    setup.bindings().on_change(&this, BindingController::on_binding);
    on_change(&setup.works(), &this, BindingController::on_work);
    on_change(&this.observer.overrides, &this, BindingController::on_override);
    on_change(&this.observer.cluster_overrides, &this, BindingController::on_cluster_override);
    on_change(&this.observer.autoscalers, &this, BindingController::on_autoscaler);
    on_interpretation(setup, &this, BindingController::on_interpretation);
    this
}

impl Reconciler for BindingController {
    type Key = Key;
    const NAME: &'static str = "binding";
    /// `--concurrent-resourcebinding-syncs`.
    const WORKERS: usize = 5;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key).await? else {
            self.applier.forget(key);
            return Ok(Next::Forget);
        };
        let ids = NewIds::from(self.seam.rng.uuid());
        let decide = || observed.with_seen(|seen| binding::decide(seen, ids.clone()));
        let Resolved { plan, retry } = self.interpreters.resolve(&observed.interpreter, decide).await;
        let (began, writes) = (self.seam.clock.mono(), !plan.is_quiet());
        let applied = self.applier.apply(key, &observed, plan).await;
        if writes {
            self.metrics.synced(self.seam.clock.mono() - began, &applied);
        }
        applied.map(|next| retry.next(next))
    }
}

impl BindingController {
    fn on_binding(&self, change: &BindingChange) {
        let Some(new) = &change.new else { return };
        if changes::binding(change.old.as_ref().map(Binding::metadata), new.metadata()) {
            self.queue.add(queue_key(new));
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        if wakes::binding::work(change.old.as_deref(), change.new.as_deref())
            && let Some(key) = change.old.as_deref().and_then(binding_of)
        {
            self.queue.add(key);
        }
    }

    fn on_override(&self, change: &Change<OverridePolicy>) {
        let Some(policy) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let (old, new) = (change.old.as_ref().map(|p| &p.spec), change.new.as_ref().map(|p| &p.spec));
        for binding in self.bindings.namespaced.namespace(policy.metadata.namespace.as_deref().unwrap_or_default()) {
            if wakes::binding::override_policy(old, new, &binding.spec.resource) {
                self.queue.add_low_priority(Key::of(&*binding));
            }
        }
    }

    fn on_cluster_override(&self, change: &Change<ClusterOverridePolicy>) {
        let (old, new) = (change.old.as_ref().map(|p| &p.spec), change.new.as_ref().map(|p| &p.spec));
        if old == new {
            return;
        }
        for binding in self.bindings.list() {
            if wakes::binding::override_policy(old, new, &binding.spec().resource) {
                self.queue.add_low_priority(queue_key(&binding));
            }
        }
    }

    fn on_autoscaler(&self, change: &Change<HorizontalPodAutoscaler>) {
        for target in target_wakes(change.old.as_deref(), change.new.as_deref()) {
            for binding in self.bindings.by_index(BY_TEMPLATE, &template_name(&target)) {
                self.queue.add(queue_key(&binding));
            }
        }
    }

    fn on_interpretation(&self, changed: &dyn Fn(&Gvk) -> bool) {
        for template in self.templates.keys(changed) {
            for binding in self.bindings.by_index(BY_TEMPLATE, &template_name(&template)) {
                self.queue.add_low_priority(queue_key(&binding));
            }
        }
    }
}
