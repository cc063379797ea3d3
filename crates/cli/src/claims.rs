//! Policies of the control plane that claim a template before the one that a verb makes for it.

use std::collections::BTreeMap;

use anyhow::Context as _;
use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy};
use ironclad_patch::text_at;
use ironclad_propagation::{generated_policy, policy_match::Policy};
use ironclad_runtime::Api;
use kube::{Client, ResourceExt as _, api::ListParams};
use serde_json::Value;

use crate::pages;

/// Policies that may claim templates, by namespace: a PropagationPolicy precedes those without a namespace. Those of
/// templates without one have an empty name. Each namespace is listed once.
pub(crate) struct Claims {
    plane: Client,
    policies: BTreeMap<String, Policies>,
}

/// Policies of one kind.
enum Policies {
    Namespaced(Vec<PropagationPolicy>),
    Wide(Vec<ClusterPropagationPolicy>),
}

impl Claims {
    pub(crate) fn new(plane: Client) -> Self {
        Self { plane, policies: BTreeMap::new() }
    }

    /// The policy that would claim the template instead of its generated one, if there is one, for people.
    ///
    /// # Errors
    /// If policies can't be listed, or the generated one is none.
    pub(crate) async fn instead_of(&mut self, generated: &Value, template: &Value) -> anyhow::Result<Option<String>> {
        let namespace = text_at(template, "/metadata/namespace");
        if !self.policies.contains_key(namespace) {
            let plane = self.plane.clone();
            let found = match namespace {
                "" => pages::all(&Api::all(plane), ListParams::default()).await.map(Policies::Wide),
                of => pages::all(&Api::namespaced(plane, of), ListParams::default()).await.map(Policies::Namespaced),
            };
            self.policies.insert(namespace.to_owned(), found.context("listing the policies")?);
        }
        let others: Box<dyn Iterator<Item = Policy<'_>>> = match &self.policies[namespace] {
            Policies::Namespaced(all) => Box::new(all.iter().map(Policy::Namespaced)),
            Policies::Wide(all) => Box::new(all.iter().map(Policy::Cluster)),
        };
        generated_policy::claimed_instead(generated, others, template).context("the policy that would be made")
    }

    /// Returns whether the control plane has the generated policy already, so that it may have the template. It is
    /// known once [`Self::instead_of`] was asked.
    pub(crate) fn is_there(&self, generated: &Value) -> bool {
        let name = text_at(generated, "/metadata/name");
        match self.policies.get(text_at(generated, "/metadata/namespace")) {
            Some(Policies::Namespaced(all)) => all.iter().any(|policy| policy.name_any() == name),
            Some(Policies::Wide(all)) => all.iter().any(|policy| policy.name_any() == name),
            None => false,
        }
    }
}
