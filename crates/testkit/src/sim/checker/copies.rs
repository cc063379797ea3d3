//! Copies of workloads over time: never none, and with Directly never two (invariants 16, 18).

use std::{collections::BTreeSet, time::Duration};

use ironclad_api::{
    labels,
    policy::{ClusterAffinity, PurgeMode, ReplicaSchedulingType},
    work::{Manifest, ResourceBinding, ResourceBindingSpec, Work},
};
use ironclad_fleet::{BindingKey, BindingRef, ClusterName, ObjectKey, WorkKey, World as Fleet, affinity};
use kube::{Resource, ResourceExt as _};
use serde_json::Value;

use super::{
    Rules,
    bindings::{self, Bindings},
    clusters::Clusters,
};
use crate::sim::objects::CONFIG_SUFFIX;

/// Checks a new Work: with Directly the copy in a Ready cluster must be deleted before.
pub(super) fn work(
    at: Duration,
    key: &WorkKey,
    old: Option<&Work>,
    new: Option<&Work>,
    fleet: &Fleet,
    clusters: &Clusters,
    bindings: &Bindings,
    rules: &Rules,
    broken: &mut Vec<String>,
) {
    let (None, Some(new)) = (old, new) else { return };
    let Some(of) = id(new) else { return };
    let Some(binding) = fleet.bindings.values().find(|binding| id(&***binding) == Some(of)) else { return };
    for task in binding.spec.graceful_eviction_tasks.iter().filter(|t| t.purge_mode == Some(PurgeMode::Directly)) {
        let from = ClusterName::from(task.from_cluster.as_str());
        if from == key.cluster || binding.spec.target(&task.from_cluster).is_some() {
            continue;
        }
        // The copy was asked for before the eviction.
        let state = bindings.get(&BindingRef::from(&**binding).key());
        let since = state.and_then(|state| Some((state.on.get(&*key.cluster.0)?, state.leaving.get(&*from.0)?)));
        if since.is_some_and(|(asked, evicted)| asked < evicted && *evicted + rules.stale >= at) {
            continue;
        }
        // What fits moves, and the replicas for which the others have no room stay.
        if stays_in_part(&binding.spec) {
            continue;
        }
        let ready = clusters.get(&from).is_some_and(|state| state.is_surely_ready(at, rules.stale));
        let old_exists = fleet.works.iter().any(|(k, work)| k.cluster == from && id(&**work) == Some(of));
        if ready && old_exists {
            broken.push(format!("invariant 18: {} gets its copy while that in {from} exists", key.cluster));
        }
    }
}

/// Returns whether a divided workload has a place for some of its replicas, and not for the others.
fn stays_in_part(spec: &ResourceBindingSpec) -> bool {
    let placement = spec.placement.as_ref();
    let divided = placement.is_some_and(|p| p.replica_scheduling_type() == ReplicaSchedulingType::Divided);
    let placed: i64 = spec.clusters.iter().map(|target| i64::from(target.replicas)).sum();
    divided && placed > 0 && placed < i64::from(spec.replicas)
}

/// Checks a deleted copy: unless it was requested, another one must exist.
pub(super) fn deleted(
    cluster: &ClusterName,
    object: &ObjectKey,
    of: &str,
    fleet: &Fleet,
    bindings: &Bindings,
    rules: &Rules,
    abandoned: &mut BTreeSet<ObjectKey>,
    broken: &mut Vec<String>,
) {
    // Deleting a Cluster without a drain removes its copies immediately (specification/failover.md 9.5), and with
    // them the reason to keep a copy elsewhere whose deletion has begun.
    if fleet.clusters.get(cluster).is_none_or(|cluster| cluster.metadata.deletion_timestamp.is_some()) {
        abandoned.insert(object.clone());
        return;
    }
    let Some(template) = fleet.templates.get(object) else { return };
    let is_former = template.pointer("/metadata/uid").and_then(Value::as_str) != Some(of);
    if is_former || template.pointer("/metadata/deletionTimestamp").is_some() {
        return;
    }
    let Some(binding) = binding_of(object, fleet) else { return };
    let directly = goes_directly(binding, rules);
    let elsewhere = fleet.members.iter().any(|(name, objects)| name != cluster && objects.contains_key(object));
    let was_abandoned = abandoned.contains(object);
    let state = bindings.get(&BindingRef::from(binding).key());
    let outgrown = state.is_some_and(|state| state.outgrown.contains(&*cluster.0));
    let left_directly = state.is_some_and(|state| state.left_directly.contains(&*cluster.0));
    if directly
        || left_directly
        || elsewhere
        || was_abandoned
        || binding.metadata.deletion_timestamp.is_some()
        || was_asked_for(cluster, binding, fleet, outgrown)
    {
        return;
    }
    broken.push(format!("invariant 16: the last copy of {object} went, in {cluster}"));
}

/// Returns whether copies of the binding go before others run, as its user wants it.
fn goes_directly(binding: &ResourceBinding, rules: &Rules) -> bool {
    let behaviour = binding.spec.failover.as_ref();
    let mode = behaviour.and_then(|f| f.cluster.as_ref()).map_or(rules.purge_mode, |c| c.purge_mode());
    mode == PurgeMode::Directly
        || binding.spec.graceful_eviction_tasks.iter().any(|t| t.purge_mode == Some(PurgeMode::Directly))
}

/// Returns whether another cluster has a copy that is to stay: its Work is not being deleted.
pub(super) fn is_kept_elsewhere(cluster: &ClusterName, object: &ObjectKey, fleet: &Fleet) -> bool {
    let Some(binding) = binding_of(object, fleet) else { return false };
    let is_kept = |work: &Work| work.metadata.deletion_timestamp.is_none() && id(work) == id(binding);
    let mut works = fleet.works.iter().filter(|(key, work)| key.cluster != *cluster && is_kept(work));
    works.any(|(key, _)| fleet.members.get(&key.cluster).is_some_and(|copies| copies.contains_key(object)))
}

fn binding_of<'a>(object: &ObjectKey, fleet: &'a Fleet) -> Option<&'a ResourceBinding> {
    let is_of = |binding: &&ResourceBinding| {
        let resource = &binding.spec.resource;
        *resource.namespace == *object.namespace && *resource.name == *object.name && *resource.kind == *object.gvk.kind
    };
    fleet.bindings.values().map(|binding| &**binding).find(is_of)
}

/// A copy went with its Cluster, and the command had said that nothing is lost by deleting that: then a copy that is
/// ready must be elsewhere (rule 3 of specification/failover.md).
pub(super) fn unjoined(
    cluster: &ClusterName,
    object: &ObjectKey,
    of: &str,
    fleet: &Fleet,
    rules: &Rules,
    broken: &mut Vec<String>,
) {
    let Some(template) = fleet.templates.get(object) else { return };
    let current = template.pointer("/metadata/uid").and_then(Value::as_str) == Some(of);
    let wanted = template.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1) > 0;
    let ready = |copy: &Value| copy.pointer("/status/readyReplicas").and_then(Value::as_i64).unwrap_or(0) > 0;
    let elsewhere = fleet
        .members
        .iter()
        .any(|(name, objects)| name != cluster && objects.get(object).is_some_and(|copy| ready(copy)));
    // Its deletion was asked for before, and the command does not count it.
    let left = binding_of(object, fleet).is_some_and(|binding| goes_directly(binding, rules));
    if current && wanted && !elsewhere && !left {
        broken.push(format!(
            "invariant 17: {object} has no ready copy since {cluster} was unjoined, which was said to lose nothing"
        ));
    }
}

/// Wherever a copy of a workload is to stay, what it mounts stays, too (invariant *dependencies*).
pub(super) fn config_deleted(
    at: Duration,
    cluster: &ClusterName,
    key: &BindingKey,
    workload: &str,
    state: Option<&bindings::State>,
    fleet: &Fleet,
    rules: &Rules,
    broken: &mut Vec<String>,
) {
    let Some(binding) = fleet.bindings.get(key).filter(|binding| binding.metadata.deletion_timestamp.is_none()) else {
        return;
    };
    // Its policy does not ask for dependencies any more, or another policy has the workload now.
    if !binding.spec.propagate_deps {
        return;
    }
    let joined = fleet.clusters.get(cluster).is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_none());
    let of_workload = |object: &ObjectKey| {
        *object.gvk.kind == *"Deployment" && *object.namespace == *key.namespace && *object.name == *workload
    };
    let copy = fleet.members.get(cluster).is_some_and(|objects| objects.keys().any(of_workload));
    // One of a workload that was deleted and made again goes with its Work, in any order, and so does its ConfigMap.
    let is_live = |work: &Work| work.metadata.deletion_timestamp.is_none() && id(work) == id(&**binding);
    let copy = copy && fleet.works.iter().any(|(key, work)| key.cluster == *cluster && is_live(work));
    let of_former = fleet.works.iter().any(|(key, work)| {
        let ended = work.metadata.deletion_timestamp.as_ref();
        let is_former = ended.is_some_and(|ended| Some(ended) <= binding.metadata.creation_timestamp.as_ref());
        is_former && key.cluster == *cluster && carries_config(work, workload)
    });
    let since = state.and_then(|state| state.on.get(&*cluster.0));
    let is_target = binding.spec.target(&cluster.0).is_some() && since.is_some_and(|s| *s + 2 * rules.stale < at);
    let is_leaving = binding.spec.eviction(&cluster.0).is_some_and(|t| t.purge_mode != Some(PurgeMode::Directly));
    if joined && copy && !of_former && (is_target || is_leaving) {
        broken.push(format!("dependencies: the ConfigMap of {key} went from {cluster}, where its copy stays"));
    }
}

/// Returns whether the Work has the ConfigMap of this workload.
fn carries_config(work: &Work, workload: &str) -> bool {
    let is_config = |manifest: &Manifest| {
        let named = manifest.named();
        named.kind == "ConfigMap" && named.metadata.name.strip_suffix(CONFIG_SUFFIX) == Some(workload)
    };
    work.spec.workload.manifests.iter().any(is_config)
}

/// A user's placement leaves this cluster out, prefers an affinity group without it, or gives it no replica by its
/// weights, or a user scaled what it does not fit into any more, and the next copy is being made (decision 13), or
/// there is to be none: as for a workload of no replicas (specification/scheduling.md 8.7).
fn was_asked_for(cluster: &ClusterName, binding: &ResourceBinding, fleet: &Fleet, outgrown: bool) -> bool {
    if binding.spec.replicas == 0 && binding.spec.clusters.is_empty() {
        return true;
    }
    let (Some(placement), Some(object)) = (&binding.spec.placement, fleet.clusters.get(cluster)) else { return false };
    let targets = &binding.spec.clusters;
    let chosen_by = |affinity: &ClusterAffinity| {
        let chosen = |name: &str| {
            fleet.clusters.get(&ClusterName::from(name)).is_some_and(|target| affinity::chooses(affinity, target))
        };
        targets.iter().any(|target| chosen(&target.name))
    };
    let groups = &placement.cluster_affinities;
    // A user who edits the placement asks for the first ordered group that fits. A fault moves to later ones.
    let in_use = groups.iter().position(|group| chosen_by(&group.affinity)).map_or(groups.len(), |at| at + 1);
    let until = if binding.spec.eviction(&cluster.0).is_some() { groups.len() } else { in_use };
    let one = placement.cluster_affinity.iter();
    let mut all = one.chain(groups.iter().take(until).map(|group| &group.affinity)).peekable();
    let is_left_out = all.peek().is_some() && !all.any(|affinity| affinity::chooses(affinity, object));
    let in_making = fleet.works.iter().any(|(key, work)| {
        let is_live = work.metadata.deletion_timestamp.is_none() && id(&**work) == id(binding);
        is_live && targets.iter().any(|target| *target.name == *key.cluster.0)
    });
    // The user's weights divide the replicas afresh, wherever they were before (specification/scheduling.md 8.4).
    let is_weighed_out = placement.ignores_spread() && binding.spec.target(&cluster.0).is_none();
    (is_left_out && targets.is_empty()) || ((is_left_out || is_weighed_out || outgrown) && in_making)
}

/// Returns the permanent id in the labels of a binding or Work.
pub(super) fn id<K: Resource>(object: &K) -> Option<&str> {
    object.labels().get(labels::RESOURCE_BINDING_PERMANENT_ID).map(String::as_str)
}
