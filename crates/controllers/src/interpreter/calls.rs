//! Calls of interpreter webhooks. A decision that needs one is run again with the answer: it stays a function of what it is
//! given (propagation.md 20.2, 31 row 34).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use ironclad_api::events;
use ironclad_fleet::Event;
use ironclad_interpreter::{
    Interpreter,
    webhook::{self, Call, Called, Endpoint, Hook, breaker::Breaker},
};
use ironclad_runtime::Next;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client, client::Body};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::Context;

/// How long an answer may take where the webhook doesn't say.
const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Calls of one decision at once.
const AT_ONCE: usize = 8;
/// Rounds of one decision. Each answers what the one before left open: one that doesn't end asks something new each time.
const ROUNDS_MAX: usize = 64;
/// How long the address of a service is believed.
const ADDRESS_AGE_MAX: Duration = Duration::from_secs(60);

/// A plan, and whether a call that it needed failed.
pub(crate) struct Settled<T> {
    pub(crate) plan: T,
    pub(crate) retry: Retry,
}

/// Whether to look again because a webhook may answer then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry(bool);

impl Retry {
    /// What comes after a pass that would otherwise be followed by `next`.
    pub(crate) fn next(self, next: Next) -> Next {
        match next {
            Next::Forget if self.0 => Next::Retry,
            next => next,
        }
    }
}

impl Context {
    /// Runs a decision over this interpreter until nothing that it asks of webhooks is open. Without webhooks that is once,
    /// and without waiting.
    pub(crate) async fn settle<T>(&self, interpreter: &Interpreter, mut decide: impl FnMut() -> T) -> Settled<T> {
        let mut failed = false;
        for _ in 0..ROUNDS_MAX {
            let plan = decide();
            let open = interpreter.take_open();
            if open.is_empty() {
                return Settled { plan, retry: Retry(failed) };
            }
            let calls = open.into_iter().map(|call| async {
                let called = self.interpreters.callers.call(self, &call).await;
                (call, called)
            });
            let mut calls = stream::iter(calls).buffered(AT_ONCE);
            while let Some((call, called)) = calls.next().await {
                failed |= called.is_err();
                interpreter.answer(&call, called);
            }
        }
        Settled { plan: decide(), retry: Retry(true) }
    }
}

/// How each webhook is reached, and how it has fared.
pub(super) struct Callers {
    start: Instant,
    known: Mutex<BTreeMap<String, Caller>>,
}

struct Caller {
    hook: Arc<Hook>,
    breaker: Breaker,
    way: Option<Way>,
}

#[derive(Clone)]
struct Way {
    client: Client,
    path: String,
    found: Instant,
}

impl Callers {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, known: Mutex::default() }
    }

    async fn call(&self, cx: &Context, call: &Call) -> Called {
        let now = cx.seam.clock.mono();
        if let Some(left) = self.pause(&call.hook, now) {
            return Err(format!("it failed too often and is left alone for {} s more", left.as_secs() + 1));
        }
        let seconds = call.hook.webhook.timeout_seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
        let deadline = seconds.map_or(DEADLINE, Duration::from_secs);
        let answer = timeout(deadline, self.ask(cx, call));
        let said = answer.await.unwrap_or_else(|_| Err(format!("no answer within {} s", deadline.as_secs())));
        self.told(cx, &call.hook, &said);
        let (uid, body) = said?;
        webhook::decode(&body, &uid)
    }

    /// The answer's body, and the id of the question.
    async fn ask(&self, cx: &Context, call: &Call) -> Result<(String, Vec<u8>), String> {
        let way = self.way(cx, &call.hook).await?;
        let uid = cx.seam.rng.uuid();
        let body = serde_json::to_vec(&webhook::body(call, &uid)).map_err(|error| error.to_string())?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(&way.path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .map_err(|error| error.to_string())?;
        let response = way.client.send(request).await.map_err(|error| told(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("its answer: {error}"))?.to_bytes();
        if !status.is_success() {
            let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
            return Err(format!("it answered {status}: {}", text.trim()));
        }
        Ok((uid, body.to_vec()))
    }

    fn pause(&self, hook: &Arc<Hook>, now: Instant) -> Option<Duration> {
        let mut known = self.known.lock();
        let caller = known.entry(hook.key.clone()).or_insert_with(|| Caller {
            hook: hook.clone(),
            breaker: Breaker::default(),
            way: None,
        });
        // Another configuration is another chance.
        if caller.hook != *hook {
            *caller = Caller { hook: hook.clone(), breaker: Breaker::default(), way: None };
        }
        caller.breaker.pause(now - self.start)
    }

    fn told<T>(&self, cx: &Context, hook: &Arc<Hook>, said: &Result<T, String>) {
        let begins = {
            let mut known = self.known.lock();
            let Some(caller) = known.get_mut(&hook.key) else { return };
            if said.is_err() {
                caller.way = None;
            }
            caller.breaker.record(said.is_ok(), cx.seam.clock.mono() - self.start)
        };
        let owner = hook.key.split('/').next().and_then(|name| cx.interpreters.webhooks.get("", name));
        if let (Err(message), Some(owner), true) = (said, owner, begins) {
            tracing::warn!(webhook = %hook.key, %message, "an interpreter webhook is left alone for a while");
            let message = format!("webhook {} is left alone for a while: {message}", hook.webhook.name);
            cx.emit(&Event::warning(super::reference(&*owner), events::INTERPRETER_WEBHOOK_FAILED, message));
        }
    }

    async fn way(&self, cx: &Context, hook: &Arc<Hook>) -> Result<Way, String> {
        let now = cx.seam.clock.mono();
        let known = self.known.lock().get(&hook.key).and_then(|caller| caller.way.clone());
        if let Some(way) = known.filter(|way| now - way.found < ADDRESS_AGE_MAX) {
            return Ok(way);
        }
        let endpoint = self.endpoint(cx, hook).await?;
        let bundle = hook.webhook.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice());
        let client = cx.connector.webhook(&endpoint, bundle)?;
        let way = Way { client, path: endpoint.path, found: now };
        if let Some(caller) = self.known.lock().get_mut(&hook.key) {
            caller.way = Some(way.clone());
        }
        Ok(way)
    }

    async fn endpoint(&self, cx: &Context, hook: &Hook) -> Result<Endpoint, String> {
        let config = &hook.webhook.client_config;
        let service = match &config.service {
            None => None,
            Some(reference) => {
                let api: Api<Service> = Api::namespaced(cx.plane.clone(), &reference.namespace);
                api.get_opt(&reference.name).await.map_err(|error| format!("looking up its service: {error}"))?
            }
        };
        webhook::endpoint(config, service.as_ref())
    }
}

/// An error with its causes: the outer one of a client says only that it failed.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
