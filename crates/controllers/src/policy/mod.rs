//! Policies: what they select is watched and gets a turn (propagation.md 6.1).

use std::{sync::Arc, time::Duration};

use ironclad_api::policy::{ClusterPropagationPolicy, PropagationPolicy, ResourceSelector};
use ironclad_fleet::{Gvk, ObjectKey};
use ironclad_runtime::{Change, Failure, Key, Next, run_workers};
use kube::Resource;

use crate::{
    Context,
    bindings::template_key,
    context::{BY_POLICY, policy_ids},
    objects::object_key,
};

/// A kind that nobody serves is looked for again after this time (propagation.md 2).
const KIND_AGAIN: Duration = Duration::from_secs(30);

pub(crate) fn start(cx: &Arc<Context>) {
    let worker = cx.clone();
    run_workers("policy", &cx.seam.tasks, &cx.queues.policy, 1, move |key| {
        let cx = worker.clone();
        async move { reconcile(&cx, &key).await }
    });
    for binding in cx.all_bindings() {
        cx.queues.detector.add_replay(binding.template());
    }
}

async fn reconcile(cx: &Context, key: &Key) -> Result<Next, Failure> {
    let (selectors, ids) = if key.namespace.is_empty() {
        let Some(policy) = cx.cluster_policies.get_key(key) else { return Ok(Next::Forget) };
        (policy.spec.resource_selectors.clone(), policy_ids(&*policy))
    } else {
        let Some(policy) = cx.policies.get_key(key) else { return Ok(Next::Forget) };
        (policy.spec.resource_selectors.clone(), policy_ids(&*policy))
    };
    let mut next = Next::Forget;
    for selector in &selectors {
        if !fan_out(cx, &key.namespace, selector).await? {
            next = Next::After(KIND_AGAIN);
        }
    }
    for binding in ids.iter().flat_map(|id| cx.bindings_by(BY_POLICY, id)) {
        cx.queues.detector.add_replay(template_key(binding.spec()));
    }
    Ok(next)
}

/// Gives the templates that a selector may mean a turn; false if nobody serves their kind.
async fn fan_out(cx: &Context, policy_namespace: &str, selector: &ResourceSelector) -> Result<bool, Failure> {
    let gvk = Gvk::from_manifest(&selector.api_version, &selector.kind);
    let Some(informer) = cx.templates.informer(&gvk).await? else { return Ok(false) };
    informer.synced().await;
    let namespace = if policy_namespace.is_empty() { selector.namespace.as_str() } else { policy_namespace };
    if !selector.name.is_empty() && !namespace.is_empty() {
        let key = ObjectKey { gvk, namespace: namespace.into(), name: selector.name.as_str().into() };
        cx.queues.detector.add_replay(key);
        return Ok(true);
    }
    let all = if namespace.is_empty() { informer.list() } else { informer.namespace(namespace) };
    for object in all {
        cx.queues.detector.add_replay(object_key(&gvk, &object));
    }
    Ok(true)
}

pub(crate) fn on_policy(cx: &Arc<Context>, change: &Change<PropagationPolicy>) {
    changed(cx, change.old.as_deref(), change.new.as_deref());
}

pub(crate) fn on_cluster_policy(cx: &Arc<Context>, change: &Change<ClusterPropagationPolicy>) {
    changed(cx, change.old.as_deref(), change.new.as_deref());
}

fn changed<K: Resource>(cx: &Context, old: Option<&K>, new: Option<&K>) {
    let Some(policy) = new.or(old) else { return };
    let of = |policy: &K| (policy.meta().generation, policy.meta().deletion_timestamp.is_some());
    if old.map(of) != new.map(of) {
        cx.queues.policy.add(Key::of(policy));
    }
}
