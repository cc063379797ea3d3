//! Rows that people look at: clusters, bindings, policies, autoscalers, and what happened. The dashboard shows them.

mod autoscalers;
mod clusters;
mod policies;
mod timeline;
mod workloads;

pub use self::{
    autoscalers::{AutoscalerRow, autoscalers},
    clusters::{Capacity, ClusterRow, Counts, Nodes, amounts, cluster_row, clusters},
    policies::{Listed, PolicyRow, Shadow, policies, selected_lists},
    timeline::{Entry, conditions, event, timeline},
    workloads::{BindingRow, Place, binding_row, workloads},
};
