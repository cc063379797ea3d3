//! Decision about the owners of a StatefulSet's claims (`persistentVolumeClaimRetentionPolicy`). The garbage collector
//! deletes a claim with its owner.

use k8s_openapi::{
    api::apps::v1::StatefulSetPersistentVolumeClaimRetentionPolicy, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::api::ObjectMeta;

use crate::owner::controller_of;

/// Object with which a claim is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimOwner {
    /// None: the claim stays.
    Nobody,
    Set,
    Pod,
}

/// Returns the owner of a pod's claim; `condemned`: the pod is beyond the set's replicas.
pub(super) fn claim_owner(
    policy: Option<&StatefulSetPersistentVolumeClaimRetentionPolicy>,
    condemned: bool,
) -> ClaimOwner {
    let deletes = |of: Option<&String>| of.is_some_and(|value| value == "Delete");
    let when_deleted = deletes(policy.and_then(|policy| policy.when_deleted.as_ref()));
    let when_scaled = deletes(policy.and_then(|policy| policy.when_scaled.as_ref()));
    match (condemned && when_scaled, when_deleted) {
        (true, _) => ClaimOwner::Pod,
        (false, true) => ClaimOwner::Set,
        (false, false) => ClaimOwner::Nobody,
    }
}

/// Returns the owner references to write into a claim; `None` if they are right, or another controller owns the claim.
pub(super) fn owner_references(
    claim: &ObjectMeta,
    wanted: ClaimOwner,
    set: &OwnerReference,
    pod: &OwnerReference,
) -> Option<Vec<OwnerReference>> {
    // An earlier pod or set of the same name may still be noted.
    let is_ours = |owner: &OwnerReference| {
        [set, pod].iter().any(|other| (&owner.kind, &owner.name) == (&other.kind, &other.name))
    };
    if controller_of(claim).is_some_and(|owner| !is_ours(owner)) {
        return None;
    }
    let before = claim.owner_references.as_deref().unwrap_or_default();
    let mut owners: Vec<OwnerReference> = before.iter().filter(|owner| !is_ours(owner)).cloned().collect();
    match wanted {
        ClaimOwner::Nobody => {}
        ClaimOwner::Set => owners.push(set.clone()),
        ClaimOwner::Pod => owners.push(pod.clone()),
    }
    (owners != before).then_some(owners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{owner::controller_reference, testkit::meta};

    #[test]
    fn claims_are_owned_by_policy() {
        let policy = |deleted: &str, scaled: &str| {
            Some(StatefulSetPersistentVolumeClaimRetentionPolicy {
                when_deleted: Some(deleted.into()),
                when_scaled: Some(scaled.into()),
            })
        };
        for (name, policy, condemned, want) in [
            ("without a policy claims stay", None, true, ClaimOwner::Nobody),
            ("Retain", policy("Retain", "Retain"), true, ClaimOwner::Nobody),
            ("deleted with the set", policy("Delete", "Retain"), true, ClaimOwner::Set),
            ("deleted when scaled", policy("Retain", "Delete"), true, ClaimOwner::Pod),
            ("not while its pod is wanted", policy("Retain", "Delete"), false, ClaimOwner::Nobody),
            ("both: with the pod", policy("Delete", "Delete"), true, ClaimOwner::Pod),
            ("both: with the set", policy("Delete", "Delete"), false, ClaimOwner::Set),
        ] {
            assert_eq!(claim_owner(policy.as_ref(), condemned), want, "{name}");
        }
    }

    #[test]
    fn only_own_references_change() {
        let set = controller_reference("apps/v1", "StatefulSet", &meta("s"));
        let pod = controller_reference("v1", "Pod", &meta("s-0"));
        let mut note = controller_reference("v1", "ConfigMap", &meta("note"));
        note.controller = None;
        let foreign = controller_reference("x.io/v1", "Backup", &meta("b"));
        let mut earlier = pod.clone();
        earlier.uid = "uid-of-an-earlier-pod".into();
        for (name, before, wanted, want) in [
            ("nothing to change", vec![], ClaimOwner::Nobody, None),
            ("it is there", vec![set.clone()], ClaimOwner::Set, None),
            ("other owners stay", vec![note.clone()], ClaimOwner::Set, Some(vec![note.clone(), set.clone()])),
            ("from the set to the pod", vec![set.clone()], ClaimOwner::Pod, Some(vec![pod.clone()])),
            ("back again", vec![pod.clone()], ClaimOwner::Set, Some(vec![set.clone()])),
            ("an earlier pod of the name", vec![earlier], ClaimOwner::Pod, Some(vec![pod.clone()])),
            ("kept from now on", vec![set.clone()], ClaimOwner::Nobody, Some(vec![])),
            ("another controller's claim", vec![foreign], ClaimOwner::Set, None),
        ] {
            let claim = ObjectMeta { owner_references: Some(before), ..meta("data-s-0") };
            assert_eq!(owner_references(&claim, wanted, &set, &pod), want, "{name}");
        }
    }
}
