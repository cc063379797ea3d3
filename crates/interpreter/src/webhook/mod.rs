//! Interpreter webhooks: selection, request and answer (specification/propagation.md 20.2). The reconciler makes the
//! calls.
//!
//! A rule that needs a webhook's answer does not wait for it: it records the call as open and fails with `Open`. The
//! reconciler makes the open calls, stores their outcomes, and runs the decision again, until a run leaves no call
//! open.

pub mod breaker;
mod endpoint;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use ironclad_api::config::{
    GroupVersionKind, JSON_PATCH, ResourceInterpreterContext, ResourceInterpreterRequest, ResourceInterpreterResponse,
    ResourceInterpreterWebhook, ResourceInterpreterWebhookConfiguration, operations,
};
use ironclad_api::{JsonText, work::AggregatedStatusItem};
use serde_json::Value;

use crate::{
    Answer, Dependency, Health, InterpretError, Operation, Question, Replicas, Reply, Source, checked_components,
    checked_replicas, lens, question::checked_object,
};

pub use self::endpoint::{Endpoint, endpoint};

/// Version of the context that is sent.
pub const CONTEXT_VERSION: &str = "v1alpha1";

/// A webhook of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// `<configuration>/<name>`, by which webhooks are ordered.
    pub key: String,
    pub webhook: ResourceInterpreterWebhook,
}

/// A question to a webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The webhook.
    pub hook: Arc<Hook>,
    /// The request without a `uid`: the caller draws one ([`body`], [`decode`]).
    pub request: ResourceInterpreterRequest,
}

/// Outcome of a call: the response, or the error.
pub type Called = Result<ResourceInterpreterResponse, String>;

/// The webhooks of all configurations, in the order of their keys. The first that matches is called.
#[derive(Debug, Default)]
pub struct Webhooks(Vec<Arc<Hook>>);

impl Webhooks {
    /// The webhooks of these configurations. Webhooks that do not support [`CONTEXT_VERSION`] are omitted.
    #[must_use]
    pub fn new<'a>(configurations: impl IntoIterator<Item = &'a ResourceInterpreterWebhookConfiguration>) -> Self {
        let mut hooks: Vec<Arc<Hook>> = Vec::new();
        for configuration in configurations {
            let owner = configuration.metadata.name.as_deref().unwrap_or_default();
            for webhook in &configuration.webhooks {
                if webhook.interpreter_context_versions.iter().any(|version| version == CONTEXT_VERSION) {
                    let key = format!("{owner}/{}", webhook.name);
                    hooks.push(Arc::new(Hook { key, webhook: webhook.clone() }));
                }
            }
        }
        hooks.sort_by(|a, b| a.key.cmp(&b.key));
        Self(hooks)
    }

    /// Returns true if a webhook has an operation for the kind.
    #[must_use]
    pub fn concerns(&self, group: &str, version: &str, kind: &str) -> bool {
        self.0.iter().any(|hook| Operation::ALL.iter().any(|o| matches(&hook.webhook, group, version, kind, *o)))
    }

    /// The webhooks in order.
    pub fn hooks(&self) -> impl Iterator<Item = &Arc<Hook>> {
        self.0.iter()
    }

    fn find(&self, api_version: &str, kind: &str, operation: Operation) -> Option<&Arc<Hook>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.0.iter().find(|hook| matches(&hook.webhook, group, version, kind, operation))
    }
}

/// Returns true if a webhook's rules include the operation on the kind. `*` matches all.
#[must_use]
pub fn matches(
    webhook: &ResourceInterpreterWebhook,
    group: &str,
    version: &str,
    kind: &str,
    operation: Operation,
) -> bool {
    let has = |list: &[String], wanted: &str| list.iter().any(|item| item == operations::ALL || item == wanted);
    webhook.rules.iter().any(|rule| {
        has(&rule.operations, operation.name())
            && has(&rule.api_groups, group)
            && has(&rule.api_versions, version)
            && has(&rule.kinds, kind)
    })
}

impl Source for Webhooks {
    fn implements(&self, api_version: &str, kind: &str, operation: Operation) -> bool {
        self.find(api_version, kind, operation).is_some()
    }

    fn answer(&self, question: &Question<'_>) -> Result<Answer, InterpretError> {
        let (api_version, kind) = question.kind();
        let operation = question.operation();
        let Some(hook) = self.find(api_version, kind, operation) else {
            return Err(InterpretError::not_implemented(question));
        };
        Ok(Answer::Ask(Box::new(Call { hook: hook.clone(), request: request(question) })))
    }
}

fn request(question: &Question<'_>) -> ResourceInterpreterRequest {
    let object = question.object();
    let (api_version, kind) = question.kind();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut request = ResourceInterpreterRequest {
        kind: GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() },
        name: lens::text(object, "/metadata/name").into(),
        namespace: lens::text(object, "/metadata/namespace").into(),
        operation: question.operation().name().into(),
        object: object.clone(),
        ..ResourceInterpreterRequest::default()
    };
    match question {
        Question::Revise { replicas, .. } => request.desired_replicas = Some(*replicas),
        Question::Retain { observed, .. } => request.observed_object = Some((*observed).clone()),
        Question::Aggregate { items, .. } => {
            request.aggregated_status = items
                .iter()
                .map(|item| AggregatedStatusItem {
                    cluster_name: item.cluster.into(),
                    status: item.status.as_deref().map(JsonText::from),
                    applied: item.applied,
                    applied_message: item.message.into(),
                    health: item.health,
                    ..AggregatedStatusItem::default()
                })
                .collect();
        }
        _ => {}
    }
    request
}

/// The body of a call with this id.
#[must_use]
pub fn body(call: &Call, uid: &str) -> ResourceInterpreterContext {
    let request = ResourceInterpreterRequest { uid: uid.to_owned(), ..call.request.clone() };
    ResourceInterpreterContext { request: Some(request), ..ResourceInterpreterContext::default() }
}

/// Decodes the body of an answer to the request with this id. Only its `response` counts: Karmada's SDK for webhooks
/// sends neither `apiVersion` nor `kind`, and other fields as null.
///
/// # Errors
/// If it has no response, or answers another request.
pub fn decode(body: &[u8], uid: &str) -> Called {
    let mut context: Value = serde_json::from_slice(body)
        .map_err(|error| format!("its answer is not a ResourceInterpreterContext: {error}"))?;
    let mut response = match context.get_mut("response").map(Value::take) {
        None | Some(Value::Null) => return Err("its answer has no response".into()),
        Some(response) => response,
    };
    if let Some(fields) = response.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let response: ResourceInterpreterResponse =
        serde_json::from_value(response).map_err(|error| format!("the response of its answer: {error}"))?;
    if response.uid != uid {
        // The SDK cannot name the request if it could not read it.
        if let Some(status) = response.status.as_ref().filter(|_| !response.successful && response.uid.is_empty()) {
            return Err(format!("it answered {}: {}", status.code, status.message));
        }
        return Err(format!("its answer has uid {:?} instead of {uid:?}", response.uid));
    }
    Ok(response)
}

/// The reply of a response.
///
/// # Errors
/// If the webhook refused, or a field that the operation needs is missing or malformed.
pub fn read(question: &Question<'_>, response: &ResourceInterpreterResponse) -> Result<Reply, String> {
    if !response.successful {
        let Some(status) = &response.status else {
            return Err("it answered without success and gave no status".into());
        };
        return Err(format!("it answered {}: {}", status.code, status.message));
    }
    match question {
        Question::Replicas { .. } => {
            let replicas = response.replicas.ok_or("its answer has no replicas")?;
            let answer = Replicas { replicas, requirements: response.replica_requirements.clone() };
            checked_replicas(answer).map(Reply::Replicas)
        }
        Question::Components { .. } => checked_components(response.components.clone()).map(Reply::Components),
        Question::Revise { .. } | Question::Retain { .. } | Question::Aggregate { .. } => {
            let object = patched(question.object(), response)?;
            checked_object(question.object(), &object)?;
            Ok(Reply::Object(object))
        }
        Question::Status { .. } => match &response.raw_status {
            Some(status) => Ok(Reply::Status(Some(status.clone()).filter(|status| !status.is_null()))),
            None => Err("its answer has no rawStatus".into()),
        },
        Question::Health { .. } => match response.healthy {
            Some(healthy) => Ok(Reply::Health(if healthy { Health::Healthy } else { Health::Unhealthy })),
            None => Err("its answer has no healthy".into()),
        },
        Question::Dependencies { .. } => {
            let list = response.dependencies.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>();
            Dependency::validated(list.map_err(|error| error.to_string())?).map(Reply::Dependencies)
        }
    }
}

fn patched(object: &Value, response: &ResourceInterpreterResponse) -> Result<Value, String> {
    let patch = match (&response.patch, response.patch_type.as_deref().filter(|t| !t.is_empty())) {
        (None, None) => return Ok(object.clone()),
        (Some(patch), Some(JSON_PATCH)) => patch,
        (Some(_), Some(other)) => return Err(format!("its patchType is {other:?}; only {JSON_PATCH} is known")),
        (Some(_), None) => return Err("its answer has a patch and no patchType".into()),
        (None, Some(_)) => return Err("its answer has a patchType and no patch".into()),
    };
    let operations: Value =
        serde_json::from_slice(&patch.0).map_err(|error| format!("its patch is not JSON: {error}"))?;
    let mut object = object.clone();
    ironclad_patch::json_patch(&mut object, &operations).map_err(|error| format!("its patch: {error}"))?;
    Ok(object)
}

/// Calls that one decision needed, and their outcomes. It grows while the decision is run repeatedly, until no call is
/// open.
#[derive(Debug, Default)]
pub(crate) struct CallLog(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Outcomes by the content of the request.
    answers: BTreeMap<String, Called>,
    open: BTreeMap<String, Call>,
}

impl CallLog {
    pub(crate) fn reply(&self, call: Call, question: &Question<'_>) -> Result<Reply, InterpretError> {
        let (webhook, operation) = (call.hook.key.clone(), question.operation());
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = request_key(&call);
        let result = match state.answers.get(&key) {
            Some(Ok(response)) => read(question, response),
            Some(Err(message)) => Err(message.clone()),
            None => {
                state.open.insert(key, call);
                return Err(InterpretError::Open { webhook, operation });
            }
        };
        result.map_err(|message| InterpretError::Webhook { webhook, operation, message })
    }

    pub(crate) fn take_open(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).open).into_values().collect()
    }

    pub(crate) fn answer(&self, call: &Call, called: Called) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).answers.insert(request_key(call), called);
    }
}

/// Identifies a request by its content, so that a decision makes equal calls once.
fn request_key(call: &Call) -> String {
    let request = serde_json::to_string(&call.request).unwrap_or_default();
    format!("{} {request}", call.hook.key)
}

#[cfg(test)]
mod tests;
