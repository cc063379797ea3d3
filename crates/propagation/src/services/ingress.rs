//! Decision of the controller `mciStatus`: the clusters of the backends of a MultiClusterIngress, and those of them that
//! must not get traffic, for whoever programs DNS or a load balancer (specification/mcs.md 5).

use std::collections::{BTreeMap, BTreeSet};

use ironclad_api::{
    networking::{MultiClusterIngress, ServiceLocation},
    remedy::TRAFFIC_CONTROL,
};
use ironclad_fleet::{ClusterName, Clusters, Plan, StatusPart};
use serde_json::json;

/// Snapshot of one MultiClusterIngress.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// It, with status parts that wait to be written.
    pub ingress: &'a MultiClusterIngress,
    /// The clusters of each of its [`backends`].
    pub locations: &'a BTreeMap<String, BTreeSet<ClusterName>>,
    pub clusters: &'a Clusters,
}

/// The Services that it sends traffic to.
#[must_use]
pub fn backends(ingress: &MultiClusterIngress) -> BTreeSet<String> {
    let Some(spec) = &ingress.spec else { return BTreeSet::new() };
    let rules = spec.rules.iter().flatten().filter_map(|rule| rule.http.as_ref());
    let of_rules = rules.flat_map(|http| &http.paths).map(|path| &path.backend);
    let all = spec.default_backend.iter().chain(of_rules);
    all.filter_map(|backend| Some(backend.service.as_ref()?.name.clone())).collect()
}

/// Reports where the backends are. One that is being deleted keeps its status.
pub fn decide(seen: &Seen<'_>) -> Plan<StatusPart> {
    let mut plan = Plan::default();
    if seen.ingress.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let of = |name: String| {
        let clusters = seen.locations.get(&name).into_iter().flatten().map(ToString::to_string).collect();
        ServiceLocation { name, clusters }
    };
    let locations: Vec<ServiceLocation> = backends(seen.ingress).into_iter().map(of).collect();
    let located: BTreeSet<&ClusterName> = seen.locations.values().flatten().collect();
    let is_drained = |name: &&ClusterName| {
        let status = seen.clusters.get(*name).and_then(|cluster| cluster.status.as_ref());
        status.is_some_and(|status| status.remedy_actions.iter().any(|action| action == TRAFFIC_CONTROL))
    };
    let blocked: Vec<String> = located.into_iter().filter(is_drained).map(ToString::to_string).collect();
    let stored = seen.ingress.status.clone().unwrap_or_default();
    let mut part = StatusPart::default();
    if stored.service_locations != locations {
        part.fields.insert("serviceLocations".to_owned(), json!(locations));
    }
    if stored.traffic_block_clusters != blocked {
        part.fields.insert("trafficBlockClusters".to_owned(), json!(blocked));
    }
    if !part.is_empty() {
        plan.effects.push(part);
    }
    plan
}
