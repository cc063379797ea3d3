//! Label keys and their values (specification/api.md 12.1).

/// PropagationPolicy that owns a template or a binding, by its permanent id; on the policy its own id.
pub const PROPAGATION_POLICY_PERMANENT_ID: &str = "propagationpolicy.karmada.io/permanent-id";
/// ClusterPropagationPolicy that owns a template or a binding, by its permanent id; on the policy its own id.
pub const CLUSTER_PROPAGATION_POLICY_PERMANENT_ID: &str = "clusterpropagationpolicy.karmada.io/permanent-id";
/// Identity of a ResourceBinding, on itself, its Works and their manifests.
pub const RESOURCE_BINDING_PERMANENT_ID: &str = "resourcebinding.karmada.io/permanent-id";
/// Identity of a ClusterResourceBinding, on itself, its Works and their manifests.
pub const CLUSTER_RESOURCE_BINDING_PERMANENT_ID: &str = "clusterresourcebinding.karmada.io/permanent-id";
/// Identity of a Work, on itself and on its manifests.
pub const WORK_PERMANENT_ID: &str = "work.karmada.io/permanent-id";
/// Identity of a MultiClusterService, on itself, its Service, binding and Works.
pub const MULTI_CLUSTER_SERVICE_PERMANENT_ID: &str = "multiclusterservice.karmada.io/permanent-id";
/// Kind that created a binding without a policy, e.g. `MultiClusterService`.
pub const BINDING_MANAGED_BY: &str = "binding.karmada.io/managed-by";
/// Prefix of the labels that name the bindings that depend on this one; [`crate::names::depended_by_label`].
pub const DEPENDED_BY_PREFIX: &str = "resourcebinding.karmada.io/depended-by-";
/// Kind that claims a template, so that policies ignore it.
pub const CLAIMED_BY: &str = "resourcetemplate.karmada.io/claimed-by";
/// Value of [`CLAIMED_BY`] on autoscalers that members run.
pub const CLAIMED_BY_DISTRIBUTED_HPA: &str = "FederatedHPA";
/// `true` keeps the replicas that are found in the member.
pub const RETAIN_REPLICAS: &str = "resourcetemplate.karmada.io/retain-replicas";
/// [`DELETION_PROTECTED_ALWAYS`] refuses deletion.
pub const DELETION_PROTECTED: &str = "resourcetemplate.karmada.io/deletion-protected";
/// The one value of [`DELETION_PROTECTED`] that protects.
pub const DELETION_PROTECTED_ALWAYS: &str = "Always";
/// `true` keeps a namespace out of members.
pub const SKIP_AUTO_PROPAGATION: &str = "namespace.karmada.io/skip-auto-propagation";
/// `true` on every object that the control plane put into a member.
pub const MANAGED: &str = "karmada.io/managed";
/// `true` on objects of the control plane itself.
pub const SYSTEM: &str = "karmada.io/system";
/// The value of labels that are switches.
pub const TRUE: &str = "true";
/// Namespace of the Service whose collected EndpointSlice a Work holds.
pub const ENDPOINT_SLICE_NAMESPACE: &str = "endpointslice.karmada.io/namespace";
/// Name of the Service whose collected EndpointSlice a Work holds.
pub const ENDPOINT_SLICE_NAME: &str = "endpointslice.karmada.io/name";
/// Kinds that still need a Work with a collected EndpointSlice, joined by `.`.
pub const ENDPOINT_SLICE_MANAGED_BY: &str = "endpointslice.karmada.io/managed-by";
/// Namespace of the MultiClusterService that a Work belongs to.
pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
/// Name of the MultiClusterService that a Work belongs to.
pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
/// Namespace of the FederatedResourceQuota that a Work belongs to.
pub const FEDERATED_RESOURCE_QUOTA_NAMESPACE: &str = "federatedresourcequota.karmada.io/namespace";
/// Name of the FederatedResourceQuota that a Work belongs to.
pub const FEDERATED_RESOURCE_QUOTA_NAME: &str = "federatedresourcequota.karmada.io/name";
/// Kubernetes' own: controller of an EndpointSlice. Slices of ours are never collected again.
pub const ENDPOINT_SLICE_KUBERNETES_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`ENDPOINT_SLICE_KUBERNETES_MANAGED_BY`] on slices dispatched for a MultiClusterService.
pub const ENDPOINT_SLICE_DISPATCH_CONTROLLER: &str = "endpointslice-dispatch-controller.karmada.io";
/// Value of [`ENDPOINT_SLICE_KUBERNETES_MANAGED_BY`] on slices imported for a ServiceExport.
pub const ENDPOINT_SLICE_CONTROLLER: &str = "endpointslice-controller.karmada.io";
/// Kubernetes' own: the Service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// `true` spreads a Kubernetes HPA over the clusters of its target.
pub const FEDERATED_HPA_ENABLED: &str = "federatedhpa.karmada.io/enabled";
/// `true` on Works that hold a spread HPA.
pub const FEDERATED_HPA: &str = "federatedhpa.karmada.io";
/// UID of the spread HPA, on its Works and its OverridePolicy.
pub const FEDERATED_HPA_UID: &str = "federatedhpa.karmada.io/hpa-uid";
/// `true` on the OverridePolicy of a spread HPA.
pub const FEDERATED_HPA_MANAGED: &str = "federatedhpa.karmada.io/managed";
/// Objects of an installation, for cleanup.
pub const BOOTSTRAPPING: &str = "karmada.io/bootstrapping";
