//! Writes the Works of a namespace. One cluster's failure does not keep the others from theirs.

use ironclad_api::names;
use ironclad_fleet::Plan;
use ironclad_propagation::{namespace::Effect, work::key_of};
use ironclad_runtime::{Failure, Next, Writer};
use kube::Api;

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
    let writer = Writer::new("namespace");
    for because in &plan.because {
        tracing::debug!(%because, "namespace sync");
    }
    let (mut next, mut failed) = (Next::Forget, None);
    for effect in plan.effects {
        let outcome = match effect {
            Effect::Create(work) => {
                let api = Api::namespaced(cx.plane.clone(), work.metadata.namespace.as_deref().unwrap_or_default());
                writer.create(&api, Some(&cx.works), &*work).await.map(drop)
            }
            Effect::Patch { key, patch } => match seen.works.iter().find(|w| key_of(w).as_ref() == Some(&key)) {
                Some(work) => {
                    let api = Api::namespaced(cx.plane.clone(), &names::execution_namespace(&key.cluster.0));
                    writer.patch(&api, Some(&cx.works), &**work, patch).await.map(drop)
                }
                None => Ok(()),
            },
            Effect::Retry => {
                next = Next::Retry;
                Ok(())
            }
            Effect::Event(event) => {
                cx.events.record(&event);
                Ok(())
            }
        };
        if let Err(failure) = outcome {
            failed.get_or_insert(failure);
        }
    }
    failed.map_or(Ok(next), Err)
}
