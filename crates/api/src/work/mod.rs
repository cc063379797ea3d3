//! Group `work.karmada.io`: bindings v1alpha2, Work v1alpha1, and the bindings' served-only v1alpha1
//! (specification/api.md 7, 8).

mod binding;
pub mod legacy;
mod manifest;
mod manifests;
mod status;

pub use binding::{
    BindingSnapshot, BindingSuspension, ClusterResourceBinding, Component, ComponentReplicaRequirements,
    GracefulEvictionTask, NodeClaim, ObjectReference, PreemptionPolicy, ReplicaRequirements, ResolvedPriority,
    ResourceBinding, ResourceBindingSpec, TargetCluster, TargetComponent, WorkloadAffinityGroups,
};
pub use manifest::{Manifest, Named, NamedMetadata};
pub use manifests::{ManifestStatus, ResourceIdentifier, Work, WorkSpec, WorkStatus, WorkloadTemplate};
pub use status::{AggregatedStatusItem, FailoverRecord, ResourceBindingStatus, ResourceHealth};
