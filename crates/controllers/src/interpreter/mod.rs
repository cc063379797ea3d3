//! The interpreter's sources, as the control plane's objects make them (propagation.md 20): scripts of
//! ResourceInterpreterCustomizations, webhooks, what is shipped. A change gives a turn to whatever it concerns.

mod calls;
mod counted;
mod requeue;

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    config::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration},
    events,
    work::ObjectReference,
};
use ironclad_fleet::{Event, Gvk};
use ironclad_interpreter::{Interpreter, webhook::Webhooks};
use ironclad_interpreter_lua::{Conflict, Customization, Declarative, Host, Shipped};
use ironclad_runtime::{Change, Informer, WatchScope};
use ironclad_seam::Seam;
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::{Mutex, RwLock};

pub(crate) use self::calls::Settled;
use self::{calls::Callers, counted::Counted};
use crate::{Context, metrics::InterpreterMetrics};

/// Where answers come from. What is read of it is a snapshot: a decision never sees half a change.
pub struct Interpreters {
    /// All ResourceInterpreterCustomizations.
    pub customizations: Informer<ResourceInterpreterCustomization>,
    /// All ResourceInterpreterWebhookConfigurations.
    pub webhooks: Informer<ResourceInterpreterWebhookConfiguration>,
    shipped: Arc<Shipped>,
    host: Host,
    metrics: InterpreterMetrics,
    sources: Mutex<Sources>,
    current: RwLock<Interpreter>,
    callers: Callers,
}

#[derive(Default)]
struct Sources {
    /// By name. A state of the engine each: a change of one compiles one.
    compiled: BTreeMap<String, Arc<Customization>>,
    declarative: Arc<Declarative>,
    webhooks: Arc<Webhooks>,
}

impl Interpreters {
    pub(crate) fn new(seam: &Seam, metrics: &InterpreterMetrics) -> Self {
        let (wall, mono, start) = (seam.clock.clone(), seam.clock.clone(), seam.clock.mono());
        let host = Host {
            wall_seconds: Arc::new(move || wall.wall().as_second()),
            elapsed: Arc::new(move || mono.mono() - start),
        };
        let this = Self {
            customizations: Informer::new(&[]),
            webhooks: Informer::new(&[]),
            shipped: Arc::new(Shipped::new(host.clone())),
            host,
            metrics: metrics.clone(),
            sources: Mutex::default(),
            current: RwLock::default(),
            callers: Callers::new(start),
        };
        this.publish(&this.sources.lock());
        this
    }

    pub(crate) fn start(&self, seam: &Seam, plane: &Client) {
        let all = WatchScope::default();
        let api = Api::all(plane.clone());
        self.customizations.start("resourceinterpretercustomizations", seam, &seam.tasks, api, &all);
        let api = Api::all(plane.clone());
        self.webhooks.start("resourceinterpreterwebhookconfigurations", seam, &seam.tasks, api, &all);
    }

    pub(crate) async fn synced(&self) {
        self.customizations.synced().await;
        self.webhooks.synced().await;
    }

    pub(crate) fn is_synced(&self) -> bool {
        self.customizations.is_synced() && self.webhooks.is_synced()
    }

    /// The present sources, for one decision.
    pub(crate) fn for_a_decision(&self) -> Interpreter {
        self.current.read().for_a_decision()
    }

    fn publish(&self, sources: &Sources) {
        let counted = |engines| Counted { engines, elapsed: self.host.elapsed.clone(), metrics: self.metrics.clone() };
        let customizations = sources.compiled.len();
        self.metrics.kept(counted::CUSTOMIZATION, customizations);
        *self.current.write() = Interpreter::new(vec![
            Arc::new(counted(counted::Engines::Customizations(sources.declarative.clone()))),
            sources.webhooks.clone(),
            Arc::new(counted(counted::Engines::Shipped(self.shipped.clone()))),
        ]);
    }

    /// Takes a customization in, or out; what conflicts with another's scripts.
    fn take(
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
}

/// A customization came, changed or went: its scripts are compiled, and what it interprets, or did, has a turn.
pub(crate) fn on_customization(cx: &Arc<Context>, change: &Change<ResourceInterpreterCustomization>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if old.map(|c| &c.spec) == new.map(|c| &c.spec) {
        return;
    }
    let Some(name) = new.or(old).map(|c| c.name_any()) else { return };
    let (compiled, conflicts) = cx.interpreters.take(&name, new);
    if let (Some(new), Some(compiled)) = (new, compiled) {
        for error in compiled.errors() {
            tracing::warn!(customization = %name, %error, "a script can't be used");
            cx.emit(&Event::warning(reference(new), events::CUSTOMIZATION_INVALID, error.to_string()));
        }
        for conflict in conflicts.iter().filter(|c| c.loser == name) {
            let message = format!(
                "its script {} is not asked: {}, whose name comes first, has one for the same kind",
                conflict.operation, conflict.winner
            );
            cx.emit(&Event::warning(reference(new), events::CUSTOMIZATION_CONFLICT, message));
        }
    }
    for kind in [old, new].into_iter().flatten().map(|c| &c.spec.target) {
        requeue::kind(cx, &Gvk::from_manifest(&kind.api_version, &kind.kind));
    }
}

/// A configuration of webhooks came, changed or went: the kinds of its rules, old and new, have a turn.
pub(crate) fn on_webhooks(cx: &Arc<Context>, change: &Change<ResourceInterpreterWebhookConfiguration>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if old.map(|c| &c.webhooks) == new.map(|c| &c.webhooks) {
        return;
    }
    {
        let mut sources = cx.interpreters.sources.lock();
        let all = cx.interpreters.webhooks.list();
        sources.webhooks = Arc::new(Webhooks::new(all.iter().map(|c| &**c)));
        cx.interpreters.publish(&sources);
    }
    let concerned = Webhooks::new([old, new].into_iter().flatten());
    requeue::kinds(cx, |gvk| concerned.concerns(&gvk.group, &gvk.version, &gvk.kind));
}

/// A cluster-scoped object of group config.karmada.io, as events name it.
fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
