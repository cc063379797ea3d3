//! FederatedResourceQuotas, into the clusters that they are assigned to, and what is used of them (propagation.md 25).

use std::{collections::BTreeSet, sync::Arc};

use ironclad_api::{names, policy::FederatedResourceQuota, work::Work};
use ironclad_fleet::{ClusterName, gates::Gate};
use ironclad_propagation::quota::{self, Effect, Overall, Seen};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;

use crate::{Context, context::BY_QUOTA, owned};

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
    let works: Vec<Arc<Work>> = stored.iter().map(|work| cx.work_as_written(work)).collect();
    let has_space = |cluster: &ClusterName| cx.namespaces.get("", &names::execution_namespace(&cluster.0)).is_some();
    let assigned = quota.iter().flat_map(|quota| &quota.spec.static_assignments);
    let clusters: BTreeSet<ClusterName> =
        assigned.map(|assignment| ClusterName::from(assignment.cluster_name.as_str())).filter(has_space).collect();
    let enforced = cx.settings.gates.enabled(Gate::FederatedQuotaEnforcement);
    let seen = Seen {
        namespace: &key.namespace,
        name: &key.name,
        quota: quota.as_deref(),
        works: &works,
        clusters: &clusters,
        overall: if enforced { Overall::Enforced } else { Overall::Summed },
    };
    let rng = cx.seam.rng.clone();
    let plan = quota::decide(&seen, || rng.uuid());
    for effect in plan.effects {
        match effect {
            Effect::Work(write) => owned::send(cx, "federatedResourceQuota", &stored, write).await?,
            Effect::Status(part) => {
                let uid = quota.as_ref().and_then(|quota| quota.uid()).unwrap_or_default();
                cx.quota_status.want(key, &uid, "federatedResourceQuota", part, false);
            }
            Effect::Event(event) => cx.emit(&event),
        }
    }
    Ok(Next::Forget)
}

/// A quota came, changed or went.
pub(crate) fn on_quota(cx: &Arc<Context>, change: &Change<FederatedResourceQuota>) {
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
