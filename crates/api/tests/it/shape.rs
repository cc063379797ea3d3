//! Rules for all CRDs: no artefacts of the derive macro (specification/api.md 0, 19).

use std::collections::BTreeSet;

use ironclad_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, WebhookClientConfig,
};
use serde_json::{Value, json};

/// Visits every schema of every version of every CRD with its kind and path.
fn each_schema(mut visit: impl FnMut(&str, &str, &Value)) {
    fn walk(kind: &str, path: &str, schema: &Value, visit: &mut impl FnMut(&str, &str, &Value)) {
        visit(kind, path, schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(kind, &format!("{path}.{name}"), property, visit);
        }
        for inner in ["items", "additionalProperties"] {
            if let Some(schema) = schema.get(inner) {
                walk(kind, &format!("{path}[]"), schema, visit);
            }
        }
    }
    for crd in crds::crds().into_iter().chain([crds::simulated_cluster_crd()]) {
        let crd = serde_json::to_value(crd).unwrap();
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
            walk(kind, "", &version["schema"]["openAPIV3Schema"], &mut visit);
        }
    }
}

#[test]
fn schemas_have_exactly_the_listed_defaults() {
    let mut found = BTreeSet::new();
    each_schema(|kind, path, schema| {
        if let Some(default) = schema.get("default") {
            let kind = kind.trim_start_matches("Cluster");
            found.insert(format!("{kind}{path} = {default}"));
        }
    });
    let shared = [
        ".spec.placement.replicaScheduling.replicaSchedulingType = \"Divided\"",
        ".spec.failover.application.purgeMode = \"Gracefully\"",
        ".spec.failover.application.decisionConditions.tolerationSeconds = 300",
        ".spec.failover.cluster.purgeMode = \"Gracefully\"",
        ".spec.failover.cluster.tolerationSeconds = 300",
        ".spec.conflictResolution = \"Abort\"",
    ];
    let mut want: BTreeSet<String> = ["PropagationPolicy", "ResourceBinding"]
        .iter()
        .flat_map(|kind| shared.map(|of| format!("{kind}{of}")))
        .collect();
    want.extend(
        [
            "PropagationPolicy.spec.priority = 0",
            "PropagationPolicy.spec.preemption = \"Never\"",
            "PropagationPolicy.spec.schedulerName = \"default-scheduler\"",
            "PropagationPolicy.spec.schedulePriority.priorityClassSource = \"KubePriorityClass\"",
            "ResourceBinding.spec.schedulePriority.priority = 0",
            "ResourceBinding.spec.schedulePriority.preemptionPolicy = \"Never\"",
            "CronFederatedHPA.spec.rules[].suspend = false",
            "CronFederatedHPA.spec.rules[].successfulHistoryLimit = 3",
            "CronFederatedHPA.spec.rules[].failedHistoryLimit = 3",
            "TaintPolicy.spec.taintsToAdd[].addOnMatchSeconds = 300",
            "TaintPolicy.spec.taintsToAdd[].removeOnMismatchSeconds = 180",
        ]
        .map(str::to_owned),
    );
    assert_eq!(found, want);
}

#[test]
fn schemas_are_structural_without_unknown_keywords() {
    let formats = [json!("int32"), json!("int64"), json!("date-time"), json!("byte")];
    each_schema(|kind, path, schema| {
        for keyword in ["nullable", "oneOf", "$ref", "allOf", "title", "const", "x-ironclad-default"] {
            assert!(schema.get(keyword).is_none(), "{kind}{path} has {keyword}");
        }
        let format = schema.get("format");
        assert!(format.is_none_or(|format| formats.contains(format)), "{kind}{path} has format {format:?}");
        let any = schema.get("x-kubernetes-int-or-string").is_some()
            || schema.get("x-kubernetes-preserve-unknown-fields").is_some();
        assert!(any || schema["type"].is_string(), "{kind}{path} has no type");
        assert_eq!(schema.get("anyOf").is_some(), schema.get("x-kubernetes-int-or-string").is_some(), "{kind}{path}");
    });
}

#[test]
fn only_embedded_types_have_list_maps() {
    let mut found = BTreeSet::new();
    each_schema(|kind, path, schema| {
        if schema["x-kubernetes-list-type"] == "map" {
            found.insert(format!("{kind}{path} by {}", schema["x-kubernetes-list-map-keys"][0]));
        }
    });
    let want = [
        "FederatedHPA.status.conditions by \"type\"",
        "MultiClusterService.status.conditions by \"type\"",
        "ServiceExport.status.conditions by \"type\"",
        "ServiceImport.status.clusters by \"cluster\"",
        "ServiceImport.status.conditions by \"type\"",
    ];
    assert_eq!(found, want.map(str::to_owned).into());
}

#[test]
fn embedded_types_have_list_types_and_no_descriptions() {
    let mut seen = 0;
    each_schema(|kind, path, schema| {
        if path.ends_with(".labelSelector") {
            seen += 1;
            assert_eq!(schema["x-kubernetes-map-type"], "atomic", "{kind}{path}");
            assert_eq!(schema["properties"]["matchExpressions"]["x-kubernetes-list-type"], "atomic", "{kind}{path}");
            assert!(schema["properties"]["matchLabels"].get("description").is_none(), "{kind}{path}");
        }
    });
    assert!(seen > 10, "{seen} selectors");
}

#[test]
fn embedded_types_have_no_enums_of_kubernetes() {
    each_schema(|kind, path, schema| {
        if path.ends_with("[].effect") || path.ends_with("Tolerations[].operator") {
            assert!(schema.get("enum").is_none(), "{kind}{path}: PreferNoExecute and admission's texts need this open");
        }
    });
}

#[test]
fn v1alpha1_of_bindings_is_served_only_with_a_converter() {
    let converter = || WebhookClientConfig { url: Some("https://127.0.0.1/convert".to_owned()), ..Default::default() };
    for mut crd in crds::crds() {
        let before = crd.clone();
        let has_legacy = crd.spec.versions.iter().any(|version| !version.served);
        assert!(crd.spec.versions.iter().all(|version| version.served || version.name == "v1alpha1"));
        assert_eq!(crd.spec.conversion.as_ref().unwrap().strategy, "None");
        crds::serve_legacy_bindings(&mut crd, converter());
        if has_legacy {
            assert!(crd.spec.versions.iter().all(|version| version.served));
            let conversion = crd.spec.conversion.unwrap();
            assert_eq!(conversion.strategy, "Webhook");
            assert_eq!(conversion.webhook.unwrap().conversion_review_versions, ["v1"]);
        } else {
            assert_eq!(crd, before, "other kinds do not change");
        }
    }
}

#[test]
fn v1alpha1_of_bindings_has_its_own_fields() {
    let has_legacy = |crd: &CustomResourceDefinition| crd.spec.versions.iter().any(|version| !version.served);
    for crd in crds::crds().into_iter().filter(has_legacy) {
        let crd = serde_json::to_value(crd).unwrap();
        let old =
            crd["spec"]["versions"].as_array().unwrap().iter().find(|version| version["name"] == "v1alpha1").unwrap();
        let spec = &old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        let names = |schema: &Value| -> Vec<String> { schema.as_object().unwrap().keys().cloned().collect() };
        assert_eq!(names(spec), ["clusters", "resource"]);
        assert_eq!(
            names(&spec["resource"]["properties"]),
            ["apiVersion", "kind", "name", "namespace", "replicas", "resourcePerReplicas", "resourceVersion"]
        );
        assert_eq!(names(&spec["clusters"]["items"]["properties"]), ["name", "replicas"]);
    }
}

#[test]
fn multi_cluster_services_of_kubernetes_are_served_in_two_versions_with_one_schema() {
    let all = crds::crds();
    let of_kubernetes: Vec<_> = all.iter().filter(|crd| crd.spec.group == "multicluster.x-k8s.io").collect();
    assert_eq!(of_kubernetes.len(), 2);
    for crd in of_kubernetes {
        let [stored, newer] = crd.spec.versions.as_slice() else { panic!("{:?}", crd.metadata.name) };
        assert_eq!((&*stored.name, stored.served, stored.storage), ("v1alpha1", true, true));
        assert_eq!((&*newer.name, newer.served, newer.storage), ("v1beta1", true, false));
        assert_eq!(stored.schema, newer.schema);
    }
}
