//! Tells the bindings, then keeps the record of it.

use std::time::Duration;

use ironclad_fleet::Plan;
use ironclad_propagation::rebalance::Effect;
use ironclad_runtime::{Failure, Key, Next, Writer};
use kube::Api;

use super::observe::Observed;
use crate::Context;

/// The shortest wait for a time that has come already.
const SOON: Duration = Duration::from_millis(100);

pub(super) async fn apply(cx: &Context, key: &Key, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
    let writer = Writer::new("workloadRebalancer");
    for because in &plan.because {
        tracing::debug!(rebalancer = %key, %because, "rebalance");
    }
    let mut next = Next::Forget;
    for effect in plan.effects {
        match effect {
            Effect::PatchBinding { key, patch } => {
                let binding = seen.bindings.iter().flatten().find(|b| b.view().key() == key);
                let Some(binding) = binding else { continue };
                cx.bindings.patch(&writer, binding, patch).await?;
            }
            Effect::Status(part) => {
                let uid = seen.rebalancer.metadata.uid.clone().unwrap_or_default();
                cx.rebalancer_status.want(key, &uid, "workloadRebalancer", part, false);
            }
            Effect::Delete { .. } => {
                let api = Api::all(cx.plane.clone());
                writer.delete_unchanged(&api, Some(&cx.rebalancers), &*seen.rebalancer).await?;
            }
            Effect::RequeueAt(at) => {
                let wait = at.duration_since(cx.seam.clock.wall());
                next = Next::After(Duration::try_from(wait).unwrap_or(SOON).max(SOON));
            }
        }
    }
    Ok(next)
}
