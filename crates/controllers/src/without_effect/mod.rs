//! Events on objects that are accepted and that nothing acts on, whole or in part (specification/admission.md 1.5).
//! Whoever writes such an object is warned by admission; the event reaches those who look at it later.

use std::sync::Arc;

use ironclad_admission::without_effect::{of_kind, of_object, whole_kinds};
use ironclad_api::{
    events::NO_EFFECT,
    policy::{ClusterPropagationPolicy, PropagationPolicy},
    work::ObjectReference,
};
use ironclad_fleet::{Event, reference};
use ironclad_runtime::{Api, Change, Informer, WatchScope};
use ironclad_seam::{Seam, Tasks};
use kube::{
    Client, Resource,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde::Serialize;

use crate::{
    caches::{CLUSTER_POLICIES, POLICIES},
    controller::Controller,
    events::Events,
    setup::{Setup, on_change},
};

/// Kind that is served by the search API alone: without it no such object exists.
const UNDEFINED: &str = "ResourceRegistry";

/// Group and version of the kinds that may be without effect.
const KINDS: [(&str, &str, &str); 1] = [("MultiClusterIngress", "networking.karmada.io", "v1alpha1")];

struct WithoutEffect {
    seam: Seam,
    plane: Client,
    events: Events,
}

pub(crate) fn new(setup: &Setup) -> Arc<dyn Controller> {
    let this =
        Arc::new(WithoutEffect { seam: setup.seam.clone(), plane: setup.plane.clone(), events: setup.events.clone() });
    on_change(&setup.caches.take(&POLICIES), &this, |this, change: &Change<PropagationPolicy>| {
        this.on_policy("PropagationPolicy", change);
    });
    on_change(&setup.caches.take(&CLUSTER_POLICIES), &this, |this, change: &Change<ClusterPropagationPolicy>| {
        this.on_policy("ClusterPropagationPolicy", change);
    });
    this
}

impl Controller for WithoutEffect {
    /// A control plane may lack one of these kinds: their watches delay nobody.
    fn start(self: Arc<Self>, tasks: &Tasks) {
        for kind in whole_kinds() {
            if kind == UNDEFINED {
                continue;
            }
            let Some((kind, group, version)) = KINDS.into_iter().find(|(name, _, _)| *name == kind) else { continue };
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let informer: Informer<DynamicObject> = Informer::new(&[]);
            let (this, api_version) = (Arc::downgrade(&self), resource.api_version.clone());
            informer.on_change(move |change| {
                let (Some(this), Some(new), None) = (this.upgrade(), &change.new, &change.old) else { return };
                let Some(because) = of_kind(kind) else { return };
                let about = reference(&api_version, kind, &new.metadata);
                this.warn(about, format!("no controller acts on a {kind}: {because}"));
            });
            let api = Api::all_with(self.plane.clone(), &resource);
            informer.start(kind, &self.seam, tasks, api, &WatchScope::default());
        }
    }
}

impl WithoutEffect {
    /// Tells of fields that are set now and were not before.
    fn on_policy<K>(&self, kind: &str, change: &Change<K>)
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        let Some(new) = &change.new else { return };
        let warned = |policy: &Arc<K>| {
            serde_json::to_value(&**policy).map_or_else(|_| Vec::new(), |json| of_object(kind, &json))
        };
        let before = change.old.as_ref().map(warned).unwrap_or_default();
        let mut now = warned(new);
        now.retain(|line| !before.contains(line));
        if !now.is_empty() {
            self.warn(reference(&K::api_version(&()), kind, new.meta()), now.join("; "));
        }
    }

    fn warn(&self, about: ObjectReference, message: String) {
        self.events.record(&Event::warning(about, NO_EFFECT, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_without_effect_has_its_group() {
        for kind in whole_kinds() {
            let is_known = kind == UNDEFINED || KINDS.iter().any(|(name, _, _)| *name == kind);
            assert!(is_known, "{kind} is not in KINDS");
        }
    }
}
