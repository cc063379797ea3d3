//! Writes the taints and their owners, in one request, provided that the cluster is still the version seen.

use ironclad_api::cluster::Cluster;
use ironclad_failover::taint_policy::Effect;
use ironclad_fleet::Plan;
use ironclad_runtime::{Api, Failure, Informer, Writer};
use kube::{Client, ResourceExt as _};

use crate::{events::Events, setup::Setup, taint_failure};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    clusters: Informer<Cluster>,
    events: Events,
}

impl Applier {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            writer: Writer::new("clustertaintpolicy"),
            plane: setup.plane.clone(),
            clusters: setup.clusters().clone(),
            events: setup.events.clone(),
        }
    }

    pub(super) async fn apply(&self, cluster: &Cluster, plan: &Plan<Effect>) -> Result<(), Failure> {
        for because in &plan.because {
            tracing::debug!(cluster = %cluster.name_any(), %because, "taints by policy");
        }
        for effect in &plan.effects {
            match effect {
                Effect::Patch(patch) => {
                    let api = Api::all(self.plane.clone());
                    let patched = self.writer.patch(&api, Some(&self.clusters), cluster, patch.clone()).await;
                    if let Err(failure) = patched {
                        let event = taint_failure::event(cluster, patch, &failure);
                        event.iter().for_each(|event| self.events.record(event));
                        return Err(failure);
                    }
                }
                Effect::Event(event) => self.events.record(event),
            }
        }
        Ok(())
    }
}
