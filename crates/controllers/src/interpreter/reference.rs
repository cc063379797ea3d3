//! References to the objects that configure interpreters, for their events.

use ironclad_api::work::ObjectReference;
use kube::{Resource, ResourceExt as _};

/// A cluster-scoped object of group config.karmada.io.
pub(super) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        ..ObjectReference::default()
    }
}
