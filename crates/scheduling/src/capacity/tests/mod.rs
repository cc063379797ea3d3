mod watched;

use std::sync::LazyLock;

use ironclad_api::{
    Condition, Time, conditions,
    policy::{Placement, SpreadByField},
    work::{
        AggregatedStatusItem, Component, ReplicaRequirements, ResourceBinding, ResourceBindingSpec, ResourceHealth,
    },
};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    Available, Options, Seen, Since, decide,
    testkit::{aggregated, applied, at, binding, cluster, duplicated, dynamic, spread, targets, task},
};
use ironclad_fleet::{BindingRef, Clusters};

const S: fn(u64) -> Duration = Duration::from_secs;

fn with_cores(name: &str, cpu: &str) -> Cluster {
    let mut cluster = cluster(name);
    let summary = serde_json::from_value(json!({"allocatable": {"cpu": cpu, "pods": "110"}})).unwrap();
    cluster.status.as_mut().unwrap().resource_summary = Some(summary);
    cluster
}

/// Cluster `m1` with ten cores; a summary every ten seconds.
fn ten_cores() -> Capacity {
    let mut capacity = Capacity::new(Modelling::On, S(10));
    capacity.cluster(&"m1".into(), None, Some(&with_cores("m1", "10")));
    assert_eq!(grown(&mut capacity), ["m1"], "a cluster that joins is growth");
    capacity
}

/// Workload whose replicas request one core each, with this result.
fn asking(replicas: i32, result: &[(&str, i32)]) -> ResourceBinding {
    let mut binding = binding("web", replicas, result);
    binding.spec.placement = Some(dynamic().into());
    let request = serde_json::from_value(json!({"cpu": "1"})).unwrap();
    binding.spec.replica_requirements =
        Some(ReplicaRequirements { resource_request: request, ..Default::default() }.into());
    binding
}

/// Further replicas of one core that fit into `m1`.
fn free(capacity: &Capacity) -> i64 {
    capacity.fits(&"m1".into(), &Question::of(&asking(1, &[]).spec, false), &asker()).unwrap()
}

/// Names of the clusters in which something became free since the last call.
fn grown(capacity: &mut Capacity) -> Vec<String> {
    capacity.take_grown().into_iter().map(|name| name.to_string()).collect()
}

/// Workload without a priority that is not nominated.
fn asker() -> Asker<'static> {
    static SPEC: LazyLock<ResourceBindingSpec> = LazyLock::new(ResourceBindingSpec::default);
    Asker::of(&SPEC)
}

fn report(pods: i64, health: ResourceHealth) -> Vec<AggregatedStatusItem> {
    let status = Some((&json!({"replicas": pods})).into());
    vec![AggregatedStatusItem { cluster_name: "m1".into(), status, health: Some(health), ..Default::default() }]
}

fn assign(capacity: &mut Capacity, binding: &ResourceBinding, after: &[(&str, i32)], now: Duration) {
    capacity.assigned(binding.into(), &targets(after), &Options::default(), now);
}

#[test]
fn what_is_held_for_a_preemptor_fits_whatever_models_count() {
    let grade =
        |grade: u64, min: &str, max: &str| json!({"grade": grade, "ranges": [{"name": "cpu", "min": min, "max": max}]});
    let mut graded = with_cores("m1", "8");
    graded.spec.resource_models = serde_json::from_value(json!([grade(0, "0", "4"), grade(1, "4", "16")])).unwrap();
    let summary = graded.status.as_mut().unwrap().resource_summary.as_mut().unwrap();
    summary.allocatable_modelings = serde_json::from_value(json!([{"grade": 1, "count": 1}])).unwrap();
    let mut capacity = Capacity::new(Modelling::On, S(10));
    capacity.cluster(&"m1".into(), None, Some(&graded));
    assert_eq!(free(&capacity), 4, "the least of the grade");
    let preemptor = asking(8, &[]);
    let fits = |capacity: &Capacity| {
        capacity.fits(&"m1".into(), &Question::of(&preemptor.spec, false), &Asker::of(&preemptor.spec)).unwrap()
    };
    for (nominated, want) in [(0, 4), (3, 4), (6, 6), (8, 8), (9, 8)] {
        capacity.nominate(&preemptor, &targets(&[("m1", nominated)]), &Options::default());
        assert_eq!(fits(&capacity), want, "{nominated} are held");
    }
    let mut other = asking(1, &[]);
    other.spec.resource.name = "other".into();
    let others = capacity.fits(&"m1".into(), &Question::of(&other.spec, false), &Asker::of(&other.spec));
    assert_eq!(others, Some(0), "nobody else gets what is held");
}

#[test]
fn only_gained_replicas_are_promised() {
    for (name, had, has, want) in [
        ("the first time", &[][..], &[("m1", 4)][..], 6),
        ("scaled up", &[("m1", 4)], &[("m1", 7)], 7),
        ("scaled down", &[("m1", 4)], &[("m1", 2)], 10),
        ("as it was", &[("m1", 4)], &[("m1", 4)], 10),
        ("elsewhere", &[], &[("m2", 4)], 10),
    ] {
        let mut capacity = ten_cores();
        assign(&mut capacity, &asking(4, had), has, S(0));
        assert_eq!(free(&capacity), want, "{name}");
    }
    let mut capacity = ten_cores();
    let mut returning = asking(4, &[]);
    returning.spec.graceful_eviction_tasks = vec![task("m1", "TaintUntolerated", Some(3))];
    assign(&mut capacity, &returning, &[("m1", 4)], S(0));
    assert_eq!(free(&capacity), 6, "what left by an eviction may never have run there");
    let mut capacity = ten_cores();
    returning.status.get_or_insert_default().aggregated_status = report(3, ResourceHealth::Unknown);
    assign(&mut capacity, &returning, &[("m1", 4)], S(0));
    assert_eq!(free(&capacity), 9, "what an eviction still runs there is in the summary");
    // Promised replicas are given back as far as they would fit without themselves.
    for (name, cores, want) in [("enough", "10", 4), ("the cluster has shrunk", "2", 2), ("no node is left", "0", 0)] {
        let mut capacity = ten_cores();
        assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
        capacity.cluster(&"m1".into(), None, Some(&with_cores("m1", cores)));
        let mut evicted = asking(4, &[]);
        evicted.spec.graceful_eviction_tasks = vec![task("m1", "TaintUntolerated", Some(4))];
        assert_eq!(capacity.returning((&evicted).into(), &"m1".into()), want, "{name}");
    }

    // Two of four run when the cluster is lost; the others are promised from then on, also through an eviction and
    // back.
    let mut capacity = ten_cores();
    assign(&mut capacity, &asking(4, &[("m1", 2)]), &[("m1", 4)], S(0));
    let mut evicted = asking(4, &[]);
    evicted.spec.graceful_eviction_tasks = vec![task("m1", "TaintUntolerated", Some(4))];
    let key = BindingRef::from(&evicted).key();
    let reports = report(2, ResourceHealth::Unknown);
    evicted.status.get_or_insert_default().aggregated_status.clone_from(&reports);
    capacity.reported(&key, &evicted.spec, &reports, &reports, S(1));
    assert_eq!(free(&capacity), 8, "its copy stays");
    assign(&mut capacity, &evicted, &[("m2", 4)], S(2));
    assert_eq!(free(&capacity), 8, "it has another one elsewhere");
    assign(&mut capacity, &evicted, &[("m1", 4)], S(3));
    assert_eq!(free(&capacity), 8, "it returns");
    let all = report(4, ResourceHealth::Healthy);
    capacity.reported(&key, &evicted.spec, &reports, &all, S(3));
    evicted.status.get_or_insert_default().aggregated_status.clone_from(&all);
    assign(&mut capacity, &evicted, &[("m1", 5)], S(3));
    assert_eq!(free(&capacity), 7, "the others run, and no summary shows them yet");
    evicted.spec.graceful_eviction_tasks.clear();
    capacity.reported(&key, &evicted.spec, &reports, &[], S(4));
    assert_eq!(free(&capacity), 10, "its copy is gone");

    let mut capacity = ten_cores();
    assign(&mut capacity, &asking(2, &[]), &[("m1", 2)], S(0));
    assign(&mut capacity, &asking(5, &[("m1", 2)]), &[("m1", 5)], S(1));
    assert_eq!(free(&capacity), 5, "gains add up");
    assign(&mut capacity, &asking(1, &[("m1", 5)]), &[("m1", 1)], S(2));
    assert_eq!(free(&capacity), 9, "and shrink");
    assign(&mut capacity, &asking(1, &[("m1", 1)]), &[("m2", 1)], S(3));
    assert_eq!((free(&capacity), capacity.promised_count()), (10, 1), "and move");
    capacity.forget(&(BindingRef::from(&asking(1, &[]))).key());
    assert_eq!(capacity.promised_count(), 0, "the binding is deleted");
}

/// A cluster that cannot be reached sends no summary: its last one does not show what was assigned since.
#[test]
fn promises_in_clusters_that_are_not_ready_do_not_expire() {
    let turned = |status: &str| {
        let mut cluster = with_cores("m1", "10");
        let condition = conditions::condition("Ready", status, "", "");
        cluster.status.as_mut().unwrap().conditions = vec![condition];
        cluster
    };
    let (ready, lost, unknown) = (turned("True"), turned("False"), turned("Unknown"));
    for (name, between, want) in
        [("ready", &ready, (10, 0)), ("not ready", &lost, (6, 1)), ("unknown", &unknown, (6, 1))]
    {
        let mut capacity = Capacity::new(Modelling::On, S(10));
        capacity.cluster(&"m1".into(), None, Some(&ready));
        assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
        capacity.cluster(&"m1".into(), Some(&ready), Some(between));
        capacity.expire(S(299));
        assert_eq!(free(&capacity), 6, "{name}");
        capacity.expire(S(300));
        assert_eq!((free(&capacity), capacity.promised_count()), want, "{name}");
        // Whether its copies run there is known again soon after it returns.
        capacity.cluster(&"m1".into(), Some(between), Some(&ready));
        capacity.expire(S(599));
        assert_eq!((free(&capacity), capacity.promised_count()), want, "{name}");
        capacity.expire(S(600));
        assert_eq!((free(&capacity), capacity.promised_count()), (10, 0), "{name}");
    }
}

#[test]
fn result_being_written_counts_until_it_is_reverted() {
    // Two cores are promised for the present result; the next result, with five, is being written.
    let being_written = || {
        let mut capacity = ten_cores();
        assign(&mut capacity, &asking(2, &[]), &[("m1", 2)], S(0));
        let before = asking(5, &[("m1", 2)]);
        let assumed = capacity.assume((&before).into(), &targets(&[("m1", 5)]), &Options::default(), S(100)).unwrap();
        (capacity, assumed, before)
    };
    let key = BindingRef::from(&asking(1, &[])).key();
    let (mut capacity, assumed, _) = being_written();
    assert_eq!((free(&capacity), capacity.being_written.contains(&key)), (5, true), "the next decision sees it");
    capacity.confirm(&assumed);
    assert_eq!((free(&capacity), capacity.being_written.contains(&key)), (5, false), "written");
    drop(capacity.take_grown());
    capacity.expire(S(399));
    assert_eq!((grown(&mut capacity), free(&capacity)), (vec![], 5));
    capacity.expire(S(400));
    assert_eq!((grown(&mut capacity), free(&capacity)), (vec!["m1".to_owned()], 10), "it lasts from the promise on");

    for (name, meanwhile, now, want, ends) in [
        ("not written", (|_| {}) as fn(&mut Capacity), S(101), 8, Some(S(300))),
        ("the previous promise expired meanwhile", |_| {}, S(300), 10, None),
        (
            "the cluster reported meanwhile what it was assigned before",
            |c| {
                c.reported(
                    &BindingRef::from(&asking(1, &[])).key(),
                    &asking(5, &[("m1", 2)]).spec,
                    &[],
                    &report(2, ResourceHealth::Unhealthy),
                    S(101),
                )
            },
            S(102),
            8,
            Some(S(116)),
        ),
        (
            "a report over another result leaves it alone",
            |c| c.reported(&BindingRef::from(&asking(1, &[])).key(), &asking(5, &[]).spec, &[], &[], S(101)),
            S(102),
            8,
            Some(S(300)),
        ),
        ("the binding went meanwhile", |c| c.forget(&BindingRef::from(&asking(1, &[])).key()), S(101), 10, None),
    ] {
        let (mut capacity, assumed, _) = being_written();
        meanwhile(&mut capacity);
        capacity.revert(assumed, now);
        assert_eq!((free(&capacity), capacity.expires_next()), (want, ends), "{name}");
        assert!(!capacity.being_written.contains(&key), "{name}");
    }

    let mut moved = ten_cores();
    assign(&mut moved, &asking(2, &[]), &[("m1", 2)], S(0));
    let assumed = moved.assume((&asking(2, &[("m1", 2)])).into(), &targets(&[("m2", 2)]), &Options::default(), S(1));
    assert_eq!((free(&moved), moved.promised_count()), (10, 1), "what it leaves is free for the next");
    moved.revert(assumed.unwrap(), S(2));
    assert_eq!((free(&moved), moved.promised_count()), (8, 1), "confirmed results keep their promise");
    let mut takes_none = asking(0, &[]);
    takes_none.spec.replica_requirements = None;
    assert!(moved.assume((&takes_none).into(), &targets(&[("m1", 0)]), &Options::default(), S(3)).is_none());
}

#[test]
fn only_namespaced_workloads_are_promised() {
    let mut capacity = ten_cores();
    let mut config = asking(0, &[]);
    config.spec.replica_requirements = None;
    assign(&mut capacity, &config, &[("m1", 0)], S(0));
    let cluster_binding = ironclad_api::work::ClusterResourceBinding::new("x", asking(3, &[]).spec);
    capacity.assigned((&cluster_binding).into(), &targets(&[("m1", 3)]), &Options::default(), S(0));
    assert_eq!(capacity.promised_count(), 0);
}

#[test]
fn promise_ends_after_the_cluster_reports_the_pods() {
    use ResourceHealth::{Healthy, Unhealthy};
    let (key, spec) = ((BindingRef::from(&asking(4, &[]))).key(), asking(4, &[("m1", 4)]).spec);
    for (name, old, new, ends) in [
        ("all pods exist: with the next summary", vec![], report(4, Unhealthy), S(25)),
        ("it turned healthy", report(0, Unhealthy), report(0, Healthy), S(25)),
        ("healthy as before, and a pod is missing", report(3, Healthy), report(3, Healthy), S(300)),
        ("healthy as before, all pods exist", report(3, Healthy), report(4, Healthy), S(25)),
        ("nothing is reported", vec![], vec![], S(300)),
    ] {
        let mut capacity = ten_cores();
        assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
        capacity.reported(&key, &spec, &old, &new, S(10));
        assert_eq!(capacity.expires_next(), Some(ends), "{name}");
        drop(capacity.take_grown());
        capacity.expire(ends - Duration::from_nanos(1));
        assert_eq!((free(&capacity), grown(&mut capacity)), (6, vec![]), "{name}");
        capacity.expire(ends);
        assert_eq!(grown(&mut capacity), ["m1"], "{name}");
        assert_eq!((free(&capacity), capacity.promised_count()), (10, 0), "{name}");
    }
    let mut capacity = ten_cores();
    assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
    capacity.reported(&key, &asking(4, &[("m2", 4)]).spec, &[], &[], S(10));
    assert_eq!(capacity.promised_count(), 0, "it is no target any more");
}

#[test]
fn restart_restores_unreported_assignments() {
    use ResourceHealth::{Healthy, Unhealthy};
    let silent = |mut cluster: Cluster| {
        cluster.status.as_mut().unwrap().conditions = vec![conditions::condition("Ready", "False", "", "")];
        cluster
    };
    let ready = |mut cluster: Cluster, since| {
        let condition = conditions::condition("Ready", "True", "", "");
        cluster.status.as_mut().unwrap().conditions =
            vec![Condition { last_transition_time: Time(at(since)), ..condition }];
        cluster
    };
    let without_pods = || {
        let mut healthy = report(0, Healthy);
        healthy[0].status = None;
        healthy
    };
    for (name, reports, age, is_observed, ready_since, want) in [
        ("nothing reported", vec![], 100, true, Some(0), Some((6, S(200)))),
        ("some pods exist", report(3, Unhealthy), 100, true, Some(0), Some((9, S(200)))),
        ("healthy, with fewer replicas before", report(3, Healthy), 100, true, Some(0), Some((9, S(200)))),
        ("healthy, of a kind that reports no pods", without_pods(), 100, true, Some(0), None),
        ("all pods exist", report(4, Healthy), 44, true, Some(0), None),
        ("long ago", vec![], 300, true, Some(0), None),
        ("the process ended before it wrote the time", vec![], 300, false, Some(0), Some((6, S(300)))),
        ("long ago, and the cluster is ready since a short time", vec![], 1_000, true, Some(1_900), Some((6, S(200)))),
        ("long ago, and no summary has come since", vec![], 1_000, true, None, Some((6, S(0)))),
        ("all pods exist, and the cluster was lost", report(4, Healthy), 84, true, None, None),
    ] {
        let mut capacity = ten_cores();
        let cluster = with_cores("m1", "10");
        let cluster = ready_since.map_or_else(|| silent(cluster.clone()), |since| ready(cluster.clone(), since));
        capacity.cluster(&"m1".into(), None, Some(&cluster));
        let mut binding = asking(4, &[("m1", 4)]);
        binding.metadata.generation = Some(2);
        let status = binding.status.get_or_insert_default();
        status.scheduler_observed_generation = if is_observed { 2 } else { 1 };
        status.last_scheduled_time = Some(Time(at(2_000 - age)));
        for _ in 0..2 {
            capacity.found((&binding).into(), &reports, at(2_000), &Options::default(), S(0));
        }
        let got = capacity.expires_next().map(|ends| (free(&capacity), ends));
        assert_eq!(got, want, "{name}");
    }
}

/// Replicas that were assigned to a lost cluster, and never ran there, stay promised while a task holds the copy.
#[test]
fn eviction_keeps_promises_and_other_moves_end_them() {
    for (name, tasks, want) in [
        ("evicted", vec![task("m1", "TaintUntolerated", Some(4))], 6),
        ("evicted from another cluster", vec![task("m2", "TaintUntolerated", Some(4))], 10),
        ("moved by its scheduler", vec![], 10),
    ] {
        let mut capacity = ten_cores();
        assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
        let (placed, mut gone) = (asking(4, &[("m1", 4)]), asking(4, &[]));
        gone.spec.graceful_eviction_tasks = tasks;
        capacity.observed((&placed).into(), &gone.spec, &Options::default(), S(1));
        assert_eq!(free(&capacity), want, "{name}");
    }
}

/// After a start, what an eviction holds in a lost cluster is promised as far as the cluster never reported it.
#[test]
fn copies_of_eviction_tasks_are_found() {
    let mut lost = with_cores("m1", "10");
    lost.status.as_mut().unwrap().conditions = vec![conditions::condition("Ready", "False", "", "")];
    let mut evicted = asking(4, &[]);
    evicted.spec.graceful_eviction_tasks = vec![task("m1", "TaintUntolerated", Some(4))];
    for (name, reports, want) in [
        ("none ran", vec![], 6),
        ("two ran", report(2, ResourceHealth::Unknown), 8),
        ("all ran", report(4, ResourceHealth::Unknown), 10),
    ] {
        let mut capacity = Capacity::new(Modelling::On, S(10));
        capacity.cluster(&"m1".into(), None, Some(&lost));
        capacity.found((&evicted).into(), &reports, at(2_000), &Options::default(), S(0));
        assert_eq!(free(&capacity), want, "{name}");
    }
}

#[test]
fn component_sets_are_promised_by_component() {
    let component = |name: &str, replicas| {
        let needs = ReplicaRequirements {
            resource_request: serde_json::from_value(json!({"cpu": "1"})).unwrap(),
            ..Default::default()
        };
        serde_json::from_value::<Component>(json!({"name": name, "replicas": replicas, "replicaRequirements": needs}))
            .unwrap()
    };
    let on = Options { component_scheduling: true, ..Options::default() };
    let mut job = asking(0, &[]);
    job.spec.replica_requirements = None;
    job.spec.components = vec![component("manager", 1), component("worker", 3)];
    job.spec.placement =
        Some(Placement { spread_constraints: vec![spread(SpreadByField::Cluster, 1, 1)], ..duplicated() }.into());
    let target = |job: &ResourceBinding| {
        let mut target = targets(&[("m1", 0)]);
        target[0].components = crate::cycle::component_targets(&job.spec);
        target
    };
    let mut capacity = ten_cores();
    capacity.assigned((&job).into(), &target(&job), &on, S(0));
    assert_eq!(free(&capacity), 6, "one manager, three workers");
    job.spec.clusters = target(&job);
    capacity.assigned((&job).into(), &target(&job), &on, S(1));
    assert_eq!(free(&capacity), 6, "nothing more");
    job.spec.components[1].replicas = 5;
    let mut seen = ten_cores();
    seen.assigned((&job).into(), &target(&job), &on, S(2));
    assert_eq!(free(&seen), 8, "two more workers");
}

#[test]
fn cluster_changes_update_capacity() {
    let mut capacity = ten_cores();
    let (old, larger) = (with_cores("m1", "10"), with_cores("m1", "12"));
    let mut relabelled = old.clone();
    relabelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    capacity.cluster(&"m1".into(), Some(&old), Some(&relabelled));
    assert_eq!(grown(&mut capacity), [""; 0], "no summary changed");
    capacity.cluster(&"m1".into(), Some(&relabelled), Some(&larger));
    assert_eq!((grown(&mut capacity), free(&capacity)), (vec!["m1".to_owned()], 12));
    capacity.cluster(&"m1".into(), Some(&larger), Some(&old));
    assert_eq!(grown(&mut capacity), [""; 0], "less is no growth");
    assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
    capacity.cluster(&"m1".into(), Some(&old), None);
    assert_eq!(grown(&mut capacity), [""; 0]);
    let question = Question::of(&asking(1, &[]).spec, false);
    assert_eq!(capacity.fits(&"m1".into(), &question, &asker()), None, "nobody knows it any more");
    capacity.cluster(&"m1".into(), None, Some(&old));
    assert_eq!(free(&capacity), 6, "the promise remains");
    assert!(capacity.is_known(&"m1".into()) && !capacity.is_known(&"m2".into()));
}

#[test]
fn promised_replicas_occupy_nodes_of_the_models() {
    let mut with_nodes = with_cores("m1", "100");
    with_nodes.spec.resource_models =
        serde_json::from_value(json!([{"grade": 0, "ranges": [{"name": "cpu", "min": "2", "max": "4"}]}])).unwrap();
    with_nodes.status.as_mut().unwrap().resource_summary.as_mut().unwrap().allocatable_modelings =
        serde_json::from_value(json!([{"grade": 0, "count": 5}])).unwrap();
    let mut capacity = Capacity::new(Modelling::On, S(10));
    capacity.cluster(&"m1".into(), None, Some(&with_nodes));
    let mut large = asking(3, &[]);
    large.spec.replica_requirements.as_mut().unwrap().resource_request =
        serde_json::from_value(json!({"cpu": "1500m"})).unwrap();
    assert_eq!(free(&capacity), 10);
    assign(&mut capacity, &large, &[("m1", 3)], S(0));
    assert_eq!(free(&capacity), 4, "three nodes have half a core left each");
    capacity.expire(S(300));
    assert_eq!(free(&capacity), 10);
}

#[test]
fn number_of_promises_is_bounded() {
    let mut capacity = Capacity::new(Modelling::On, S(10));
    let mut one = asking(1, &[]);
    for n in 0..=PROMISED_MAX {
        one.metadata.name = Some(format!("b{n}"));
        assign(&mut capacity, &one, &[("m1", 1)], Duration::from_nanos(n as u64));
    }
    assert_eq!(capacity.promised_count(), PROMISED_MAX);
    assert_eq!(capacity.expires_next(), Some(PROMISED_TTL + Duration::from_nanos(1)), "the one that ends first went");
}

proptest! {
    /// Evictions in a burst use the same summary, which lacks all recent assignments: no cluster is assigned more than
    /// its capacity. The gate is off: evictions alone subtract promised replicas (specification/failover.md 8.5).
    #[test]
    fn burst_of_evictions_never_exceeds_capacity(
        cores in prop::collection::vec(0_i64..12, 1..4), workloads in prop::collection::vec((1_i32..6, any::<bool>()), 1..20),
    ) {
        let mut fleet = Clusters::new();
        for (n, cores) in cores.iter().enumerate() {
            let name = format!("m{}", n + 1);
            fleet.insert(name.as_str().into(), with_cores(&name, &cores.to_string()).into());
        }
        let mut capacity = Capacity::of(&fleet, Modelling::On);
        let (available, options) = (Available::new(), Options::default());
        let mut given: BTreeMap<String, i64> = BTreeMap::new();
        for (n, (replicas, packed)) in workloads.iter().enumerate() {
            let mut evicted = asking(*replicas, &[]);
            evicted.metadata.name = Some(format!("b{n}"));
            evicted.spec.placement = Some(if *packed { aggregated() } else { dynamic() }.into());
            evicted.spec.graceful_eviction_tasks = vec![task("m0", "TaintUntolerated", Some(*replicas))];
            // Twice: in the second cycle the binding has replicas of its own that no summary shows.
            for more in [0, 1] {
                evicted.spec.replicas += more;
                let seen =
                    Seen { binding: (&evicted).into(), clusters: &fleet, available: &available, capacity: &capacity, options: &options, since: Since::default(), preempting: None, peers: None, index: None };
                let after = applied(&evicted, &decide(&seen, at(1)));
                capacity.assigned((&evicted).into(), &after.spec.clusters, &options, S(n as u64));
                for target in &after.spec.clusters {
                    let had = evicted.spec.target(&target.name).map_or(0, |had| had.replicas);
                    *given.entry(target.name.clone()).or_default() += i64::from(target.replicas - had);
                }
                evicted = after;
            }
        }
        for (n, cores) in cores.iter().enumerate() {
            let name = format!("m{}", n + 1);
            prop_assert!(given.get(&name).copied().unwrap_or(0) <= *cores, "{name} has {cores} cores: {given:?}");
        }
    }
}

#[test]
fn promises_are_restored_when_a_cluster_is_found_or_lost() {
    let found = |status: &str, since: i64| {
        let mut cluster = with_cores("m1", "10");
        let condition = conditions::condition("Ready", status, "", "");
        cluster.status.as_mut().unwrap().conditions =
            vec![Condition { last_transition_time: Time(at(since)), ..condition }];
        cluster
    };
    let (ready, recent, lost) = (found("True", 1_000), found("True", 1_900), found("False", 1_000));
    for (name, old, new, want) in [
        ("found, and ready since long ago", None, Some(&ready), false),
        ("found, and ready since a short time", None, Some(&recent), true),
        ("found, and not ready", None, Some(&lost), true),
        ("lost", Some(&ready), Some(&lost), true),
        ("it returns", Some(&lost), Some(&recent), false),
        ("it stays ready", Some(&recent), Some(&recent), false),
        ("removed", Some(&ready), None, false),
    ] {
        assert_eq!(restores(old, new, at(2_000)), want, "{name}");
    }
}
