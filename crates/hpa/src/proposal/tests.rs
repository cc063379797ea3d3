//! Rows 1 to 21 and 39 of the specification's worked examples, bad metrics, and rules for any load.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    calibration::{Assigned, Spread},
    pods::Phase,
    ratio::Tolerance,
    samples::Sample,
    source::{Asked, SourceType},
    testkit::{at, key, requesting, running, sample},
};

const NOW: i64 = 10_000;

const CPU: Asked<'_> = Asked::Usage { resource: "cpu", container: None };

fn tolerances() -> Tolerances {
    Tolerances { up: Tolerance::DEFAULT, down: Tolerance::DEFAULT }
}

fn unready() -> Pod {
    Pod { phase: Phase::Pending, ..running() }
}

/// Pods with their usage in thousandths.
type Measured = Vec<(Pod, Option<i64>)>;

/// Pods that request 100m, with these usages, and others that start.
fn pods(used: &[Option<i64>], starting: usize) -> Measured {
    let mut all: Measured = used.iter().map(|used| (running(), *used)).collect();
    all.extend(std::iter::repeat_n((unready(), None), starting));
    all
}

fn same(count: usize, used: i64) -> Vec<Option<i64>> {
    vec![Some(used); count]
}

/// Spreads pods over clusters in turn; pods of one turn have the same name.
fn spread(measured: Measured, clusters: usize) -> (BTreeMap<PodKey, Arc<Pod>>, Samples) {
    let (mut pods, mut samples) = (BTreeMap::new(), Samples::new());
    for (n, (pod, used)) in measured.into_iter().enumerate() {
        let key = key(&format!("m{}", n % clusters), &format!("web-{}", n / clusters));
        samples.extend(used.map(|used| (key.clone(), sample(NOW, used))));
        pods.insert(key, Arc::new(pod));
    }
    (pods, samples)
}

fn propose_pods(
    asked: Asked<'_>,
    target: Target,
    current: i32,
    measured: Measured,
    k: Calibration,
) -> Result<Proposal, String> {
    let (pods, samples) = spread(measured, 2);
    let workload = Workload { current, pods: &pods, status_replicas: 0, calibration: k };
    let source = Source { type_: SourceType::Resource, asked, target };
    propose(&source, &Reading::Pods(samples), &workload, tolerances(), &Options::default(), at(NOW))
}

fn calibration(spread: Spread, clusters: &[(i32, bool)]) -> Calibration {
    let clusters: Vec<Assigned> = clusters
        .iter()
        .map(|(replicas, is_reached)| Assigned { replicas: *replicas, is_reached: *is_reached })
        .collect();
    Calibration::of_clusters(spread, &clusters).unwrap()
}

#[test]
fn examples_of_resource_metrics() {
    let k = Calibration::ONE;
    let three = || pods(&same(3, 100), 0);
    let gone = |n: usize| {
        let pod =
            if n == 0 { Pod { is_deleted: true, ..running() } } else { Pod { phase: Phase::Failed, ..running() } };
        (pod, Some(900))
    };
    for (row, current, target, pods, k, want) in [
        ("1", 3, 50, three(), k, 6),
        ("2", 4, 80, pods(&same(4, 50), 0), k, 3),
        ("3", 10, 50, pods(&same(10, 54), 0), k, 10),
        ("4", 10, 50, pods(&same(10, 55), 0), k, 10),
        ("5", 10, 50, pods(&same(10, 56), 0), k, 12),
        ("6", 10, 50, pods(&same(10, 45), 0), k, 10),
        ("7", 10, 50, pods(&same(10, 44), 0), k, 9),
        ("8", 2, 50, vec![(requesting(500), Some(300)), (requesting(100), Some(100))], k, 3),
        ("9", 4, 50, pods(&[Some(90), Some(90), Some(90), None], 0), k, 6),
        ("10", 4, 50, pods(&[Some(10), Some(10), Some(10), None], 0), k, 3),
        ("11", 4, 150, pods(&[Some(100), Some(100), Some(100), None], 0), k, 3),
        ("12", 4, 50, pods(&same(2, 120), 2), k, 5),
        ("13", 4, 50, pods(&same(2, 100), 2), k, 4),
        ("14", 6, 50, pods(&same(4, 20), 2), k, 2),
        (
            "15: replicas on their way",
            8,
            50,
            pods(&same(4, 100), 0),
            calibration(Spread::Divided, &[(4, true), (4, true)]),
            8,
        ),
        ("16: duplicated", 2, 60, pods(&same(6, 90), 0), calibration(Spread::Duplicated, &[(2, true); 3]), 3),
        (
            "17: half is unreachable",
            10,
            60,
            pods(&same(5, 90), 0),
            calibration(Spread::Divided, &[(5, true), (5, false)]),
            15,
        ),
        ("39: deleted and failed pods vanish", 5, 50, [three(), vec![gone(0), gone(1)]].concat(), k, 6),
        (
            "exactly the target: nothing is assumed of missing pods",
            4,
            50,
            pods(&[Some(50), Some(50), Some(50), None], 0),
            k,
            4,
        ),
        ("surge pods of a rolling update do not scale up", 3, 50, pods(&[Some(80), Some(80), Some(80)], 3), k, 3),
    ] {
        let found = propose_pods(CPU, Target::Utilization(target), current, pods, k);
        assert_eq!(found.map(|proposal| proposal.replicas), Ok(want), "row {row}");
    }
}

#[test]
fn examples_of_custom_metrics_of_pods() {
    let metric = k8s_openapi::api::autoscaling::v2::MetricIdentifier { name: "rps".into(), selector: None };
    let measured = pods(&[Some(10_000), Some(20_000), Some(31_000)], 0);
    let row_21 = propose_pods(Asked::Pods(&metric), Target::Average(10_000), 3, measured, Calibration::ONE).unwrap();
    assert_eq!((row_21.replicas, row_21.current.average, row_21.current.utilization), (7, Some(20_333), None));
    // web-0 of two clusters are two samples.
    let measured = pods(&[Some(10_000), Some(30_000)], 0);
    let both = propose_pods(Asked::Pods(&metric), Target::Average(10_000), 2, measured, Calibration::ONE).unwrap();
    assert_eq!((both.replicas, both.current.average), (4, Some(20_000)));
}

fn total(target: Target, value: i64, current: i32, s: i64, ready: usize, k: Calibration) -> Result<Proposal, String> {
    let (pods, _) = spread(pods(&vec![None; ready], 0), 2);
    let workload = Workload { current, pods: &pods, status_replicas: s, calibration: k };
    let metric = k8s_openapi::api::autoscaling::v2::MetricIdentifier { name: "queue".into(), selector: None };
    let source = Source { type_: SourceType::External, asked: Asked::External(&metric), target };
    let reading = Reading::Total { value: i128::from(value) * 1_000, unanswered: Vec::new() };
    propose(&source, &reading, &workload, tolerances(), &Options::default(), at(NOW))
}

#[test]
fn examples_of_totals() {
    let one = Calibration::ONE;
    let twice = calibration(Spread::Duplicated, &[(2, true); 2]);
    for (row, target, value, current, s, ready, k, want) in [
        ("18: divided by k once", Target::Average(200_000), 1_000, 2, 4, 4, twice, 3),
        ("19", Target::Value(100_000), 150, 4, 4, 4, one, 6),
        ("20", Target::Average(20_000), 100, 4, 4, 4, one, 5),
        ("within the tolerance", Target::Value(100_000), 110, 4, 4, 4, one, 4),
        (
            "an average within the tolerance keeps the template, not the pods",
            Target::Average(10_000),
            42,
            5,
            4,
            4,
            one,
            5,
        ),
        ("from zero: the ratio", Target::Value(10_000), 25, 0, 0, 0, one, 3),
        ("from zero: an average has no tolerance", Target::Average(10_000), 25, 0, 0, 0, one, 3),
        ("to zero", Target::Average(10_000), 0, 3, 3, 3, one, 0),
        ("a negative value is below every target", Target::Value(10_000), -5, 3, 3, 3, one, 0),
        ("an absurd value is limited to what fits", Target::Value(1), i64::MAX / 1_000, 3, 3, 3, one, i32::MAX),
    ] {
        let found = total(target, value, current, s, ready, k);
        assert_eq!(found.map(|proposal| proposal.replicas), Ok(want), "row {row}");
    }
    let average = total(Target::Average(20_000), 100, 4, 3, 4, one).unwrap().current.average;
    assert_eq!(average, Some(33_334), "the average per pod is rounded up");
}

#[test]
fn metrics_without_a_proposal() {
    let unrequested = || Pod { requests: Vec::new(), whole: Some([].into()), ..running() };
    let old = |(pod, _): (Pod, Option<i64>)| (pod, None);
    for (name, pods, want) in [
        ("no pods", Vec::new(), "no pods returned by selector while calculating replica count"),
        ("no samples", pods(&[None, None], 0), "did not receive metrics for targeted pods (pods might be unready)"),
        ("all pods start", pods(&[], 3), "did not receive metrics for targeted pods (pods might be unready)"),
        (
            "all pods end",
            vec![(Pod { is_deleted: true, ..running() }, Some(1))],
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
        (
            "a pod without a request, named with its cluster",
            vec![(running(), Some(1)), (unrequested(), Some(1))],
            "missing pod-level request for cpu in Pod web-0 of cluster m1",
        ),
        (
            "even of a pod without a sample",
            vec![(running(), Some(1)), old((unrequested(), Some(1)))],
            "missing pod-level request for cpu in Pod web-0 of cluster m1",
        ),
    ] {
        let found = propose_pods(CPU, Target::Utilization(50), 1, pods, Calibration::ONE);
        assert_eq!(found.map(|proposal| proposal.replicas), Err(want.to_owned()), "{name}");
    }
}

#[test]
fn stale_samples_count_as_missing() {
    let (pods, mut samples) = spread(pods(&same(4, 10), 0), 2);
    let old = Sample { at: at(NOW - 400), ..sample(NOW, 10) };
    samples.insert(key("m0", "web-0"), old);
    let workload = Workload { current: 4, pods: &pods, status_replicas: 4, calibration: Calibration::ONE };
    let source = Source { type_: SourceType::Resource, asked: CPU, target: Target::Utilization(50) };
    let ask = |samples: Samples| {
        propose(&source, &Reading::Pods(samples), &workload, tolerances(), &Options::default(), at(NOW))
    };
    let found = ask(samples.clone()).unwrap();
    assert_eq!(found.replicas, 3, "as row 10");
    assert_eq!(found.counts["m0"], Counts { ready: 1, missing: 1, stale: 1, total: 10, ..Counts::default() });
    let all_old = samples.into_keys().map(|key| (key, old)).collect();
    let error = ask(all_old).unwrap_err();
    assert_eq!(error, "did not receive recent metrics for targeted pods (4 of them were measured long ago)");
}

#[test]
fn clusters_without_an_answer_never_scale_down() {
    let (pods, _) = spread(pods(&same(4, 0), 0), 2);
    let workload = Workload { current: 4, pods: &pods, status_replicas: 4, calibration: Calibration::ONE };
    let metric = k8s_openapi::api::autoscaling::v2::MetricIdentifier { name: "queue".into(), selector: None };
    let source =
        Source { type_: SourceType::External, asked: Asked::External(&metric), target: Target::Average(10_000) };
    let ask = |value: i128| {
        let reading = Reading::Total { value, unanswered: vec!["m2".into()] };
        propose(&source, &reading, &workload, tolerances(), &Options::default(), at(NOW))
            .map(|proposal| proposal.replicas)
    };
    assert_eq!(ask(90_000), Ok(9), "what is known asks for more");
    let refused = "no answer from m2: the values of the other clusters alone do not scale down";
    assert_eq!(ask(10_000), Err(refused.to_owned()));
}

fn any_pods() -> impl Strategy<Value = Measured> {
    let pod = prop_oneof![
        6 => (0..2_000_i64).prop_map(|used| (running(), Some(used))),
        1 => Just((running(), None)),
        1 => Just((unready(), None)),
    ];
    vec(pod, 1..30)
}

proptest! {
    #[test]
    fn without_missing_pods_it_is_the_textbook_formula(used in vec(0..1_000_i64, 1..40), target in 1..300_i32) {
        let count = i64::try_from(used.len()).unwrap();
        let current = i32::try_from(count).unwrap();
        let measured = pods(&used.iter().map(|used| Some(*used)).collect::<Vec<_>>(), 0);
        let found = propose_pods(CPU, Target::Utilization(target), current, measured, Calibration::ONE).unwrap();
        let percent = used.iter().sum::<i64>() / count;
        let target = i64::from(target);
        let is_tolerated = 10 * percent >= 9 * target && 10 * percent <= 11 * target;
        let want = if is_tolerated { count } else { (percent * count + target - 1) / target };
        prop_assert_eq!(i64::from(found.replicas), want);
    }

    #[test]
    fn the_number_of_clusters_changes_nothing(measured in any_pods(), clusters in 1..7_usize, target in 1..200_i32) {
        let current = i32::try_from(measured.len()).unwrap();
        let ask = |clusters: usize| {
            let (pods, samples) = spread(measured.clone(), clusters);
            let workload = Workload { current, pods: &pods, status_replicas: 0, calibration: Calibration::ONE };
            let source = Source { type_: SourceType::Resource, asked: CPU, target: Target::Utilization(target) };
            propose(&source, &Reading::Pods(samples), &workload, tolerances(), &Options::default(), at(NOW))
                .map(|proposal| (proposal.replicas, proposal.current))
        };
        prop_assert_eq!(ask(1), ask(clusters));
    }

    #[test]
    fn more_load_never_proposes_fewer(
        measured in any_pods(), more in vec(0..500_i64, 30), target in 1..200_i32, current in 1..40_i32,
    ) {
        let raised: Measured =
            measured.iter().zip(&more).map(|((pod, used), more)| (pod.clone(), used.map(|used| used + more))).collect();
        let ask = |measured: Measured| {
            propose_pods(CPU, Target::Utilization(target), current, measured, Calibration::ONE).map(|found| found.replicas)
        };
        let count = i32::try_from(measured.len()).unwrap();
        if let (Ok(before), Ok(after)) = (ask(measured), ask(raised)) {
            // Between the two the assumption about unready pods may change, which keeps the present size. A load within
            // the tolerance keeps it, too; beyond it, the pods that there are decide, and these may be fewer.
            let least = if before == current { current.min(count) } else { before.min(current) };
            prop_assert!(after >= least, "{before} became {after}");
        }
    }

    #[test]
    fn any_values_are_survived(
        values in vec(any::<i64>(), 1..10), target in 1..i64::MAX, value in any::<i64>(), current in 0..i32::MAX,
    ) {
        let metric = k8s_openapi::api::autoscaling::v2::MetricIdentifier { name: "m".into(), selector: None };
        let measured = pods(&values.iter().map(|value| Some(*value)).collect::<Vec<_>>(), 1);
        let k = calibration(Spread::Divided, &[(1, true), (i32::MAX, false)]);
        let found = propose_pods(Asked::Pods(&metric), Target::Average(target), current, measured, k);
        prop_assert!(found.unwrap().replicas >= 0);
        for target in [Target::Average(target), Target::Value(target)] {
            let found = total(target, value / 1_000, current, i64::from(current), 3, k);
            prop_assert!(found.unwrap().replicas >= 0);
        }
    }
}
