//! Policies: what they select is watched and gets a turn, and what they leave is let go (propagation.md 6).

mod apply;
mod observe;

use std::sync::Arc;

use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy, ResourceSelector};
use ironclad_fleet::{Gvk, PolicyKey, gates::Gate};
use ironclad_propagation::{changes, new_ids::NewIds, policy, policy_match::Policy};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};

use crate::{Context, detector::AnyPolicy};

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("policy", &cx.seam.tasks, &cx.queues.policy, 1, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
    // What is bound is watched, whatever its policy says by now.
    for binding in cx.bindings.list() {
        cx.queues.detector.add_replay(binding.template());
    }
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    let Some(observed) = observe::observe(cx, key).await? else { return Ok(Next::Forget) };
    let ids = NewIds::from(cx.seam.rng.uuid());
    let plan = observed.with_seen(cx.seam.clock.wall(), |seen| policy::decide(seen, ids));
    apply::apply(cx, &observed, plan).await
}

pub(crate) fn on_policy(cx: &Arc<Context>, change: &Change<PropagationPolicy>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    changed(cx, old.map(Policy::Namespaced), new.map(Policy::Namespaced));
}

pub(crate) fn on_cluster_policy(cx: &Arc<Context>, change: &Change<ClusterPropagationPolicy>) {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    changed(cx, old.map(Policy::Cluster), new.map(Policy::Cluster));
}

fn changed(cx: &Context, old: Option<Policy<'_>>, new: Option<Policy<'_>>) {
    let Some(policy) = new.or(old) else { return };
    if !changes::policy(old.map(Policy::metadata), new.map(Policy::metadata)) {
        return;
    }
    cx.queues.policy.add(queue_key(&policy.key()));
    if let (Some(old), Some(new)) = (old, new)
        && cx.settings.gates.enabled(Gate::PropagationPolicyPreemption)
    {
        // Whoever may preempt what this one holds by now, the strongest first.
        let all = if policy.key().namespace.is_empty() {
            cx.all_cluster_policies()
        } else {
            cx.policies_in(&policy.key().namespace)
        };
        let views: Vec<Policy<'_>> = all.iter().map(AnyPolicy::view).collect();
        for key in policy::policies_that_gain(&views, old, new) {
            cx.queues.policy.add(queue_key(&key));
        }
    }
}

/// A kind came: policies that select it and found nobody to serve it look again.
pub(crate) fn wake_for_kinds(cx: &Context) {
    let all = cx.policies.list().into_iter().map(AnyPolicy::Namespaced).chain(cx.all_cluster_policies());
    for policy in all {
        let selectors = &policy.view().spec().resource_selectors;
        let watched =
            |s: &ResourceSelector| cx.templates.watched(&Gvk::from_manifest(&s.api_version, &s.kind)).is_some();
        if !selectors.iter().all(watched) {
            cx.queues.policy.add_replay(queue_key(&policy.view().key()));
        }
    }
}

fn queue_key(key: &PolicyKey) -> Key {
    Key::new(&key.namespace, &key.name)
}
