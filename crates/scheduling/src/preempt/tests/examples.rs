//! The worked examples (specification/scheduling.md 15.9).

use ironclad_api::work::PreemptionPolicy;

use super::*;
use crate::testkit::duplicated;

/// One cluster `m1` with these free cores.
fn m1(free: &str, rows: &[(&str, i32, &str)]) -> World {
    World::new().cluster("m1", &[("cpu", free)]).cores("m1", rows)
}

fn cores(priority: i32, replicas: i32, each: &str) -> ResourceBinding {
    preemptor(priority, replicas, &[("cpu", each)])
}

#[test]
fn one_cluster_that_is_full() {
    let s1: &[(&str, i32, &str)] = &[("a", 0, "1"), ("b", 1, "2"), ("c", 2, "5"), ("d", 3, "2")];
    let rows: &[(&str, World, ResourceBinding, &[&str])] = &[
        ("S1: one victim is enough; a and b would not be", m1("0", s1), cores(10, 1, "5"), &["c@m1"]),
        (
            "S2: the gap is one unit, not one replica",
            m1("3", &[("a", 0, "1"), ("b", 1, "4")]),
            cores(10, 2, "2"),
            &["a@m1"],
        ),
        ("S3: too little in total", m1("0", &[("a", 0, "1"), ("b", 1, "2")]), cores(10, 1, "5"), &[]),
        ("1: the lowest of those that suffice", m1("0", s1), cores(10, 1, "2"), &["b@m1"]),
        (
            "2: what is free counts first",
            m1("5", &[("a", 0, "1"), ("b", 1, "2"), ("d", 3, "2")]),
            cores(10, 1, "6"),
            &["a@m1"],
        ),
        (
            "3: of five pairs the one with the lowest worst victim",
            m1("0", &[("a", 0, "2"), ("b", 1, "2"), ("c", 2, "3"), ("d", 3, "3")]),
            cores(10, 1, "5"),
            &["a@m1", "c@m1"],
        ),
        (
            "4: two victims beat three of lower priority",
            m1("2", &[("a", 0, "1"), ("b", 1, "1"), ("c", 2, "3"), ("d", 3, "3")]),
            cores(10, 1, "7"),
            &["c@m1", "d@m1"],
        ),
        (
            "5: too little of lower priority",
            m1("0", &[("a", 0, "1"), ("b", 1, "2"), ("d", 5, "7")]),
            cores(2, 1, "9"),
            &[],
        ),
        ("6: equal priority is never preempted", m1("0", &[("a", 1, "5"), ("b", 1, "5")]), cores(1, 1, "2"), &[]),
        (
            "7: b is given back",
            m1("0", &[("a", 0, "1"), ("b", 1, "2"), ("c", 2, "4")]),
            cores(10, 1, "5"),
            &["a@m1", "c@m1"],
        ),
        (
            "8: least waste among equal ones",
            m1("0", &[("a", 0, "8"), ("b", 0, "3"), ("c", 0, "4")]),
            cores(10, 1, "3"),
            &["b@m1"],
        ),
    ];
    for (name, world, pending, want) in rows {
        assert_eq!(world.victims(pending), *want, "{name}");
    }
}

#[test]
fn several_resources() {
    let world = World::new()
        .cluster("m1", &[("cpu", "3"), ("memory", "2Gi")])
        .running(workload("a", 0, 1, &[("cpu", "1"), ("memory", "1Gi")], &[("m1", 1)]))
        .running(workload("b", 1, 1, &[("cpu", "500m"), ("memory", "6Gi")], &[("m1", 1)]))
        .running(workload("c", 2, 1, &[("cpu", "2"), ("memory", "8Gi")], &[("m1", 1)]));
    let pending = preemptor(10, 1, &[("cpu", "4"), ("memory", "8Gi")]);
    assert_eq!(world.victims(&pending), ["c@m1"], "9: c alone satisfies both");

    let gpu = "nvidia.com/gpu";
    let world = World::new()
        .cluster("m1", &[("cpu", "50"), (gpu, "0")])
        .running(workload("web", 0, 1, &[("cpu", "30")], &[("m1", 1)]))
        .running(workload("t1", 1, 1, &[(gpu, "4")], &[("m1", 1)]))
        .running(workload("t2", 2, 1, &[(gpu, "4")], &[("m1", 1)]))
        .running(workload("t3", 3, 1, &[(gpu, "8")], &[("m1", 1)]));
    let mut pending = preemptor(100, 2, &[(gpu, "4"), ("cpu", "4")]);
    pending.spec.placement = Some(one_cluster().into());
    assert_eq!(world.victims(&pending), ["t3@m1"], "10: one victim beats two, and web frees no GPU");
}

#[test]
fn one_of_several_clusters() {
    let world = World::new()
        .cluster("c1", &[("cpu", "0")])
        .cluster("c2", &[("cpu", "2")])
        .cluster("c3", &[("cpu", "0")])
        .cores("c1", &[("x", 1, "4")])
        .cores("c2", &[("y", 0, "1"), ("z", 0, "1")])
        .cores("c3", &[("w", 3, "4")]);
    let mut pending = cores(10, 1, "4");
    pending.spec.placement = Some(one_cluster().into());
    let plan = world.plan(&pending).unwrap();
    assert_eq!(world.victims(&pending), ["x@c1"], "11: one victim beats two, then the lower priority");
    assert_eq!(json!(plan.nominated), json!([{"name": "c1", "replicas": 1}]));
}

#[test]
fn a_workload_that_clusters_share() {
    let world = |d: &[(&str, i32, &str)]| {
        World::new()
            .cluster("c1", &[("cpu", "2")])
            .cluster("c2", &[("cpu", "1")])
            .cores("c1", &[("a", 1, "2")])
            .cores("c2", &[("b", 0, "1")])
            .cores("c2", d)
    };
    let pending = cores(10, 6, "1");
    let twelve = world(&[("d", 2, "3")]);
    assert_eq!(twelve.victims(&pending), ["d@c2"], "12: one victim on c2 beats two");
    let nominated = twelve.plan(&pending).unwrap().nominated;
    assert_eq!(
        json!(nominated),
        json!([{"name": "c1", "replicas": 2}, {"name": "c2", "replicas": 4}]),
        "12: the free part is held too"
    );
    assert_eq!(world(&[]).victims(&pending), ["b@c2", "a@c1"], "13: a combined plan");
    let fourteen = world(&[("d", 9, "3")]);
    assert_eq!(fourteen.victims(&cores(8, 6, "1")), ["b@c2", "a@c1"], "14: d may not be preempted");
}

#[test]
fn whose_policy_is_never_preempts_nobody() {
    let world = m1("0", &[("a", 0, "1"), ("b", 1, "2"), ("c", 2, "5"), ("d", 3, "2")]);
    let mut pending = cores(10, 1, "5");
    pending.spec.schedule_priority.as_mut().unwrap().preemption_policy = Some(PreemptionPolicy::Never);
    let decision = world.decide(&pending, 1_000);
    assert_eq!(decision.preemption, None, "15");
    assert!(decision.failure.is_some(), "15: it stays pending");
}

#[test]
fn scaling_up_keeps_the_replicas_that_run() {
    let mut pending = cores(10, 6, "2");
    pending.spec.clusters = crate::testkit::targets(&[("m1", 4)]);
    let world = m1("1", &[("a", 0, "2"), ("b", 1, "3")]);
    assert_eq!(world.victims(&pending), ["b@m1"], "16: four units are wanted, one is free");
}

#[test]
fn component_sets() {
    let job = |priority| set(preemptor(priority, 0, &[]), &[("jm", 1, &[("cpu", "1")]), ("tm", 4, &[("cpu", "2")])]);
    let world = World::new()
        .cluster("c1", &[("cpu", "2")])
        .cluster("c2", &[("cpu", "0")])
        .cores("c1", &[("m", 0, "3"), ("n", 1, "4")])
        .cores("c2", &[("o", 4, "9")]);
    assert_eq!(world.victims(&job(5)), ["o@c2"], "17: one victim beats two");
    assert_eq!(world.victims(&job(4)), ["m@c1", "n@c1"], "17: o is not eligible");
    assert_eq!(world.victims(&job(2)), ["m@c1", "n@c1"], "17");
    assert_eq!(world.victims(&job(1)), [""; 0], "17: n is not eligible either");
    let gang = set(workload("gang", 0, 0, &[], &[("c2", 0)]), &[("w", 3, &[("cpu", "3")])]);
    let world = World::new().cluster("c2", &[("cpu", "0")]).running(gang);
    assert_eq!(world.victims(&job(1)), ["gang@c2"], "a component set leaves as a whole");
}

#[test]
fn a_duplicated_workload_never_fails_for_capacity() {
    let mut pending = cores(10, 5, "5");
    pending.spec.placement = Some(duplicated().into());
    let world = m1("0", &[("a", 0, "5")]);
    let decision = world.decide(&pending, 1_000);
    assert_eq!((decision.preemption, decision.failure), (None, None), "18");
}
