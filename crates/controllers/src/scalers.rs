//! Autoscalers that members run, of all kinds that the interpreter has rows of.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_autoscaling::distributed_hpa::{
    self, decides_in_members, is_run_by_members,
    scaler::{Scaler, seen_by},
    target_keys,
};
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_runtime::{Change, Failure, Informer};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{ResourceExt as _, api::DynamicObject};
use parking_lot::RwLock;

use crate::{
    caches::{DEFINITIONS, Definition, HORIZONTAL_POD_AUTOSCALERS},
    index::{BY_SCALED, template_name},
    interpreter::Interpreters,
    objects::Objects,
    setup::Setup,
};

/// The caches in which they are found.
pub(crate) struct Scalers {
    pub(crate) hpas: Informer<HorizontalPodAutoscaler>,
    /// Groups that have definitions. Each decision asks for them.
    groups: Arc<RwLock<BTreeSet<String>>>,
    templates: Arc<Objects<DynamicObject>>,
    interpreters: Arc<Interpreters>,
}

impl Scalers {
    pub(crate) fn new(setup: &Setup) -> Self {
        let definitions = setup.caches.take(&DEFINITIONS);
        let groups: Arc<RwLock<BTreeSet<String>>> = Arc::default();
        let known = groups.clone();
        // A group stays: whether a kind of it is served is asked then.
        definitions.on_change(move |change: &Change<Definition>| {
            known.write().extend(change.new.as_deref().and_then(group));
        });
        groups.write().extend(definitions.list().iter().filter_map(|definition| group(definition)));
        Self {
            hpas: setup.caches.take(&HORIZONTAL_POD_AUTOSCALERS),
            groups,
            templates: setup.templates().clone(),
            interpreters: setup.interpreters().clone(),
        }
    }

    /// Watches the kinds other than HorizontalPodAutoscalers that the control plane has a definition of, and waits for
    /// their objects.
    ///
    /// # Errors
    /// If one can't be listed: it is not known then whose replicas members decide.
    pub(crate) async fn listed(&self) -> Result<(), Failure> {
        let kinds = self.interpreters.autoscalers();
        for gvk in kinds.keys().filter(|gvk| self.is_defined(gvk)) {
            self.templates.listed(gvk).await?;
        }
        Ok(())
    }

    fn is_defined(&self, gvk: &Gvk) -> bool {
        self.groups.read().contains(&*gvk.group)
    }

    /// True if objects of other kinds than HorizontalPodAutoscalers are watched.
    pub(crate) fn knows_others(&self) -> bool {
        self.interpreters.autoscalers().keys().any(|gvk| self.templates.watched(gvk).is_some())
    }

    /// The one with this key.
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Scaler> {
        if distributed_hpa::is_kind(&key.gvk) {
            return self.hpas.get(&key.namespace, &key.name).map(Scaler::from);
        }
        self.seen(&key.gvk, &*self.templates.get(key)?)
    }

    /// An object of a watched kind, if it is an autoscaler.
    pub(crate) fn seen(&self, gvk: &Gvk, object: &DynamicObject) -> Option<Scaler> {
        let kinds = self.interpreters.autoscalers();
        if !kinds.contains_key(gvk) {
            return None;
        }
        let mut object = serde_json::to_value(object).ok()?;
        object["apiVersion"] = gvk.api_version().into();
        object["kind"] = gvk.kind.to_string().into();
        seen_by(&kinds, gvk, object)
    }

    /// Before and after a change, if the kind scales something.
    pub(crate) fn changed(&self, gvk: &Gvk, change: &Change<DynamicObject>) -> (Option<Scaler>, Option<Scaler>) {
        let of = |object: &Option<Arc<DynamicObject>>| object.as_deref().and_then(|object| self.seen(gvk, object));
        (of(&change.old), of(&change.new))
    }

    /// Those of a target that decide its replicas in members.
    pub(crate) fn of_target(&self, target: &ObjectKey) -> Vec<Scaler> {
        let hpas = self.hpas.by_index(BY_SCALED, &template_name(target));
        let hpas = hpas.into_iter().filter(|hpa| decides_in_members(hpa)).map(Scaler::from);
        let others = self.others_of(&target.namespace);
        hpas.chain(others.into_iter().filter(|other| target_keys(&other.hpa).contains(target))).collect()
    }

    /// Those of a namespace; of all with an empty one.
    pub(crate) fn of_namespace(&self, namespace: &str) -> Vec<Scaler> {
        let hpas = if namespace.is_empty() { self.hpas.list() } else { self.hpas.namespace(namespace) };
        let hpas = hpas.into_iter().filter(|hpa| decides_in_members(hpa)).map(Scaler::from);
        hpas.chain(self.others_of(namespace)).collect()
    }

    fn others_of(&self, namespace: &str) -> Vec<Scaler> {
        let mut all = Vec::new();
        for gvk in self.interpreters.autoscalers().keys() {
            let Some((_, cache)) = self.templates.watched(gvk) else { continue };
            let objects = if namespace.is_empty() { cache.list() } else { cache.namespace(namespace) };
            let ours = objects.iter().filter(|object| is_run_by_members(&object.metadata));
            all.extend(ours.filter_map(|object| self.seen(gvk, object)));
        }
        all
    }
}

/// The group of the kind that a definition defines.
fn group(definition: &Definition) -> Option<String> {
    definition.name_any().split_once('.').map(|(_, group)| group.to_owned())
}
