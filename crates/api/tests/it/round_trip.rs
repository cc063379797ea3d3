//! Objects are written as they were read (specification/api.md 0, omission rule; 19).

use ironclad_api::{
    autoscaling::{CronFederatedHPA, FederatedHPA},
    cluster::Cluster,
    config::{ResourceInterpreterContext, ResourceInterpreterWebhookConfiguration},
    multicluster::{ServiceExport, ServiceImport},
    networking::MultiClusterIngress,
    policy::{
        ClusterTaintPolicy, FederatedResourceQuota, OverridePolicy, PropagationPolicy, PurgeMode, ReplicaSchedulingType,
    },
    sim::SimulatedCluster,
    work::{ClusterResourceBinding, ResourceBinding, Work, legacy},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

fn object(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "x" } });
    let Value::Object(rest) = rest else { panic!("members of an object") };
    object.as_object_mut().unwrap().extend(rest);
    object
}

fn back<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let typed: T = serde_json::from_value(value.clone()).unwrap();
    serde_json::to_value(&typed).unwrap()
}

/// Name, function that reads and writes the type, object.
type Row = (&'static str, fn(&Value) -> Value, Value);

#[test]
fn objects_round_trip() {
    let resource = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let rows: Vec<Row> = vec![
        (
            "pointers keep zero and false",
            back::<PropagationPolicy>,
            object(
                "policy.karmada.io/v1alpha1",
                "PropagationPolicy",
                json!({ "spec": {
                    "resourceSelectors": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
                    "placement": { "clusterTolerations": [{ "key": "k", "operator": "Exists", "tolerationSeconds": 0 }] },
                    "priority": 0,
                    "preserveResourcesOnDeletion": false,
                    "suspension": { "dispatching": false },
                    "failover": {
                        "application": { "decisionConditions": { "tolerationSeconds": 0 } },
                        "cluster": { "purgeMode": "Directly", "tolerationSeconds": 0 },
                    },
                } }),
            ),
        ),
        (
            "a group of clusters has its affinity inline",
            back::<PropagationPolicy>,
            object(
                "policy.karmada.io/v1alpha1",
                "PropagationPolicy",
                json!({ "spec": {
                    "resourceSelectors": [],
                    "placement": { "clusterAffinities": [{
                        "affinityName": "first", "clusterNames": ["a"], "exclude": ["b"],
                        "overflowAffinities": [{ "affinityName": "next", "labelSelector": { "matchLabels": { "a": "b" } } }],
                    }] },
                } }),
            ),
        ),
        (
            "an empty replicaScheduling is kept",
            back::<PropagationPolicy>,
            object(
                "policy.karmada.io/v1alpha1",
                "PropagationPolicy",
                json!({ "spec": { "resourceSelectors": [], "placement": { "replicaScheduling": {} } } }),
            ),
        ),
        (
            "values of patches have any type, also null",
            back::<OverridePolicy>,
            object(
                "policy.karmada.io/v1alpha1",
                "OverridePolicy",
                json!({ "spec": { "overriders": {}, "overrideRules": [{ "overriders": { "plaintext": [
                    { "path": "/a", "operator": "add", "value": 9_007_199_254_740_993_i64 },
                    { "path": "/b", "operator": "add", "value": { "c": [true, null] } },
                    { "path": "/c", "operator": "replace", "value": null },
                    { "path": "/d", "operator": "remove" },
                ] } }] } }),
            ),
        ),
        (
            "quantities stay as they are written",
            back::<FederatedResourceQuota>,
            object(
                "policy.karmada.io/v1alpha1",
                "FederatedResourceQuota",
                json!({ "spec": { "overall": { "cpu": "1e3", "memory": "1024Mi", "pods": "0.5k" } } }),
            ),
        ),
        (
            "both forms of a taint policy",
            back::<ClusterTaintPolicy>,
            object(
                "policy.karmada.io/v1alpha1",
                "ClusterTaintPolicy",
                json!({ "spec": {
                    "taints": [{ "key": "k", "effect": "NoSchedule", "addOnMatchSeconds": 0 }],
                    "taintsToAdd": [{ "key": "k", "effect": "PreferNoExecute", "addOnMatchSeconds": 300 }],
                } }),
            ),
        ),
        (
            "a binding with rarely set fields",
            back::<ResourceBinding>,
            object(
                "work.karmada.io/v1alpha2",
                "ResourceBinding",
                json!({
                    "spec": {
                        "resource": resource,
                        "clusters": [{ "name": "m1", "replicas": 2 }, { "name": "m2" }],
                        "gracefulEvictionTasks": [{
                            "fromCluster": "m3", "reason": "TaintUntolerated", "producer": "TaintManager",
                            "suppressDeletion": false, "gracePeriodSeconds": 0, "creationTimestamp": "2026-01-02T03:04:05Z",
                        }],
                        "suspension": { "scheduling": true, "dispatchingOnClusters": { "clusterNames": ["m1"] } },
                        "schedulePriority": { "priority": -5, "preemptionPolicy": "Never" },
                    },
                    "status": {
                        "schedulerObservedGeneration": 3,
                        "schedulerObservingAffinityName": "first",
                        "aggregatedStatus": [{ "clusterName": "m1", "applied": true, "status": { "n": 9_007_199_254_740_993_i64 } }],
                    },
                }),
            ),
        ),
        (
            "a cluster-scoped binding",
            back::<ClusterResourceBinding>,
            object("work.karmada.io/v1alpha2", "ClusterResourceBinding", json!({ "spec": { "resource": resource } })),
        ),
        (
            "a binding in its old version",
            back::<legacy::ResourceBinding>,
            object(
                "work.karmada.io/v1alpha1",
                "ResourceBinding",
                json!({ "spec": { "resource": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                    "replicas": 2, "resourcePerReplicas": { "cpu": "1" },
                } } }),
            ),
        ),
        (
            "manifests keep unknown fields",
            back::<Work>,
            object(
                "work.karmada.io/v1alpha1",
                "Work",
                json!({
                    "spec": { "workload": { "manifests": [
                        { "apiVersion": "x/v1", "kind": "Y", "spec": { "big": 9_007_199_254_740_993_i64, "none": null, "half": 0.5 } },
                    ] }, "suspendDispatching": false },
                    "status": { "manifestStatuses": [{
                        "identifier": { "ordinal": 0, "version": "v1", "kind": "Y", "resource": "ys", "name": "y" },
                        "health": "Unknown",
                    }] },
                }),
            ),
        ),
        (
            "names that are not plain camel case",
            back::<Cluster>,
            object(
                "cluster.karmada.io/v1alpha1",
                "Cluster",
                json!({
                    "spec": { "syncMode": "Pull", "insecureSkipTLSVerification": true, "proxyURL": "http://p", "apiEndpoint": "https://a" },
                    "status": { "apiEnablements": [{ "groupVersion": "v1", "resources": [{ "name": "pods", "kind": "Pod" }] }] },
                }),
            ),
        ),
        (
            "an autoscaler's empty status stays and has its replicas",
            back::<FederatedHPA>,
            object(
                "autoscaling.karmada.io/v1alpha1",
                "FederatedHPA",
                json!({
                    "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 3 },
                    "status": { "desiredReplicas": 0 },
                }),
            ),
        ),
        (
            "a rule that sets zero replicas",
            back::<CronFederatedHPA>,
            object(
                "autoscaling.karmada.io/v1alpha1",
                "CronFederatedHPA",
                json!({ "spec": {
                    "scaleTargetRef": { "kind": "Deployment", "name": "web" },
                    "rules": [{ "name": "night", "schedule": "0 0 * * *", "targetReplicas": 0, "suspend": false }],
                } }),
            ),
        ),
        (
            "an ingress without spec",
            back::<MultiClusterIngress>,
            object(
                "networking.karmada.io/v1alpha1",
                "MultiClusterIngress",
                json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] }, "trafficBlockClusters": ["m1"] } }),
            ),
        ),
        (
            "an export without spec",
            back::<ServiceExport>,
            object("multicluster.x-k8s.io/v1alpha1", "ServiceExport", json!({})),
        ),
        (
            "an import's empty list of ports stays",
            back::<ServiceImport>,
            object(
                "multicluster.x-k8s.io/v1alpha1",
                "ServiceImport",
                json!({ "spec": { "type": "Headless", "ports": [] } }),
            ),
        ),
        (
            "webhooks are a field of the root",
            back::<ResourceInterpreterWebhookConfiguration>,
            object(
                "config.karmada.io/v1alpha1",
                "ResourceInterpreterWebhookConfiguration",
                json!({ "webhooks": [{
                    "name": "a.b.c", "clientConfig": { "url": "https://h" }, "interpreterContextVersions": ["v1alpha1"],
                    "rules": [{ "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "kinds": ["Pod"] }],
                }] }),
            ),
        ),
        (
            "a simulated member",
            back::<SimulatedCluster>,
            object(
                "sim.ironclad.io/v1alpha1",
                "SimulatedCluster",
                json!({ "spec": {
                    "nodes": 0, "capacity": { "cpu": "4" }, "faults": { "slow": { "latency": "250ms" } },
                    "usage": [{ "selector": {}, "cpu": "800m" }],
                } }),
            ),
        ),
    ];
    for (name, back, value) in rows {
        assert_eq!(back(&value), value, "{name}");
    }
}

#[test]
fn zero_empty_and_false_are_left_out() {
    let mut binding = object(
        "work.karmada.io/v1alpha2",
        "ResourceBinding",
        json!({
            "spec": {
                "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "namespace": "", "uid": "" },
                "propagateDeps": false, "replicas": 0, "clusters": [], "schedulePriority": { "priority": 0 },
            },
            "status": { "schedulerObservedGeneration": 0, "aggregatedStatus": [{ "clusterName": "m1", "applied": false }] },
        }),
    );
    let got = back::<ResourceBinding>(&binding);
    binding["spec"] = json!({
        "resource": { "apiVersion": "v1", "kind": "ConfigMap", "name": "x" }, "schedulePriority": {},
    });
    binding["status"] = json!({ "aggregatedStatus": [{ "clusterName": "m1" }] });
    assert_eq!(got, binding);
}

#[test]
fn writers_always_emit_a_placement_and_overriders() {
    let policy =
        object("policy.karmada.io/v1alpha1", "PropagationPolicy", json!({ "spec": { "resourceSelectors": [] } }));
    assert_eq!(back::<PropagationPolicy>(&policy)["spec"]["placement"], json!({}));
    let policy = object("policy.karmada.io/v1alpha1", "OverridePolicy", json!({ "spec": {} }));
    assert_eq!(back::<OverridePolicy>(&policy)["spec"]["overriders"], json!({}));
}

#[test]
fn absent_and_empty_fields_differ() {
    let read = |spec: Value| -> PropagationPolicy {
        serde_json::from_value(object("policy.karmada.io/v1alpha1", "PropagationPolicy", json!({ "spec": spec })))
            .unwrap()
    };
    let policy = read(json!({ "resourceSelectors": [] })).spec;
    assert_eq!(policy.placement.replica_scheduling_type(), ReplicaSchedulingType::Duplicated);
    assert_eq!((policy.priority(), policy.scheduler_name()), (0, "default-scheduler"));
    let policy = read(json!({
        "resourceSelectors": [], "placement": { "replicaScheduling": {} }, "failover": { "cluster": {} },
    }))
    .spec;
    assert_eq!(policy.placement.replica_scheduling_type(), ReplicaSchedulingType::Divided);
    assert_eq!(policy.failover.unwrap().cluster.unwrap().purge_mode(), PurgeMode::Gracefully);
}

#[test]
fn quantities_are_read_from_numbers() {
    let quota: FederatedResourceQuota = serde_json::from_value(object(
        "policy.karmada.io/v1alpha1",
        "FederatedResourceQuota",
        json!({ "spec": { "overall": { "cpu": 4 } } }),
    ))
    .unwrap();
    assert_eq!(quota.spec.overall["cpu"].0, "4");
}

#[test]
fn interpreter_payload_has_apiversion_and_kind() {
    let context = serde_json::to_value(ResourceInterpreterContext::default()).unwrap();
    assert_eq!(context, json!({ "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext" }));
    let answer = json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext",
        "response": { "uid": "1", "successful": true, "patch": "W10=", "patchType": "JSONPatch", "replicas": 0, "healthy": false },
    });
    assert_eq!(back::<ResourceInterpreterContext>(&answer), answer);
}
