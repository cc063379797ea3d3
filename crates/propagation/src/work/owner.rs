//! Owner of a Work: the one object whose controller writes it.
//!
//! Two objects may ask for the same object in a member, and so for the same Work: a binding and a
//! FederatedResourceQuota, or two bindings of one cluster-scoped dependency. The first keeps the Work; the other one
//! reports it and waits.

use std::fmt;

use ironclad_api::{annotations, labels, work::Work};
use ironclad_fleet::BindingKey;

/// Owner of a Work, by its labels, annotations and owner references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A binding. Its namespace is empty for a ClusterResourceBinding.
    Binding {
        key: BindingKey,
        /// Its permanent id: a binding that was made anew under the same name has another one.
        id: String,
    },
    /// A FederatedResourceQuota.
    Quota { namespace: String, name: String },
    /// A HorizontalPodAutoscaler that is distributed.
    Autoscaler { namespace: String, name: String },
    /// A Cluster, for the impersonation rights in it.
    Cluster { name: String },
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binding { key, .. } if key.namespace.is_empty() => write!(f, "ClusterResourceBinding {}", key.name),
            Self::Binding { key, .. } => write!(f, "ResourceBinding {}/{}", key.namespace, key.name),
            Self::Quota { namespace, name } => write!(f, "FederatedResourceQuota {namespace}/{name}"),
            Self::Autoscaler { namespace, name } => write!(f, "HorizontalPodAutoscaler {namespace}/{name}"),
            Self::Cluster { name } => write!(f, "Cluster {name}, for impersonation"),
        }
    }
}

/// The owner of a Work. `None` if it has none, or if it is one of namespace sync, which leaves its Works to bindings.
///
/// The owner may not exist any more: the caller looks it up.
#[must_use]
pub fn owner(work: &Work) -> Option<Owner> {
    let value = |map: &Option<ironclad_api::StringMap>, key: &str| {
        map.as_ref().and_then(|map| map.get(key)).filter(|value| !value.is_empty()).cloned()
    };
    let label = |key| value(&work.metadata.labels, key);
    let annotation = |key| value(&work.metadata.annotations, key);
    let binding = |namespace: &str, name: String, id| Owner::Binding {
        key: BindingKey { namespace: namespace.into(), name: name.as_str().into() },
        id,
    };
    let namespaced = || {
        let id = label(labels::RESOURCE_BINDING_PERMANENT_ID)?;
        let namespace = annotation(annotations::RESOURCE_BINDING_NAMESPACE)?;
        Some(binding(&namespace, annotation(annotations::RESOURCE_BINDING_NAME)?, id))
    };
    let cluster_scoped = || {
        let id = label(labels::CLUSTER_RESOURCE_BINDING_PERMANENT_ID)?;
        Some(binding("", annotation(annotations::CLUSTER_RESOURCE_BINDING_NAME)?, id))
    };
    let quota = || {
        let namespace = label(labels::FEDERATED_RESOURCE_QUOTA_NAMESPACE)?;
        Some(Owner::Quota { namespace, name: label(labels::FEDERATED_RESOURCE_QUOTA_NAME)? })
    };
    let autoscaler = || {
        label(labels::FEDERATED_HPA_UID)?;
        let namespace = annotation(annotations::FEDERATED_HPA_NAMESPACE)?;
        Some(Owner::Autoscaler { namespace, name: annotation(annotations::FEDERATED_HPA_NAME)? })
    };
    let cluster = || {
        let owners = work.metadata.owner_references.iter().flatten();
        let controller = owners.into_iter().find(|o| o.controller == Some(true) && o.kind == "Cluster")?;
        Some(Owner::Cluster { name: controller.name.clone() })
    };
    cluster_scoped().or_else(namespaced).or_else(quota).or_else(autoscaler).or_else(cluster)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn owners_of_works() {
        let id = "resourcebinding.karmada.io/permanent-id";
        let of_binding = json!({"labels": {id: "b"},
            "annotations": {"resourcebinding.karmada.io/namespace": "shop", "resourcebinding.karmada.io/name": "q"}});
        let of_quota = json!({"labels": {"federatedresourcequota.karmada.io/namespace": "shop", "federatedresourcequota.karmada.io/name": "q"}});
        let both = {
            let mut both = of_quota.clone();
            crate::testkit::merge(&mut both, &of_binding);
            both
        };
        let by = |kind: &str| json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "m1", "uid": "u", "controller": true}]});
        for (name, metadata, want) in [
            ("nobody", json!({}), None),
            ("a binding", of_binding.clone(), Some("ResourceBinding shop/q")),
            ("a label without the binding's name", json!({"labels": {id: "b"}}), None),
            ("an empty id", json!({"labels": {id: ""}, "annotations": of_binding["annotations"]}), None),
            (
                "a cluster-scoped binding",
                json!({"labels": {"clusterresourcebinding.karmada.io/permanent-id": "c"}, "annotations": {"clusterresourcebinding.karmada.io/name": "r"}}),
                Some("ClusterResourceBinding r"),
            ),
            ("a quota", of_quota, Some("FederatedResourceQuota shop/q")),
            ("a binding that took it from a quota", both, Some("ResourceBinding shop/q")),
            (
                "a distributed autoscaler",
                json!({"labels": {"federatedhpa.karmada.io/hpa-uid": "u"},
                    "annotations": {"federatedhpa.karmada.io/namespace": "shop", "federatedhpa.karmada.io/name": "web"}}),
                Some("HorizontalPodAutoscaler shop/web"),
            ),
            ("impersonation", by("Cluster"), Some("Cluster m1, for impersonation")),
            ("namespace sync", by("Namespace"), None),
        ] {
            let mut work = json!({"metadata": {"name": "w"}, "spec": {"workload": {}}});
            crate::testkit::merge(&mut work, &json!({"metadata": metadata}));
            let work: Work = serde_json::from_value::<Value>(work).and_then(serde_json::from_value).unwrap();
            assert_eq!(owner(&work).map(|owner| owner.to_string()).as_deref(), want, "{name}");
        }
    }
}
