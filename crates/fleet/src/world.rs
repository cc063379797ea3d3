//! A fleet in one state: what [`check`](crate::check) judges, and what a dump of a fleet holds.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{
    cluster::Cluster,
    names,
    policy::{ClusterPropagationPolicy, ClusterTaintPolicy, PropagationPolicy},
    work::{ClusterResourceBinding, ResourceBinding, Work},
};
use serde_json::Value;

use crate::{Binding, BindingKey, ClusterName, Gvk, ObjectKey, PolicyKey, WorkKey};

/// All clusters of the fleet.
pub type Clusters = BTreeMap<ClusterName, Arc<Cluster>>;

/// Objects of the control plane and of its members, by key. Objects are shared, so that a copy of a world is cheap.
#[derive(Debug, Clone, Default)]
pub struct World {
    pub clusters: Clusters,
    /// All PropagationPolicies.
    pub policies: BTreeMap<PolicyKey, Arc<PropagationPolicy>>,
    /// All ClusterPropagationPolicies; the namespace of their keys is empty.
    pub cluster_policies: BTreeMap<PolicyKey, Arc<ClusterPropagationPolicy>>,
    /// All ClusterTaintPolicies, by name.
    pub taint_policies: BTreeMap<Arc<str>, Arc<ClusterTaintPolicy>>,
    /// Templates, and all Namespaces.
    pub templates: BTreeMap<ObjectKey, Arc<Value>>,
    /// All ResourceBindings.
    pub bindings: BTreeMap<BindingKey, Arc<ResourceBinding>>,
    /// All ClusterResourceBindings; the namespace of their keys is empty.
    pub cluster_bindings: BTreeMap<BindingKey, Arc<ClusterResourceBinding>>,
    /// All Works of execution spaces.
    pub works: BTreeMap<WorkKey, Arc<Work>>,
    /// Objects in members. A cluster that could not be looked at has no entry.
    pub members: BTreeMap<ClusterName, BTreeMap<ObjectKey, Arc<Value>>>,
}

impl World {
    /// The bindings of both kinds, ResourceBindings first.
    pub fn all_bindings(&self) -> impl Iterator<Item = Binding> {
        let namespaced = self.bindings.values().cloned().map(Binding::Namespaced);
        namespaced.chain(self.cluster_bindings.values().cloned().map(Binding::Cluster))
    }

    /// The binding with this key.
    #[must_use]
    pub fn binding(&self, key: &BindingKey) -> Option<Binding> {
        let namespaced = self.bindings.get(key).cloned().map(Binding::Namespaced);
        namespaced.or_else(|| self.cluster_bindings.get(key).cloned().map(Binding::Cluster))
    }

    /// The binding of the template, whatever the binding's name.
    #[must_use]
    pub fn binding_of(&self, template: &ObjectKey) -> Option<Binding> {
        self.all_bindings().find(|binding| binding.view().is_of(template))
    }

    /// Puts a template in.
    pub fn insert_template(&mut self, object: Value) {
        self.templates.insert(key_of(&object), Arc::new(object));
    }

    /// Puts an object of a member in.
    pub fn insert_member(&mut self, cluster: ClusterName, object: Value) {
        self.members.entry(cluster).or_default().insert(key_of(&object), Arc::new(object));
    }

    /// Puts a Cluster in.
    pub fn insert_cluster(&mut self, cluster: Cluster) {
        self.clusters.insert(text(&cluster.metadata.name).into(), Arc::new(cluster));
    }

    /// Puts a PropagationPolicy in.
    pub fn insert_policy(&mut self, policy: PropagationPolicy) {
        let key =
            PolicyKey { namespace: text(&policy.metadata.namespace).into(), name: text(&policy.metadata.name).into() };
        self.policies.insert(key, Arc::new(policy));
    }

    /// Puts a ClusterPropagationPolicy in.
    pub fn insert_cluster_policy(&mut self, policy: ClusterPropagationPolicy) {
        let key = PolicyKey { namespace: "".into(), name: text(&policy.metadata.name).into() };
        self.cluster_policies.insert(key, Arc::new(policy));
    }

    /// Puts a ClusterTaintPolicy in.
    pub fn insert_taint_policy(&mut self, policy: ClusterTaintPolicy) {
        self.taint_policies.insert(text(&policy.metadata.name).into(), Arc::new(policy));
    }

    /// Puts a ResourceBinding in.
    pub fn insert_binding(&mut self, binding: ResourceBinding) {
        let key = BindingKey {
            namespace: text(&binding.metadata.namespace).into(),
            name: text(&binding.metadata.name).into(),
        };
        self.bindings.insert(key, Arc::new(binding));
    }

    /// Puts a ClusterResourceBinding in.
    pub fn insert_cluster_binding(&mut self, binding: ClusterResourceBinding) {
        let key = BindingKey { namespace: "".into(), name: text(&binding.metadata.name).into() };
        self.cluster_bindings.insert(key, Arc::new(binding));
    }

    /// Puts a Work in, if it is in an execution space.
    pub fn insert_work(&mut self, work: Work) {
        if let Ok(cluster) = names::cluster_of_execution_namespace(text(&work.metadata.namespace)) {
            let key = WorkKey { cluster: cluster.into(), name: text(&work.metadata.name).into() };
            self.works.insert(key, Arc::new(work));
        }
    }
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// The key of an object given as JSON.
pub(crate) fn key_of(object: &Value) -> ObjectKey {
    let at = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    ObjectKey {
        gvk: Gvk::from_manifest(at("/apiVersion"), at("/kind")),
        namespace: at("/metadata/namespace").into(),
        name: at("/metadata/name").into(),
    }
}
