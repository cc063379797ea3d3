//! Writes into the member, in the order of the plan, and reports the outcome.

use std::sync::Arc;

use ironclad_api::work::{ClusterResourceBinding, ResourceBinding, Work};
use ironclad_fleet::{Plan, StatusPart};
use ironclad_propagation::{
    execution::{self, Effect, WantedAgain},
    success,
};
use ironclad_runtime::{Api, Failure, HotLoops, Informer, Next, Writer};
use ironclad_seam::Clock;
use kube::{Client, ResourceExt as _, api::PropagationPolicy};
use serde_json::Value;

use super::{
    awaiting::Await,
    destination::Destination,
    metrics::{About, ExecutionMetrics, MemberWrite},
    observe::{Known, Observed, Place},
};
use crate::{
    events::Events,
    index::{binding_of, cluster_of},
    member_object::MemberObject,
    metrics::result,
    setup::Setup,
    works::WorkStatus,
};

/// Plans of one reconcile: the second one after a read of the binding, or of an object that the cache does not have,
/// the third one after a create that met an object.
const READS_MAX: usize = 3;

const CONTROLLER: &str = "execution";

/// Failure of a plan that was not carried out completely.
pub(super) struct Unapplied {
    pub(super) failure: Failure,
    /// The next step, where the decision names one; otherwise the Work is retried with backoff.
    pub(super) next: Option<Next>,
}

impl From<Failure> for Unapplied {
    fn from(failure: Failure) -> Self {
        Self { failure, next: None }
    }
}

/// The writes of the controller.
pub(super) struct Applier {
    writer: Writer,
    hot_loops: HotLoops,
    plane: Client,
    works: Informer<Work>,
    work_status: WorkStatus,
    events: Events,
    metrics: ExecutionMetrics,
    clock: Clock,
}

/// Reason for which a plan was not carried out completely.
enum Stopped {
    /// The object in the member has to be read first.
    Read,
    /// The binding has to be read first.
    ReadBinding,
    /// The member refused the write: the Work reports it.
    Refused(Failure),
    /// The member kept the object without these fields of the manifest.
    Dropped(Vec<String>),
    /// The member did not answer, or an object changed meanwhile: nothing is known about the Work.
    Unanswered(Failure),
}

/// Classifies a failed request to the member, which follows so many in a row.
fn of_member(failure: Failure, failures: u32) -> Stopped {
    if execution::is_verdict(failure.class(), failures) {
        Stopped::Refused(failure)
    } else {
        Stopped::Unanswered(failure)
    }
}

/// Compares the answer to a write with what was sent.
fn complete(sent: &Value, answer: &MemberObject) -> Result<(), Stopped> {
    let fields = execution::compare::missing(sent, &answer.json().map_err(Stopped::Unanswered)?);
    if fields.is_empty() { Ok(()) } else { Err(Stopped::Dropped(fields)) }
}

impl Applier {
    pub(super) fn new(setup: &Setup, metrics: ExecutionMetrics) -> Self {
        Self {
            writer: Writer::new(CONTROLLER),
            hot_loops: setup.hot_loops.clone(),
            plane: setup.plane.clone(),
            works: setup.works(),
            work_status: setup.work_status().clone(),
            events: setup.events.clone(),
            metrics,
            clock: setup.seam.clock.clone(),
        }
    }

    pub(super) async fn apply(
        &self,
        member: &Destination,
        seen: &mut Observed,
        mut plan: Plan<Effect>,
    ) -> Result<Next, Unapplied> {
        for _ in 0..READS_MAX {
            for because in &plan.because {
                tracing::debug!(cluster = %member.name, work = %seen.work.name_any(), %because, "executed");
            }
            match self.send(member, seen, plan).await {
                Ok(next) => return Ok(next),
                Err(Stopped::Read) => {
                    if let Err(failure) = read(seen).await {
                        let is_verdict = execution::is_verdict(failure.class(), failures(member, seen));
                        return Err(if is_verdict { self.refused(member, seen, failure) } else { failure.into() });
                    }
                    plan = seen.decide(self.clock.wall_seconds(), execution::decide);
                }
                Err(Stopped::ReadBinding) => {
                    seen.wanted_again = self.wanted_again(&seen.work).await?;
                    plan = seen.decide(self.clock.wall_seconds(), execution::decide);
                }
                Err(Stopped::Refused(failure)) => return Err(self.refused(member, seen, failure)),
                Err(Stopped::Dropped(fields)) => {
                    let report =
                        seen.decide(self.clock.wall_seconds(), |seen, now| execution::dropped(seen, &fields, now));
                    self.report(member, seen, report);
                    return Ok(Next::Retry);
                }
                Err(Stopped::Unanswered(failure)) => return Err(failure.into()),
            }
        }
        let message = format!("the object of Work {} comes and goes in {}", seen.work.name_any(), member.name);
        Err(Failure::Conflict(message).into())
    }

    async fn send(&self, member: &Destination, seen: &Observed, plan: Plan<Effect>) -> Result<Next, Stopped> {
        let cluster = || cluster_of(&seen.work).map(|cluster| cluster.0).unwrap_or_default();
        let successes = self.events.successes(|| success::of_execution(&seen.work, &cluster(), &plan.effects));
        let failures = failures(member, seen);
        let mut next = Next::Forget;
        for effect in plan.effects {
            match effect {
                Effect::Read(_) => return Err(Stopped::Read),
                Effect::ReadBinding => return Err(Stopped::ReadBinding),
                Effect::CreateInMember(object) => {
                    self.guard(member, seen)?;
                    let Place { api, cache, .. } = place(seen)?;
                    let created = self.writer.create(api, cache.as_ref(), &parse(object.clone())?).await;
                    let created = created.map(|answer| complete(&object, &answer));
                    self.count(seen, MemberWrite::Create { again: execution::was_applied(&seen.work) }, &created);
                    self.retract(member, seen, &created);
                    match created {
                        Ok(complete) => complete?,
                        Err(Failure::AlreadyExists(_)) => return Err(Stopped::Read),
                        Err(other) => return Err(of_member(other, failures)),
                    }
                }
                Effect::ReplaceInMember(object) => {
                    self.guard(member, seen)?;
                    let Place { api, cache, .. } = place(seen)?;
                    let replaced = self.writer.replace(api, cache.as_ref(), &parse(object.clone())?).await;
                    let replaced = replaced.map(|answer| complete(&object, &answer));
                    self.count(seen, MemberWrite::Update, &replaced);
                    self.retract(member, seen, &replaced);
                    replaced.map_err(|failure| of_member(failure, failures))??;
                }
                Effect::PatchInMember { patch, .. } => {
                    let (Place { api, cache, .. }, Some(object)) = (place(seen)?, member_object(seen)?) else {
                        continue;
                    };
                    let patched = self.writer.patch(api, cache.as_ref(), &object, patch).await;
                    self.count(seen, MemberWrite::Update, &patched);
                    patched.map_err(|failure| of_member(failure, failures))?;
                }
                Effect::DeleteInMember { .. } => {
                    let (Place { api, cache, .. }, Some(object)) = (place(seen)?, member_object(seen)?) else {
                        continue;
                    };
                    let deleted = self.writer.delete(api, cache.as_ref(), &object, PropagationPolicy::Background).await;
                    self.count(seen, MemberWrite::Delete, &deleted);
                    deleted.map_err(|failure| of_member(failure, failures))?;
                }
                Effect::WorkStatus(part) => self.request_status(seen, part),
                Effect::ReleaseWork { patch } => {
                    let namespace = seen.work.metadata.namespace.clone().unwrap_or_default();
                    let api = Api::namespaced(self.plane.clone(), &namespace);
                    match self.writer.patch(&api, Some(&self.works), &*seen.work, patch).await {
                        Ok(_) | Err(Failure::NotFound(_)) => {}
                        Err(other) => return Err(Stopped::Unanswered(other)),
                    }
                }
                Effect::AwaitNamespace { namespace } => await_namespace(member, seen, &namespace),
                // An event ends the wait and enqueues the Work.
                Effect::Park => {}
                Effect::Retry => next = Next::Retry,
                Effect::RetryAfter(wait) => next = Next::After(wait),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        self.events.record_all(&successes);
        Ok(next)
    }

    /// Reads whether the binding of a Work that is being deleted requires the copy again.
    async fn wanted_again(&self, work: &Work) -> Result<WantedAgain, Failure> {
        let Some(key) = binding_of(work) else { return Ok(WantedAgain::No) };
        let is_wanted = if key.namespace.is_empty() {
            let binding = Api::<ClusterResourceBinding>::all(self.plane.clone()).get_opt(&key.name).await?;
            binding.is_some_and(|binding| execution::is_wanted_again(work, (&binding).into()))
        } else {
            let api = Api::<ResourceBinding>::namespaced(self.plane.clone(), &key.namespace);
            let binding = api.get_opt(&key.name).await?;
            binding.is_some_and(|binding| execution::is_wanted_again(work, (&binding).into()))
        };
        Ok(if is_wanted { WantedAgain::Read } else { WantedAgain::No })
    }

    /// Slows down writes of an object that something else in the member changes back, as long as the Work stays the
    /// same.
    fn guard(&self, member: &Destination, seen: &Observed) -> Result<(), Stopped> {
        let source = u64::try_from(seen.work.metadata.generation.unwrap_or_default()).unwrap_or_default();
        let attempt = self.hot_loops.attempt(CONTROLLER, guarded_object(member, seen), source, || None);
        attempt.map_err(|after| Stopped::Refused(Failure::HotLoop { after }))
    }

    /// Takes back a write that failed, or whose answer is not complete: it is no fight.
    fn retract(&self, member: &Destination, seen: &Observed, outcome: &Result<Result<(), Stopped>, Failure>) {
        if !matches!(outcome, Ok(Ok(()))) {
            self.hot_loops.retract(CONTROLLER, &guarded_object(member, seen));
        }
    }

    fn count<T>(&self, seen: &Observed, write: MemberWrite, outcome: &Result<T, Failure>) {
        // A conflict is no failure: the next reconcile observes again (specification/operations.md 6).
        if matches!(outcome, Err(failure) if failure.is_conflict()) {
            return;
        }
        let (Some(place), Some(cluster)) = (&seen.place, cluster_of(&seen.work)) else { return };
        let gvk = &place.key.gvk;
        let about = About { api_version: &gvk.api_version(), kind: &gvk.kind, cluster: &cluster.0 };
        self.metrics.wrote(write, about, result(outcome));
    }

    /// Reports the refusal of the member on the Work.
    fn refused(&self, member: &Destination, seen: &Observed, failure: Failure) -> Unapplied {
        let now = self.clock.wall_seconds();
        let plan = seen.decide(now, |seen, now| execution::failed(seen, failure.class(), &failure.to_string(), now));
        let next = match &failure {
            Failure::HotLoop { after } => Some(Next::After(*after)),
            _ => None,
        };
        self.report(member, seen, plan);
        Unapplied { failure, next }
    }

    /// Writes a report to the Work.
    fn report(&self, member: &Destination, seen: &Observed, plan: Plan<Effect>) {
        for effect in plan.effects {
            match effect {
                Effect::WorkStatus(part) => self.request_status(seen, part),
                Effect::Event(event) => self.events.record(&event),
                Effect::AwaitNamespace { namespace } => await_namespace(member, seen, &namespace),
                // Who failed is tried again with backoff.
                _ => {}
            }
        }
    }

    fn request_status(&self, seen: &Observed, part: StatusPart) {
        let urgent = execution::is_urgent(&part);
        self.work_status.request(&seen.work, "execution", part, urgent);
    }
}

/// Failures of the Work in a row before this one.
fn failures(member: &Destination, seen: &Observed) -> u32 {
    member.works.failures(&seen.work.name_any().into())
}

/// The object of a Work, among all that this controller writes.
fn guarded_object(member: &Destination, seen: &Observed) -> String {
    format!("{}/{}", member.name, seen.work.metadata.uid.as_deref().unwrap_or_default())
}

/// Has the Work wait for the namespace. An event since the snapshot enqueues it at once.
fn await_namespace(member: &Destination, seen: &Observed, namespace: &str) {
    let work: Arc<str> = seen.work.name_any().into();
    if member.awaiting.add(namespace, work.clone(), seen.namespace_events) == Await::Missed {
        member.works.add(work);
    }
}

/// Reads the object from the member; the cache takes its part of the answer.
async fn read(seen: &mut Observed) -> Result<(), Failure> {
    let Some(Place { key, api, cache }) = &seen.place else { return Ok(()) };
    seen.object = match api.get_opt(&key.name).await? {
        Some(object) => {
            let whole = object.json()?;
            if let Some(cache) = cache {
                cache.reread(object);
            }
            Known::Present(whole)
        }
        None => Known::Absent,
    };
    Ok(())
}

fn place(seen: &Observed) -> Result<&Place, Stopped> {
    seen.place.as_ref().ok_or_else(|| Stopped::Unanswered(Failure::Invalid("the kind is not served".to_owned())))
}

fn member_object(seen: &Observed) -> Result<Option<MemberObject>, Stopped> {
    match &seen.object {
        Known::Present(object) | Known::Partial { object, .. } => parse(object.clone()).map(Some),
        Known::Unknown | Known::Uncached | Known::Absent => Ok(None),
    }
}

fn parse(object: Value) -> Result<MemberObject, Stopped> {
    MemberObject::parse(object).map_err(Stopped::Refused)
}
