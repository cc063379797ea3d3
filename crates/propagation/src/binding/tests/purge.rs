//! Purge modes: rows of specification/failover.md 4.3, 5.5 and 11.

use ironclad_api::work::{GracefulEvictionTask, TargetCluster};

use super::*;

fn task(from: &str, mode: PurgeMode) -> GracefulEvictionTask {
    let (from_cluster, reason, producer) = (from.to_owned(), "R".to_owned(), "P".to_owned());
    GracefulEvictionTask { from_cluster, purge_mode: Some(mode), reason, producer, ..GracefulEvictionTask::default() }
}

/// Writes an eviction.
fn evict(world: &mut World, from: &str, mode: PurgeMode) {
    let spec = &mut world.binding.spec;
    spec.clusters.retain(|target| target.name != from);
    spec.graceful_eviction_tasks.push(task(from, mode));
}

/// Writes a schedule result.
fn place(world: &mut World, targets: &[(&str, i32)]) {
    let target = |(name, replicas): &(&str, i32)| TargetCluster {
        name: (*name).to_owned(),
        replicas: *replicas,
        components: Vec::new(),
    };
    world.binding.spec.clusters = targets.iter().map(target).collect();
}

fn converge(world: &mut World) {
    for _ in 0..4 {
        world.go();
        world.finish_deletions();
    }
    assert!(world.reconcile().effects.iter().all(|effect| matches!(effect, Effect::RequeueAfter(_))));
}

#[test]
fn graceful_purge_keeps_both_copies_until_the_task_ends() {
    for mode in [PurgeMode::Gracefully, PurgeMode::Never] {
        let mut world = World::new(&[("m1", 2)]);
        converge(&mut world);
        evict(&mut world, "m1", mode);
        assert!(world.reconcile().is_quiet(), "{mode:?}: without a new place nothing happens (B31)");
        assert_eq!(world.places(), ["m1"]);
        place(&mut world, &[("m2", 2)]);
        converge(&mut world);
        assert_eq!(world.places(), ["m1", "m2"], "{mode:?}: side by side (B28, B29, B60)");
        world.binding.spec.graceful_eviction_tasks.clear();
        converge(&mut world);
        assert_eq!(world.places(), ["m2"], "{mode:?}: the task ended, so the old Work is an orphan");
    }
}

#[test]
fn graceful_purge_undone_keeps_the_old_copy() {
    let mut world = World::new(&[("m1", 2)]);
    converge(&mut world);
    let before = world.at("m1").clone();
    evict(&mut world, "m1", PurgeMode::Gracefully);
    converge(&mut world);
    place(&mut world, &[("m1", 2)]);
    converge(&mut world);
    world.binding.spec.graceful_eviction_tasks.clear();
    converge(&mut world);
    assert_eq!(*world.at("m1"), before, "B32");
}

#[test]
fn direct_purge_deletes_first_unless_unreachable() {
    for (name, ready, both) in [("ready (B16, B21)", "True", false), ("lost (B17)", "Unknown", true)] {
        let mut world = World::new(&[("m1", 2)]);
        converge(&mut world);
        world.clusters.insert("m1".into(), Arc::new(cluster("m1", ready)));
        evict(&mut world, "m1", PurgeMode::Directly);
        place(&mut world, &[("m2", 2)]);
        assert_eq!(kinds(&world.reconcile())[0], "delete", "{name}: at once");
        let clusters: Vec<_> = world.works.iter().filter_map(|work| Some(key_of(work)?.cluster.to_string())).collect();
        assert_eq!(clusters.len() == 2, both, "{name}: {clusters:?}");
        world.finish_deletions();
        converge(&mut world);
        assert_eq!(world.places(), ["m2"], "{name}");
    }
}

#[test]
fn direct_purge_undone_creates_the_copy_again() {
    let mut world = World::new(&[("m1", 2)]);
    converge(&mut world);
    evict(&mut world, "m1", PurgeMode::Directly);
    converge(&mut world);
    assert_eq!(world.places(), ["m1"], "it may be the last copy: it stays while nothing is scheduled elsewhere (B33)");
    place(&mut world, &[("m1", 2)]);
    converge(&mut world);
    assert_eq!(world.places(), ["m1"], "although the task still names it");
    assert!(world.reconcile().is_quiet(), "it does not wait for its own copy to be deleted");
}

proptest! {
    /// Invariant 18, and that every mode ends in the schedule result once its tasks ended.
    #[test]
    fn direct_purge_of_a_ready_cluster_never_has_two_copies(
        modes in prop::collection::vec(prop::sample::select(vec![PurgeMode::Directly, PurgeMode::Gracefully, PurgeMode::Never]), 1..4),
        ready in any::<bool>(),
    ) {
        let names = ["m1", "m2", "m3"];
        let mut world = World::new(&[("m1", 1)]);
        converge(&mut world);
        let mut at = 0;
        for mode in modes {
            let from = names[at];
            at = (at + 1) % names.len();
            world.clusters.insert(from.into(), Arc::new(cluster(from, if ready { "True" } else { "False" })));
            world.binding.spec.graceful_eviction_tasks.retain(|t| t.from_cluster != from);
            // A graceful copy of an earlier eviction may still exist.
            let new = !world.places().contains(&names[at].to_owned());
            evict(&mut world, from, mode);
            place(&mut world, &[(names[at], 1)]);
            for _ in 0..4 {
                world.go();
                let here = |cluster: &str| world.works.iter().any(|w| key_of(w).is_some_and(|key| &*key.cluster.0 == cluster));
                if mode == PurgeMode::Directly && ready && new {
                    prop_assert!(!(here(from) && here(names[at])), "two copies");
                }
                if mode != PurgeMode::Directly {
                    prop_assert!(here(from), "the old copy went while its task lasts");
                }
                world.finish_deletions();
            }
        }
        world.binding.spec.graceful_eviction_tasks.clear();
        converge(&mut world);
        prop_assert_eq!(world.places(), vec![names[at].to_owned()]);
    }
}
