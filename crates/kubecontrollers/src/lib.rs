//! Built-in controllers of a cluster: garbage collection, namespaces and the workload controllers.
//!
//! They run in the embedded control plane (the first few) and in simulated members (all), over any `kube::Client`. Each
//! is a pure decision with a table test beside it, and a thin loop.

pub mod affinity;
mod aggregation;
mod caches;
mod certificates;
mod cronjob;
mod daemonset;
mod deployment;
mod disruption;
mod endpointslice;
mod gc;
mod history;
mod hpa;
mod job;
mod kinds;
mod namespace;
pub mod owner;
mod pod_control;
pub mod pods;
mod protection;
pub mod quantity;
mod replicaset;
mod rounding;
mod start;
mod statefulset;
mod status_debounce;
mod template;
#[cfg(test)]
mod testkit;
mod token;
mod workload;

use ironclad_seam::Seam;
use kube::Client;

pub use caches::{BY_CLAIM, BY_NODE, Caches};
pub use certificates::{Order, Signer};
pub use start::{Controller, Options, start};

/// One cluster as its controllers see it. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    /// Client of its server.
    pub client: Client,
    /// The informers that its controllers share.
    pub caches: Caches,
    /// Time, chance and the owner of the controllers' tasks.
    pub seam: Seam,
}
