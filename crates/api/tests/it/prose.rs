//! Types that the reference describes in prose, transcribed into the form of its tables to be compared in the same
//! way.

use serde_json::json;

use crate::fields::{Checker, inside, node, schemas};

/// Descriptions in prose, in the form of the tables.
const PROSE: [(&str, &str, &str); 34] = [
    ("Cluster", "spec.secretRef", "namespace R str, name R str}"),
    ("Cluster", "spec.impersonatorSecretRef", "namespace R str, name R str}"),
    ("Cluster", "spec.resourceModels", "grade R uint, ranges R []{name R str, min R Quantity, max R Quantity}}"),
    ("Cluster", "spec.taints", "key R str, value str, effect R str, timeAdded time}"),
    ("PropagationPolicy", "spec.suspension", "dispatching bool ptr, dispatchingOnClusters ptr {clusterNames []str}}"),
    (
        "PropagationPolicy",
        "spec.placement.clusterTolerations",
        "key str, operator str, value str, effect str, tolerationSeconds i64 ptr}",
    ),
    (
        "PropagationPolicy",
        "spec.resourceSelectors.labelSelector",
        "matchLabels map, matchExpressions []{key R str, operator R str, values []str}}",
    ),
    ("PropagationPolicy", "spec.placement.workloadAffinity.affinity", "groupByLabelKey R str}"),
    ("PropagationPolicy", "spec.placement.workloadAffinity.antiAffinity", "groupByLabelKey R str}"),
    ("ClusterTaintPolicy", "spec.addOnConditions", "conditionType R str, operator R str, statusValues R []str}"),
    ("ClusterTaintPolicy", "spec.removeOnConditions", "conditionType R str, operator R str, statusValues R []str}"),
    ("ClusterTaintPolicy", "spec.matchConditions", "conditionType R str, operator R str, statusValues R []str}"),
    (
        "ClusterTaintPolicy",
        "status",
        "observedGeneration i64; clusters []{name R str, matched bool, since time, \
         taints []{key str, effect str, state enum Pending, Added, Removing, NotAdded; at time}}}",
    ),
    ("FederatedResourceQuota", "spec.staticAssignments", "clusterName R str, hard R ResourceList}"),
    ("FederatedResourceQuota", "status.aggregatedStatus", "clusterName R str, hard ResourceList, used ResourceList}"),
    ("ResourceBinding", "spec.clusters", "name R str; replicas i32; components []{name R str, replicas R i32}}"),
    (
        "ResourceBinding",
        "spec.requiredBy",
        "namespace str; name R str; clusters []{name R str; replicas i32; components []{name R str, replicas R i32}}}",
    ),
    (
        "ResourceBinding",
        "spec.replicaRequirements",
        "nodeClaim ptr; resourceRequest ResourceList; namespace str; priorityClassName str}",
    ),
    (
        "ResourceBinding",
        "spec.components.replicaRequirements",
        "nodeClaim ptr; resourceRequest ResourceList; priorityClassName str}",
    ),
    (
        "ResourceBinding",
        "spec.replicaRequirements.nodeClaim",
        "hardNodeAffinity ptr; nodeSelector map; tolerations []core/Toleration}",
    ),
    (
        "ResourceBinding",
        "spec.suspension",
        "dispatching bool ptr, dispatchingOnClusters ptr {clusterNames []str}, scheduling bool ptr}",
    ),
    ("ResourceBinding", "spec.workloadAffinityGroups", "affinityGroup str, antiAffinityGroup str}"),
    (
        "ResourceBinding",
        "status.aggregatedStatus",
        "clusterName R str; status any object ptr; applied bool; appliedMessage str; \
         health enum Healthy, Unhealthy, Unknown; healthTransitionTime time ptr}",
    ),
    (
        "ResourceInterpreterCustomization",
        "spec.customizations",
        "retention ptr, replicaResource ptr, componentResource ptr, replicaRevision ptr, statusReflection ptr, \
         statusAggregation ptr, healthInterpretation ptr, dependencyInterpretation ptr}",
    ),
    ("ResourceInterpreterCustomization", "spec.customizations.retention", "luaScript R str}"),
    (
        "FederatedHPA",
        "spec.behavior.scaleUp",
        "stabilizationWindowSeconds i32 ptr, selectPolicy str, \
         policies []{type R str, value R i32, periodSeconds R i32}, tolerance Quantity}",
    ),
    (
        "FederatedHPA",
        "spec.metrics.resource",
        "name R str, target R {type R str, value Quantity, averageValue Quantity, averageUtilization i32}}",
    ),
    (
        "FederatedHPA",
        "status",
        "observedGeneration i64, lastScaleTime time, currentReplicas i32, desiredReplicas R i32, currentMetrics []object, \
         conditions []{type R str, status R str, reason str, message str, lastTransitionTime time}}",
    ),
    (
        "MultiClusterIngress",
        "spec.rules",
        "host str, http ptr {paths R []{path str, pathType R str, backend R {service ptr {name R str, \
         port ptr {name str, number i32}}, resource ptr {apiGroup str, kind R str, name R str}}}}}",
    ),
    (
        "MultiClusterIngress",
        "status",
        "loadBalancer ptr {ingress []{ip str, hostname str, ports []{port R i32, protocol R str, error str}}}, \
         trafficBlockClusters []str, serviceLocations []{name R str, clusters []str}}",
    ),
    (
        "MultiClusterService",
        "status",
        "loadBalancer ptr {ingress []{ip str, hostname str, ipMode str, ports []object}}, conditions []meta/Condition}",
    ),
    (
        "ServiceImport",
        "spec",
        "type R enum ClusterSetIP, Headless; ports R []{name str, protocol str, appProtocol str, port R i32}; ips []str; \
         sessionAffinity str; sessionAffinityConfig ptr {clientIP ptr {timeoutSeconds i32}}; ipFamilies []str; \
         internalTrafficPolicy str ptr; trafficDistribution str ptr}",
    ),
    ("ServiceImport", "status", "clusters []{cluster R str}, conditions []meta/Condition}"),
    ("ServiceExport", "spec", "exportedLabels map, exportedAnnotations map}"),
];

#[test]
fn types_described_in_prose_match_the_specification() {
    let schemas = schemas();
    let mut wrong = Vec::new();
    for (kind, path, members) in PROSE {
        let schema = node(&schemas[kind], path).unwrap_or_else(|| panic!("{kind} has {path}"));
        let mut checker = Checker { root: schema, place: format!("{kind} {path}"), wrong: &mut wrong };
        checker.members(inside(schema), members, "");
    }
    for (kind, path) in
        [("Cluster", "status.conditions"), ("Work", "status.conditions"), ("ServiceExport", "status.conditions")]
    {
        let schema = inside(node(&schemas[kind], path).unwrap());
        let limits = [
            ("/properties/type/maxLength", json!(316)),
            ("/properties/status/enum", json!(["True", "False", "Unknown"])),
            ("/properties/reason/maxLength", json!(1024)),
            ("/properties/message/maxLength", json!(32768)),
            ("/required", json!(["lastTransitionTime", "message", "reason", "status", "type"])),
        ];
        for (pointer, want) in limits {
            if schema.pointer(pointer) != Some(&want) {
                wrong.push(format!("{kind} {path}{pointer} is {:?}", schema.pointer(pointer)));
            }
        }
        // Other controllers write conditions of Clusters, without reasons.
        let shortest = (kind != "Cluster").then(|| json!(1));
        if schema.pointer("/properties/reason/minLength") != shortest.as_ref() {
            wrong.push(format!("{kind} {path} has reasons of other lengths than {shortest:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} differences from the prose of api.md:\n{}", wrong.len(), wrong.join("\n"));
}
