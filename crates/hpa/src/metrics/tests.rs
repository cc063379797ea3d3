use std::sync::Arc;

use ironclad_quantity::Amount;
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).unwrap()
}

fn pod_item(namespace: &str, name: &str, usage: &Value) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": "web"}},
        "timestamp": "2026-09-21T14:13:20Z", "window": "15s", "containers": [{"name": "c", "usage": usage}],
    })
}

fn pods(items: &[Value]) -> Vec<u8> {
    bytes(&json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}))
}

#[test]
fn a_pod_that_cannot_be_measured_costs_itself_only() {
    let usage = json!({"cpu": "12345678n", "memory": "64Mi"});
    let with = |change: &dyn Fn(&mut Value)| {
        let mut item = pod_item("a", "bad", &usage);
        change(&mut item);
        item
    };
    for (name, item, want) in [
        (
            "negative",
            pod_item("a", "bad", &json!({"cpu": "-1m"})),
            "pod a/bad: container c: usage of cpu: \"-1m\" is negative",
        ),
        ("no number", pod_item("a", "bad", &json!({"cpu": "NaN"})), "\"NaN\" is not a quantity"),
        ("infinite", pod_item("a", "bad", &json!({"cpu": "Inf"})), "\"Inf\" is not a quantity"),
        ("absurd", pod_item("a", "bad", &json!({"memory": "9e300"})), "is more than can be counted"),
        ("a list", pod_item("a", "bad", &json!({"cpu": []})), "is not a quantity"),
        ("no name", pod_item("a", "", &usage), "a pod has no name or namespace"),
        ("no namespace", pod_item("", "bad", &usage), "a pod has no name or namespace"),
        ("another namespace", pod_item("b", "bad", &usage), "pod b/bad is of another namespace"),
        ("twice", pod_item("a", "good", &usage), "pod a/good is there twice"),
        ("no time", with(&|item| item["timestamp"] = json!("yesterday")), "timestamp \"yesterday\" is not a time"),
        ("no window", with(&|item| item["window"] = Value::Null), "window \"\" is not a duration"),
        ("a negative window", with(&|item| item["window"] = json!("-15s")), "window \"-15s\" is not a duration"),
    ] {
        let answer = resource::read_pods(&pods(&[pod_item("a", "good", &usage), item]), Some("a")).unwrap();
        assert_eq!(answer.items.len(), 1, "{name}");
        assert_eq!(answer.refused.count, 1, "{name}");
        let first = answer.refused.first.unwrap();
        assert!(first.contains(want), "{name}: {first}");
    }
}

#[test]
fn an_answer_of_another_kind_is_no_answer() {
    for (name, body) in [
        ("a status", bytes(&json!({"kind": "Status", "status": "Failure"}))),
        ("no JSON", b"<html>".to_vec()),
        (
            "a number that JSON does not have",
            b"{\"kind\":\"PodMetricsList\",\"items\":[{\"metadata\":{},\"x\":NaN}]}".to_vec(),
        ),
        ("nothing", vec![]),
        ("items that are none", bytes(&json!({"kind": "PodMetricsList", "items": 7}))),
    ] {
        let error = resource::read_pods(&body, None).unwrap_err().to_string();
        assert!(error.starts_with("its answer is not a PodMetricsList: "), "{name}: {error}");
    }
    let none = resource::read_pods(&bytes(&json!({"kind": "PodMetricsList", "items": null})), None).unwrap();
    assert_eq!(none, Answer::default(), "Go writes empty lists so");
}

#[test]
fn a_pods_usage_is_the_sum_of_its_containers() {
    let item = json!({
        "metadata": {"namespace": "a", "name": "p"}, "timestamp": "2026-09-21T14:13:20Z", "window": "1m0.5s",
        "containers": [
            {"name": "c", "usage": {"cpu": "100m", "memory": "1Gi"}},
            {"name": "d", "usage": {"cpu": "1500000n"}},
        ],
    });
    let answer = resource::read_pods(&pods(&[item]), None).unwrap();
    let pod = &answer.items[0];
    assert_eq!(pod.milli("cpu"), Some(102), "part of a thousandth is rounded up, as Kubernetes does");
    assert_eq!(pod.milli("memory"), None, "one container lacks it");
    assert_eq!(pod.container("c").unwrap().milli("memory"), Some(1 << 30).map(|bytes: i64| bytes * 1_000));
    assert_eq!(pod.window, Duration::from_millis(60_500));
    let empty = resource::PodSample { containers: vec![], ..(**pod).clone() };
    assert_eq!(empty.milli("cpu"), None);
}

#[test]
fn one_object_is_the_one_that_was_asked_for() {
    let mut pod = pod_item("a", "p", &json!({"cpu": "1"}));
    pod["kind"] = json!("PodMetrics");
    assert_eq!(resource::read_pod(&bytes(&pod), "a", "p").unwrap().name, "p");
    let error = resource::read_pod(&bytes(&pod), "a", "q").unwrap_err().to_string();
    assert_eq!(error, "its answer is not a PodMetrics: it is of pod a/p");
    let node = json!({"metadata": {"name": "n"}, "timestamp": "2026-09-21T14:13:20Z", "window": "15s", "usage": {"cpu": "-1"}});
    let error = resource::read_node(&bytes(&node), "n").unwrap_err().to_string();
    assert!(error.ends_with("node n: usage of cpu: \"-1\" is negative"), "{error}");
}

fn sample(kind: &str, name: &str, milli: i64, second: i64, window: Option<u64>) -> custom::Sample {
    custom::Sample {
        described: custom::Described {
            kind: kind.into(),
            api_version: "v1".into(),
            namespace: "a".into(),
            name: name.into(),
        },
        metric: "m".into(),
        selector: None,
        timestamp: at(second),
        window: window.map(Duration::from_secs),
        value: Amount::from_milli(milli),
    }
}

fn of<T>(cluster: &str, sample: T) -> OfCluster<T> {
    OfCluster { cluster: cluster.into(), sample: Arc::new(sample) }
}

/// specification/autoscaling.md 3.4.
#[test]
fn values_of_one_object_in_several_clusters() {
    let service = |cluster, milli, second, window| of(cluster, sample("Service", "web", milli, second, window));
    let three = [service("c", 30_000, 9, Some(60)), service("a", 10_000, 7, None), service("b", 20_000, 8, Some(15))];
    for (rule, want) in [(custom::Merge::Sum, 60_000), (custom::Merge::Avg, 20_000), (custom::Merge::Max, 30_000)] {
        let combined = custom::combine(&three, rule);
        assert_eq!(combined.len(), 1, "{rule:?}");
        let one = &combined[0];
        assert_eq!(one.sample.value.milli_value(), want, "{rule:?}");
        assert_eq!(one.sample.timestamp, at(7), "the oldest");
        assert_eq!(one.sample.window, Some(Duration::from_secs(60)), "the largest");
        assert_eq!(one.clusters, ["a", "b", "c"].map(Arc::<str>::from));
    }
    let pods = [of("b", sample("Pod", "web-0", 30_000, 1, None)), of("a", sample("Pod", "web-0", 10_000, 1, None))];
    let combined = custom::combine(&pods, custom::Merge::Sum);
    let values: Vec<_> = combined.iter().map(|one| (&*one.clusters[0], one.sample.value.milli_value())).collect();
    assert_eq!(values, [("a", 10_000), ("b", 30_000)], "pods of one name are two pods");
}

#[test]
fn custom_metrics_are_read_in_both_versions() {
    let old = json!({"kind": "MetricValueList", "items": [{
        "describedObject": {"kind": "Pod", "namespace": "a", "name": "p", "apiVersion": "/v1"}, "metricName": "qps",
        "timestamp": "2026-09-21T14:13:20Z", "window": 30, "value": "1500m", "selector": null,
    }]});
    let new = json!({"kind": "MetricValueList", "items": [{
        "describedObject": {"kind": "Pod", "namespace": "a", "name": "p", "apiVersion": "/v1"},
        "metric": {"name": "qps", "selector": null}, "timestamp": "2026-09-21T14:13:20Z", "windowSeconds": 30,
        "value": "1500m",
    }]});
    let [old, new] = [old, new].map(|body| custom::read(&bytes(&body), Some("a"), "qps").unwrap());
    assert_eq!(old, new);
    assert_eq!((new.items[0].value.milli_value(), new.items[0].window), (1_500, Some(Duration::from_secs(30))));
    for (name, change) in [
        ("another metric", json!({"metric": {"name": "other"}})),
        ("no object", json!({"describedObject": {}})),
        ("another namespace", json!({"describedObject": {"kind": "Pod", "namespace": "b", "name": "p"}})),
        ("a negative window", json!({"windowSeconds": -1})),
        ("no number", json!({"value": "NaN"})),
    ] {
        let mut item = json!({
            "describedObject": {"kind": "Pod", "namespace": "a", "name": "p"}, "metric": {"name": "qps"},
            "timestamp": "2026-09-21T14:13:20Z", "value": "1",
        });
        let (item_map, change) = (item.as_object_mut().unwrap(), change.as_object().unwrap().clone());
        item_map.extend(change);
        let body = bytes(&json!({"kind": "MetricValueList", "items": [item]}));
        let answer = custom::read(&body, Some("a"), "qps").unwrap();
        assert_eq!((answer.items.len(), answer.refused.count), (0, 1), "{name}");
    }
    assert_eq!(custom::Version::newest(["v1beta1", "v1", "v1beta2"]), Some(custom::Version::V1Beta2));
    assert_eq!(custom::Version::newest(["v1"]), None);
}

fn series(queue: &str, milli: i64, second: i64) -> external::Sample {
    external::Sample {
        metric: "depth".into(),
        labels: [("queue".to_owned(), queue.to_owned())].into(),
        timestamp: at(second),
        window: None,
        value: Amount::from_milli(milli),
    }
}

/// specification/autoscaling.md 3.5.
#[test]
fn a_queue_that_three_clusters_see_counts_once() {
    use external::Merge;
    let all = [
        of("c", series("orders", 30_000, 5)),
        of("a", series("orders", 25_000, 4)),
        of("b", series("orders", 45_000, 5)),
        of("b", series("mails", 1_000, 1)),
    ];
    let selected = |rule| -> Vec<(String, i64)> {
        let selected = external::select(&all, rule, at(5));
        selected.iter().map(|one| (one.cluster.to_string(), one.sample.value.milli_value())).collect()
    };
    let rows = |rows: &[(&str, i64)]| rows.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>();
    assert_eq!(selected(Merge::Freshest), rows(&[("b", 1_000), ("b", 45_000)]), "of equally fresh ones, by name");
    assert_eq!(selected(Merge::Max), rows(&[("b", 1_000), ("b", 45_000)]));
    assert_eq!(selected(Merge::First), rows(&[("b", 1_000), ("a", 25_000)]));
    let sum = external::select(&all, Merge::Sum, at(5));
    let clusters: Vec<&str> = sum.iter().map(|one| &*one.cluster).collect();
    assert_eq!(clusters, ["b", "a", "b", "c"], "each value with its cluster");
}

#[test]
fn a_clock_that_is_ahead_does_not_decide() {
    let now = 1_000;
    for (name, seconds, want) in [
        ("an hour ahead", [("a", 4_600), ("b", 990)], "b"),
        ("a little ahead, as clocks are", [("a", 1_020), ("b", 990)], "a"),
        ("behind", [("a", 990), ("b", 10)], "a"),
        ("all are ahead: it is the control plane's that is behind", [("a", 4_600), ("b", 4_700)], "b"),
    ] {
        let all = seconds.map(|(cluster, second)| of(cluster, series("orders", 1, second)));
        let selected = external::select(&all, external::Merge::Freshest, at(now));
        assert_eq!(selected.len(), 1);
        assert_eq!(&*selected[0].cluster, want, "{name}");
    }
}

#[test]
fn merge_rules_are_named() {
    assert_eq!(custom::Merge::parse("avg"), Ok(custom::Merge::Avg));
    assert_eq!(custom::Merge::parse("first").unwrap_err(), "\"first\" is none of sum, avg and max");
    assert_eq!(external::Merge::parse("first"), Ok(external::Merge::First));
    assert_eq!(external::Merge::parse("avg").unwrap_err(), "\"avg\" is none of sum, max and first");
}

#[test]
fn answers_are_used_again_until_their_first_measurement_is_as_old_as_its_window() {
    let answer = |measured: &[(i64, Option<u64>)]| Answer {
        items: measured.iter().map(|(second, window)| Arc::new(sample("Pod", "p", 1, *second, *window))).collect(),
        refused: Refused::default(),
    };
    for (name, measured, want) in [
        ("just measured", &[(100, Some(10))][..], 10_000),
        ("some time ago", &[(96, Some(10))], 6_000),
        ("as old as the window", &[(90, Some(10))], 0),
        ("stale", &[(0, Some(10))], 0),
        ("the first to end counts", &[(100, Some(10)), (97, Some(10))], 7_000),
        ("a long window", &[(100, Some(3_600))], 15_000),
        ("a clock that is ahead", &[(5_000, Some(10))], 10_000),
        ("no window", &[(100, None)], 0),
        ("nothing", &[], 0),
    ] {
        assert_eq!(reuse(&answer(measured), at(100)).as_millis(), want, "{name}");
    }
    let mut partial = answer(&[(100, Some(10))]);
    partial.refused.add(|| "x".into());
    assert_eq!(reuse(&partial, at(100)), Duration::ZERO, "an incomplete answer is asked for again");
}

#[test]
fn members_without_an_answer_are_named() {
    let mut partial = Answer { items: vec![Arc::new(1)], refused: Refused::default() };
    partial.refused.add(|| "pod a/b: x".into());
    let merged = Merged::of([
        (Arc::<str>::from("m2"), Err("no answer".to_owned())),
        (Arc::<str>::from("m1"), Ok(Arc::new(partial))),
        (Arc::<str>::from("m0"), Ok(Arc::new(Answer { items: vec![Arc::new(0)], refused: Refused::default() }))),
    ]);
    let items: Vec<_> = merged.items.iter().map(|item| (&*item.cluster, *item.sample)).collect();
    assert_eq!(items, [("m0", 0), ("m1", 1)]);
    assert_eq!(merged.incomplete().as_deref(), Some("m1,m2"));
    assert_eq!(merged.warnings(), ["no metrics of cluster m2: no answer", "1 item of cluster m1 left out: pod a/b: x"]);
    assert_eq!(Merged::<i32>::default().incomplete(), None);
}

proptest! {
    /// A sum does not depend on how objects are divided over clusters, nor on the order of the answers.
    #[test]
    fn sums_are_independent_of_clusters_and_order(
        values in vec((0..4_usize, 0..5_usize, 0..1_000_000_i64), 0..40), seed in 0..1_000_usize,
    ) {
        let samples: Vec<_> = values
            .iter()
            .map(|(object, cluster, milli)| {
                of(&format!("m{cluster}"), sample("Service", &format!("s{object}"), *milli, 0, None))
            })
            .collect();
        let mut rotated = samples.clone();
        if !rotated.is_empty() {
            let by = seed % rotated.len();
            rotated.rotate_left(by);
        }
        let combined = custom::combine(&samples, custom::Merge::Sum);
        let values_of = |combined: &[custom::Combined]| -> Vec<(String, i64)> {
            combined.iter().map(|one| (one.sample.described.name.clone(), one.sample.value.milli_value())).collect()
        };
        prop_assert_eq!(values_of(&combined), values_of(&custom::combine(&rotated, custom::Merge::Sum)));
        let total: i64 = combined.iter().map(|one| one.sample.value.milli_value()).sum();
        prop_assert_eq!(total, values.iter().map(|(_, _, milli)| milli).sum::<i64>());
        for (largest, mean) in custom::combine(&samples, custom::Merge::Max)
            .iter()
            .zip(custom::combine(&samples, custom::Merge::Avg))
        {
            prop_assert!(mean.sample.value <= largest.sample.value);
        }
    }

    /// Each series is handed out once, and its value is one that a cluster reported.
    #[test]
    fn series_are_handed_out_once(
        values in vec((0..4_usize, 0..5_usize, 0..1_000_i64, 0..50_i64), 0..40),
    ) {
        let samples: Vec<_> = values
            .iter()
            .map(|(queue, cluster, milli, second)| {
                of(&format!("m{cluster}"), series(&format!("q{queue}"), *milli, *second))
            })
            .collect();
        for rule in [external::Merge::Freshest, external::Merge::Max, external::Merge::First] {
            let selected = external::select(&samples, rule, at(25));
            let mut queues: Vec<_> = selected.iter().map(|one| one.sample.labels.clone()).collect();
            queues.dedup();
            prop_assert_eq!(queues.len(), selected.len());
            prop_assert!(selected.iter().all(|one| samples.contains(one)));
        }
        prop_assert_eq!(external::select(&samples, external::Merge::Sum, at(25)).len(), samples.len());
    }

    /// No input panics.
    #[test]
    fn no_text_panics(text in "[ -~]{0,200}", quantity in ".{0,40}", time in ".{0,30}", window in ".{0,30}") {
        let _ = resource::read_pods(text.as_bytes(), None);
        let _ = custom::read(text.as_bytes(), None, "m");
        let _ = external::read(text.as_bytes(), "m");
        let item = json!({
            "metadata": {"namespace": "a", "name": "p"}, "timestamp": time, "window": window,
            "containers": [{"name": "c", "usage": {"cpu": quantity}}],
        });
        if let Ok(answer) = resource::read_pods(&pods(&[item]), None) {
            prop_assert_eq!(answer.items.len() + answer.refused.count, 1);
            prop_assert!(answer.items.iter().all(|pod| pod.milli("cpu").is_some_and(|milli| milli >= 0)));
        }
    }
}
