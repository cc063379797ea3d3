//! Policies of either kind, as the detector and the policy controller read them.

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::policy::{ClusterOverridePolicy, ClusterPropagationPolicy, OverridePolicy, PropagationPolicy};
use ironclad_fleet::PolicyKey;
use ironclad_propagation::{policy_match::Policy, template::Identity};
use ironclad_runtime::{Api, Caches, Failure, Informer, Writer};
use kube::Client;
use serde_json::Value;

use crate::{
    caches::{CLUSTER_OVERRIDES, CLUSTER_POLICIES, OVERRIDES, POLICIES},
    index::policy_ids,
    selected::may_select,
};

/// A cached policy of either kind.
#[derive(Clone)]
pub(crate) enum AnyPolicy {
    Namespaced(Arc<PropagationPolicy>),
    Cluster(Arc<ClusterPropagationPolicy>),
}

impl AnyPolicy {
    /// The form that decisions take.
    pub(crate) fn view(&self) -> Policy<'_> {
        match self {
            Self::Namespaced(policy) => Policy::Namespaced(policy),
            Self::Cluster(policy) => Policy::Cluster(policy),
        }
    }

    /// Its permanent id, as its claims carry it.
    pub(crate) fn ids(&self) -> Vec<String> {
        match self {
            Self::Namespaced(policy) => policy_ids(&**policy),
            Self::Cluster(policy) => policy_ids(&**policy),
        }
    }
}

/// The policies of the control plane, and the override policies on which they may depend. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Policies {
    pub(crate) namespaced: Informer<PropagationPolicy>,
    pub(crate) cluster_wide: Informer<ClusterPropagationPolicy>,
    overrides: Informer<OverridePolicy>,
    cluster_overrides: Informer<ClusterOverridePolicy>,
    plane: Client,
}

impl Policies {
    pub(crate) fn take(caches: &Caches, plane: &Client) -> Self {
        Self {
            namespaced: caches.take(&POLICIES),
            cluster_wide: caches.take(&CLUSTER_POLICIES),
            overrides: caches.take(&OVERRIDES),
            cluster_overrides: caches.take(&CLUSTER_OVERRIDES),
            plane: plane.clone(),
        }
    }

    /// The policy of this key.
    pub(crate) fn get(&self, key: &PolicyKey) -> Option<AnyPolicy> {
        if key.namespace.is_empty() {
            self.cluster_wide.get("", &key.name).map(AnyPolicy::Cluster)
        } else {
            self.namespaced.get(&key.namespace, &key.name).map(AnyPolicy::Namespaced)
        }
    }

    /// All policies, namespaced ones first.
    pub(crate) fn list(&self) -> Vec<AnyPolicy> {
        let namespaced = self.namespaced.list().into_iter().map(AnyPolicy::Namespaced);
        namespaced.chain(self.cluster_wide.list().into_iter().map(AnyPolicy::Cluster)).collect()
    }

    /// The policies of this scope: of a namespace, or if it is empty the cluster-wide ones.
    pub(crate) fn of_scope(&self, namespace: &str) -> Vec<AnyPolicy> {
        if namespace.is_empty() {
            self.cluster_wide.list().into_iter().map(AnyPolicy::Cluster).collect()
        } else {
            self.namespaced.namespace(namespace).into_iter().map(AnyPolicy::Namespaced).collect()
        }
    }

    /// The policies that may select the template.
    pub(crate) fn may_select(&self, template: &Identity<'_>) -> Vec<AnyPolicy> {
        let namespaced = match template.namespace {
            "" => Vec::new(),
            namespace => may_select(&self.namespaced, namespace, template),
        };
        let cluster = may_select(&self.cluster_wide, "", template);
        namespaced.into_iter().map(AnyPolicy::Namespaced).chain(cluster.into_iter().map(AnyPolicy::Cluster)).collect()
    }

    /// The names of the OverridePolicies and ClusterOverridePolicies that exist of those on which these policies
    /// depend.
    pub(crate) fn dependent_overrides(&self, policies: &[AnyPolicy]) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut namespaced, mut cluster) = (BTreeSet::new(), BTreeSet::new());
        for policy in policies {
            let (key, named) = (policy.view().key(), &policy.view().spec().dependent_overrides);
            match policy {
                AnyPolicy::Namespaced(_) => {
                    let exists = |name: &&String| self.overrides.get(&key.namespace, name).is_some();
                    namespaced.extend(named.iter().filter(exists).cloned());
                }
                AnyPolicy::Cluster(_) => {
                    let exists = |name: &&String| self.cluster_overrides.get("", name).is_some();
                    cluster.extend(named.iter().filter(exists).cloned());
                }
            }
        }
        (namespaced, cluster)
    }

    /// Merge-patches a policy, provided that it is still the version seen.
    pub(crate) async fn patch(&self, writer: &Writer, seen: &AnyPolicy, patch: Value) -> Result<(), Failure> {
        match seen {
            AnyPolicy::Namespaced(policy) => {
                let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
                let api = Api::namespaced(self.plane.clone(), namespace);
                writer.patch(&api, Some(&self.namespaced), &**policy, patch).await.map(drop)
            }
            AnyPolicy::Cluster(policy) => {
                let api = Api::all(self.plane.clone());
                writer.patch(&api, Some(&self.cluster_wide), &**policy, patch).await.map(drop)
            }
        }
    }
}
