//! Extensions of an API server: admission, in-process for the embedded server and as webhooks for a kube-apiserver; the
//! client of users' webhooks; the leader's in-memory state as an API group.
//!
//! The rules themselves are pure functions of the core crates. This crate performs their look-ups and serves them.

pub mod admission;
pub mod explain;
mod webhooks;

pub use webhooks::NetworkCaller;
