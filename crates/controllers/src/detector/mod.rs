//! The detector: templates are claimed for a policy and get their binding (specification/propagation.md 5).

mod apply;
pub(crate) mod metrics;
mod observe;

use std::sync::Arc;

use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_propagation::{detector, new_ids::NewIds};
use ironclad_runtime::{Change, Failure, Next, Queue};
use ironclad_seam::{Seam, Tasks};
use kube::api::DynamicObject;

use self::{apply::Applier, metrics::DetectorMetrics, observe::Observer};
use crate::{
    bindings::{BindingChange, Bindings},
    controller::{Controller, Reconciler},
    index::{object_key, template_key},
    interpreter::{Interpreters, Resolved},
    objects::Objects,
    settings::Settings,
    setup::{Setup, on_interpretation, on_template},
    templates::{TemplateQueue, counts},
};

struct Detector {
    seam: Seam,
    settings: Arc<Settings>,
    queue: TemplateQueue,
    bindings: Bindings,
    templates: Arc<Objects<DynamicObject>>,
    interpreters: Arc<Interpreters>,
    observer: Observer,
    applier: Applier,
    metrics: DetectorMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(Detector {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        queue: setup.template_queue().clone(),
        bindings: setup.bindings().clone(),
        templates: setup.templates().clone(),
        interpreters: setup.interpreters().clone(),
        observer: Observer::new(setup),
        applier: Applier::new(setup),
        metrics: setup.register(DetectorMetrics::register),
    });
    setup.bindings().on_change(&this, Detector::on_binding);
    on_template(setup, &this, Detector::on_template);
    on_interpretation(setup, &this, |this, changed| {
        this.templates.keys(changed).into_iter().for_each(|key| this.queue.queue.add_low_priority(key));
    });
    this
}

impl Reconciler for Detector {
    type Key = ObjectKey;
    const NAME: &'static str = "detector";
    /// `--concurrent-resource-template-syncs`.
    const WORKERS: usize = 5;

    fn queue(&self) -> &Queue<ObjectKey> {
        &self.queue.queue
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failure> {
        let Some(observed) = self.observer.observe(key).await? else {
            self.queue.stop_waiting(key);
            return Ok(Next::Forget);
        };
        let ids = NewIds::from(self.seam.rng.uuid());
        let began = self.seam.clock.mono();
        let decide = || observed.with_seen(self.seam.clock.wall(), |seen| detector::decide(seen, ids.clone()));
        let Resolved { plan, retry } = self.interpreters.resolve(&observed.interpreter, decide).await;
        self.metrics.matched(self.seam.clock.mono() - began);
        let writes = !plan.is_quiet();
        let applied = self.applier.apply(&observed, plan).await;
        if writes {
            self.metrics.applied(self.seam.clock.mono() - began, &applied);
        }
        applied.map(|next| retry.next(next))
    }

    fn start_beside(self: &Arc<Self>, _: &Tasks) {
        // Binding templates are watched, whatever their policy selects by now.
        for binding in self.bindings.list() {
            self.queue.queue.add_low_priority(binding.template());
        }
    }
}

impl Detector {
    /// A binding that somebody deleted is made again for a template that is still claimed.
    fn on_binding(&self, change: &BindingChange) {
        if let (Some(deleted), None) = (&change.old, &change.new) {
            self.queue.queue.add(template_key(deleted.spec()));
        }
    }

    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let key = object_key(gvk, &**object);
        if !self.settings.propagation.skipped.skips_object(gvk, &key.namespace, &key.name) && counts(change) {
            self.queue.queue.add(key);
        }
    }
}
