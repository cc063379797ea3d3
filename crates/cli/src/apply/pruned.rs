//! Pruning of generated policies whose templates were pruned.

use std::collections::BTreeSet;

use anyhow::Context as _;
use ironclad_api::{
    ObjectMeta,
    policy::{ClusterPropagationPolicy, PropagationPolicy, ResourceSelector},
};
use ironclad_patch::text_at;
use ironclad_propagation::{
    generated_policy::{self, WithPolicies},
    policy_match::Policy,
};
use ironclad_runtime::Api;
use kube::{
    Client,
    api::{DeleteParams, ListParams, Preconditions},
};

use crate::{pages, print, resource::Resources, tree};

/// Annotation of objects that kubectl apply wrote: it prunes no others.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Deletes the policies that `apply` made before for templates that are gone. Like objects that kubectl prunes, they
/// have these labels, and are in a namespace of the manifests or in none.
///
/// # Errors
/// If policies can't be listed or deleted, or the control plane does not answer.
pub(super) async fn policies(plane: &Client, selector: Option<&str>, applied: &WithPolicies) -> anyhow::Result<()> {
    let labelled = selector.map_or_else(ListParams::default, |selector| ListParams::default().labels(selector));
    let namespaces = applied.manifests.iter().map(|manifest| text_at(manifest, "/metadata/namespace"));
    let namespaces: BTreeSet<&str> = namespaces.filter(|namespace| !namespace.is_empty()).collect();
    let mut generated = Vec::new();
    for namespace in namespaces {
        let api: Api<PropagationPolicy> = Api::namespaced(plane.clone(), namespace);
        let all = pages::all(&api, labelled.clone()).await.context("listing the policies to prune")?;
        generated.extend(all.iter().filter_map(|policy| of_apply(Policy::Namespaced(policy))));
    }
    let api: Api<ClusterPropagationPolicy> = Api::all(plane.clone());
    let all = pages::all(&api, labelled).await.context("listing the policies to prune")?;
    generated.extend(all.iter().filter_map(|policy| of_apply(Policy::Cluster(policy))));
    if generated.is_empty() {
        return Ok(());
    }
    let resources = Resources::of(plane).await.context("asking the control plane what it serves")?;
    for (policy, of) in &generated {
        let Some(resource) = resources.of_kind(&of.api_version, &of.kind) else { continue };
        let template = tree::api(plane.clone(), resource, &of.namespace).get_opt(&of.name).await?;
        if template.is_none_or(|template| template.metadata.deletion_timestamp.is_some()) {
            prune(plane, policy).await?;
        }
    }
    Ok(())
}

/// The metadata of a policy that an earlier `apply` made, with the template that it is for.
fn of_apply(policy: Policy<'_>) -> Option<(ObjectMeta, ResourceSelector)> {
    let of = generated_policy::template_of(policy)?;
    let metadata = policy.metadata();
    metadata.annotations.as_ref()?.contains_key(LAST_APPLIED).then(|| (metadata.clone(), of.clone()))
}

async fn prune(plane: &Client, policy: &ObjectMeta) -> anyhow::Result<()> {
    let preconditions = Preconditions { uid: policy.uid.clone(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let name = policy.name.as_deref().unwrap_or_default();
    let (kind, deleted) = match policy.namespace.as_deref() {
        Some(namespace) => {
            let api: Api<PropagationPolicy> = Api::namespaced(plane.clone(), namespace);
            ("propagationpolicy", api.delete(name, &params).await)
        }
        None => {
            let api: Api<ClusterPropagationPolicy> = Api::all(plane.clone());
            ("clusterpropagationpolicy", api.delete(name, &params).await)
        }
    };
    match deleted {
        Ok(_) => print::out(&format!("{kind}.policy.karmada.io/{name} pruned\n")),
        // Somebody was faster, or made another one.
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
        Err(error) => Err(anyhow::Error::new(error).context(format!("pruning {kind} {name}"))),
    }
}
