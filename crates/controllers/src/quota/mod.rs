//! FederatedResourceQuotas, into the clusters that they are assigned to, and what is used of them (propagation.md 25).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use ironclad_api::{
    ResourceList, names,
    policy::FederatedResourceQuota,
    work::{ResourceBinding, Work},
};
use ironclad_fleet::{ClusterName, gates::Gate};
use ironclad_propagation::{
    new_ids::NewIds,
    quota::{self, Effect, Overall, Seen, usage},
};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Context, index::BY_QUOTA, owned};

/// Quotas worked on at once.
const WORKERS: usize = 1;

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("federatedResourceQuota", &cx.seam.tasks, &cx.queues.quota, WORKERS, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    let quota = cx.quotas.get_key(key);
    let stored = cx.works.by_index(BY_QUOTA, &key.to_string());
    let works: Vec<Arc<Work>> = stored.iter().map(|work| cx.work_status.as_requested(work)).collect();
    let has_space = |cluster: &ClusterName| cx.namespaces.get("", &names::execution_namespace(&cluster.0)).is_some();
    let assigned = quota.iter().flat_map(|quota| &quota.spec.static_assignments);
    let clusters: BTreeSet<ClusterName> =
        assigned.map(|assignment| ClusterName::from(assignment.cluster_name.as_str())).filter(has_space).collect();
    let taken = quota.as_deref().filter(|_| counts(cx)).map(|quota| {
        let bindings = cx.bindings.namespaced.namespace(&key.namespace);
        usage::counted(&quota.spec.overall, bindings.iter().map(|binding| &binding.spec))
    });
    let overall = match (&taken, quota.as_deref()) {
        (Some(taken), Some(quota)) => {
            let steady = cx.counts.steady(key, (taken, quota::booked(quota)), cx.seam.clock.mono());
            Overall::Counted { taken, steady }
        }
        _ if enforces(cx) => Overall::Booked,
        _ => Overall::Summed,
    };
    let seen = Seen {
        namespace: &key.namespace,
        name: &key.name,
        quota: quota.as_deref(),
        works: &works,
        clusters: &clusters,
        overall,
    };
    let ids = NewIds::from(cx.seam.rng.uuid());
    let plan = quota::decide(&seen, ids);
    let mut next = if taken.is_some() { Next::After(cx.settings.propagation.quota_sync_period) } else { Next::Forget };
    if quota.is_none() {
        cx.counts.forget(key);
    }
    for effect in plan.effects {
        match effect {
            Effect::Work(write) => owned::send(cx, "federatedResourceQuota", &stored, write).await?,
            Effect::Status(part) => {
                let uid = quota.as_ref().and_then(|quota| quota.uid()).unwrap_or_default();
                cx.quota_status.want(key, &uid, "federatedResourceQuota", part, false);
            }
            Effect::CountAgain(wait) => next = Next::After(wait),
            Effect::Event(event) => cx.events.record(&event),
        }
    }
    Ok(next)
}

fn enforces(cx: &Context) -> bool {
    cx.settings.gates.enabled(Gate::FederatedQuotaEnforcement)
}

/// Whether what bindings take is counted here.
fn counts(cx: &Context) -> bool {
    enforces(cx) && cx.settings.controllers.enabled("federatedResourceQuotaEnforcement")
}

/// What was counted and booked of each quota, and since when it is so.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<BTreeMap<Key, Count>>);

#[derive(Debug)]
struct Count {
    taken: ResourceList,
    booked: ResourceList,
    since: Instant,
}

impl Counts {
    /// For how long these two have been as they are.
    fn steady(&self, key: &Key, (taken, booked): (&ResourceList, ResourceList), now: Instant) -> Duration {
        let mut all = self.0.lock();
        match all.get(key) {
            Some(count) if count.taken == *taken && count.booked == booked => {
                now.saturating_duration_since(count.since)
            }
            _ => {
                all.insert(key.clone(), Count { taken: taken.clone(), booked, since: now });
                Duration::ZERO
            }
        }
    }

    fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

/// A binding went: what it took is given back.
pub(crate) fn on_binding(cx: &Arc<Context>, change: &Change<ResourceBinding>) {
    if let (Some(old), None) = (&change.old, &change.new)
        && counts(cx)
    {
        for quota in cx.quotas.namespace(&old.namespace().unwrap_or_default()) {
            // Later, so that many that go together are one count.
            cx.queues.quota.add_after(Key::of(&*quota), quota::COUNT_SETTLES);
        }
    }
}

/// A quota came, changed or went. What admission books is no change of its own: there is one for each binding.
pub(crate) fn on_quota(cx: &Arc<Context>, change: &Change<FederatedResourceQuota>) {
    let without_booked = |quota: &FederatedResourceQuota| {
        let mut status = quota.status.clone().unwrap_or_default();
        status.overall_used.clear();
        (quota.metadata.generation, quota.metadata.deletion_timestamp.clone(), status)
    };
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && enforces(cx)
        && without_booked(old) == without_booked(new)
    {
        return;
    }
    if let Some(quota) = change.new.as_ref().or(change.old.as_ref()) {
        cx.queues.quota.add(Key::of(&**quota));
    }
}

/// A Work of a quota came, changed, told something or went.
pub(crate) fn on_work(cx: &Arc<Context>, change: &Change<Work>) {
    for work in [&change.old, &change.new].into_iter().flatten() {
        for value in quota::of_work(work) {
            if let Some((namespace, name)) = value.split_once('/') {
                cx.queues.quota.add(Key::new(namespace, name));
            }
        }
    }
}

/// The execution space of a cluster came: quotas that are assigned to it can go there.
pub(crate) fn on_namespace(cx: &Arc<Context>, change: &Change<Namespace>) {
    let (None, Some(namespace)) = (&change.old, &change.new) else { return };
    let Ok(cluster) = names::cluster_of_execution_namespace(&namespace.name_any()).map(str::to_owned) else { return };
    for quota in cx.quotas.list() {
        if quota.spec.static_assignments.iter().any(|assignment| assignment.cluster_name == cluster) {
            cx.queues.quota.add(Key::of(&*quota));
        }
    }
}
