//! Changes after which a distributed HorizontalPodAutoscaler is reconciled.

use std::collections::BTreeSet;

use ironclad_api::{
    annotations,
    cluster::Cluster,
    policy::{OverridePolicy, OverrideSpec},
    work::{ObjectReference, ResourceBinding, Work},
};
use ironclad_fleet::ObjectKey;
use ironclad_propagation::{changes, overrides};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use super::{decides_in_members, report, target_key};

/// Namespace and name of an object.
pub type Key = (String, String);

/// Returns true if the object has to be reconciled: it is new, gone, or changed other than in its status and in what
/// the controller writes itself.
#[must_use]
pub fn autoscaler(old: Option<&HorizontalPodAutoscaler>, new: Option<&HorizontalPodAutoscaler>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let meaning = |hpa: &HorizontalPodAutoscaler| {
        let metadata = &hpa.metadata;
        let mut annotations = metadata.annotations.clone().unwrap_or_default();
        annotations.remove(annotations::FEDERATED_HPA_STATUS);
        (metadata.generation, metadata.uid.clone(), metadata.labels.clone(), annotations, metadata.deletion_timestamp.clone())
    };
    old.spec != new.spec || meaning(old) != meaning(new)
}

/// The targets whose copies in members have to be written again: members begin or cease to decide their replicas.
#[must_use]
pub fn target(old: Option<&HorizontalPodAutoscaler>, new: Option<&HorizontalPodAutoscaler>) -> BTreeSet<ObjectKey> {
    let of = |hpa: Option<&HorizontalPodAutoscaler>| hpa.filter(|hpa| decides_in_members(hpa)).map(target_key);
    let (old, new) = (of(old), of(new));
    if old == new { BTreeSet::new() } else { old.into_iter().chain(new).collect() }
}

/// Returns true if the autoscalers of a binding's template have to be reconciled: its spec, its life or the scheduler's
/// progress changed.
#[must_use]
pub fn binding(old: Option<&ResourceBinding>, new: Option<&ResourceBinding>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let observed = |binding: &ResourceBinding| binding.status.as_ref().map(|status| status.scheduler_observed_generation);
    changes::binding(Some(&old.metadata), &new.metadata) || observed(old) != observed(new)
}

/// Returns true if the autoscalers with a share in a cluster have to be reconciled: it became ready or unready, its
/// taints or APIs changed, or it is being deleted.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    changes::cluster(Some(old), new) || old.spec.taints != new.spec.taints
}

/// The object that a Work was made for, if it has to be reconciled: a report came, or somebody changed the Work.
#[must_use]
pub fn work(old: Option<&Work>, new: Option<&Work>) -> Option<Key> {
    let work = new.or(old)?;
    let annotations = work.metadata.annotations.as_ref()?;
    let of = |key: &str| annotations.get(key).cloned();
    let key = (of(annotations::FEDERATED_HPA_NAMESPACE)?, of(annotations::FEDERATED_HPA_NAME)?);
    is_different(old, new).then_some(key)
}

/// Returns true if the autoscalers of a target have to be reconciled, because one of the target's Works came, went or
/// was applied.
#[must_use]
pub fn target_work(old: Option<&Work>, new: Option<&Work>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    let applied = |work: &Work| report::is_applied(work);
    changes::work(Some(&old.metadata), &new.metadata) || applied(old) != applied(new)
}

fn is_different(old: Option<&Work>, new: Option<&Work>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return true };
    changes::work(Some(&old.metadata), &new.metadata) || old.status != new.status || old.metadata.labels != new.metadata.labels
}

/// The object that an OverridePolicy was written for, if somebody changed or deleted the policy.
#[must_use]
pub fn own_policy(old: Option<&OverridePolicy>, new: Option<&OverridePolicy>) -> Option<Key> {
    let policy = [old, new].into_iter().flatten().find(|policy| overrides::is_of_autoscaler(policy))?;
    let owner = policy.metadata.owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))?;
    let parts = |policy: Option<&OverridePolicy>| {
        policy.map(|policy| (policy.spec.clone(), policy.metadata.labels.clone(), policy.metadata.annotations.clone()))
    };
    let namespace = policy.metadata.namespace.clone()?;
    (parts(old) != parts(new)).then(|| (namespace, owner.name.clone()))
}

/// Returns true if a policy of a user may change an autoscaler's objects in members, before or after its change.
#[must_use]
pub fn users_policy(old: Option<&OverrideSpec>, new: Option<&OverrideSpec>, autoscaler: &ObjectReference) -> bool {
    old != new && [old, new].into_iter().flatten().any(|spec| overrides::may_take(spec, autoscaler))
}

/// Returns true if the report of a Work is news, so that it counts after the start of a controller.
#[must_use]
pub fn is_report(old: Option<&Work>, new: &Work) -> bool {
    old.is_some_and(|old| old.status != new.status)
}
