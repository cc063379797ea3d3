//! Works to objects in a member (propagation.md 13). A queue and workers of its own for each member.

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_propagation::{changes, drift, execution};
use ironclad_runtime::{Change, Failure, Next, Queue, run_workers};
use kube::ResourceExt as _;

use self::apply::Unapplied;
use crate::{
    Context, Member, MemberObject,
    awaiting::Awaiting,
    index::{cluster_of, object_key},
    interpreter::Resolved,
    metrics::result,
};

/// Works of one member applied at once.
const WORKERS: usize = 4;

pub(crate) fn start_member(cx: &Arc<Context>, member: &Arc<Member>) {
    let (weak_cx, weak_member) = (Arc::downgrade(cx), Arc::downgrade(member));
    run_workers("execution", &member.tasks, &member.works, WORKERS, move |name| {
        let (cx, member) = (weak_cx.upgrade(), weak_member.upgrade());
        async move {
            let (Some(cx), Some(member)) = (cx, member) else { return Ok(Next::Forget) };
            reconcile(&cx, &member, &name).await
        }
    });
}

async fn reconcile(cx: &Context, member: &Member, name: &str) -> Result<Next, Failure> {
    if !crate::runs(cx, "execution") {
        return Ok(Next::Forget);
    }
    let Some(mut observed) = observe::observe(cx, member, name).await? else { return Ok(Next::Forget) };
    let now = cx.seam.clock.wall_seconds();
    let Resolved { plan, retry } =
        cx.interpreters.resolve(&observed.interpreter, || observed.decide(now, execution::decide)).await;
    let (began, writes) = (cx.seam.clock.mono(), !plan.is_quiet());
    let applied = apply::apply(cx, member, &mut observed, plan).await;
    if writes {
        cx.metrics.road.synced_workload(cx.seam.clock.mono() - began, result(&applied));
    }
    match applied {
        Ok(next) => Ok(retry.next(next)),
        Err(Unapplied { failure, next: Some(next) }) => {
            tracing::warn!(cluster = %member.name, work = name, %failure, ?next, "the member refuses the object");
            Ok(next)
        }
        Err(Unapplied { failure, next: None }) => Err(failure),
    }
}

/// All Works of a member get a turn, those being deleted first.
pub(crate) fn enqueue_all(cx: &Context, member: &Member) {
    for work in cx.works.namespace(&names::execution_namespace(&member.name.0)) {
        let name: Arc<str> = work.name_any().into();
        if work.metadata.deletion_timestamp.is_some() { member.works.add(name) } else { member.works.add_replay(name) }
    }
}

/// A Work that is new, changed or being deleted; its status does not count, unless others wait for what it brings.
pub(crate) fn on_work(cx: &Arc<Context>, change: &Change<Work>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if let Some(namespace) = execution::resolves_namespace(old, new)
        && let Some(member) = new.or(old).and_then(cluster_of).and_then(|name| cx.members.get(&name))
    {
        heard_of(&member.awaiting, &member.works, &namespace);
    }
    let Some(work) = change.new.as_deref() else { return };
    if !changes::work(change.old.as_deref().map(|w| &w.metadata), &work.metadata) {
        return;
    }
    if let Some(member) = cluster_of(work).and_then(|name| cx.members.get(&name)) {
        member.works.add(work.name_any().into());
    }
}

/// Whatever waits for the namespace gets a turn.
fn heard_of(awaiting: &Awaiting, works: &Queue<Arc<str>>, namespace: &str) {
    for work in awaiting.heard(namespace) {
        works.add(work);
    }
}

/// A member that comes back is served at once, not after the back-off of its Works (propagation.md 31, row 3).
pub(crate) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    let Some(cluster) = change.new.as_deref() else { return };
    if !changes::cluster(change.old.as_deref(), cluster) {
        return;
    }
    if let Some(member) = cx.members.get(&cluster.name_any().as_str().into()) {
        member.objects.wake();
        enqueue_all(cx, &member);
    }
}

/// Objects of a member changed: drift gives their Work a turn, a namespace what waits for it, and their status is reported.
pub(crate) fn on_member_object(
    works: Queue<Arc<str>>,
    awaiting: Arc<Awaiting>,
    statuses: Queue<ObjectKey>,
    on_kinds: impl Fn() + Send + Sync + 'static,
) -> impl Fn(&Gvk, &Change<MemberObject>) {
    move |gvk: &Gvk, change: &Change<MemberObject>| {
        let (old, new) =
            (change.old.as_deref().map(MemberObject::cached), change.new.as_deref().map(MemberObject::cached));
        if let Some(object) = change.new.as_deref().filter(|_| drift::changes_status(old, new)) {
            statuses.add(object_key(gvk, object));
        }
        if drift::changes_kinds(gvk, old, new) {
            on_kinds();
        }
        if let Some(namespace) = change.new.as_deref().filter(|_| drift::brings_namespace(gvk, old, new)) {
            heard_of(&awaiting, &works, namespace.metadata.name.as_deref().unwrap_or_default());
        }
        // What we wrote ourselves is no drift.
        if change.ours || !drift::requeues(old, new) {
            return;
        }
        if let Some((_, work)) = drift::work_of(old.map(|o| o.metadata), new.map(|n| n.metadata)) {
            works.add(work.into());
        }
    }
}
