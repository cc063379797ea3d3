//! Wake rules of the controllers of services over clusters (specification/mcs.md).

use std::collections::BTreeSet;

use ironclad_api::{
    ObjectMeta,
    cluster::Cluster,
    labels,
    remedy::TRAFFIC_CONTROL,
    work::{ObjectReference, ResourceBindingSpec, Work},
};
use ironclad_fleet::{ClusterName, targets::targets};

use super::changes;
use crate::services::{
    MCS_KIND, ServiceKey,
    collect::{self, EXPORT_KIND},
    dispatch, export, mcs_of,
};

/// Returns true if a MultiClusterService, ServiceExport or ServiceImport has to be reconciled: not for a status.
#[must_use]
pub fn front_end(old: Option<&ObjectMeta>, new: Option<&ObjectMeta>) -> bool {
    let marks = |meta: &ObjectMeta| (meta.labels.clone(), meta.annotations.clone(), meta.finalizers.clone());
    changes::policy(old, new) || old.map(marks) != new.map(marks)
}

/// Returns true if another set of clusters gives or takes endpoints, or can.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let actions =
        |cluster: &Cluster| cluster.status.as_ref().map(|status| status.remedy_actions.clone()).unwrap_or_default();
    match new {
        None => old.is_some(),
        Some(new) => changes::cluster(old, new) || old.map(actions) != Some(actions(new)),
    }
}

/// The MultiClusterServices that a change of a Work concerns.
#[must_use]
pub fn mcs_of_work(old: Option<&Work>, new: Option<&Work>) -> Vec<ServiceKey> {
    let mut all: Vec<ServiceKey> = [old, new].into_iter().flatten().filter_map(mcs_of).collect();
    all.dedup();
    all
}

/// The namespace in which Services may have lost or gained a cluster with backends, and that cluster.
#[must_use]
pub fn moved_backend(old: Option<&Work>, new: Option<&Work>) -> Option<(std::sync::Arc<str>, ClusterName)> {
    let lives = |work: &Work| work.metadata.deletion_timestamp.is_none();
    if old.is_some_and(lives) == new.is_some_and(lives) {
        return None;
    }
    let work = new.or(old)?;
    Some((dispatch::may_be_backend(work)?, crate::work::key_of(work)?.cluster))
}

/// Returns true if a member may export other Services after this change of a Work in its execution space.
#[must_use]
pub fn exports(old: Option<&Work>, new: Option<&Work>) -> bool {
    old.and_then(collect::export) != new.and_then(collect::export)
}

/// The ServiceExport whose collected slices changed so that its conditions may: addresses alone do not.
#[must_use]
pub fn export_of_work(old: Option<&Work>, new: Option<&Work>) -> Vec<ServiceKey> {
    let changes = match (old, new) {
        (Some(old), Some(new)) => old.spec != new.spec && export::traits(old) != export::traits(new),
        _ => true,
    };
    let mut all: Vec<ServiceKey> = [old, new].into_iter().flatten().filter_map(export::of_work).collect();
    all.dedup();
    if changes { all } else { Vec::new() }
}

/// Returns true if other clusters than before are to be kept free of traffic.
#[must_use]
pub fn drained(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let drains = |cluster: &Cluster| {
        let actions = cluster.status.as_ref().map(|status| status.remedy_actions.as_slice()).unwrap_or_default();
        actions.iter().any(|action| action == TRAFFIC_CONTROL)
    };
    old.is_some_and(drains) != new.is_some_and(drains)
}

/// The namespace and name of the Service whose clusters a change of a binding may change.
#[must_use]
pub fn located(old: Option<&ResourceBindingSpec>, new: Option<&ResourceBindingSpec>) -> Option<ServiceKey> {
    let places =
        |spec: &ResourceBindingSpec| targets(spec).into_iter().map(|target| target.cluster).collect::<BTreeSet<_>>();
    let template = &new.or(old)?.resource;
    let is_moved = template.kind == "Service" && old.map(places) != new.map(places);
    is_moved.then(|| ServiceKey::new(&template.namespace, &template.name))
}

/// The MultiClusterService that a binding is made for, by its marks.
#[must_use]
pub fn mcs_of_binding(metadata: &ObjectMeta) -> Option<ServiceKey> {
    let by = metadata.labels.as_ref()?.get(labels::BINDING_MANAGED_BY)?;
    let annotations = metadata.annotations.as_ref().filter(|_| by == MCS_KIND)?;
    let text = |key: &str| annotations.get(key).map(String::as_str);
    let namespace = text(ironclad_api::annotations::MULTI_CLUSTER_SERVICE_NAMESPACE)?;
    Some(ServiceKey::new(namespace, text(ironclad_api::annotations::MULTI_CLUSTER_SERVICE_NAME)?))
}

/// The ServiceExport that a binding of this template concerns: that of the Service, or the template itself.
#[must_use]
pub fn export_of_template(template: &ObjectReference) -> Option<ServiceKey> {
    let concerned = template.kind == "Service" || template.kind == EXPORT_KIND;
    concerned.then(|| ServiceKey::new(&template.namespace, &template.name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::{self, patched};

    fn meta(json: Value) -> ObjectMeta {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn status_of_a_front_end_does_not_wake_it() {
        let base = meta(json!({"name": "web", "generation": 1}));
        for (name, old, new, want) in [
            ("created", None, Some(base.clone()), true),
            ("deleted", Some(&base), None, true),
            (
                "a status",
                Some(&base),
                Some(meta(json!({"name": "web", "generation": 1, "resourceVersion": "2"}))),
                false,
            ),
            ("a spec", Some(&base), Some(meta(json!({"name": "web", "generation": 2}))), true),
            ("a label", Some(&base), Some(meta(json!({"name": "web", "generation": 1, "labels": {"a": "b"}}))), true),
            (
                "a finalizer",
                Some(&base),
                Some(meta(json!({"name": "web", "generation": 1, "finalizers": ["f"]}))),
                true,
            ),
        ] {
            assert_eq!(front_end(old, new.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn clusters_that_give_or_take_endpoints_wake_services() {
        let base = testkit::cluster("m1", "True");
        let acting = patched(&base, &json!({"status": {"remedyActions": ["TrafficControl"]}}));
        for (name, old, new, want) in [
            ("it joined", None, Some(&base), true),
            ("it is gone", Some(&base), None, true),
            ("nothing", Some(&base), Some(&base), false),
            ("not ready", Some(&base), Some(&testkit::cluster("m1", "False")), true),
            ("an action of a Remedy", Some(&base), Some(&acting), true),
        ] {
            assert_eq!(cluster(old, new), want, "{name}");
        }
    }

    fn work(metadata: Value, manifest: Value) -> Work {
        let base = json!({"metadata": {"namespace": "karmada-es-m1", "name": "w"},
            "spec": {"workload": {"manifests": [manifest]}}});
        patched(&testkit::work(base), &json!({"metadata": metadata}))
    }

    #[test]
    fn works_wake_the_services_that_they_name() {
        let of = |name: &str| {
            let labels =
                json!({labels::MULTI_CLUSTER_SERVICE_NAMESPACE: "shop", labels::MULTI_CLUSTER_SERVICE_NAME: name});
            work(json!({"labels": labels}), json!({}))
        };
        for (name, old, new, want) in [
            ("created", None, Some(of("web")), &["shop/web"][..]),
            ("changed", Some(of("web")), Some(of("web")), &["shop/web"]),
            ("of another one", Some(of("web")), Some(of("api")), &["shop/web", "shop/api"]),
            ("of none", None, Some(work(json!({}), json!({}))), &[]),
        ] {
            let found: Vec<String> = mcs_of_work(old.as_ref(), new.as_ref()).iter().map(ToString::to_string).collect();
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn backends_that_come_or_go_wake_the_services_of_their_namespace() {
        let manifest = json!({"kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}}}});
        let backend = work(json!({}), manifest.clone());
        let leaving = work(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), manifest);
        let other = work(json!({}), json!({"kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "web"}}));
        let found = Some(("shop".into(), ClusterName::from("m1")));
        for (name, old, new, want) in [
            ("it comes", None, Some(&backend), found.clone()),
            ("it stays", Some(&backend), Some(&backend), None),
            ("it leaves", Some(&backend), Some(&leaving), found.clone()),
            ("it left", Some(&leaving), None, None),
            ("it is gone at once", Some(&backend), None, found),
            ("no pods", None, Some(&other), None),
        ] {
            assert_eq!(moved_backend(old, new), want, "{name}");
        }
    }

    #[test]
    fn works_with_exports_wake_their_member() {
        let export = |name: &str| {
            let metadata = json!({"namespace": "shop", "name": name});
            work(
                json!({}),
                json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": EXPORT_KIND, "metadata": metadata}),
            )
        };
        let (web, other) = (export("web"), work(json!({}), json!({"apiVersion": "v1", "kind": "Service"})));
        for (name, old, new, want) in [
            ("an export", None, Some(&web), true),
            ("the same", Some(&web), Some(&web), false),
            ("of another Service", Some(&web), Some(&export("api")), true),
            ("it is gone", Some(&web), None, true),
            ("no export", None, Some(&other), false),
        ] {
            assert_eq!(exports(old, new), want, "{name}");
        }
    }

    #[test]
    fn bindings_wake_the_services_that_they_are_made_for() {
        let marked = |by: &str| {
            meta(json!({"labels": {labels::BINDING_MANAGED_BY: by}, "annotations": {
                "multiclusterservice.karmada.io/namespace": "shop", "multiclusterservice.karmada.io/name": "web"}}))
        };
        assert_eq!(mcs_of_binding(&marked(MCS_KIND)), Some(ServiceKey::new("shop", "web")));
        assert_eq!(mcs_of_binding(&marked("another")), None);
        assert_eq!(mcs_of_binding(&ObjectMeta::default()), None);
        for (kind, want) in [("Service", true), (EXPORT_KIND, true), ("Deployment", false)] {
            let template = ObjectReference {
                kind: kind.into(),
                namespace: "shop".into(),
                name: "web".into(),
                ..ObjectReference::default()
            };
            assert_eq!(export_of_template(&template), want.then(|| ServiceKey::new("shop", "web")), "{kind}");
        }
    }

    #[test]
    fn a_collected_slice_wakes_its_export_when_more_than_addresses_changes() {
        let slice = |endpoints: Value, ports: Value| {
            let labels = json!({labels::ENDPOINT_SLICE_NAMESPACE: "shop", labels::ENDPOINT_SLICE_NAME: "web",
                labels::ENDPOINT_SLICE_MANAGED_BY: EXPORT_KIND});
            let manifest = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"namespace": "shop", "name": "web-x"}, "endpoints": endpoints, "ports": ports});
            work(json!({"labels": labels}), manifest)
        };
        let (http, one) = (json!([{"name": "http", "port": 80}]), json!([{"addresses": ["10.0.0.1"]}]));
        let base = slice(one.clone(), http.clone());
        let host = json!([{"addresses": ["10.0.0.1"], "hostname": "db-0"}]);
        for (name, old, new, want) in [
            ("it comes", None, Some(base.clone()), true),
            ("it goes", Some(base.clone()), None, true),
            ("an address", Some(base.clone()), Some(slice(json!([{"addresses": ["10.0.0.9"]}]), http.clone())), false),
            ("a port", Some(base.clone()), Some(slice(one, json!([{"name": "web", "port": 80}]))), true),
            ("a hostname", Some(base.clone()), Some(slice(host, http.clone())), true),
            ("the last endpoint", Some(base), Some(slice(json!([]), http)), true),
        ] {
            assert_eq!(!export_of_work(old.as_ref(), new.as_ref()).is_empty(), want, "{name}");
        }
    }

    #[test]
    fn clusters_that_are_drained_and_services_that_move_wake_ingresses() {
        let base = testkit::cluster("m1", "True");
        let acting = patched(&base, &json!({"status": {"remedyActions": ["TrafficControl"]}}));
        let other = patched(&base, &json!({"status": {"remedyActions": ["Other"]}}));
        for (name, old, new, want) in [
            ("drained", Some(&base), Some(&acting), true),
            ("served again", Some(&acting), Some(&base), true),
            ("gone", Some(&acting), None, true),
            ("another action", Some(&base), Some(&other), false),
            ("still drained", Some(&acting), Some(&acting), false),
        ] {
            assert_eq!(drained(old, new), want, "{name}");
        }
        let spec = |kind: &str, clusters: &[&str], required: &[&str]| -> ResourceBindingSpec {
            let named = |all: &[&str]| all.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
            serde_json::from_value(json!({
                "resource": {"apiVersion": "v1", "kind": kind, "namespace": "shop", "name": "web"},
                "clusters": named(clusters),
                "requiredBy": [{"namespace": "shop", "name": "r", "clusters": named(required)}],
            }))
            .unwrap()
        };
        let (base, service) = (spec("Service", &["m1"], &[]), Some(ServiceKey::new("shop", "web")));
        for (name, old, new, want) in [
            ("bound", None, Some(spec("Service", &["m1"], &[])), &service),
            ("the same", Some(&base), Some(spec("Service", &["m1"], &["m1"])), &None),
            ("one more", Some(&base), Some(spec("Service", &["m1"], &["m2"])), &service),
            ("gone", Some(&base), None, &service),
            ("no Service", None, Some(spec("ConfigMap", &["m1"], &[])), &None),
        ] {
            assert_eq!(&located(old, new.as_ref()), want, "{name}");
        }
    }
}
