//! Interpreter webhooks, asked from the user's machine (specification/propagation.md 20.2).

use std::{sync::Arc, time::Duration};

use ironclad_interpreter::{
    Interpreter,
    webhook::{self, Call, Called},
};
use ironclad_runtime::{Api, ask_webhook, webhook_client};
use ironclad_seam::Rng;
use k8s_openapi::api::core::v1::Service;
use kube::Client;

/// Time for an answer where the webhook does not say.
const DEADLINE: Duration = Duration::from_secs(10);

/// Asks what an interpreter needed to know in its last run. Returns false if that was nothing.
pub(crate) async fn ask_open(interpreter: &Interpreter, plane: &Client) -> bool {
    let open = interpreter.take_open();
    for call in &open {
        let seconds = call.hook.webhook.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let deadline = seconds.filter(|seconds| *seconds > 0).map_or(DEADLINE, Duration::from_secs);
        let called = tokio::time::timeout(deadline, ask(call, plane)).await;
        let late = || Err(format!("no answer within {} s", deadline.as_secs()));
        interpreter.answer(call, called.unwrap_or_else(|_| late()));
    }
    !open.is_empty()
}

async fn ask(call: &Call, plane: &Client) -> Called {
    let config = &call.hook.webhook.client_config;
    let service = match &config.service {
        Some(reference) => {
            let services: Api<Service> = Api::namespaced(plane.clone(), &reference.namespace);
            services.get_opt(&reference.name).await.map_err(|error| format!("looking up its service: {error}"))?
        }
        None => None,
    };
    let endpoint = webhook::endpoint(config, service.as_ref())?;
    let bundle = config.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice());
    let client = webhook_client(&endpoint.base, endpoint.server_name.as_deref(), bundle, Arc::default())?;
    let uid = Rng::from_system().uuid();
    let question = serde_json::to_vec(&webhook::body(call, &uid)).map_err(|error| error.to_string())?;
    webhook::decode(&ask_webhook(&client, &endpoint.path, question).await?, &uid)
}
