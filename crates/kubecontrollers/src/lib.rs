//! Built-in controllers of a cluster: garbage collection, namespaces and the workload controllers.
//!
//! They run in the embedded control plane (the first few) and in simulated members (all), over any `kube::Client`. Each
//! is a pure decision with a table test beside it, and a thin loop.

pub mod affinity;
mod aggregation;
mod bootstrap;
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
mod resourcequota;
mod rounding;
mod start;
mod statefulset;
mod status_debounce;
mod template;
#[cfg(test)]
mod testkit;
mod token;
mod ttl;
mod workload;

use std::fmt::{Debug, Display};

use futures::future::BoxFuture;
use ironclad_runtime::{Caches, Failure, Next, Queue, Scope, run_workers};
use ironclad_seam::Seam;
use kube::Client;

pub use caches::{
    BY_CLAIM, BY_NODE, CLAIMS, CONFIG_MAP_NAMES, INGRESSES, NODES, PODS, SECRET_NAMES, SERVICES, VOLUMES,
};
pub use certificates::{Order, Signer};
pub use start::{AutoscalingOptions, Controller, Options, start};

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

impl Cluster {
    /// Creates a cluster without controllers.
    pub fn new(client: Client, seam: Seam) -> Self {
        Self { client, caches: Caches::new(Scope::All, &seam), seam }
    }

    /// Starts the watches of all kinds that the prepared controllers took. No event is missed: their handlers exist.
    pub fn start_caches(&self) {
        self.caches.start(&self.client);
    }

    /// Creates the queue of the controller of this name, whose jitter has a stream of its own.
    pub fn queue<T: Ord + Clone + Debug>(&self, name: &str) -> Queue<T> {
        Queue::new(self.seam.clock.clone(), self.seam.rng.stream(&format!("queue/{name}")))
    }

    /// Runs a controller's workers as tasks of the cluster's seam. They start once all of `ready` is over: the first
    /// lists of the kinds that it reads.
    pub fn run<T, F, Fut>(
        &self,
        name: &'static str,
        queue: Queue<T>,
        workers: usize,
        ready: impl IntoIterator<Item = BoxFuture<'static, ()>>,
        reconcile: F,
    ) where
        T: Ord + Clone + Debug + Display + Send + Sync + 'static,
        F: Fn(T) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, Failure>> + Send + 'static,
    {
        let (tasks, ready) = (self.seam.tasks.clone(), Vec::from_iter(ready));
        self.seam.tasks.spawn(format!("{name}-start"), async move {
            for ready in ready {
                ready.await;
            }
            run_workers(name, &tasks, &queue, workers, reconcile);
        });
    }
}
