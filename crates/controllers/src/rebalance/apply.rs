//! Triggers the bindings, then records the outcome in the status.

use std::time::Duration;

use ironclad_api::apps::WorkloadRebalancer;
use ironclad_fleet::{Binding, Plan};
use ironclad_propagation::rebalance::Effect;
use ironclad_runtime::{Api, Failure, Informer, Key, Next, StatusWriter, Writer};
use ironclad_seam::Clock;
use kube::Client;

use crate::{
    bindings::Bindings,
    setup::Setup,
    targets::{Typed, json},
};

/// Wait for a time that has passed already.
const SOON: Duration = Duration::from_millis(100);

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    rebalancers: Informer<WorkloadRebalancer>,
    status: StatusWriter<Typed<WorkloadRebalancer>>,
    bindings: Bindings,
    clock: Clock,
}

impl Applier {
    pub(super) fn new(setup: &Setup, rebalancers: Informer<WorkloadRebalancer>) -> Self {
        let target = Typed {
            client: setup.plane.clone(),
            cache: rebalancers.clone(),
            writer: Writer::new("workloadRebalancer"),
            events: setup.events.clone(),
            api: |client, _| Api::all(client.clone()),
            status: |r: &WorkloadRebalancer| json(&r.status),
        };
        Self {
            writer: Writer::new("workloadRebalancer"),
            plane: setup.plane.clone(),
            rebalancers,
            status: StatusWriter::start("status/rebalancers", &setup.seam, target),
            bindings: setup.bindings().clone(),
            clock: setup.seam.clock.clone(),
        }
    }

    /// True if every requested status is written.
    pub(super) fn is_quiet(&self) -> bool {
        self.status.is_quiet()
    }

    pub(super) async fn apply(
        &self,
        rebalancer: &WorkloadRebalancer,
        bindings: &[Option<Binding>],
        plan: Plan<Effect>,
    ) -> Result<Next, Failure> {
        let key = Key::of(rebalancer);
        for because in &plan.because {
            tracing::debug!(rebalancer = %key, %because, "rebalance");
        }
        let mut next = Next::Forget;
        for effect in plan.effects {
            match effect {
                Effect::PatchBinding { key, patch } => {
                    let binding = bindings.iter().flatten().find(|b| b.view().key() == key);
                    let Some(binding) = binding else { continue };
                    self.bindings.patch(&self.writer, binding, patch).await?;
                }
                Effect::Status(part) => {
                    let uid = rebalancer.metadata.uid.clone().unwrap_or_default();
                    self.status.request(&key, &uid, "workloadRebalancer", part, false);
                }
                Effect::Delete { .. } => {
                    let api = Api::all(self.plane.clone());
                    self.writer.delete_unchanged(&api, Some(&self.rebalancers), rebalancer).await?;
                }
                Effect::RequeueAt(at) => {
                    let wait = at.duration_since(self.clock.wall());
                    next = Next::After(Duration::try_from(wait).unwrap_or(SOON).max(SOON));
                }
            }
        }
        Ok(next)
    }
}
