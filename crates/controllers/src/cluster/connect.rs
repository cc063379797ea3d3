//! Connects a member, once for each set of credentials, and starts what runs over the connection.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ironclad_api::{
    cluster::{Cluster, SyncMode},
    labels,
};
use ironclad_fleet::{ClusterName, Gvk};
use ironclad_runtime::{Queue, WatchScope};
use k8s_openapi::api::core::v1::Secret;

use super::{collect, health};
use crate::{
    Context,
    awaiting::Awaiting,
    execution, member_object,
    members::{Member, connection_identity},
    objects::Objects,
    work_status,
};

/// Makes sure that the cluster is connected with its present credentials. Pull members have an agent instead.
pub(super) fn connect(cx: &Arc<Context>, name: &ClusterName, cluster: &Cluster) {
    if cluster.spec.sync_mode != SyncMode::Push {
        return;
    }
    let credentials = cluster.spec.secret_ref.as_ref().and_then(|r| cx.secrets.get(&r.namespace, &r.name));
    let identity = connection_identity(cluster, credentials.as_deref());
    if cx.members.is_current(name, &identity) {
        return;
    }
    let member = make(cx, name, cluster, credentials.as_deref());
    let connected = member.as_ref().ok().cloned();
    cx.members.set(name, identity, member, |look| health::start(cx, name, look));
    if let Some(member) = connected {
        execution::start_member(cx, &member);
        work_status::start_member(cx, &member);
        if crate::runs(cx, health::NAME) {
            collect::start_member(cx, &member);
        }
        execution::enqueue_all(cx, &member);
    }
}

fn make(
    cx: &Arc<Context>,
    name: &ClusterName,
    cluster: &Cluster,
    credentials: Option<&Secret>,
) -> Result<Arc<Member>, String> {
    let client = cx.connector.connect(cluster, credentials)?;
    let seam = cx.seam.child(&format!("member/{name}"));
    let works = Queue::new(seam.clock.clone(), seam.rng.stream("jitter/works")).measured("execution", &cx.metrics.work);
    let statuses =
        Queue::new(seam.clock.clone(), seam.rng.stream("jitter/statuses")).measured("workStatus", &cx.metrics.work);
    let (kinds_changed, weak, cluster) = (Arc::new(AtomicBool::new(false)), Arc::downgrade(cx), name.clone());
    let changed = kinds_changed.clone();
    let on_kinds = move || {
        changed.store(true, Ordering::Relaxed);
        if let Some(cx) = weak.upgrade() {
            cx.members.look(&cluster);
        }
    };
    let awaiting = Arc::new(Awaiting::default());
    let on_change = execution::on_member_object(works.clone(), awaiting.clone(), statuses.clone(), on_kinds);
    // What is not ours is found by the answer of a create, at the price of one read.
    let scope = WatchScope { labels: Some(format!("{}={}", labels::MANAGED, labels::TRUE)), fields: None };
    let (interpreters, cached) = (cx.interpreters.clone(), cx.works.clone());
    let make = Box::new(move |gvk: &Gvk| member_object::informer(&interpreters, &cached, gvk));
    let objects = Objects::new(client.clone(), cx.mapper.clone(), &seam, seam.tasks.clone(), scope, make);
    objects.on_change(on_change);
    let name = name.clone();
    Ok(Arc::new(Member { name, client, objects, works, awaiting, statuses, kinds_changed, tasks: seam.tasks }))
}
