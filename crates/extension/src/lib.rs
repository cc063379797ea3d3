//! Extensions of an API server: admission, in-process for the embedded server and as webhooks for a kube-apiserver; the
//! metrics of all members, likewise; the clients of users' webhooks and aggregated API servers; the leader's in-memory
//! state as an API group.
//!
//! The rules themselves are pure functions of the core crates. This crate performs their look-ups and serves them.

pub mod admission;
pub mod explain;
mod forward;
pub mod metrics;
mod tls;
mod webhooks;

pub use forward::{FrontProxy, NetworkForwarder};
pub use webhooks::NetworkCaller;
