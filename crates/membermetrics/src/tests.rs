use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use ironclad_seam::Clock;
use jiff::Timestamp;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;

/// A member that answers as `answer` says and records the paths of its requests.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    fn paths(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

/// Status and body for a path.
type Answer = dyn Fn(&str) -> (u16, Vec<u8>) + Send + Sync;

/// The behaviour of a member.
#[derive(Clone)]
enum Behaviour {
    Answers(Arc<Answer>),
    Hangs,
    /// The head of the answer comes, the body never ends.
    HangsInTheBody,
    Refuses,
}

fn answers(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + Sync + 'static) -> Behaviour {
    Behaviour::Answers(Arc::new(answer))
}

fn json_of(value: &Value) -> (u16, Vec<u8>) {
    (200, serde_json::to_vec(value).unwrap())
}

fn whole(bytes: Vec<u8>) -> UnsyncBoxBody<Bytes, BoxError> {
    Full::new(Bytes::from(bytes)).map_err(BoxError::from).boxed_unsync()
}

fn member(name: &str, behaviour: Behaviour) -> (Member, Asked) {
    let asked = Asked::default();
    let log = asked.clone();
    let service = service_fn(move |request: Request<Body>| {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        log.0.lock().push(path.clone());
        let behaviour = behaviour.clone();
        async move {
            let body = match behaviour {
                Behaviour::Answers(answer) => {
                    let (code, bytes) = answer(&path);
                    return Ok(Response::builder().status(code).body(whole(bytes))?);
                }
                Behaviour::Hangs => pending().await,
                Behaviour::Refuses => return Err(BoxError::from("connection refused")),
                Behaviour::HangsInTheBody => {
                    let frames = futures::stream::pending::<Result<http_body::Frame<Bytes>, BoxError>>();
                    StreamBody::new(frames).boxed_unsync()
                }
            };
            Ok::<_, BoxError>(Response::new(body))
        }
    });
    (Member { name: name.into(), client: Ok(Client::new(service, "default")) }, asked)
}

fn clock() -> Clock {
    Clock::simulated(Timestamp::from_second(1_790_000_000).unwrap())
}

fn metrics(options: Options) -> MemberMetrics {
    MemberMetrics::new(clock(), options)
}

fn pod_list(now: Timestamp, names: &[&str]) -> (u16, Vec<u8>) {
    let pod = |name: &&str| {
        json!({
            "metadata": {"namespace": "a", "name": name}, "timestamp": now.to_string(), "window": "10s",
            "containers": [{"name": "c", "usage": {"cpu": "100m"}}],
        })
    };
    json_of(&json!({"kind": "PodMetricsList", "items": names.iter().map(pod).collect::<Vec<_>>()}))
}

fn serves_pods(clock: &Clock) -> Behaviour {
    let clock = clock.clone();
    answers(move |_| pod_list(clock.wall(), &["p"]))
}

#[tokio::test(start_paused = true)]
async fn a_member_that_does_not_answer_costs_its_own_answer_only_and_is_named() {
    let clock = clock();
    let metrics = MemberMetrics::new(clock.clone(), Options { answer_bytes_max: 1_000_000, ..Options::default() });
    let huge = answers(|_| (200, vec![b' '; 2_000_000]));
    let lies = answers(|_| json_of(&json!({"kind": "PodMetricsList", "items": [{"metadata": {"name": "x"}}]})));
    let behaviours = [
        ("answers", serves_pods(&clock)),
        ("denies", answers(|_| (403, br#"{"kind":"Status","message":"no\n way"}"#.to_vec()))),
        ("hangs", Behaviour::Hangs),
        ("huge", huge),
        ("lacks", answers(|_| (404, b"404 page not found".to_vec()))),
        ("lies", lies),
        ("raves", answers(|_| (200, b"<html>".to_vec()))),
        ("refuses", Behaviour::Refuses),
        ("trickles", Behaviour::HangsInTheBody),
    ];
    let mut members: Vec<Member> = behaviours.into_iter().map(|(name, how)| member(name, how).0).collect();
    members.push(Member { name: "unready".into(), client: Err("the cluster is not ready".into()) });
    let began = clock.mono();
    let merged = metrics.pods(&members, Some("a"), None).await;
    assert_eq!(clock.mono() - began, Duration::from_secs(3), "all are asked at the same time, until the deadline");
    let found: Vec<_> = merged.items.iter().map(|item| (&*item.cluster, item.sample.name.as_str())).collect();
    assert_eq!(found, [("answers", "p")]);
    let failed: Vec<_> = merged.failed.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let want = [
        "denies: it answered 403: no way",
        "hangs: no answer within 3s",
        "huge: its answer is larger than 1000000 bytes",
        "lacks: it serves no metrics.k8s.io",
        "raves: its answer is not a PodMetricsList: expected value at line 1 column 1",
        "refuses: connection refused",
        "trickles: no answer within 3s",
        "unready: the cluster is not ready",
    ];
    assert_eq!(failed, want);
    assert_eq!(merged.refused.keys().map(|name| &**name).collect::<Vec<_>>(), ["lies"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_used_again_within_its_window_and_a_silent_member_is_left_alone() {
    let clock = clock();
    let metrics = MemberMetrics::new(clock.clone(), Options::default());
    let ((good, of_good), (dead, of_dead)) = (member("good", serves_pods(&clock)), member("dead", Behaviour::Refuses));
    let members = [good, dead];
    let both = futures::future::join(
        metrics.pods(&members, Some("a"), Some("app=web")),
        metrics.pods(&members, Some("a"), Some("app=web")),
    );
    let (first, second) = both.await;
    assert_eq!(first, second);
    let path = "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods?labelSelector=app%3Dweb";
    assert_eq!(of_good.paths(), [path], "the same request is not sent twice at a time");
    assert_eq!(of_dead.paths().len(), 1);
    clock.sleep(Duration::from_secs(4)).await;
    let again = metrics.pods(&members, Some("a"), Some("app=web")).await;
    assert_eq!(again.failed, first.failed);
    assert_eq!((of_good.paths().len(), of_dead.paths().len()), (1, 1), "neither is asked");
    clock.sleep(Duration::from_secs(2)).await;
    metrics.pods(&members, Some("a"), Some("app=web")).await;
    assert_eq!((of_good.paths().len(), of_dead.paths().len()), (1, 2), "the dead one is tried again");
    metrics.pods(&members, Some("a"), Some("app=other")).await;
    assert_eq!(of_good.paths().len(), 2, "another request is another answer");
    clock.sleep(Duration::from_secs(5)).await;
    metrics.pods(&members, Some("a"), Some("app=web")).await;
    assert_eq!(of_good.paths().len(), 3, "the window of 10 s has ended");
}

/// The samples of the metrics whose names contain this.
fn shown(metrics: &MemberMetrics, part: &str) -> Vec<String> {
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(metrics.observed()));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let samples = text.lines().filter(|line| !line.starts_with('#') && line.contains(part));
    let mut samples: Vec<String> =
        samples.map(|line| line.trim_start_matches("ironclad_metrics_adapter_").to_owned()).collect();
    samples.sort();
    samples
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_how_they_ended_and_answers_by_their_origin() {
    let clock = clock();
    let metrics = MemberMetrics::new(clock.clone(), Options { qps: 1.0, burst: 1, ..Options::default() });
    let behaviours = [
        ("answers", serves_pods(&clock)),
        ("denies", answers(|_| (403, vec![]))),
        ("hangs", Behaviour::Hangs),
        ("lacks", answers(|_| (404, vec![]))),
        ("raves", answers(|_| (200, b"<html>".to_vec()))),
    ];
    let members: Vec<Member> = behaviours.into_iter().map(|(name, how)| member(name, how).0).collect();
    for _ in 0..2 {
        metrics.pods(&members, Some("a"), None).await;
    }
    let other = &members[..1];
    // One request per second, and nobody waits for more than three.
    let many = (0..6).map(|n| format!("p{n}")).collect::<Vec<_>>();
    futures::future::join_all(many.iter().map(|name| metrics.pod(other, "a", name))).await;
    let want = [
        "member_requests_total{result=\"left_alone\"} 1",
        "member_requests_total{result=\"no_answer\"} 1",
        "member_requests_total{result=\"not_found\"} 2",
        "member_requests_total{result=\"refused\"} 2",
        "member_requests_total{result=\"throttled\"} 2",
        "member_requests_total{result=\"unreadable\"} 6",
    ];
    let got: Vec<String> =
        shown(&metrics, "requests_total").into_iter().filter(|line| !line.contains("success")).collect();
    assert_eq!(got, want);
    assert_eq!(shown(&metrics, "requests_total{result=\"success\"}"), ["member_requests_total{result=\"success\"} 1"]);
    let both = futures::future::join(metrics.pods(other, Some("b"), None), metrics.pods(other, Some("b"), None));
    both.await;
    let origins = shown(&metrics, "answers_total");
    assert!(origins.contains(&"answers_total{origin=\"cache\"} 1".to_owned()), "{origins:?}");
    assert!(origins.contains(&"answers_total{origin=\"pending\"} 1".to_owned()), "{origins:?}");
    assert_eq!(shown(&metrics, "seconds_count").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_member_of_which_many_different_pods_are_asked_is_asked_for_all_at_once() {
    let clock = clock();
    let metrics = MemberMetrics::new(clock.clone(), Options { qps: 0.0, ..Options::default() });
    let now = clock.clone();
    let pods = answers(move |path| {
        let wanted = path.split_once("app%3Dw").map(|(_, number)| number.to_owned());
        let pod = |number: usize| {
            json!({
                "metadata": {"namespace": "a", "name": format!("p{number}"), "labels": {"app": format!("w{number}")}},
                "timestamp": now.wall().to_string(), "window": "15s",
                "containers": [{"name": "c", "usage": {"cpu": "1"}}],
            })
        };
        let all = (0..100).filter(|number| wanted.as_ref().is_none_or(|wanted| *wanted == number.to_string()));
        json_of(&json!({"kind": "PodMetricsList", "items": all.map(pod).collect::<Vec<_>>()}))
    });
    let (one, asked) = member("one", pods);
    for round in 0..3 {
        for number in 0..100 {
            let labels = format!("app=w{number}");
            let merged = metrics.pods(std::slice::from_ref(&one), Some("a"), Some(&labels)).await;
            let names: Vec<_> = merged.items.iter().map(|item| item.sample.name.clone()).collect();
            assert_eq!(names, [format!("p{number}")], "round {round}");
        }
        clock.sleep(Duration::from_secs(15)).await;
    }
    // 31 of the first round are single requests; from then on there is one for all in each window.
    assert_eq!(asked.paths().len(), 31 + 3);
    let other = metrics.pods(&[one], Some("b"), Some("app=w1")).await;
    assert!(other.items.is_empty(), "of another namespace");
}

#[tokio::test(start_paused = true)]
async fn each_member_has_a_rate_of_its_own() {
    let options = Options { qps: 2.0, burst: 3, ..Options::default() };
    let metrics = metrics(options);
    let (one, asked) = member("one", answers(|_| (404, vec![])));
    let (other, of_other) = member("other", answers(|_| (404, vec![])));
    let began = clock().mono();
    let names: Vec<String> = (0..12).map(|number| format!("p{number}")).collect();
    let members = [one];
    let all = names.iter().map(|name| metrics.pod(&members, "a", name));
    let answers = futures::future::join_all(all).await;
    assert!(clock().mono() - began <= Duration::from_secs(3), "nobody waits longer than the deadline");
    let refused = answers.iter().filter(|merged| !merged.failed.is_empty()).count();
    // Three at once, and two in each of the three seconds.
    assert_eq!((asked.paths().len(), refused), (9, 3));
    let why = answers.iter().find_map(|merged| merged.failed.values().next()).unwrap();
    assert_eq!(why, "more than 2 requests per second are asked of it (--cluster-api-qps)");
    metrics.pod(&[other], "a", "p0").await;
    assert_eq!(of_other.paths().len(), 1);
}

fn serves_custom(versions: &'static [&'static str]) -> Behaviour {
    answers(move |path| match path {
        "/apis/custom.metrics.k8s.io" if versions.is_empty() => (404, vec![]),
        "/apis/custom.metrics.k8s.io" => {
            let versions: Vec<Value> = versions.iter().map(|version| json!({"version": version})).collect();
            json_of(&json!({"kind": "APIGroup", "versions": versions}))
        }
        path if path.ends_with("/v1beta1") || path.ends_with("/v1beta2") => json_of(&json!({"resources": [
            {"name": "pods/qps", "namespaced": true}, {"name": "services/hits", "namespaced": true},
        ]})),
        path if path.ends_with("/pods/*/qps") => {
            let object = json!({"kind": "Pod", "namespace": "a", "name": "p", "apiVersion": "/v1"});
            let value = match path.contains("v1beta2") {
                true => json!({"metric": {"name": "qps"}, "describedObject": object, "value": "2",
                    "timestamp": "2026-09-21T14:13:20Z"}),
                false => json!({"metricName": "qps", "describedObject": object, "value": "2",
                    "timestamp": "2026-09-21T14:13:20Z"}),
            };
            json_of(&json!({"kind": "MetricValueList", "items": [value]}))
        }
        _ => (404, vec![]),
    })
}

#[tokio::test(start_paused = true)]
async fn each_member_is_asked_in_the_newest_version_that_it_serves() {
    let clock = clock();
    let metrics = MemberMetrics::new(clock.clone(), Options::default());
    let ((new, of_new), (old, of_old), (none, of_none)) = (
        member("new", serves_custom(&["v1beta1", "v1beta2"])),
        member("old", serves_custom(&["v1beta1"])),
        member("none", serves_custom(&[])),
    );
    let members = [new, old, none];
    let query = CustomQuery {
        namespace: Some("a".into()),
        resource: "pods".into(),
        name: None,
        labels: None,
        metric: "qps".into(),
        metric_labels: None,
    };
    let merged = metrics.custom(&members, &query).await;
    assert_eq!((merged.items.len(), merged.failed.len()), (2, 0), "a member without the API has no values");
    let group = "/apis/custom.metrics.k8s.io";
    assert_eq!(of_new.paths(), [group.to_owned(), format!("{group}/v1beta2/namespaces/a/pods/*/qps")]);
    assert_eq!(of_old.paths(), [group.to_owned(), format!("{group}/v1beta1/namespaces/a/pods/*/qps")]);
    clock.sleep(Duration::from_secs(59)).await;
    metrics.custom(&members, &query).await;
    assert_eq!(of_none.paths(), [group], "its lack of the API is remembered");
    assert_eq!(of_new.paths().len(), 3);
    clock.sleep(Duration::from_secs(2)).await;
    metrics.custom(&members, &query).await;
    assert_eq!(of_none.paths(), [group, group]);
    let listed = metrics.custom_metrics(&members).await;
    let names: Vec<_> = listed.all.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["pods/qps", "services/hits"], "each once");
    let root = CustomQuery { namespace: None, resource: "namespaces".into(), name: Some("a".into()), ..query };
    metrics.custom(&members, &root).await;
    assert!(of_new.paths().contains(&format!("{group}/v1beta2/namespaces/a/metrics/qps")));
}

#[tokio::test(start_paused = true)]
async fn external_metrics_are_asked_where_they_are_served() {
    let clock = clock();
    let metrics = MemberMetrics::new(clock.clone(), Options::default());
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let serves = answers(move |path| match path {
        "/apis/external.metrics.k8s.io" => json_of(&json!({"versions": [{"version": "v1beta1"}]})),
        _ => {
            counted.fetch_add(1, Ordering::Relaxed);
            json_of(&json!({"kind": "ExternalMetricValueList", "items": [
                {"metricName": "depth", "metricLabels": {"queue": "q"}, "value": "7", "timestamp": "2026-09-21T14:13:20Z"},
            ]}))
        }
    });
    let ((one, asked), (other, of_other)) = (member("one", serves), member("other", answers(|_| (404, vec![]))));
    let query = ExternalQuery { namespace: "a".into(), metric: "depth".into(), labels: Some("queue=q".into()) };
    for round in 1..=2 {
        let merged = metrics.external(&[one.clone(), other.clone()], &query).await;
        assert_eq!(merged.items.len(), 1);
        assert_eq!(calls.load(Ordering::Relaxed), round, "values without a window are asked for each time");
    }
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/a/depth?labelSelector=queue%3Dq";
    assert_eq!(asked.paths()[1], path);
    assert_eq!(of_other.paths().len(), 1);
}
