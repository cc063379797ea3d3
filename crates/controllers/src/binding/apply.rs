//! Writes Works, in the order of the plan. One cluster's failure does not keep the others from theirs.

use std::sync::Arc;

use ironclad_api::{names, work::Work};
use ironclad_fleet::{Plan, WorkKey};
use ironclad_propagation::{
    binding::{self, Effect},
    work::key_of,
};
use ironclad_runtime::{Failure, Key, Next, Writer};
use kube::{Api, api::PropagationPolicy};

use super::observe::Observed;
use crate::Context;

pub(super) async fn apply(cx: &Context, key: &Key, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
    let writer = Writer::new("binding");
    for because in &plan.because {
        tracing::debug!(binding = %key, %because, "Works of a binding");
    }
    if !plan.effects.iter().any(|effect| matches!(effect, Effect::AwaitScheduler(_))) {
        cx.held.release(key);
    }
    let (mut next, mut failed, mut created) = (Next::Forget, None, false);
    for effect in plan.effects {
        let outcome = match effect {
            // Its finalizer may only go once the deletes before it were answered.
            Effect::PatchBinding { .. } if failed.is_some() => Ok(()),
            Effect::PatchBinding { patch } => match cx.bindings.patch(&writer, &seen.binding, patch).await {
                Err(Failure::NotFound(_)) => Ok(()),
                other => other,
            },
            Effect::Create(work) => {
                let namespace = work.metadata.namespace.clone().unwrap_or_default();
                let api = Api::namespaced(cx.plane.clone(), &namespace);
                writer.create(&api, Some(&cx.works), &*work).await.map(|_| created = true)
            }
            Effect::Patch { key, patch } => match find(seen, &key) {
                Some(work) => writer.patch(&api_of(cx, &key), Some(&cx.works), &**work, patch).await.map(drop),
                None => Ok(()),
            },
            Effect::DeleteOnceReplaced { .. } if !created => Ok(()),
            Effect::Delete { key, uid } | Effect::DeleteOnceReplaced { key, uid } => match find(seen, &key) {
                Some(work) if work.metadata.uid.as_deref() == Some(&uid) => {
                    let api = api_of(cx, &key);
                    let gone = writer.delete(&api, Some(&cx.works), &**work, PropagationPolicy::Background).await;
                    if let Err(failure) = gone.as_ref() {
                        let (class, message) = (failure.class(), failure.to_string());
                        let told = binding::cleanup_failed_event(seen.binding.view(), &key, class, &message);
                        told.iter().for_each(|event| cx.events.record(event));
                    }
                    gone
                }
                _ => Ok(()),
            },
            Effect::AwaitScheduler(wait) => {
                cx.held.hold(key, cx.seam.clock.mono());
                next = Next::After(wait);
                Ok(())
            }
            Effect::RequeueAfter(wait) => {
                next = Next::After(wait);
                Ok(())
            }
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

fn find<'a>(seen: &'a Observed, key: &WorkKey) -> Option<&'a Arc<Work>> {
    seen.works.iter().chain(&seen.named).find(|work| key_of(work).as_ref() == Some(key))
}

fn api_of(cx: &Context, key: &WorkKey) -> Api<Work> {
    Api::namespaced(cx.plane.clone(), &names::execution_namespace(&key.cluster.0))
}
