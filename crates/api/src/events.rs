//! Reasons of Events (specification/api.md 18). The reasons of a pair have different types: Normal and Warning. Those
//! that rounds of autoscalers give are in the crate `ironclad-hpa`.

/// On Cluster: execution namespace created.
pub const CREATE_EXECUTION_SPACE_SUCCEED: &str = "CreateExecutionSpaceSucceed";
/// On Cluster: execution namespace not created.
pub const CREATE_EXECUTION_SPACE_FAILED: &str = "CreateExecutionSpaceFailed";
/// On Cluster: execution namespace removed.
pub const REMOVE_EXECUTION_SPACE_SUCCEED: &str = "RemoveExecutionSpaceSucceed";
/// On Cluster: execution namespace not removed.
pub const REMOVE_EXECUTION_SPACE_FAILED: &str = "RemoveExecutionSpaceFailed";
/// On Cluster: taints changed.
pub const TAINT_CLUSTER_SUCCEED: &str = "TaintClusterSucceed";
/// On Cluster: taints not changed.
pub const TAINT_CLUSTER_FAILED: &str = "TaintClusterFailed";
/// On Cluster: impersonation RBAC synced.
pub const SYNC_IMPERSONATION_CONFIG_SUCCEED: &str = "SyncImpersonationConfigSucceed";
/// On Cluster: impersonation RBAC not synced.
pub const SYNC_IMPERSONATION_CONFIG_FAILED: &str = "SyncImpersonationConfigFailed";
/// On Work: status of a member object copied.
pub const REFLECT_STATUS_SUCCEED: &str = "ReflectStatusSucceed";
/// On Work: status of a member object not copied.
pub const REFLECT_STATUS_FAILED: &str = "ReflectStatusFailed";
/// On Work: health interpreted.
pub const INTERPRET_HEALTH_SUCCEED: &str = "InterpretHealthSucceed";
/// On Work: health not interpreted.
pub const INTERPRET_HEALTH_FAILED: &str = "InterpretHealthFailed";
/// A script of a customization can't be used.
pub const CUSTOMIZATION_INVALID: &str = "CustomizationInvalid";
/// A script of a customization is skipped for a while: the process ended while it ran.
pub const CUSTOMIZATION_SKIPPED: &str = "CustomizationSkipped";
/// A script of a customization never runs: another customization's takes precedence.
pub const CUSTOMIZATION_CONFLICT: &str = "CustomizationConflict";
/// An interpreter webhook fails repeatedly, and is not called for a while.
pub const INTERPRETER_WEBHOOK_FAILED: &str = "InterpreterWebhookFailed";
/// On Work; template: manifests applied.
pub const SYNC_SUCCEED: &str = "SyncSucceed";
/// On Work; template: manifests not applied.
pub const SYNC_FAILED: &str = "SyncFailed";
/// On the object, or on Work and template: written again and again, since something else changes it back.
pub const HOT_LOOP: &str = "HotLoop";
/// On Work: Dispatching condition flipped.
pub const WORK_DISPATCHING: &str = "WorkDispatching";
/// On binding: orphan Works not removed.
pub const CLEANUP_WORK_FAILED: &str = "CleanupWorkFailed";
/// On binding; template: Works written.
pub const SYNC_WORK_SUCCEED: &str = "SyncWorkSucceed";
/// On binding; template: Works not written.
pub const SYNC_WORK_FAILED: &str = "SyncWorkFailed";
/// On binding; template: status aggregated.
pub const AGGREGATE_STATUS_SUCCEED: &str = "AggregateStatusSucceed";
/// On binding; template: status not aggregated.
pub const AGGREGATE_STATUS_FAILED: &str = "AggregateStatusFailed";
/// On FederatedResourceQuota: overallUsed recomputed.
pub const COLLECT_OVERALL_STATUS_SUCCEED: &str = "CollectOverallStatusSucceed";
/// On FederatedResourceQuota: overallUsed not recomputed.
pub const COLLECT_OVERALL_STATUS_FAILED: &str = "CollectOverallStatusFailed";
/// On binding; template: scheduling finished.
pub const SCHEDULE_BINDING_SUCCEED: &str = "ScheduleBindingSucceed";
/// On binding; template: scheduling not finished.
pub const SCHEDULE_BINDING_FAILED: &str = "ScheduleBindingFailed";
/// On ResourceBinding; template: replicas taken back.
pub const DESCHEDULE_BINDING_SUCCEED: &str = "DescheduleBindingSucceed";
/// On ResourceBinding; template: replicas not taken back.
pub const DESCHEDULE_BINDING_FAILED: &str = "DescheduleBindingFailed";
/// On binding; template: eviction started / finished.
pub const EVICT_WORKLOAD_FROM_CLUSTER_SUCCEED: &str = "EvictWorkloadFromClusterSucceed";
/// On binding; template: binding update failed.
pub const EVICT_WORKLOAD_FROM_CLUSTER_FAILED: &str = "EvictWorkloadFromClusterFailed";
/// On depending ResourceBinding: attached bindings updated.
pub const SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED: &str = "SyncScheduleResultToDependenciesSucceed";
/// On depending ResourceBinding: attached bindings not updated.
pub const SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_FAILED: &str = "SyncScheduleResultToDependenciesFailed";
/// On attached ResourceBinding: depending bindings disagree on conflictResolution.
pub const DEPENDENCY_POLICY_CONFLICT: &str = "DependencyPolicyConflict";
/// On template: dependencies read.
pub const GET_DEPENDENCIES_SUCCEED: &str = "GetDependenciesSucceed";
/// On template: dependencies not read.
pub const GET_DEPENDENCIES_FAILED: &str = "GetDependenciesFailed";
/// On template: policy applied.
pub const APPLY_POLICY_SUCCEED: &str = "ApplyPolicySucceed";
/// On template: policy not applied.
pub const APPLY_POLICY_FAILED: &str = "ApplyPolicyFailed";
/// On template: policy preempted another.
pub const PREEMPT_POLICY_SUCCEED: &str = "PreemptPolicySucceed";
/// On template: policy preempted another.
pub const PREEMPT_POLICY_FAILED: &str = "PreemptPolicyFailed";
/// On template: replicas read.
pub const GET_REPLICAS_SUCCEED: &str = "GetReplicasSucceed";
/// On template: replicas not read.
pub const GET_REPLICAS_FAILED: &str = "GetReplicasFailed";
/// On template: components read.
pub const GET_COMPONENTS_SUCCEED: &str = "GetComponentsSucceed";
/// On template: components not read.
pub const GET_COMPONENTS_FAILED: &str = "GetComponentsFailed";
/// On template: override applied.
pub const APPLY_OVERRIDE_POLICY_SUCCEED: &str = "ApplyOverridePolicySucceed";
/// On template: override not applied.
pub const APPLY_OVERRIDE_POLICY_FAILED: &str = "ApplyOverridePolicyFailed";
/// On ServiceImport: derived Service synced.
pub const SYNC_DERIVED_SERVICE_SUCCEED: &str = "SyncDerivedServiceSucceed";
/// On ServiceImport: derived Service not synced.
pub const SYNC_DERIVED_SERVICE_FAILED: &str = "SyncDerivedServiceFailed";
/// On MultiClusterService: Service propagated.
pub const SYNC_SERVICE_SUCCEED: &str = "SyncServiceSucceed";
/// On MultiClusterService: Service not propagated.
pub const SYNC_SERVICE_FAILED: &str = "SyncServiceFailed";
/// On MultiClusterService: slices dispatched.
pub const DISPATCH_ENDPOINT_SLICE_SUCCEED: &str = "DispatchEndpointSliceSucceed";
/// On MultiClusterService: slices not dispatched.
pub const DISPATCH_ENDPOINT_SLICE_FAILED: &str = "DispatchEndpointSliceFailed";
/// On MultiClusterService: named cluster missing.
pub const CLUSTER_NOT_FOUND: &str = "ClusterNotFound";
/// On MultiClusterService: member has no EndpointSlice API.
pub const API_INCOMPATIBLE: &str = "APIIncompatible";
/// On Cluster: Remedies ask other actions of it than before (Ironclad's own).
pub const REMEDY_ACTIONS_CHANGED: &str = "RemedyActionsChanged";
/// On FederatedHPA: its workload does not exist.
pub const FAILED_GET_SCALE_TARGET_REF: &str = "FailedGetScaleTargetRef";
/// On FederatedHPA: no policy propagates its workload.
pub const FAILED_GET_BINDINGS: &str = "FailedGetBindings";
/// On FederatedHPA: its workload has not been scheduled.
pub const FAILED_GET_TARGET_CLUSTERS: &str = "FailedGetTargetClusters";
/// On FederatedHPA: status not written.
pub const FAILED_UPDATE_STATUS: &str = "FailedUpdateStatus";
/// On FederatedHPA: none of the clusters of its workload can be asked.
pub const NO_REACHABLE_CLUSTER: &str = "NoReachableCluster";
/// On CronFederatedHPA: rule failed.
pub const SCALE_FAILED: &str = "ScaleFailed";
/// On CronFederatedHPA: rule failed. On any object: the server refused its status.
pub const UPDATE_STATUS_FAILED: &str = "UpdateStatusFailed";
/// On CronFederatedHPA: rule failed.
pub const START_RULE_FAILED: &str = "StartRuleFailed";
/// On CronFederatedHPA: rule failed.
pub const UPDATE_CRON_FEDERATED_HPA_FAILED: &str = "UpdateCronFederatedHPAFailed";
/// On CronFederatedHPA: a FederatedHPA scales the same workload.
pub const CONFLICTS_WITH_FEDERATED_HPA: &str = "ConflictsWithFederatedHPA";
/// On a distributed HPA and on a FederatedHPA: one of the other kind has the same target, and is older.
pub const CONFLICTING_AUTOSCALER: &str = "ConflictingAutoscaler";
/// On a distributed HPA: another distributed HPA has the same target, and is older.
pub const AMBIGUOUS_TARGET: &str = "AmbiguousTarget";
/// On a distributed HPA: a member gets it without `behavior`, which its version does not have.
pub const BEHAVIOR_NOT_SUPPORTED: &str = "BehaviorNotSupported";
/// On a distributed HPA: an OverridePolicy of a user changes the replicas of its target.
pub const REPLICAS_OVERRIDDEN_BY_USER_POLICY: &str = "ReplicasOverriddenByUserPolicy";
/// On a distributed HPA: members lend shares of the maximum to a member that needs more.
pub const REPLICAS_LENT: &str = "ReplicasLent";
/// On a distributed HPA: a member runs more than its new maximum.
pub const REPLICAS_CUT: &str = "ReplicasCut";
/// On the detector's own Pod: a condition of CoreDNS cannot be loaded or stored.
pub const LOAD_COREDNS_CONDITION_FAILED: &str = "LoadCorednsConditionFailed";
/// On the detector's own Pod: a condition of CoreDNS cannot be loaded or stored.
pub const STORE_COREDNS_CONDITION_FAILED: &str = "StoreCorednsConditionFailed";
/// On the preempted binding: a binding of higher priority took its replicas.
pub const BINDING_PREEMPTED: &str = "BindingPreempted";
/// On the preemptor: bindings were preempted.
pub const PREEMPT_BINDING_SUCCEED: &str = "PreemptBindingSucceed";
/// On the preemptor: preemption cannot free enough replicas.
pub const PREEMPT_BINDING_FAILED: &str = "PreemptBindingFailed";
/// On binding and template: members find no node for pods of a binding that may preempt others.
pub const PODS_UNSCHEDULABLE: &str = "PodsUnschedulable";
/// On template and binding: the named class does not exist, so the defaults apply.
pub const PRIORITY_CLASS_NOT_FOUND: &str = "PriorityClassNotFound";
/// On binding and template: an eviction is queued.
pub const EVICTION_QUEUED: &str = "EvictionQueued";
/// On binding and template: a queued eviction is no longer needed.
pub const EVICTION_ABANDONED: &str = "EvictionAbandoned";
/// Evictions of the fleet are paused.
pub const EVICTION_PAUSED: &str = "EvictionPaused";
/// Evictions of the fleet are resumed.
pub const EVICTION_RESUMED: &str = "EvictionResumed";
/// On a Cluster: it was ready, and is not any more.
pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
/// On a Cluster: it was not ready, and is now.
pub const CLUSTER_READY: &str = "ClusterReady";
/// On a Cluster: a failover episode began.
pub const FAILOVER_EPISODE_STARTED: &str = "FailoverEpisodeStarted";
/// On a Cluster: a failover episode ended.
pub const FAILOVER_EPISODE_ENDED: &str = "FailoverEpisodeEnded";
/// An eviction that is only disabled by its switch.
pub const WOULD_EVICT: &str = "WouldEvict";
/// On binding and template: the applied placement cannot be read.
pub const PLACEMENT_UNREADABLE: &str = "PlacementUnreadable";
/// On binding and template: a Directly migration waits until the source is clean.
pub const WAITING_FOR_SOURCE_CLEANUP: &str = "WaitingForSourceCleanup";
/// On binding and template: an application failover was not done.
pub const APPLICATION_FAILOVER_SKIPPED: &str = "ApplicationFailoverSkipped";
/// On binding and template: the workload was moved, and its dependencies were not.
pub const DEPENDENCIES_NOT_PROPAGATED: &str = "DependenciesNotPropagated";
/// On a ClusterTaintPolicy: two policies disagree about a taint.
pub const TAINT_CONFLICT: &str = "TaintConflict";
/// On a Cluster: a taint lost its policy.
pub const TAINT_ORPHANED: &str = "TaintOrphaned";
/// On a binding: the clusters lack available replicas.
pub const INSUFFICIENT_CAPACITY: &str = "InsufficientCapacity";
/// On a HorizontalPodAutoscaler that a policy propagates: the copies of its target do not keep their replicas.
pub const REPLICAS_NOT_RETAINED: &str = "ReplicasNotRetained";
/// On objects of kinds on which no controller acts, and on policies with such fields; on a HorizontalPodAutoscaler that
/// is neither labelled nor propagated.
pub const NO_EFFECT: &str = "NoEffect";
/// On a Cluster: its credentials were rotated.
pub const CREDENTIALS_ROTATED: &str = "CredentialsRotated";
/// On a Cluster: a certificate of its agent was asked for, and not approved.
pub const AGENT_NAME_TAKEN: &str = "AgentNameTaken";
/// On a Cluster: several agents hold tunnels of it.
pub const SEVERAL_AGENTS: &str = "SeveralAgents";
/// On a CertificateSigningRequest: the bootstrap token is for another cluster, or gone.
pub const AGENT_NAME_REFUSED: &str = "AgentNameRefused";

/// Component that an event comes from, as in Karmada (specification/api.md 18): `ironclad` for events that Karmada does
/// not have, or that several of its controllers write. `kind` and `namespace` are those of the object that the event is
/// about; the namespace is empty for cluster-scoped objects.
#[must_use]
pub fn source(reason: &str, kind: &str, namespace: &str) -> &'static str {
    let (is_quota, is_namespaced) = (kind == "FederatedResourceQuota", !namespace.is_empty());
    match reason {
        CREATE_EXECUTION_SPACE_SUCCEED
        | CREATE_EXECUTION_SPACE_FAILED
        | REMOVE_EXECUTION_SPACE_SUCCEED
        | REMOVE_EXECUTION_SPACE_FAILED
        | TAINT_CLUSTER_SUCCEED
        | TAINT_CLUSTER_FAILED => "cluster-controller",
        SYNC_IMPERSONATION_CONFIG_SUCCEED | SYNC_IMPERSONATION_CONFIG_FAILED => "unified-auth-controller",
        REFLECT_STATUS_SUCCEED | REFLECT_STATUS_FAILED | INTERPRET_HEALTH_SUCCEED | INTERPRET_HEALTH_FAILED => {
            "work-status-controller"
        }
        SYNC_SUCCEED | SYNC_FAILED | WORK_DISPATCHING => "execution-controller",
        SYNC_WORK_SUCCEED | SYNC_WORK_FAILED if is_quota => "federated-resource-quota-sync-controller",
        CLEANUP_WORK_FAILED | SYNC_WORK_SUCCEED | SYNC_WORK_FAILED if is_namespaced => "binding-controller",
        CLEANUP_WORK_FAILED | SYNC_WORK_SUCCEED | SYNC_WORK_FAILED => "cluster-resource-binding-controller",
        AGGREGATE_STATUS_SUCCEED | AGGREGATE_STATUS_FAILED if is_quota => "federated-resource-quota-status-controller",
        AGGREGATE_STATUS_SUCCEED | AGGREGATE_STATUS_FAILED if is_namespaced => "resource-binding-status-controller",
        AGGREGATE_STATUS_SUCCEED | AGGREGATE_STATUS_FAILED => "cluster-resource-binding-status-controller",
        COLLECT_OVERALL_STATUS_SUCCEED | COLLECT_OVERALL_STATUS_FAILED => {
            "federated-resource-quota-enforcement-controller"
        }
        SCHEDULE_BINDING_SUCCEED | SCHEDULE_BINDING_FAILED => "default-scheduler",
        SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_SUCCEED
        | SYNC_SCHEDULE_RESULT_TO_DEPENDENCIES_FAILED
        | DEPENDENCY_POLICY_CONFLICT
        | GET_DEPENDENCIES_SUCCEED
        | GET_DEPENDENCIES_FAILED => "dependencies-distributor",
        APPLY_POLICY_SUCCEED
        | APPLY_POLICY_FAILED
        | PREEMPT_POLICY_SUCCEED
        | PREEMPT_POLICY_FAILED
        | GET_REPLICAS_SUCCEED
        | GET_REPLICAS_FAILED
        | GET_COMPONENTS_SUCCEED
        | GET_COMPONENTS_FAILED => "resource-detector",
        APPLY_OVERRIDE_POLICY_SUCCEED | APPLY_OVERRIDE_POLICY_FAILED => "override-manager",
        SYNC_DERIVED_SERVICE_SUCCEED | SYNC_DERIVED_SERVICE_FAILED => "service-import-controller",
        SYNC_SERVICE_SUCCEED | SYNC_SERVICE_FAILED | CLUSTER_NOT_FOUND | API_INCOMPATIBLE => {
            "multiclusterservice-controller"
        }
        DISPATCH_ENDPOINT_SLICE_SUCCEED | DISPATCH_ENDPOINT_SLICE_FAILED => "endpointslice-dispatch-controller",
        CONFLICTS_WITH_FEDERATED_HPA => "ironclad",
        _ if kind == "FederatedHPA" => "federatedHPA-controller",
        _ if kind == "CronFederatedHPA" => "cronfederatedhpa-controller",
        _ => "ironclad",
    }
}
