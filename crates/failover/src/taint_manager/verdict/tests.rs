use std::sync::Arc;

use ironclad_api::{
    Time,
    policy::{ClusterFailoverBehavior, FailoverBehavior},
    taints::NO_SCHEDULE,
    work::{ResourceBinding, ResourceBindingSpec},
};
use proptest::prelude::*;

use super::*;
use crate::testkit::at;

fn taint(key: &str, effect: &str, added: i64) -> Taint {
    Taint { key: key.into(), value: None, effect: effect.into(), time_added: Some(Time(at(added))) }
}

fn tolerates_for(key: &str, seconds: Option<i64>) -> Toleration {
    Toleration {
        key: Some(key.into()),
        operator: Some("Exists".into()),
        toleration_seconds: seconds,
        ..Toleration::default()
    }
}

fn binding(tolerations: &[Toleration], failover: Option<ClusterFailoverBehavior>) -> Binding {
    let placement = Placement { cluster_tolerations: tolerations.to_vec(), ..Placement::default() };
    let mut binding = ResourceBinding::new(
        "web",
        ResourceBindingSpec {
            failover: failover.map(|cluster| FailoverBehavior { application: None, cluster: Some(cluster) }.into()),
            ..ResourceBindingSpec::default()
        },
    );
    let text = serde_json::to_string(&placement).unwrap();
    binding.metadata.annotations = Some([(APPLIED_PLACEMENT.to_owned(), text)].into());
    Binding::Namespaced(Arc::new(binding))
}

fn opted_in(mode: Option<PurgeMode>, seconds: Option<i32>) -> Option<ClusterFailoverBehavior> {
    Some(ClusterFailoverBehavior { purge_mode: mode, toleration_seconds: seconds, state_preservation: None })
}

fn due(taints: &[Taint], tolerations: &[Toleration], failover: Option<ClusterFailoverBehavior>) -> Option<i64> {
    let settings = FailoverSettings::of(&binding(tolerations, failover)).unwrap();
    match judge(&settings, taints, |_| at(7), &EvictionFlags::default()) {
        Verdict::Stays(_) => None,
        Verdict::Goes { causes, .. } => Some(causes.due().as_second()),
    }
}

#[test]
fn due_times_follow_the_table_of_3_5() {
    const T0: i64 = 1_000;
    let no = |key: &str, added: i64| taint(key, NO_EXECUTE, added);
    let prefer = |key: &str, added: i64| taint(key, PREFER_NO_EXECUTE, added);
    let tol = tolerates_for;
    let fc = |seconds: i32| opted_in(None, Some(seconds));
    for (name, taints, tolerations, failover, want) in [
        ("T1", vec![], vec![], fc(0), None),
        ("T2", vec![taint("k", NO_SCHEDULE, T0)], vec![], fc(0), None),
        ("T3", vec![no("k", T0)], vec![], None, Some(T0)),
        (
            "T4: failover seconds do not apply to NoExecute",
            vec![no("k", T0)],
            vec![],
            opted_in(Some(PurgeMode::Directly), Some(100)),
            Some(T0),
        ),
        ("T5", vec![no("k", T0)], vec![tol("k", None)], None, None),
        ("T5 with cluster failover", vec![no("k", T0)], vec![tol("k", None)], fc(0), None),
        ("T6", vec![no("k", T0)], vec![tol("k", Some(60))], None, Some(T0 + 60)),
        ("T7", vec![no("k", T0)], vec![tol("k", Some(0))], None, Some(T0)),
        ("T7 negative", vec![no("k", T0)], vec![tol("k", Some(-5))], None, Some(T0)),
        ("T8", vec![no("k1", T0), no("k2", T0)], vec![tol("k1", None)], None, Some(T0)),
        ("T9", vec![no("k1", T0), no("k2", T0)], vec![tol("k1", Some(60)), tol("k2", None)], None, Some(T0 + 60)),
        (
            "T10",
            vec![no("k1", T0), no("k2", T0 + 50)],
            vec![tol("k1", Some(100)), tol("k2", Some(20))],
            None,
            Some(T0 + 70),
        ),
        ("T11", vec![prefer("k", T0)], vec![], None, None),
        ("T11 with a toleration", vec![prefer("k", T0)], vec![tol("k", Some(1))], None, None),
        (
            "T12: tolerations do not apply to PreferNoExecute",
            vec![prefer("k", T0)],
            vec![tol("k", None)],
            fc(100),
            Some(T0 + 100),
        ),
        ("T13", vec![prefer("k", T0)], vec![], opted_in(None, None), Some(T0 + 300)),
        ("T14", vec![prefer("k", T0)], vec![], fc(0), Some(T0)),
        ("T15", vec![prefer("p", T0), no("n", T0 + 10)], vec![tol("n", Some(60))], fc(300), Some(T0 + 70)),
        ("T16", vec![prefer("p", T0), no("n", T0 + 10)], vec![tol("n", None)], fc(300), Some(T0 + 300)),
        ("T17", vec![prefer("p", T0), no("n", T0 + 10)], vec![tol("n", None)], None, None),
        ("T18", vec![prefer("p", T0), prefer("q", T0 + 100)], vec![], fc(60), Some(T0 + 60)),
        (
            "T20: the toleration starts at the new timeAdded",
            vec![no("k", T0 + 500)],
            vec![tol("k", Some(60))],
            None,
            Some(T0 + 560),
        ),
        (
            "an unlimited toleration takes precedence in any order",
            vec![no("k", T0)],
            vec![tol("k", Some(5)), tol("k", None)],
            None,
            None,
        ),
        (
            "the longer of two finite tolerations counts",
            vec![no("k", T0)],
            vec![tol("k", Some(50)), tol("k", Some(9))],
            None,
            Some(T0 + 50),
        ),
    ] {
        assert_eq!(due(&taints, &tolerations, failover), want, "{name}");
    }
    let nameless = Taint { time_added: None, ..no("k", T0) };
    assert_eq!(due(&[nameless], &[tol("k", Some(60))], None), Some(67), "without timeAdded: since it was first seen");
}

#[test]
fn purge_mode_and_reason_of_an_eviction() {
    use PurgeMode::{Directly, Gracefully};
    let flag = |mode| EvictionFlags { no_execute_taint_eviction_purge_mode: mode, ..EvictionFlags::default() };
    let (no, prefer) = (taint("n", NO_EXECUTE, 10), taint("p", PREFER_NO_EXECUTE, 0));
    for (name, taints, failover, flags, mode, reason) in [
        ("B20", vec![no.clone()], None, flag(Gracefully), Gracefully, "TaintUntolerated"),
        ("B21", vec![no.clone()], None, flag(Directly), Directly, "TaintUntolerated"),
        (
            "B22: the binding's mode takes precedence over the flag",
            vec![no.clone()],
            opted_in(Some(Directly), Some(100)),
            flag(Gracefully),
            Directly,
            "TaintUntolerated",
        ),
        (
            "the binding's Gracefully takes precedence over the flag too",
            vec![no.clone()],
            opted_in(Some(Gracefully), None),
            flag(Directly),
            Gracefully,
            "TaintUntolerated",
        ),
        (
            "an empty mode is Gracefully",
            vec![no.clone()],
            opted_in(None, None),
            flag(Directly),
            Gracefully,
            "TaintUntolerated",
        ),
        ("B15", vec![prefer.clone()], opted_in(None, None), flag(Directly), Gracefully, "TaintPreferNoExecute"),
        (
            "B16",
            vec![prefer.clone()],
            opted_in(Some(Directly), Some(100)),
            flag(Gracefully),
            Directly,
            "TaintPreferNoExecute",
        ),
        (
            "both taints, NoExecute is due first",
            vec![prefer.clone(), no.clone()],
            opted_in(None, Some(300)),
            flag(Gracefully),
            Gracefully,
            "TaintUntolerated",
        ),
        (
            "both taints, PreferNoExecute is due first",
            vec![prefer.clone(), no.clone()],
            opted_in(None, Some(0)),
            flag(Gracefully),
            Gracefully,
            "TaintPreferNoExecute",
        ),
    ] {
        let settings = FailoverSettings::of(&binding(&[], failover)).unwrap();
        let Verdict::Goes { causes, purge_mode } = judge(&settings, &taints, |_| at(0), &flags) else {
            panic!("{name}")
        };
        assert_eq!((purge_mode, causes.task_reason()), (mode, reason), "{name}");
    }
}

#[test]
fn flag_disables_only_no_execute_evictions() {
    let off = EvictionFlags { enable_no_execute_taint_eviction: false, ..EvictionFlags::default() };
    let taints = [taint("n", NO_EXECUTE, 0), taint("p", PREFER_NO_EXECUTE, 5)];
    let judged = |failover| judge(&FailoverSettings::of(&binding(&[], failover)).unwrap(), &taints, |_| at(0), &off);
    assert_eq!(judged(None), Verdict::Stays(Reason::NoExecuteOff));
    let Verdict::Goes { causes, .. } = judged(opted_in(None, Some(0))) else {
        panic!("B27: PreferNoExecute still evicts")
    };
    assert_eq!((causes.taints(), causes.due()), (vec!["p:PreferNoExecute".to_owned()], at(5)));
}

#[test]
fn reasons_of_a_binding_that_is_not_evicted() {
    let judged = |taints: &[Taint], tolerations: &[Toleration]| {
        judge(&FailoverSettings::of(&binding(tolerations, None)).unwrap(), taints, |_| at(0), &EvictionFlags::default())
    };
    assert_eq!(judged(&[], &[]), Verdict::Stays(Reason::NotTainted));
    assert_eq!(judged(&[taint("k", PREFER_NO_EXECUTE, 0)], &[]), Verdict::Stays(Reason::NotOptedIn));
    assert_eq!(judged(&[taint("k", NO_EXECUTE, 0)], &[tolerates_for("k", None)]), Verdict::Stays(Reason::Tolerated));
}

#[test]
fn unreadable_placement_is_an_error() {
    let Binding::Namespaced(shared) = binding(&[], None) else { unreachable!() };
    let with = |text: Option<&str>, placement: Option<Placement>| {
        let mut binding = (*shared).clone();
        binding.metadata.annotations = text.map(|text| [(APPLIED_PLACEMENT.to_owned(), text.to_owned())].into());
        binding.spec.placement = placement.map(Into::into);
        FailoverSettings::of(&Binding::Namespaced(Arc::new(binding)))
    };
    assert!(matches!(with(Some("{"), Some(Placement::default())), Err(Reason::PlacementUnreadable { .. })));
    assert!(matches!(with(None, None), Err(Reason::PlacementUnreadable { .. })));
    assert!(with(None, Some(Placement::default())).is_ok(), "never scheduled: the placement of the spec applies");
}

/// A placement that can't be scheduled yet is what the user wants, and the applied one is what Karmada reads.
#[test]
fn tolerations_of_the_applied_and_of_the_present_placement_count() {
    let (none, limited, endless) = (vec![], vec![tolerates_for("k", Some(30))], vec![tolerates_for("k", None)]);
    for (name, applied, present, want) in [
        ("neither tolerates", &none, &none, Some(0)),
        ("the user took the toleration away", &endless, &none, None),
        ("the user added it", &none, &endless, None),
        ("the user extended it", &limited, &endless, None),
        ("the user shortened it", &endless, &limited, None),
        ("both for some seconds", &limited, &limited, Some(30)),
    ] {
        let Binding::Namespaced(shared) = binding(applied, None) else { unreachable!() };
        let mut binding = (*shared).clone();
        let placement = Placement { cluster_tolerations: present.clone(), ..Placement::default() };
        binding.spec.placement = Some(placement.into());
        let settings = FailoverSettings::of(&Binding::Namespaced(Arc::new(binding))).unwrap();
        let due = match judge(&settings, &[taint("k", NO_EXECUTE, 0)], |_| at(7), &EvictionFlags::default()) {
            Verdict::Stays(_) => None,
            Verdict::Goes { causes, .. } => Some(causes.due().as_second()),
        };
        assert_eq!(due, want, "{name}");
    }
}

proptest! {
    // Invariant 7.
    #[test]
    fn tolerations_delay_only_no_execute_and_failover_seconds_only_prefer_no_execute(
        tolerated in prop::option::of(0..500i64),
        wait in 0..500i32,
    ) {
        let tolerations = [tolerates_for("k", tolerated)];
        let due_at = |effect| due(&[taint("k", effect, 0)], &tolerations, opted_in(None, Some(wait)));
        prop_assert_eq!(due_at(PREFER_NO_EXECUTE), Some(i64::from(wait)));
        prop_assert_eq!(due_at(NO_EXECUTE), tolerated);
    }

    // An additional taint never delays the eviction.
    #[test]
    fn additional_taints_never_delay_an_eviction(added in prop::collection::vec((0..3usize, 0..100i64, any::<bool>()), 1..6), seconds in 0..50i64) {
        let all: Vec<Taint> = added
            .iter()
            .map(|(key, added, no)| taint(["a", "b", "c"][*key], if *no { NO_EXECUTE } else { PREFER_NO_EXECUTE }, *added))
            .collect();
        let tolerations = [tolerates_for("a", Some(seconds)), tolerates_for("b", None)];
        let at = |taints: &[Taint]| due(taints, &tolerations, opted_in(None, Some(30))).unwrap_or(i64::MAX);
        prop_assert!(at(&all) <= at(&all[1..]));
    }
}
