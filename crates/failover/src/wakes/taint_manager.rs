//! Wake rules of the taint manager.

use super::Parts;

/// Returns true if a change of a binding may change whether it is evicted: it was recreated or edited, its deletion,
/// annotations, labels (which name its policy) or targets changed, or the scheduler caught up with its spec.
#[must_use]
pub fn binding(old: Option<Parts<'_>>, new: Option<Parts<'_>>) -> bool {
    let is_observed = |(metadata, _, status): Parts<'_>| {
        let observed = status.map_or(0, |status| status.scheduler_observed_generation);
        observed >= metadata.generation.unwrap_or(0)
    };
    let (Some(old), Some(new)) = (old, new) else { return old.is_some() || new.is_some() };
    let ((a, old_spec, _), (b, new_spec, _)) = (old, new);
    a.uid != b.uid
        || a.generation != b.generation
        || a.deletion_timestamp != b.deletion_timestamp
        || a.annotations != b.annotations
        || a.labels != b.labels
        || old_spec.clusters != new_spec.clusters
        || is_observed(old) != is_observed(new)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ironclad_api::{
        ObjectMeta,
        work::{AggregatedStatusItem, ResourceBindingSpec, ResourceBindingStatus, TargetCluster},
    };

    use super::*;

    #[test]
    fn changes_that_affect_evictions_are_handled() {
        let meta = ObjectMeta { uid: Some("u".into()), generation: Some(2), ..ObjectMeta::default() };
        let other_uid = ObjectMeta { uid: Some("v".into()), ..meta.clone() };
        let edited = ObjectMeta { generation: Some(3), ..meta.clone() };
        let annotated = ObjectMeta { annotations: Some(BTreeMap::from([("a".into(), "b".into())])), ..meta.clone() };
        let spec = ResourceBindingSpec::default();
        let moved = ResourceBindingSpec {
            clusters: vec![TargetCluster { name: "m1".into(), ..TargetCluster::default() }],
            ..ResourceBindingSpec::default()
        };
        let observed = |generation| ResourceBindingStatus {
            scheduler_observed_generation: generation,
            ..ResourceBindingStatus::default()
        };
        let (behind, caught_up) = (observed(1), observed(2));
        let reported =
            ResourceBindingStatus { aggregated_status: vec![AggregatedStatusItem::default()], ..observed(1) };
        let base = (&meta, &spec, Some(&behind));
        for (name, old, new, want) in [
            ("created", None, Some(base), true),
            ("deleted", Some(base), None, true),
            ("unchanged", Some(base), Some(base), false),
            ("recreated", Some(base), Some((&other_uid, &spec, Some(&behind))), true),
            ("edited", Some(base), Some((&edited, &spec, Some(&behind))), true),
            ("annotated", Some(base), Some((&annotated, &spec, Some(&behind))), true),
            ("other targets", Some(base), Some((&meta, &moved, Some(&behind))), true),
            ("the scheduler observed the spec", Some(base), Some((&meta, &spec, Some(&caught_up))), true),
            ("a status report of a member", Some(base), Some((&meta, &spec, Some(&reported))), false),
        ] {
            assert_eq!(binding(old, new), want, "{name}");
        }
    }
}
