//! A copy of the fleet, and the writes of decisions applied to it as the API server applies them.
//!
//! Everything in this crate that asks "what if" changes such a copy. Objects are shared until they change, so a copy is
//! cheap.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ironclad_api::{
    config::{ResourceInterpreterCustomization, ResourceInterpreterWebhookConfiguration},
    policy::{ClusterOverridePolicy, FederatedResourceQuota, OverridePolicy},
    work::{AggregatedStatusItem, ResourceBindingSpec, ResourceBindingStatus, TargetCluster},
};
use ironclad_fleet::{Binding, BindingKey, ClusterName, Gvk, ObjectKey, PolicyKey, StatusPart, World};
use ironclad_interpreter::webhook::Webhooks;
use ironclad_patch::merge_patch;
use ironclad_propagation::{policy_match::Policy, priority::Class, template::Identity};
use ironclad_scheduling::estimator::Index;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::leader::Settings;

/// An object of the fleet that does not have the fields of its kind.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {name}")]
pub struct InvalidObject {
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// The field that is wrong.
    pub source: serde_json::Error,
}

/// The fleet, as far as decisions on placement read it.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// Clusters, policies, bindings and templates.
    pub world: World,
    /// All OverridePolicies.
    pub overrides: Vec<Arc<OverridePolicy>>,
    /// All ClusterOverridePolicies.
    pub cluster_overrides: Vec<Arc<ClusterOverridePolicy>>,
    /// All ResourceInterpreterCustomizations.
    pub customizations: Vec<ResourceInterpreterCustomization>,
    /// All ResourceInterpreterWebhookConfigurations; `None` if they could not be read.
    pub webhooks: Option<Vec<ResourceInterpreterWebhookConfiguration>>,
    /// All PriorityClasses; `None` if they could not be read, and priorities of bindings stay as they are.
    pub priority_classes: Option<Vec<Class>>,
    /// FederatedResourceQuotas, at least of the namespaces that are asked about.
    pub quotas: Vec<Arc<FederatedResourceQuota>>,
    /// Nodes and pods of the members that were asked for them, as the leader counts them.
    pub nodes: BTreeMap<ClusterName, Arc<Index>>,
    /// Answers of the leader's accounts of clusters about bindings.
    pub accounts: BTreeMap<BindingKey, BTreeMap<ClusterName, i64>>,
    /// Answers of the leader's estimators over gRPC about bindings; `None` is no opinion.
    pub answers: BTreeMap<BindingKey, BTreeMap<ClusterName, Option<i64>>>,
    /// Flags and gates of the leader.
    pub settings: Settings,
}

impl Fleet {
    /// Inserts an object of any kind, replacing the one of the same name. An object of a kind that is not ours is a
    /// template.
    ///
    /// # Errors
    /// If the object does not have the fields of its kind.
    pub fn insert(&mut self, object: Value) -> Result<(), InvalidObject> {
        let identity = Identity::of(&object);
        match (identity.group(), identity.kind) {
            ("policy.karmada.io", "OverridePolicy") => {
                let policy: OverridePolicy = typed(object)?;
                let key = (policy.metadata.namespace.clone(), policy.metadata.name.clone());
                self.overrides.retain(|one| (one.metadata.namespace.clone(), one.metadata.name.clone()) != key);
                self.overrides.push(Arc::new(policy));
            }
            ("policy.karmada.io", "ClusterOverridePolicy") => {
                let policy: ClusterOverridePolicy = typed(object)?;
                self.cluster_overrides.retain(|one| one.metadata.name != policy.metadata.name);
                self.cluster_overrides.push(Arc::new(policy));
            }
            ("policy.karmada.io", "FederatedResourceQuota") => {
                let quota: FederatedResourceQuota = typed(object)?;
                let key = (quota.metadata.namespace.clone(), quota.metadata.name.clone());
                self.quotas.retain(|one| (one.metadata.namespace.clone(), one.metadata.name.clone()) != key);
                self.quotas.push(Arc::new(quota));
            }
            ("config.karmada.io", "ResourceInterpreterCustomization") => {
                let customization: ResourceInterpreterCustomization = typed(object)?;
                self.customizations.retain(|one| one.metadata.name != customization.metadata.name);
                self.customizations.push(customization);
            }
            ("config.karmada.io", "ResourceInterpreterWebhookConfiguration") => {
                self.webhooks.get_or_insert_default().push(typed(object)?);
            }
            ("policy.karmada.io" | "cluster.karmada.io" | "work.karmada.io", _) => insert(&mut self.world, object)?,
            ("scheduling.k8s.io", "PriorityClass") => {
                self.insert_class(Class::of_manifest(&object));
                self.world.insert_template(object);
            }
            _ => self.world.insert_template(object),
        }
        Ok(())
    }

    /// Inserts a PriorityClass, replacing the one of the same name.
    pub fn insert_class(&mut self, class: Class) {
        let classes = self.priority_classes.get_or_insert_default();
        classes.retain(|one| one.name != class.name);
        classes.push(class);
    }

    /// Returns true if an interpreter webhook may answer for the kind.
    #[must_use]
    pub fn may_ask_webhooks(&self, gvk: &Gvk) -> bool {
        let hooks = self.webhooks.as_ref().map(Webhooks::new);
        hooks.is_none_or(|hooks| hooks.concerns(&gvk.group, &gvk.version, &gvk.kind))
    }

    /// The policy of this key, of either kind.
    #[must_use]
    pub fn policy(&self, key: &PolicyKey) -> Option<Policy<'_>> {
        let namespaced = self.world.policies.get(key).map(|policy| Policy::Namespaced(policy));
        namespaced.or_else(|| self.world.cluster_policies.get(key).map(|policy| Policy::Cluster(policy)))
    }

    /// All policies that claim templates, namespaced ones first.
    pub fn policies(&self) -> impl Iterator<Item = Policy<'_>> {
        let namespaced = self.world.policies.values().map(|policy| Policy::Namespaced(policy));
        namespaced.chain(self.world.cluster_policies.values().map(|policy| Policy::Cluster(policy)))
    }

    /// Names of the OverridePolicies of a namespace.
    #[must_use]
    pub fn override_names(&self, namespace: &str) -> BTreeSet<String> {
        let policies = self.overrides.iter().map(|policy| &policy.metadata);
        let of_namespace = policies.filter(|metadata| metadata.namespace.as_deref() == Some(namespace));
        of_namespace.filter_map(|metadata| metadata.name.clone()).collect()
    }

    /// Names of the ClusterOverridePolicies.
    #[must_use]
    pub fn cluster_override_names(&self) -> BTreeSet<String> {
        self.cluster_overrides.iter().filter_map(|policy| policy.metadata.name.clone()).collect()
    }

    pub(crate) fn patch_template(&mut self, key: &ObjectKey, patch: &Value) {
        if let Some(template) = self.world.templates.get_mut(key) {
            merge_patch(Arc::make_mut(template), patch);
        }
    }

    pub(crate) fn patch_policy(&mut self, key: &PolicyKey, patch: &Value) {
        if let Some(policy) = self.world.policies.get_mut(key) {
            *policy = Arc::new(patched(&**policy, patch));
        }
        if let Some(policy) = self.world.cluster_policies.get_mut(key) {
            *policy = Arc::new(patched(&**policy, patch));
        }
    }

    pub(crate) fn patch_binding(&mut self, key: &BindingKey, patch: &Value) {
        if let Some(binding) = self.world.binding(key) {
            put_binding(&mut self.world, key, patched_binding(&binding, patch));
        }
    }
}

/// Inserts an object into a world if it is of a kind that decisions on placement or eviction read, and drops any other.
///
/// # Errors
/// If the object does not have the fields of its kind.
pub fn insert(world: &mut World, object: Value) -> Result<(), InvalidObject> {
    let identity = Identity::of(&object);
    match (identity.group(), identity.kind) {
        ("cluster.karmada.io", "Cluster") => world.insert_cluster(typed(object)?),
        ("policy.karmada.io", "ClusterTaintPolicy") => world.insert_taint_policy(typed(object)?),
        ("policy.karmada.io", "PropagationPolicy") => world.insert_policy(typed(object)?),
        ("policy.karmada.io", "ClusterPropagationPolicy") => world.insert_cluster_policy(typed(object)?),
        ("work.karmada.io", "ResourceBinding") => world.insert_binding(typed(object)?),
        ("work.karmada.io", "ClusterResourceBinding") => world.insert_cluster_binding(typed(object)?),
        _ => {}
    }
    Ok(())
}

fn typed<K: DeserializeOwned>(object: Value) -> Result<K, InvalidObject> {
    let identity = Identity::of(&object);
    let (kind, name) = (identity.kind.to_owned(), identity.name.to_owned());
    serde_json::from_value(object).map_err(|source| InvalidObject { kind, name, source })
}

/// Puts a binding in the place of the one with the same key, which is returned.
pub(crate) fn put_binding(world: &mut World, key: &BindingKey, binding: Binding) -> Option<Binding> {
    match binding {
        Binding::Namespaced(binding) => world.bindings.insert(key.clone(), binding).map(Binding::Namespaced),
        Binding::Cluster(binding) => world.cluster_bindings.insert(key.clone(), binding).map(Binding::Cluster),
    }
}

/// The binding with a merge patch applied; a change of its spec is a new generation.
pub(crate) fn patched_binding(binding: &Binding, patch: &Value) -> Binding {
    let mut after = match binding {
        Binding::Namespaced(binding) => Binding::Namespaced(Arc::new(patched(&**binding, patch))),
        Binding::Cluster(binding) => Binding::Cluster(Arc::new(patched(&**binding, patch))),
    };
    if after.spec() != binding.spec() {
        change(&mut after, |generation, _, _| *generation = Some(generation.unwrap_or_default() + 1));
    }
    after
}

/// The binding with another schedule result.
pub(crate) fn with_result(binding: &Binding, clusters: Vec<TargetCluster>) -> Binding {
    let mut after = binding.clone();
    change(&mut after, |_, spec, _| spec.clusters = clusters);
    after
}

/// The binding with a part of its status written.
pub(crate) fn with_status(binding: &Binding, part: &StatusPart) -> Binding {
    let current = serde_json::to_value(binding.status()).unwrap_or_default();
    let current = if current.is_null() { Value::Object(serde_json::Map::new()) } else { current };
    let status = serde_json::from_value(StatusPart::applied(&current, &[part])).ok();
    let mut after = binding.clone();
    change(&mut after, |_, _, present| *present = status);
    after
}

/// The binding with other reports from its clusters.
pub(crate) fn with_reports(binding: &Binding, reports: Vec<AggregatedStatusItem>) -> Binding {
    let mut after = binding.clone();
    change(&mut after, |_, _, status| status.get_or_insert_default().aggregated_status = reports);
    after
}

fn change(
    binding: &mut Binding,
    change: impl FnOnce(&mut Option<i64>, &mut ResourceBindingSpec, &mut Option<ResourceBindingStatus>),
) {
    match binding {
        Binding::Namespaced(binding) => {
            let binding = Arc::make_mut(binding);
            change(&mut binding.metadata.generation, &mut binding.spec, &mut binding.status);
        }
        Binding::Cluster(binding) => {
            let binding = Arc::make_mut(binding);
            change(&mut binding.metadata.generation, &mut binding.spec, &mut binding.status);
        }
    }
}

/// An object with a merge patch applied. A patch that would leave an invalid object changes nothing: decisions make
/// none.
pub(crate) fn patched<K: Serialize + DeserializeOwned + Clone>(object: &K, patch: &Value) -> K {
    let Ok(mut value) = serde_json::to_value(object) else { return object.clone() };
    merge_patch(&mut value, patch);
    serde_json::from_value(value).unwrap_or_else(|_| object.clone())
}
