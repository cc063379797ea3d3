//! FederatedResourceQuotas.

use std::collections::BTreeSet;

use ironclad_api::{gates::Gate, policy::FederatedResourceQuota};
use ironclad_planning::views;
use ironclad_runtime::Api;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::{kept::Kept, observe};
use crate::{plan::read::every, report::permitted};

/// The view of all quotas.
pub(super) async fn look(client: &Client, kept: &Kept) -> anyhow::Result<Value> {
    let (mut notes, clusters) = (Vec::new(), kept.clusters.all(client).await?);
    let Some(all) = permitted(every(Api::<FederatedResourceQuota>::all(client.clone())).await)? else {
        notes.push("you may not list federatedresourcequotas.policy.karmada.io in all namespaces".to_owned());
        return Ok(json!({ "sums": {}, "rows": [], "notes": notes }));
    };
    let mut bindings = Vec::new();
    if !all.is_empty() {
        match permitted(kept.bindings.all(client).await)? {
            Some(found) => bindings = found,
            None => {
                notes.push("you may not list resourcebindings.work.karmada.io: what is refused is not known".into())
            }
        }
        if observe::is_off(client, Gate::FederatedQuotaEnforcement).await {
            notes.push("feature gate FederatedQuotaEnforcement is off: limits over all clusters refuse nothing".into());
        }
    }
    let names: BTreeSet<String> = clusters.iter().map(|cluster| cluster.name_any()).collect();
    let rows = views::quotas(&all, &bindings, &names);
    Ok(json!({ "sums": observe::sums(rows.iter().map(|row| row.state)), "rows": rows, "notes": notes }))
}
