//! The controller of distributed HorizontalPodAutoscalers: one in each member, and what members decided
//! (specification/autoscaling.md 6).

mod apply;
pub(crate) mod metrics;
mod observe;

use std::sync::Arc;

use ironclad_api::{
    autoscaling::FederatedHPA,
    cluster::Cluster,
    policy::{ClusterOverridePolicy, FederatedResourceQuota, OverridePolicy},
    work::{ResourceBinding, Work},
};
use ironclad_autoscaling::distributed_hpa::{self, decides_in_members, reference_of, target_key, target_keys, wakes};
use ironclad_fleet::Gvk;
use ironclad_propagation::{new_ids::NewIds, quota::COUNT_SETTLES, wakes::quota::records_decisions};
use ironclad_runtime::{Change, Failure, Key, Next, Queue};
use ironclad_seam::{Seam, Tasks};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{ResourceExt as _, api::DynamicObject};

use self::{apply::Applier, metrics::DistributedHpaMetrics, observe::Observer};
use crate::{
    controller::{Controller, Reconciler},
    index::{BY_SCALED, BY_TARGET, binding_of, object_key, scaled, template_name, template_of},
    setup::{Setup, on_change, on_interpretation, on_template},
};

/// Name in `--controllers`.
pub(crate) const NAME: &str = "distributedHorizontalPodAutoscaler";

struct DistributedAutoscaler {
    seam: Seam,
    queue: Queue<Key>,
    observer: Observer,
    applier: Applier,
    metrics: DistributedHpaMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let observer = Observer::new(setup);
    let this = Arc::new(DistributedAutoscaler {
        seam: setup.seam.clone(),
        queue: setup.queue(DistributedAutoscaler::NAME),
        applier: Applier::new(setup, &observer),
        metrics: setup.register(DistributedHpaMetrics::register),
        observer,
    });
    on_change(&this.observer.autoscalers, &this, DistributedAutoscaler::on_autoscaler);
    on_change(&this.observer.federated, &this, DistributedAutoscaler::on_federated);
    on_change(&setup.bindings().namespaced, &this, DistributedAutoscaler::on_binding);
    on_change(setup.clusters(), &this, DistributedAutoscaler::on_cluster);
    on_change(&setup.works(), &this, DistributedAutoscaler::on_work);
    on_change(&this.observer.overrides, &this, DistributedAutoscaler::on_override);
    on_change(&this.observer.cluster_overrides, &this, DistributedAutoscaler::on_cluster_override);
    if let Some(quotas) = &this.observer.quotas {
        on_change(quotas, &this, DistributedAutoscaler::on_quota);
    }
    on_template(setup, &this, DistributedAutoscaler::on_template);
    on_interpretation(setup, &this, DistributedAutoscaler::on_interpretation);
    this
}

impl Reconciler for DistributedAutoscaler {
    type Key = Key;
    const NAME: &'static str = NAME;
    /// Objects that are reconciled at once.
    const WORKERS: usize = 3;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let began = self.seam.clock.mono();
        let outcome = self.observe_and_apply(key).await;
        self.metrics.processed(self.seam.clock.mono() - began, &outcome);
        outcome
    }

    fn start_beside(self: &Arc<Self>, _: &Tasks) {
        self.observer.starts_at(self.seam.clock.wall_seconds());
    }

    fn is_quiet_beside(&self) -> bool {
        self.applier.is_quiet()
    }
}

impl DistributedAutoscaler {
    async fn observe_and_apply(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key).await? else { return Ok(Next::Forget) };
        let ids = NewIds::from(self.seam.rng.uuid());
        let plan = observed.with_seen(|seen| distributed_hpa::decide(seen, ids));
        self.applier.apply(key, &observed, plan).await
    }

    fn enqueue_scalers_of(&self, target: &str) {
        for hpa in self.observer.autoscalers.by_index(BY_SCALED, target).iter().filter(|hpa| decides_in_members(hpa)) {
            self.queue.add(Key::of(&**hpa));
        }
    }

    /// Reconciles all that share the quotas of a namespace, after a while, so that many changes are one reconcile.
    fn enqueue_sharers(&self, namespace: Option<&str>) {
        let Some(namespace) = namespace.filter(|namespace| self.observer.has_quota(namespace)) else { return };
        for hpa in self.observer.autoscalers.namespace(namespace).iter().filter(|hpa| decides_in_members(hpa)) {
            self.queue.add_after(Key::of(&**hpa), COUNT_SETTLES);
        }
    }

    fn on_quota(&self, change: &Change<FederatedResourceQuota>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(quota) = new.or(old).filter(|_| wakes::quota(old, new)) else { return };
        for hpa in self.observer.autoscalers.namespace(&quota.namespace().unwrap_or_default()) {
            if decides_in_members(&hpa) {
                self.queue.add(Key::of(&*hpa));
            }
        }
    }

    fn on_autoscaler(&self, change: &Change<HorizontalPodAutoscaler>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if wakes::claim(old, new) {
            self.enqueue_sharers(new.or(old).and_then(|hpa| hpa.metadata.namespace.as_deref()));
        }
        if !wakes::autoscaler(old, new) || ![old, new].into_iter().flatten().any(decides_in_members) {
            return;
        }
        if let Some(new) = new {
            self.queue.add(Key::of(new));
        }
        for hpa in [old, new].into_iter().flatten() {
            // Another one with this target may have to begin, or to cease.
            target_keys(hpa).iter().for_each(|target| self.enqueue_scalers_of(&template_name(target)));
        }
    }

    fn on_federated(&self, change: &Change<FederatedHPA>) {
        for hpa in [&change.old, &change.new].into_iter().flatten() {
            self.enqueue_scalers_of(&scaled(hpa));
        }
    }

    fn on_binding(&self, change: &Change<ResourceBinding>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(binding) = new.or(old).filter(|_| wakes::binding(old, new)) {
            self.enqueue_scalers_of(&template_of(&binding.spec));
        }
        if wakes::usage(old, new) {
            self.enqueue_sharers(new.or(old).and_then(|binding| binding.metadata.namespace.as_deref()));
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(cluster) = new.or(old).filter(|_| wakes::cluster(old, new)) else { return };
        for binding in self.observer.bindings.by_index(BY_TARGET, &cluster.name_any()) {
            self.enqueue_scalers_of(&template_of(&binding.spec));
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some((namespace, name)) = wakes::work(old, new) {
            if let Some(new) = new.filter(|new| wakes::is_report(old, new)) {
                self.observer.note_report(new);
            }
            self.queue.add(Key::new(&namespace, &name));
        } else if let Some(key) = new.or(old).and_then(binding_of)
            && wakes::target_work(old, new)
            && let Some(binding) = self.observer.bindings.get_key(&key)
        {
            self.enqueue_scalers_of(&template_of(&binding.spec));
        }
    }

    fn on_override(&self, change: &Change<OverridePolicy>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if records_decisions(old, new) {
            self.enqueue_sharers(new.or(old).and_then(|policy| policy.metadata.namespace.as_deref()));
        }
        if let Some((namespace, name)) = wakes::own_policy(old, new) {
            return self.queue.add(Key::new(&namespace, &name));
        }
        let Some(policy) = new.or(old) else { return };
        for hpa in self.observer.autoscalers.namespace(&policy.namespace().unwrap_or_default()) {
            let (old, new) = (old.map(|policy| &policy.spec), new.map(|policy| &policy.spec));
            if decides_in_members(&hpa) && wakes::users_policy(old, new, &reference_of(&hpa)) {
                self.queue.add_low_priority(Key::of(&*hpa));
            }
        }
    }

    fn on_cluster_override(&self, change: &Change<ClusterOverridePolicy>) {
        let (old, new) =
            (change.old.as_ref().map(|policy| &policy.spec), change.new.as_ref().map(|policy| &policy.spec));
        if old == new {
            return;
        }
        for hpa in self.observer.autoscalers.list() {
            if decides_in_members(&hpa) && wakes::users_policy(old, new, &reference_of(&hpa)) {
                self.queue.add_low_priority(Key::of(&*hpa));
            }
        }
    }

    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let generation = |object: Option<&DynamicObject>| object.map(|object| object.metadata.generation);
        if generation(old) != generation(new)
            && let Some(object) = new.or(old)
        {
            self.enqueue_scalers_of(&template_name(&object_key(gvk, object)));
        }
    }

    fn on_interpretation(&self, changed: &dyn Fn(&Gvk) -> bool) {
        for hpa in self.observer.autoscalers.list() {
            if decides_in_members(&hpa) && changed(&target_key(&hpa).gvk) {
                self.queue.add_low_priority(Key::of(&*hpa));
            }
        }
    }
}
