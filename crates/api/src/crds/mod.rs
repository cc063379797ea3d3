//! CRDs of our kinds (specification/api.md 0.1, 0.2), and how the bindings' CRDs serve their first version.
//!
//! They are the files of `data/crds`, which feature `schema` generates from the types: `cargo xtask codegen crds`.

#[cfg(feature = "schema")]
pub mod generate;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, WebhookClientConfig, WebhookConversion,
};

use crate::cluster::{STORED_DEFINITION, STORED_GROUP};

/// Texts of CRDs by their names.
macro_rules! texts {
    ($($name:literal),* $(,)?) => { [$(include_str!(concat!("../../data/crds/", $name, ".json"))),*] };
}

/// Every CRD except the simulation's, by name.
const OURS: [&str; 20] = texts![
    "clusteroverridepolicies.policy.karmada.io",
    "clusterpropagationpolicies.policy.karmada.io",
    "clusterresourcebindings.work.karmada.io",
    "clusters.cluster.karmada.io",
    "clustertaintpolicies.policy.karmada.io",
    "cronfederatedhpas.autoscaling.karmada.io",
    "federatedhpas.autoscaling.karmada.io",
    "federatedresourcequotas.policy.karmada.io",
    "multiclusteringresses.networking.karmada.io",
    "multiclusterservices.networking.karmada.io",
    "overridepolicies.policy.karmada.io",
    "propagationpolicies.policy.karmada.io",
    "remedies.remedy.karmada.io",
    "resourcebindings.work.karmada.io",
    "resourceinterpretercustomizations.config.karmada.io",
    "resourceinterpreterwebhookconfigurations.config.karmada.io",
    "serviceexports.multicluster.x-k8s.io",
    "serviceimports.multicluster.x-k8s.io",
    "workloadrebalancers.apps.karmada.io",
    "works.work.karmada.io",
];

/// The CRDs of every kind that is served as one, by name, without the simulation's. Each call decodes them.
///
/// The bindings' v1alpha1 is declared but not served: that needs [`serve_legacy_bindings`].
pub fn crds() -> Vec<CustomResourceDefinition> {
    OURS.into_iter().map(decode).collect()
}

/// The CRD of Clusters in the group that stores them, so that an aggregated API can have theirs.
pub fn stored_clusters_crd() -> CustomResourceDefinition {
    let [text] = texts!["clusters.cluster.karmada.io"];
    let mut crd = decode(text);
    crd.metadata.name = Some(STORED_DEFINITION.to_owned());
    STORED_GROUP.clone_into(&mut crd.spec.group);
    crd
}

/// The CRD of SimulatedCluster, which only `ironclad up` serves.
pub fn simulated_cluster_crd() -> CustomResourceDefinition {
    let [text] = texts!["simulatedclusters.sim.ironclad.io"];
    decode(text)
}

fn decode(text: &str) -> CustomResourceDefinition {
    serde_json::from_str(text).expect("each file is a CRD: a test decodes them all")
}

/// Serves v1alpha1 of the bindings as well, converted by this webhook. CRDs of other kinds are unchanged.
pub fn serve_legacy_bindings(crd: &mut CustomResourceDefinition, converter: WebhookClientConfig) {
    let mut legacy: Vec<_> = crd.spec.versions.iter_mut().filter(|version| !version.served).collect();
    if legacy.is_empty() {
        return;
    }
    for version in &mut legacy {
        version.served = true;
    }
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(converter),
            conversion_review_versions: vec!["v1".to_owned()],
        }),
    });
}
