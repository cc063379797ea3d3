//! Rules, one file per kind.

pub(crate) mod affinity;
pub(crate) mod agents;
pub(crate) mod binding;
pub(crate) mod charge;
pub(crate) mod cluster;
pub(crate) mod cron;
pub(crate) mod customization;
pub(crate) mod failover;
pub(crate) mod federated_hpa;
pub(crate) mod ingress;
pub(crate) mod interpreter_webhook;
pub(crate) mod lens;
pub(crate) mod overrides;
pub(crate) mod placement;
pub(crate) mod priority;
pub(crate) mod propagation;
pub(crate) mod protection;
pub(crate) mod quota;
pub(crate) mod registrar;
pub(crate) mod remedy;
pub(crate) mod service;
pub(crate) mod taint_policy;
pub(crate) mod work;
