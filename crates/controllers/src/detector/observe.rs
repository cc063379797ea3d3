//! The snapshot of one template.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::names;
use ironclad_fleet::{Binding, ObjectKey, gates::Gate};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{
    detector::{Seen, Waiting, binding::Options, claim::Claim},
    policy_match::Policy,
    priority,
    template::Identity,
};
use ironclad_runtime::{Failure, Informer, Key};
use jiff::Timestamp;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use crate::{
    bindings::Bindings,
    caches::PRIORITY_CLASSES,
    interpreter::Interpreters,
    objects::Objects,
    policies::{AnyPolicy, Policies},
    setup::Setup,
    templates::TemplateQueue,
};

/// The caches that the controller reads.
pub(super) struct Observer {
    policies: Policies,
    bindings: Bindings,
    templates: Arc<Objects<DynamicObject>>,
    queue: TemplateQueue,
    interpreters: Arc<Interpreters>,
    options: Options,
    /// Read only with gate `PriorityBasedScheduling`.
    priority_classes: Option<Informer<PriorityClass>>,
}

/// The snapshot.
pub(super) struct Observed {
    /// The key of the template.
    pub(super) key: ObjectKey,
    /// The template; its version is the one to write over.
    pub(super) template: Arc<DynamicObject>,
    /// The policy that claims it, or else all that may select it.
    pub(super) policies: Vec<AnyPolicy>,
    binding: Option<Binding>,
    json: Value,
    named: Option<Binding>,
    waiting: Option<Waiting>,
    /// Answers about kinds, for this decision.
    pub(super) interpreter: Interpreter,
    overrides: BTreeSet<String>,
    cluster_overrides: BTreeSet<String>,
    options: Options,
    priority_classes: Option<Vec<priority::Class>>,
}

impl Observed {
    /// The template, as decisions read it.
    pub(super) fn json(&self) -> &Value {
        &self.json
    }

    /// The bindings that were seen.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.binding.iter().chain(&self.named)
    }

    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, now: Timestamp, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let policies: Vec<Policy<'_>> = self.policies.iter().map(AnyPolicy::view).collect();
        decide(&Seen {
            template: &self.json,
            policies: &policies,
            binding: self.binding.as_ref().map(Binding::view),
            named: self.named.as_ref().map(Binding::view),
            waiting: self.waiting,
            overrides: &self.overrides,
            cluster_overrides: &self.cluster_overrides,
            priority_classes: self.priority_classes.as_deref(),
            interpreter: &self.interpreter,
            options: &self.options,
            now,
        })
    }
}

impl Observer {
    pub(super) fn new(setup: &Setup) -> Self {
        let gates = &setup.settings.gates;
        Self {
            policies: Policies::take(&setup.caches, &setup.plane),
            bindings: setup.bindings().clone(),
            templates: setup.templates().clone(),
            queue: setup.template_queue().clone(),
            interpreters: setup.interpreters().clone(),
            options: Options::of(gates),
            priority_classes: gates
                .enabled(Gate::PriorityBasedScheduling)
                .then(|| setup.caches.take(&PRIORITY_CLASSES)),
        }
    }

    pub(super) async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, Failure> {
        let Some(informer) = self.templates.informer(&key.gvk).await? else { return Ok(None) };
        let Some(template) = informer.get(&key.namespace, &key.name) else { return Ok(None) };
        let json = serde_json::to_value(&*template).map_err(|e| Failure::Invalid(e.to_string()))?;
        let first_name = names::binding_name(&key.gvk.kind, &key.name);
        let policies = match Claim::of_template(&json) {
            Some(claim) => self.policies.get(&claim.policy()).into_iter().collect(),
            None => self.policies.may_select(&Identity::of(&json)),
        };
        let (overrides, cluster_overrides) = self.policies.dependent_overrides(&policies);
        Ok(Some(Observed {
            key: key.clone(),
            template,
            policies,
            binding: self.bindings.of_template(key),
            json,
            named: self.bindings.get(&Key::new(&key.namespace, &first_name)),
            waiting: self.queue.waiting(key),
            interpreter: self.interpreters.for_a_decision(),
            overrides,
            cluster_overrides,
            options: self.options.clone(),
            priority_classes: self.priority_classes.as_ref().map(classes),
        }))
    }
}

fn classes(informer: &Informer<PriorityClass>) -> Vec<priority::Class> {
    let class = |class: &PriorityClass| priority::Class {
        name: class.name_any(),
        value: class.value.unwrap_or(0),
        is_default: class.global_default.unwrap_or(false),
        preemption_policy: class.preemption_policy.clone(),
    };
    informer.list().iter().map(|found| class(found)).collect()
}
