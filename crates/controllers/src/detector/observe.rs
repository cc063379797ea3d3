//! What the detector sees of one template.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    names,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
};
use ironclad_fleet::ObjectKey;
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{
    binding::Options,
    choose::Policy,
    claim::{Seen, Waiting},
};
use ironclad_runtime::{Failure, Key, Writer};
use kube::{Api, ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use crate::{
    AnyBinding, Context,
    context::{BY_TEMPLATE, template_name},
};

/// The snapshot.
pub(super) struct Observed {
    /// Which template.
    pub(super) key: ObjectKey,
    /// It; its version is the one to write over.
    pub(super) template: Arc<DynamicObject>,
    /// All policies that could have it.
    pub(super) policies: Vec<AnyPolicy>,
    binding: Option<AnyBinding>,
    json: Value,
    named: Option<AnyBinding>,
    waiting: Option<Waiting>,
    /// Answers about kinds, for this decision.
    pub(super) interpreter: Interpreter,
    overrides: BTreeSet<String>,
    cluster_overrides: BTreeSet<String>,
    options: Options,
}

/// A cached policy of either kind.
#[derive(Clone)]
pub(crate) enum AnyPolicy {
    Namespaced(Arc<PropagationPolicy>),
    Cluster(Arc<ClusterPropagationPolicy>),
}

impl AnyPolicy {
    pub(crate) fn view(&self) -> Policy<'_> {
        match self {
            Self::Namespaced(policy) => Policy::Namespaced(policy),
            Self::Cluster(policy) => Policy::Cluster(policy),
        }
    }

    /// Merge-patches it, provided that it is still the version seen.
    pub(crate) async fn patch(&self, cx: &Context, writer: &Writer, patch: Value) -> Result<(), Failure> {
        match self {
            Self::Namespaced(policy) => {
                let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
                let api = Api::namespaced(cx.plane.clone(), namespace);
                writer.patch(&api, Some(&cx.policies), &**policy, patch).await.map(drop)
            }
            Self::Cluster(policy) => {
                let api = Api::all(cx.plane.clone());
                writer.patch(&api, Some(&cx.cluster_policies), &**policy, patch).await.map(drop)
            }
        }
    }
}

impl Observed {
    /// The bindings that were seen.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &AnyBinding> {
        self.binding.iter().chain(&self.named)
    }

    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let policies: Vec<Policy<'_>> = self.policies.iter().map(AnyPolicy::view).collect();
        decide(&Seen {
            template: &self.json,
            policies: &policies,
            binding: self.binding.as_ref().map(AnyBinding::view),
            named: self.named.as_ref().map(AnyBinding::view),
            waiting: self.waiting,
            overrides: &self.overrides,
            cluster_overrides: &self.cluster_overrides,
            schedule_priority: None,
            interpreter: &self.interpreter,
            options: &self.options,
        })
    }
}

pub(super) async fn observe(cx: &Context, key: &ObjectKey) -> Result<Option<Observed>, Failure> {
    let Some(informer) = cx.templates.informer(&key.gvk).await? else { return Ok(None) };
    let Some(template) = informer.get(&key.namespace, &key.name) else { return Ok(None) };
    let json = serde_json::to_value(&*template).map_err(|e| Failure::Invalid(e.to_string()))?;
    let namespaced = cx.policies.namespace(&key.namespace).into_iter().map(AnyPolicy::Namespaced);
    let cluster = cx.cluster_policies.list().into_iter().map(AnyPolicy::Cluster);
    let first_name = names::binding_name(&key.gvk.kind, &key.name);
    Ok(Some(Observed {
        key: key.clone(),
        template,
        policies: namespaced.chain(cluster).collect(),
        binding: cx.bindings_by(BY_TEMPLATE, &template_name(key)).into_iter().next(),
        json,
        named: cx.binding(&Key::new(&key.namespace, &first_name)),
        waiting: cx.waiting.0.lock().get(key).copied(),
        interpreter: cx.interpreter(),
        overrides: cx.overrides.namespace(&key.namespace).iter().map(|o| o.name_any()).collect(),
        cluster_overrides: cx.cluster_overrides.list().iter().map(|o| o.name_any()).collect(),
        options: Options::default(),
    }))
}
