use ironclad_api::{
    Time,
    taints::{NO_EXECUTE, NO_SCHEDULE, PREFER_NO_EXECUTE},
};

use super::*;
use crate::testkit::{at, cluster, ready, taint};

const S: fn(u64) -> Duration = Duration::from_secs;

fn now(second: u64) -> Now {
    Now { wall: at(i64::try_from(second).unwrap() + 100_000), mono: S(second) }
}

#[test]
fn unhealthy_clusters_are_counted() {
    type Change = fn(&mut Cluster);
    let rows: [(&str, Change, (usize, usize)); 12] = [
        ("a healthy cluster", |c| ready(c, "True", 0), (1, 0)),
        ("not ready", |c| ready(c, "False", 0), (1, 1)),
        ("unknown", |c| ready(c, "Unknown", 0), (1, 1)),
        (
            "ready with NoExecute",
            |c| {
                ready(c, "True", 0);
                c.spec.taints = vec![taint("k", NO_EXECUTE, None)];
            },
            (1, 1),
        ),
        (
            "ready with PreferNoExecute",
            |c| {
                ready(c, "True", 0);
                c.spec.taints = vec![taint("k", PREFER_NO_EXECUTE, None)];
            },
            (1, 1),
        ),
        (
            "ready with NoSchedule",
            |c| {
                ready(c, "True", 0);
                c.spec.taints = vec![taint("k", NO_SCHEDULE, None)];
            },
            (1, 0),
        ),
        (
            "being deleted",
            |c| {
                ready(c, "False", 0);
                c.metadata.deletion_timestamp = Some(Time(at(0)));
            },
            (0, 0),
        ),
        (
            "drained",
            |c| {
                ready(c, "False", 0);
                c.metadata.annotations = Some([(DRAINING.to_owned(), "now".to_owned())].into());
            },
            (0, 0),
        ),
        ("new, without a report", |c| c.metadata.creation_timestamp = Some(Time(at(41))), (0, 0)),
        (
            "without a report, exactly at the end of its grace period",
            |c| c.metadata.creation_timestamp = Some(Time(at(40))),
            (1, 1),
        ),
        (
            "new, with a report",
            |c| {
                c.metadata.creation_timestamp = Some(Time(at(99)));
                ready(c, "True", 99);
            },
            (1, 0),
        ),
        ("without a creationTimestamp", |_| {}, (1, 1)),
    ];
    for (name, change, (total, unhealthy)) in rows {
        let mut cluster = cluster("m1");
        change(&mut cluster);
        let mut fleet = Fleet::default();
        fleet.set(&"m1".into(), Some(ClusterHealth::of(&cluster, S(60))));
        assert_eq!(fleet.counts(at(100)), Counts { total, unhealthy }, "{name}");
        fleet.set(&"m1".into(), None);
        assert_eq!(fleet.counts(at(100)), Counts::default(), "{name}, deleted");
    }
}

#[test]
fn counts_follow_changes_and_time() {
    let mut fleet = Fleet::default();
    let silent = |created| {
        let mut cluster = cluster("m1");
        cluster.metadata.creation_timestamp = Some(Time(at(created)));
        ClusterHealth::of(&cluster, S(60))
    };
    fleet.set(&"m1".into(), Some(silent(0)));
    fleet.set(&"m1".into(), Some(silent(10)));
    assert_eq!((fleet.counts(at(69)).total, fleet.next_change(at(69))), (0, Some(at(70))));
    assert_eq!((fleet.counts(at(70)).total, fleet.next_change(at(70))), (1, None));
    let mut well = cluster("m1");
    ready(&mut well, "True", 0);
    fleet.set(&"m1".into(), Some(ClusterHealth::of(&well, S(60))));
    assert_eq!(fleet.counts(at(0)), Counts { total: 1, unhealthy: 0 });
    fleet.set(&"m1".into(), Some(silent(100)));
    assert_eq!(fleet.counts(at(100)).total, 0);
}

#[test]
fn guards_lower_the_rate() {
    let flags = EvictionFlags::default();
    let counts = |total, unhealthy| Counts { total, unhealthy };
    let guards = Guards::new(now(0), S(40));
    for (name, counts, pause, second, flags, rate, state) in [
        ("B46: total outage of a large fleet", counts(12, 12), Hold::None, 40, flags.clone(), 0.0, State::Halted),
        (
            "B46: the guard against total outages is off",
            counts(12, 12),
            Hold::None,
            40,
            EvictionFlags { halt_eviction_on_total_outage: false, ..flags.clone() },
            0.1,
            State::Secondary,
        ),
        (
            "total outage with any threshold",
            counts(3, 3),
            Hold::None,
            40,
            EvictionFlags { unhealthy_cluster_threshold: 1.0, ..flags.clone() },
            0.0,
            State::Halted,
        ),
        ("warm-up, one second before its end", counts(3, 1), Hold::None, 39, flags.clone(), 0.0, State::Held),
        ("warm-up, exactly at its end", counts(3, 1), Hold::None, 40, flags.clone(), 0.5, State::Normal),
        ("paused by a person", counts(3, 1), Hold::Paused, 40, flags.clone(), 0.0, State::Held),
        ("caches not synced", counts(3, 1), Hold::NotSynced, 40, flags.clone(), 0.0, State::Held),
        (
            "B42: most clusters of a small fleet are unhealthy",
            counts(3, 2),
            Hold::None,
            40,
            flags.clone(),
            0.0,
            State::Halted,
        ),
        ("an empty fleet is no total outage", counts(0, 0), Hold::None, 40, flags, 0.5, State::Normal),
    ] {
        let allowed = guards.allowed(counts, pause, &flags, now(second));
        assert_eq!((allowed.rate, allowed.state), (rate, state), "{name}");
    }
}

#[test]
fn many_clusters_that_fail_together_hold_evictions() {
    let flags = EvictionFlags::default();
    // Clusters, seconds at which one of them became unhealthy, second of the check, and whether evictions are held.
    for (name, total, departures, second, want) in [
        ("half of twelve within a minute", 12, &[0, 10, 20, 30, 40, 60][..], 61, true),
        ("one second before the hold ends", 12, &[0, 10, 20, 30, 40, 60][..], 119, true),
        ("exactly at the end of the hold", 12, &[0, 10, 20, 30, 40, 60][..], 120, false),
        ("spread over more than a minute", 12, &[0, 10, 20, 30, 40, 61][..], 62, false),
        ("one cluster less than half", 12, &[0, 0, 0, 0, 0][..], 1, false),
        ("one of two is not a mass failure", 2, &[0][..], 1, false),
        ("two of two are a mass failure", 2, &[0, 5][..], 6, true),
        ("two of five are less than half", 5, &[0, 0][..], 1, false),
        ("three of five are a mass failure", 5, &[0, 0, 0][..], 1, true),
    ] {
        let half = usize::div_ceil(total, 2);
        let is_held = |flags: &EvictionFlags| {
            let mut guards = Guards::new(now(0), Duration::ZERO);
            for (n, departed) in departures.iter().enumerate() {
                let moment = now(*departed);
                guards.departed(&format!("m{n}").as_str().into(), moment.wall, half, flags, moment);
            }
            guards.allowed(Counts { total: 100, unhealthy: 1 }, Hold::None, flags, now(second)).state == State::Held
        };
        assert_eq!(is_held(&flags), want, "{name}");
        assert!(
            !is_held(&EvictionFlags { mass_failure_hold: Duration::ZERO, ..flags.clone() }),
            "{name}, switched off"
        );
    }
}

#[test]
fn new_leader_holds_evictions_after_an_earlier_mass_failure() {
    let flags = EvictionFlags::default();
    let mut guards = Guards::new(now(0), Duration::ZERO);
    for name in ["m1", "m2"] {
        guards.departed(&name.into(), at(100_000 - 10), 2, &flags, now(0));
    }
    let held = |second| {
        guards.allowed(Counts { total: 4, unhealthy: 2 }, Hold::None, &flags, now(second)).state == State::Held
    };
    assert!(held(49) && !held(50), "held for sixty seconds after the clusters became unhealthy");
    let mut old = Guards::new(now(0), Duration::ZERO);
    for name in ["m1", "m2"] {
        old.departed(&name.into(), at(0), 2, &flags, now(0));
    }
    assert_eq!(old.next_change(now(0)), None, "a mass failure that ended long ago");
}

#[test]
fn recovered_cluster_does_not_count_for_a_mass_failure() {
    let flags = EvictionFlags::default();
    let mut guards = Guards::new(now(0), Duration::ZERO);
    guards.departed(&"m1".into(), now(0).wall, 2, &flags, now(0));
    guards.returned(&"m1".into());
    guards.departed(&"m2".into(), now(1).wall, 2, &flags, now(1));
    assert_eq!(guards.next_change(now(1)), None);
}

#[test]
fn only_the_value_true_pauses() {
    let data = |value: &str| BTreeMap::from([("paused".to_owned(), value.to_owned())]);
    assert!(is_paused(Some(&data("true"))));
    for other in ["false", "True", "yes", ""] {
        assert!(!is_paused(Some(&data(other))), "{other}");
    }
    assert!(!is_paused(None) && !is_paused(Some(&BTreeMap::new())));
}
