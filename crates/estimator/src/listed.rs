//! Nodes and pods of a member, listed once: for those who ask once and watch nothing.

use ironclad_members::{Node, Pod, ResourceQuota};
use ironclad_runtime::Api;
use ironclad_scheduling::estimator::Index;
use kube::{Client, Resource, ResourceExt as _, api::ListParams};

/// Objects per page.
const PAGE: u32 = 500;

/// Index of what a member has now, as the account of its cluster is kept: nodes, pods and ResourceQuotas.
///
/// # Errors
/// If a list is refused, or the member does not answer.
pub async fn listed(client: &Client) -> Result<Index, kube::Error> {
    let mut index = Index::default();
    each::<Node>(client, |node| {
        index.node(&node.name_any(), Some(node.capacity()));
    })
    .await?;
    each::<Pod>(client, |pod| {
        index.pod(None, Some(&pod.observed()));
    })
    .await?;
    each::<ResourceQuota>(client, |quota| {
        index.quota(&quota.namespace().unwrap_or_default(), &quota.name_any(), Some(quota.free()));
    })
    .await?;
    Ok(index)
}

/// Every object of a kind, a page at a time.
async fn each<K>(client: &Client, mut take: impl FnMut(K)) -> Result<(), kube::Error>
where
    K: ironclad_runtime::Object + Resource<DynamicType = ()>,
{
    let (api, mut page) = (Api::<K>::all(client.clone()), ListParams::default().limit(PAGE));
    loop {
        let list = api.list(&page).await?;
        list.items.into_iter().for_each(&mut take);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}
