//! Claims: the labels and annotations by which a template and its binding belong to a policy
//! (specification/propagation.md 5.1).

use std::collections::BTreeMap;

use ironclad_api::{ObjectMeta, StringMap, annotations, labels};
use ironclad_fleet::{PolicyKey, finalizer};
use serde_json::{Map, Value, json};

use crate::{new_ids::NewIds, policy_match::Policy, template, template_hash::AWAITS_EDIT};

/// Kind of the claiming policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimScope {
    /// A PropagationPolicy.
    Namespaced,
    /// A ClusterPropagationPolicy.
    Cluster,
}

/// Claim of one policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Kind of the policy.
    pub scope: ClaimScope,
    /// Namespace of the policy, empty for a ClusterPropagationPolicy.
    pub namespace: String,
    /// Name of the policy.
    pub name: String,
    /// Permanent id of the policy.
    pub id: String,
}

/// Label and annotation keys for one kind of policy.
struct Keys {
    label: &'static str,
    namespace: Option<&'static str>,
    name: &'static str,
}

const NAMESPACED: Keys = Keys {
    label: labels::PROPAGATION_POLICY_PERMANENT_ID,
    namespace: Some(annotations::PROPAGATION_POLICY_NAMESPACE),
    name: annotations::PROPAGATION_POLICY_NAME,
};
const CLUSTER: Keys = Keys {
    label: labels::CLUSTER_PROPAGATION_POLICY_PERMANENT_ID,
    namespace: None,
    name: annotations::CLUSTER_PROPAGATION_POLICY_NAME,
};

impl ClaimScope {
    fn keys(self) -> &'static Keys {
        match self {
            Self::Namespaced => &NAMESPACED,
            Self::Cluster => &CLUSTER,
        }
    }
}

impl Claim {
    /// Claim of a policy with this permanent id.
    #[must_use]
    pub fn new(policy: Policy<'_>, id: String) -> Self {
        let key = policy.key();
        let scope = match policy {
            Policy::Namespaced(_) => ClaimScope::Namespaced,
            Policy::Cluster(_) => ClaimScope::Cluster,
        };
        Self { scope, namespace: key.namespace.to_string(), name: key.name.to_string(), id }
    }

    /// Claim on a template. A PropagationPolicy's takes precedence. Incomplete metadata is not a claim.
    #[must_use]
    pub fn of_template(object: &Value) -> Option<Self> {
        Self::read(|label| template::label(object, label), |annotation| template::annotation(object, annotation))
    }

    /// Claim on a typed object, such as a binding.
    #[must_use]
    pub fn of_metadata(metadata: &ObjectMeta) -> Option<Self> {
        let value = |map: &'_ Option<BTreeMap<String, String>>, key: &str| {
            map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default()
        };
        Self::read(|key| value(&metadata.labels, key), |key| value(&metadata.annotations, key))
    }

    fn read<S: Into<String>>(label: impl Fn(&str) -> S, annotation: impl Fn(&str) -> S) -> Option<Self> {
        [ClaimScope::Namespaced, ClaimScope::Cluster].into_iter().find_map(|scope| {
            let keys = scope.keys();
            let claim = Self {
                scope,
                namespace: keys.namespace.map(|key| annotation(key).into()).unwrap_or_default(),
                name: annotation(keys.name).into(),
                id: label(keys.label).into(),
            };
            let complete = !claim.name.is_empty() && !claim.id.is_empty();
            (complete && (scope == ClaimScope::Cluster || !claim.namespace.is_empty())).then_some(claim)
        })
    }

    /// Key of the claiming policy.
    #[must_use]
    pub fn policy(&self) -> PolicyKey {
        PolicyKey { namespace: self.namespace.as_str().into(), name: self.name.as_str().into() }
    }

    /// Sets the claim. A PropagationPolicy's claim removes that of a ClusterPropagationPolicy.
    pub fn put_on(&self, labels: &mut BTreeMap<String, String>, annotations: &mut BTreeMap<String, String>) {
        if self.scope == ClaimScope::Namespaced {
            labels.remove(CLUSTER.label);
            annotations.remove(CLUSTER.name);
        }
        let keys = self.scope.keys();
        labels.insert(keys.label.into(), self.id.clone());
        annotations.insert(keys.name.into(), self.name.clone());
        if let Some(namespace) = keys.namespace {
            annotations.insert(namespace.into(), self.namespace.clone());
        }
    }

    /// The merge patch that claims a template; `None` if it already is.
    #[must_use]
    pub fn patch_of_template(&self, object: &Value) -> Option<Value> {
        let old_labels = template::map(object, "/metadata/labels");
        let old_annotations = template::map(object, "/metadata/annotations");
        let (mut new_labels, mut new_annotations) = (old_labels.clone(), old_annotations.clone());
        self.put_on(&mut new_labels, &mut new_annotations);
        patch((&old_labels, &new_labels), (&old_annotations, &new_annotations))
    }

    /// The merge patch that removes this claim from a template; `None` if the template has another id or none.
    #[must_use]
    pub fn removal_from_template(&self, object: &Value) -> Option<Value> {
        self.removal_of(&template::map(object, "/metadata/labels"), &template::map(object, "/metadata/annotations"))
    }

    /// The merge patch that removes this claim from a binding; `None` if the binding has another id or none.
    #[must_use]
    pub fn removal(&self, metadata: &ObjectMeta) -> Option<Value> {
        let none = BTreeMap::new();
        self.removal_of(metadata.labels.as_ref().unwrap_or(&none), metadata.annotations.as_ref().unwrap_or(&none))
    }

    fn removal_of(&self, labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Option<Value> {
        let keys = self.scope.keys();
        if labels.get(keys.label) != Some(&self.id) {
            return None;
        }
        let (mut new_labels, mut new_annotations) = (labels.clone(), annotations.clone());
        new_labels.remove(keys.label);
        new_annotations.remove(keys.name);
        if let Some(namespace) = keys.namespace {
            new_annotations.remove(namespace);
        }
        new_annotations.remove(AWAITS_EDIT);
        patch((labels, &new_labels), (annotations, &new_annotations))
    }
}

/// Patch from the old to the new labels and annotations.
fn patch(labels: (&StringMap, &StringMap), annotations: (&StringMap, &StringMap)) -> Option<Value> {
    let mut metadata = Map::new();
    for (name, (old, new)) in [("labels", labels), ("annotations", annotations)] {
        if let Some(patch) = ironclad_fleet::merge_patch_between(&json!(old), &json!(new)) {
            metadata.insert(name.to_owned(), patch);
        }
    }
    (!metadata.is_empty()).then(|| json!({"metadata": metadata}))
}

/// The permanent id of a policy, and the merge patch that sets id and finalizer if they are missing.
#[must_use]
pub fn stamp(policy: Policy<'_>, ids: &mut NewIds) -> (String, Option<Value>) {
    let mut metadata = serde_json::Map::new();
    let id = match policy.permanent_id() {
        Some(id) => id.to_owned(),
        None => {
            let id = ids.allocate();
            metadata.insert("labels".into(), json!({policy.id_label(): id}));
            id
        }
    };
    if let Some(list) = finalizer::added(policy.metadata(), policy.finalizer()) {
        metadata.insert("finalizers".into(), json!(list));
    }
    (id, (!metadata.is_empty()).then(|| json!({"metadata": metadata})))
}
