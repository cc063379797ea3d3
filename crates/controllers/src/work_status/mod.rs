//! The work status controller: from the status of objects in members to their Works (specification/propagation.md 15).
//! Each member has its own queue and workers.

use std::sync::Arc;

use ironclad_api::work::Work;
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_interpreter::Kept;
use ironclad_members::{Member, PerMember};
use ironclad_propagation::{
    success,
    wakes::drift,
    work_status::{self, Effect, Seen},
};
use ironclad_runtime::{Change, Failure, Informer, Key, Next, Queue, WorkMetrics, run_workers};

use crate::{
    controller::Controller,
    events::Events,
    index::object_key,
    interpreter::Interpreters,
    member_object::{MemberObject, MemberObjects},
    objects::Objects,
    setup::{Setup, on_interpretation, on_serve},
    works::WorkStatus,
};

/// Objects of one member that are reconciled at once.
const WORKERS: usize = 2;

struct WorkStatusController {
    works: Informer<Work>,
    work_status: WorkStatus,
    objects: MemberObjects,
    work_metrics: WorkMetrics,
    reported: PerMember<Reported>,
    interpreters: Arc<Interpreters>,
    events: Events,
}

/// The objects of one connected member whose status is reported.
struct Reported {
    objects: Arc<Objects<MemberObject>>,
    /// Objects whose status is to be reported.
    queue: Queue<ObjectKey>,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this = Arc::new(WorkStatusController {
        works: setup.works(),
        work_status: setup.work_status().clone(),
        objects: setup.member_objects().clone(),
        work_metrics: setup.work_metrics.clone(),
        reported: PerMember::default(),
        interpreters: setup.interpreters().clone(),
        events: setup.events.clone(),
    });
    on_serve(setup, &this, WorkStatusController::start_member);
    on_interpretation(setup, &this, |this, changed| {
        for member in this.reported.all() {
            member.objects.keys(changed).into_iter().for_each(|key| member.queue.add_low_priority(key));
        }
    });
    this
}

impl Controller for WorkStatusController {
    fn is_quiet(&self) -> bool {
        self.reported.all().iter().all(|member| member.queue.is_empty())
    }
}

impl WorkStatusController {
    fn start_member(self: &Arc<Self>, member: &Arc<Member>) {
        let Some(objects) = self.objects.get(&member.name) else { return };
        let queue = Queue::new(member.seam.clock.clone(), member.seam.rng.stream("jitter/statuses"));
        let queue = queue.measured("workStatus", &self.work_metrics);
        let changed = queue.clone();
        objects.on_change(move |gvk, change| on_object(&changed, gvk, change));
        let (weak, weak_objects) = (Arc::downgrade(self), Arc::downgrade(&objects));
        run_workers("workStatus", &member.seam.tasks, &queue, WORKERS, move |key| {
            let (this, objects) = (weak.upgrade(), weak_objects.upgrade());
            async move {
                let (Some(this), Some(objects)) = (this, objects) else { return Ok(Next::Forget) };
                this.reconcile(&objects, &key).await
            }
        });
        self.reported.set(member, Reported { objects, queue });
    }

    /// Reads caches and requests a status. It waits only for interpreter webhooks.
    async fn reconcile(&self, objects: &Objects<MemberObject>, key: &ObjectKey) -> Result<Next, Failure> {
        let Some(object) = objects.get(key) else { return Ok(Next::Forget) };
        let Some(work_key) = drift::work_of(None, Some(&object.metadata)).map(|(ns, name)| Key::new(ns, name)) else {
            return Ok(Next::Forget);
        };
        let Some(work) = self.works.get_key(&work_key) else { return Ok(Next::Forget) };
        let seen_work = self.work_status.as_requested(&work);
        let interpreter = self.interpreters.for_a_decision();
        if !object.is_whole() && interpreter.kept(&key.gvk) == Kept::Whole {
            // The interpreter of the kind changed just now: the kind is listed again, which brings the object again.
            return Ok(Next::Forget);
        }
        let object = object.json()?;
        let seen = Seen { work: &seen_work, object: &object, interpreter: &interpreter };
        let resolved = self.interpreters.resolve(&interpreter, || work_status::decide(&seen)).await;
        let effects = &resolved.plan.effects;
        let successes = self.events.successes(|| success::of_work_status(&work, &object, effects));
        for effect in resolved.plan.effects {
            match effect {
                Effect::Status(part) => self.work_status.request(&work, "workStatus", part, false),
                Effect::Event(event) => self.events.record(&event),
            }
        }
        self.events.record_all(&successes);
        Ok(resolved.retry.next(Next::Forget))
    }
}

fn on_object(queue: &Queue<ObjectKey>, gvk: &Gvk, change: &Change<MemberObject>) {
    let (old, new) = (change.old.as_deref().map(MemberObject::cached), change.new.as_deref().map(MemberObject::cached));
    if let Some(object) = change.new.as_deref().filter(|_| drift::changes_status(old, new)) {
        queue.add(object_key(gvk, object));
    }
}
