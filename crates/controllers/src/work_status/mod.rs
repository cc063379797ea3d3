//! The status of member objects, into their Works (propagation.md 15). A few workers for each member.

use std::sync::Arc;

use ironclad_fleet::ObjectKey;
use ironclad_interpreter::Kept;
use ironclad_propagation::{
    drift,
    work_status::{self, Effect, Seen},
};
use ironclad_runtime::{Failure, Key, Next, run_workers};

use crate::{Context, Member};

/// Objects of one member looked at at once.
const WORKERS: usize = 2;

pub(crate) fn start_member(cx: &Arc<Context>, member: &Arc<Member>) {
    let (weak_cx, weak_member) = (Arc::downgrade(cx), Arc::downgrade(member));
    run_workers("workStatus", &member.tasks, &member.statuses, WORKERS, move |key| {
        let (cx, member) = (weak_cx.upgrade(), weak_member.upgrade());
        async move {
            let (Some(cx), Some(member)) = (cx, member) else { return Ok(Next::Forget) };
            reconcile(&cx, &member, &key).await
        }
    });
}

/// It only reads caches and wants a status: nothing to wait for but an interpreter's webhook.
async fn reconcile(cx: &Context, member: &Member, key: &ObjectKey) -> Result<Next, Failure> {
    if !crate::runs(cx, "workStatus") {
        return Ok(Next::Forget);
    }
    let Some(object) = member.objects.get(key) else { return Ok(Next::Forget) };
    let Some(work_key) = drift::work_of(None, Some(&object.metadata)).map(|(ns, name)| Key::new(ns, name)) else {
        return Ok(Next::Forget);
    };
    let Some(work) = cx.works.get_key(&work_key) else { return Ok(Next::Forget) };
    let seen_work = cx.work_status.as_requested(&work);
    let interpreter = cx.interpreter();
    if !object.is_whole() && interpreter.kept(&key.gvk) == Kept::Whole {
        // Who answers for the kind changed just now: it is listed anew, which brings the object again.
        return Ok(Next::Forget);
    }
    let object = object.json()?;
    let seen = Seen { work: &seen_work, object: &object, interpreter: &interpreter };
    let settled = cx.interpreters.resolve(&interpreter, || work_status::decide(&seen)).await;
    for effect in settled.plan.effects {
        match effect {
            Effect::Status(part) => cx.work_status.request(&work, "workStatus", part, false),
            Effect::Event(event) => cx.events.record(&event),
        }
    }
    Ok(settled.retry.next(Next::Forget))
}
