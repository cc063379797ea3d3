//! Tables of the decisions on services over clusters.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ironclad_api::{
    annotations::{EXPORTED_SERVICE_NAME, IMPORTED_SERVICE_NAME, UNREADY_PROVIDERS},
    cluster::Cluster,
    multicluster::{ServiceExport, ServiceImport},
    networking::MultiClusterService,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{ClusterName, Clusters};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Options, ServiceKey, UnreadyProviders, claim,
    collect::{self, Exported, Flow},
    dispatch::{self, Provider},
    export, import, imported, missing, selected, slice,
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
    let list = mcs(json!({"providerClusters": [{"name": "m2"}, {"name": "m3"}, {"name": "m9"}]})).spec.provider_clusters;
    assert_eq!(names(selected(&[], &all)), ["m1", "m2"]);
    assert_eq!(names(selected(&list, &all)), ["m2"]);
    assert_eq!(missing(&[&list], &all).into_iter().collect::<Vec<_>>(), ["m9"]);
}

#[test]
fn a_slice_keeps_what_other_clusters_can_use() {
    let portable = slice::portable(&member_slice("web-x", &["10.0.0.2", "10.0.0.1"]));
    let endpoint = |address: &str| json!({"addresses": [address], "conditions": {"ready": true}, "zone": "z", "hostname": "h"});
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
    let marked = claim_plan(&mcs(json!({"providerClusters": [{"name": "m1"}]})), None, None, &[]);
    let works = made(&marked);
    let flows: BTreeSet<Flow> = [Flow::MultiClusterService, Flow::ServiceExport].into();
    let found = collect::exported(works.iter().map(|work| &**work), &flows);
    assert_eq!(found, exported(&[Flow::MultiClusterService]));
    assert_eq!(collect::exported(works.iter().map(|work| &**work), &[Flow::ServiceExport].into()), Exported::new());
    assert_eq!(collect::selector(&found), "kubernetes.io/service-name in (web)");
    let many: Exported = (0..51).map(|n| (ServiceKey::new("shop", &format!("s{n}")), flows.clone())).collect();
    assert_eq!(collect::selector(&many), "kubernetes.io/service-name");
}

// --- claim -----------------------------------------------------------------------------------------------------------

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": "web", "uid": "svc", "resourceVersion": "3",
        "labels": {"propagationpolicy.karmada.io/permanent-id": "p", "app": "web"},
        "annotations": {"propagationpolicy.karmada.io/name": "p", "propagationpolicy.karmada.io/namespace": "shop"}},
        "spec": {"selector": {"app": "web"}}})
}

fn claim_plan(
    mcs: &MultiClusterService,
    service: Option<&Value>,
    binding: Option<&ResourceBinding>,
    works: &[Arc<Work>],
) -> Vec<claim::Effect> {
    let (clusters, key) = (three(), key());
    let spaces = clusters.keys().cloned().collect();
    let seen =
        claim::Seen { key: &key, mcs: Some(mcs), clusters: &clusters, spaces: &spaces, service, binding, works, now: now() };
    claim::decide(&seen, ids("id")).effects
}

fn made(effects: &[claim::Effect]) -> Vec<Arc<Work>> {
    let work = |effect: &claim::Effect| match effect {
        claim::Effect::Work(Write::Create(work)) => Some(stored(work)),
        _ => None,
    };
    effects.iter().filter_map(work).collect()
}

#[test]
fn a_service_is_claimed_and_bound_to_all_clusters_concerned() {
    let mcs = mcs(json!({"providerClusters": [{"name": "m1"}], "consumerClusters": [{"name": "m2"}]}));
    let effects = claim_plan(&mcs, Some(&service()), None, &[]);
    let [claim::Effect::Work(_), claim::Effect::PatchService(patch), claim::Effect::CreateBinding(binding)] = effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    let claimed: Value = patched(&service(), patch);
    let id = "multiclusterservice.karmada.io/permanent-id";
    assert_eq!(
        claimed["metadata"]["labels"],
        json!({"app": "web", "resourcetemplate.karmada.io/claimed-by": "MultiClusterService", id: "id"})
    );
    let names = json!({"multiclusterservice.karmada.io/namespace": "shop", "multiclusterservice.karmada.io/name": "web"});
    assert_eq!(claimed["metadata"]["annotations"], names);
    let bound = json!(binding);
    assert_eq!(bound["metadata"]["name"], "web-service");
    assert_eq!(bound["metadata"]["labels"]["binding.karmada.io/managed-by"], "MultiClusterService");
    assert_eq!(bound["spec"]["placement"], json!({"clusterAffinity": {"clusterNames": ["m1", "m2"]}}));
    assert_eq!(bound["spec"]["conflictResolution"], "Overwrite");

    let works = made(&effects);
    let applied = |names: &[&str]| -> ResourceBinding {
        let items: Vec<Value> = names.iter().map(|name| json!({"clusterName": name, "applied": true})).collect();
        patched(&**binding, &json!({"metadata": {"uid": "b"}, "status": {"aggregatedStatus": items}}))
    };
    assert_eq!(claim_plan(&mcs, Some(&claimed), Some(&applied(&["m1"])), &works), [], "m2 has not answered");
    let effects = claim_plan(&mcs, Some(&claimed), Some(&applied(&["m1", "m2"])), &works);
    let [claim::Effect::Status(part), claim::Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((part.conditions[0].status.as_str(), event.reason), ("True", "SyncServiceSucceed"));
    let told = patched(&mcs, &json!({"status": {"conditions": part.conditions}}));
    assert_eq!(claim_plan(&told, Some(&claimed), Some(&applied(&["m1", "m2"])), &works), [], "told once");

    // The same with other providers: the marker moves.
    let moved = patched(&told, &json!({"spec": {"providerClusters": [{"name": "m3"}]}}));
    let effects = claim_plan(&moved, Some(&claimed), Some(&applied(&["m1", "m2"])), &works);
    assert!(
        matches!(
            effects.as_slice(),
            [claim::Effect::Work(Write::Create(_)), claim::Effect::Work(Write::Delete { .. }), claim::Effect::PatchBinding(_), ..]
        ),
        "{effects:?}"
    );

    // Deleted: it lets go, and the finalizer is the last to go.
    let deleted = patched(&told, &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let slice = collected("m1", "web-x", &["10.0.0.1"]);
    let only = patched(&*slice, &json!({"metadata": {"labels": {"endpointslice.karmada.io/managed-by": "MultiClusterService"}}}));
    let all = [slice, Arc::new(only), works[0].clone()];
    let effects = claim_plan(&deleted, Some(&claimed), Some(&applied(&["m1"])), &all);
    let [
        claim::Effect::Work(Write::Delete { key: first, .. }),
        claim::Effect::Work(Write::Delete { .. }),
        claim::Effect::PatchService(_),
        claim::Effect::PatchBinding(_),
        claim::Effect::PatchMcs(_),
    ] = effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!(Some(first.clone()), crate::work::key_of(&works[0]), "the marker is first, and shared slices stay");
}

#[test]
fn what_keeps_a_service_from_its_clusters_is_told() {
    let own = mcs(json!({}));
    let others = patched(&service(), &json!({"metadata": {"labels": {"resourcetemplate.karmada.io/claimed-by": "FederatedHPA"}}}));
    let foreign: ResourceBinding = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web-service", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "other", "controller": true}]},
        "spec": {"resource": {"apiVersion": "v1", "kind": "Service", "name": "web"}},
    }))
    .unwrap();
    let nowhere = mcs(json!({"providerClusters": [{"name": "m8"}], "consumerClusters": [{"name": "m9"}]}));
    for (name, mcs, service, binding, want) in [
        ("no Service", &own, None, None, "there is no Service shop/web: create it in the control plane"),
        ("claimed elsewhere", &own, Some(&others), None, "Service shop/web belongs to a FederatedHPA"),
        ("a foreign binding", &own, Some(&service()), Some(&foreign), "ResourceBinding shop/web-service belongs to another object"),
        ("no cluster", &nowhere, Some(&service()), None, "none of its clusters exists; there is no cluster m8, m9"),
    ] {
        let effects = claim_plan(mcs, service, binding, &[]);
        let told = effects.iter().find_map(|effect| match effect {
            claim::Effect::Event(event) if event.reason == "SyncServiceFailed" => Some(event.message.as_str()),
            _ => None,
        });
        assert!(told.is_some_and(|text| text.starts_with(want)), "{name}: {told:?}");
        assert!(!effects.iter().any(|effect| matches!(effect, claim::Effect::CreateBinding(_))), "{name}");
    }
}

// --- dispatch --------------------------------------------------------------------------------------------------------

struct Scene {
    mcs: MultiClusterService,
    clusters: Clusters,
    evicted: BTreeSet<ClusterName>,
    options: Options,
}

impl Scene {
    fn new(spec: Value) -> Self {
        Self { mcs: mcs(spec), clusters: three(), evicted: BTreeSet::new(), options: Options::default() }
    }

    fn run(&self, works: &[Arc<Work>]) -> Vec<dispatch::Effect> {
        let key = key();
        dispatch::decide(&self.seen(&key, works), ids("id")).effects
    }

    fn seen<'a>(&'a self, key: &'a ServiceKey, works: &'a [Arc<Work>]) -> dispatch::Seen<'a> {
        let (mcs, clusters) = (Some(&self.mcs), &self.clusters);
        dispatch::Seen { key, mcs, clusters, works, evicted: &self.evicted, options: self.options, now: now() }
    }

    /// The Works after the effects, with copies applied.
    fn settled(&self, works: &[Arc<Work>]) -> Vec<Arc<Work>> {
        let mut all = works.to_vec();
        for effect in self.run(works) {
            match effect {
                dispatch::Effect::Work(Write::Create(work)) => {
                    let applied = json!({"status": {"conditions": [{"type": "Applied", "status": "True", "reason": "a",
                        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
                    all.push(Arc::new(patched(&*stored(&work), &applied)));
                }
                dispatch::Effect::Work(Write::Delete { key, .. }) => {
                    all.retain(|work| crate::work::key_of(work).as_ref() != Some(&key));
                }
                _ => {}
            }
        }
        all
    }

    /// Cluster and name of each copy.
    fn copies(&self, works: &[Arc<Work>]) -> Vec<String> {
        let mut all: Vec<String> = self
            .settled(works)
            .iter()
            .filter(|work| super::provider_of(work).is_some())
            .map(|work| {
                let manifest: Value = work.spec.workload.manifests[0].object();
                let cluster = crate::work::key_of(work).unwrap().cluster;
                format!("{cluster}: {}", manifest["metadata"]["name"].as_str().unwrap())
            })
            .collect();
        all.sort();
        all
    }
}

#[test]
fn slices_go_to_all_consumers_but_their_own_cluster() {
    let works = [collected("m1", "web-x", &["10.0.0.1"]), collected("m2", "web-x", &["10.0.0.2"])];
    for (name, spec, want) in [
        (
            "all clusters are both",
            json!({}),
            &["m1: m2-web-x", "m2: m1-web-x", "m3: m1-web-x", "m3: m2-web-x"][..],
        ),
        ("one consumer", json!({"consumerClusters": [{"name": "m3"}]}), &["m3: m1-web-x", "m3: m2-web-x"]),
        ("one provider", json!({"providerClusters": [{"name": "m1"}]}), &["m2: m1-web-x", "m3: m1-web-x"]),
        ("another type", json!({"types": ["LoadBalancer"]}), &[]),
    ] {
        let scene = Scene::new(spec);
        assert_eq!(scene.copies(&works), want, "{name}");
        let settled = scene.settled(&works);
        let again = scene.run(&settled);
        assert!(!again.iter().any(|effect| matches!(effect, dispatch::Effect::Work(_))), "{name}: {again:?}");
    }
}

#[test]
fn copies_that_are_not_wanted_any_more_go() {
    let works = [collected("m1", "web-x", &["10.0.0.1"]), collected("m2", "web-y", &["10.0.0.2"])];
    let all = Scene::new(json!({})).settled(&works);
    for (name, scene, want) in [
        ("fewer consumers", Scene::new(json!({"consumerClusters": [{"name": "m2"}]})), &["m2: m1-web-x"][..]),
        ("fewer providers", Scene::new(json!({"providerClusters": [{"name": "m2"}]})), &["m1: m2-web-y", "m3: m2-web-y"]),
        ("another type", Scene::new(json!({"types": ["LoadBalancer"]})), &[]),
    ] {
        assert_eq!(scene.copies(&all), want, "{name}");
    }
    let mut lost = Scene::new(json!({}));
    lost.clusters.remove(&ClusterName::from("m1"));
    assert_eq!(lost.copies(&all[1..]), ["m3: m2-web-y"], "a deleted provider that is a consumer, too");
}

#[test]
fn equal_names_of_two_sources_do_not_meet() {
    let mut scene = Scene::new(json!({"consumerClusters": [{"name": "m3"}]}));
    for name in ["a", "a-b"] {
        scene.clusters.insert(name.into(), cluster(name, "True", json!({})));
    }
    let works = [collected("a", "b-x", &["10.0.0.1"]), collected("a-b", "x", &["10.0.0.2"])];
    let copies = scene.copies(&works);
    assert!(copies.len() == 2 && copies[0] == "m3: a-b-x" && copies[1].starts_with("m3: a-b-x-"), "{copies:?}");
}

#[test]
fn endpoints_of_a_provider_are_withheld_for_a_reason() {
    let acts = json!({"status": {"remedyActions": ["TrafficControl"]}});
    let annotated = |value: &str| json!({"metadata": {"annotations": {UNREADY_PROVIDERS: value}}});
    let drop_after = |minutes: u64| UnreadyProviders::DropAfter(Duration::from_secs(60 * minutes));
    let none = json!({});
    // The cluster is unready for five minutes.
    for (name, cluster, flag, evicted, mcs_patch, want) in [
        ("ready", cluster("m1", "True", json!({})), UnreadyProviders::Keep, false, &none, Some(None)),
        ("unready", cluster("m1", "False", json!({})), UnreadyProviders::Keep, false, &none, Some(None)),
        ("drop", cluster("m1", "False", json!({})), drop_after(0), false, &none, None),
        ("drop later", cluster("m1", "Unknown", json!({})), drop_after(7), false, &none, Some(Some(120))),
        ("drop by now", cluster("m1", "Unknown", json!({})), drop_after(5), false, &none, None),
        ("its own choice", cluster("m1", "False", json!({})), drop_after(0), false, &annotated("keep"), Some(None)),
        ("its own drop", cluster("m1", "False", json!({})), UnreadyProviders::Keep, false, &annotated("drop"), None),
        ("evicted", cluster("m1", "False", json!({})), UnreadyProviders::Keep, true, &none, None),
        ("evicted and ready", cluster("m1", "True", json!({})), UnreadyProviders::Keep, true, &none, Some(None)),
        ("a remedy", cluster("m1", "True", acts.clone()), UnreadyProviders::Keep, false, &none, None),
    ] {
        let mut scene = Scene::new(json!({}));
        scene.mcs = patched(&scene.mcs, mcs_patch);
        scene.options.unready_providers = flag;
        scene.evicted.extend(evicted.then(|| ClusterName::from("m1")));
        let key = key();
        let found = match dispatch::provider(&scene.seen(&key, &[]), &"m1".into(), &cluster) {
            Provider::Served => Some(None),
            Provider::ServedFor(left) => Some(Some(left.as_secs())),
            Provider::Withheld(_) => None,
        };
        assert_eq!(found, want, "{name}");
    }
    let mut off = Scene::new(json!({}));
    off.options.traffic_control = false;
    let key = key();
    let found = dispatch::provider(&off.seen(&key, &[]), &"m1".into(), &cluster("m1", "True", acts));
    assert_eq!(found, Provider::Served, "without the flag");
}

#[test]
fn dispatch_is_told_once_the_copies_are_applied() {
    let works = [collected("m1", "web-x", &["10.0.0.1"])];
    let mut scene = Scene::new(json!({"consumerClusters": [{"name": "m2"}, {"name": "m3"}]}));
    let told = |effects: &[dispatch::Effect]| {
        effects.iter().find_map(|effect| match effect {
            dispatch::Effect::Status(part) => Some(part.conditions[0].clone()),
            _ => None,
        })
    };
    assert_eq!(told(&scene.run(&works)), None, "on their way");
    let settled = scene.settled(&works);
    let condition = told(&scene.run(&settled)).unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("True", "EndpointSliceDispatchedSucceed"));
    assert_eq!(condition.message, "EndpointSlices of m1 are dispatched to m2, m3");
    scene.mcs = patched(&scene.mcs, &json!({"status": {"conditions": [condition]}}));
    assert_eq!(scene.run(&settled), [], "told once");
    scene.clusters.insert("m3".into(), cluster("m3", "False", json!({})));
    let condition = told(&scene.run(&settled)).unwrap();
    assert!(condition.message.ends_with("; m3 is not ready since 2026-01-01T00:55:00Z"), "{}", condition.message);
    let failed = json!({"status": {"conditions": [{"type": "Applied", "status": "False", "reason": "a",
        "message": "refused", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let refused: Vec<Arc<Work>> = settled.iter().map(|work| Arc::new(patched(&**work, &failed))).collect();
    let condition = told(&scene.run(&refused)).unwrap();
    assert_eq!(condition.status, "False");
    assert!(condition.message.contains("; m2: refused"), "{}", condition.message);
}

#[test]
fn backends_are_found_by_the_labels_of_their_pods() {
    let work = |cluster: &str, app: &str| -> Work {
        serde_json::from_value(json!({
            "metadata": {"namespace": format!("karmada-es-{cluster}"), "name": "w"},
            "spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"namespace": "shop", "name": app},
                "spec": {"template": {"metadata": {"labels": {"app": app, "v": "1"}}}}}]}},
        }))
        .unwrap()
    };
    let gone = patched(&work("m3", "web"), &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let works = [work("m1", "web"), work("m2", "other"), gone];
    let selector = [("app".to_owned(), "web".to_owned())].into();
    let near = json!({"metadata": {"annotations": {"resourcebinding.karmada.io/namespace": "shop"}}});
    let near: Vec<Work> = works.iter().map(|work| patched(work, &near)).collect();
    let unready: BTreeSet<ClusterName> = ["m1".into(), "m3".into()].into();
    let evicted = |works: &[Work], selector| dispatch::evicted(unready.clone(), "shop", selector, works);
    assert_eq!(evicted(&near, &selector), ["m3".into()].into());
    assert_eq!(evicted(&works, &selector), BTreeSet::new(), "Works of no binding say nothing");
    assert_eq!(evicted(&near[1..], &selector), BTreeSet::new(), "nobody has backends");
    assert_eq!(evicted(&near, &[].into()), BTreeSet::new(), "without a selector");
    assert_eq!(dispatch::may_be_backend(&works[0]).as_deref(), Some("shop"));
    assert_eq!(dispatch::may_be_backend(&collected("m1", "web-x", &[])), None);
}

#[test]
fn works_of_karmada_are_let_go_and_adopted() {
    let works = [collected("m1", "web-x", &["10.0.0.1"])];
    let scene = Scene::new(json!({"consumerClusters": [{"name": "m2"}]}));
    let settled = scene.settled(&works);
    // Karmada names the copy like the collected slice.
    let renamed = Arc::new(patched(&*settled[1], &json!({"metadata": {"name": "web-x-5df69fc76"}})));
    let effects = scene.run(&[works[0].clone(), renamed]);
    let creates = |effect: &dispatch::Effect| matches!(effect, dispatch::Effect::Work(Write::Create(_) | Write::Delete { .. }));
    assert!(!effects.iter().any(creates), "{effects:?}");
    let former = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["karmada.io/mcs-endpointslice-dispatch-controller", "x"]}});
    let leaving = Arc::new(patched(&*works[0], &former));
    let effects = scene.run(&[leaving]);
    let [dispatch::Effect::Work(Write::Patch { patch, .. })] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(*patch, json!({"metadata": {"finalizers": ["x"]}}));
}

// --- exports and imports ---------------------------------------------------------------------------------------------

#[test]
fn exported_slices_are_imported_into_the_control_plane() {
    let key = key();
    let run = |works: &[Arc<Work>], slices: &[Arc<Value>], leaving: &BTreeSet<ClusterName>| {
        imported::decide(&imported::Seen { key: &key, service: "derived-web", works, slices, leaving }).effects
    };
    let none = BTreeSet::new();
    let works = [collected("m1", "web-x", &["10.0.0.1"])];
    let effects = run(&works, &[], &none);
    let [imported::Effect::Create(slice)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(slice["metadata"]["name"], "imported-m1-web-x");
    let slice = Arc::new(slice.clone());
    assert_eq!(run(&works, &[slice.clone()], &none), []);
    let moved = [collected("m1", "web-x", &["10.0.0.9"])];
    assert!(matches!(run(&moved, &[slice.clone()], &none).as_slice(), [imported::Effect::Patch { .. }]));
    let gone = [imported::Effect::Delete { name: "imported-m1-web-x".into() }];
    assert_eq!(run(&[], &[slice.clone()], &none), gone);
    assert_eq!(run(&works, &[slice.clone()], &[ClusterName::from("m1")].into()), gone, "the cluster leaves");
    let other = patched(&*slice, &json!({"metadata": {"annotations": {EXPORTED_SERVICE_NAME: "other"}}}));
    assert_eq!(run(&[], &[Arc::new(other)], &none), [], "of another export");
}

fn service_import(spec: Value) -> ServiceImport {
    serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web", "uid": "i"}, "spec": spec})).unwrap()
}

#[test]
fn an_import_has_a_service() {
    let exporters: BTreeSet<ClusterName> = ["m1".into()].into();
    let run = |import: &ServiceImport, service: Option<&Value>| {
        import::decide(&import::Seen { import, service, exporters: &exporters }).effects
    };
    let ports = json!([{"name": "http", "port": 80}]);
    let plain = service_import(json!({"type": "ClusterSetIP", "ports": ports, "ips": ["10.9.0.1"]}));
    let effects = run(&plain, None);
    let [import::Effect::Status(_), import::Effect::CreateService(service), import::Effect::Event(event)] = effects.as_slice()
    else {
        panic!("{effects:?}")
    };
    assert_eq!((event.reason, &service["metadata"]["name"]), ("SyncDerivedServiceSucceed", &json!("derived-web")));
    let known = patched(&plain, &json!({"status": {"clusters": [{"cluster": "m1"}]}}));
    let server = json!({"metadata": {"uid": "s"}, "spec": {"clusterIP": "10.0.0.1",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}]}});
    let present: Value = patched(service, &server);
    let effects = run(&known, Some(&present));
    let [import::Effect::ServiceStatus(part)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(json!(part.fields), json!({"loadBalancer": {"ingress": [{"ip": "10.9.0.1"}]}}));
    let complete = patched(&present, &json!({"status": {"loadBalancer": {"ingress": [{"ip": "10.9.0.1", "ipMode": "VIP"}]}}}));
    assert_eq!(run(&known, Some(&complete)), []);
    let changed = patched(&known, &json!({"spec": {"ports": [{"name": "http", "port": 81}]}}));
    assert!(matches!(run(&changed, Some(&complete)).as_slice(), [import::Effect::PatchService(_), import::Effect::Event(_)]));

    let headless = service_import(json!({"type": "Headless", "ports": ports}));
    let effects = run(&headless, None);
    let service = effects.iter().find_map(|effect| match effect {
        import::Effect::CreateService(service) => Some(service),
        _ => None,
    });
    assert_eq!(service.unwrap()["spec"]["clusterIP"], "None");
}

#[test]
fn an_import_may_choose_its_name_unless_it_is_taken() {
    let chosen = json!({"metadata": {"annotations": {IMPORTED_SERVICE_NAME: "web"}}});
    let import = patched(&service_import(json!({"type": "ClusterSetIP", "ports": []})), &chosen);
    assert_eq!(import::service_name(Some(&import), "web"), "web");
    assert_eq!(import::service_name(None, "web"), "derived-web");
    let exporters = BTreeSet::new();
    let effects = import::decide(&import::Seen { import: &import, service: Some(&service()), exporters: &exporters }).effects;
    let [import::Effect::Event(event)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(event.reason == "SyncDerivedServiceFailed" && event.message.contains("does not belong to this import"));
}

#[test]
fn an_export_in_the_control_plane_marks_the_clusters_of_its_service() {
    let export: ServiceExport =
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": "web", "uid": "e"}})).unwrap();
    let clusters: BTreeSet<ClusterName> = ["m1".into(), "m2".into()].into();
    let (key, spaces) = (key(), ["m1".into()].into());
    let run = |export: Option<&ServiceExport>, service: Option<&Value>, is_propagated: bool, works: &[Arc<Work>]| {
        let seen = export::Seen {
            key: &key, export, service, clusters: &clusters, is_propagated, spaces: &spaces, works, now: now(),
        };
        export::decide(&seen, ids("id")).effects
    };
    let effects = run(Some(&export), Some(&service()), false, &[]);
    let [export::Effect::Work(Write::Create(work)), export::Effect::Status(part)] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let reasons: Vec<_> = part.conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_str())).collect();
    assert_eq!(reasons, [("Valid", "Valid"), ("Ready", "Pending")]);
    assert_eq!(collect::export(work), Some((key.clone(), Flow::ServiceExport)));
    let works = [stored(work), collected("m1", "web-x", &["10.0.0.1"])];
    let effects = run(Some(&export), None, false, &works);
    let [export::Effect::Status(part)] = effects.as_slice() else { panic!("{effects:?}") };
    let reasons: Vec<_> = part.conditions.iter().map(|c| (c.type_.as_str(), c.reason.as_str())).collect();
    assert_eq!(reasons, [("Valid", "NoService"), ("Ready", "Exported")]);
    let told = patched(&export, &json!({"status": {"conditions": part.conditions}}));
    assert_eq!(run(Some(&told), None, false, &works), [], "told once");
    for (name, export, is_propagated) in [("deleted", None, false), ("a policy says where", Some(&told), true)] {
        let effects = run(export, None, is_propagated, &works);
        assert!(matches!(effects.as_slice(), [export::Effect::Work(Write::Delete { .. })]), "{name}: {effects:?}");
    }
}
