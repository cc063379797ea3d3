//! Policies, and the templates that each claims.

use std::collections::BTreeSet;

use anyhow::Context as _;
use ironclad_api::{
    gates::Gate,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
};
use ironclad_planning::views::{self, Listed};
use ironclad_propagation::policy_match::Policy;
use ironclad_runtime::Api;
use kube::Client;
use serde_json::{Value, json};

use super::{kept::Kept, observe};
use crate::{pages, plan::read::every, report::permitted, resource::Resources};

/// The view of all policies.
pub(super) async fn look(client: &Client, kept: &Kept) -> anyhow::Result<Value> {
    let (mut notes, clusters) = (Vec::new(), kept.clusters.all(client).await?);
    let namespaced = permitted(every(Api::<PropagationPolicy>::all(client.clone())).await)?;
    if namespaced.is_none() {
        notes.push("you may not list propagationpolicies.policy.karmada.io in all namespaces".to_owned());
    }
    let wide = permitted(every(Api::<ClusterPropagationPolicy>::all(client.clone())).await)?;
    if wide.is_none() {
        notes.push("you may not list clusterpropagationpolicies.policy.karmada.io".to_owned());
    }
    let (namespaced, wide) = (namespaced.unwrap_or_default(), wide.unwrap_or_default());
    let all: Vec<Policy<'_>> =
        namespaced.iter().map(Policy::Namespaced).chain(wide.iter().map(Policy::Cluster)).collect();
    let templates = templates(client, &views::selected_lists(&all), &mut notes).await?;
    let rows = views::policies(&all, &templates, &clusters);
    let preempts = rows.iter().any(|row| row.preemption == "Always");
    if preempts && observe::is_off(client, Gate::PropagationPolicyPreemption).await {
        notes.push("preemption Always has no effect: feature gate PropagationPolicyPreemption is off".to_owned());
    }
    Ok(json!({ "sums": observe::sums(rows.iter().map(|row| row.state)), "rows": rows, "notes": notes }))
}

/// The templates of these lists, of which only metadata is read. Notes say which could not be listed.
async fn templates(client: &Client, lists: &BTreeSet<Listed>, notes: &mut Vec<String>) -> anyhow::Result<Vec<Value>> {
    let served = Resources::of(client).await.context("asking the control plane what it serves")?;
    let (mut all, mut unlisted) = (Vec::new(), BTreeSet::new());
    for (api_version, kind, namespace) in lists {
        let Some(resource) = served.of_kind(api_version, kind) else {
            unlisted.insert(format!("the control plane does not serve {kind} of {api_version}, which policies select"));
            continue;
        };
        // No object without a namespace is in one.
        if !namespace.is_empty() && !resource.namespaced {
            continue;
        }
        let found = pages::metadata(&crate::tree::api(client.clone(), resource, namespace)).await;
        let Some(found) = permitted(found.map_err(Into::into))? else {
            let at = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
            let plural = &resource.api.plural;
            unlisted.insert(format!("you may not list {plural}{at}: those templates are not counted"));
            continue;
        };
        all.extend(found.into_iter().map(|metadata| {
            json!({ "apiVersion": api_version, "kind": kind, "metadata": {
                "namespace": metadata.namespace, "name": metadata.name,
                "labels": metadata.labels, "annotations": metadata.annotations,
            } })
        }));
    }
    notes.extend(unlisted);
    Ok(all)
}
