//! Makes the CRDs of our kinds from their types (specification/api.md 0.1, 0.2).
//!
//! Only tests are built with it (feature `schema`): one writes the files of `data/crds`, or compares them.

mod bindings;
mod definition;
mod embedded;
mod structural;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use self::definition::Definition;
use crate::{apps, autoscaling, cluster, config, multicluster, networking, policy, remedy, sim, work};

/// Category of the kinds that `kubectl get karmada-io` lists.
const KARMADA: &str = "karmada-io";

/// The CRDs of every kind that is served as one, with the simulation's.
pub fn crds() -> Vec<CustomResourceDefinition> {
    definitions().iter().map(Definition::crd).chain(bindings::crds()).collect()
}

fn definitions() -> Vec<Definition> {
    const CONFLICT_RESOLUTION: [&str; 3] = ["CONFLICT-RESOLUTION", ".spec.conflictResolution", "string"];
    const PRIORITY: [&str; 3] = ["PRIORITY", ".spec.priority", "string"];
    const REFERENCE_KIND: [&str; 3] = ["REFERENCE-KIND", ".spec.scaleTargetRef.kind", "string"];
    const REFERENCE_NAME: [&str; 3] = ["REFERENCE-NAME", ".spec.scaleTargetRef.name", "string"];
    vec![
        cluster_definition(),
        Definition::of::<sim::SimulatedCluster>("simulatedcluster").with_status(),
        Definition::of::<policy::PropagationPolicy>("propagationpolicy")
            .short("pp")
            .category(KARMADA)
            .with_empty_subresources()
            .columns(&[CONFLICT_RESOLUTION, PRIORITY, definition::AGE]),
        Definition::of::<policy::ClusterPropagationPolicy>("clusterpropagationpolicy")
            .short("cpp")
            .category(KARMADA)
            .with_empty_subresources()
            .columns(&[CONFLICT_RESOLUTION, PRIORITY, definition::AGE]),
        Definition::of::<policy::OverridePolicy>("overridepolicy").short("op").category(KARMADA),
        Definition::of::<policy::ClusterOverridePolicy>("clusteroverridepolicy").short("cop").category(KARMADA),
        Definition::of::<policy::ClusterTaintPolicy>("clustertaintpolicy").with_status(),
        Definition::of::<policy::FederatedResourceQuota>("federatedresourcequota")
            .category(KARMADA)
            .with_status()
            .columns(&[["OVERALL", ".status.overall", "string"], ["OVERALL_USED", ".status.overallUsed", "string"]]),
        Definition::of::<work::Work>("work").short("wk").category(KARMADA).with_status().columns(&[
            ["WORKLOAD-KIND", ".spec.workload.manifests[*].kind", "string"],
            ["APPLIED", r#".status.conditions[?(@.type=="Applied")].status"#, "string"],
            definition::AGE,
        ]),
        Definition::of::<config::ResourceInterpreterCustomization>("resourceinterpretercustomization")
            .short("ric")
            .category(KARMADA)
            .with_empty_subresources()
            .columns(&[
                ["TARGET-API-VERSION", ".spec.target.apiVersion", "string"],
                ["TARGET-KIND", ".spec.target.kind", "string"],
                definition::AGE,
            ]),
        Definition::of::<config::ResourceInterpreterWebhookConfiguration>("resourceinterpreterwebhookconfiguration")
            .category(KARMADA),
        Definition::of::<autoscaling::FederatedHPA>("federatedhpa")
            .short("fhpa")
            .category(KARMADA)
            .with_status()
            .columns(&[
                REFERENCE_KIND,
                REFERENCE_NAME,
                ["MINPODS", ".spec.minReplicas", "integer"],
                ["MAXPODS", ".spec.maxReplicas", "integer"],
                ["REPLICAS", ".status.currentReplicas", "integer"],
                definition::AGE,
            ]),
        Definition::of::<autoscaling::CronFederatedHPA>("cronfederatedhpa")
            .short("cronfhpa")
            .category(KARMADA)
            .with_status()
            .columns(&[REFERENCE_KIND, REFERENCE_NAME, definition::AGE]),
        Definition::of::<networking::MultiClusterIngress>("multiclusteringress")
            .short("mci")
            .category(KARMADA)
            .with_status(),
        Definition::of::<networking::MultiClusterService>("multiclusterservice")
            .short("mcs")
            .category(KARMADA)
            .with_status(),
        Definition::of::<apps::WorkloadRebalancer>("workloadrebalancer").with_status(),
        Definition::of::<remedy::Remedy>("remedy").category(KARMADA),
        Definition::of::<multicluster::ServiceExport>("serviceexport")
            .also(&["v1beta1"])
            .short("svcex")
            .with_status()
            .columns(&[["Age", ".metadata.creationTimestamp", "date"]]),
        Definition::of::<multicluster::ServiceImport>("serviceimport")
            .also(&["v1beta1"])
            .short("svcim")
            .with_status()
            .columns(&[
                ["Type", ".spec.type", "string"],
                ["IP", ".spec.ips", "string"],
                ["Age", ".metadata.creationTimestamp", "date"],
            ]),
    ]
}

/// Cluster, with the three admission rules that are cheap enough for the schema (specification/admission.md 1.4).
fn cluster_definition() -> Definition {
    Definition::of::<cluster::Cluster>("cluster")
        .with_status()
        // Other controllers write conditions of their own, without reasons (specification/api.md 0).
        .with_empty_reasons()
        .columns(&[
            ["Version", ".status.kubernetesVersion", "string"],
            ["Mode", ".spec.syncMode", "string"],
            ["Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "string"],
            ["Age", ".metadata.creationTimestamp", "date"],
        ])
        .wide_columns(&[
            ["Zones", ".spec.zones", "string"],
            ["Region", ".spec.region", "string"],
            ["Provider", ".spec.provider", "string"],
            ["API-Endpoint", ".spec.apiEndpoint", "string"],
            ["Proxy-URL", ".spec.proxyURL", "string"],
        ])
        .rule(
            &[],
            "self.metadata.name.size() <= 48",
            "the name of a Cluster must be no more than 48 characters: its execution namespace is named after it",
        )
        .rule(
            &["spec"],
            "!has(self.zone) || self.zone == '' || !has(self.zones) || self.zones.size() == 0",
            "zone and zones must not be set together: use zones",
        )
}
