//! Rows that people look at: clusters, bindings, and what happened. They are told as JSON by verbs and by the dashboard.

mod clusters;
mod timeline;
mod workloads;

pub use self::{
    clusters::{Capacity, ClusterRow, Counts, Nodes, amounts, cluster_row, clusters},
    timeline::{Entry, conditions, event, timeline},
    workloads::{BindingRow, Place, binding_row, workloads},
};
