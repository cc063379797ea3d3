//! The status of Works, added up on the binding and on the template (propagation.md 16, 17).

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{
    cluster::Cluster,
    conditions,
    work::{ClusterResourceBinding, ResourceBinding, Work, WorkStatus},
};
use ironclad_fleet::{ClusterName, ObjectKey};
use ironclad_propagation::binding_status::{self, Effect, Seen, SeenTemplate};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use kube::{Resource, ResourceExt as _};
use serde_json::Value;

use crate::{
    Context,
    index::{BY_BINDING, BY_EVICTION, BY_TARGET, BY_TEMPLATE, binding_of, cluster_of, template_name},
};

/// Bindings, and templates, added up at once.
const WORKERS: usize = 2;

/// The controller, as `--controllers` names it.
const NAME: &str = "bindingStatus";

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers(NAME, &cx.seam.tasks, &cx.queues.binding_status, WORKERS, move |key| {
        let cx = worker.clone();
        async move { binding(&cx, &key) }
    });
    let worker = cx.clone();
    run_workers("templateStatus", &cx.seam.tasks, &cx.queues.template_status, WORKERS, move |key| {
        let cx = worker.clone();
        async move { template(&cx, &key).await }
    });
}

/// It only reads caches and wants a status: nothing to wait for.
fn binding(cx: &Context, key: &Key) -> Result<Next, Failure> {
    if !crate::runs(cx, NAME) {
        return Ok(Next::Forget);
    }
    let Some(binding) = cx.bindings.get_as_requested(key) else { return Ok(Next::Forget) };
    let Some(id) = binding.view().permanent_id() else { return Ok(Next::Forget) };
    let works: Vec<Arc<Work>> =
        cx.works.by_index(BY_BINDING, id).iter().map(|work| cx.work_status.as_requested(work)).collect();
    let not_ready: BTreeSet<ClusterName> = works
        .iter()
        .filter_map(|work| cluster_of(work))
        .filter(|name| cx.clusters.get("", &name.0).is_none_or(|c| c.ready() != Some(conditions::TRUE)))
        .collect();
    let works: Vec<&Work> = works.iter().map(|w| &**w).collect();
    let seen = Seen { binding: binding.view(), works: &works, not_ready: &not_ready };
    let plan = binding_status::binding(&seen, cx.seam.clock.wall_seconds());
    for effect in plan.effects {
        match effect {
            Effect::Status(part) => cx.bindings.request_status(key, binding.uid(), "bindingStatus", part),
            Effect::Event(event) => cx.events.record(&event),
        }
    }
    cx.queues.template_status.add(binding.template());
    Ok(Next::Forget)
}

async fn template(cx: &Context, key: &ObjectKey) -> Result<Next, Failure> {
    if !crate::runs(cx, NAME) {
        return Ok(Next::Forget);
    }
    if cx.templates.listed(&key.gvk).await?.is_none() {
        return Ok(Next::Forget);
    }
    let Some(template) = cx.templates.get(key) else { return Ok(Next::Forget) };
    let Some(found) = cx.bindings.by_index(BY_TEMPLATE, &template_name(key)).into_iter().next() else {
        return Ok(Next::Forget);
    };
    let binding_key = found.view().key();
    let Some(binding) = cx.bindings.get_as_requested(&Key::new(&binding_key.namespace, &binding_key.name)) else {
        return Ok(Next::Forget);
    };
    let uid = template.uid().unwrap_or_default();
    let mut object: Value = serde_json::to_value(&*template).map_err(|e| Failure::Invalid(e.to_string()))?;
    let standing = object.get("status").cloned().unwrap_or(Value::Null);
    if let Some(status) = cx.template_status.read(key, &uid, || standing) {
        object["status"] = status;
    }
    let interpreter = cx.interpreter();
    let seen = SeenTemplate { template: &object, binding: binding.view(), interpreter: &interpreter };
    let now = cx.seam.clock.wall_seconds();
    let settled = cx.interpreters.resolve(&interpreter, || binding_status::template(&seen, now)).await;
    for effect in settled.plan.effects {
        match effect {
            Effect::Status(part) => cx.template_status.want(key, &uid, "bindingStatus", part, false),
            Effect::Event(event) => cx.events.record(&event),
        }
    }
    Ok(settled.retry.next(Next::Forget))
}

/// A Work's status came, changed or went with it.
pub(crate) fn on_work(cx: &Arc<Context>, change: &Change<Work>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    if let (None, Some(work), true) = (old, new, cx.works.is_synced()) {
        cx.work_status.note_activity(Key::of(work));
    }
    fn told(work: Option<&Work>) -> Option<(&Option<WorkStatus>, bool)> {
        work.map(|work| (&work.status, work.metadata.deletion_timestamp.is_some()))
    }
    if told(old) == told(new) {
        return;
    }
    if let Some(key) = new.or(old).and_then(binding_of) {
        cx.queues.binding_status.add(key);
    }
}

/// Its targets changed, so the expected clusters did; or it is new to this process. Its own status does not count, but what
/// it says goes on to the template.
pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    if let (None, Some(binding), true) = (&change.old, &change.new, cx.bindings.namespaced.is_synced()) {
        cx.bindings.note_activity(&Key::of(&**binding));
    }
    let moved = change.old.as_ref().map(|b| &b.spec) != change.new.as_ref().map(|b| &b.spec);
    let told = change.old.as_ref().map(|b| &b.status) != change.new.as_ref().map(|b| &b.status);
    changed(cx, change.new.as_deref(), moved, told, |b| crate::index::template_key(&b.spec));
}

/// The same for bindings of cluster-scoped templates.
pub(crate) fn on_cluster_binding(cx: &Arc<Context>, change: &Change<ClusterResourceBinding>) {
    if let (None, Some(binding), true) = (&change.old, &change.new, cx.bindings.cluster_scoped.is_synced()) {
        cx.bindings.note_activity(&Key::of(&**binding));
    }
    let moved = change.old.as_ref().map(|b| &b.spec) != change.new.as_ref().map(|b| &b.spec);
    let told = change.old.as_ref().map(|b| &b.status) != change.new.as_ref().map(|b| &b.status);
    changed(cx, change.new.as_deref(), moved, told, |b| crate::index::template_key(&b.spec));
}

fn changed<K: Resource>(cx: &Context, new: Option<&K>, moved: bool, told: bool, template: fn(&K) -> ObjectKey) {
    let Some(new) = new else { return };
    if moved {
        cx.queues.binding_status.add(Key::of(new));
    } else if told {
        cx.queues.template_status.add(template(new));
    }
}

/// What is reported from a cluster counts only while it is Ready (row 6 of 31), so whoever has a copy there looks again when that
/// changes: the Works themselves need not.
pub(crate) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    let ready = |cluster: &Option<Arc<Cluster>>| cluster.as_ref().is_some_and(|c| c.ready() == Some(conditions::TRUE));
    let Some(cluster) = change.new.as_ref().filter(|_| ready(&change.new) != ready(&change.old)) else { return };
    let name = cluster.name_any();
    for binding in cx.bindings.by_index(BY_TARGET, &name).into_iter().chain(cx.bindings.by_index(BY_EVICTION, &name)) {
        let key = binding.key();
        if ready(&change.new) {
            cx.queues.binding_status.add(key);
        } else {
            // Nobody waits for it, and there may be thousands.
            cx.queues.binding_status.add_replay(key);
        }
    }
}
