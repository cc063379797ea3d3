//! What the detector sees of one template.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    names,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
};
use ironclad_fleet::{ObjectKey, PolicyKey, gates::Gate};
use ironclad_interpreter::Interpreter;
use ironclad_propagation::{
    detector::{Seen, Waiting, binding::Options, claim::Claim},
    policy_match::Policy,
    priority,
    template::Identity,
};
use ironclad_runtime::{Failure, Key, Writer};
use jiff::Timestamp;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, ResourceExt as _, api::DynamicObject};
use serde_json::Value;

use crate::{
    AnyBinding, Context,
    index::{BY_TEMPLATE, template_name},
    selected::may_select,
};

/// The snapshot.
pub(super) struct Observed {
    /// Which template.
    pub(super) key: ObjectKey,
    /// It; its version is the one to write over.
    pub(super) template: Arc<DynamicObject>,
    /// The policy that has it, or else all that could.
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
    priority_classes: Option<Vec<priority::Class>>,
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

impl Context {
    /// The policies of a namespace.
    pub(crate) fn policies_in(&self, namespace: &str) -> Vec<AnyPolicy> {
        self.policies.namespace(namespace).into_iter().map(AnyPolicy::Namespaced).collect()
    }

    /// All cluster-wide policies.
    pub(crate) fn all_cluster_policies(&self) -> Vec<AnyPolicy> {
        self.cluster_policies.list().into_iter().map(AnyPolicy::Cluster).collect()
    }

    /// The policies that may take the template.
    fn policies_for(&self, template: &Identity<'_>) -> Vec<AnyPolicy> {
        let namespaced = match template.namespace {
            "" => Vec::new(),
            namespace => may_select(&self.policies, namespace, template),
        };
        let cluster = may_select(&self.cluster_policies, "", template);
        namespaced.into_iter().map(AnyPolicy::Namespaced).chain(cluster.into_iter().map(AnyPolicy::Cluster)).collect()
    }

    /// The OverridePolicies and ClusterOverridePolicies that exist of those that these policies depend on.
    pub(crate) fn overrides_asked_for(&self, policies: &[AnyPolicy]) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut namespaced, mut cluster) = (BTreeSet::new(), BTreeSet::new());
        for policy in policies {
            let (key, asked) = (policy.view().key(), &policy.view().spec().dependent_overrides);
            match policy {
                AnyPolicy::Namespaced(_) => {
                    let exists = |name: &&String| self.overrides.get(&key.namespace, name).is_some();
                    namespaced.extend(asked.iter().filter(exists).cloned());
                }
                AnyPolicy::Cluster(_) => {
                    let exists = |name: &&String| self.cluster_overrides.get("", name).is_some();
                    cluster.extend(asked.iter().filter(exists).cloned());
                }
            }
        }
        (namespaced, cluster)
    }

    /// The policy of this key.
    pub(crate) fn policy(&self, key: &PolicyKey) -> Option<AnyPolicy> {
        if key.namespace.is_empty() {
            self.cluster_policies.get("", &key.name).map(AnyPolicy::Cluster)
        } else {
            self.policies.get(&key.namespace, &key.name).map(AnyPolicy::Namespaced)
        }
    }
}

impl Observed {
    /// The template, as decisions read it.
    pub(super) fn json(&self) -> &Value {
        &self.json
    }

    /// The bindings that were seen.
    pub(super) fn bindings(&self) -> impl Iterator<Item = &AnyBinding> {
        self.binding.iter().chain(&self.named)
    }

    /// Decides over the snapshot.
    pub(super) fn with_seen<T>(&self, now: Timestamp, decide: impl FnOnce(&Seen<'_>) -> T) -> T {
        let policies: Vec<Policy<'_>> = self.policies.iter().map(AnyPolicy::view).collect();
        decide(&Seen {
            template: &self.json,
            policies: &policies,
            binding: self.binding.as_ref().map(AnyBinding::view),
            named: self.named.as_ref().map(AnyBinding::view),
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

pub(super) async fn observe(cx: &Context, key: &ObjectKey) -> Result<Option<Observed>, Failure> {
    let Some(informer) = cx.templates.informer(&key.gvk).await? else { return Ok(None) };
    let Some(template) = informer.get(&key.namespace, &key.name) else { return Ok(None) };
    let json = serde_json::to_value(&*template).map_err(|e| Failure::Invalid(e.to_string()))?;
    let first_name = names::binding_name(&key.gvk.kind, &key.name);
    let policies = match Claim::of_template(&json) {
        Some(claim) => cx.policy(&claim.policy()).into_iter().collect(),
        None => cx.policies_for(&Identity::of(&json)),
    };
    let (overrides, cluster_overrides) = cx.overrides_asked_for(&policies);
    Ok(Some(Observed {
        key: key.clone(),
        template,
        policies,
        binding: cx.bindings.by_index(BY_TEMPLATE, &template_name(key)).into_iter().next(),
        json,
        named: cx.bindings.get(&Key::new(&key.namespace, &first_name)),
        waiting: cx.waiting.0.lock().get(key).copied(),
        interpreter: cx.interpreter(),
        overrides,
        cluster_overrides,
        options: Options {
            workload_affinity: cx.settings.gates.enabled(Gate::WorkloadAffinity),
            resource_quota_estimate: cx.settings.gates.enabled(Gate::ResourceQuotaEstimate),
            multiple_pod_templates: cx.settings.gates.enabled(Gate::MultiplePodTemplatesScheduling),
        },
        priority_classes: cx.settings.gates.enabled(Gate::PriorityBasedScheduling).then(|| priority_classes(cx)),
    }))
}

fn priority_classes(cx: &Context) -> Vec<priority::Class> {
    let class = |class: &PriorityClass| priority::Class {
        name: class.name_any(),
        value: class.value.unwrap_or(0),
        is_default: class.global_default.unwrap_or(false),
        preemption_policy: class.preemption_policy.clone(),
    };
    cx.priority_classes.list().iter().map(|found| class(found)).collect()
}
