//! ResourceInterpreterCustomization: scripts that interpret a kind (specification/api.md 9.1).

use serde::{Deserialize, Serialize};

use crate::{kind::kind, schema::JsonSchema};

kind! {
    /// Scripts that interpret a kind.
    ResourceInterpreterCustomization: "config.karmada.io", "v1alpha1", "resourceinterpretercustomizations", Cluster
    { spec: ResourceInterpreterCustomizationSpec }
}

/// The kind and its scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceInterpreterCustomizationSpec {
    /// The kind that is interpreted.
    pub target: CustomizationTarget,
    /// The scripts.
    pub customizations: CustomizationRules,
}

/// The kind that is interpreted.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationTarget {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
}

/// One script per operation, each optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizationRules {
    /// Retain: `Retain(desiredObj, observedObj)` returns the object to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<LuaScript>,
    /// InterpretReplica: `GetReplicas(desiredObj)` returns the replica count and the needs of one replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_resource: Option<LuaScript>,
    /// InterpretComponent: `GetComponents(desiredObj)` returns the components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component_resource: Option<LuaScript>,
    /// ReviseReplica: `ReviseReplica(desiredObj, desiredReplica)` returns the revised object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_revision: Option<LuaScript>,
    /// InterpretStatus: `ReflectStatus(observedObj)` returns the status to report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reflection: Option<LuaScript>,
    /// AggregateStatus: `AggregateStatus(desiredObj, statusItems)` returns the object with its status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_aggregation: Option<LuaScript>,
    /// InterpretHealth: `InterpretHealth(observedObj)` returns whether it is healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health_interpretation: Option<LuaScript>,
    /// InterpretDependency: `GetDependencies(desiredObj)` returns the objects that the template refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency_interpretation: Option<LuaScript>,
}

/// A Lua script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LuaScript {
    /// The text of the script.
    pub lua_script: String,
}
