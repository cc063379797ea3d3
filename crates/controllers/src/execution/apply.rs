//! Writes into the member, in the order of the plan, and reports how it went.

use std::sync::Arc;

use ironclad_fleet::{Plan, StatusPart};
use ironclad_propagation::execution::{self, Effect};
use ironclad_runtime::{Failure, Next, Writer};
use kube::{Api, ResourceExt as _, api::PropagationPolicy};
use serde_json::Value;

use super::observe::{Known, Observed, Place};
use crate::{
    Context, Member, MemberObject,
    awaiting::Await,
    index::cluster_of,
    metrics::{About, MemberWrite, result},
};

/// How often one pass looks at the member past the cache: once where nothing is known, once more after a create that met
/// an object.
const LOOKS_MAX: usize = 3;

/// The plan was not sent to its end.
pub(super) struct Unapplied {
    pub(super) failure: Failure,
    /// What comes next, where the decision says so; otherwise it is tried again with back-off.
    pub(super) next: Option<Next>,
}

impl From<Failure> for Unapplied {
    fn from(failure: Failure) -> Self {
        Self { failure, next: None }
    }
}

pub(super) async fn apply(
    cx: &Context,
    member: &Member,
    seen: &mut Observed,
    mut plan: Plan<Effect>,
) -> Result<Next, Unapplied> {
    for _ in 0..LOOKS_MAX {
        for because in &plan.because {
            tracing::debug!(cluster = %member.name, work = %seen.work.name_any(), %because, "executed");
        }
        match send(cx, member, seen, plan).await {
            Ok(next) => return Ok(next),
            Err(Stopped::Look) => {
                look(seen).await?;
                plan = seen.decide(cx.seam.clock.wall_seconds(), execution::decide);
            }
            Err(Stopped::Refused(failure)) => return Err(report(cx, member, seen, failure)),
            Err(Stopped::Unanswered(failure)) => return Err(failure.into()),
        }
    }
    let message = format!("the object of Work {} comes and goes in {}", seen.work.name_any(), member.name);
    Err(Failure::Conflict(message).into())
}

/// Why a plan was not sent to its end.
enum Stopped {
    /// What stands in the member has to be read first.
    Look,
    /// The member said no: that is for the Work to tell.
    Refused(Failure),
    /// The member did not answer, or the world moved on: nothing is known about the Work.
    Unanswered(Failure),
}

/// A failed write to the member.
fn of_member(failure: Failure) -> Stopped {
    if execution::is_verdict(failure.class()) { Stopped::Refused(failure) } else { Stopped::Unanswered(failure) }
}

async fn send(cx: &Context, member: &Member, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Stopped> {
    let writer = Writer::new("execution");
    let mut next = Next::Forget;
    for effect in plan.effects {
        match effect {
            Effect::Read(_) => return Err(Stopped::Look),
            Effect::CreateInMember(object) => {
                let Place { api, cache, .. } = place(seen)?;
                let created = writer.create(api, Some(cache), &parse(object)?).await;
                count(cx, seen, MemberWrite::Create { again: execution::was_applied(&seen.work) }, &created);
                match created {
                    Ok(_) => {}
                    Err(Failure::AlreadyExists(_)) => return Err(Stopped::Look),
                    Err(other) => return Err(of_member(other)),
                }
            }
            Effect::ReplaceInMember(object) => {
                let Place { api, cache, .. } = place(seen)?;
                let replaced = writer.replace(api, Some(cache), &parse(object)?).await;
                count(cx, seen, MemberWrite::Update, &replaced);
                replaced.map_err(of_member)?;
            }
            Effect::PatchInMember { patch, .. } => {
                let (Place { api, cache, .. }, Some(standing)) = (place(seen)?, standing(seen)?) else { continue };
                let patched = writer.patch(api, Some(cache), &standing, patch).await;
                count(cx, seen, MemberWrite::Update, &patched);
                patched.map_err(of_member)?;
            }
            Effect::DeleteInMember { .. } => {
                let (Place { api, cache, .. }, Some(standing)) = (place(seen)?, standing(seen)?) else { continue };
                let deleted = writer.delete(api, Some(cache), &standing, PropagationPolicy::Background).await;
                count(cx, seen, MemberWrite::Delete, &deleted);
                deleted.map_err(of_member)?;
            }
            Effect::WorkStatus(part) => want(cx, seen, part),
            Effect::ReleaseWork { patch } => {
                let namespace = seen.work.metadata.namespace.clone().unwrap_or_default();
                let api = Api::namespaced(cx.plane.clone(), &namespace);
                match writer.patch(&api, Some(&cx.works), &*seen.work, patch).await {
                    Ok(_) | Err(Failure::NotFound(_)) => {}
                    Err(other) => return Err(Stopped::Unanswered(other)),
                }
            }
            Effect::AwaitNamespace { namespace } => await_namespace(member, seen, &namespace),
            // The event that ends the wait gives the Work its next turn.
            Effect::Park => {}
            Effect::Retry => next = Next::Retry,
            Effect::RetryAfter(wait) => next = Next::After(wait),
            Effect::Event(event) => cx.events.record(&event),
        }
    }
    Ok(next)
}

fn count<T>(cx: &Context, seen: &Observed, write: MemberWrite, outcome: &Result<T, Failure>) {
    // A conflict is no failure: the next pass looks again (operations.md 6).
    if matches!(outcome, Err(failure) if failure.is_conflict()) {
        return;
    }
    let (Some(place), Some(cluster)) = (&seen.place, cluster_of(&seen.work)) else { return };
    let gvk = &place.key.gvk;
    let about = About { api_version: &gvk.api_version(), kind: &gvk.kind, cluster: &cluster.0 };
    cx.metrics.road.wrote(write, about, result(outcome));
}

/// Says on the Work what the member said.
fn report(cx: &Context, member: &Member, seen: &Observed, failure: Failure) -> Unapplied {
    let now = cx.seam.clock.wall_seconds();
    let plan = seen.decide(now, |seen, now| execution::failed(seen, failure.class(), &failure.to_string(), now));
    let mut next = None;
    for effect in plan.effects {
        match effect {
            Effect::WorkStatus(part) => want(cx, seen, part),
            Effect::Event(event) => cx.events.record(&event),
            Effect::RetryAfter(wait) => next = Some(Next::After(wait)),
            Effect::AwaitNamespace { namespace } => await_namespace(member, seen, &namespace),
            _ => {}
        }
    }
    Unapplied { failure, next }
}

/// What was heard of the namespace since the look gives the Work its turn at once.
fn await_namespace(member: &Member, seen: &Observed, namespace: &str) {
    let work: Arc<str> = seen.work.name_any().into();
    if member.awaiting.add(namespace, work.clone(), seen.news) == Await::Missed {
        member.works.add(work);
    }
}

fn want(cx: &Context, seen: &Observed, part: StatusPart) {
    let urgent = execution::is_urgent(&part);
    cx.work_status.request(&seen.work, "execution", part, urgent);
}

/// Reads the object past the cache, which takes what it keeps of it.
async fn look(seen: &mut Observed) -> Result<(), Failure> {
    let Some(Place { key, api, cache }) = &seen.place else { return Ok(()) };
    seen.object = match api.get_opt(&key.name).await? {
        Some(object) => {
            let whole = object.json()?;
            cache.reread(object);
            Known::Present(whole)
        }
        None => Known::Absent,
    };
    Ok(())
}

fn place(seen: &Observed) -> Result<&Place, Stopped> {
    seen.place.as_ref().ok_or_else(|| Stopped::Unanswered(Failure::Invalid("the kind is not served".to_owned())))
}

fn standing(seen: &Observed) -> Result<Option<MemberObject>, Stopped> {
    match &seen.object {
        Known::Present(object) | Known::Held { object, .. } => parse(object.clone()).map(Some),
        Known::Unknown | Known::Uncached | Known::Absent => Ok(None),
    }
}

fn parse(object: Value) -> Result<MemberObject, Stopped> {
    MemberObject::parse(object).map_err(Stopped::Refused)
}
