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
    /// Write the claim's status `Bound`.
    WriteStatus(Box<PersistentVolumeClaimStatus>),
}

pub(crate) fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or(""))
}

/// Decides about this claim; `volume` is the one of [`volume_name`], if it exists.
pub(crate) fn decide(claim: &PersistentVolumeClaim, volume: Option<&PersistentVolume>) -> Step {
    let spec = claim.spec.clone().unwrap_or_default();
    let bound = claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Bound");
    if claim.metadata.deletion_timestamp.is_some() || bound {
        return Step::Leave;
    }
    let own = volume_name(claim);
    match spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
        // The user chose a volume: leave the binding to the user.
        Some(name) if name != own => Step::Leave,
        Some(_) => Step::WriteStatus(Box::new(PersistentVolumeClaimStatus {
            phase: Some("Bound".into()),
            access_modes: spec.access_modes,
            capacity: spec.resources.and_then(|r| r.requests),
            ..PersistentVolumeClaimStatus::default()
        })),
        None if volume.is_some() => Step::Name(own),
        None => Step::Provision(Box::new(provision(claim, own))),
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
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("PersistentVolumeClaim".into()),
                namespace: claim.metadata.namespace.clone(),
                name: claim.metadata.name.clone(),
                uid: claim.metadata.uid.clone(),
                ..ObjectReference::default()
            }),
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
        assert_eq!(decide(&claim("other", "Pending"), None), Step::Leave, "a volume of the user's choice");
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
