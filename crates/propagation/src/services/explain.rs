//! Explanation of a MultiClusterService for people: the decisions on its providers, asked again, and the state of the
//! copies in its consumers (specification/mcs.md 2.4).

use std::collections::BTreeMap;

use ironclad_api::{conditions::work::APPLIED, work::Work};
use ironclad_fleet::ClusterName;
use serde::Serialize;

use super::{
    SLICE_API_VERSION, SLICE_KIND,
    collect::{self, Flow},
    dispatch::{self, Provider, Seen},
    is_served, is_true_of, manifest, mcs_conditions, missing, not_ready, provider_of, selected, slice,
};
use crate::work::key_of;

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Namespace and name.
    pub service: String,
    /// False if its type is not served in clusters, or it is being deleted.
    pub is_served: bool,
    pub providers: BTreeMap<ClusterName, Source>,
    pub consumers: BTreeMap<ClusterName, Target>,
    /// Names in its lists without a cluster.
    pub missing: Vec<String>,
    /// Its conditions, as text.
    pub conditions: Vec<String>,
}

/// A cluster with backends.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// Collected EndpointSlices.
    pub slices: usize,
    /// Addresses in them that get traffic.
    pub addresses: usize,
    /// Reason why consumers do not get them, or for how long they still do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_back: Option<String>,
}

/// A cluster where the Service is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Copies of slices, by the cluster that they come from.
    pub copies: BTreeMap<String, usize>,
    /// Copies that the member has not applied.
    pub not_applied: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
}

/// The clusters whose EndpointSlices of one Service were collected for this flow, among these Works, with their number
/// and that of their addresses.
pub fn sources<'w>(works: impl IntoIterator<Item = &'w Work>, flow: Flow) -> BTreeMap<ClusterName, Source> {
    let mut all = BTreeMap::<ClusterName, Source>::new();
    for work in works {
        let stays = work.metadata.deletion_timestamp.is_none() && collect::is_collected_for(work, flow);
        let Some(key) = key_of(work).filter(|_| stays) else { continue };
        let Some(slice) = manifest(work, SLICE_API_VERSION, SLICE_KIND) else { continue };
        let source = all.entry(key.cluster).or_default();
        source.slices += 1;
        source.addresses += slice::addresses(&slice).len();
    }
    all
}

/// Explains what [`dispatch::decide`] makes of the same snapshot; `None` if there is no MultiClusterService.
#[must_use]
pub fn explain(seen: &Seen<'_>) -> Option<Explanation> {
    let mcs = seen.mcs?;
    let mut collected = sources(seen.works.iter().map(|work| &**work), Flow::MultiClusterService);
    let mut source = |name: ClusterName| {
        let cluster = seen.clusters.get(&name);
        let held_back = match cluster.map(|cluster| dispatch::provider(seen, &name, cluster)) {
            Some(Provider::Withheld(why)) => Some(why),
            Some(Provider::ServedFor(left)) => Some(format!("in {} s, as it is not ready", left.as_secs())),
            Some(Provider::Served) | None => None,
        };
        let known = collected.remove(&name).unwrap_or_default();
        (name, Source { held_back, ..known })
    };
    let target = |name: ClusterName| {
        let of_cluster = |work: &&std::sync::Arc<Work>| key_of(work).is_some_and(|key| key.cluster == name);
        let mut target = Target::default();
        for work in seen.works.iter().filter(of_cluster) {
            let Some(provider) = provider_of(work) else { continue };
            *target.copies.entry(provider.to_owned()).or_default() += 1;
            target.not_applied += usize::from(!is_true_of(work, APPLIED));
        }
        let cluster = seen.clusters.get(&name).filter(|cluster| !cluster.is_ready());
        target.not_ready = cluster.map(|cluster| not_ready(&name, cluster));
        (name, target)
    };
    let lists = [mcs.spec.provider_clusters.as_slice(), mcs.spec.consumer_clusters.as_slice()];
    Some(Explanation {
        service: seen.key.to_string(),
        is_served: is_served(mcs),
        providers: selected(lists[0], seen.clusters).into_iter().map(&mut source).collect(),
        consumers: selected(lists[1], seen.clusters).into_iter().map(target).collect(),
        missing: missing(&lists, seen.clusters).into_iter().collect(),
        conditions: mcs_conditions(mcs).iter().map(|c| format!("{}={}: {}", c.type_, c.status, c.message)).collect(),
    })
}

impl Explanation {
    /// The answer for people, line by line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut all = vec![format!("MultiClusterService {}", self.service)];
        if !self.is_served {
            all.push("  it is not served in clusters: its type is not CrossCluster, or it is being deleted".to_owned());
            return all;
        }
        all.extend(self.conditions.iter().map(|condition| format!("  {condition}")));
        all.push("providers".to_owned());
        for (name, source) in &self.providers {
            let held = source.held_back.as_ref().map(|why| format!(", held back: {why}")).unwrap_or_default();
            all.push(format!("  {name}: {} addresses in {} EndpointSlices{held}", source.addresses, source.slices));
        }
        all.push("consumers".to_owned());
        for (name, target) in &self.consumers {
            let from = target.copies.iter().map(|(provider, count)| format!("{count} of {provider}"));
            let from = from.collect::<Vec<_>>().join(", ");
            let mut line = format!("  {name}: {}", if from.is_empty() { "no EndpointSlices" } else { &from });
            if target.not_applied > 0 {
                line.push_str(&format!(", {} not applied", target.not_applied));
            }
            if let Some(why) = &target.not_ready {
                line.push_str(&format!(", {why}"));
            }
            all.push(line);
        }
        all.extend(self.missing.iter().map(|name| format!("there is no cluster {name}")));
        all
    }
}
