//! Where nodes and pods are watched: what is promised until its pods have come, and the account against a recount.

use ironclad_api::{
    policy::{PurgeMode, SuspendClusters},
    work::BindingSuspension,
};

use super::*;
use crate::estimator::Claim;

fn m1() -> ClusterName {
    "m1".into()
}

fn node(cores: i64) -> Node {
    let allocatable = [("cpu".to_owned(), cores * 1_000), ("pods".to_owned(), 110)].into_iter().collect();
    Node { allocatable, ..Node::default() }
}

/// Pod of a Deployment, which requests one core; on no node, it waits for one.
fn pod(of: &str, node: &str) -> Pod {
    let waiting = node.is_empty().then(|| Box::new((format!("default/{of}"), Claim::default())));
    Pod {
        node: node.into(),
        request: [("cpu".to_owned(), 1_000)].into_iter().collect(),
        workload: Workload::new("Deployment", "default", of),
        is_replica: true,
        waiting,
        ..Pod::default()
    }
}

/// Cluster `m1` whose nodes and pods are watched: one node `n1` with ten cores.
fn watched() -> Capacity {
    let mut capacity = ten_cores();
    capacity.lists(&m1());
    capacity.node(&m1(), "n1", Some(node(10)));
    capacity.listed(&m1());
    drop(capacity.take_grown());
    capacity
}

/// Four replicas of `web` are promised.
fn promised() -> Capacity {
    let mut capacity = watched();
    assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
    assert_eq!((free(&capacity), due(&capacity), grown(&mut capacity)), (6, 4, vec![]));
    capacity
}

/// Replicas that are promised in `m1` and not observed.
fn due(capacity: &Capacity) -> i64 {
    capacity.promised_in(&m1()).map(|(_, _, due)| due).sum()
}

fn key() -> BindingKey {
    BindingRef::from(&asking(1, &[])).key()
}

fn comes(capacity: &mut Capacity, pod: &Pod, now: Duration) {
    capacity.pod(&m1(), None, Some(pod), now);
}

fn applied_there() -> Vec<AggregatedStatusItem> {
    vec![AggregatedStatusItem { cluster_name: "m1".into(), applied: true, ..AggregatedStatusItem::default() }]
}

#[test]
fn promised_replicas_count_until_their_pods_have_come() {
    let (waiting, bound) = (pod("web", ""), pod("web", "n1"));
    let leaving = Pod { is_leaving: true, is_replica: false, ..bound.clone() };
    let ended = Pod { has_ended: true, ..bound.clone() };
    let other = pod("other", "n1");
    let nobodys = Pod { workload: Workload::NONE, ..bound.clone() };
    type Pods<'a> = Option<&'a Pod>;
    let steps: [(&str, Pods<'_>, Pods<'_>, i64, i64); 17] = [
        ("a pod waits for a node", None, Some(&waiting), 6, 3),
        ("it gets one", Some(&waiting), Some(&bound), 6, 3),
        ("the second one has a node at once", None, Some(&bound), 6, 2),
        ("a pod of another workload", None, Some(&other), 5, 2),
        ("a pod that nobody controls", None, Some(&nobodys), 4, 2),
        ("it goes", Some(&nobodys), None, 5, 2),
        ("the third one", None, Some(&bound), 5, 1),
        ("one is being deleted, so that another one comes: it holds its node", Some(&bound), Some(&leaving), 4, 2),
        ("it is gone", Some(&leaving), None, 5, 2),
        ("the third one again", None, Some(&bound), 5, 1),
        ("the last one", None, Some(&bound), 5, 0),
        ("more than promised, since its member scales it", None, Some(&bound), 4, 0),
        ("pods end: the promise does not come back", Some(&bound), Some(&ended), 5, 0),
        ("the next one", Some(&bound), Some(&ended), 6, 0),
        ("they are removed", Some(&ended), None, 6, 0),
        ("the next one", Some(&ended), None, 6, 0),
        ("one that ran is deleted", Some(&bound), None, 7, 0),
    ];
    let mut capacity = promised();
    for (name, old, new, want, open) in steps {
        capacity.pod(&m1(), old, new, S(1));
        assert_eq!((free(&capacity), due(&capacity)), (want, open), "{name}");
        assert_eq!(capacity.promised_count(), usize::from(open > 0), "{name}");
    }
}

/// A Job whose pods complete before the last one has come.
#[test]
fn pods_that_have_ended_have_come() {
    let mut capacity = promised();
    let ended = Pod { has_ended: true, ..pod("web", "n1") };
    for (name, want) in [("first", (7, 3)), ("second", (8, 2)), ("third", (9, 1)), ("fourth", (10, 0))] {
        comes(&mut capacity, &ended, S(1));
        assert_eq!((free(&capacity), due(&capacity)), want, "{name}");
    }
    for _ in 0..4 {
        capacity.pod(&m1(), Some(&ended), None, S(2));
        assert_eq!((free(&capacity), due(&capacity)), (10, 0), "they are removed");
    }
}

#[test]
fn what_ends_a_promise_gives_its_room_back() {
    type Change = fn(&mut Capacity);
    const APPLIED_AT_10: Change = |capacity| {
        capacity.reported(&key(), &asking(4, &[("m1", 4)]).spec, &[], &applied_there(), S(10));
    };
    let nothing: Change = |_| {};
    let rows: [(&str, Change, Change, i64); 14] = [
        (
            "the result does not name the cluster any more",
            nothing,
            |c| c.observed((&asking(4, &[("m1", 4)])).into(), &asking(4, &[]).spec, &Options::default(), S(1)),
            10,
        ),
        ("it names another one", nothing, |c| assign(c, &asking(4, &[("m1", 4)]), &[("m2", 4)], S(1)), 10),
        ("no replicas are wanted", nothing, |c| assign(c, &asking(0, &[("m1", 4)]), &[("m1", 0)], S(1)), 10),
        (
            "fewer are wanted than have come",
            |c| {
                comes(c, &pod("web", "n1"), S(20));
                comes(c, &pod("web", "n1"), S(20));
            },
            |c| assign(c, &asking(2, &[("m1", 4)]), &[("m1", 2)], S(24)),
            8,
        ),
        (
            "dispatching is suspended",
            nothing,
            |c| {
                let (placed, mut suspended) = (asking(4, &[("m1", 4)]), asking(4, &[("m1", 4)]));
                let all = BindingSuspension { dispatching: Some(true), ..BindingSuspension::default() };
                suspended.spec.suspension = Some(all);
                c.observed((&placed).into(), &suspended.spec, &Options::default(), S(1));
            },
            10,
        ),
        ("the binding is deleted", nothing, |c| c.forget(&key()), 10),
        ("no pod comes after the member applied it", APPLIED_AT_10, |c| c.expire(S(25)), 10),
        (
            "no pod comes once pods are watched again",
            |c| {
                APPLIED_AT_10(c);
                c.expire_watched(S(25), |_| S(0));
                c.expire_watched(S(40), |_| S(14));
            },
            |c| c.expire_watched(S(55), |_| S(29)),
            10,
        ),
        (
            "nobody sees pods for minutes",
            |c| {
                APPLIED_AT_10(c);
                (25..300).for_each(|second| c.expire_watched(S(second), |_| S(0)));
            },
            |c| c.expire_watched(S(300), |_| S(0)),
            10,
        ),
        (
            "no further pod comes for some time",
            |c| {
                comes(c, &pod("web", "n1"), S(5));
                c.reported(&key(), &asking(4, &[("m1", 4)]).spec, &[], &applied_there(), S(10));
                comes(c, &pod("web", "n1"), S(20));
                c.expire(S(25));
            },
            |c| c.expire(S(35)),
            8,
        ),
        ("nobody applies it", |c| c.expire(S(299)), |c| c.expire(S(300)), 10),
        (
            "another member applied it",
            |c| {
                let mut report = applied_there();
                report[0].cluster_name = "m2".into();
                c.reported(&key(), &asking(4, &[("m1", 4)]).spec, &[], &report, S(10));
                c.expire(S(299));
            },
            |c| c.expire(S(300)),
            10,
        ),
        (
            "it is not applied",
            |c| {
                let mut report = applied_there();
                report[0].applied = false;
                c.reported(&key(), &asking(4, &[("m1", 4)]).spec, &[], &report, S(10));
                c.expire(S(299));
            },
            |c| c.expire(S(300)),
            10,
        ),
        (
            "a task that deletes at once takes the result's place",
            nothing,
            |c| {
                let mut evicted = asking(4, &[]);
                evicted.spec.graceful_eviction_tasks = vec![task("m1", "BindingPreempted", Some(4))];
                evicted.spec.graceful_eviction_tasks[0].purge_mode = Some(PurgeMode::Directly);
                c.observed((&asking(4, &[("m1", 4)])).into(), &evicted.spec, &Options::default(), S(1));
            },
            10,
        ),
    ];
    for (name, before, ends, want) in rows {
        let mut capacity = promised();
        before(&mut capacity);
        capacity.expire(S(24));
        drop(capacity.take_grown());
        let open = due(&capacity);
        assert!(open > 0 && free(&capacity) == want - open, "{name}: {open} are promised");
        ends(&mut capacity);
        assert_eq!((free(&capacity), capacity.promised_in(&m1()).count()), (want, 0), "{name}");
        assert_eq!(grown(&mut capacity), ["m1"], "{name}");
        // What has ended does not come back with pods that go.
        comes(&mut capacity, &pod("web", "n1"), S(400));
        capacity.pod(&m1(), Some(&pod("web", "n1")), None, S(400));
        assert_eq!((free(&capacity), due(&capacity)), (want, 0), "{name}");
    }
}

/// Bindings that wait for capacity are tried again only if there is more of it.
#[test]
fn only_what_becomes_free_is_growth() {
    let (waiting, bound) = (pod("web", ""), pod("web", "n1"));
    let leaving = Pod { is_leaving: true, is_replica: false, ..bound.clone() };
    let ended = Pod { has_ended: true, ..bound.clone() };
    let large = Pod { request: [("cpu".to_owned(), 9_000)].into_iter().collect(), ..waiting.clone() };
    let resized = Pod { request: [("cpu".to_owned(), 500)].into_iter().collect(), ..bound.clone() };
    let elsewhere = Pod { node: "n2".into(), ..bound.clone() };
    let unowned = Pod { workload: Workload::NONE, ..bound.clone() };
    type Pods<'a> = Option<&'a Pod>;
    let rows: [(&str, Pods<'_>, Pods<'_>, bool); 14] = [
        ("it comes, and was promised", None, Some(&bound), false),
        ("it comes and waits, and was promised", None, Some(&waiting), false),
        ("it gets the node on which it was expected", Some(&waiting), Some(&bound), false),
        ("it gets another one", Some(&waiting), Some(&elsewhere), true),
        ("it is being deleted", Some(&bound), Some(&leaving), false),
        ("its owner changes", Some(&bound), Some(&unowned), false),
        ("it ends", Some(&bound), Some(&ended), true),
        ("it ends while it is being deleted", Some(&leaving), Some(&ended), true),
        ("it is gone", Some(&bound), None, true),
        ("it is gone after its end", Some(&ended), None, false),
        ("it waits no more", Some(&waiting), None, true),
        ("no node had room for it, and it waits no more", Some(&large), None, true),
        ("it requests less", Some(&bound), Some(&resized), true),
        ("it requests more", Some(&resized), Some(&bound), false),
    ];
    for (name, old, new, want) in rows {
        let mut capacity = watched();
        capacity.node(&m1(), "n2", Some(node(1)));
        (0..4).for_each(|_| comes(&mut capacity, &pod("other", "n1"), S(0)));
        old.into_iter().for_each(|old| comes(&mut capacity, old, S(0)));
        assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
        drop(capacity.take_grown());
        capacity.pod(&m1(), old, new, S(1));
        assert_eq!(grown(&mut capacity), if want { &["m1"][..] } else { &[] }, "{name}");
    }
    for (name, nodes, want) in
        [("a node shrinks", [9, 8], false), ("what was expected there leaves a rest", [8, 7], true)]
    {
        let mut capacity = watched();
        capacity.node(&m1(), "n1", Some(node(nodes[0])));
        let four = Pod { request: [("cpu".to_owned(), 4_000)].into_iter().collect(), ..waiting.clone() };
        for at in 0..2 {
            let waiting = Some(Box::new((format!("default/web{at}"), Claim::default())));
            comes(&mut capacity, &Pod { waiting, ..four.clone() }, S(0));
        }
        drop(capacity.take_grown());
        let before = free(&capacity);
        capacity.node(&m1(), "n1", Some(node(nodes[1])));
        assert_eq!((free(&capacity) > before, grown(&mut capacity) == ["m1"]), (want, want), "{name}");
    }
}

/// Two of four replicas run and were applied when the other two were assigned. A report that was there already says
/// nothing about them, and neither does a pod that takes the place of another.
#[test]
fn only_what_concerns_the_result_ends_a_promise_early() {
    let reports = |capacity: &mut Capacity, was_applied: bool, at: u64| {
        let (mut old, mut new) = (applied_there(), applied_there());
        old[0].applied = was_applied;
        new[0].status = Some((&json!({"replicas": 2, "readyReplicas": 2})).into());
        capacity.reported(&key(), &asking(4, &[("m1", 4)]).spec, &old, &new, S(at));
    };
    let edited = |capacity: &mut Capacity, at: u64| {
        let (mut old, mut new) = (applied_there(), applied_there());
        old[0].status = Some((&json!({"replicas": 2, "generation": 1})).into());
        new[0].status = Some((&json!({"replicas": 2, "generation": 2})).into());
        capacity.reported(&key(), &asking(4, &[("m1", 4)]).spec, &old, &new, S(at));
    };
    let replaced = |capacity: &mut Capacity, at: u64| {
        capacity.pod(&m1(), Some(&pod("web", "n1")), None, S(at));
        comes(capacity, &pod("web", "n1"), S(at));
    };
    type Change<'a> = &'a dyn Fn(&mut Capacity);
    let rows: [(&str, Change<'_>, u64, i64); 9] = [
        ("nothing happens", &|_| {}, 300, 2),
        ("it was applied before", &|c| reports(c, true, 10), 300, 2),
        ("it is applied anew", &|c| reports(c, false, 10), 25, 2),
        ("its copy is edited", &|c| edited(c, 10), 25, 2),
        ("a pod comes", &|c| comes(c, &pod("web", "n1"), S(10)), 25, 1),
        ("a pod is replaced", &|c| replaced(c, 10), 300, 2),
        ("a pod goes", &|c| c.pod(&m1(), Some(&pod("web", "n1")), None, S(10)), 300, 3),
        (
            "pods are replaced all the time",
            &|c| {
                reports(c, false, 10);
                (11..25).for_each(|at| replaced(c, at));
            },
            25,
            2,
        ),
        (
            "a pod comes just before the end",
            &|c| {
                c.expire(S(299));
                comes(c, &pod("web", "n1"), S(299));
            },
            314,
            1,
        ),
    ];
    for (name, change, ends, open) in rows {
        let mut capacity = watched();
        (0..2).for_each(|_| comes(&mut capacity, &pod("web", "n1"), S(0)));
        assign(&mut capacity, &asking(4, &[("m1", 2)]), &[("m1", 4)], S(0));
        assert_eq!((free(&capacity), due(&capacity)), (6, 2), "{name}");
        change(&mut capacity);
        capacity.expire(S(ends - 1));
        assert_eq!(due(&capacity), open, "{name}: a second before");
        capacity.expire(S(ends));
        assert_eq!(due(&capacity), 0, "{name}");
    }
}

/// The request is edited before all pods have come, which changes neither the result nor the end of the promise.
#[test]
fn a_promise_takes_the_request_of_the_present_spec() {
    let requests = |cores: &str| {
        let mut binding = asking(4, &[("m1", 4)]);
        let request = serde_json::from_value(json!({ "cpu": cores })).unwrap();
        binding.spec.replica_requirements =
            Some(ReplicaRequirements { resource_request: request, ..Default::default() }.into());
        binding
    };
    for (name, mut capacity) in [("by node", watched()), ("by summary", ten_cores())] {
        assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
        let edits =
            [("1", "2", 2, false), ("2", "2500m", 0, false), ("2500m", "500m", 8, true), ("500m", "1", 6, false)];
        for (old, new, want, grew) in edits {
            drop(capacity.take_grown());
            capacity.observed((&requests(old)).into(), &requests(new).spec, &Options::default(), S(100));
            assert_eq!((free(&capacity), due(&capacity)), (want, 4), "{name}: {old} to {new}");
            assert!(!grew || grown(&mut capacity) == ["m1"], "{name}: {old} to {new}");
        }
        capacity.expire(S(300));
        assert_eq!((free(&capacity), due(&capacity)), (10, 0), "{name}");
    }
}

#[test]
fn what_names_a_cluster_promises_replicas() {
    let suspended = |suspension: BindingSuspension| {
        let mut binding = asking(4, &[]);
        binding.spec.suspension = Some(suspension);
        binding
    };
    let on = |cluster: &str| BindingSuspension {
        dispatching_on_clusters: Some(SuspendClusters { cluster_names: vec![cluster.to_owned()] }),
        ..BindingSuspension::default()
    };
    let leaving = |purge_mode| {
        let mut binding = asking(4, &[]);
        binding.spec.graceful_eviction_tasks = vec![task("m1", "TaintUntolerated", Some(3))];
        binding.spec.graceful_eviction_tasks[0].purge_mode = purge_mode;
        binding
    };
    let all = BindingSuspension { dispatching: Some(true), ..BindingSuspension::default() };
    let scheduling = BindingSuspension { scheduling: Some(true), ..BindingSuspension::default() };
    let (m1, m2) = ([("m1", 4)], [("m2", 4)]);
    for (name, binding, after, want) in [
        ("a target", asking(4, &[]), &m1, 6),
        ("a target elsewhere", asking(4, &[]), &m2, 10),
        ("dispatching is suspended", suspended(all), &m1, 10),
        ("dispatching is suspended there", suspended(on("m1")), &m1, 10),
        ("dispatching is suspended elsewhere", suspended(on("m2")), &m1, 6),
        ("scheduling is suspended", suspended(scheduling), &m1, 6),
        ("a task that deletes at once", leaving(Some(PurgeMode::Directly)), &m2, 10),
        ("a task that deletes later", leaving(Some(PurgeMode::Gracefully)), &m2, 7),
        ("a task that deletes later, by default", leaving(None), &m2, 7),
        ("a task that never deletes", leaving(Some(PurgeMode::Never)), &m2, 7),
        ("a task, and the binding returns", leaving(Some(PurgeMode::Directly)), &m1, 6),
    ] {
        let mut capacity = watched();
        // What a task keeps was the result before.
        let before = if binding.spec.graceful_eviction_tasks.is_empty() { vec![] } else { vec![("m1", 3)] };
        assign(&mut capacity, &asking(3, &[]), &before, S(0));
        if !before.is_empty() {
            capacity.observed((&asking(3, &before)).into(), &binding.spec, &Options::default(), S(1));
        }
        assign(&mut capacity, &binding, after, S(2));
        assert_eq!(free(&capacity), want, "{name}");
    }
    let (mut capacity, held) = (watched(), suspended(on("m1")));
    assign(&mut capacity, &held, &[("m1", 4)], S(0));
    let held = ResourceBinding { spec: ResourceBindingSpec { clusters: targets(&m1), ..held.spec }, ..held };
    capacity.observed((&held).into(), &asking(4, &m1).spec, &Options::default(), S(1));
    assert_eq!(free(&capacity), 6, "dispatching is resumed");
}

#[test]
fn a_result_that_is_not_written_promises_nothing() {
    let mut capacity = watched();
    comes(&mut capacity, &pod("web", "n1"), S(0));
    let before = asking(4, &[("m1", 1)]);
    let reserved = capacity.assume((&before).into(), &targets(&[("m1", 4)]), &Options::default(), S(1)).unwrap();
    assert_eq!((free(&capacity), due(&capacity)), (6, 3), "one of four runs");
    comes(&mut capacity, &pod("web", "n1"), S(1));
    assert_eq!((free(&capacity), due(&capacity)), (6, 2), "its pod may come before the answer");
    capacity.revert(reserved, S(2));
    assert_eq!((free(&capacity), due(&capacity)), (8, 0));
    // What is restored counts the pods that came meanwhile.
    let mut capacity = promised();
    let reserved =
        capacity.assume((&asking(5, &[("m1", 4)])).into(), &targets(&[("m1", 5)]), &Options::default(), S(1));
    comes(&mut capacity, &pod("web", "n1"), S(1));
    capacity.revert(reserved.unwrap(), S(2));
    assert_eq!((free(&capacity), due(&capacity)), (6, 3));
}

/// The account follows the summary until nodes and pods are listed, and never after.
#[test]
fn the_account_is_by_node_once_nodes_and_pods_are_listed() {
    let mut capacity = ten_cores();
    assign(&mut capacity, &asking(4, &[]), &[("m1", 4)], S(0));
    capacity.starts(S(0));
    capacity.lists(&m1());
    capacity.node(&m1(), "n1", Some(node(8)));
    comes(&mut capacity, &pod("web", "n1"), S(1));
    comes(&mut capacity, &pod("web", "n1"), S(1));
    assert_eq!((free(&capacity), due(&capacity), capacity.is_by_node(&m1())), (6, 4, false), "by the summary");
    assert!(capacity.is_recounting());
    assert_eq!(grown(&mut capacity), [""; 0]);
    capacity.listed(&m1());
    assert_eq!((free(&capacity), due(&capacity), capacity.is_by_node(&m1())), (4, 2, true), "two of four have come");
    assert!(!capacity.is_recounting());
    assert_eq!(grown(&mut capacity), ["m1"]);
    let (old, new) = (with_cores("m1", "10"), with_cores("m1", "20"));
    capacity.cluster(&m1(), Some(&old), Some(&new));
    assert_eq!((free(&capacity), grown(&mut capacity)), (4, vec![]), "summaries do not count any more");
    // It is listed anew, after a disconnection for example: what was known counts until then.
    capacity.lists(&m1());
    capacity.node(&m1(), "n2", Some(node(3)));
    assert_eq!((free(&capacity), due(&capacity)), (4, 2));
    assign(&mut capacity, &asking(5, &[("m1", 4)]), &[("m1", 5)], S(2));
    assert_eq!((free(&capacity), due(&capacity)), (3, 3), "one more");
    comes(&mut capacity, &pod("web", "n2"), S(3));
    assert_eq!((free(&capacity), due(&capacity)), (3, 3));
    capacity.listed(&m1());
    assert_eq!((free(&capacity), due(&capacity)), (0, 4), "one of five has come, and two have a place");
    capacity.node(&m1(), "n1", Some(node(8)));
    assert_eq!(free(&capacity), 6);
    capacity.listed(&m1());
    assert_eq!((free(&capacity), due(&capacity)), (6, 4), "nothing was listed");
}

/// After a start the last summary may not count pods that a binding already reports.
#[test]
fn what_is_reported_counts_as_promised_until_the_pods_are_listed() {
    for (name, starts, want) in [("after a start", true, (6, 4)), ("later", false, (9, 1))] {
        let mut capacity = ten_cores();
        if starts {
            capacity.starts(S(0));
        }
        let mut binding = asking(4, &[("m1", 4)]);
        binding.status.get_or_insert_default().last_scheduled_time = Some(Time(at(1_900)));
        let reports = report(3, ResourceHealth::Unhealthy);
        capacity.found((&binding).into(), &reports, at(2_000), &Options::default(), S(0));
        assert_eq!((free(&capacity), due(&capacity)), want, "{name}");
        capacity.lists(&m1());
        capacity.node(&m1(), "n1", Some(node(10)));
        (0..3).for_each(|_| comes(&mut capacity, &pod("web", "n1"), S(1)));
        capacity.listed(&m1());
        assert_eq!((free(&capacity), due(&capacity)), (6, 1), "{name}: three of four have come");
    }
}

/// A cluster that is deleted and registered again, before its pods are listed.
#[test]
fn promises_outlive_the_nodes_of_a_cluster() {
    let mut capacity = promised();
    capacity.cluster(&m1(), Some(&with_cores("m1", "10")), None);
    assert_eq!((capacity.is_by_node(&m1()), capacity.is_known(&m1())), (false, false));
    capacity.cluster(&m1(), None, Some(&with_cores("m1", "10")));
    assert_eq!((free(&capacity), due(&capacity)), (6, 4), "beside the summary");
    capacity.forget(&key());
    assert_eq!((free(&capacity), due(&capacity)), (10, 0));
}

#[test]
fn promises_in_a_watched_cluster_that_is_not_ready_do_not_expire() {
    let mut lost = with_cores("m1", "10");
    lost.status.as_mut().unwrap().conditions = vec![conditions::condition("Ready", "False", "", "")];
    let mut capacity = promised();
    capacity.cluster(&m1(), Some(&with_cores("m1", "10")), Some(&lost));
    capacity.expire(S(300));
    assert_eq!((free(&capacity), due(&capacity)), (6, 4));
    capacity.cluster(&m1(), Some(&lost), Some(&with_cores("m1", "10")));
    capacity.expire(S(600));
    assert_eq!((free(&capacity), due(&capacity)), (10, 0));
}

#[test]
fn grades_limit_nothing_where_nodes_are_watched() {
    let graded = |least: &str| {
        let mut cluster = with_cores("m1", "100");
        let ranges = json!([{"grade": 0, "ranges": [{"name": "cpu", "min": least, "max": "99"}]}]);
        cluster.spec.resource_models = serde_json::from_value(ranges).unwrap();
        cluster.status.as_mut().unwrap().resource_summary.as_mut().unwrap().allocatable_modelings =
            serde_json::from_value(json!([{"grade": 0, "count": 1}])).unwrap();
        cluster
    };
    for (name, cores, used, asked, least, by_grade) in
        [("seven cores are free, by grade four", 10, 3, "5", "4", 0), ("an empty node", 6, 0, "6", "4", 0)]
    {
        let mut question = asking(1, &[]);
        question.spec.replica_requirements.as_mut().unwrap().resource_request =
            serde_json::from_value(json!({ "cpu": asked })).unwrap();
        let question = Question::of(&question.spec, false);
        let mut capacity = Capacity::new(Modelling::On, S(10));
        capacity.cluster(&m1(), None, Some(&graded(least)));
        assert_eq!(capacity.fits(&m1(), &question, &asker()), Some(by_grade), "{name}: by the models");
        capacity.lists(&m1());
        capacity.node(&m1(), "n1", Some(node(cores)));
        (0..used).for_each(|_| comes(&mut capacity, &pod("other", "n1"), S(0)));
        capacity.listed(&m1());
        assert_eq!(capacity.fits(&m1(), &question, &asker()), Some(1), "{name}");
    }
}

/// Cores or slots of a node, or the request of a pod.
fn amount() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MAX / 2), Just(i64::MIN / 2), Just(-5_000), 0_i64..9_000]
}

/// A pod: where it is in its life, its node and its request. Its workload follows from its number.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    life: Life,
    node: usize,
    request: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Waits,
    /// Without a node, and nothing says what it waits for.
    HasNoNode,
    Runs,
    Leaves,
    LeavesBeforeItRan,
    Ended,
}

#[derive(Debug, Clone)]
enum Op {
    /// Millicores, slots, and whether it is cordoned.
    Node(usize, Option<(i64, i64, bool)>),
    Pod(usize, Option<Row>),
    Assign(usize, i32),
    Forget(usize),
    Passes(u64),
    ListsAgain,
}

const WORKLOADS: usize = 3;

fn ops(units: bool) -> impl Strategy<Value = Vec<Op>> {
    use Life::{Ended, HasNoNode, Leaves, LeavesBeforeItRan, Runs, Waits};
    let life = prop::sample::select(vec![Waits, Waits, HasNoNode, Runs, Runs, Runs, Leaves, LeavesBeforeItRan, Ended]);
    let cores = if units { (0_i64..5).prop_map(|cores| cores * 1_000).boxed() } else { amount().boxed() };
    let slots = if units { (0_i64..6).boxed() } else { amount().boxed() };
    let request = if units { Just(1_000).boxed() } else { amount().boxed() };
    let row = (life, 0_usize..3, request).prop_map(|(life, node, request)| Row { life, node, request });
    let op = prop_oneof![
        3 => (0_usize..3, proptest::option::of((cores, slots, prop::bool::weighted(0.2))))
            .prop_map(|(at, node)| Op::Node(at, node)),
        6 => (0_usize..9, proptest::option::weighted(0.8, row)).prop_map(|(at, row)| Op::Pod(at, row)),
        3 => (0..WORKLOADS, 0_i32..5).prop_map(|(at, replicas)| Op::Assign(at, replicas)),
        1 => (0..WORKLOADS).prop_map(Op::Forget),
        1 => prop::sample::select(vec![1, 14, 100, 299, 300]).prop_map(Op::Passes),
        1 => Just(Op::ListsAgain),
    ];
    prop::collection::vec(op, 1..60)
}

/// The cluster as it is, and what follows from it by counting everything.
#[derive(Debug, Default)]
struct Recount {
    nodes: BTreeMap<usize, (i64, i64, bool)>,
    pods: BTreeMap<usize, Row>,
    /// Replicas that results name.
    named: [i64; WORKLOADS],
    /// Ends of the open promises, and the least that was due of each.
    open: [Option<(Duration, i64)>; WORKLOADS],
}

impl Recount {
    fn workload(pod: usize) -> usize {
        pod % WORKLOADS
    }

    /// Failed pods of a Deployment do not count as replicas, completed ones of a Job do.
    fn is_replica(pod: usize, life: Life) -> bool {
        matches!(life, Life::Waits | Life::HasNoNode | Life::Runs) || (life == Life::Ended && pod.is_multiple_of(2))
    }

    fn arrived(&self, workload: usize) -> i64 {
        let is_one =
            |(pod, row): &(&usize, &Row)| Self::workload(**pod) == workload && Self::is_replica(**pod, row.life);
        self.pods.iter().filter(is_one).count() as i64
    }

    fn due(&self, workload: usize) -> i64 {
        self.open[workload].map_or(0, |_| (self.named[workload] - self.arrived(workload)).max(0))
    }

    /// A promise lasts 15 s after each pod that comes beyond those that were there.
    fn settle(&mut self, now: Duration) {
        for workload in 0..WORKLOADS {
            let due = self.due(workload);
            let lasts = |(ends, least)| if due < least { (now + S(15), due) } else { (ends, least) };
            self.open[workload] = self.open[workload].filter(|_| due > 0).map(lasts);
        }
    }

    fn waiting(&self) -> i64 {
        self.pods.values().filter(|row| row.life == Life::Waits).count() as i64
    }

    /// Requested amount and number of the pods on a node. Who requests less than nothing holds nothing.
    fn held(&self, node: usize) -> (i128, i64) {
        let is_there = |row: &&Row| row.node == node && matches!(row.life, Life::Runs | Life::Leaves);
        let there = self.pods.values().filter(is_there);
        there.fold((0, 0), |(sum, count), row| (sum + i128::from(row.request.max(0)), count + 1))
    }

    /// Pods of this request that nodes take beside those that hold a part of them.
    fn fits(&self, each: i64) -> i64 {
        let of = |(at, (cores, slots, cordoned)): (&usize, &(i64, i64, bool))| {
            let (held, pods) = self.held(*at);
            let fits = ((i128::from(*cores) - held) / i128::from(each)).min(i128::from(*slots) - i128::from(pods));
            if *cordoned { 0 } else { fits.max(0) }
        };
        i64::try_from(self.nodes.iter().map(of).sum::<i128>().min(i128::from(LARGEST))).unwrap()
    }

    fn pod(at: usize, row: Row) -> Pod {
        let has_node = matches!(row.life, Life::Runs | Life::Leaves | Life::Ended);
        let waits = matches!(row.life, Life::Waits | Life::LeavesBeforeItRan);
        Pod {
            node: if has_node { format!("n{}", row.node).as_str().into() } else { "".into() },
            request: [("cpu".to_owned(), row.request)].into_iter().collect(),
            workload: Workload::new("Deployment", "default", &format!("w{}", Self::workload(at))),
            has_ended: row.life == Life::Ended,
            is_leaving: matches!(row.life, Life::Leaves | Life::LeavesBeforeItRan),
            is_replica: Self::is_replica(at, row.life),
            waiting: waits.then(|| Box::new((format!("default/pod{at}"), Claim::default()))),
            found_no_node: false,
        }
    }

    fn node((cores, slots, unschedulable): (i64, i64, bool)) -> Node {
        let allocatable = [("cpu".to_owned(), cores), ("pods".to_owned(), slots)].into_iter().collect();
        Node { allocatable, unschedulable, ..Node::default() }
    }

    /// A workload with this result.
    fn binding(&self, workload: usize, replicas: i32) -> ResourceBinding {
        let had = i32::try_from(self.named[workload]).unwrap();
        let result = [("m1", had)];
        let mut binding = asking(replicas, if had > 0 { &result } else { &[] });
        binding.metadata.name = Some(format!("w{workload}"));
        binding.spec.resource.name = format!("w{workload}");
        binding
    }

    /// Carries out an operation here and in the account.
    fn apply(&mut self, capacity: &mut Capacity, op: &Op, now: &mut Duration) {
        let m1 = m1();
        match op {
            Op::Node(at, new) => {
                capacity.node(&m1, &format!("n{at}"), new.map(Self::node));
                match new {
                    Some(new) => drop(self.nodes.insert(*at, *new)),
                    None => drop(self.nodes.remove(at)),
                }
            }
            Op::Pod(at, new) => {
                let old = self.pods.get(at).map(|row| Self::pod(*at, *row));
                capacity.pod(&m1, old.as_ref(), new.map(|row| Self::pod(*at, row)).as_ref(), *now);
                match new {
                    Some(new) => drop(self.pods.insert(*at, *new)),
                    None => drop(self.pods.remove(at)),
                }
            }
            Op::Assign(workload, replicas) => {
                let before = self.binding(*workload, *replicas);
                let after: &[(&str, i32)] = if *replicas > 0 { &[("m1", *replicas)] } else { &[] };
                assign(capacity, &before, after, *now);
                let gains = i64::from(*replicas) > self.named[*workload];
                self.named[*workload] = (*replicas).into();
                if gains {
                    self.open[*workload] = Some((*now + PROMISED_TTL, i64::MAX));
                }
                let (due, open) = (self.due(*workload), &mut self.open[*workload]);
                *open = open.map(|(ends, least)| (ends, least.min(due)));
            }
            Op::Forget(workload) => {
                capacity.forget(&BindingRef::from(&self.binding(*workload, 0)).key());
                (self.named[*workload], self.open[*workload]) = (0, None);
            }
            Op::Passes(seconds) => {
                *now += S(*seconds);
                capacity.expire(*now);
                self.open.iter_mut().for_each(|open| *open = open.filter(|(ends, _)| *ends > *now));
            }
            Op::ListsAgain => {
                capacity.lists(&m1);
                // In another order than they came.
                for (at, row) in self.pods.iter().rev() {
                    capacity.pod(&m1, None, Some(&Self::pod(*at, *row)), *now);
                }
                for (at, node) in &self.nodes {
                    capacity.node(&m1, &format!("n{at}"), Some(Self::node(*node)));
                }
                capacity.listed(&m1);
            }
        }
        self.settle(*now);
    }
}

proptest! {
    /// After each operation the account is that of a recount of everything. Where each pod requests one core and each
    /// node has whole ones, what waits and what is promised takes exactly its number of what is free.
    #[test]
    fn account_agrees_with_a_recount((units, ops) in any::<bool>().prop_flat_map(|units| (Just(units), ops(units)))) {
        let mut capacity = ten_cores();
        capacity.watch(&m1(), Index::default());
        let (mut recount, mut now) = (Recount::default(), S(0));
        let mut fitted = [0; 3];
        for op in &ops {
            drop(capacity.take_grown());
            recount.apply(&mut capacity, op, &mut now);
            let mut promised: BTreeMap<String, i64> = BTreeMap::new();
            for (key, _, due) in capacity.promised_in(&m1()) {
                promised.insert(key.name.to_string(), due);
            }
            for workload in 0..WORKLOADS {
                let due = promised.remove(&format!("w{workload}")).unwrap_or(0);
                prop_assert_eq!(due, recount.due(workload), "promised to w{} after {:?}", workload, op);
            }
            let index = capacity.slots[&m1()].watched.as_ref().unwrap();
            for node in 0..3 {
                let (amounts, pods) = index.observed(&format!("n{node}"));
                let cores = i128::from(amounts.get("cpu").copied().unwrap_or(0));
                let (held, count) = recount.held(node);
                // Enormous requests are cut.
                prop_assert!(if held < 1 << 40 { cores == held } else { cores >= 1 << 40 }, "{} and {} on n{}", cores, held, node);
                prop_assert_eq!(pods, count);
            }
            let due: i64 = (0..WORKLOADS).map(|workload| recount.due(workload)).sum();
            for each in 1..4 {
                let needs = json!({"resourceRequest": {"cpu": each}});
                let question = Question::replicas("default", Some(&serde_json::from_value(needs).unwrap()));
                let fits = capacity.fits(&m1(), &question, &asker()).unwrap();
                let observed = recount.fits(each * 1_000);
                let fitted = std::mem::replace(&mut fitted[each as usize - 1], fits);
                let has_grown = capacity.grown.contains(&m1());
                prop_assert!(fits <= fitted || has_grown, "{} fit instead of {} after {:?}", fits, fitted, op);
                prop_assert!(fits <= observed, "{} fit, {} by what runs, after {:?}", fits, observed, op);
                if due + recount.waiting() == 0 {
                    prop_assert_eq!(fits, observed, "nothing waits, after {:?}", op);
                } else if units && each == 1 {
                    let want = (observed - due - recount.waiting()).max(0);
                    prop_assert_eq!(fits, want, "{} due, {} waiting, after {:?}", due, recount.waiting(), op);
                }
            }
        }
        for workload in 0..WORKLOADS {
            recount.apply(&mut capacity, &Op::Forget(workload), &mut now);
        }
        prop_assert_eq!((capacity.promised_count(), capacity.expires_next()), (0, None));
    }
}

/// A workload that is evicted gets those replicas back that have a node.
#[test]
fn who_returns_gets_what_has_a_node() {
    let mut evicted = asking(4, &[]);
    let task = serde_json::json!({"fromCluster": "m1", "replicas": 4, "reason": "TaintUntolerated", "producer": "x"});
    evicted.spec.graceful_eviction_tasks = vec![serde_json::from_value(task).unwrap()];
    for (name, cores, bound, waiting, want) in [
        ("all run", 10, 4, 0, 4),
        ("two wait, and find a node", 10, 2, 2, 4),
        ("two wait, and one finds a node", 3, 2, 2, 3),
        ("some never came", 10, 1, 0, 1),
        ("nodes went", 0, 0, 4, 0),
    ] {
        let mut capacity = watched();
        capacity.node(&m1(), "n1", Some(node(cores)));
        (0..bound).for_each(|_| comes(&mut capacity, &pod("web", "n1"), S(0)));
        for at in 0..waiting {
            let mut pod = pod("web", "");
            if let Some(waits) = &mut pod.waiting {
                waits.0 = format!("shop/web-{at}");
            }
            comes(&mut capacity, &pod, S(0));
        }
        assert_eq!(capacity.returning((&evicted).into(), &m1()), want, "{name}");
    }
}

/// Of two nominations of equal priority the first one comes first with what is held for it, and with no more than that.
#[test]
fn who_is_nominated_first_takes_only_what_is_held_for_it() {
    let named = |name: &str, replicas: i32| {
        let mut binding = asking(replicas, &[]);
        binding.metadata.name = Some(name.to_owned());
        binding.spec.resource.name = name.to_owned();
        binding
    };
    let (first, later) = (named("z", 3), named("y", 1));
    for (cores, want) in [(0, (0, 0)), (1, (1, 0)), (2, (1, 1)), (3, (2, 2))] {
        let mut capacity = watched();
        capacity.node(&m1(), "n1", Some(node(cores)));
        let one = targets(&[("m1", 1)]);
        capacity.nominate(&first, &one, &Options::default());
        capacity.nominate(&later, &one, &Options::default());
        let fits = |binding: &ResourceBinding| {
            let question = crate::question_of(&binding.spec, &Options::default()).unwrap();
            capacity.fits(&m1(), &question, &Asker::of(&binding.spec)).unwrap()
        };
        assert_eq!((fits(&first), fits(&later)), want, "{cores} cores");
    }
}

/// Others may change a binding while a result of it is being written: the write fails then, and is not to bring back
/// what was promised before.
#[test]
fn changes_meanwhile_outlive_a_write_that_fails() {
    let requests = |cores: &str, result: &[(&str, i32)]| {
        let mut binding = asking(4, result);
        let request = serde_json::from_value(json!({ "cpu": cores })).unwrap();
        binding.spec.replica_requirements =
            Some(ReplicaRequirements { resource_request: request, ..Default::default() }.into());
        binding
    };
    let (one, two, none): (&[_], &[_], &[_]) = (&[("m1", 1)], &[("m1", 2)], &[]);
    for (by, watched) in [("by node", watched()), ("by summary", ten_cores())] {
        for (name, after, written, reverted) in [
            ("the request is edited", requests("2", one), 8, 8),
            ("the result is withdrawn", requests("1", none), 10, 10),
            ("somebody else writes another result", requests("1", two), 8, 8),
            ("the own result arrives before its answer", requests("1", &[("m1", 4)]), 6, 6),
        ] {
            let before = requests("1", one);
            let begun = || {
                let mut capacity = watched.clone();
                assign(&mut capacity, &requests("1", none), one, S(0));
                let write = capacity.assume((&before).into(), &targets(&[("m1", 4)]), &Options::default(), S(1));
                assert_eq!(free(&capacity), 6, "{by}: {name}");
                capacity.observed((&before).into(), &after.spec, &Options::default(), S(1));
                (capacity, write.unwrap())
            };
            let (mut capacity, write) = begun();
            capacity.confirm(&write);
            assert_eq!(free(&capacity), written, "{by}: {name}");
            let (mut capacity, write) = begun();
            capacity.revert(write, S(2));
            assert_eq!(free(&capacity), reverted, "{by}: {name}: its write failed");
        }
    }
}

#[test]
fn accounts_name_what_is_observed_and_what_is_promised() {
    let told = |capacity: &Capacity| {
        let all = capacity.account(&m1()).unwrap();
        let each = all.iter().map(|(name, one)| {
            format!("{name} {}-{}-{}-{}={}", one.offered, one.observed, one.promised, one.held, one.free())
        });
        each.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(told(&ten_cores()), "cpu 10000-0-0-0=10000, pods 110-0-0-0=110", "by the summary");
    let mut summed = ten_cores();
    assign(&mut summed, &asking(4, &[]), &[("m1", 4)], S(0));
    assert_eq!(told(&summed), "cpu 10000-0-4000-0=6000, pods 110-0-4-0=106", "promised beside the summary");
    let mut capacity = promised();
    assert_eq!(told(&capacity), "cpu 10000-0-4000-0=6000, pods 110-0-4-0=106", "promised by node");
    comes(&mut capacity, &pod("web", "n1"), S(1));
    assert_eq!(told(&capacity), "cpu 10000-1000-3000-0=6000, pods 110-1-3-0=106", "one pod has come");
    let mut nominee = asking(2, &[]);
    nominee.metadata.name = Some("other-deployment".into());
    nominee.spec.resource.name = "other".into();
    capacity.nominate(&nominee, &targets(&[("m1", 2)]), &Options::default());
    assert_eq!(told(&capacity), "cpu 10000-1000-3000-2000=4000, pods 110-1-3-2=104", "held for a preemptor");
    assert_eq!(capacity.account(&"m9".into()), None);
}
