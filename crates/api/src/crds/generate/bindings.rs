//! The CRDs of the bindings, which have two versions.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};

use super::{
    KARMADA,
    definition::{AGE, Definition},
};
use crate::work::{self, legacy};

/// Version that is stored.
const STORED: &str = "v1alpha2";

/// ResourceBinding and ClusterResourceBinding: v1alpha2 served and stored, v1alpha1 declared.
///
/// v1alpha1 is not served: without a conversion webhook the server would only rename the version, so that a v1alpha1
/// client, which knows neither placement nor requirements, would wipe them with its first write.
pub(super) fn crds() -> [CustomResourceDefinition; 2] {
    let namespaced = stored::<work::ResourceBinding>("resourcebinding", "rb");
    let cluster = stored::<work::ClusterResourceBinding>("clusterresourcebinding", "crb")
        .without(&["spec"], "workloadAffinityGroups")
        .without(&["status"], "nominatedClusters");
    [
        two_versions(&namespaced, Definition::of::<legacy::ResourceBinding>("resourcebinding")),
        two_versions(&cluster, Definition::of::<legacy::ClusterResourceBinding>("clusterresourcebinding")),
    ]
}

fn stored<K: crate::schema::Kind>(singular: &'static str, short: &'static str) -> Definition {
    Definition::of::<K>(singular).short(short).category(KARMADA).with_status().columns(&[
        ["SCHEDULED", r#".status.conditions[?(@.type=="Scheduled")].status"#, "string"],
        ["FULLYAPPLIED", r#".status.conditions[?(@.type=="FullyApplied")].status"#, "string"],
        AGE,
    ])
}

fn two_versions(stored: &Definition, legacy: Definition) -> CustomResourceDefinition {
    let old = CustomResourceDefinitionVersion { served: false, storage: false, ..legacy.with_status().version() };
    let crd = stored.crd_with(vec![old, stored.version()]);
    debug_assert!(crd.spec.versions.iter().all(|version| version.storage == (version.name == STORED)));
    crd
}
