//! Tables of the decisions on services over clusters.

mod claims;
mod copies;
mod exports;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ironclad_api::{
    annotations::{EXPORTED_SERVICE_NAME, IMPORTED_SERVICE_NAME, UNREADY_PROVIDERS},
    cluster::Cluster,
    multicluster::{ServiceExport, ServiceImport},
    networking::{MultiClusterIngress, MultiClusterService},
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{ClusterName, Clusters};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Options, ServiceKey, UnreadyProviders, claim,
    collect::{self, Exported, Flow},
    dispatch::{self, Provider},
    export, import, imported, ingress, missing, selected, slice,
};
use crate::{
    testkit::{ids, patched},
    work::owned::Write,
};

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn key() -> ServiceKey {
    ServiceKey::new("shop", "web")
}

fn cluster(name: &str, ready: &str, extra: Value) -> Arc<Cluster> {
    let base: Cluster = serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name}, "spec": {"syncMode": "Push"},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "", "message": "",
            "lastTransitionTime": "2026-01-01T00:55:00Z"}]},
    }))
    .unwrap();
    Arc::new(patched(&base, &extra))
}

fn clusters(all: &[Arc<Cluster>]) -> Clusters {
    all.iter().map(|cluster| (cluster.metadata.name.as_deref().unwrap().into(), cluster.clone())).collect()
}

fn three() -> Clusters {
    clusters(&["m1", "m2", "m3"].map(|name| cluster(name, "True", json!({}))))
}

fn mcs(spec: Value) -> MultiClusterService {
    let mut all = json!({"types": ["CrossCluster"]});
    crate::testkit::merge(&mut all, &spec);
    serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web", "uid": "u", "labels": {"multiclusterservice.karmada.io/permanent-id": "id"},
            "finalizers": ["karmada.io/multiclusterservice-controller"]},
        "spec": all,
    }))
    .unwrap()
}

fn member_slice(name: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| {
            json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": "n", "zone": "z",
                "targetRef": {"kind": "Pod", "name": "p"}, "hints": {"forZones": [{"name": "z"}]}, "hostname": "h"})
        })
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"namespace": "shop", "name": name, "uid": "s", "resourceVersion": "7", "generateName": "web-",
            "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "service.kubernetes.io/headless": "", "karmada.io/managed": "true", "work.karmada.io/permanent-id": "w",
                "team": "a", "shop.example/tier": "b"}},
        "endpoints": endpoints, "ports": [{"name": "http", "port": 80}],
    })
}

/// A Work as the server has it after its creation.
fn stored(work: &Work) -> Arc<Work> {
    Arc::new(patched(work, &json!({"metadata": {"uid": "w"}})))
}

fn exported(flows: &[Flow]) -> Exported {
    [(key(), flows.iter().copied().collect())].into()
}

fn collect(cluster: &str, slice: Option<&Value>, work: Option<&Arc<Work>>, exported: &Exported) -> Vec<Write> {
    let cluster = ClusterName::from(cluster);
    collect::decide(&collect::Seen { cluster: &cluster, slice, work, exported }, ids("id")).effects
}

fn collected(cluster: &str, name: &str, addresses: &[&str]) -> Arc<Work> {
    let slice = member_slice(name, addresses);
    let writes = collect(cluster, Some(&slice), None, &exported(&[Flow::MultiClusterService, Flow::ServiceExport]));
    let [Write::Create(work)] = writes.as_slice() else { panic!("{writes:?}") };
    stored(work)
}

#[test]
fn flag_of_unready_providers_is_parsed() {
    for (text, want) in [
        ("keep", Some(UnreadyProviders::Keep)),
        ("drop", Some(UnreadyProviders::DropAfter(Duration::ZERO))),
        ("drop-after=5m", Some(UnreadyProviders::DropAfter(Duration::from_secs(300)))),
        ("drop-after=", None),
        ("drop-after=-5m", None),
        ("drop-after=1000h", None),
        ("", None),
    ] {
        assert_eq!(UnreadyProviders::parse(text).ok(), want, "{text}");
    }
}

#[test]
fn lists_of_clusters_name_all_or_those_that_exist() {
    let mut all = three();
    let leaving = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    all.insert("m3".into(), cluster("m3", "True", leaving));
    let names = |set: BTreeSet<ClusterName>| set.iter().map(ToString::to_string).collect::<Vec<_>>();
    let list =
        mcs(json!({"providerClusters": [{"name": "m2"}, {"name": "m3"}, {"name": "m9"}]})).spec.provider_clusters;
    assert_eq!(names(selected(&[], &all)), ["m1", "m2"]);
    assert_eq!(names(selected(&list, &all)), ["m2"]);
    assert_eq!(missing(&[&list], &all).into_iter().collect::<Vec<_>>(), ["m9"]);
}

#[test]
fn a_slice_keeps_what_other_clusters_can_use() {
    let portable = slice::portable(&member_slice("web-x", &["10.0.0.2", "10.0.0.1"]));
    let endpoint =
        |address: &str| json!({"addresses": [address], "conditions": {"ready": true}, "zone": "z", "hostname": "h"});
    assert_eq!(
        portable,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"namespace": "shop", "name": "web-x", "labels": {"kubernetes.io/service-name": "web",
                "service.kubernetes.io/headless": "", "team": "a", "shop.example/tier": "b"}},
            "endpoints": [endpoint("10.0.0.1"), endpoint("10.0.0.2")], "ports": [{"name": "http", "port": 80}],
        })
    );
    assert_eq!(slice::portable(&portable), portable, "idempotent");
    let sent = slice::dispatched(&portable, "m1", "m1-web-x");
    assert!(slice::is_of_another_cluster(&sent) && !slice::is_of_another_cluster(&portable));
    assert_eq!(sent["metadata"]["annotations"], json!({"endpointslice.karmada.io/provision-cluster": "m1"}));
    let imported = slice::imported(&portable, "m1", "derived-web");
    assert_eq!(imported["metadata"]["name"], "imported-m1-web-x");
    assert_eq!(slice::service_of(&imported), Some(ServiceKey::new("shop", "derived-web")));
    let long = slice::bounded("a".repeat(300));
    assert!(long.len() <= 253 && long != slice::bounded("a".repeat(301)), "{long}");
}

#[test]
fn slices_of_exported_services_are_collected() {
    let both = exported(&[Flow::MultiClusterService, Flow::ServiceExport]);
    let work = collected("m1", "web-x", &["10.0.0.1"]);
    assert_eq!(work.spec.suspend_dispatching, Some(true));
    assert_eq!(work.metadata.finalizers, None, "nobody else has to let it go");
    let label = |work: &Work, name: &str| work.metadata.labels.as_ref().and_then(|map| map.get(name)).cloned();
    let managed = "endpointslice.karmada.io/managed-by";
    assert_eq!(label(&work, managed).as_deref(), Some("MultiClusterService.ServiceExport"));
    assert!(collect::is_collected_for(&work, Flow::MultiClusterService));
    let slice = member_slice("web-x", &["10.0.0.1"]);
    assert_eq!(collect("m1", Some(&slice), Some(&work), &both), [], "up to date");
    let moved = member_slice("web-x", &["10.0.0.9"]);
    assert!(matches!(collect("m1", Some(&moved), Some(&work), &both).as_slice(), [Write::Patch { .. }]));
    let writes = collect("m1", Some(&slice), Some(&work), &exported(&[Flow::ServiceExport]));
    let [Write::Patch { patch, .. }] = writes.as_slice() else { panic!("{writes:?}") };
    let after: Work = patched(&*work, patch);
    assert_eq!(label(&after, managed).as_deref(), Some("ServiceExport"));
    assert_eq!(label(&after, "multiclusterservice.karmada.io/name"), None);
    for (name, slice, exported) in [
        ("gone", None, &both),
        ("not exported", Some(&slice), &Exported::new()),
        ("from another cluster", Some(&slice::dispatched(&slice, "m2", "web-x")), &both),
    ] {
        assert!(matches!(collect("m1", slice, Some(&work), exported).as_slice(), [Write::Delete { .. }]), "{name}");
        assert_eq!(collect("m1", slice, None, exported), [], "{name}");
    }
}

#[test]
fn removed_addresses_are_reported_at_once_and_others_in_intervals() {
    let slice = |addresses: &[&str]| member_slice("web-x", addresses);
    let (one, two) = (slice(&["10.0.0.1"]), slice(&["10.0.0.1", "10.0.0.2"]));
    let (second, zero) = (Duration::from_secs(1), Duration::ZERO);
    let ago = |millis| Some(Duration::from_millis(millis));
    for (name, before, after, since, want) in [
        ("a new slice", None, Some(&one), None, zero),
        ("the first change", Some(&one), Some(&two), None, zero),
        ("soon after", Some(&one), Some(&two), ago(300), Duration::from_millis(700)),
        ("later", Some(&one), Some(&two), ago(1500), zero),
        ("an address goes", Some(&two), Some(&one), ago(300), zero),
        ("the slice goes", Some(&two), None, ago(300), zero),
    ] {
        assert_eq!(collect::wait(before, after, since, second), want, "{name}");
    }
}

#[test]
fn markers_and_propagated_exports_export() {
    let marked = claims::claim_plan(&mcs(json!({"providerClusters": [{"name": "m1"}]})), None, None, &[]);
    let works = claims::made(&marked);
    let flows: BTreeSet<Flow> = [Flow::MultiClusterService, Flow::ServiceExport].into();
    let found = collect::exported(works.iter().map(|work| &**work), &flows);
    assert_eq!(found, exported(&[Flow::MultiClusterService]));
    assert_eq!(collect::exported(works.iter().map(|work| &**work), &[Flow::ServiceExport].into()), Exported::new());
    assert_eq!(collect::selector(&found), "kubernetes.io/service-name in (web)");
    let many: Exported = (0..51).map(|n| (ServiceKey::new("shop", &format!("s{n}")), flows.clone())).collect();
    assert_eq!(collect::selector(&many), "kubernetes.io/service-name");
}
