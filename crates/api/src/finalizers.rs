//! Finalizers (specification/api.md 12.3).

/// On a Cluster: its Works and execution namespace are removed first.
pub const CLUSTER_CONTROLLER: &str = "karmada.io/cluster-controller";
/// On a Work: its manifests are removed from the member first.
pub const EXECUTION_CONTROLLER: &str = "karmada.io/execution-controller";
/// On a ResourceBinding: its Works are removed first.
pub const BINDING_CONTROLLER: &str = "karmada.io/binding-controller";
/// On a ClusterResourceBinding: its Works are removed first.
pub const CLUSTER_RESOURCE_BINDING_CONTROLLER: &str = "karmada.io/cluster-resource-binding-controller";
/// On a ResourceBinding with dependencies: attached bindings are cleaned first.
pub const BINDING_DEPENDENCIES_DISTRIBUTOR: &str = "karmada.io/binding-dependencies-distributor";
/// On a PropagationPolicy: templates and bindings are released first.
pub const PROPAGATION_POLICY_CONTROLLER: &str = "karmada.io/propagation-policy-controller";
/// On a ClusterPropagationPolicy: templates and bindings are released first.
pub const CLUSTER_PROPAGATION_POLICY_CONTROLLER: &str = "karmada.io/cluster-propagation-policy-controller";
/// On a MultiClusterService: its Works are removed first.
pub const MULTI_CLUSTER_SERVICE_CONTROLLER: &str = "karmada.io/multiclusterservice-controller";
/// On a Work with a slice collected for a ServiceExport: derived slices are removed first.
pub const ENDPOINT_SLICE_CONTROLLER: &str = "karmada.io/endpointslice-controller";
/// On a Work with a slice collected for a MultiClusterService: dispatched copies are removed first.
pub const MCS_ENDPOINT_SLICE_DISPATCH_CONTROLLER: &str = "karmada.io/mcs-endpointslice-dispatch-controller";
/// Reserved, unused.
pub const MCS_ENDPOINT_SLICE_COLLECT_CONTROLLER: &str = "karmada.io/mcs-endpointslice-collect-controller";
/// On a spread HPA: its Works, which lie in other namespaces, are removed first.
pub const FEDERATED_HPA: &str = "federatedhpa.karmada.io/finalizer";
