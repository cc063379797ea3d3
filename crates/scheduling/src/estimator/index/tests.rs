use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use ironclad_api::work::{Component, ReplicaRequirements};

fn amounts(list: &[(&str, i64)]) -> Units {
    list.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
}

fn node(cpu: i64, memory: i64, slots: i64) -> Node {
    Node { allocatable: amounts(&[("cpu", cpu), ("memory", memory), (PODS, slots)]), ..Node::default() }
}

fn pod(node: &str, cpu: i64) -> Pod {
    Pod { node: node.into(), request: amounts(&[("cpu", cpu)]), ..Pod::default() }
}

fn replicas(needs: Value) -> Question {
    let needs: ReplicaRequirements = serde_json::from_value(needs).unwrap();
    Question::replicas("shop", Some(&needs))
}

fn sets(components: Value) -> Question {
    let components: Vec<Component> = serde_json::from_value(components).unwrap();
    Question::sets("shop", &components)
}

fn cores(cpu: &str) -> Question {
    replicas(json!({"resourceRequest": {"cpu": cpu}}))
}

#[test]
fn answer_is_the_sum_over_nodes() {
    let nodes = [("a", node(4_000, 8, 10)), ("b", node(4_000, 8, 10)), ("c", node(1_000, 8, 2))];
    for (name, pods, question, want) in [
        ("empty nodes", vec![], cores("1"), 9),
        ("fragmented: the sum has room, no node has", vec![pod("a", 2_500), pod("b", 2_500)], cores("2"), 0),
        ("rounded down on each node", vec![], cores("1500m"), 4),
        ("pods take slots", vec![pod("c", 0)], cores("1m"), 21),
        ("no request: pod slots", vec![pod("a", 0)], replicas(json!({})), 21),
        ("the scarcest resource", vec![], replicas(json!({"resourceRequest": {"cpu": "1m", "memory": "4"}})), 6),
        ("a resource that no node has", vec![], replicas(json!({"resourceRequest": {"example.com/gpu": "1"}})), 0),
        ("a resource that Kubernetes ignores", vec![], replicas(json!({"resourceRequest": {"magic": "1"}})), 22),
        ("more requested than there is", vec![pod("a", 9_000)], cores("1"), 5),
        ("pods of an unknown node", vec![pod("z", 1_000)], cores("1"), 9),
    ] {
        let mut index = Index::default();
        for (name, node) in &nodes {
            index.node(name, Some(node.clone()));
        }
        for pod in &pods {
            index.pod(None, Some(pod));
        }
        assert_eq!(index.fits(&question), want, "{name}");
    }
    assert_eq!(Index::default().fits(&cores("1")), 0, "no nodes");
}

#[test]
fn pods_that_are_forgotten_free_what_they_hold() {
    let web = Workload::new("Deployment", "shop", "web");
    let of = |node: &str| Pod { workload: web, is_replica: true, ..pod(node, 1_000) };
    let waiting = Some(Box::new(("shop/web-3".to_owned(), Claim::default())));
    let all = [of("a"), of("a"), of("b"), Pod { waiting, ..of("") }, pod("b", 3_000)];
    for (forgotten, fits, arrived) in [(0, 1, 4), (1, 2, 3), (2, 3, 2), (4, 5, 0), (9, 5, 0)] {
        let mut index = Index::default();
        index.node("a", Some(node(4_000, 8, 10)));
        index.node("b", Some(node(4_000, 8, 10)));
        for pod in &all {
            index.pod(None, Some(pod));
        }
        index.forget(web, forgotten);
        assert_eq!((index.fits(&cores("1")), index.arrived(web)), (fits, arrived), "{forgotten} are forgotten");
    }
}

#[test]
fn claims_and_quotas_limit_the_answer() {
    let mut index = Index::default();
    let with = |labels: Value, unschedulable| Node {
        labels: serde_json::from_value(labels).unwrap(),
        unschedulable,
        ..node(4_000, 8, 10)
    };
    index.node("a", Some(with(json!({"disk": "ssd"}), false)));
    index.node("b", Some(with(json!({}), false)));
    index.node("c", Some(with(json!({"disk": "ssd"}), true)));
    let ssd = replicas(json!({"resourceRequest": {"cpu": "1"}, "nodeClaim": {"nodeSelector": {"disk": "ssd"}}}));
    assert_eq!(index.fits(&cores("1")), 8);
    assert_eq!(index.fits(&ssd), 4);
    index.take_grown();
    index.node("c", Some(with(json!({"disk": "ssd"}), false)));
    assert!(index.take_grown(), "uncordoned");
    assert_eq!(index.fits(&ssd), 8, "the kept answer follows");
    let quota = |cpu| Some(Quota::new(&amounts(&[("requests.cpu", cpu)]), &Units::new(), vec![]));
    index.quota("shop", "q", quota(3_000));
    assert!(index.take_grown());
    assert_eq!((index.fits(&ssd), index.fits(&cores("1"))), (3, 3));
    index.quota("shop", "q", quota(-1));
    assert_eq!(index.fits(&ssd), 0, "exceeded");
    index.quota("shop", "q", None);
    assert_eq!(index.fits(&ssd), 8);
}

#[test]
fn only_complete_sets_count() {
    let of = |nodes: &[(&str, i64)]| {
        let mut index = Index::default();
        for (name, cpu) in nodes {
            index.node(name, Some(node(*cpu, 64, 10)));
        }
        index
    };
    let job = |manager: &str, worker: &str, workers: i32| {
        sets(json!([
            {"name": "manager", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": manager}}},
            {"name": "worker", "replicas": workers, "replicaRequirements": {"resourceRequest": {"cpu": worker}}},
        ]))
    };
    for (name, nodes, question, want) in [
        ("two sets on two nodes", &[("a", 4_000), ("b", 4_000)][..], job("1", "1", 3), 2),
        ("workers are spread over nodes", &[("a", 3_000), ("b", 3_000)], job("1", "2", 1), 2),
        ("the sum would fit, the pieces do not", &[("a", 4_000), ("b", 4_000)], job("2", "3", 2), 0),
        ("pods bound the number", &[("a", 64_000)], job("1m", "1m", 4), 2),
        ("no nodes", &[], job("1m", "1m", 1), 0),
    ] {
        let index = of(nodes);
        assert_eq!(index.fits(&question), want, "{name}");
        assert_eq!(index.fits(&question), want, "{name}, asked again");
    }
    let mut index = of(&[("a", 4_000), ("b", 4_000)]);
    let question = job("1", "1", 3);
    assert_eq!(index.fits(&question), 2);
    index.pod(None, Some(&pod("a", 1_000)));
    assert_eq!(index.fits(&question), 1, "the kept answer follows");
    let claimed = sets(json!([
        {"name": "m", "replicas": 1, "replicaRequirements": {"nodeClaim": {"nodeSelector": {"role": "m"}}}},
        {"name": "w", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "4"}}},
    ]));
    assert_eq!(index.fits(&claimed), 0, "no node for m");
    let labels = [("role".to_owned(), "m".to_owned())].into();
    index.node("a", Some(Node { labels, ..node(4_000, 64, 10) }));
    assert_eq!(index.fits(&claimed), 1, "m in a, w in b");
}

/// The member's scheduler knows reasons that the account does not.
#[test]
fn a_pod_for_which_no_node_was_found_holds_none_until_one_changes() {
    let mut index = Index::default();
    index.node("a", Some(node(4_000, 64, 10)));
    let other = pod("a", 1_000);
    index.pod(None, Some(&other));
    let waiting = Some(Box::new(("shop/web".to_owned(), Claim::default())));
    let new = Pod { waiting, ..pod("", 2_000) };
    index.pod(None, Some(&new));
    assert_eq!(index.fits(&cores("1")), 1, "it waits for its first try");
    index.take_grown();
    let pending = Pod { found_no_node: true, ..new.clone() };
    index.pod(Some(&new), Some(&pending));
    assert_eq!((index.fits(&cores("1")), index.take_grown()), (3, true), "what it held is free");
    index.pod(Some(&other), None);
    assert_eq!(index.fits(&cores("1")), 2, "it is tried again where something became free");
    index.pod(Some(&pending), Some(&pod("a", 2_000)));
    assert_eq!(index.fits(&cores("1")), 2, "and found a node");
}

#[test]
fn expected_pods_are_placed_first() {
    let mut index = Index::default();
    for name in ["a", "b"] {
        index.node(name, Some(node(4_000, 64, 10)));
    }
    let expect = |index: &mut Index, name: &str, parts: Option<(Vec<SetPart>, i64)>| {
        index.expect(name, Workload::new("Deployment", "shop", name), "shop", parts);
    };
    let three = cores("3").parts();
    expect(&mut index, "web", Some((three.clone(), 1)));
    assert_eq!(index.fits(&cores("1")), 5);
    expect(&mut index, "web", Some((three.clone(), 2)));
    assert_eq!(index.fits(&cores("2")), 0, "one core is left on each node");
    expect(&mut index, "more", Some((three, 5)));
    assert_eq!(index.fits(&cores("1")), 2, "what does not fit is not subtracted");
    index.node("c", Some(node(7_000, 64, 10)));
    assert_eq!(index.fits(&cores("1")), 3, "it is placed as soon as it fits");
    index.node("a", None);
    assert_eq!(index.fits(&cores("1")), 2);
    index.node("c", None);
    assert_eq!(index.fits(&cores("1")), 1, "and moves when its node goes");
    index.pod(None, Some(&pod("b", 2_000)));
    assert_eq!(index.fits(&cores("1")), 2, "or when pods take its place");
    expect(&mut index, "web", None);
    expect(&mut index, "more", None);
    assert_eq!(index.fits(&cores("1")), 2);
    assert_eq!(index.by_name.len(), 1, "nothing is kept for the nodes that are gone");
    index.quota("shop", "q", Some(Quota::new(&amounts(&[("cpu", 1_500)]), &Units::new(), vec![])));
    expect(&mut index, "web", Some((cores("1").parts(), 1)));
    assert_eq!(index.fits(&cores("500m")), 1, "quotas count them, too");
}

#[test]
fn pods_without_a_node_compete_for_what_is_free() {
    let mut index = Index::default();
    for name in ["a", "b"] {
        index.node(name, Some(node(4_000, 64, 10)));
    }
    let waiting = |name: &str, cpu: i64, claim: Value| {
        let claim: ironclad_api::work::NodeClaim = serde_json::from_value(claim).unwrap();
        let waiting = Some(Box::new((name.to_owned(), Claim::from(Some(&claim)))));
        Pod { waiting, is_replica: true, ..pod("", cpu) }
    };
    let ssd = waiting("shop/db-0", 3_000, json!({"nodeSelector": {"disk": "ssd"}}));
    index.pod(None, Some(&ssd));
    assert_eq!(index.fits(&cores("2")), 4, "no node takes it");
    let plain = waiting("shop/web-0", 3_000, json!({}));
    index.pod(None, Some(&plain));
    assert_eq!(index.fits(&cores("2")), 2);
    let bound = Pod { node: "b".into(), waiting: None, ..plain.clone() };
    index.take_grown();
    index.pod(Some(&plain), Some(&bound));
    assert!(index.take_grown(), "its place was on another node");
    assert_eq!((index.fits(&cores("2")), index.arrived(Workload::NONE)), (2, 2));
    let leaving = Pod { is_leaving: true, is_replica: false, ..bound.clone() };
    index.pod(Some(&bound), Some(&leaving));
    assert_eq!((index.fits(&cores("2")), index.arrived(Workload::NONE)), (2, 1), "it holds its node until it is gone");
    let going = index.being_deleted();
    assert_eq!(index.fits_if(&cores("2"), &going, &[]), 4);
    let ended = Pod { has_ended: true, ..bound };
    index.pod(Some(&leaving), Some(&ended));
    assert_eq!(index.fits(&cores("2")), 4);
}

#[test]
fn victims_free_what_they_hold_where_they_hold_it() {
    let of = |name: &str| Workload::new("Deployment", "shop", name);
    let on = |node: &str, cpu: i64, name: &str| Pod { workload: of(name), is_replica: true, ..pod(node, cpu) };
    let mut index = Index::default();
    for name in ["a", "b"] {
        index.node(name, Some(node(8_000, 64, 10)));
    }
    for (node, name) in [("a", "p0"), ("b", "p1"), ("a", "p2"), ("b", "p3")] {
        index.pod(None, Some(&on(node, 4_000, name)));
    }
    let fits = |index: &Index, cpu: &str, names: &[&str], beside: &[Before]| {
        let leaving: Vec<Leaving> = names.iter().filter_map(|name| index.leaving(of(name), &"shop".into())).collect();
        index.fits_if(&cores(cpu), &leaving, beside)
    };
    assert_eq!(fits(&index, "8", &["p0", "p1"], &[]), 0, "halves of two nodes are no node");
    assert_eq!(fits(&index, "8", &["p0", "p2"], &[]), 1);
    assert_eq!(fits(&index, "8", &["p0", "p2", "p2"], &[]), 1, "nobody leaves twice");
    assert_eq!(fits(&index, "4", &["p0", "p1"], &[]), 2);
    assert_eq!(index.leaving(of("unknown"), &"shop".into()), None, "who holds nothing frees nothing");
    let held = [Before { namespace: String::new(), parts: cores("4").parts(), sets: 1 }];
    assert_eq!(fits(&index, "4", &["p0", "p1"], &held), 1, "beside what is held");
    index.expect("web", of("web"), "shop", Some((cores("3").parts(), 1)));
    assert_eq!(fits(&index, "4", &["p0", "p1"], &[]), 1, "who waits comes first");
    assert_eq!(fits(&index, "4", &["p0", "p1", "web"], &[]), 2, "unless it leaves, too");
    assert_eq!(
        index.leaving(of("web"), &"shop".into()).map(|web| (web.amounts(), web.competes)),
        Some(((Units::new(), 0), true))
    );
    let (free, offered) = index.totals();
    assert_eq!((free.get("cpu"), offered.get("cpu"), free.get(PODS)), (Some(&0), Some(&16_000), Some(&16)));
    assert_eq!(index.leaving(of("p0"), &"shop".into()).unwrap().amounts(), (amounts(&[("cpu", 4_000)]), 1));
}

#[test]
fn pods_that_wait_leave_with_their_workload() {
    let of = |name: &str| Workload::new("Deployment", "shop", name);
    let mut index = Index::default();
    index.node("a", Some(node(8_000, 64, 10)));
    for name in ["p0", "p1"] {
        index.pod(None, Some(&Pod { workload: of(name), ..pod("a", 4_000) }));
    }
    let waiting = Some(Box::new(("shop/p0-b".to_owned(), Claim::default())));
    index.pod(None, Some(&Pod { workload: of("p0"), waiting, ..pod("", 4_000) }));
    let fits = |name: &str| index.fits_if(&cores("4"), &index.leaving(of(name), &"shop".into()), &[]);
    assert_eq!((fits("p0"), fits("p1")), (1, 0), "what stays takes what p1 leaves");
}

#[test]
fn enormous_requests_are_given_back() {
    let mut index = Index::default();
    index.node("a", Some(node(i64::MAX / 2, i64::MAX / 2, i64::MAX)));
    let before = index.fits(&cores("1"));
    assert_eq!(before, LARGEST);
    for amount in [i64::MAX, i64::MAX / 2, i64::MIN, -1] {
        let one = Pod { workload: Workload::new("Deployment", "shop", "web"), ..pod("a", amount) };
        for _ in 0..100_000 {
            index.pod(None, Some(&one));
        }
        assert_eq!(index.fits(&cores("1")), if amount > 0 { 0 } else { before }, "{amount}");
        let all = index.leaving(one.workload, &"shop".into());
        assert_eq!(index.fits_if(&cores("1"), &all, &[]), before, "{amount}");
        for _ in 0..100_000 {
            index.pod(Some(&one), None);
        }
        assert_eq!((index.fits(&cores("1")), index.observed("a")), (before, (Units::new(), 0)), "{amount}");
    }
}

#[test]
fn changes_tell_what_they_do() {
    let mut index = Index::default();
    let one = pod("a", 1);
    type Change<'a> = &'a dyn Fn(&mut Index) -> bool;
    let rows: [(&str, Change<'_>, bool, bool); 10] = [
        ("a new node", &|index| index.node("a", Some(node(1, 1, 1))), true, true),
        ("the same", &|index| index.node("a", Some(node(1, 1, 1))), false, false),
        ("less of it", &|index| index.node("a", Some(node(0, 1, 1))), true, false),
        ("a cordon", &|index| index.node("a", Some(Node { unschedulable: true, ..node(0, 1, 1) })), true, true),
        ("a pod comes", &|index| index.pod(None, Some(&one)), true, false),
        ("the same pod", &|index| index.pod(Some(&one), Some(&one)), false, false),
        ("another pod", &|index| index.pod(None, Some(&Pod { is_replica: true, ..one.clone() })), true, false),
        (
            "it is a replica no more",
            &|index| index.pod(Some(&Pod { is_replica: true, ..one.clone() }), Some(&one)),
            true,
            false,
        ),
        ("a pod is gone", &|index| index.pod(Some(&one), None), true, true),
        ("the node is gone", &|index| index.node("a", None), true, false),
    ];
    for (name, change, changes, grows) in rows {
        assert_eq!((change(&mut index), index.take_grown()), (changes, grows), "{name}");
    }
    assert_eq!(index.nodes(), 0);
}

#[test]
fn number_of_kept_answers_is_bounded() {
    let mut index = Index::default();
    index.node("a", Some(node(1_000, 1, 110)));
    for n in 1..=3 * TRACKED_MAX {
        assert_eq!(index.fits(&cores(&format!("{n}m"))), (1_000 / n as i64).min(110));
        assert_eq!(index.fits(&cores("1")), 1);
    }
    assert_eq!(index.kept.0.lock().unwrap().1.len(), TRACKED_MAX);
}

/// One event: a node with its cpu, slots and label, or a pod on one of the nodes.
#[derive(Debug, Clone)]
enum Event {
    Node(usize, Option<(i64, i64, bool)>),
    Pod(usize, Option<(usize, i64)>),
    Ask(i64, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0_usize..5, proptest::option::of((0_i64..5_000, 0_i64..6, any::<bool>())))
            .prop_map(|(at, node)| Event::Node(at, node)),
        (0_usize..12, proptest::option::of((0_usize..5, 0_i64..2_000))).prop_map(|(at, pod)| Event::Pod(at, pod)),
        (0_i64..3, any::<bool>()).prop_map(|(cpu, ssd)| Event::Ask(cpu * 700, ssd)),
    ]
}

proptest! {
    /// Reference: counts all nodes and pods anew for each question.
    #[test]
    fn index_agrees_with_a_recount(events in prop::collection::vec(event(), 1..80)) {
        let mut index = Index::default();
        let mut nodes: BTreeMap<usize, (i64, i64, bool)> = BTreeMap::new();
        let mut pods: BTreeMap<usize, (usize, i64)> = BTreeMap::new();
        let name = |at: usize| format!("n{at}");
        let as_pod = |(at, cpu): (usize, i64)| pod(&name(at), cpu);
        for event in events {
            match event {
                Event::Node(at, new) => {
                    let labels = |ssd| if ssd { [("disk".to_owned(), "ssd".to_owned())].into() } else { BTreeMap::new() };
                    index.node(&name(at), new.map(|(cpu, slots, ssd)| Node { labels: labels(ssd), ..node(cpu, 1, slots) }));
                    match new {
                        Some(new) => drop(nodes.insert(at, new)),
                        None => drop(nodes.remove(&at)),
                    }
                }
                Event::Pod(at, new) => {
                    let old = pods.get(&at).copied().map(as_pod);
                    index.pod(old.as_ref(), new.map(as_pod).as_ref());
                    match new {
                        Some(new) => drop(pods.insert(at, new)),
                        None => drop(pods.remove(&at)),
                    }
                }
                Event::Ask(cpu, ssd) => {
                    let mut needs = json!({"resourceRequest": {"cpu": format!("{cpu}m")}});
                    if ssd {
                        needs["nodeClaim"] = json!({"nodeSelector": {"disk": "ssd"}});
                    }
                    let mut want = 0;
                    for (at, (allocatable, slots, has)) in &nodes {
                        let on: Vec<_> = pods.values().filter(|(node, _)| node == at).collect();
                        let mut left = allocatable - on.iter().map(|(_, cpu)| cpu).sum::<i64>();
                        let mut free = slots - on.len() as i64;
                        while (*has || !ssd) && free > 0 && (cpu == 0 || left >= cpu) {
                            left -= cpu;
                            free -= 1;
                            want += 1;
                        }
                    }
                    prop_assert_eq!(index.fits(&replicas(needs.clone())), want);
                    let fresh = index.clone();
                    let components = json!([{"name": "c", "replicas": 2, "replicaRequirements": needs}]);
                    let set = sets(components);
                    let kept = index.fits(&set);
                    prop_assert_eq!(kept, fresh.fits(&set));
                    prop_assert_eq!(kept, want / 2, "one component: half as many sets");
                }
            }
        }
    }

    /// Replicas that are given beside held capacity, wherever the member's scheduler puts them, leave that capacity
    /// to whom it is held for once others have left.
    #[test]
    fn what_is_given_leaves_what_is_held(
        nodes in prop::collection::vec((0_i64..9_000, 0_i64..7), 1..5),
        pods in prop::collection::vec((0_usize..4, 0_usize..5, 0_i64..2_500), 0..12),
        gone in prop::collection::vec(any::<bool>(), 4),
        held in (1_i64..8_000, 1_i64..4),
        each in 1_i64..3_000,
    ) {
        let of = |at: usize| Workload::new("Deployment", "shop", &format!("w{at}"));
        let cores = |cpu: i64| replicas(json!({"resourceRequest": {"cpu": format!("{cpu}m")}}));
        let mut index = Index::default();
        for (at, (cpu, slots)) in nodes.iter().enumerate() {
            index.node(&format!("n{at}"), Some(node(*cpu, 64, *slots)));
        }
        for (workload, at, cpu) in pods {
            index.pod(None, Some(&Pod { workload: of(workload), ..pod(&format!("n{at}"), cpu) }));
        }
        let leaving = (0..4).filter(|at| gone[*at]).filter_map(|at| index.leaving(of(at), &"shop".into()));
        let leaving: Vec<Leaving> = leaving.collect();
        let (holder, asker) = (cores(held.0), cores(each));
        let before = Before { namespace: String::new(), parts: holder.parts(), sets: held.1 };
        prop_assert_eq!(index.fits_beside(&asker, &leaving, &[]), index.fits(&asker), "nothing is held");
        let wanted = index.fits_if(&holder, &leaving, &[]).min(held.1);
        let given = index.fits_beside(&asker, &leaving, &[before]);
        prop_assert!(given <= index.fits(&asker));
        index.expect("asker", of(9), "shop", Some((asker.parts(), given)));
        prop_assert!(index.fits_if(&holder, &leaving, &[]) >= wanted, "{} were given", given);
    }

    /// Reference: an index without those that leave. What waits takes its part of what they leave.
    #[test]
    fn what_fits_without_workloads_is_what_fits_where_they_are_not(
        nodes in prop::collection::vec((0_i64..6_000, 0_i64..7, any::<bool>(), prop::bool::weighted(0.2)), 1..5),
        pods in prop::collection::vec((0_usize..4, 0_usize..5, 0_i64..2_500, prop::bool::weighted(0.1)), 0..16),
        gone in prop::collection::vec(any::<bool>(), 4),
        asked in (1_i64..4, any::<bool>(), 0_i64..3),
        waiting in prop::collection::vec((0_usize..4, 1_i64..3_000), 0..3),
    ) {
        let name = |at: usize| format!("n{at}");
        let of = |at: usize| Workload::new("Deployment", "shop", &format!("w{at}"));
        let (each, ssd, held) = asked;
        let mut needs = json!({"resourceRequest": {"cpu": format!("{}m", each * 700)}});
        if ssd {
            needs["nodeClaim"] = json!({"nodeSelector": {"disk": "ssd"}});
        }
        let built = |stays: &dyn Fn(usize, bool) -> bool| {
            let mut index = Index::default();
            for (at, (cpu, slots, ssd, unschedulable)) in nodes.iter().enumerate() {
                let labels = if *ssd { [("disk".to_owned(), "ssd".to_owned())].into() } else { BTreeMap::new() };
                index.node(&name(at), Some(Node { labels, unschedulable: *unschedulable, ..node(*cpu, 1, *slots) }));
            }
            for (workload, at, cpu, is_leaving) in &pods {
                if stays(*workload, *is_leaving) {
                    let workload = of(*workload);
                    let one = Pod { workload, is_leaving: *is_leaving, is_replica: !is_leaving, ..pod(&name(*at), *cpu) };
                    index.pod(None, Some(&one));
                }
            }
            index
        };
        let mut all = built(&|_, _| true);
        let leaving: Vec<Leaving> = (0..4).filter(|at| gone[*at]).filter_map(|at| all.leaving(of(at), &"shop".into())).collect();
        let leaving: Vec<Leaving> = leaving.into_iter().chain(all.being_deleted()).collect();
        let without = built(&|workload, is_leaving| !is_leaving && !gone[workload]);
        let replica = replicas(needs.clone());
        let before = [Before { namespace: "shop".into(), parts: replica.parts(), sets: held }];
        let set = sets(json!([{"name": "c", "replicas": 2, "replicaRequirements": needs}]));
        let room = without.fits(&replica);
        prop_assert_eq!(all.fits_if(&replica, &leaving, &[]), room);
        prop_assert_eq!(all.fits_if(&set, &leaving, &[]), without.fits(&set));
        prop_assert_eq!(all.fits_if(&replica, &leaving, &before), (room - held).max(0), "beside equal pods");
        prop_assert_eq!(all.fits_if(&replica, [], &[]), all.fits(&replica), "nobody leaves");
        let sum = |index: &Index| index.totals().1;
        prop_assert_eq!(sum(&all), sum(&without), "what nodes offer");
        for (at, (workload, cpu)) in waiting.iter().enumerate() {
            let waits = Some(Box::new((format!("shop/p{at}"), Claim::default())));
            all.pod(None, Some(&Pod { workload: of(*workload), waiting: waits, ..pod("", *cpu) }));
        }
        let leaving: Vec<Leaving> = (0..4).filter(|at| gone[*at]).filter_map(|at| all.leaving(of(at), &"shop".into())).collect();
        let leaving: Vec<Leaving> = leaving.into_iter().chain(all.being_deleted()).collect();
        let fits = all.fits_if(&replica, &leaving, &[]);
        prop_assert!(fits <= room, "{} fit beside what waits, {} without it", fits, room);
    }

    /// Each pod that waits has a place on every node that has room for it and admits it, and on no other. If more
    /// fits than before, the index grew.
    #[test]
    fn what_waits_is_placed_where_it_fits(
        events in prop::collection::vec(
            (0_usize..4, 0_usize..4, 0_i64..4, 0_i64..5, any::<bool>(), any::<bool>()),
            1..60,
        ),
    ) {
        let mut index = Index::default();
        let mut pods: BTreeMap<usize, Pod> = BTreeMap::new();
        let request = |cpu: i64| json!({"resourceRequest": {"cpu": format!("{}m", cpu * 700)}});
        let ssd = json!({"nodeSelector": {"disk": "ssd"}});
        let asked: Vec<Question> = (0..4)
            .flat_map(|cpu| [json!(null), ssd.clone()].map(|claim| {
                let mut needs = request(cpu);
                needs["nodeClaim"] = claim;
                replicas(needs)
            }))
            .collect();
        let mut fitted = vec![0; asked.len()];
        for (kind, at, cpu, slots, is_there, flag) in events {
            let name = format!("n{}", at % 3);
            match kind {
                3 => {
                    let quota = Quota::new(&amounts(&[("cpu", cpu * 1_000)]), &Units::new(), vec![]);
                    index.quota("shop", &name, is_there.then_some(quota));
                }
                0 => {
                    let labels = if flag { [("disk".to_owned(), "ssd".to_owned())].into() } else { BTreeMap::new() };
                    index.node(&name, is_there.then(|| Node { labels, ..node(cpu * 1_000, 64, slots) }));
                }
                1 => {
                    let needs = json!({"nodeSelector": if flag { json!({"disk": "ssd"}) } else { json!({}) }});
                    let claim: ironclad_api::work::NodeClaim = serde_json::from_value(needs).unwrap();
                    let waits = Some(Box::new((format!("shop/p{at}"), Claim::from(Some(&claim)))));
                    let on = if slots > 2 { pod(&name, cpu * 700) } else { Pod { waiting: waits, ..pod("", cpu * 700) } };
                    index.pod(pods.get(&at), is_there.then_some(&on));
                    match is_there {
                        true => drop(pods.insert(at, on)),
                        false => drop(pods.remove(&at)),
                    }
                }
                _ => {
                    let mut parts = cores(&format!("{}m", cpu * 700)).parts();
                    if flag {
                        let needs = json!({"nodeSelector": {"disk": "ssd"}});
                        let claim: ironclad_api::work::NodeClaim = serde_json::from_value(needs).unwrap();
                        parts[0].template.claim = Claim::from(Some(&claim));
                    }
                    index.expect(&format!("w{at}"), Workload::NONE, "shop", is_there.then_some((parts, slots)));
                }
            }
            let grew = index.take_grown();
            for (question, fitted) in asked.iter().zip(&mut fitted) {
                let fits = index.fits(question);
                prop_assert!(fits <= *fitted || grew, "{} fit instead of {}", fits, fitted);
                *fitted = fits;
            }
            for slot in &index.slots {
                let (mut amounts, mut taken) = (Units::new(), 0);
                let here = index.by_name.get(&slot.name).filter(|at| std::ptr::eq(&raw const index.slots[**at], slot));
                for waiting in index.waiting.values() {
                    for (_, part, pods) in waiting.placed.iter().filter(|(at, ..)| Some(at) == here) {
                        prop_assert!(slot.admits(&waiting.parts[*part]), "{} admits what is placed there", slot.name);
                        taken += pods;
                        let sum = amounts.entry("cpu").or_default();
                        *sum += pods * waiting.parts[*part].template.request.get("cpu").copied().unwrap_or(0);
                    }
                }
                let expected = |resource: &str| slot.expected.amounts.get(resource).copied().unwrap_or(0);
                prop_assert_eq!((slot.expected.pods, expected("cpu")), (taken, amounts.get("cpu").copied().unwrap_or(0)));
                prop_assert!(!slot.is_overfull(), "{}", slot.name);
            }
            for (key, waiting) in &index.waiting {
                let rest = waiting.rest(0);
                prop_assert_eq!(index.unplaced.contains(key), rest > 0);
                let room: i64 = index.slots.iter().map(|slot| slot.fits(&waiting.parts[0])).sum();
                prop_assert!(rest == 0 || room == 0, "{} has no place for {} of its pods, and {} fit", key, rest, room);
            }
        }
    }
}
