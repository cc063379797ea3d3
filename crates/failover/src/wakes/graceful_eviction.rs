//! Wake rules of the graceful eviction controller.

use ironclad_api::{
    ObjectMeta,
    cluster::Cluster,
    conditions::{self, binding::EVICTION_PENDING},
    work::ResourceBindingStatus,
};
use ironclad_fleet::BindingRef;

use super::Parts;
use crate::graceful_eviction::has_given_up;

/// Returns true if the graceful eviction tasks of a binding have to be assessed again: it has some, and its spec,
/// status or annotations changed.
#[must_use]
pub fn binding(old: Option<Parts<'_>>, new: Option<Parts<'_>>) -> bool {
    let Some((metadata, spec, status)) = new.filter(|(_, spec, _)| !spec.graceful_eviction_tasks.is_empty()) else {
        return false;
    };
    let of_interest = |metadata: &ObjectMeta| (metadata.generation, metadata.annotations.clone());
    old.is_none_or(|(old_metadata, old_spec, old_status)| {
        of_interest(old_metadata) != of_interest(metadata) || old_spec != spec || old_status != status
    })
}

/// Returns true if a binding gives up what it preempted others for: these may return.
#[must_use]
pub fn preemptor(old: Option<BindingRef<'_>>, new: Option<BindingRef<'_>>) -> bool {
    !has_given_up(old) && has_given_up(new)
}

/// Returns true if condition `EvictionPending` of a binding is true.
#[must_use]
pub fn is_pending(status: Option<&ResourceBindingStatus>) -> bool {
    status.is_some_and(|status| conditions::is_true(&status.conditions, EVICTION_PENDING))
}

/// Returns true if a changed cluster concerns the bindings that leave it or move to it: the report of a cluster counts
/// only while it is ready.
#[must_use]
pub fn cluster(old: Option<&Cluster>, new: Option<&Cluster>) -> bool {
    old.and_then(Cluster::ready) != new.and_then(Cluster::ready)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ironclad_api::work::{BindingSuspension, GracefulEvictionTask, ResourceBinding, ResourceBindingSpec};
    use serde_json::json;

    use super::*;

    #[test]
    fn bindings_with_tasks_are_enqueued_on_relevant_changes() {
        let plain = ResourceBindingSpec::default();
        let evicting = ResourceBindingSpec {
            graceful_eviction_tasks: vec![GracefulEvictionTask { from_cluster: "m1".into(), ..Default::default() }],
            ..ResourceBindingSpec::default()
        };
        let (before, after) = (
            ResourceBindingStatus::default(),
            ResourceBindingStatus { scheduler_observed_generation: 2, ..ResourceBindingStatus::default() },
        );
        let meta = ObjectMeta { generation: Some(1), ..ObjectMeta::default() };
        let relabelled = ObjectMeta { labels: Some(BTreeMap::from([("a".into(), "b".into())])), ..meta.clone() };
        let annotated = ObjectMeta { annotations: Some(BTreeMap::from([("a".into(), "b".into())])), ..meta.clone() };
        for (name, old, new, want) in [
            ("without tasks", None, Some((&meta, &plain, None)), false),
            ("created with tasks", None, Some((&meta, &evicting, None)), true),
            ("unchanged", Some((&meta, &evicting, Some(&before))), Some((&meta, &evicting, Some(&before))), false),
            ("labels", Some((&meta, &evicting, None)), Some((&relabelled, &evicting, None)), false),
            ("annotations", Some((&meta, &evicting, None)), Some((&annotated, &evicting, None)), true),
            ("status", Some((&meta, &evicting, Some(&before))), Some((&meta, &evicting, Some(&after))), true),
            ("first task", Some((&meta, &plain, None)), Some((&meta, &evicting, None)), true),
            ("last task removed", Some((&meta, &evicting, None)), Some((&meta, &plain, None)), false),
            ("deleted", Some((&meta, &evicting, None)), None, false),
        ] {
            assert_eq!(binding(old, new), want, "{name}");
        }
    }

    #[test]
    fn conditions_that_say_pending_are_found() {
        for (name, status, want) in [("pending", "True", true), ("not any more", "False", false)] {
            let conditions = vec![conditions::condition(EVICTION_PENDING, status, "R", "")];
            let status = ResourceBindingStatus { conditions, ..ResourceBindingStatus::default() };
            assert_eq!(is_pending(Some(&status)), want, "{name}");
        }
        assert!(!is_pending(None) && !is_pending(Some(&ResourceBindingStatus::default())));
    }

    #[test]
    fn victims_are_enqueued_when_their_preemptor_gives_up() {
        let lives: ResourceBinding = ResourceBinding::new("high", ResourceBindingSpec::default());
        let mut ends = lives.clone();
        ends.metadata.deletion_timestamp = Some(ironclad_api::Time(jiff::Timestamp::UNIX_EPOCH));
        let mut waits = lives.clone();
        waits.spec.suspension = Some(BindingSuspension { scheduling: Some(true), ..BindingSuspension::default() });
        for (name, old, new, want) in [
            ("created", None, Some(&lives), false),
            ("changed", Some(&lives), Some(&lives), false),
            ("its deletion begins", Some(&lives), Some(&ends), true),
            ("its deletion goes on", Some(&ends), Some(&ends), false),
            ("its deletion ends", Some(&ends), None, false),
            ("deleted at once", Some(&lives), None, true),
            ("its scheduling is suspended", Some(&lives), Some(&waits), true),
            ("and resumed", Some(&waits), Some(&lives), false),
        ] {
            assert_eq!(preemptor(old.map(BindingRef::from), new.map(BindingRef::from)), want, "{name}");
        }
    }

    #[test]
    fn any_change_of_readiness_enqueues() {
        let of = |ready: &str| -> Cluster {
            serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"},
                "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
            .unwrap()
        };
        let (ready, unready, unknown) = (of("True"), of("False"), of("Unknown"));
        for (name, old, new, want) in [
            ("unchanged", Some(&ready), Some(&ready), false),
            ("became unready", Some(&ready), Some(&unready), true),
            ("from unready to unknown", Some(&unready), Some(&unknown), true),
            ("joined", None, Some(&ready), true),
            ("removed", Some(&ready), None, true),
        ] {
            assert_eq!(cluster(old, new), want, "{name}");
        }
    }
}
