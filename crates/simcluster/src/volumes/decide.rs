//! Decision about a claim: a simulated member has unlimited storage of every class.

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
};
use kube::api::ObjectMeta;

/// Annotation of the volumes that this crate created; others are ignored.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "sim.ironclad.io";

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Leave,
    Provision(Box<PersistentVolume>),
    /// The volume exists: write its name into the claim.
    Name(String),
    /// Write the claim into the volume that it names.
    Claim(Box<ObjectReference>),
    /// Write the claim's status `Bound`.
    WriteStatus(Box<PersistentVolumeClaimStatus>),
}

pub(crate) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or(""))
}

/// Decides about this claim; `volume` is the one that it names, otherwise one that names the claim, or the one of
/// [`volume_name`], if it exists.
pub(crate) fn decide(claim: &PersistentVolumeClaim, volume: Option<&PersistentVolume>) -> Step {
    let spec = claim.spec.clone().unwrap_or_default();
    let bound = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    if claim.metadata.deletion_timestamp.is_some() || bound {
        return Step::Leave;
    }
    let is_named = spec.volume_name.as_deref().is_some_and(|name| !name.is_empty());
    let of_volume = volume.and_then(|volume| volume.spec.clone());
    let claim_ref = of_volume.as_ref().and_then(|s| s.claim_ref.as_ref());
    match (is_named, volume) {
        (false, None) => Step::Provision(Box::new(provision(claim, volume_name(claim)))),
        (false, Some(volume)) => Step::Name(volume.metadata.name.clone().unwrap_or_default()),
        // A volume that a user names, and has yet to make.
        (true, None) => Step::Leave,
        (true, Some(_)) => match claim_ref {
            Some(found) if found.uid.is_some() && found.uid == claim.metadata.uid => {
                Step::WriteStatus(Box::new(PersistentVolumeClaimStatus {
                    phase: Some("Bound".into()),
                    access_modes: of_volume.as_ref().and_then(|s| s.access_modes.clone()),
                    capacity: of_volume.and_then(|s| s.capacity),
                    ..PersistentVolumeClaimStatus::default()
                }))
            }
            Some(found) if !is_for(found, claim) => Step::Leave,
            _ => Step::Claim(Box::new(reference(claim))),
        },
    }
}

/// Returns true if a volume with this reference is meant for the claim: users write no uid.
pub(crate) fn is_for(claim_ref: &ObjectReference, claim: &PersistentVolumeClaim) -> bool {
    (&claim_ref.namespace, &claim_ref.name) == (&claim.metadata.namespace, &claim.metadata.name)
        && claim_ref.uid.as_ref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
}

fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolumeClaim".into()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// Returns `true` if the volume is ours and its claim does not exist.
pub(crate) fn is_left_over(volume: &PersistentVolume, claim_uid: Option<&str>) -> bool {
    let ours =
        volume.metadata.annotations.as_ref().and_then(|a| a.get(PROVISIONED_BY)).is_some_and(|by| by == PROVISIONER);
    let spec = volume.spec.as_ref();
    let claimed_by = spec.and_then(|s| s.claim_ref.as_ref()).and_then(|r| r.uid.as_deref());
    let deletes = spec.and_then(|s| s.persistent_volume_reclaim_policy.as_deref()) == Some("Delete");
    ours && deletes && claimed_by.is_some() && claimed_by != claim_uid && volume.metadata.deletion_timestamp.is_none()
}

fn provision(claim: &PersistentVolumeClaim, name: String) -> PersistentVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes,
            capacity: spec.resources.and_then(|r| r.requests),
            claim_ref: Some(reference(claim)),
            host_path: Some(HostPathVolumeSource { path: format!("/simulated/{name}"), type_: None }),
            persistent_volume_reclaim_policy: Some("Delete".into()),
            storage_class_name: spec.storage_class_name,
            volume_mode: spec.volume_mode,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;

    use super::*;

    fn claim(volume: &str, phase: &str) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            metadata: ObjectMeta { name: Some("c".into()), uid: Some("u".into()), ..ObjectMeta::default() },
            spec: Some(PersistentVolumeClaimSpec {
                volume_name: (!volume.is_empty()).then(|| volume.to_owned()),
                access_modes: Some(vec!["ReadWriteOnce".into()]),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: Some(PersistentVolumeClaimStatus {
                phase: Some(phase.into()),
                ..PersistentVolumeClaimStatus::default()
            }),
        }
    }

    #[test]
    fn a_claim_is_provisioned_named_and_bound_in_steps() {
        let Step::Provision(volume) = decide(&claim("", "Pending"), None) else { panic!("no volume is provisioned") };
        assert_eq!(volume.metadata.name.as_deref(), Some("pvc-u"));
        assert_eq!(decide(&claim("", "Pending"), Some(&volume)), Step::Name("pvc-u".into()));
        let Step::WriteStatus(status) = decide(&claim("pvc-u", "Pending"), Some(&volume)) else {
            panic!("the status is not written")
        };
        assert_eq!((status.phase.as_deref(), status.access_modes.unwrap().len()), (Some("Bound"), 1));
        assert_eq!(decide(&claim("pvc-u", "Bound"), Some(&volume)), Step::Leave);
    }

    #[test]
    fn volumes_of_users_are_bound_as_they_say() {
        let volume = |claim: Option<(&str, Option<&str>)>| PersistentVolume {
            metadata: ObjectMeta { name: Some("mine".into()), ..ObjectMeta::default() },
            spec: Some(PersistentVolumeSpec {
                claim_ref: claim.map(|(name, uid)| ObjectReference {
                    name: Some(name.into()),
                    uid: uid.map(str::to_owned),
                    ..ObjectReference::default()
                }),
                access_modes: Some(vec!["ReadOnlyMany".into(), "ReadWriteOnce".into()]),
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        };
        for (name, named, found, want) in [
            ("a volume that does not exist yet", "mine", None, "leave"),
            ("a free one", "mine", Some(volume(None)), "claim u"),
            ("one that names the claim", "mine", Some(volume(Some(("c", None)))), "claim u"),
            ("one that has it", "mine", Some(volume(Some(("c", Some("u"))))), "bound, 2 modes"),
            ("one of another claim", "mine", Some(volume(Some(("d", None)))), "leave"),
            ("one of an older claim of this name", "mine", Some(volume(Some(("c", Some("old"))))), "leave"),
            ("found by the claim that it names", "", Some(volume(Some(("c", None)))), "name mine"),
        ] {
            let got = match decide(&claim(named, "Pending"), found.as_ref()) {
                Step::Leave => "leave".to_owned(),
                Step::Provision(_) => "provision".to_owned(),
                Step::Name(name) => format!("name {name}"),
                Step::Claim(reference) => format!("claim {}", reference.uid.unwrap()),
                Step::WriteStatus(status) => format!("bound, {} modes", status.access_modes.unwrap().len()),
            };
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn a_volume_is_deleted_with_its_claim() {
        let Step::Provision(volume) = decide(&claim("", "Pending"), None) else { panic!("no volume is provisioned") };
        assert!(!is_left_over(&volume, Some("u")));
        assert!(is_left_over(&volume, None) && is_left_over(&volume, Some("another of that name")));
        let mut kept = volume.clone();
        kept.spec.as_mut().unwrap().persistent_volume_reclaim_policy = Some("Retain".into());
        assert!(!is_left_over(&kept, None), "its policy is Retain");
        let mut foreign = volume;
        foreign.metadata.annotations = None;
        assert!(!is_left_over(&foreign, None), "somebody else's");
    }
}
