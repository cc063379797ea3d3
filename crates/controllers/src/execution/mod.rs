//! The execution controller: from Works to objects in members (specification/propagation.md 13). Each member has its
//! own queue and workers.

mod apply;
mod awaiting;
mod destination;
pub(crate) mod metrics;
mod observe;
mod plain_counter;

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_fleet::Gvk;
use ironclad_members::{Member, PerMember};
use ironclad_propagation::{
    execution,
    wakes::{self, changes, drift},
};
use ironclad_runtime::{Change, Failure, Informer, Next, WorkMetrics, run_workers};
use ironclad_seam::Clock;
use kube::ResourceExt as _;

use self::{
    apply::{Applier, Unapplied},
    destination::Destination,
    metrics::ExecutionMetrics,
    observe::Observer,
};
use crate::{
    controller::Controller,
    index::cluster_of,
    interpreter::{Interpreters, Resolved},
    member_object::{self, MemberObject, MemberObjects},
    setup::{Setup, on_change, on_interpretation, on_serve},
};

/// Works of one member that are applied at once.
const WORKERS: usize = 4;

struct Execution {
    clock: Clock,
    works: Informer<Work>,
    objects: MemberObjects,
    work_metrics: WorkMetrics,
    destinations: PerMember<Destination>,
    interpreters: Arc<Interpreters>,
    observer: Observer,
    applier: Applier,
    metrics: ExecutionMetrics,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let metrics = setup.register(ExecutionMetrics::register);
    let this = Arc::new(Execution {
        clock: setup.seam.clock.clone(),
        works: setup.works(),
        objects: setup.member_objects().clone(),
        work_metrics: setup.work_metrics.clone(),
        destinations: PerMember::default(),
        interpreters: setup.interpreters().clone(),
        observer: Observer::new(setup),
        applier: Applier::new(setup, metrics.clone()),
        metrics,
    });
    on_change(&setup.works(), &this, Execution::on_work);
    on_change(setup.clusters(), &this, Execution::on_cluster);
    on_serve(setup, &this, Execution::start_member);
    on_interpretation(setup, &this, Execution::on_interpretation);
    this
}

impl Controller for Execution {
    fn is_quiet(&self) -> bool {
        self.destinations.all().iter().all(|member| member.works.is_empty())
    }
}

impl Execution {
    fn start_member(self: &Arc<Self>, member: &Arc<Member>) {
        let Some(objects) = self.objects.get(&member.name) else { return };
        let (tasks, destination) = (&member.seam.tasks, Destination::new(member, objects, &self.work_metrics));
        let member = self.destinations.set(member, destination);
        let weak = Arc::downgrade(&member);
        member.objects.on_change(move |gvk, change| {
            if let Some(member) = weak.upgrade() {
                on_object(&member, gvk, change);
            }
        });
        let (weak, weak_member) = (Arc::downgrade(self), Arc::downgrade(&member));
        run_workers("execution", tasks, &member.works, WORKERS, move |name| {
            let (this, member) = (weak.upgrade(), weak_member.upgrade());
            async move {
                let (Some(this), Some(member)) = (this, member) else { return Ok(Next::Forget) };
                this.reconcile(&member, &name).await
            }
        });
        self.enqueue_all(&member);
    }

    async fn reconcile(&self, member: &Destination, name: &str) -> Result<Next, Failure> {
        let Some(mut observed) = self.observer.observe(member, name).await? else { return Ok(Next::Forget) };
        let now = self.clock.wall_seconds();
        let decide = || observed.decide(now, execution::decide);
        let Resolved { plan, retry } = self.interpreters.resolve(&observed.interpreter, decide).await;
        let (began, writes) = (self.clock.mono(), !plan.is_quiet());
        let applied = self.applier.apply(member, &mut observed, plan).await;
        if writes {
            self.metrics.synced(self.clock.mono() - began, &applied);
        }
        match applied {
            Ok(next) => Ok(retry.next(next)),
            // The Work reports it, and the guard counts it.
            Err(Unapplied { failure: Failure::HotLoop { .. }, next: Some(next) }) => Ok(next),
            Err(Unapplied { failure, next: Some(next) }) => {
                tracing::warn!(cluster = %member.name, work = name, %failure, %next, "the member refuses the object");
                Ok(next)
            }
            Err(Unapplied { failure, next: None }) => Err(failure),
        }
    }

    /// Enqueues all Works of a member, those that are being deleted first.
    fn enqueue_all(&self, member: &Destination) {
        for work in self.works.namespace(&names::execution_namespace(&member.name.0)) {
            let name: Arc<str> = work.name_any().into();
            if work.metadata.deletion_timestamp.is_some() {
                member.works.add(name)
            } else {
                member.works.add_low_priority(name)
            }
        }
    }

    /// A status does not count, unless Works wait for the namespace that this Work creates.
    fn on_work(&self, change: &Change<Work>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if let Some(namespace) = wakes::execution::resolves_namespace(old, new)
            && let Some(member) = new.or(old).and_then(cluster_of).and_then(|name| self.destinations.get(&name))
        {
            member.enqueue_awaiting(&namespace);
        }
        let Some(work) = new else { return };
        if !changes::work(old.map(|w| &w.metadata), &work.metadata) {
            return;
        }
        if let Some(member) = cluster_of(work).and_then(|name| self.destinations.get(&name)) {
            member.works.add(work.name_any().into());
        }
    }

    /// A member that is back is served at once, without waiting for the backoff of its Works
    /// (specification/propagation.md 31 row 3).
    fn on_cluster(&self, change: &Change<Cluster>) {
        let Some(cluster) = change.new.as_deref() else { return };
        if !changes::cluster(change.old.as_deref(), cluster) {
            return;
        }
        if let Some(member) = self.destinations.get(&cluster.name_any().as_str().into()) {
            self.enqueue_all(&member);
        }
    }

    /// Enqueues the Works of objects of these kinds. A cache that no longer keeps enough of the objects is made anew.
    fn on_interpretation(&self, changed: &dyn Fn(&Gvk) -> bool) {
        for member in self.destinations.all() {
            for gvk in member.objects.kinds().iter().filter(|gvk| changed(gvk)) {
                let Some((_, objects)) = member.objects.watched(gvk) else { continue };
                let all = objects.list();
                if member_object::lacks(&self.interpreters.for_a_decision(), gvk, &all) {
                    // The Works take the kind again, and its list brings the objects.
                    member.objects.renew(gvk);
                }
                for object in all {
                    if let Some((_, work)) = drift::work_of(None, Some(&object.metadata)) {
                        member.works.add_low_priority(work.into());
                    }
                }
            }
        }
    }
}

/// Enqueues the Work of an object that drifted, and the Works that wait for a namespace that was created.
fn on_object(member: &Destination, gvk: &Gvk, change: &Change<MemberObject>) {
    let (old, new) = (change.old.as_deref().map(MemberObject::cached), change.new.as_deref().map(MemberObject::cached));
    if let Some(namespace) = change.new.as_deref().filter(|_| drift::brings_namespace(gvk, old, new)) {
        member.enqueue_awaiting(namespace.metadata.name.as_deref().unwrap_or_default());
    }
    if !drift::requeues(old, new, change.ours) {
        return;
    }
    if let Some((_, work)) = drift::work_of(old.map(|o| o.metadata), new.map(|n| n.metadata)) {
        member.works.add(work.into());
    }
}
