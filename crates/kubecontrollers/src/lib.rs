//! The built-in controllers of a cluster: garbage collection, namespaces and the workload controllers.
//!
//! They run in the embedded control plane (the first few) and in simulated members (all), over any `kube::Client`. Each is
//! a pure decision with a table of cases beside it and a thin loop.

mod deployment;
mod owner;
mod pods;
mod replicaset;
#[cfg(test)]
mod testkit;
