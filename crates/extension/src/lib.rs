//! Extensions of an API server: admission, in-process for the embedded server and as webhooks for a kube-apiserver; the
//! metrics of all members and the leader's in-memory state, likewise as API groups; the proxy to members; the clients
//! of users' webhooks and aggregated API servers; the objects by which members are registered.
//!
//! The rules themselves are pure functions of the core crates. This crate performs their look-ups and serves them.

pub mod admission;
pub mod agents;
mod aggregated;
mod certificate_expiry;
pub mod clusters;
pub mod dashboard;
pub mod explain;
mod forward;
pub mod metrics;
pub mod proxy;
mod tls;
mod tunnel;
mod webhooks;

pub use aggregated::{Registration, ServerService};
pub use certificate_expiry::CertificateExpiry;
pub use forward::{FrontProxy, NetworkForwarder};
pub use tunnel::{Bandwidth, Passed, TunnelledMember, hold_tunnels};
pub use webhooks::NetworkCaller;
