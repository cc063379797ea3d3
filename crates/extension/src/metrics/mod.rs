//! The metrics of all members, as the metrics APIs of one cluster: `metrics.k8s.io`, `custom.metrics.k8s.io` and
//! `external.metrics.k8s.io` (specification/autoscaling.md 3).
//!
//! [`MetricsAdapter`] answers requests, whoever carries them: [`MetricsRoute`] in front of the embedded server, and
//! [`serve_metrics`] as an API server behind a kube-apiserver. It stores nothing and decides nothing: how answers are
//! merged is in `ironclad_hpa::metrics`.

mod adapter;
mod address;
mod discovery;
mod open_api;
mod render;
mod route;
mod serve;

pub use adapter::{MetricsAdapter, MetricsOptions};
pub use route::MetricsRoute;
pub use serve::serve_metrics;
