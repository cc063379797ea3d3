use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{taint_manager::verdict::Cause, testkit::at};

const S: fn(u64) -> Duration = Duration::from_secs;

fn now(second: u64) -> Now {
    Now { wall: at(i64::try_from(second).unwrap()), mono: S(second) }
}

fn key(cluster: &str, binding: &str) -> Key {
    let (namespace, name) = binding.split_once('/').unwrap_or(("", binding));
    Key { cluster: cluster.into(), binding: BindingKey { namespace: namespace.into(), name: name.into() } }
}

fn due(second: u64) -> Request {
    let cause = Cause { due: at(i64::try_from(second).unwrap()), taint: "k:NoExecute".into() };
    let resource =
        ObjectReference { api_version: "apps/v1".into(), kind: "Deployment".into(), ..ObjectReference::default() };
    Request {
        binding_uid: "u".into(),
        cluster_uid: "c".into(),
        resource: Arc::new(resource),
        causes: Causes { no_execute: Some(cause), prefer_no_execute: None },
        purge_mode: PurgeMode::Gracefully,
    }
}

/// Evicts all elements that are ready.
fn drain(queue: &mut Queue, second: u64) -> Vec<String> {
    queue.promote(S(second));
    let mut order = Vec::new();
    while let Some((key, _)) = queue.take() {
        queue.evicted(&key, S(second));
        order.push(format!("{}:{}", key.cluster, key.binding));
    }
    order
}

#[test]
fn one_order_for_all_clusters_and_kinds() {
    let mut queue = Queue::default();
    for (cluster, binding, wanted, at) in [
        ("m2", "ns/late", 9, 1),
        ("m2", "ns/first", 1, 1),
        ("m1", "second", 1, 1),
        ("m1", "ns/third", 2, 2),
        ("m1", "ns/delayed-until-5", 5, 2),
        ("m2", "ns/added-at-6", 6, 6),
    ] {
        queue.add(&key(cluster, binding), due(wanted), now(at));
    }
    assert_eq!(
        drain(&mut queue, 8),
        ["m2:ns/first", "m1:second", "m1:ns/third", "m1:ns/delayed-until-5", "m2:ns/added-at-6"]
    );
    assert_eq!(queue.promote(S(8)), Some(S(9)));
    assert_eq!(drain(&mut queue, 9), ["m2:ns/late"]);
    assert!(queue.is_empty());
}

#[test]
fn element_is_queued_once() {
    let mut queue = Queue::default();
    let k = key("m1", "ns/a");
    assert!(queue.add(&k, due(1), now(1)));
    assert!(!queue.add(&k, due(0), now(5)), "a ready element keeps its position and age");
    assert_eq!(queue.get(&k).unwrap().enqueued_at, Some(S(1)));
    assert_eq!((queue.len(), queue.tally().cluster(&"m1".into()).unwrap().enqueued), (1, 1));
    queue.add(&k, due(9), now(5));
    assert_eq!(queue.get(&k).unwrap().place, Place::Delayed, "a later due time delays a ready element");
    queue.add(&k, due(7), now(5));
    assert_eq!(queue.promote(S(6)), Some(S(7)), "an earlier due time applies to a delayed element");
    queue.add(&k, Request { binding_uid: "other".into(), ..due(5) }, now(6));
    assert_eq!(queue.get(&k).unwrap().place, Place::Ready, "a recreated binding replaces the element");
    assert_eq!(queue.tally().cluster(&"m1".into()).unwrap().abandoned[&Abandoned::Obsolete], 1);
}

#[test]
fn element_in_work_is_not_taken_twice() {
    let mut queue = Queue::default();
    let k = key("m1", "ns/a");
    queue.add(&k, due(1), now(1));
    let (taken, _) = queue.take().unwrap();
    assert_eq!(taken, k);
    assert!(queue.take().is_none());
    queue.add(&k, due(1), now(2));
    assert_eq!(queue.get(&k).unwrap().place, Place::Working { again: true });
    queue.put_back(&k);
    assert!(queue.take().is_some());
}

#[test]
fn failed_element_moves_to_the_tail_and_keeps_its_age() {
    let mut queue = Queue::default();
    queue.add(&key("m1", "ns/poisoned"), due(1), now(1));
    queue.add(&key("m1", "ns/b"), due(1), now(1));
    let (poisoned, _) = queue.take().unwrap();
    queue.failed(&poisoned, S(3), S(2));
    queue.add(&key("m2", "ns/c"), due(4), now(4));
    assert_eq!(queue.get(&poisoned).unwrap().attempts, 1);
    queue.promote(S(5));
    queue.add(&key("m2", "ns/d"), due(5), now(6));
    assert_eq!(queue.get(&poisoned).unwrap().enqueued_at, Some(S(1)));
    assert_eq!(drain(&mut queue, 6), ["m1:ns/b", "m2:ns/c", "m1:ns/poisoned", "m2:ns/d"]);
    let tally = queue.tally().queue(QueueName::ResourceBinding);
    assert_eq!((tally.succeeded, tally.failed), (4, 1));
    assert_eq!(queue.tally().cluster(&"m1".into()).unwrap().success_rate(), Some(2.0 / 3.0));
}

#[test]
fn recovery_removes_all_elements_of_a_cluster() {
    let mut queue = Queue::default();
    queue.add(&key("m1", "ns/ready"), due(1), now(1));
    queue.add(&key("m1", "ns/delayed"), due(9), now(1));
    queue.add(&key("m1", "ns/parked"), due(0), now(1));
    queue.add(&key("m2", "ns/ready"), due(1), now(1));
    let (first, _) = queue.take().unwrap();
    queue.put_back(&first);
    let parked = key("m1", "ns/parked");
    while let Some((k, _)) = queue.take() {
        if k == parked {
            queue.park(&k, S(1));
            break;
        }
    }
    for k in [key("m1", "ns/ready"), key("m2", "ns/ready")] {
        queue.put_back(&k);
    }
    let dropped = queue.drop_cluster(&"m1".into(), Abandoned::Recovered);
    assert_eq!(dropped.len(), 3);
    assert_eq!(queue.of_cluster(&"m1".into()).count(), 0);
    assert_eq!(drain(&mut queue, 1_000), ["m2:ns/ready"]);
    let tally = queue.tally().cluster(&"m1".into()).unwrap();
    assert_eq!((tally.pending(), tally.abandoned[&Abandoned::Recovered]), (0, 3));
}

#[test]
fn elements_of_paused_clusters_are_skipped() {
    let mut queue = Queue::default();
    queue.pause(&"m1".into());
    queue.add(&key("m1", "ns/a"), due(1), now(1));
    queue.add(&key("m2", "ns/b"), due(2), now(2));
    queue.add(&key("m1", "ns/c"), due(3), now(3));
    assert_eq!(drain(&mut queue, 3), ["m2:ns/b"]);
    queue.add(&key("m2", "ns/d"), due(4), now(4));
    queue.resume(&"m1".into());
    assert_eq!(drain(&mut queue, 4), ["m1:ns/a", "m1:ns/c", "m2:ns/d"], "resumed elements keep their positions");
    queue.pause(&"m9".into());
    queue.resume(&"m9".into());
    assert!(queue.by_cluster.is_empty(), "no state is kept for a cluster without elements");
}

#[test]
fn parked_elements_are_retried_when_the_fleet_changes_or_after_five_minutes() {
    let mut queue = Queue::default();
    for n in 0..100 {
        queue.add(&key("m1", &format!("ns/a{n:03}")), due(1), now(1));
    }
    while let Some((k, _)) = queue.take() {
        assert!(queue.park(&k, S(1)), "parking counts as a failure the first time");
    }
    assert_eq!(queue.promote(S(2)), Some(S(301)));
    queue.add(&key("m2", "ns/b"), due(2), now(2));
    queue.look_again_at_parked();
    assert_eq!(queue.promote(S(2)), Some(S(2)), "retried in portions");
    assert_eq!(queue.promote(S(2)), None);
    let (first, _) = queue.take().unwrap();
    assert_eq!(first, key("m2", "ns/b"), "retried elements are at the tail");
    let (again, _) = queue.take().unwrap();
    assert!(!queue.park(&again, S(2)), "parking again does not count");
    assert_eq!(queue.promote(S(301)), Some(S(302)));
    assert_eq!(queue.tally().queue(QueueName::ResourceBinding).failed, 100);
    assert_eq!(queue.promote(S(302)), None);
}

#[test]
fn rates_and_ages_of_evictions() {
    let mut queue = Queue::default();
    for n in 0..30u64 {
        queue.add(&key("m1", &format!("ns/a{n:02}")), due(0), now(0));
    }
    for n in 0..30u64 {
        let (k, _) = queue.take().unwrap();
        queue.evicted(&k, S(2 * n));
    }
    let rate = |second| queue.tally().cluster(&"m1".into()).unwrap().rate(S(second));
    assert!((rate(59) - 0.5).abs() < 1e-9, "{}", rate(59));
    assert!((rate(89) - 0.25).abs() < 1e-9, "{}", rate(89));
    assert_eq!(rate(200), 0.0);
    queue.add(&key("m1", "ns/z"), due(100), now(100));
    let tally = queue.tally().queue(QueueName::ResourceBinding);
    assert_eq!((tally.ready(), tally.oldest_age(S(130))), (1, S(30)));
}

#[test]
fn twenty_thousand_elements_stay_below_50_mib() {
    let mut queue = Queue::default();
    for n in 0..20_000u64 {
        queue.add(&key(&format!("m{}", n % 60), &format!("ns-{}/binding-{n}", n % 100)), due(n), now(0));
    }
    // Structs and keys, with map nodes two thirds full, and a generous estimate for the texts of one element.
    let texts = 600;
    let per_element = 3 * (size_of::<Element>() + 2 * size_of::<Key>() + 3 * size_of::<Order>()) / 2 + texts;
    assert!(per_element * queue.len() < 50 * 1024 * 1024, "{per_element} bytes each");
}

/// Model of the queue: a list.
#[derive(Default)]
struct Slow(Vec<(Key, Duration, u64)>);

proptest! {
    // Invariants 10, 11 and 15: order, one element per key, and counts that equal the sizes.
    #[test]
    fn queue_behaves_like_a_list(steps in prop::collection::vec((0..6u8, 0..3u8, 0..6u8, 0..8u64), 1..120)) {
        let (mut queue, mut slow, mut second) = (Queue::default(), Slow::default(), 0u64);
        for (action, cluster, binding, extra) in steps {
            let k = key(&format!("m{cluster}"), &format!("ns/b{binding}"));
            match action {
                0..=2 => {
                    let known = slow.0.iter().any(|(other, _, _)| *other == k);
                    prop_assert_eq!(queue.add(&k, due(second + extra), now(second)), !known);
                    if known {
                        // A new due time applies only to elements that are not ready, or if it is later.
                        let place = queue.get(&k).unwrap();
                        let entry = slow.0.iter_mut().find(|(other, _, _)| *other == k).unwrap();
                        (entry.1, entry.2) = place.order;
                    } else {
                        slow.0.push((k.clone(), S(second + extra), queue.get(&k).unwrap().order.1));
                    }
                }
                3 => {
                    queue.remove(&k, Abandoned::Obsolete);
                    slow.0.retain(|(other, _, _)| *other != k);
                }
                4 => {
                    queue.promote(S(second));
                    let want = slow.0.iter().filter(|(_, at, _)| *at <= S(second)).min_by_key(|(_, at, seq)| (*at, *seq)).map(|(k, _, _)| k.clone());
                    let got = queue.take().map(|(k, _)| k);
                    prop_assert_eq!(&got, &want);
                    if let Some(k) = got {
                        queue.evicted(&k, S(second));
                        slow.0.retain(|(other, _, _)| *other != k);
                    }
                }
                _ => second += extra,
            }
            prop_assert_eq!(queue.len(), slow.0.len());
            prop_assert_eq!(queue.iter().count(), slow.0.len());
            let ready = queue.iter().filter(|(_, _, e)| e.place == Place::Ready).count();
            prop_assert_eq!(queue.tally().ready(), ready);
            for (name, tally) in queue.tally().clusters() {
                prop_assert_eq!(tally.pending(), queue.of_cluster(name).count());
                prop_assert_eq!(tally.kinds.values().sum::<usize>(), tally.pending());
                let abandoned: u64 = tally.abandoned.values().sum();
                prop_assert_eq!(tally.enqueued, tally.evicted + abandoned + tally.pending() as u64);
            }
        }
    }
}
