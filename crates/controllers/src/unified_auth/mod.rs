//! The control plane's RBAC of the proxy, into members (propagation.md 23). It reads caches and writes two Works a cluster.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_api::{cluster::Cluster, names, work::Work};
use ironclad_fleet::ClusterName;
use ironclad_propagation::{
    changes,
    new_ids::NewIds,
    unified_auth::{self, Rbac, Rule, Seen, Subject},
};
use ironclad_runtime::{Change, Failure, Next, run_workers};
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::{Context, index::cluster_of, owned};

/// Clusters worked on at once.
const WORKERS: usize = 1;

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("unifiedAuth", &cx.seam.tasks, &cx.queues.unified_auth, WORKERS, move |name| {
        let cx = worker.clone();
        async move { reconcile(&cx, &name).await }
    });
}

async fn reconcile(cx: &Context, name: &ClusterName) -> Result<Next, Failure> {
    let space = names::execution_namespace(&name.0);
    let (Some(cluster), Some(_)) = (cx.clusters.get("", &name.0), cx.namespaces.get("", &space)) else {
        return Ok(Next::Forget);
    };
    let works: Vec<Arc<Work>> =
        unified_auth::keys(name).iter().filter_map(|key| cx.works.get(&space, &key.name)).collect();
    let rbac = rbac(cx);
    let ids = NewIds::from(cx.seam.rng.uuid());
    let plan = unified_auth::decide(&Seen { cluster: &cluster, rbac: &rbac, works: &works }, ids);
    let mut outcome = Ok(());
    for write in plan.effects {
        outcome = owned::send(cx, "unifiedAuth", &works, write).await;
        if outcome.is_err() {
            break;
        }
    }
    tell(cx, &cluster, outcome.as_ref().err());
    outcome.map(|()| Next::Forget)
}

/// What was last told to have failed, by cluster.
#[derive(Debug, Default)]
pub(crate) struct Failing(Mutex<BTreeMap<ClusterName, String>>);

fn tell(cx: &Context, cluster: &Cluster, failure: Option<&Failure>) {
    // Somebody wrote in between, and the next pass sees it: nothing that people can do anything about.
    if matches!(failure, Some(Failure::Conflict(_) | Failure::AlreadyExists(_))) {
        return;
    }
    let name = ClusterName::from(cluster.name_any().as_str());
    let failure = failure.map(ToString::to_string);
    let mut failing = cx.impersonation_fails.0.lock();
    if let Some(event) = unified_auth::sync_event(cluster, failure.as_deref(), failing.get(&name).map(String::as_str)) {
        cx.events.record(&event);
    }
    match failure {
        Some(failure) => failing.insert(name, failure),
        None => failing.remove(&name),
    };
}

/// The rules and subjects, as the decision takes them.
fn rbac(cx: &Context) -> Rbac {
    let bindings = cx.cluster_role_bindings.list();
    Rbac {
        roles: cx.cluster_roles.list().iter().map(|role| (role.name_any(), rules(role))).collect(),
        bindings: bindings.iter().map(|binding| (binding.role_ref.name.clone(), subjects(binding))).collect(),
    }
}

fn rules(role: &ClusterRole) -> Vec<Rule> {
    let rules = role.rules.iter().flatten();
    rules
        .map(|rule| Rule {
            groups: rule.api_groups.clone().unwrap_or_default(),
            resources: rule.resources.clone().unwrap_or_default(),
            names: rule.resource_names.clone().unwrap_or_default(),
        })
        .collect()
}

fn subjects(binding: &ClusterRoleBinding) -> Vec<Subject> {
    let subjects = binding.subjects.iter().flatten();
    subjects
        .map(|subject| Subject {
            kind: subject.kind.clone(),
            namespace: subject.namespace.clone().unwrap_or_default(),
            name: subject.name.clone(),
        })
        .collect()
}

/// The execution space of a cluster came: it can be given Works.
pub(crate) fn on_namespace(cx: &Arc<Context>, change: &Change<Namespace>) {
    if let (None, Some(namespace)) = (&change.old, &change.new)
        && let Ok(cluster) = names::cluster_of_execution_namespace(&namespace.name_any())
    {
        cx.queues.unified_auth.add(cluster.into());
    }
}

/// A cluster was joined, or its credentials moved.
pub(crate) fn on_cluster(cx: &Arc<Context>, change: &Change<Cluster>) {
    if let Some(new) = &change.new
        && changes::work(change.old.as_ref().map(|c| &c.metadata), &new.metadata)
    {
        cx.queues.unified_auth.add(new.name_any().as_str().into());
    }
}

/// A role that lets somebody in came, changed or went.
pub(crate) fn on_role(cx: &Arc<Context>, change: &Change<ClusterRole>) {
    let of = |role: &Option<Arc<ClusterRole>>| role.as_deref().map(rules).unwrap_or_default();
    let (old, new) = (of(&change.old), of(&change.new));
    if old != new && (unified_auth::concerns(&old) || unified_auth::concerns(&new)) {
        enqueue_all(cx);
    }
}

/// Somebody was given a role, or it was taken from them.
pub(crate) fn on_role_binding(cx: &Arc<Context>, change: &Change<ClusterRoleBinding>) {
    let of = |binding: &Option<Arc<ClusterRoleBinding>>| {
        binding.as_deref().map(|b| (b.role_ref.name.clone(), subjects(b))).unwrap_or_default()
    };
    if of(&change.old) != of(&change.new) {
        enqueue_all(cx);
    }
}

/// One of its Works went or was changed by somebody else.
pub(crate) fn on_work(cx: &Arc<Context>, change: &Change<Work>) {
    let Some(old) = change.old.as_deref().filter(|_| !change.ours) else { return };
    let Some(cluster) = cluster_of(old) else { return };
    let is_ours = unified_auth::keys(&cluster).iter().any(|key| *key.name == *old.name_any());
    let moved = change.new.as_deref().is_none_or(|new| changes::work(Some(&old.metadata), &new.metadata));
    if is_ours && moved {
        cx.queues.unified_auth.add(cluster);
    }
}

fn enqueue_all(cx: &Context) {
    for cluster in cx.clusters.list() {
        if cluster.spec.impersonator_secret_ref.is_some() {
            cx.queues.unified_auth.add_replay(cluster.name_any().as_str().into());
        }
    }
}
