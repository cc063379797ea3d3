//! The binding controller: from bindings to Works, one for each target cluster (specification/propagation.md 9).

mod apply;
pub(crate) mod metrics;
mod observe;
mod waits;

use std::sync::Arc;

use ironclad_api::{
    cluster::Cluster,
    names,
    policy::{ClusterOverridePolicy, OverridePolicy},
    work::Work,
};
use ironclad_autoscaling::wakes::distributed_hpa::target as target_wakes;
use ironclad_fleet::{Binding, Gvk, ObjectKey};
use ironclad_propagation::{binding, new_ids::NewIds, overrides, wakes};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::Seam;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{ResourceExt as _, api::DynamicObject};

use self::{apply::Applier, metrics::BindingMetrics, observe::Observer, waits::SchedulerWaits};
use crate::{
    bindings::{BindingChange, Bindings, queue_key},
    controller::{Controller, Reconciler},
    index::{BY_TEMPLATE, binding_of, object_key, template_name},
    interpreter::{Interpreters, Resolved},
    objects::Objects,
    setup::{Setup, on_change, on_interpretation, on_template},
};

struct BindingController {
    seam: Seam,
    queue: Queue<Key>,
    bindings: Bindings,
    works: Informer<Work>,
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
        works: setup.works(),
        templates: setup.templates().clone(),
        interpreters: setup.interpreters().clone(),
        applier: Applier::new(setup, waits),
        metrics: setup.register(BindingMetrics::register),
        observer,
    });
    setup.bindings().on_change(&this, BindingController::on_binding);
    on_change(&setup.works(), &this, BindingController::on_work);
    on_change(setup.clusters(), &this, BindingController::on_cluster);
    on_change(&this.observer.overrides, &this, BindingController::on_override);
    on_change(&this.observer.cluster_overrides, &this, BindingController::on_cluster_override);
    on_change(&this.observer.scalers.hpas, &this, BindingController::on_autoscaler);
    on_template(setup, &this, BindingController::on_template);
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
        if wakes::changes::binding(change.old.as_ref().map(Binding::metadata), new.metadata()) {
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

    /// Enqueues the bindings with a copy in the cluster to which other overrides apply now.
    fn on_cluster(&self, change: &Change<Cluster>) {
        let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref()) else { return };
        if !wakes::binding::cluster(old, new) {
            return;
        }
        let mut policies = self.observer.overrides.list();
        policies.retain(|policy| overrides::differ(&policy.spec, old, new));
        let mut cluster_policies = self.observer.cluster_overrides.list();
        cluster_policies.retain(|policy| overrides::differ(&policy.spec, old, new));
        if policies.is_empty() && cluster_policies.is_empty() {
            return;
        }
        for work in self.works.namespace(&names::execution_namespace(&new.name_any())) {
            let Some(binding) = binding_of(&work).and_then(|key| self.bindings.get(&key)) else { continue };
            let template = &binding.spec().resource;
            let of_namespace = policies.iter().filter(|p| p.metadata.namespace.as_ref() == Some(&template.namespace));
            let mut specs = of_namespace.map(|p| &p.spec).chain(cluster_policies.iter().map(|p| &p.spec));
            if specs.any(|spec| overrides::may_take(spec, template)) {
                self.queue.add_low_priority(queue_key(&binding));
            }
        }
    }

    fn on_autoscaler(&self, change: &Change<HorizontalPodAutoscaler>) {
        self.enqueue_targets(change.old.as_deref(), change.new.as_deref());
    }

    /// Objects of some kinds scale others, and the owner of a Service's port may change without its content.
    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        if let Some(new) = &change.new
            && wakes::binding::owners(change.old.as_ref().map(|old| &old.metadata), &new.metadata)
        {
            self.enqueue_bindings(&object_key(gvk, &**new));
        }
        let (old, new) = self.observer.scalers.changed(gvk, change);
        if old.is_some() || new.is_some() {
            self.enqueue_targets(old.as_ref().map(|old| &*old.hpa), new.as_ref().map(|new| &*new.hpa));
        }
    }

    fn enqueue_targets(&self, old: Option<&HorizontalPodAutoscaler>, new: Option<&HorizontalPodAutoscaler>) {
        target_wakes(old, new).iter().for_each(|target| self.enqueue_bindings(target));
    }

    fn enqueue_bindings(&self, template: &ObjectKey) {
        for binding in self.bindings.by_index(BY_TEMPLATE, &template_name(template)) {
            self.queue.add(queue_key(&binding));
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
