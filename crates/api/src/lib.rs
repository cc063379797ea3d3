//! Our kinds, well-known names and naming functions: the wire contract.
//!
//! Types, constants and pure functions only: no client, no clock, no tokio. One module per API group
//! ([`cluster`], [`policy`], [`work`] and so on) and one per family of well-known names.

pub mod addresses;
pub mod agents;
pub mod annotations;
pub mod apps;
pub mod autoscaling;
pub mod cluster;
pub mod conditions;
pub mod config;
pub mod crds;
pub mod events;
pub mod eviction;
pub mod finalizers;
pub mod gates;
mod json_text;
mod kind;
pub mod labels;
pub mod multicluster;
pub mod names;
pub mod namespaces;
pub mod networking;
mod omit;
pub mod policy;
pub mod quantity;
pub mod reasons;
pub mod remedy;
pub mod roles;
mod schema;
pub mod search;
pub mod selector;
pub mod shared;
pub mod sim;
pub mod taints;
pub mod work;

use std::collections::BTreeMap;

pub use json_text::JsonText;
pub use k8s_openapi::{
    api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration},
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{Condition, LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference, Time},
    },
};
pub use kube_core::object::{HasSpec, HasStatus};
pub use shared::Shared;

/// Amounts by resource name, as they were written (`100m`, `1Gi`); [`quantity`] computes with them.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Labels or annotations.
pub type StringMap = BTreeMap<String, String>;
