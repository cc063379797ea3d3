//! Rows that people look at: clusters, bindings, policies, services, quotas, preemptions, accounts
//! of clusters, autoscalers, manifests, and what happened. The dashboard shows them.

mod accounts;
mod autoscalers;
mod clusters;
mod difference;
mod manifests;
mod policies;
mod preemptions;
mod quotas;
mod services;
mod timeline;
mod workloads;

pub use self::{
    accounts::{AccountRow, Amounts, accounts},
    autoscalers::{AutoscalerRow, autoscalers},
    clusters::{Capacity, ClusterRow, Counts, Nodes, amounts, capacity, cluster_row, clusters},
    difference::{Line, Side, difference},
    manifests::{changes, cut, readable},
    policies::{Listed, PolicyRow, Shadow, policies, selected_lists},
    preemptions::{PreemptionRow, Share, Victim, Workload, preempted, preemptions},
    quotas::{Limit, OfCluster, QuotaRow, Refused, quotas},
    services::{
        Consumer, Provider, ServiceRow, multi_cluster_service, service_export, service_import, service_tree, services,
    },
    timeline::{Entry, conditions, event, timeline},
    workloads::{BindingRow, Place, binding_row, workloads},
};
