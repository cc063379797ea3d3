//! Purge modes: rows of specification/failover.md 4.3, 5.5 and 11.

use ironclad_api::work::{GracefulEvictionTask, TargetCluster};

use super::*;

fn task(from: &str, mode: PurgeMode) -> GracefulEvictionTask {
    let (from_cluster, reason, producer) = (from.to_owned(), "R".to_owned(), "P".to_owned());
    GracefulEvictionTask { from_cluster, purge_mode: Some(mode), reason, producer, ..GracefulEvictionTask::default() }
}

/// Writes an eviction.
fn evict(road: &mut Road, from: &str, mode: PurgeMode) {
    let spec = &mut road.binding.spec;
    spec.clusters.retain(|target| target.name != from);
    spec.graceful_eviction_tasks.push(task(from, mode));
}

/// Writes a schedule result.
fn place(road: &mut Road, targets: &[(&str, i32)]) {
    let target = |(name, replicas): &(&str, i32)| TargetCluster {
        name: (*name).to_owned(),
        replicas: *replicas,
        components: Vec::new(),
    };
    road.binding.spec.clusters = targets.iter().map(target).collect();
}

fn settle(road: &mut Road) {
    for _ in 0..4 {
        road.go();
        road.finish_deletions();
    }
    assert!(road.pass().effects.iter().all(|effect| matches!(effect, Effect::RequeueAfter(_))));
}

#[test]
fn graceful_purge_keeps_both_copies_until_the_task_ends() {
    for mode in [PurgeMode::Gracefully, PurgeMode::Never] {
        let mut road = Road::new(&[("m1", 2)]);
        settle(&mut road);
        evict(&mut road, "m1", mode);
        assert!(road.pass().is_quiet(), "{mode:?}: without a new place nothing happens (B31)");
        assert_eq!(road.places(), ["m1"]);
        place(&mut road, &[("m2", 2)]);
        settle(&mut road);
        assert_eq!(road.places(), ["m1", "m2"], "{mode:?}: side by side (B28, B29, B60)");
        road.binding.spec.graceful_eviction_tasks.clear();
        settle(&mut road);
        assert_eq!(road.places(), ["m2"], "{mode:?}: the task ended, so the old Work is an orphan");
    }
}

#[test]
fn graceful_purge_undone_keeps_the_old_copy() {
    let mut road = Road::new(&[("m1", 2)]);
    settle(&mut road);
    let before = road.at("m1").clone();
    evict(&mut road, "m1", PurgeMode::Gracefully);
    settle(&mut road);
    place(&mut road, &[("m1", 2)]);
    settle(&mut road);
    road.binding.spec.graceful_eviction_tasks.clear();
    settle(&mut road);
    assert_eq!(*road.at("m1"), before, "B32");
}

#[test]
fn direct_purge_deletes_first_unless_unreachable() {
    for (name, ready, both) in [("ready (B16, B21)", "True", false), ("lost (B17)", "Unknown", true)] {
        let mut road = Road::new(&[("m1", 2)]);
        settle(&mut road);
        road.clusters.insert("m1".into(), Arc::new(cluster("m1", ready)));
        evict(&mut road, "m1", PurgeMode::Directly);
        place(&mut road, &[("m2", 2)]);
        assert_eq!(kinds(&road.pass())[0], "delete", "{name}: at once");
        let held: Vec<_> = road.works.iter().filter_map(|work| Some(key_of(work)?.cluster.to_string())).collect();
        assert_eq!(held.len() == 2, both, "{name}: {held:?}");
        road.finish_deletions();
        settle(&mut road);
        assert_eq!(road.places(), ["m2"], "{name}");
    }
}

#[test]
fn direct_purge_undone_creates_the_copy_again() {
    let mut road = Road::new(&[("m1", 2)]);
    settle(&mut road);
    evict(&mut road, "m1", PurgeMode::Directly);
    settle(&mut road);
    assert!(road.places().is_empty());
    place(&mut road, &[("m1", 2)]);
    settle(&mut road);
    assert_eq!(road.places(), ["m1"], "although the task still names it (B33)");
    assert!(road.pass().is_quiet(), "it does not wait for its own copy to be gone");
}

proptest! {
    /// Invariant 18, and that every mode ends in the schedule result once its tasks ended.
    #[test]
    fn direct_purge_of_a_ready_cluster_never_has_two_copies(
        modes in prop::collection::vec(prop::sample::select(vec![PurgeMode::Directly, PurgeMode::Gracefully, PurgeMode::Never]), 1..4),
        ready in any::<bool>(),
    ) {
        let names = ["m1", "m2", "m3"];
        let mut road = Road::new(&[("m1", 1)]);
        settle(&mut road);
        let mut at = 0;
        for mode in modes {
            let from = names[at];
            at = (at + 1) % names.len();
            road.clusters.insert(from.into(), Arc::new(cluster(from, if ready { "True" } else { "False" })));
            road.binding.spec.graceful_eviction_tasks.retain(|t| t.from_cluster != from);
            // A graceful copy of an earlier eviction may still exist.
            let new = !road.places().contains(&names[at].to_owned());
            evict(&mut road, from, mode);
            place(&mut road, &[(names[at], 1)]);
            for _ in 0..4 {
                road.go();
                let here = |cluster: &str| road.works.iter().any(|w| key_of(w).is_some_and(|key| &*key.cluster.0 == cluster));
                if mode == PurgeMode::Directly && ready && new {
                    prop_assert!(!(here(from) && here(names[at])), "two copies");
                }
                if mode != PurgeMode::Directly {
                    prop_assert!(here(from), "the old copy went while its task lasts");
                }
                road.finish_deletions();
            }
        }
        road.binding.spec.graceful_eviction_tasks.clear();
        settle(&mut road);
        prop_assert_eq!(road.places(), vec![names[at].to_owned()]);
    }
}
