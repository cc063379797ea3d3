//! Decision whether storage that is being deleted is still in use.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::ObjectMeta;

use crate::pods::is_finished;

pub(crate) const OF_CLAIMS: &str = "kubernetes.io/pvc-protection";
pub(crate) const OF_VOLUMES: &str = "kubernetes.io/pv-protection";

pub(crate) fn claims_of(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    let pod_name = pod.metadata.name.as_deref().unwrap_or("");
    let claims = volumes.filter_map(|v| match (&v.persistent_volume_claim, &v.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{pod_name}-{}", v.name)),
        (None, None) => None,
    });
    claims.collect()
}

/// Returns the finalizers without this one, if the object is being deleted and has it.
pub(crate) fn without(meta: &ObjectMeta, finalizer: &str) -> Option<Vec<String>> {
    let finalizers = meta.finalizers.as_ref().filter(|_| meta.deletion_timestamp.is_some())?;
    let rest: Vec<String> = finalizers.iter().filter(|f| *f != finalizer).cloned().collect();
    (rest.len() < finalizers.len()).then_some(rest)
}

/// Returns `true` if one of these pods still uses the claim. A pod that has ended does not.
pub(crate) fn claim_is_used<'a>(claim: &PersistentVolumeClaim, mut pods: impl Iterator<Item = &'a Pod>) -> bool {
    let name = claim.metadata.name.as_deref().unwrap_or("");
    pods.any(|pod| !is_finished(pod) && claims_of(pod).iter().any(|c| c == name))
}

/// Returns `true` if the claim of the volume still exists.
pub(crate) fn volume_is_used(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> bool {
    let of = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref()).and_then(|r| r.uid.as_deref());
    of.is_some() && claim.is_some_and(|c| c.metadata.uid.as_deref() == of)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::{ObjectReference, PersistentVolumeClaimVolumeSource, PersistentVolumeSpec, Volume},
        apimachinery::pkg::apis::meta::v1::Time,
    };

    use super::*;
    use crate::testkit::{at, meta, pod};

    fn user(claim: &str, phase: &str) -> Pod {
        let mut pod = pod("p").phase(phase).build();
        pod.spec.get_or_insert_default().volumes = Some(vec![Volume {
            name: "v".into(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.into(),
                read_only: None,
            }),
            ..Volume::default()
        }]);
        pod
    }

    #[test]
    fn claims_and_volumes_in_use() {
        let claim = PersistentVolumeClaim { metadata: meta("c"), ..PersistentVolumeClaim::default() };
        for (name, pods, want) in [
            ("nobody", vec![], false),
            ("a running pod", vec![user("c", "Running")], true),
            ("a pending pod", vec![user("c", "Pending")], true),
            ("a finished pod", vec![user("c", "Succeeded")], false),
            ("another's", vec![user("d", "Running")], false),
        ] {
            assert_eq!(claim_is_used(&claim, pods.iter()), want, "{name}");
        }
        let volume = |uid: &str| PersistentVolume {
            spec: Some(PersistentVolumeSpec {
                claim_ref: Some(ObjectReference { uid: Some(uid.into()), ..ObjectReference::default() }),
                ..PersistentVolumeSpec::default()
            }),
            ..PersistentVolume::default()
        };
        assert!(volume_is_used(&volume("uid-c"), Some(&claim)));
        assert!(!volume_is_used(&volume("uid-c"), None) && !volume_is_used(&volume("uid-d"), Some(&claim)));
    }

    #[test]
    fn only_deleted_objects_lose_their_finalizer() {
        let mut m = meta("c");
        m.finalizers = Some(vec!["x.io/y".into(), OF_CLAIMS.into()]);
        assert_eq!(without(&m, OF_CLAIMS), None);
        m.deletion_timestamp = Some(Time(at(1)));
        assert_eq!(without(&m, OF_CLAIMS), Some(vec!["x.io/y".into()]));
        assert_eq!(without(&m, OF_VOLUMES), None);
    }
}
