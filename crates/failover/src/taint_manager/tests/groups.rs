//! Evictions of workloads in groups (specification/scheduling.md 5.8): none to nowhere, and none that waits for ever.

use ironclad_api::work::WorkloadAffinityGroups;

use super::*;

fn beside(binding: ResourceBinding, group: &str) -> ResourceBinding {
    let groups = WorkloadAffinityGroups { affinity_group: group.to_owned(), ..WorkloadAffinityGroups::default() };
    with(binding, |spec| spec.workload_affinity_groups = Some(groups))
}

fn apart(binding: ResourceBinding, group: &str) -> ResourceBinding {
    let groups = WorkloadAffinityGroups { anti_affinity_group: group.to_owned(), ..WorkloadAffinityGroups::default() };
    with(binding, |spec| spec.workload_affinity_groups = Some(groups))
}

fn world(bindings: &[ResourceBinding]) -> World {
    let mut world = World::new(3);
    world.grouped = true;
    bindings.iter().for_each(|binding| world.put(binding.clone()));
    world
}

fn nominated(mut binding: ResourceBinding, cluster: &str) -> ResourceBinding {
    let held = serde_json::from_value(serde_json::json!([{ "name": cluster, "replicas": 1 }])).unwrap();
    binding.status.get_or_insert_default().nominated_clusters = held;
    binding
}

#[test]
fn workload_leaves_only_if_its_groups_allow_another_cluster() {
    let a = || dup("a", &["m1"]);
    let rows: Vec<(&str, Vec<ResourceBinding>, &[&str])> = vec![
        ("no group", vec![a(), dup("b", &["m2"]), dup("c", &["m3"])], &["a"]),
        (
            "others of its anti-affinity group are everywhere else",
            vec![apart(a(), "g"), apart(dup("b", &["m2"]), "g"), apart(dup("c", &["m3"]), "g")],
            &[],
        ),
        (
            "one cluster is without others",
            vec![apart(a(), "g"), apart(dup("b", &["m2"]), "g"), apart(dup("c", &["m3"]), "h")],
            &["a"],
        ),
        (
            "its affinity group stays, as it tolerates the taint",
            vec![beside(a(), "g"), beside(tolerating(dup("b", &["m1"]), None), "g")],
            &[],
        ),
        (
            "its affinity group can go nowhere",
            vec![beside(a(), "g"), beside(only(dup("b", &["m1"]), &["m1"]), "g")],
            &[],
        ),
        (
            "its affinity group is in another cluster, too",
            vec![beside(a(), "g"), beside(tolerating(dup("b", &["m1", "m2"]), None), "g")],
            &["a"],
        ),
        (
            "another of its anti-affinity group is nominated for the only other cluster",
            vec![apart(a(), "g"), apart(dup("b", &["m2"]), "g"), apart(nominated(dup("c", &[]), "m3"), "g")],
            &[],
        ),
        ("its affinity group leaves, too", vec![beside(a(), "g"), beside(dup("b", &["m1"]), "g")], &["a", "b"]),
    ];
    for (name, bindings, want) in rows {
        let mut world = world(&bindings);
        world.fail("m1", NO_EXECUTE);
        world.run(READY_AT + 100);
        let evicted: Vec<String> = world
            .bindings
            .values()
            .filter(|b| !b.spec().graceful_eviction_tasks.is_empty())
            .map(|b| b.key().name.to_string())
            .collect();
        assert_eq!(evicted, want, "{name}");
    }
}

#[test]
fn groups_count_only_with_their_gate() {
    let mut world = world(&[apart(dup("a", &["m1"]), "g"), apart(dup("b", &["m2", "m3"]), "g")]);
    world.grouped = false;
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 10);
    assert_eq!(world.evicted(), 1);
}

#[test]
fn workload_waits_for_others_of_its_group_and_no_longer() {
    let mut world = world(&[beside(dup("a", &["m1"]), "g"), beside(tolerating(dup("b", &["m1"]), Some(60)), "g")]);
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 59);
    assert_eq!(world.evicted(), 0, "b stays until its toleration ends");
    world.run(READY_AT + 100);
    let mut left: Vec<&str> = world.log.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    left.sort_unstable();
    assert_eq!(left, ["a <- m1", "b <- m1"]);

    let mut world = self::world(&[apart(dup("a", &["m1"]), "g"), apart(dup("b", &["m2", "m3"]), "g")]);
    world.fail("m1", NO_EXECUTE);
    world.run(READY_AT + 100);
    assert_eq!(world.evicted(), 0);
    world.edit("b", |binding| binding.spec.clusters = vec![target("m2", 1)]);
    world.run(READY_AT + 101);
    assert_eq!(world.log, [format!("{}: a <- m1", READY_AT + 100)], "m3 is free now");
}
