//! The snapshot of one binding and of the objects that its template refers to.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{names, work::ResourceBinding};
use ironclad_fleet::{Binding, BindingRef, Gvk};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{
    dependencies::{self, Seen, dependents},
    template::Identity,
};
use ironclad_runtime::{Failure, Informer, Key};
use kube::api::DynamicObject;
use serde_json::Value;

use crate::{
    bindings::Bindings,
    index::{BY_DEPENDENT, BY_TEMPLATE, template_name},
    interpreter::Interpreters,
    objects::Objects,
    setup::Setup,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    bindings: Bindings,
    pub(super) templates: Arc<Objects<DynamicObject>>,
    interpreters: Arc<Interpreters>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The binding; its version is the one to write over.
    pub(super) binding: Binding,
    /// The attached bindings, and bindings of other origin under their names.
    pub(super) attached: Vec<Arc<ResourceBinding>>,
    template: Option<Value>,
    objects: Vec<Value>,
    /// Kinds that could not be listed.
    pub(super) unlisted: Vec<Gvk>,
    referrers: Vec<Binding>,
    pub(super) interpreter: Interpreter,
}

impl Observed {
    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let objects: Vec<&Value> = self.objects.iter().collect();
        let referrers: Vec<BindingRef<'_>> = self.referrers.iter().map(Binding::view).collect();
        decide(&Seen {
            binding: self.binding.view(),
            template: self.template.as_ref(),
            objects: &objects,
            unlisted: &self.unlisted,
            attached: &self.attached,
            referrers: &referrers,
            interpreter: &self.interpreter,
        })
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            bindings: setup.bindings().clone(),
            templates: setup.templates().clone(),
            interpreters: setup.interpreters().clone(),
        }
    }

    pub(super) async fn observe(&self, key: &Key) -> Result<Option<Observed>, Failure> {
        let Some(binding) = self.bindings.get(key) else { return Ok(None) };
        let template = self.templates.read(&binding.template()).await?;
        let interpreter = self.interpreters.for_a_decision();
        let (mut objects, mut unlisted) = (Vec::new(), Vec::new());
        // The decision reports a template that can't be read.
        let needs = self
            .interpreters
            .resolve(&interpreter, || dependencies::needs(binding.view(), template.as_ref(), &interpreter))
            .await;
        for needed in needs.plan.unwrap_or_default() {
            let gvk = Gvk::from_manifest(&needed.api_version, &needed.kind);
            let informer = match self.templates.listed(&gvk).await {
                Ok(Some(informer)) => informer,
                Ok(None) => continue,
                // One kind that can't be listed does not stop the others (specification/propagation.md 8.2).
                Err(failure) => {
                    tracing::warn!(binding = %key, %failure, "dependencies of a kind are left as they are");
                    unlisted.push(gvk);
                    continue;
                }
            };
            for object in found(&informer, &needed.namespace, &needed.name) {
                let json = serde_json::to_value(&*object).map_err(|e| Failure::Invalid(e.to_string()))?;
                if dependencies::selects(&needed, &Identity::of(&json)) {
                    objects.push(json);
                }
            }
        }
        let (edge, _) = dependencies::edge(binding.view());
        let mut attached: BTreeMap<Key, Arc<ResourceBinding>> = BTreeMap::new();
        let mut add = |found: Vec<Arc<ResourceBinding>>| attached.extend(found.into_iter().map(|b| (Key::of(&*b), b)));
        add(self.bindings.namespaced.by_index(BY_DEPENDENT, &edge));
        for object in &objects {
            let identity = Identity::of(object);
            add(self.bindings.namespaced.by_index(BY_TEMPLATE, &template_name(&identity.key())));
            let namespace = dependents::namespace_of(binding.view(), &identity);
            let name = names::binding_name(identity.kind, identity.name);
            add(self.bindings.namespaced.get(&namespace, &name).into_iter().collect());
        }
        let attached: Vec<Arc<ResourceBinding>> = attached.into_values().collect();
        let mut referrers: BTreeMap<Key, Binding> = BTreeMap::new();
        for named in attached.iter().flat_map(|b| &b.spec.required_by) {
            let key = Key::new(&named.namespace, &named.name);
            if let Some(referrer) = self.bindings.get(&key) {
                referrers.insert(key, referrer);
            }
        }
        Ok(Some(Observed {
            binding,
            attached,
            template,
            objects,
            unlisted,
            referrers: referrers.into_values().collect(),
            interpreter,
        }))
    }
}

/// The object of this name, or all of the namespace if there is none.
fn found(informer: &Informer<DynamicObject>, namespace: &str, name: &str) -> Vec<Arc<DynamicObject>> {
    if name.is_empty() { informer.namespace(namespace) } else { informer.get(namespace, name).into_iter().collect() }
}
