//! The binding status controller: the status of Works, aggregated on the binding and on the template
//! (specification/propagation.md 16, 17).

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, work::Work};
use ironclad_fleet::{Gvk, ObjectKey, not_ready};
use ironclad_propagation::{
    binding_status::{self, Effect, Seen, SeenTemplate},
    success,
    wakes::binding_status::{self as wakes, Urgency, Wake},
};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, StatusWriter, run_workers};
use ironclad_seam::{Seam, Tasks};
use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use crate::{
    bindings::{BindingChange, Bindings, queue_key},
    controller::{Controller, Reconciler},
    events::Events,
    index::{
        BY_BINDING, BY_EVICTION, BY_TARGET, BY_TEMPLATE, binding_of, cluster_of, object_key, template_key,
        template_name,
    },
    interpreter::Interpreters,
    not_made::CopiesNotMade,
    objects::Objects,
    settings::Settings,
    setup::{Setup, on_change, on_interpretation, on_template},
    targets::Templates,
    works::WorkStatus,
};

/// Templates that are aggregated at once.
const TEMPLATES: usize = 2;

struct BindingStatus {
    seam: Seam,
    settings: Arc<Settings>,
    queue: Queue<Key>,
    template_queue: Queue<ObjectKey>,
    bindings: Bindings,
    works: Informer<Work>,
    not_made: CopiesNotMade,
    work_status: WorkStatus,
    clusters: Informer<Cluster>,
    templates: Arc<Objects<DynamicObject>>,
    template_status: StatusWriter<Templates>,
    interpreters: Arc<Interpreters>,
    events: Events,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(BindingStatus {
        seam: setup.seam.clone(),
        settings: setup.settings.clone(),
        queue: setup.queue(BindingStatus::NAME),
        template_queue: setup.queue("templateStatus"),
        bindings: setup.bindings().clone(),
        works: setup.works(),
        not_made: setup.not_made.clone(),
        work_status: setup.work_status().clone(),
        clusters: setup.clusters().clone(),
        templates: setup.templates().clone(),
        template_status: setup.template_status().clone(),
        interpreters: setup.interpreters().clone(),
        events: setup.events.clone(),
    });
    setup.bindings().on_change(&this, BindingStatus::on_binding);
    on_change(&setup.works(), &this, BindingStatus::on_work);
    on_change(setup.clusters(), &this, BindingStatus::on_cluster);
    let weak = Arc::downgrade(&this);
    setup.work_status().on_request(move |work| {
        if let (Some(this), Some(binding)) = (weak.upgrade(), binding_of(work)) {
            this.collect(binding);
        }
    });
    let weak = Arc::downgrade(&this);
    setup.not_made.on_change(move |binding| {
        if let Some(this) = weak.upgrade() {
            this.queue.add(binding.clone());
        }
    });
    on_template(setup, &this, BindingStatus::on_template);
    on_interpretation(setup, &this, |this, changed| {
        this.templates.keys(changed).into_iter().for_each(|key| this.template_queue.add_low_priority(key));
    });
    this
}

impl Reconciler for BindingStatus {
    type Key = Key;
    const NAME: &'static str = "bindingStatus";
    /// Bindings that are aggregated at once.
    const WORKERS: usize = 2;

    fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// Reads caches and requests a status, without waiting.
    async fn reconcile(&self, key: &Key) -> Result<Next, Failure> {
        let Some(binding) = self.bindings.get_as_requested(key) else { return Ok(Next::Forget) };
        let Some(id) = binding.view().permanent_id() else { return Ok(Next::Forget) };
        let stored = self.works.by_index(BY_BINDING, id);
        let works: Vec<Arc<Work>> = stored.iter().map(|work| self.work_status.as_requested(work)).collect();
        let not_ready =
            not_ready(works.iter().filter_map(|work| cluster_of(work)), |name| self.clusters.get("", &name.0));
        let works: Vec<&Work> = works.iter().map(|w| &**w).collect();
        let not_made = self.not_made.of(key);
        let seen = Seen { binding: binding.view(), works: &works, not_ready: &not_ready, not_made: &not_made };
        let plan = binding_status::binding(&seen, self.seam.clock.wall_seconds());
        let successes = self.events.successes(|| success::of_binding_status(binding.view(), &plan.effects));
        self.events.record_all(&successes);
        for effect in plan.effects {
            match effect {
                Effect::Status(part) => self.bindings.request_status(key, binding.uid(), Self::NAME, part),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        self.template_queue.add(binding.template());
        Ok(Next::Forget)
    }

    fn start_beside(self: &Arc<Self>, tasks: &Tasks) {
        let this = self.clone();
        run_workers("templateStatus", tasks, &self.template_queue, TEMPLATES, move |key| {
            let this = this.clone();
            async move { this.aggregate_template(&key).await }
        });
    }

    fn is_quiet_beside(&self) -> bool {
        self.template_queue.is_empty()
    }
}

impl BindingStatus {
    async fn aggregate_template(&self, key: &ObjectKey) -> Result<Next, Failure> {
        if self.templates.listed(&key.gvk).await?.is_none() {
            return Ok(Next::Forget);
        }
        let Some(template) = self.templates.get(key) else { return Ok(Next::Forget) };
        let attached = || self.bindings.by_index(BY_TEMPLATE, &template_name(key)).into_iter().next();
        let found = self.bindings.of_template(key).or_else(attached);
        let Some(binding) = found.and_then(|found| self.bindings.get_as_requested(&queue_key(&found))) else {
            return Ok(Next::Forget);
        };
        let uid = template.uid().unwrap_or_default();
        let mut object: Value = serde_json::to_value(&*template).map_err(|e| Failure::Invalid(e.to_string()))?;
        let stored = object.get("status").cloned().unwrap_or(Value::Null);
        if let Some(status) = self.template_status.read(key, &uid, || stored) {
            object["status"] = status;
        }
        let interpreter = self.interpreters.for_a_decision();
        let seen = SeenTemplate { template: &object, binding: binding.view(), interpreter: &interpreter };
        let now = self.seam.clock.wall_seconds();
        let resolved = self.interpreters.resolve(&interpreter, || binding_status::template(&seen, now)).await;
        for effect in resolved.plan.effects {
            match effect {
                Effect::Status(part) => self.template_status.request(key, &uid, Self::NAME, part, false),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        Ok(resolved.retry.next(Next::Forget))
    }

    fn on_work(&self, change: &Change<Work>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let (None, Some(work), true) = (old, new, self.works.is_synced()) {
            self.work_status.note_activity(Key::of(work));
        }
        if wakes::work(old, new)
            && let Some(key) = new.or(old).and_then(binding_of)
        {
            self.collect(key);
        }
    }

    /// Aggregates a binding once the changes of its Works were collected.
    fn collect(&self, key: Key) {
        let clusters = self.bindings.get(&key).map_or(0, |binding| binding.view().spec().clusters.len());
        self.queue.add_after(key, wakes::collect_for(clusters));
    }

    fn on_binding(&self, change: &BindingChange) {
        let Some(new) = &change.new else { return };
        let key = queue_key(new);
        if change.old.is_none() && self.bindings.is_synced(new) {
            self.bindings.note_activity(&key);
        }
        let old = change.old.as_ref().map(|binding| (binding.spec(), binding.status()));
        match wakes::binding(old, Some((new.spec(), new.status()))) {
            Some(Wake::Binding) => self.queue.add(key),
            Some(Wake::Template) => self.template_queue.add(template_key(new.spec())),
            None => {}
        }
    }

    fn on_cluster(&self, change: &Change<Cluster>) {
        let Some(urgency) = wakes::cluster(change.old.as_deref(), change.new.as_deref()) else { return };
        let Some(cluster) = &change.new else { return };
        let name = cluster.name_any();
        let targeting = self.bindings.by_index(BY_TARGET, &name).into_iter();
        for binding in targeting.chain(self.bindings.by_index(BY_EVICTION, &name)) {
            match urgency {
                Urgency::Normal => self.queue.add(queue_key(&binding)),
                Urgency::Low => self.queue.add_low_priority(queue_key(&binding)),
            }
        }
    }

    /// A template that is new to this process may lack the status that its binding has for it.
    fn on_template(&self, gvk: &Gvk, change: &Change<DynamicObject>) {
        let (None, Some(object)) = (&change.old, &change.new) else { return };
        let key = object_key(gvk, &**object);
        if !self.settings.propagation.skipped.skips_object(gvk, &key.namespace, &key.name) {
            self.template_queue.add_low_priority(key);
        }
    }
}
