use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use ironclad_interpreter::{Health, webhook::Endpoint};
use ironclad_runtime::{Caches, Next, Scope, Traffic, in_process_client};
use ironclad_seam::{Clock, Rng, Tasks};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use prometheus_client::registry::Registry;

use crate::{Backends, Settings};

/// A webhook in this process, and the number of its calls.
struct Hooks {
    /// Address at which it is expected to be.
    base: &'static str,
    asked: Arc<AtomicUsize>,
    answer: fn(Value) -> Reply,
}

/// Reply of the webhook.
enum Reply {
    Says(StatusCode, Vec<u8>),
    Hangs,
}

impl Backends for Hooks {
    fn webhook(&self, endpoint: &Endpoint, _: Option<&[u8]>) -> Result<Client, String> {
        assert_eq!((endpoint.base.as_str(), endpoint.path.as_str()), (self.base, "/ask"));
        let (asked, answer) = (self.asked.clone(), self.answer);
        let service = service_fn(move |request: http::Request<Body>| {
            asked.fetch_add(1, Relaxed);
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let question: Value = serde_json::from_slice(&body).unwrap();
                match answer(question["request"].clone()) {
                    Reply::Says(status, body) => {
                        Ok::<_, kube::Error>(Response::builder().status(status).body(Body::from(body)).unwrap())
                    }
                    Reply::Hangs => std::future::pending().await,
                }
            }
        });
        Ok(in_process_client(service, Arc::new(Traffic::default())))
    }
}

fn says(question: &Value, mut response: Value) -> Reply {
    response["uid"] = question["uid"].clone();
    let context =
        json!({"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterContext", "response": response});
    Reply::Says(StatusCode::OK, context.to_string().into_bytes())
}

fn configuration(timeout_seconds: Option<i32>) -> ResourceInterpreterWebhookConfiguration {
    serde_json::from_value(json!({
        "metadata": {"name": "farms"},
        "webhooks": [{
            "name": "farms.example.com",
            "clientConfig": {"url": "https://hooks.example.com/ask"},
            "rules": [{"operations": ["InterpretHealth"], "apiGroups": ["farm.io"], "apiVersions": ["v1"], "kinds": ["Farm"]}],
            "timeoutSeconds": timeout_seconds,
            "interpreterContextVersions": ["v1alpha1"],
        }],
    }))
    .unwrap()
}

/// Sources with one webhook over a control plane that answers nothing, and the number of the webhook's calls.
fn sources(timeout_seconds: Option<i32>, answer: fn(Value) -> Reply) -> (Arc<Interpreters>, Arc<AtomicUsize>) {
    let base = "https://hooks.example.com";
    sources_of(&Settings::default(), &configuration(timeout_seconds), (base, 404), answer)
}

/// The same in a process with these settings, for a webhook that is expected at this address, over a control plane
/// that answers everything with this status.
fn sources_of(
    settings: &Settings,
    configuration: &ResourceInterpreterWebhookConfiguration,
    (base, status): (&'static str, u16),
    answer: fn(Value) -> Reply,
) -> (Arc<Interpreters>, Arc<AtomicUsize>) {
    let seam =
        Seam { clock: Clock::simulated(Timestamp::UNIX_EPOCH), rng: Rng::from_seed(1), tasks: Tasks::new("test") };
    let nobody = service_fn(move |_: http::Request<Body>| async move {
        Ok::<_, kube::Error>(Response::builder().status(status).body(Body::empty()).unwrap())
    });
    let plane = in_process_client(nobody, Arc::new(Traffic::default()));
    let asked = Arc::new(AtomicUsize::new(0));
    let backends: Arc<dyn Backends> = Arc::new(Hooks { base, asked: asked.clone(), answer });
    let (events, metrics) =
        (Events::new(plane.clone(), &seam, settings), InterpreterMetrics::register(&mut Registry::default()));
    let mapper = Arc::new(Mapper::new(plane.clone(), seam.clock.clone()));
    let caches = Caches::new(Scope::All, &seam);
    let sources = Interpreters::follow(&seam, (&plane, &mapper), &backends, &caches, &events, &metrics, settings);
    sources.set_webhooks(Webhooks::new([configuration]));
    (sources, asked)
}

fn farm() -> Value {
    json!({"apiVersion": "farm.io/v1", "kind": "Farm", "metadata": {"name": "f"}})
}

/// The result of a decision that asks for health, and its next step.
async fn verdict(sources: &Interpreters, object: &Value) -> (Result<Option<Health>, String>, Next) {
    let interpreter = sources.for_a_decision();
    let settled = sources.resolve(&interpreter, || interpreter.health(object).map_err(|error| error.to_string())).await;
    (settled.plan, settled.retry.next(Next::Forget))
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_called_once_for_each_question_of_a_decision() {
    let (sources, asked) =
        sources(None, |question| says(&question, json!({"successful": true, "healthy": question["name"] == "f"})));
    let (object, mut other) = (farm(), farm());
    other["metadata"]["name"] = json!("g");
    let interpreter = sources.for_a_decision();
    let mut runs = 0;
    let settled = sources
        .resolve(&interpreter, || {
            runs += 1;
            let ask = |object| interpreter.health(object).ok().flatten();
            (ask(&object), ask(&other), ask(&object))
        })
        .await;
    assert_eq!(settled.plan, (Some(Health::Healthy), Some(Health::Unhealthy), Some(Health::Healthy)));
    assert_eq!((runs, asked.load(Relaxed)), (2, 2), "two questions, both open after the first run");
    assert_eq!(verdict(&sources, &object).await, (Ok(Some(Health::Healthy)), Next::Forget));
    assert_eq!(asked.load(Relaxed), 3, "another decision asks anew");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_hangs_times_out() {
    for (timeout_seconds, want) in [(None, 10), (Some(2), 2)] {
        let (sources, _) = sources(timeout_seconds, |_| Reply::Hangs);
        let before = Clock::system().mono();
        let message =
            format!("interpreter webhook farms/farms.example.com: InterpretHealth: no answer within {want} s");
        assert_eq!(verdict(&sources, &farm()).await, (Err(message), Next::Retry));
        assert_eq!((Clock::system().mono() - before).as_secs(), want);
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_answer_is_an_error() {
    type Answer = fn(Value) -> Reply;
    let rows: [(Answer, &str); 5] = [
        (
            |_| Reply::Says(StatusCode::INTERNAL_SERVER_ERROR, b"out of rain\n".to_vec()),
            "it answered 500 Internal Server Error: out of rain",
        ),
        (
            |_| Reply::Says(StatusCode::OK, b"yes".to_vec()),
            "its answer is not a ResourceInterpreterContext: expected value at line 1 column 1",
        ),
        (
            |question| {
                says(
                    &json!({"uid": format!("{}x", question["uid"].as_str().unwrap())}),
                    json!({"successful": true, "healthy": true}),
                )
            },
            "its answer has uid ",
        ),
        (
            |question| says(&question, json!({"successful": false, "status": {"code": 403, "message": "no"}})),
            "it answered 403: no",
        ),
        (|_| Reply::Says(StatusCode::OK, vec![b' '; 5 * 1024 * 1024]), "its answer: length limit exceeded"),
    ];
    for (answer, want) in rows {
        let (sources, _) = sources(None, answer);
        let (said, _) = verdict(&sources, &farm()).await;
        let said = said.unwrap_err();
        assert!(
            said.starts_with(&format!("interpreter webhook farms/farms.example.com: InterpretHealth: {want}")),
            "{said}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_fails_repeatedly_is_not_called_for_a_while() {
    let (sources, asked) = sources(None, |_| Reply::Says(StatusCode::SERVICE_UNAVAILABLE, Vec::new()));
    for _ in 0..3 {
        assert!(verdict(&sources, &farm()).await.0.is_err());
    }
    let (said, next) = verdict(&sources, &farm()).await;
    assert_eq!(
        (said.unwrap_err().as_str(), next),
        (
            "interpreter webhook farms/farms.example.com: InterpretHealth: it failed too often and is not called for a while: see the events of its configuration",
            Next::Retry
        )
    );
    assert_eq!(asked.load(Relaxed), 3);
    Clock::system().sleep(Duration::from_secs(11)).await;
    assert!(verdict(&sources, &farm()).await.0.is_err());
    assert_eq!(asked.load(Relaxed), 4, "then it is tried again");
}

#[tokio::test(start_paused = true)]
async fn an_agent_calls_a_service_by_its_name() {
    let mut by_service = configuration(None);
    let reference = json!({"service": {"name": "hooks", "namespace": "farm", "path": "/ask"}});
    by_service.webhooks[0].client_config = serde_json::from_value(reference).unwrap();
    let answer: fn(Value) -> Reply = |question| says(&question, json!({"successful": true, "healthy": true}));
    let agent = Settings { agent_of: Some("m1".into()), ..Settings::default() };
    let (sources, asked) = sources_of(&agent, &by_service, ("https://hooks.farm.svc:443", 403), answer);
    assert_eq!(verdict(&sources, &farm()).await.0, Ok(Some(Health::Healthy)));
    assert_eq!(asked.load(Relaxed), 1);
    // The control plane looks it up.
    let (sources, asked) = sources_of(&Settings::default(), &by_service, ("", 403), answer);
    let refused = verdict(&sources, &farm()).await.0.unwrap_err();
    assert!(refused.contains("looking up its service") && asked.load(Relaxed) == 0, "{refused}");
}
