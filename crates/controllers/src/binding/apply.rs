//! Writes Works, in the order of the plan. The failure of one cluster does not stop the writes for the others.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{names, work::Work};
use ironclad_fleet::{Plan, WorkKey};
use ironclad_propagation::{
    binding::{self, Effect},
    success,
    work::key_of,
};
use ironclad_runtime::{Api, Failure, Informer, Key, Next, Writer};
use ironclad_seam::Clock;
use kube::{Client, api::PropagationPolicy};

use super::{observe::Observed, waits::SchedulerWaits};
use crate::{bindings::Bindings, events::Events, not_made::CopiesNotMade, setup::Setup};

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    plane: Client,
    bindings: Bindings,
    works: Informer<Work>,
    events: Events,
    waits: Arc<SchedulerWaits>,
    not_made: CopiesNotMade,
    clock: Clock,
}

impl Applier {
    pub(super) fn new(setup: &Setup, waits: Arc<SchedulerWaits>) -> Self {
        Self {
            writer: setup.writer("binding"),
            plane: setup.plane.clone(),
            bindings: setup.bindings().clone(),
            works: setup.works(),
            events: setup.events.clone(),
            waits,
            not_made: setup.not_made.clone(),
            clock: setup.seam.clock.clone(),
        }
    }

    /// Forgets a binding that does not exist any more.
    pub(super) fn forget(&self, key: &Key) {
        self.not_made.set(key, BTreeMap::new());
    }

    pub(super) async fn apply(&self, key: &Key, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Failure> {
        for because in &plan.because {
            tracing::debug!(binding = %key, %because, "Works of a binding");
        }
        if !plan.effects.iter().any(|effect| matches!(effect, Effect::AwaitScheduler(_))) {
            self.waits.end(key);
        }
        let not_made = plan.effects.iter().find_map(|effect| match effect {
            Effect::CopiesNotMade(reasons) => Some(reasons.clone()),
            _ => None,
        });
        self.not_made.set(key, not_made.unwrap_or_default());
        let successes =
            self.events.successes(|| seen.with_seen(|s| success::of_binding(s.binding, s.template, &plan.effects)));
        let (mut next, mut failed, mut created) = (Next::Forget, None, false);
        for effect in plan.effects {
            let outcome = match effect {
                // The finalizer is removed only after the deletes before it were answered.
                Effect::PatchBinding { .. } if failed.is_some() => Ok(()),
                Effect::PatchBinding { patch } => match self.bindings.patch(&self.writer, &seen.binding, patch).await {
                    Err(Failure::NotFound(_)) => Ok(()),
                    other => other,
                },
                Effect::Create(work) => {
                    let namespace = work.metadata.namespace.clone().unwrap_or_default();
                    let api = Api::namespaced(self.plane.clone(), &namespace);
                    self.writer.create(&api, Some(&self.works), &*work).await.map(|_| created = true)
                }
                Effect::Patch { key, patch } => match find(seen, &key) {
                    Some(work) => self.writer.patch(&self.api(&key), Some(&self.works), &**work, patch).await.map(drop),
                    None => Ok(()),
                },
                Effect::DeleteOnceReplaced { .. } if !created => Ok(()),
                Effect::Delete { key, uid } | Effect::DeleteOnceReplaced { key, uid } => {
                    self.delete(seen, &key, &uid).await
                }
                // Noted above: a plan without them ends them.
                Effect::CopiesNotMade(_) => Ok(()),
                Effect::AwaitScheduler(wait) => {
                    self.waits.begin(key, self.clock.mono());
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
                    self.events.record(&event);
                    Ok(())
                }
            };
            if let Err(failure) = outcome {
                failed.get_or_insert(failure);
            }
        }
        if failed.is_none() {
            self.events.record_all(&successes);
        }
        failed.map_or(Ok(next), Err)
    }

    async fn delete(&self, seen: &Observed, key: &WorkKey, uid: &str) -> Result<(), Failure> {
        let Some(work) = find(seen, key).filter(|work| work.metadata.uid.as_deref() == Some(uid)) else {
            return Ok(());
        };
        let background = PropagationPolicy::Background;
        let deleted = self.writer.delete(&self.api(key), Some(&self.works), &**work, background).await;
        if let Err(failure) = deleted.as_ref() {
            let event = binding::cleanup_failed_event(seen.binding.view(), key, failure.class(), &failure.to_string());
            event.iter().for_each(|event| self.events.record(event));
        }
        deleted
    }

    fn api(&self, key: &WorkKey) -> Api<Work> {
        Api::namespaced(self.plane.clone(), &names::execution_namespace(&key.cluster.0))
    }
}

fn find<'a>(seen: &'a Observed, key: &WorkKey) -> Option<&'a Arc<Work>> {
    seen.works.iter().chain(&seen.named).find(|work| key_of(work).as_ref() == Some(key))
}
