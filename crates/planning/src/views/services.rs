//! Services over clusters: MultiClusterServices, ServiceExports and ServiceImports, with the clusters that they come
//! from and those that they reach.

use std::{cmp::Reverse, collections::BTreeMap};

use ironclad_api::{
    Condition,
    conditions::{self, FALSE},
    multicluster::{ServiceExport, ServiceImport},
    networking::MultiClusterService,
};
use ironclad_fleet::{
    BindingRef, ClusterName,
    count::count,
    targets,
    tree::{Link, LinkState, Tree},
};
use ironclad_propagation::services::{
    explain::{Explanation, Source, Target},
    export,
};
use jiff::Timestamp;
use serde::Serialize;

/// A service over clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceRow {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// Worst of what is told here.
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    pub reason: String,
    /// Since when, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Addresses of all providers that get traffic.
    pub addresses: usize,
    /// Clusters with backends.
    pub providers: Vec<Provider>,
    /// Clusters where it is reached; of a ServiceExport none.
    pub consumers: Vec<Consumer>,
}

/// A cluster with backends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    #[serde(rename = "name")]
    pub cluster: String,
    /// Collected EndpointSlices.
    pub slices: usize,
    /// Addresses in them that get traffic.
    pub addresses: usize,
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A cluster where a service is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Consumer {
    #[serde(rename = "name")]
    pub cluster: String,
    /// EndpointSlices by the provider that they come from; empty if that is not known.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: BTreeMap<String, usize>,
    pub state: LinkState,
    /// Reason of the state, if it is not Ok.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// Rows in the order in which they are looked into: what is bad first.
#[must_use]
pub fn services(mut rows: Vec<ServiceRow>) -> Vec<ServiceRow> {
    rows.sort_by(|a, b| {
        (Reverse(a.state), &a.namespace, &a.name, a.kind).cmp(&(Reverse(b.state), &b.namespace, &b.name, b.kind))
    });
    rows
}

/// A fault with its reason, and since when.
type Fault = (LinkState, String, Option<Timestamp>);

/// The row of a MultiClusterService with its explanation.
#[must_use]
pub fn multi_cluster_service(mcs: &MultiClusterService, explanation: &Explanation) -> ServiceRow {
    let conditions = mcs.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let Explanation { is_served, missing, .. } = explanation;
    let served = || explanation.providers.iter().filter(|_| *is_served);
    let providers: Vec<Provider> = served().map(|(cluster, source)| provider(cluster, source)).collect();
    let consumers = explanation.consumers.iter().filter(|_| *is_served);
    let consumers: Vec<Consumer> = consumers.map(|(cluster, target)| consumer(cluster, target)).collect();
    let told = |state, reason: String| Some((state, reason, None));
    let fault = if mcs.metadata.deletion_timestamp.is_some() {
        told(LinkState::Waiting, "is being deleted".to_owned())
    } else if !*is_served {
        told(LinkState::Waiting, "its type is not CrossCluster, so it is not served in clusters".to_owned())
    } else if !missing.is_empty() {
        told(LinkState::Broken, format!("there is no cluster {}", missing.join(", ")))
    } else {
        failed(conditions).or_else(|| of_clusters(&providers, &consumers))
    };
    let metadata = &mcs.metadata;
    row("MultiClusterService", (&metadata.namespace, &metadata.name), fault, providers, consumers)
}

/// The row of a ServiceExport with the clusters whose EndpointSlices were collected for it.
#[must_use]
pub fn service_export(export: &ServiceExport, sources: &BTreeMap<ClusterName, Source>) -> ServiceRow {
    let conditions = export.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let providers: Vec<Provider> = sources.iter().map(|(cluster, source)| provider(cluster, source)).collect();
    let fault = if export.metadata.deletion_timestamp.is_some() {
        Some((LinkState::Waiting, "is being deleted".to_owned(), None))
    } else if conditions.is_empty() {
        Some((LinkState::Waiting, "is not examined yet".to_owned(), None))
    } else {
        failed(conditions).map(|(state, reason, since)| {
            // Nothing is wrong while the clusters have not reported: a Service may have no backends yet.
            let is_valid = conditions::is_true(conditions, export::VALID);
            (if is_valid { LinkState::Waiting } else { state }, reason, since)
        })
    };
    let metadata = &export.metadata;
    row("ServiceExport", (&metadata.namespace, &metadata.name), fault, providers, Vec::new())
}

/// The row of a ServiceImport with the clusters that its Service was exported from, and its own binding.
#[must_use]
pub fn service_import(
    import: &ServiceImport,
    sources: &BTreeMap<ClusterName, Source>,
    binding: Option<BindingRef<'_>>,
) -> ServiceRow {
    let listed = import.status.iter().flat_map(|status| &status.clusters);
    let providers: Vec<Provider> = listed
        .map(|one| {
            let cluster = ClusterName::from(one.cluster.as_str());
            provider(&cluster, sources.get(&cluster).unwrap_or(&Source::default()))
        })
        .collect();
    let reached = |target: targets::Target| Consumer {
        cluster: target.cluster.to_string(),
        slices: BTreeMap::new(),
        state: LinkState::Ok,
        detail: String::new(),
    };
    let consumers: Vec<Consumer> =
        binding.iter().flat_map(|binding| targets::targets(binding.spec())).map(reached).collect();
    let told = |reason: &str| Some((LinkState::Waiting, reason.to_owned(), None));
    let fault = if import.metadata.deletion_timestamp.is_some() {
        told("is being deleted")
    } else if providers.is_empty() {
        told("no cluster exports it")
    } else if consumers.is_empty() {
        told("no policy brings it to clusters")
    } else {
        of_clusters(&providers, &[])
    };
    let metadata = &import.metadata;
    row("ServiceImport", (&metadata.namespace, &metadata.name), fault, providers, consumers)
}

/// The tree of a service: the clusters that it comes from, then those where it is reached.
#[must_use]
pub fn service_tree(row: &ServiceRow) -> Tree {
    let link = |depth, object: String, state, detail: String| Link { depth, object, state, detail };
    let said = |counted: String, reason: &str| match (counted.as_str(), reason) {
        (_, "") => counted,
        ("", reason) => reason.to_owned(),
        (counted, reason) => format!("{counted}, {reason}"),
    };
    let slices = |number: usize| count(number, "EndpointSlice");
    let addresses = |number: usize| if number == 1 { "1 address".to_owned() } else { format!("{number} addresses") };
    let name = format!("{} {}/{}", row.kind, row.namespace, row.name);
    let mut links = vec![link(0, name, row.state, said(addresses(row.addresses), &row.reason))];
    for from in &row.providers {
        let counted = format!("{} in {}", addresses(from.addresses), slices(from.slices));
        links.push(link(1, format!("from Cluster {}", from.cluster), from.state, said(counted, &from.detail)));
    }
    for to in &row.consumers {
        let of = to.slices.iter().map(|(from, number)| format!("{} of {from}", slices(*number)));
        let detail = said(of.collect::<Vec<_>>().join(", "), &to.detail);
        links.push(link(1, format!("to Cluster {}", to.cluster), to.state, detail));
    }
    Tree::of(links)
}

fn row(
    kind: &'static str,
    (namespace, name): (&Option<String>, &Option<String>),
    fault: Option<Fault>,
    providers: Vec<Provider>,
    consumers: Vec<Consumer>,
) -> ServiceRow {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (state, reason, since) = fault.unwrap_or((LinkState::Ok, String::new(), None));
    let (namespace, name) = (text(namespace), text(name));
    let addresses = providers.iter().map(|provider| provider.addresses).sum();
    ServiceRow { kind, namespace, name, state, reason, since, addresses, providers, consumers }
}

fn provider(cluster: &ClusterName, source: &Source) -> Provider {
    let (state, detail) = match &source.held_back {
        Some(why) => (LinkState::Waiting, format!("held back: {why}")),
        None => (LinkState::Ok, String::new()),
    };
    Provider { cluster: cluster.to_string(), slices: source.slices, addresses: source.addresses, state, detail }
}

fn consumer(cluster: &ClusterName, target: &Target) -> Consumer {
    let (state, detail) = match (&target.not_ready, target.not_applied) {
        (Some(why), _) => (LinkState::Broken, why.clone()),
        (None, 0) => (LinkState::Ok, String::new()),
        (None, 1) => (LinkState::Waiting, "1 EndpointSlice is not applied".to_owned()),
        (None, number) => (LinkState::Waiting, format!("{number} EndpointSlices are not applied")),
    };
    Consumer { cluster: cluster.to_string(), slices: target.copies.clone(), state, detail }
}

/// The first condition that is false.
fn failed(conditions: &[Condition]) -> Option<Fault> {
    let failed = conditions.iter().find(|condition| condition.status == FALSE)?;
    let reason = match failed.message.as_str() {
        "" => failed.reason.clone(),
        message => format!("{}: {message}", failed.reason),
    };
    Some((LinkState::Broken, reason, Some(failed.last_transition_time.0)))
}

/// The worst of the clusters. A provider without an address is not told where others have some.
fn of_clusters(providers: &[Provider], consumers: &[Consumer]) -> Option<Fault> {
    let has_addresses = providers.iter().any(|provider| provider.addresses > 0);
    let held = providers.iter().filter(|one| one.addresses > 0 && one.state != LinkState::Ok);
    let held = held.map(|one| (one.state, &one.cluster, &one.detail));
    let reached = consumers.iter().filter(|one| one.state != LinkState::Ok);
    let all: Vec<_> = held.chain(reached.map(|one| (one.state, &one.cluster, &one.detail))).collect();
    let Some(worst) = all.iter().map(|(state, ..)| *state).max() else {
        return (!has_addresses).then(|| (LinkState::Waiting, "no cluster has an address of it".to_owned(), None));
    };
    let told = all.iter().filter(|(state, ..)| *state == worst);
    let told: Vec<String> = told.map(|(_, cluster, detail)| format!("{cluster}: {detail}")).collect();
    Some((worst, told.join("; "), None))
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::ResourceBinding;
    use serde_json::{Value, json};

    use super::*;

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn told(row: &ServiceRow) -> String {
        let providers = row.providers.iter().map(|one| format!("{}:{}/{}", one.cluster, one.addresses, one.slices));
        let consumers = row.consumers.iter().map(|one| {
            let from: usize = one.slices.values().sum();
            format!("{}:{from}", one.cluster)
        });
        let (providers, consumers): (Vec<_>, Vec<_>) = (providers.collect(), consumers.collect());
        format!("{:?} {} {} > {}", row.state, row.reason, providers.join(" "), consumers.join(" "))
    }

    fn source(slices: usize, addresses: usize, held_back: Option<&str>) -> Source {
        Source { slices, addresses, held_back: held_back.map(str::to_owned) }
    }

    #[test]
    fn multi_cluster_services_tell_what_keeps_them() {
        let target = |not_applied, not_ready: Option<&str>| Target {
            copies: [("m1".to_owned(), 2)].into(),
            not_applied,
            not_ready: not_ready.map(str::to_owned),
        };
        let fine = || (source(2, 5, None), target(0, None));
        let applied = condition("ServiceApplied", "True");
        for (name, (from, to), is_served, missing, conditions, want) in [
            ("it works", fine(), true, vec![], vec![applied.clone()], "Ok  m1:5/2 > m2:2"),
            (
                "of another type",
                fine(),
                false,
                vec![],
                vec![],
                "Waiting its type is not CrossCluster, so it is not served in clusters  > ",
            ),
            (
                "a name without a cluster",
                fine(),
                true,
                vec!["m9"],
                vec![],
                "Broken there is no cluster m9 m1:5/2 > m2:2",
            ),
            (
                "a condition is false",
                fine(),
                true,
                vec![],
                vec![applied, condition("EndpointSliceDispatched", "False")],
                "Broken R: m m1:5/2 > m2:2",
            ),
            (
                "no backends",
                (source(1, 0, None), target(0, None)),
                true,
                vec![],
                vec![],
                "Waiting no cluster has an address of it m1:0/1 > m2:2",
            ),
            (
                "held back",
                (source(2, 5, Some("m1 is not ready")), target(0, None)),
                true,
                vec![],
                vec![],
                "Waiting m1: held back: m1 is not ready m1:5/2 > m2:2",
            ),
            (
                "slices are not applied",
                (source(2, 5, None), target(1, None)),
                true,
                vec![],
                vec![],
                "Waiting m2: 1 EndpointSlice is not applied m1:5/2 > m2:2",
            ),
            (
                "a consumer that is not ready is worse",
                (source(2, 5, Some("why")), target(2, Some("m2 is not ready"))),
                true,
                vec![],
                vec![],
                "Broken m2: m2 is not ready m1:5/2 > m2:2",
            ),
        ] {
            let mcs: MultiClusterService =
                serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"},
                "spec": {"types": ["CrossCluster"]}, "status": {"conditions": conditions}}))
                .unwrap();
            let explanation = Explanation {
                service: "shop/web".into(),
                is_served,
                providers: [("m1".into(), from)].into(),
                consumers: [("m2".into(), to)].into(),
                missing: missing.into_iter().map(str::to_owned).collect(),
                conditions: Vec::new(),
            };
            assert_eq!(told(&multi_cluster_service(&mcs, &explanation)), want, "{name}");
        }
    }

    #[test]
    fn exports_wait_for_clusters_and_fail_without_a_service() {
        let ready = [("m1".into(), source(1, 3, None))].into();
        for (name, conditions, sources, want) in [
            ("new", vec![], &BTreeMap::new(), "Waiting is not examined yet  > "),
            (
                "no Service",
                vec![condition("Valid", "False"), condition("Ready", "False")],
                &BTreeMap::new(),
                "Broken R: m  > ",
            ),
            (
                "nothing collected",
                vec![condition("Valid", "True"), condition("Ready", "False")],
                &BTreeMap::new(),
                "Waiting R: m  > ",
            ),
            ("it works", vec![condition("Valid", "True"), condition("Ready", "True")], &ready, "Ok  m1:3/1 > "),
        ] {
            let export: ServiceExport = serde_json::from_value(
                json!({"metadata": {"namespace": "shop", "name": "web"}, "status": {"conditions": conditions}}),
            )
            .unwrap();
            assert_eq!(told(&service_export(&export, sources)), want, "{name}");
        }
    }

    #[test]
    fn imports_need_exporters_and_a_policy() {
        let binding: ResourceBinding = serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "b"},
            "spec": {"resource": {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
                "namespace": "shop", "name": "web"}, "clusters": [{"name": "m2"}]}}))
        .unwrap();
        let binding = || Some(BindingRef::from(&binding));
        let (some, none) = ([("m1".into(), source(1, 3, None))].into(), BTreeMap::new());
        for (name, exporters, sources, binding, want) in [
            ("nobody exports it", vec![], &none, binding(), "Waiting no cluster exports it  > m2:0"),
            ("no policy", vec!["m1"], &some, None, "Waiting no policy brings it to clusters m1:3/1 > "),
            (
                "its slices are gone",
                vec!["m1"],
                &none,
                binding(),
                "Waiting no cluster has an address of it m1:0/0 > m2:0",
            ),
            ("it works", vec!["m1"], &some, binding(), "Ok  m1:3/1 > m2:0"),
        ] {
            let clusters: Vec<Value> = exporters.iter().map(|name| json!({"cluster": name})).collect();
            let import: ServiceImport =
                serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web"},
                "spec": {"ports": [], "type": "ClusterSetIP"}, "status": {"clusters": clusters}}))
                .unwrap();
            assert_eq!(told(&service_import(&import, sources, binding)), want, "{name}");
        }
    }

    #[test]
    fn a_tree_leads_from_providers_to_consumers() {
        let provider = |cluster: &str, addresses, state, detail: &str| Provider {
            cluster: cluster.to_owned(),
            slices: 1,
            addresses,
            state,
            detail: detail.to_owned(),
        };
        let consumer = |slices: &[(&str, usize)], state, detail: &str| Consumer {
            cluster: "m3".to_owned(),
            slices: slices.iter().map(|(from, number)| ((*from).to_owned(), *number)).collect(),
            state,
            detail: detail.to_owned(),
        };
        let providers = vec![
            provider("m1", 1, LinkState::Ok, ""),
            provider("m2", 0, LinkState::Waiting, "held back: it is not ready"),
        ];
        let consumers = vec![
            consumer(&[("m1", 2), ("m2", 1)], LinkState::Ok, ""),
            consumer(&[], LinkState::Broken, "it is not ready"),
        ];
        let namespaced = (&Some("shop".to_owned()), &Some("web".to_owned()));
        let tree = service_tree(&row("MultiClusterService", namespaced, None, providers, consumers));
        let lines: Vec<String> = tree
            .links
            .iter()
            .map(|link| format!("{} {} [{:?}] {}", link.depth, link.object, link.state, link.detail))
            .collect();
        assert_eq!(
            lines,
            [
                "0 MultiClusterService shop/web [Ok] 1 address",
                "1 from Cluster m1 [Ok] 1 address in 1 EndpointSlice",
                "1 from Cluster m2 [Waiting] 0 addresses in 1 EndpointSlice, held back: it is not ready",
                "1 to Cluster m3 [Ok] 2 EndpointSlices of m1, 1 EndpointSlice of m2",
                "1 to Cluster m3 [Broken] it is not ready",
            ]
        );
        assert_eq!(tree.first_broken, Some(4));
    }

    #[test]
    fn what_is_bad_comes_first() {
        let of = |kind, name: &str, state| {
            let fault = Some((state, String::new(), None));
            row(kind, (&Some("shop".into()), &Some(name.into())), fault, Vec::new(), Vec::new())
        };
        let rows = services(vec![
            of("ServiceImport", "a", LinkState::Ok),
            of("ServiceExport", "a", LinkState::Ok),
            of("MultiClusterService", "b", LinkState::Broken),
        ]);
        let order: Vec<_> = rows.iter().map(|row| (row.kind, row.name.as_str())).collect();
        assert_eq!(order, [("MultiClusterService", "b"), ("ServiceExport", "a"), ("ServiceImport", "a")]);
    }
}
