//! Kinds with native rules, and their operations (specification/propagation.md 20.1).

use std::fmt;

use ironclad_api::config::{CustomizationRules, operations};
use ironclad_fleet::Gvk;
use serde_json::Value;

use crate::lens;

/// Operation of an interpreter, with its wire name (specification/propagation.md 20.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Desired replicas and requirements of one replica.
    InterpretReplica,
    /// Several pod templates.
    InterpretComponent,
    /// Setting the replicas of a copy.
    ReviseReplica,
    /// Fields that the member owns.
    Retain,
    /// The part of the status to report.
    InterpretStatus,
    /// Health of a copy.
    InterpretHealth,
    /// Aggregation of the reported statuses.
    AggregateStatus,
    /// Objects that are propagated along.
    InterpretDependency,
}

impl Operation {
    /// All operations, in the order of the specification.
    pub const ALL: [Self; 8] = [
        Self::InterpretReplica,
        Self::InterpretComponent,
        Self::ReviseReplica,
        Self::Retain,
        Self::InterpretStatus,
        Self::InterpretHealth,
        Self::AggregateStatus,
        Self::InterpretDependency,
    ];

    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InterpretReplica => operations::INTERPRET_REPLICA,
            Self::InterpretComponent => operations::INTERPRET_COMPONENT,
            Self::ReviseReplica => operations::REVISE_REPLICA,
            Self::Retain => operations::RETAIN,
            Self::InterpretStatus => operations::INTERPRET_STATUS,
            Self::InterpretHealth => operations::INTERPRET_HEALTH,
            Self::AggregateStatus => operations::AGGREGATE_STATUS,
            Self::InterpretDependency => operations::INTERPRET_DEPENDENCY,
        }
    }

    /// The operation with this name; upper and lower case are equal.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name().eq_ignore_ascii_case(name))
    }

    /// The field of a customization that contains its script (specification/propagation.md 20.3).
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::InterpretReplica => "replicaResource",
            Self::InterpretComponent => "componentResource",
            Self::ReviseReplica => "replicaRevision",
            Self::Retain => "retention",
            Self::InterpretStatus => "statusReflection",
            Self::InterpretHealth => "healthInterpretation",
            Self::AggregateStatus => "statusAggregation",
            Self::InterpretDependency => "dependencyInterpretation",
        }
    }

    /// The function that its script defines (specification/propagation.md 20.3).
    #[must_use]
    pub fn function(self) -> &'static str {
        match self {
            Self::InterpretReplica => "GetReplicas",
            Self::InterpretComponent => "GetComponents",
            Self::ReviseReplica => "ReviseReplica",
            Self::Retain => "Retain",
            Self::InterpretStatus => "ReflectStatus",
            Self::InterpretHealth => "InterpretHealth",
            Self::AggregateStatus => "AggregateStatus",
            Self::InterpretDependency => "GetDependencies",
        }
    }

    /// Number of the function's parameters.
    #[must_use]
    pub fn parameters(self) -> u8 {
        match self {
            Self::ReviseReplica | Self::Retain | Self::AggregateStatus => 2,
            _ => 1,
        }
    }

    /// Its script in a customization.
    #[must_use]
    pub fn script(self, rules: &CustomizationRules) -> Option<&str> {
        let script = match self {
            Self::InterpretReplica => &rules.replica_resource,
            Self::InterpretComponent => &rules.component_resource,
            Self::ReviseReplica => &rules.replica_revision,
            Self::Retain => &rules.retention,
            Self::InterpretStatus => &rules.status_reflection,
            Self::InterpretHealth => &rules.health_interpretation,
            Self::AggregateStatus => &rules.status_aggregation,
            Self::InterpretDependency => &rules.dependency_interpretation,
        };
        script.as_ref().map(|script| script.lua_script.as_str()).filter(|text| !text.is_empty())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Kind with native rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Deployment,
    ReplicaSet,
    DaemonSet,
    StatefulSet,
    Job,
    CronJob,
    Pod,
    Service,
    ServiceAccount,
    Secret,
    PersistentVolume,
    PersistentVolumeClaim,
    Ingress,
    PodDisruptionBudget,
    HorizontalPodAutoscaler,
    ServiceImport,
}

impl Kind {
    /// From the `apiVersion` and `kind` of an object.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        Self::find(lens::text(object, "/apiVersion"), lens::text(object, "/kind"))
    }

    pub(crate) fn of_gvk(gvk: &Gvk) -> Option<Self> {
        Self::find(&gvk.api_version(), &gvk.kind)
    }

    fn find(api_version: &str, kind: &str) -> Option<Self> {
        Some(match (api_version, kind) {
            ("apps/v1", "Deployment") => Self::Deployment,
            ("apps/v1", "ReplicaSet") => Self::ReplicaSet,
            ("apps/v1", "DaemonSet") => Self::DaemonSet,
            ("apps/v1", "StatefulSet") => Self::StatefulSet,
            ("batch/v1", "Job") => Self::Job,
            ("batch/v1", "CronJob") => Self::CronJob,
            ("v1", "Pod") => Self::Pod,
            ("v1", "Service") => Self::Service,
            ("v1", "ServiceAccount") => Self::ServiceAccount,
            ("v1", "Secret") => Self::Secret,
            ("v1", "PersistentVolume") => Self::PersistentVolume,
            ("v1", "PersistentVolumeClaim") => Self::PersistentVolumeClaim,
            ("networking.k8s.io/v1", "Ingress") => Self::Ingress,
            ("policy/v1", "PodDisruptionBudget") => Self::PodDisruptionBudget,
            ("autoscaling/v2", "HorizontalPodAutoscaler") => Self::HorizontalPodAutoscaler,
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport") => Self::ServiceImport,
            _ => return None,
        })
    }

    pub(crate) fn implements(self, operation: Operation) -> bool {
        use Kind::*;
        match operation {
            Operation::InterpretReplica => matches!(self, Deployment | ReplicaSet | StatefulSet | Job | Pod),
            Operation::InterpretComponent => false,
            Operation::ReviseReplica => matches!(self, Deployment | ReplicaSet | StatefulSet | Job),
            Operation::Retain => matches!(
                self,
                Deployment
                    | ReplicaSet
                    | StatefulSet
                    | Pod
                    | Service
                    | ServiceAccount
                    | PersistentVolumeClaim
                    | PersistentVolume
                    | Job
                    | Secret
            ),
            Operation::InterpretStatus => true,
            Operation::InterpretHealth => matches!(
                self,
                Deployment
                    | StatefulSet
                    | ReplicaSet
                    | DaemonSet
                    | Service
                    | Ingress
                    | PersistentVolumeClaim
                    | Pod
                    | PodDisruptionBudget
            ),
            Operation::AggregateStatus => !matches!(self, ServiceAccount | Secret | ServiceImport),
            Operation::InterpretDependency => matches!(
                self,
                Deployment | ReplicaSet | DaemonSet | Job | CronJob | Pod | StatefulSet | Ingress | ServiceImport
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations by kind (specification/propagation.md 14, 17, 18, 19 and 8.3; 31, row 25). R replicas, V revision, T
    /// retention, H health, A aggregation, D dependencies. The status of every kind is reflected, and none has
    /// components.
    #[test]
    fn native_operations() {
        for (api_version, kind, want) in [
            ("apps/v1", "Deployment", "RVTHAD"),
            ("apps/v1", "ReplicaSet", "RVTHAD"),
            ("apps/v1", "StatefulSet", "RVTHAD"),
            ("apps/v1", "DaemonSet", "HAD"),
            ("batch/v1", "Job", "RVTAD"),
            ("batch/v1", "CronJob", "AD"),
            ("v1", "Pod", "RTHAD"),
            ("v1", "Service", "THA"),
            ("v1", "ServiceAccount", "T"),
            ("v1", "Secret", "T"),
            ("v1", "PersistentVolume", "TA"),
            ("v1", "PersistentVolumeClaim", "THA"),
            ("networking.k8s.io/v1", "Ingress", "HAD"),
            ("policy/v1", "PodDisruptionBudget", "HA"),
            ("autoscaling/v2", "HorizontalPodAutoscaler", "A"),
            ("multicluster.x-k8s.io/v1alpha1", "ServiceImport", "D"),
            ("v1", "ReplicationController", ""),
            ("v1", "Namespace", ""),
            ("v1", "ResourceQuota", ""),
            ("networking.k8s.io/v1", "NetworkPolicy", ""),
            ("v1", "ConfigMap", ""),
            ("apps/v1beta1", "Deployment", ""),
            ("example.io/v1", "Job", ""),
        ] {
            let gvk = Gvk::from_manifest(api_version, kind);
            let has = |operation| Kind::of_gvk(&gvk).is_some_and(|kind| kind.implements(operation));
            let letters = [
                ('R', Operation::InterpretReplica),
                ('V', Operation::ReviseReplica),
                ('T', Operation::Retain),
                ('H', Operation::InterpretHealth),
                ('A', Operation::AggregateStatus),
                ('D', Operation::InterpretDependency),
            ];
            let got: String = letters.into_iter().filter(|(_, o)| has(*o)).map(|(letter, _)| letter).collect();
            assert_eq!(got, want, "{api_version} {kind}");
            assert!(!has(Operation::InterpretComponent), "{kind}");
            assert!(crate::Interpreter::default().implements(&gvk, Operation::InterpretStatus), "{kind}");
        }
    }

    #[test]
    fn operations_have_wire_names() {
        for operation in Operation::ALL {
            assert_eq!(Operation::parse(operation.name()), Some(operation));
            assert_eq!(Operation::parse(&operation.name().to_lowercase()), Some(operation));
        }
        assert_eq!(Operation::parse("Prune"), None, "it is declared and not used");
        assert_eq!(Operation::parse("*"), None);
    }
}
