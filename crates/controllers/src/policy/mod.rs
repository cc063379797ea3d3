//! The policy controller: enqueues the templates that a policy selects, and releases those that it no longer selects
//! (specification/propagation.md 6).

mod apply;
pub(crate) mod metrics;
mod observe;

use std::{sync::Arc, time::Duration};

use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy, ResourceSelector};
use ironclad_fleet::{Gvk, PolicyKey, gates::Gate};
use ironclad_propagation::{changes, new_ids::NewIds, policy, policy_match::Policy};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, run_workers};
use ironclad_seam::Seam;
use kube::{ResourceExt as _, api::DynamicObject};

use self::{apply::Applier, observe::Observer};
use crate::{
    caches::{DEFINITIONS, Definition},
    controller::Controller,
    mapper::Mapper,
    objects::Objects,
    policies::{AnyPolicy, Policies},
    settings::Settings,
    setup::{Setup, on_change},
};

/// Kinds of aggregated API servers have no definition: those that some policy waits for are looked up again after this
/// time.
const LOOK_UP_AGAIN: Duration = Duration::from_secs(300);

struct PolicyController {
    seam: Seam,
    settings: Arc<Settings>,
    queue: Queue<Key>,
    policies: Policies,
    templates: Arc<Objects<DynamicObject>>,
    mapper: Arc<Mapper>,
    definitions: Informer<Definition>,
    observer: Observer,
    applier: Applier,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let policies = Policies::take(&setup.caches, &setup.plane);
    let this = Arc::new(PolicyController {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        queue: setup.queue("policy"),
        policies: policies.clone(),
        templates: setup.templates.clone(),
        mapper: setup.mapper.clone(),
        definitions: setup.caches.take(&DEFINITIONS),
        observer: Observer::new(setup, policies.clone()),
        applier: Applier::new(setup, policies.clone()),
    });
    on_change(&policies.namespaced, &this, PolicyController::on_policy);
    on_change(&policies.cluster_wide, &this, PolicyController::on_cluster_policy);
    on_change(&this.definitions, &this, PolicyController::on_definition);
    this
}

impl Controller for PolicyController {
    fn start(self: Arc<Self>) {
        let this = self.clone();
        self.seam.tasks.supervise(&self.seam.clock, "kinds", move || {
            let this = this.clone();
            async move {
                loop {
                    this.seam.clock.sleep(LOOK_UP_AGAIN).await;
                    this.enqueue_unserved();
                }
            }
        });
        let this = self.clone();
        run_workers("policy", &self.seam.tasks, &self.queue, 1, move |key| {
            let this = this.clone();
            async move { this.reconcile(&key).await }
        });
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }
}

impl PolicyController {
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key).await? else { return Ok(Next::Forget) };
        let ids = NewIds::from(self.seam.rng.uuid());
        let plan = observed.with_seen(self.seam.clock.wall(), |seen| policy::decide(seen, ids));
        self.applier.apply(&observed, plan).await
    }

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
        if !changes::policy(old.map(Policy::metadata), new.map(Policy::metadata)) {
            return;
        }
        self.queue.add(queue_key(&policy.key()));
        if let (Some(old), Some(new)) = (old, new)
            && self.settings.gates.enabled(Gate::PropagationPolicyPreemption)
        {
            // The policies that may preempt the templates of this one now, the strongest first.
            let all = self.policies.of_scope(&policy.key().namespace);
            let views: Vec<Policy<'_>> = all.iter().map(AnyPolicy::view).collect();
            for key in policy::policies_that_gain(&views, old, new) {
                self.queue.add(queue_key(&key));
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
