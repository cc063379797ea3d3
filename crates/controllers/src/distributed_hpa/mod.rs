//! The controller of distributed HorizontalPodAutoscalers: one in each member, and what members decided
//! (specification/autoscaling.md 6).

mod apply;
pub(crate) mod metrics;
mod observe;

use std::{sync::Arc, time::Duration};

use ironclad_api::{
    autoscaling::FederatedHPA,
    cluster::Cluster,
    events::{NO_EFFECT, REPLICAS_NOT_RETAINED},
    policy::{ClusterOverridePolicy, FederatedResourceQuota, OverridePolicy},
    work::{ResourceBinding, Work},
};
use ironclad_autoscaling::{
    distributed_hpa::{self, reference_of, scaler::Scaler, target_key},
    idle::Verdict,
    wakes::distributed_hpa::{self as wakes, OfTarget},
};
use ironclad_fleet::{Event, Gvk, ObjectKey};
use ironclad_propagation::{new_ids::NewIds, quota::COUNT_SETTLES, wakes::quota::records_decisions};
use ironclad_runtime::{Change, Failure, Next, Queue};
use ironclad_seam::{Seam, Tasks};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{ResourceExt as _, api::DynamicObject};

use self::{apply::Applier, metrics::DistributedHpaMetrics, observe::Observer};
use crate::{
    caches::{DEFINITIONS, Definition},
    controller::{Controller, Reconciler},
    events::Events,
    index::{BY_TARGET, binding_of, object_key, template_key},
    setup::{Setup, on_change, on_interpretation, on_template},
};

/// Name in `--controllers`.
pub(crate) const NAME: &str = "distributedHorizontalPodAutoscaler";

struct DistributedAutoscaler {
    seam: Seam,
    events: Events,
    queue: Queue<ObjectKey>,
    observer: Observer,
    applier: Applier,
    metrics: DistributedHpaMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let observer = Observer::new(setup);
    let this = Arc::new(DistributedAutoscaler {
        seam: setup.seam.clone(),
        events: setup.events.clone(),
        queue: setup.queue(DistributedAutoscaler::NAME),
        applier: Applier::new(setup, &observer),
        metrics: setup.register(DistributedHpaMetrics::register),
        observer,
    });
    on_change(&this.observer.scalers.hpas, &this, DistributedAutoscaler::on_autoscaler);
    on_change(&setup.caches.take(&DEFINITIONS), &this, DistributedAutoscaler::on_definition);
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
    type Key = ObjectKey;
    const NAME: &'static str = NAME;
    /// Objects that are reconciled at once.
    const WORKERS: usize = 3;
    const HAS_APPOINTMENTS: bool = true;

    fn queue(&self) -> &Queue<ObjectKey> {
        &self.queue
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failure> {
        if *key == kinds() {
            self.observer.scalers.listed().await?;
            return Ok(Next::Forget);
        }
        let began = self.seam.clock.mono();
        let outcome = self.observe_and_apply(key).await;
        self.metrics.processed(self.seam.clock.mono() - began, &outcome);
        outcome
    }

    fn start_beside(self: &Arc<Self>, _: &Tasks) {
        self.observer.starts_at(self.seam.clock.wall_seconds());
        self.queue.add(kinds());
    }

    fn is_quiet_beside(&self) -> bool {
        self.applier.is_quiet()
    }
}

impl DistributedAutoscaler {
    async fn observe_and_apply(&self, key: &ObjectKey) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key).await? else { return Ok(self.tell_of_idle(key)) };
        let ids = NewIds::from(self.seam.rng.uuid());
        let plan = observed.with_seen(|seen| distributed_hpa::decide(seen, ids));
        self.applier.apply(key, &observed, plan).await
    }

    /// Tells of an object that nobody runs, or whose work is undone.
    fn tell_of_idle(&self, key: &ObjectKey) -> Next {
        let verdict = self.observer.idle(key);
        let reason = match verdict {
            None | Some(Verdict::Fine) => return Next::Forget,
            Some(Verdict::Later(wait)) => {
                return Next::After(Duration::try_from(wait).unwrap_or(Duration::from_secs(60)));
            }
            Some(Verdict::NotRun) => NO_EFFECT,
            Some(Verdict::Undone { .. }) => REPLICAS_NOT_RETAINED,
        };
        if let (Some(scaler), Some(verdict)) = (self.observer.scalers.get(key), verdict) {
            self.events.record(&Event::warning(reference_of(&scaler), reason, verdict.to_string()));
        }
        Next::Forget
    }

    fn enqueue_scalers_of(&self, target: &ObjectKey) {
        self.observer.scalers.of_target(target).iter().for_each(|scaler| self.queue.add(scaler.key()));
    }

    /// Reconciles all that share the quotas of a namespace, after a while, so that many changes are one reconcile.
    fn enqueue_sharers(&self, namespace: Option<&str>) {
        let Some(namespace) = namespace.filter(|namespace| self.observer.has_quota(namespace)) else { return };
        for scaler in self.observer.scalers.of_namespace(namespace) {
            self.queue.add_after(scaler.key(), COUNT_SETTLES);
        }
    }

    fn on_quota(&self, change: &Change<FederatedResourceQuota>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(quota) = new.or(old).filter(|_| wakes::quota(old, new)) else { return };
        let all = self.observer.scalers.of_namespace(&quota.namespace().unwrap_or_default());
        all.iter().for_each(|scaler| self.queue.add(scaler.key()));
    }

    fn on_autoscaler(&self, change: &Change<HorizontalPodAutoscaler>) {
        self.on_scaler(change.old.clone().map(Scaler::from), change.new.clone().map(Scaler::from));
    }

    fn on_scaler(&self, old: Option<Scaler>, new: Option<Scaler>) {
        let (old_hpa, new_hpa) = (old.as_ref().map(|old| &*old.hpa), new.as_ref().map(|new| &*new.hpa));
        if wakes::claim(old_hpa, new_hpa) {
            self.enqueue_sharers(new_hpa.or(old_hpa).and_then(|hpa| hpa.metadata.namespace.as_deref()));
        }
        if !wakes::autoscaler(old_hpa, new_hpa) {
            return;
        }
        if let Some(new) = &new {
            self.queue.add(new.key());
        }
        wakes::rivals(old_hpa, new_hpa).iter().for_each(|target| self.enqueue_scalers_of(target));
    }

    /// A kind that scales something may be served from now on.
    fn on_definition(&self, _: &Change<Definition>) {
        self.queue.add(kinds());
    }

    fn on_federated(&self, change: &Change<FederatedHPA>) {
        for hpa in [&change.old, &change.new].into_iter().flatten() {
            let target = &hpa.spec.scale_target_ref;
            let gvk = Gvk::from_manifest(target.api_version.as_deref().unwrap_or_default(), &target.kind);
            let (namespace, name) = (hpa.namespace().unwrap_or_default().into(), target.name.as_str().into());
            self.enqueue_scalers_of(&ObjectKey { gvk, namespace, name });
        }
    }

    fn on_binding(&self, change: &Change<ResourceBinding>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(binding) = new.or(old).filter(|_| wakes::binding(old, new)) {
            self.enqueue_scalers_of(&template_key(&binding.spec));
        }
        if wakes::usage(old, new) {
            self.enqueue_sharers(new.or(old).and_then(|binding| binding.metadata.namespace.as_deref()));
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let Some(cluster) = new.or(old).filter(|_| wakes::cluster(old, new)) else { return };
        for binding in self.observer.bindings.by_index(BY_TARGET, &cluster.name_any()) {
            self.enqueue_scalers_of(&template_key(&binding.spec));
        }
    }

    fn on_work(&self, change: &Change<Work>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(key) = wakes::work(old, new) {
            if let Some(new) = new.filter(|new| wakes::is_report(old, new)) {
                self.observer.note_report(new);
            }
            self.queue.add(key);
            return;
        }
        if let Some(of_target) = wakes::target_work(old, new, || self.observer.scalers.knows_others())
            && let Some(key) = new.or(old).and_then(binding_of)
            && let Some(binding) = self.observer.bindings.get_key(&key)
        {
            let all = self.observer.scalers.of_target(&template_key(&binding.spec));
            let woken = all.iter().filter(|scaler| of_target == OfTarget::All || !scaler.kind.is_hpa());
            woken.for_each(|scaler| self.queue.add(scaler.key()));
        }
    }

    fn on_override(&self, change: &Change<OverridePolicy>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if records_decisions(old, new) {
            self.enqueue_sharers(new.or(old).and_then(|policy| policy.metadata.namespace.as_deref()));
        }
        if let Some(key) = wakes::own_policy(old, new) {
            return self.queue.add(key);
        }
        let Some(policy) = new.or(old) else { return };
        for scaler in self.observer.scalers.of_namespace(&policy.namespace().unwrap_or_default()) {
            let (old, new) = (old.map(|policy| &policy.spec), new.map(|policy| &policy.spec));
            if wakes::users_policy(old, new, &reference_of(&scaler)) {
                self.queue.add_low_priority(scaler.key());
            }
        }
    }

    fn on_cluster_override(&self, change: &Change<ClusterOverridePolicy>) {
        let (old, new) =
            (change.old.as_ref().map(|policy| &policy.spec), change.new.as_ref().map(|policy| &policy.spec));
        if old == new {
            return;
        }
        for scaler in self.observer.scalers.of_namespace("") {
            if wakes::users_policy(old, new, &reference_of(&scaler)) {
                self.queue.add_low_priority(scaler.key());
            }
        }
    }

    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if wakes::template(old.map(|old| &old.metadata), new.map(|new| &new.metadata))
            && let Some(object) = new.or(old)
        {
            self.enqueue_scalers_of(&object_key(gvk, object));
        }
        let (old, new) = self.observer.scalers.changed(gvk, change);
        if old.is_some() || new.is_some() {
            self.on_scaler(old, new);
        }
    }

    fn on_interpretation(&self, changed: &dyn Fn(&Gvk) -> bool) {
        // The kind may be one that scales something.
        self.queue.add(kinds());
        for scaler in self.observer.scalers.of_namespace("") {
            if changed(&target_key(&scaler.hpa).gvk) || changed(&scaler.kind.gvk) {
                self.queue.add_low_priority(scaler.key());
            }
        }
    }
}

/// Key for the kinds themselves: those that are served are watched.
fn kinds() -> ObjectKey {
    let none = || std::sync::Arc::from("");
    ObjectKey { gvk: Gvk { group: none(), version: none(), kind: none() }, namespace: none(), name: none() }
}
