//! Validation, defaults and columns that several kinds share.

pub(crate) mod amounts;
pub(crate) mod columns;
pub(crate) mod defaults;
pub(crate) mod fields;
pub(crate) mod formats;
pub(crate) mod load_balancer;
pub(crate) mod node_selector;
pub(crate) mod pod;
pub(crate) mod pod_defaults;
pub(crate) mod warnings;
pub(crate) mod workload;
