//! The dependencies distributor: the objects that a workload refers to are propagated with it
//! (specification/propagation.md 8).

mod apply;
mod observe;

use std::{collections::BTreeSet, sync::Arc};

use ironclad_fleet::{Binding, Gvk, Plan};
use ironclad_propagation::{
    dependencies::{self, Effect, dependents},
    new_ids::NewIds,
    wakes,
};
use ironclad_runtime::{Change, Failure, Key, Next, Queue};
use ironclad_seam::Seam;
use kube::api::DynamicObject;
use tokio::sync::Mutex;

use self::{
    apply::Applier,
    observe::{Observed, Observer},
};
use crate::{
    bindings::{BindingChange, Bindings, queue_key},
    controller::{Controller, Reconciler},
    index::{BY_DEPENDENCY, BY_TEMPLATE, object_key, template_name},
    interpreter::{Interpreters, Resolved},
    settings::Settings,
    setup::{Setup, on_interpretation, on_template},
    templates::counts,
};

struct Dependencies {
    seam: Seam,
    settings: Arc<Settings>,
    queue: Queue<Key>,
    bindings: Bindings,
    interpreters: Arc<Interpreters>,
    observer: Observer,
    applier: Applier,
    /// Held while the binding of a cluster-scoped object is created: referrers of other namespaces then find it.
    creating: Mutex<()>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Dependencies {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        queue: setup.queue(Dependencies::NAME),
        bindings: setup.bindings().clone(),
        interpreters: setup.interpreters().clone(),
        observer: Observer::new(setup),
        applier: Applier::new(setup),
        creating: Mutex::default(),
    });
    setup.bindings().on_change(&this, Dependencies::on_binding);
    on_template(setup, &this, Dependencies::on_object);
    on_interpretation(setup, &this, Dependencies::on_interpretation);
    this
}

impl Reconciler for Dependencies {
    type Key = Key;
    const NAME: &'static str = "dependencies";
    /// `--concurrent-dependent-resource-syncs`.
    const WORKERS: usize = 2;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some((mut observed, mut resolved)) = self.decided(key).await? else { return Ok(Next::Forget) };
        let creating = dependencies::creates_shared(&resolved.plan);
        let _creating = if creating { Some(self.creating.lock().await) } else { None };
        if creating {
            let Some(again) = self.decided(key).await? else { return Ok(Next::Forget) };
            (observed, resolved) = again;
        }
        let next = self.applier.apply(key, &observed, resolved.plan).await?;
        Ok(if observed.unlisted.is_empty() { resolved.retry.next(next) } else { Next::Retry })
    }
}

impl Dependencies {
    async fn decided(&self, key: &Key) -> Result<Option<(Observed, Resolved<Plan<Effect>>)>, Failure> {
        let Some(observed) = self.observer.observe(key).await? else { return Ok(None) };
        let ids = NewIds::from(self.seam.rng.uuid());
        let decide = || observed.with_seen(|seen| dependencies::decide(seen, ids.clone()));
        let resolved = self.interpreters.resolve(&observed.interpreter, decide).await;
        Ok(Some((observed, resolved)))
    }

    fn on_binding(&self, change: &BindingChange) {
        let old = change.old.as_ref().map(Binding::view);
        if let Some(new) = change.new.as_ref().filter(|new| wakes::dependencies::binding(old, new.view())) {
            let key = queue_key(new);
            if self.bindings.is_synced(new) { self.queue.add(key) } else { self.queue.add_low_priority(key) }
        }
        // An attached binding that was deleted is created again by the bindings that need it.
        if let (Some(deleted), None) = (&change.old, &change.new) {
            for referrer in &deleted.spec().required_by {
                self.queue.add(Key::new(&referrer.namespace, &referrer.name));
            }
        }
    }

    /// Enqueues the bindings that recorded a changed object as a dependency.
    fn on_object(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let key = object_key(gvk, &**object);
        if self.settings.propagation.skipped.skips_object(gvk, &key.namespace, &key.name) || !counts(change) {
            return;
        }
        let identities = [&change.old, &change.new].into_iter().flatten();
        let values: BTreeSet<String> =
            identities.flat_map(|object| dependents::of_object(gvk, &object.metadata)).collect();
        let found = values.iter().flat_map(|value| self.bindings.by_index(BY_DEPENDENCY, value));
        let keys: BTreeSet<Key> = found.map(|binding| queue_key(&binding)).collect();
        keys.into_iter().for_each(|key| self.queue.add(key));
    }

    fn on_interpretation(&self, changed: &dyn Fn(&Gvk) -> bool) {
        for template in self.observer.templates.keys(changed) {
            for binding in self.bindings.by_index(BY_TEMPLATE, &template_name(&template)) {
                self.queue.add_low_priority(queue_key(&binding));
            }
        }
    }
}
