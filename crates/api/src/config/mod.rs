//! Group `config.karmada.io/v1alpha1`: how kinds are interpreted (specification/api.md 9).

mod context;
mod customization;
mod webhook;

pub use context::{
    DependentObjectReference, GroupVersionKind, JSON_PATCH, RequestStatus, ResourceInterpreterContext,
    ResourceInterpreterRequest, ResourceInterpreterResponse,
};
pub use customization::{
    CustomizationRules, CustomizationTarget, LuaScript, ResourceInterpreterCustomization,
    ResourceInterpreterCustomizationSpec,
};
pub use webhook::{ResourceInterpreterWebhook, ResourceInterpreterWebhookConfiguration, RuleWithOperations};

/// Names of the interpreter's operations.
pub mod operations {
    /// Every operation, in a webhook's rule.
    pub const ALL: &str = "*";
    /// Replicas of a workload and the requirements of one replica.
    pub const INTERPRET_REPLICA: &str = "InterpretReplica";
    /// Components of a workload with several pod templates.
    pub const INTERPRET_COMPONENT: &str = "InterpretComponent";
    /// Writes a replica count into a workload.
    pub const REVISE_REPLICA: &str = "ReviseReplica";
    /// Fields to keep of the object in the member.
    pub const RETAIN: &str = "Retain";
    /// Aggregates the statuses of members into the template.
    pub const AGGREGATE_STATUS: &str = "AggregateStatus";
    /// Objects that a template refers to.
    pub const INTERPRET_DEPENDENCY: &str = "InterpretDependency";
    /// Status to report of the object in the member.
    pub const INTERPRET_STATUS: &str = "InterpretStatus";
    /// Health of the object in the member.
    pub const INTERPRET_HEALTH: &str = "InterpretHealth";
    /// Name that upstream defines and validation refuses.
    pub const PRUNE: &str = "Prune";
}
