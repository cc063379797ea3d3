//! Annotation keys (specification/api.md 12.2).

/// Namespace of the PropagationPolicy that owns a template or binding.
pub const PROPAGATION_POLICY_NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
/// Name of the PropagationPolicy that owns a template or binding.
pub const PROPAGATION_POLICY_NAME: &str = "propagationpolicy.karmada.io/name";
/// Name of the ClusterPropagationPolicy that owns a template or binding.
pub const CLUSTER_PROPAGATION_POLICY_NAME: &str = "clusterpropagationpolicy.karmada.io/name";
/// Namespace of the ResourceBinding that owns a Work or manifest.
pub const RESOURCE_BINDING_NAMESPACE: &str = "resourcebinding.karmada.io/namespace";
/// Name of the ResourceBinding that owns a Work or manifest.
pub const RESOURCE_BINDING_NAME: &str = "resourcebinding.karmada.io/name";
/// Name of the ClusterResourceBinding that owns a Work or manifest.
pub const CLUSTER_RESOURCE_BINDING_NAME: &str = "clusterresourcebinding.karmada.io/name";
/// JSON array of the last computed DependentObjectReferences.
pub const DEPENDENCIES: &str = "resourcebinding.karmada.io/dependencies";
/// JSON of the Placement that the last scheduling used.
pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";
/// JSON of the OverridePolicies applied to a Work, sorted by name; absent if none.
pub const APPLIED_OVERRIDES: &str = "policy.karmada.io/applied-overrides";
/// JSON of the ClusterOverridePolicies applied to a Work, sorted by name; absent if none.
pub const APPLIED_CLUSTER_OVERRIDES: &str = "policy.karmada.io/applied-cluster-overrides";
/// Namespace of the Work that an object came from.
pub const WORK_NAMESPACE: &str = "work.karmada.io/namespace";
/// Name of the Work that an object came from.
pub const WORK_NAME: &str = "work.karmada.io/name";
/// [`CONFLICT_RESOLUTION_OVERWRITE`] or [`CONFLICT_RESOLUTION_ABORT`]; a template's value takes precedence over its
/// policy's.
pub const CONFLICT_RESOLUTION: &str = "work.karmada.io/conflict-resolution";
/// Value of [`CONFLICT_RESOLUTION`]: take the unmanaged object over.
pub const CONFLICT_RESOLUTION_OVERWRITE: &str = "overwrite";
/// Value of [`CONFLICT_RESOLUTION`]: leave the unmanaged object.
pub const CONFLICT_RESOLUTION_ABORT: &str = "abort";
/// UID of the template of a manifest.
pub const TEMPLATE_UID: &str = "resourcetemplate.karmada.io/uid";
/// Generation of the template of a manifest, if above 0.
pub const TEMPLATE_GENERATION: &str = "resourcetemplate.karmada.io/generation";
/// Label keys that the control plane owns, sorted and comma-joined.
pub const MANAGED_LABELS: &str = "resourcetemplate.karmada.io/managed-labels";
/// Fields outside of metadata that the control plane set when it applied an object last, as JSON (ours).
pub const APPLIED_FIELDS: &str = "work.ironclad.io/applied-fields";
/// Annotation keys that the control plane owns, sorted and comma-joined, this and [`MANAGED_LABELS`] included.
pub const MANAGED_ANNOTATIONS: &str = "resourcetemplate.karmada.io/managed-annotations";
/// Source cluster of a dispatched EndpointSlice and of its Work.
pub const ENDPOINT_SLICE_PROVISION_CLUSTER: &str = "endpointslice.karmada.io/provision-cluster";
/// Ironclad's own, on a ServiceImport: name of its Service, instead of `derived-<name>`.
pub const IMPORTED_SERVICE_NAME: &str = "serviceimport.ironclad.io/service-name";
/// Ironclad's own, on an imported EndpointSlice: name of the exported Service.
pub const EXPORTED_SERVICE_NAME: &str = "serviceimport.ironclad.io/exported-service";
/// Ironclad's own, on a MultiClusterService: `keep`, `drop` or `drop-after=5m`, instead of what flag
/// `--endpoints-of-unready-providers` says.
pub const UNREADY_PROVIDERS: &str = "multiclusterservice.ironclad.io/unready-providers";
/// Namespace of the MultiClusterService that owns a Service or binding.
pub const MULTI_CLUSTER_SERVICE_NAMESPACE: &str = "multiclusterservice.karmada.io/namespace";
/// Name of the MultiClusterService that owns a Service or binding.
pub const MULTI_CLUSTER_SERVICE_NAME: &str = "multiclusterservice.karmada.io/name";
/// Source cluster of an object that search or proxy returns.
pub const CACHED_FROM_CLUSTER: &str = "resource.karmada.io/cached-from-cluster";
/// Source cluster of a metrics object.
pub const QUERY_FROM_CLUSTER: &str = "resource.karmada.io/query-from-cluster";
/// Members that did not answer a metrics query, comma-joined.
pub const QUERY_FAILED_CLUSTERS: &str = "resource.karmada.io/query-failed-clusters";
/// Prefix of the annotations that say how a metric of several members is merged: `sum`, `avg`, `max`, `first`.
pub const METRIC_MERGE_PREFIX: &str = "autoscaling.karmada.io/merge.";
/// JSON of the fields of a binding that v1alpha1 lacks.
pub const V1ALPHA2_ROUNDTRIP: &str = "work.karmada.io/v1alpha2-roundtrip";
/// JSON map from `key:effect` to the ClusterTaintPolicies that set the taint on a Cluster.
pub const TAINT_OWNERS: &str = "policy.karmada.io/taint-owners";
/// Start time of a running drain of a Cluster.
pub const DRAINING: &str = "cluster.karmada.io/draining";
/// `true` on a Cluster: when it is removed, the objects that were propagated to it are kept, without our labels.
pub const KEEP_WORKLOADS: &str = "cluster.karmada.io/keep-workloads";
/// UID of namespace kube-system of a control plane, on what its `ironclad join` created in a member. Nothing else in
/// the member is changed or deleted by a join or an unjoin.
pub const JOINED_BY: &str = "cluster.ironclad.io/joined-by";
/// Name of the Cluster to which credentials in the control plane belong.
pub const CREDENTIALS_OF: &str = "cluster.ironclad.io/credentials-of";
/// Address (`host:port`) to which replicas forward explain requests, on the leader's Lease.
pub const EXPLAIN_LEADER_ADDRESS: &str = "explain.ironclad.io/leader-address";
/// JSON on a ResourceInterpreterCustomization: its kind scales a target, and where its objects have target and bounds.
pub const AUTOSCALER: &str = "interpreter.ironclad.io/autoscaler";
/// `true` forces a Directly migration of a binding.
pub const PROCEED_WITHOUT_CLEANUP: &str = "failover.ironclad.io/proceed-without-cleanup";
/// Generation of the policy that was last applied to a binding.
pub const APPLIED_GENERATION: &str = "policy.ironclad.io/applied-generation";
/// The settings in which the bindings that need an attached binding disagree, in the words of the event about it. An
/// event is written when it changes.
pub const DEPENDENCY_POLICY_CONFLICT: &str = "dependencies.ironclad.io/policy-conflict";
/// JSON map from each cluster that the descheduler took replicas of a binding back from to the time until which the
/// cluster gets no further ones.
pub const DESCHEDULED: &str = "scheduling.ironclad.io/descheduled";
/// Internal to the metrics adapter, never stored.
pub const INTERNAL_SELECTOR: &str = "internal.karmada.io/selector";
/// Internal to the metrics adapter, never stored.
pub const INTERNAL_NAMESPACE: &str = "internal.karmada.io/namespace";
/// Namespace of the spread HPA, on its Works.
pub const FEDERATED_HPA_NAMESPACE: &str = "federatedhpa.karmada.io/namespace";
/// Name of the spread HPA, on its Works.
pub const FEDERATED_HPA_NAME: &str = "federatedhpa.karmada.io/name";
/// Template replicas for which the OverridePolicy of a spread HPA was computed.
pub const FEDERATED_HPA_OBSERVED_REPLICAS: &str = "federatedhpa.karmada.io/observed-replicas";
/// On copies whose replicas the member decides: the numbers with which the copy was last applied.
pub const FEDERATED_HPA_APPLIED_REPLICAS: &str = "federatedhpa.karmada.io/applied-replicas";
/// JSON that says how a spread HPA is split.
pub const FEDERATED_HPA_SPLIT: &str = "federatedhpa.karmada.io/split";
/// `true` never lets the federation exceed the maximum of a spread HPA.
pub const FEDERATED_HPA_STRICT_MAX: &str = "federatedhpa.karmada.io/strict-max";
/// `false` turns lending of headroom between members off.
pub const FEDERATED_HPA_REBALANCE: &str = "federatedhpa.karmada.io/rebalance";
/// `Reset` skips writing the sum back when a spread HPA is deleted.
pub const FEDERATED_HPA_ON_DELETE: &str = "federatedhpa.karmada.io/on-delete";
/// JSON of what each member reports of a spread HPA.
pub const FEDERATED_HPA_STATUS: &str = "federatedhpa.karmada.io/status";
