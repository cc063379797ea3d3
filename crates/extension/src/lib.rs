//! What stands beside a control plane's API server and answers for the product: admission, in-process for the embedded server
//! and as webhooks for a kube-apiserver; the way to webhooks of users; and what only the leader's memory knows.
//!
//! Rules are not here: they are pure functions of the core. Here they get their look-ups and their wires.

pub mod admission;
pub mod explain;
mod webhooks;

pub use webhooks::NetworkCaller;
