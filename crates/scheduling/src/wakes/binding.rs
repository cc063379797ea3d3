//! Changes of bindings that enqueue bindings in the scheduler.

use ironclad_api::work::ResourceBinding;
use ironclad_fleet::{BindingRef, ClusterName};

use crate::{
    Options,
    preempt::Mode,
    trigger::{follows_fleet, responsible},
};

/// Reason for which a binding is enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// It was created, or became this scheduler's.
    Added,
    /// Its spec changed.
    Updated,
}

/// Returns why a changed binding is enqueued. Status changes and results written by this scheduler do not enqueue it.
#[must_use]
pub fn wake(old: Option<BindingRef<'_>>, new: BindingRef<'_>, options: &Options) -> Option<Wake> {
    let ours = |binding: BindingRef<'_>| responsible(binding, options).is_ok();
    let was_ours = old.is_some_and(ours);
    let changed = old.is_none_or(|old| old.generation() != new.generation()) || !was_ours;
    if !changed || !ours(new) {
        return None;
    }
    Some(if was_ours { Wake::Updated } else { Wake::Added })
}

/// Returns true if a change of a binding concerns the other members of its groups: its clusters, where it is nominated
/// counting as well, or its groups.
#[must_use]
pub fn concerns_fellows(old: Option<&ResourceBinding>, new: Option<&ResourceBinding>) -> bool {
    fn read(binding: &ResourceBinding) -> impl PartialEq + '_ {
        let nominated = binding.status.as_ref().map_or(&[][..], |status| &status.nominated_clusters);
        (&binding.spec.clusters, &binding.spec.workload_affinity_groups, nominated)
    }
    old.map(read) != new.map(read)
}

/// Returns true if a binding is enqueued when another member of its groups changes (specification/scheduling.md 5.8):
/// one that waits, and one that follows every change of the fleet. `group_moved`: the group has members in other
/// clusters than before ([`crate::Peers::moves`]).
#[must_use]
pub fn fellow(binding: BindingRef<'_>, waits: bool, group_moved: bool, options: &Options) -> bool {
    let follows =
        || binding.spec().placement.as_ref().is_some_and(|placement| follows_fleet(binding.spec(), placement));
    waits || (group_moved && responsible(binding, options).is_ok() && follows())
}

/// Returns the clusters in which a binding was placed anew. Those of higher priority that wait may preempt it there:
/// they may have been tried before it was known where it runs.
#[must_use]
pub fn newly_placed(old: Option<BindingRef<'_>>, new: BindingRef<'_>, mode: Mode) -> Vec<ClusterName> {
    let is_new = |name: &str| old.is_none_or(|old| old.spec().target(name).is_none());
    let names = new.spec().clusters.iter().map(|target| target.name.as_str());
    names.filter(|name| mode != Mode::Off && is_new(name)).map(ClusterName::from).collect()
}

#[cfg(test)]
mod tests {
    use ironclad_api::work::WorkloadAffinityGroups;
    use serde_json::{Value, json};

    use super::*;

    fn of(generation: i64, scheduler: &str, status: Value) -> ResourceBinding {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "shop", "generation": generation,
                "labels": {"propagationpolicy.karmada.io/permanent-id": "p"}},
            "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "schedulerName": scheduler, "clusters": [], "placement": {}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn edits_of_bindings_of_this_scheduler_wake_them() {
        let options = Options::default();
        let (base, edited) = (of(1, "", json!({})), of(2, "", json!({})));
        let status = of(1, "", json!({"schedulerObservedGeneration": 1}));
        let (others, others_edited) = (of(1, "other", json!({})), of(2, "other", json!({})));
        for (name, old, new, want) in [
            ("created", None, &base, Some(Wake::Added)),
            ("created for another scheduler", None, &others, None),
            ("edited", Some(&base), &edited, Some(Wake::Updated)),
            ("status", Some(&base), &status, None),
            ("taken over", Some(&others), &edited, Some(Wake::Added)),
            ("handed over", Some(&base), &others_edited, None),
            ("another scheduler's edit", Some(&others), &others_edited, None),
        ] {
            let (old, new) = (old.map(BindingRef::from), BindingRef::from(new));
            assert_eq!(wake(old, new, &options), want, "{name}");
        }
    }

    #[test]
    fn fellows_are_enqueued_if_they_wait_or_follow_the_fleet() {
        let placed = |placement: Value| {
            let mut binding = of(1, "default-scheduler", json!({}));
            binding.spec.replicas = 2;
            binding.spec.placement = Some(serde_json::from_value(placement).unwrap());
            binding
        };
        let (duplicated, divided) =
            (placed(json!({})), placed(json!({"replicaScheduling": {"replicaSchedulingType": "Divided"}})));
        for (name, binding, waits, group_moved, want) in [
            ("a copy in each cluster", &duplicated, false, true, true),
            ("the group is where it was", &duplicated, false, false, false),
            ("what is divided stays", &divided, false, true, false),
            ("what is divided and waits", &divided, true, true, true),
            ("another one's", &of(1, "other", json!({})), false, true, false),
        ] {
            assert_eq!(fellow(binding.into(), waits, group_moved, &Options::default()), want, "{name}");
        }
    }

    #[test]
    fn clusters_nominations_and_groups_of_a_binding_concern_its_fellows() {
        let base = || of(1, "", json!({}));
        let placed = |replicas| {
            let mut one = base();
            one.spec.clusters = crate::testkit::targets(&[("m1", replicas)]);
            one
        };
        let mut grouped = base();
        grouped.spec.workload_affinity_groups = Some(WorkloadAffinityGroups::default());
        let nominated = of(1, "", json!({"nominatedClusters": [{"name": "m1", "replicas": 1}]}));
        for (name, old, new, want) in [
            ("it came", None, Some(base()), true),
            ("it is deleted", Some(base()), None, true),
            ("placed", Some(base()), Some(placed(1)), true),
            ("scaled", Some(placed(1)), Some(placed(2)), true),
            ("nominated", Some(base()), Some(nominated), true),
            ("another group", Some(base()), Some(grouped), true),
            ("another spec", Some(base()), Some(of(2, "other", json!({}))), false),
            ("another status", Some(base()), Some(of(1, "", json!({"schedulerObservedGeneration": 1}))), false),
        ] {
            assert_eq!(concerns_fellows(old.as_ref(), new.as_ref()), want, "{name}");
        }
    }

    #[test]
    fn clusters_where_a_binding_is_new_are_offered() {
        let on = |names: &[&str]| crate::testkit::binding("web", 1, &names.iter().map(|n| (*n, 1)).collect::<Vec<_>>());
        for (name, old, new, mode, want) in [
            ("created without a place", None, on(&[]), Mode::Evict, &[][..]),
            ("found with a place", None, on(&["m1"]), Mode::Evict, &["m1"]),
            ("in one more", Some(on(&["m1"])), on(&["m1", "m2"]), Mode::Evict, &["m2"]),
            ("it moves", Some(on(&["m1"])), on(&["m2"]), Mode::Evict, &["m2"]),
            ("it stays", Some(on(&["m1"])), on(&["m1"]), Mode::Evict, &[]),
            ("preemption is off", None, on(&["m1"]), Mode::Off, &[]),
        ] {
            let found = newly_placed(old.as_ref().map(BindingRef::from), BindingRef::from(&new), mode);
            assert_eq!(found, want.iter().map(|name| ClusterName::from(*name)).collect::<Vec<_>>(), "{name}");
        }
    }
}
