//! Writes the Works of a namespace. The failure of one cluster does not stop the writes for the others.

use std::sync::Arc;

use ironclad_api::{names, work::Work};
use ironclad_fleet::Plan;
use ironclad_propagation::{namespace::Effect, work::key_of};
use ironclad_runtime::{Api, Failure, Informer, Next, Writer};
use kube::Client;

use crate::{events::Events, setup::Setup};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    works: Informer<Work>,
    events: Events,
}

impl Applier {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            writer: setup.writer("namespace"),
            plane: setup.plane.clone(),
            works: setup.works(),
            events: setup.events.clone(),
        }
    }

    pub(super) async fn apply(&self, works: &[Arc<Work>], plan: Plan<Effect>) -> Result<Next, Failure> {
        for because in &plan.because {
            tracing::debug!(%because, "namespace sync");
        }
        let (mut next, mut failed) = (Next::Forget, None);
        for effect in plan.effects {
            let outcome = match effect {
                Effect::Create(work) => {
                    let api =
                        Api::namespaced(self.plane.clone(), work.metadata.namespace.as_deref().unwrap_or_default());
                    self.writer.create(&api, Some(&self.works), &*work).await.map(drop)
                }
                Effect::Patch { key, patch } => match works.iter().find(|w| key_of(w).as_ref() == Some(&key)) {
                    Some(work) => {
                        let api = Api::namespaced(self.plane.clone(), &names::execution_namespace(&key.cluster.0));
                        self.writer.patch(&api, Some(&self.works), &**work, patch).await.map(drop)
                    }
                    None => Ok(()),
                },
                Effect::Retry => {
                    next = Next::Retry;
                    Ok(())
                }
                Effect::Event(event) => {
                    self.events.record(&event);
                    Ok(())
                }
            };
            if let Err(failure) = outcome {
                failed.get_or_insert(failure);
            }
        }
        failed.map_or(Ok(next), Err)
    }
}
