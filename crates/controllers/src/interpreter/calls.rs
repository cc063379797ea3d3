//! Calls of interpreter webhooks. A decision that needs an answer is run again with it: it stays a function of its
//! input (specification/propagation.md 20.2, 31 row 34).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ironclad_api::{config::ResourceInterpreterWebhookConfiguration, events::INTERPRETER_WEBHOOK_FAILED};
use ironclad_fleet::Event;
use ironclad_interpreter::webhook::{self, Call, Called, Endpoint, Hook, breaker::Breaker};
use ironclad_runtime::{Api, Informer, ask_webhook};
use ironclad_seam::Seam;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::reference::reference;
use crate::{backends::Backends, events::Events};

/// Time for an answer where the webhook does not say.
const DEADLINE: Duration = Duration::from_secs(10);
/// Time after which the address of a service is looked up again.
const ADDRESS_AGE_MAX: Duration = Duration::from_secs(60);

/// Clients of interpreter webhooks, and the circuit breaker of each.
pub(super) struct Callers {
    pub(super) seam: Seam,
    pub(super) plane: Client,
    pub(super) backends: Arc<dyn Backends>,
    pub(super) events: Events,
    pub(super) webhooks: Informer<ResourceInterpreterWebhookConfiguration>,
    /// Agents may not read the Services of the control plane, whose addresses mean nothing in a member: the name of a
    /// Service is resolved where the agent runs.
    pub(super) is_agent: bool,
    pub(super) start: Instant,
    pub(super) known: Mutex<BTreeMap<String, Caller>>,
}

pub(super) struct Caller {
    hook: Arc<Hook>,
    breaker: Breaker,
    target: Option<Target>,
}

#[derive(Clone)]
struct Target {
    client: Client,
    path: String,
    resolved: Instant,
}

impl Callers {
    pub(super) async fn call(&self, call: &Call) -> Called {
        let now = self.seam.clock.mono();
        if self.pause(&call.hook, now).is_some() {
            // The same text throughout, so that the events of an object fold into one.
            return Err("it failed too often and is not called for a while: see the events of its configuration".into());
        }
        let seconds = call.hook.webhook.timeout_seconds.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
        let deadline = seconds.map_or(DEADLINE, Duration::from_secs);
        let answer = timeout(deadline, self.send(call));
        let answer = answer.await.unwrap_or_else(|_| Err(format!("no answer within {} s", deadline.as_secs())));
        self.record(&call.hook, &answer);
        let (uid, body) = answer?;
        webhook::decode(&body, &uid)
    }

    /// Returns the answer's body with the id of the question.
    async fn send(&self, call: &Call) -> Result<(String, Vec<u8>), String> {
        let target = self.target(&call.hook).await?;
        let uid = self.seam.rng.uuid();
        let body = serde_json::to_vec(&webhook::body(call, &uid)).map_err(|error| error.to_string())?;
        let body = ask_webhook(&target.client, &target.path, body).await?;
        Ok((uid, body))
    }

    fn pause(&self, hook: &Arc<Hook>, now: Instant) -> Option<Duration> {
        let mut known = self.known.lock();
        let caller = known.entry(hook.key.clone()).or_insert_with(|| Caller {
            hook: hook.clone(),
            breaker: Breaker::default(),
            target: None,
        });
        // A new configuration gets a new chance.
        if caller.hook != *hook {
            *caller = Caller { hook: hook.clone(), breaker: Breaker::default(), target: None };
        }
        caller.breaker.pause(now - self.start)
    }

    fn record<T>(&self, hook: &Arc<Hook>, answer: &Result<T, String>) {
        let begins = {
            let mut known = self.known.lock();
            let Some(caller) = known.get_mut(&hook.key) else { return };
            if answer.is_err() {
                caller.target = None;
            }
            caller.breaker.record(answer.is_ok(), self.seam.clock.mono() - self.start)
        };
        let owner = hook.key.split('/').next().and_then(|name| self.webhooks.get("", name));
        if let (Err(message), Some(owner), true) = (answer, owner, begins) {
            tracing::warn!(webhook = %hook.key, %message, "an interpreter webhook is left alone for a while");
            let message = format!("webhook {} is left alone for a while: {message}", hook.webhook.name);
            self.events.record(&Event::warning(reference(&*owner), INTERPRETER_WEBHOOK_FAILED, message));
        }
    }

    async fn target(&self, hook: &Arc<Hook>) -> Result<Target, String> {
        let now = self.seam.clock.mono();
        let known = self.known.lock().get(&hook.key).and_then(|caller| caller.target.clone());
        if let Some(target) = known.filter(|target| now - target.resolved < ADDRESS_AGE_MAX) {
            return Ok(target);
        }
        let endpoint = self.endpoint(hook).await?;
        let bundle = hook.webhook.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice());
        let client = self.backends.webhook(&endpoint, bundle)?;
        let target = Target { client, path: endpoint.path, resolved: now };
        if let Some(caller) = self.known.lock().get_mut(&hook.key) {
            caller.target = Some(target.clone());
        }
        Ok(target)
    }

    async fn endpoint(&self, hook: &Hook) -> Result<Endpoint, String> {
        let config = &hook.webhook.client_config;
        let service = match &config.service {
            Some(reference) if !self.is_agent => {
                let api: Api<Service> = Api::namespaced(self.plane.clone(), &reference.namespace);
                api.get_opt(&reference.name).await.map_err(|error| format!("looking up its service: {error}"))?
            }
            _ => None,
        };
        webhook::endpoint(config, service.as_ref())
    }
}
