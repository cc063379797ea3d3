//! The policy controller: enqueues the templates that a policy selects, and releases those that it no longer selects
//! (specification/propagation.md 6).

mod apply;
pub(crate) mod metrics;
mod observe;

use std::{sync::Arc, time::Duration};

use ironclad_api::policy::{
    ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy, ResourceSelector,
};
use ironclad_fleet::{Gvk, PolicyKey, gates::Gate};
use ironclad_propagation::{new_ids::NewIds, policy, policy_match::Policy, wakes};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue};
use ironclad_seam::{Seam, Tasks};
use kube::{ResourceExt as _, api::DynamicObject};

use self::{apply::Applier, observe::Observer};
use crate::{
    bindings::Bindings,
    caches::{CLUSTER_OVERRIDES, DEFINITIONS, Definition, OVERRIDES},
    controller::{Controller, Reconciler},
    index::BY_POLICY,
    mapper::Mapper,
    objects::Objects,
    policies::{AnyPolicy, Policies},
    settings::Settings,
    setup::{Setup, on_change},
    templates::TemplateQueue,
};

/// Kinds of aggregated API servers have no definition, and a server may serve a kind some time after its definition is
/// established: those that some policy waits for are looked up again after this time (specification/propagation.md 2).
const LOOK_UP_AGAIN: Duration = Duration::from_secs(30);

struct PolicyController {
    seam: Seam,
    settings: Arc<Settings>,
    queue: Queue<Key>,
    policies: Policies,
    bindings: Bindings,
    template_queue: TemplateQueue,
    templates: Arc<Objects<DynamicObject>>,
    mapper: Arc<Mapper>,
    definitions: Informer<Definition>,
    overrides: Informer<OverridePolicy>,
    cluster_overrides: Informer<ClusterOverridePolicy>,
    observer: Observer,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let policies = Policies::take(&setup.caches, &setup.plane);
    let this = Arc::new(PolicyController {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        queue: setup.queue(PolicyController::NAME),
        policies: policies.clone(),
        bindings: setup.bindings().clone(),
        template_queue: setup.template_queue().clone(),
        templates: setup.templates().clone(),
        mapper: setup.mapper.clone(),
        definitions: setup.caches.take(&DEFINITIONS),
        overrides: setup.caches.take(&OVERRIDES),
        cluster_overrides: setup.caches.take(&CLUSTER_OVERRIDES),
        observer: Observer::new(setup, policies.clone()),
        applier: Applier::new(setup, policies.clone()),
    });
    on_change(&policies.namespaced, &this, PolicyController::on_policy);
    on_change(&policies.cluster_wide, &this, PolicyController::on_cluster_policy);
    on_change(&this.definitions, &this, PolicyController::on_definition);
    on_change(&this.overrides, &this, PolicyController::on_override);
    on_change(&this.cluster_overrides, &this, PolicyController::on_cluster_override);
    this
}

impl Reconciler for PolicyController {
    type Key = Key;
    const NAME: &'static str = "policy";
    const WORKERS: usize = 1;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key).await? else { return Ok(Next::Forget) };
        let ids = NewIds::from(self.seam.rng.uuid());
        let plan = observed.with_seen(self.seam.clock.wall(), |seen| policy::decide(seen, ids));
        let next = self.applier.apply(&observed, plan).await?;
        for failure in &observed.unlisted {
            tracing::warn!(policy = %key, %failure, "templates of a kind are neither claimed nor released");
        }
        Ok(if observed.unlisted.is_empty() { next } else { Next::Retry })
    }

    fn start_beside(self: &Arc<Self>, tasks: &Tasks) {
        let this = self.clone();
        tasks.supervise(&self.seam.clock, "kinds", move || {
            let this = this.clone();
            async move {
                loop {
                    this.seam.clock.sleep(LOOK_UP_AGAIN).await;
                    this.mapper.forget_absent();
                    this.enqueue_unserved();
                }
            }
        });
    }
}

impl PolicyController {
    fn on_policy(&self, change: &Change<PropagationPolicy>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        self.changed(old.map(Policy::Namespaced), new.map(Policy::Namespaced));
    }

    fn on_cluster_policy(&self, change: &Change<ClusterPropagationPolicy>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        self.changed(old.map(Policy::Cluster), new.map(Policy::Cluster));
    }

    fn changed(&self, old: Option<Policy<'_>>, new: Option<Policy<'_>>) {
        let Some(policy) = new.or(old) else { return };
        if !wakes::changes::policy(old.map(Policy::metadata), new.map(Policy::metadata)) {
            return;
        }
        self.queue.add(queue_key(&policy.key()));
        if let (Some(old), Some(new)) = (old, new)
            && self.settings.gates.enabled(Gate::PropagationPolicyPreemption)
        {
            // The policies that may preempt the templates of this one now, the strongest first.
            let all = self.policies.of_scope(&policy.key().namespace);
            let views: Vec<Policy<'_>> = all.iter().map(AnyPolicy::view).collect();
            for key in wakes::policy::policies_that_gain(&views, old, new) {
                self.queue.add(queue_key(&key));
            }
        }
    }

    fn on_override(&self, change: &Change<OverridePolicy>) {
        if let (None, Some(new)) = (&change.old, &change.new) {
            self.enqueue_waiting_for(&new.namespace().unwrap_or_default(), &new.name_any());
        }
    }

    fn on_cluster_override(&self, change: &Change<ClusterOverridePolicy>) {
        if let (None, Some(new)) = (&change.old, &change.new) {
            self.enqueue_waiting_for("", &new.name_any());
        }
    }

    /// Enqueues the policies that wait for a new override policy, and the templates that they claimed.
    fn enqueue_waiting_for(&self, namespace: &str, name: &str) {
        for policy in self.policies.of_scope(namespace) {
            if wakes::policy::awaits(policy.view().spec(), name) {
                self.queue.add(queue_key(&policy.view().key()));
                for id in policy.ids() {
                    let claimed = self.bindings.by_index(BY_POLICY, &id);
                    claimed.iter().for_each(|binding| self.template_queue.queue.add(binding.template()));
                }
            }
        }
    }

    /// A kind appeared, changed or disappeared: discovery is read again, and kinds that are no longer served are not
    /// watched (specification/propagation.md 2).
    fn on_definition(&self, change: &Change<Definition>) {
        let Some(definition) = change.new.as_deref().or(change.old.as_deref()) else { return };
        let name = definition.name_any();
        let Some((plural, group)) = name.split_once('.') else { return };
        if change.new.is_none() {
            for gvk in self.mapper.forget(plural, group) {
                self.templates.stop(&gvk);
            }
            return;
        }
        // During the first list nothing was looked up yet.
        if self.definitions.is_synced() {
            self.mapper.forget(plural, group);
            self.mapper.forget_absent();
            self.enqueue_unserved();
        }
    }

    /// Enqueues the policies that select a kind that is not watched: it may be served by now.
    fn enqueue_unserved(&self) {
        for policy in self.policies.list() {
            let selectors = &policy.view().spec().resource_selectors;
            let watched =
                |s: &ResourceSelector| self.templates.watched(&Gvk::from_manifest(&s.api_version, &s.kind)).is_some();
            if !selectors.iter().all(watched) {
                self.queue.add_low_priority(queue_key(&policy.view().key()));
            }
        }
    }
}

fn queue_key(key: &PolicyKey) -> Key {
    Key::new(&key.namespace, &key.name)
}
