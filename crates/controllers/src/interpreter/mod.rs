//! The interpreter's sources as configured in the control plane (specification/propagation.md 20): scripts of
//! ResourceInterpreterCustomizations, webhooks, and shipped scripts.

mod calls;
mod counted;
pub(crate) mod metrics;
mod reference;
mod replicas_paths;
mod resolved;

use std::{collections::BTreeMap, sync::Arc};

use futures::{StreamExt as _, stream};
use ironclad_api::{
    annotations,
    config::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration},
    events,
};
use ironclad_fleet::{Event, Gvk};
use ironclad_interpreter::{AutoscalerKind, AutoscalerKinds, Interpreter, ReplicasPaths, webhook::Webhooks};
use ironclad_interpreter_lua::{Conflict, Customization, Declarative, Host, Shipped};
use ironclad_runtime::{Caches, Change, Informer};
use ironclad_seam::Seam;
use kube::{Client, ResourceExt as _};
use parking_lot::{Mutex, RwLock};

pub(crate) use self::resolved::Resolved;
use self::{calls::Callers, counted::Counted, metrics::InterpreterMetrics, reference::reference, resolved::Retry};
use crate::{
    backends::Backends,
    caches::{CUSTOMIZATIONS, DEFINITIONS, INTERPRETER_WEBHOOKS},
    events::Events,
    mapper::Mapper,
    settings::Settings,
};

/// Concurrent calls of one decision.
const CALLS_MAX: usize = 8;
/// Rounds of one decision. Each round answers what the previous one asked; a decision that does not end asks something
/// new each time.
const ROUNDS_MAX: usize = 64;

/// Handler of changes: it gets a filter of the kinds whose interpretation changed.
type OnChange = Box<dyn Fn(&dyn Fn(&Gvk) -> bool) + Send + Sync>;

/// Sources of answers about kinds. Decisions read a snapshot of them: a decision never sees half a change.
pub(crate) struct Interpreters {
    webhooks: Informer<ResourceInterpreterWebhookConfiguration>,
    events: Events,
    shipped: Arc<Shipped>,
    host: Host,
    metrics: InterpreterMetrics,
    customizations: Informer<ResourceInterpreterCustomization>,
    sources: Mutex<Sources>,
    current: RwLock<Interpreter>,
    autoscalers: RwLock<Arc<AutoscalerKinds>>,
    callers: Callers,
    handlers: RwLock<Vec<OnChange>>,
}

#[derive(Default)]
struct Sources {
    /// By name. Each has a state of the engine: a change of one compiles one.
    compiled: BTreeMap<String, Arc<Customization>>,
    declarative: Arc<Declarative>,
    webhooks: Arc<Webhooks>,
    replicas_paths: Arc<ReplicasPaths>,
    /// Number of times that paths were forgotten: answers from before may be old.
    forgotten: u64,
}

impl Interpreters {
    /// Sources that follow the caches of their configuration.
    pub(crate) fn follow(
        seam: &Seam,
        (plane, mapper): (&Client, &Arc<Mapper>),
        backends: &Arc<dyn Backends>,
        caches: &Caches,
        events: &Events,
        metrics: &InterpreterMetrics,
        settings: &Settings,
    ) -> Arc<Self> {
        let (wall, mono, start) = (seam.clock.clone(), seam.clock.clone(), seam.clock.mono());
        let host = Host {
            wall_seconds: Arc::new(move || wall.wall().as_second()),
            elapsed: Arc::new(move || mono.mono() - start),
            running: settings.running_scripts.clone(),
        };
        let (customizations, webhooks) = (caches.take(&CUSTOMIZATIONS), caches.take(&INTERPRETER_WEBHOOKS));
        let callers = Callers {
            seam: seam.clone(),
            plane: plane.clone(),
            backends: backends.clone(),
            events: events.clone(),
            webhooks: webhooks.clone(),
            is_agent: settings.agent_of.is_some(),
            start,
            known: Mutex::default(),
        };
        let this = Arc::new(Self {
            webhooks: webhooks.clone(),
            customizations: customizations.clone(),
            autoscalers: RwLock::new(Arc::new(AutoscalerKind::shipped())),
            events: events.clone(),
            shipped: Arc::new(Shipped::new(host.clone())),
            host,
            metrics: metrics.clone(),
            sources: Mutex::default(),
            current: RwLock::default(),
            callers,
            handlers: RwLock::default(),
        });
        this.publish(&this.sources.lock());
        let weak = Arc::downgrade(&this);
        customizations.on_change(move |change| {
            if let Some(this) = weak.upgrade() {
                this.on_customization(change);
            }
        });
        let weak = Arc::downgrade(&this);
        webhooks.on_change(move |change| {
            if let Some(this) = weak.upgrade() {
                this.on_webhooks(change);
            }
        });
        if settings.agent_of.is_some() {
            this.read_definitions_again(seam, mapper);
        } else {
            let weak = Arc::downgrade(&this);
            caches.take(&DEFINITIONS).on_change(move |change| {
                if let Some(this) = weak.upgrade() {
                    this.on_definition(change);
                }
            });
        }
        this
    }

    /// Calls this when the interpretation of kinds changes, with a filter of these kinds. It must not wait.
    pub(crate) fn on_change(&self, handler: impl Fn(&dyn Fn(&Gvk) -> bool) + Send + Sync + 'static) {
        self.handlers.write().push(Box::new(handler));
    }

    /// The present sources, for one decision.
    pub(crate) fn for_a_decision(&self) -> Interpreter {
        self.current.read().for_a_decision()
    }

    /// The kinds that scale a target, without HorizontalPodAutoscalers.
    pub(crate) fn autoscalers(&self) -> Arc<AutoscalerKinds> {
        self.autoscalers.read().clone()
    }

    /// Runs a decision over this interpreter until it asks webhooks nothing new. Without webhooks it runs once, without
    /// waiting.
    pub(crate) async fn resolve<T>(&self, interpreter: &Interpreter, mut decide: impl FnMut() -> T) -> Resolved<T> {
        let mut failed = false;
        for _ in 0..ROUNDS_MAX {
            let plan = decide();
            let open = interpreter.take_open();
            if open.is_empty() {
                return Resolved { plan, retry: Retry(failed) };
            }
            let calls = open.into_iter().map(|call| async {
                let called = self.callers.call(&call).await;
                (call, called)
            });
            let mut calls = stream::iter(calls).buffered(CALLS_MAX);
            while let Some((call, called)) = calls.next().await {
                failed |= called.is_err();
                interpreter.answer(&call, called);
            }
        }
        Resolved { plan: decide(), retry: Retry(true) }
    }

    fn publish(&self, sources: &Sources) {
        let counted = |engines| Counted { engines, elapsed: self.host.elapsed.clone(), metrics: self.metrics.clone() };
        let customizations = sources.compiled.len();
        self.metrics.kept(counted::CUSTOMIZATION, customizations);
        let interpreter = Interpreter::new(vec![
            Arc::new(counted(counted::Engines::Customizations(sources.declarative.clone()))),
            sources.webhooks.clone(),
            Arc::new(counted(counted::Engines::Shipped(self.shipped.clone()))),
        ]);
        *self.current.write() = interpreter.with_replicas_paths(sources.replicas_paths.clone());
    }

    /// Replaces the webhooks.
    fn set_webhooks(&self, webhooks: Webhooks) {
        let mut sources = self.sources.lock();
        sources.webhooks = Arc::new(webhooks);
        self.publish(&sources);
    }

    /// Adds, replaces or removes a customization; returns it compiled, with the scripts that conflict with others.
    fn set_customization(
        &self,
        name: &str,
        new: Option<&ResourceInterpreterCustomization>,
    ) -> (Option<Arc<Customization>>, Vec<Conflict>) {
        let compiled = new.map(|new| Arc::new(Customization::compile(name, &new.spec, &self.host)));
        let mut sources = self.sources.lock();
        match &compiled {
            Some(compiled) => sources.compiled.insert(name.to_owned(), compiled.clone()),
            None => sources.compiled.remove(name),
        };
        let all = sources.compiled.iter().map(|(name, customization)| (name.clone(), customization.clone()));
        sources.declarative = Arc::new(Declarative::new(all));
        self.publish(&sources);
        (compiled, sources.declarative.conflicts())
    }

    /// Compiles the scripts of a changed customization; the kinds that it interprets or interpreted change.
    fn on_customization(&self, change: &Change<ResourceInterpreterCustomization>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let row = |customization: Option<&ResourceInterpreterCustomization>| {
            customization.and_then(|c| c.annotations().get(annotations::AUTOSCALER).cloned())
        };
        if old.map(|c| &c.spec) == new.map(|c| &c.spec) && row(old) == row(new) {
            return;
        }
        if let Some((new, text)) = new.zip(row(new))
            && let Err(error) = AutoscalerKind::of_annotation(target(new), &text)
        {
            let message = format!("annotation {} {error}: the kind is no autoscaler", annotations::AUTOSCALER);
            self.events.record(&Event::warning(reference(new), events::CUSTOMIZATION_INVALID, message));
        }
        let rows = AutoscalerKind::of_customizations(self.customizations.list().iter().map(|one| &**one));
        *self.autoscalers.write() = Arc::new(Interpreter::default().with_autoscalers(Arc::new(rows)).autoscalers());
        let Some(name) = new.or(old).map(|c| c.name_any()) else { return };
        let (compiled, conflicts) = self.set_customization(&name, new);
        if let (Some(new), Some(compiled)) = (new, compiled) {
            for error in compiled.errors() {
                tracing::warn!(customization = %name, %error, "a script can't be used");
                self.events.record(&Event::warning(reference(new), events::CUSTOMIZATION_INVALID, error.to_string()));
            }
            for error in compiled.skipped() {
                tracing::warn!(customization = %name, %error, "a script is skipped");
                self.events.record(&Event::warning(reference(new), events::CUSTOMIZATION_SKIPPED, error.to_string()));
            }
            for conflict in conflicts.iter().filter(|c| c.loser == name) {
                let message = format!(
                    "its script {} is not asked: {}, whose name comes first, has one for the same kind",
                    conflict.operation, conflict.winner
                );
                self.events.record(&Event::warning(reference(new), events::CUSTOMIZATION_CONFLICT, message));
            }
        }
        for changed in [old, new].into_iter().flatten().map(target) {
            self.notify(&|gvk| *gvk == changed);
        }
    }

    /// Takes in a changed configuration of webhooks; the kinds of its rules, old and new, change.
    fn on_webhooks(&self, change: &Change<ResourceInterpreterWebhookConfiguration>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if old.map(|c| &c.webhooks) == new.map(|c| &c.webhooks) {
            return;
        }
        let all = self.webhooks.list();
        self.set_webhooks(Webhooks::new(all.iter().map(|c| &**c)));
        let concerned = Webhooks::new([old, new].into_iter().flatten());
        self.notify(&|gvk| concerned.concerns(&gvk.group, &gvk.version, &gvk.kind));
    }

    fn notify(&self, changed: &dyn Fn(&Gvk) -> bool) {
        self.handlers.read().iter().for_each(|handler| handler(changed));
    }
}

/// The kind that a customization is about.
fn target(customization: &ResourceInterpreterCustomization) -> Gvk {
    let target = &customization.spec.target;
    Gvk::from_manifest(&target.api_version, &target.kind)
}

#[cfg(test)]
mod tests;
