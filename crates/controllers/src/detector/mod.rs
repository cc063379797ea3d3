//! The detector: templates are claimed for a policy and get their binding (propagation.md 5).

mod apply;
mod observe;

use std::{collections::BTreeMap, sync::Arc};

use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_propagation::{
    detector::{self, Waiting},
    new_ids::NewIds,
    policy,
    policy_match::Policy,
    skipped_resources,
};
use ironclad_runtime::{Change, Failure, Next, run_workers};
use kube::api::DynamicObject;
use parking_lot::Mutex;

pub(crate) use self::observe::AnyPolicy;

use crate::{
    Context, Queues, Settings, dependencies::Wakes, index::object_key, interpreter::Resolved, metrics::result,
};

/// `--concurrent-resource-template-syncs`.
const WORKERS: usize = 5;

/// What templates wait for; in memory only, made anew by the first listing (5.2).
#[derive(Default)]
pub(crate) struct WaitingTemplates(Mutex<BTreeMap<ObjectKey, Waiting>>);

impl WaitingTemplates {
    /// The waiting templates that the policy may select.
    pub(crate) fn selected(&self, policy: Policy<'_>) -> Vec<ObjectKey> {
        self.0.lock().keys().filter(|key| policy::may_select(policy, key)).cloned().collect()
    }
}

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("detector", &cx.seam.tasks, &cx.queues.detector, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, key).await }
    });
}

async fn reconcile(cx: &Arc<Context>, key: ObjectKey) -> Result<Next, Failure> {
    let Some(observed) = observe::observe(cx, &key).await? else {
        cx.waiting.0.lock().remove(&key);
        return Ok(Next::Forget);
    };
    let ids = NewIds::from(cx.seam.rng.uuid());
    let began = cx.seam.clock.mono();
    let decide = || observed.with_seen(cx.seam.clock.wall(), |seen| detector::decide(seen, ids.clone()));
    let Resolved { plan, retry } = cx.interpreters.resolve(&observed.interpreter, decide).await;
    cx.metrics.road.matched(cx.seam.clock.mono() - began);
    let writes = !plan.is_quiet();
    let applied = apply::apply(cx, &observed, plan).await;
    if writes {
        cx.metrics.road.applied(cx.seam.clock.mono() - began, result(&applied));
    }
    applied.map(|next| retry.next(next))
}

/// What of the templates' events gives them a turn: new ones, deleted ones, and changes that count.
pub(crate) fn on_template(
    queues: Queues,
    settings: Arc<Settings>,
    dependents: Wakes,
) -> impl Fn(&Gvk, &Change<DynamicObject>) {
    move |gvk: &Gvk, change: &Change<DynamicObject>| {
        let Some(object) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let key = object_key(gvk, &**object);
        if settings.propagation.skipped.skips_object(gvk, &key.namespace, &key.name) {
            return;
        }
        let counts = match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                skipped_resources::template_changed((&old.metadata, &old.data), (&new.metadata, &new.data))
            }
            _ => true,
        };
        if counts {
            dependents.object(gvk, change);
            queues.detector.add(key.clone());
        }
        // A template that is new to this process may lack the status that its binding has for it.
        if change.old.is_none() {
            queues.template_status.add_replay(key);
        }
    }
}
