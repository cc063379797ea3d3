//! Writes the taints and their owners, in one request, over the very version that was seen.

use ironclad_failover::taint_policy::Effect;
use ironclad_fleet::Plan;
use ironclad_runtime::{Failure, Writer};
use kube::{Api, ResourceExt as _};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, seen: &Observed, plan: &Plan<Effect>) -> Result<(), Failure> {
    let writer = Writer::new("clustertaintpolicy");
    for because in &plan.because {
        tracing::debug!(cluster = %seen.cluster.name_any(), %because, "taints by policy");
    }
    for effect in &plan.effects {
        match effect {
            Effect::Patch(patch) => {
                let api = Api::all(cx.plane.clone());
                if let Err(failure) = writer.patch(&api, Some(&cx.clusters), &*seen.cluster, patch.clone()).await {
                    cx.tell_untainted(&seen.cluster, patch, &failure);
                    return Err(failure);
                }
            }
            Effect::Event(event) => cx.events.record(event),
        }
    }
    Ok(())
}
