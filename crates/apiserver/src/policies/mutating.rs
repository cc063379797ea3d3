//! Applies MutatingAdmissionPolicies.

use std::sync::Arc;

use ironclad_patch::{
    PatchError,
    cel::{Budget, REQUEST_UNITS_MAX},
};
use serde_json::Value;

use super::{
    OUT_OF_BUDGET,
    config::{BoundPolicy, Mutation, MutationKind, Mutations},
};
use crate::{
    admission::{
        reinvocation::{Reinvocation, Round},
        review::{Operation, Write},
    },
    context::Cx,
    object,
    registry::Resource,
    schema,
    status::ApiError,
    strategy,
    webhooks::{Seen, adopt, before_creation, concerns, conditions_met, inapplicable, select},
};

/// Names of policy and binding, and namespace and name of the parameter.
pub(crate) type Key = [String; 4];

/// A policy that is to change an object, with one of its parameters.
struct Invocation<'a> {
    bound: &'a BoundPolicy<Mutations>,
    /// The resource in the version that the policy names.
    resource: Arc<Resource>,
    params: Value,
}

/// A failure of a policy with `failurePolicy: Fail`: the text for the answer.
struct Failure {
    message: String,
    /// Reason of the answer, if it is not `Forbidden`.
    reason: Option<&'static str>,
}

/// A mutation that was not applied.
enum Refused {
    /// The failure policy decides.
    ByPolicy(String),
    /// The write fails, whatever the failure policy is.
    Always(ApiError),
}

/// Applies the mutating policies of a round in the order of their names; true if they changed the object.
pub(crate) fn mutate(
    cx: &Cx,
    write: &Write<'_>,
    object: Option<&mut Value>,
    round: Round,
    again: &mut Reinvocation<Key>,
) -> Result<bool, ApiError> {
    let policies = cx.state.policies();
    // There is nothing to change in a deletion.
    let is_changed = matches!(write.operation, Operation::Create | Operation::Update | Operation::Connect);
    let Some(object) = object.filter(|_| is_changed && !policies.mutating.is_empty() && concerns(cx, write)) else {
        return Ok(false);
    };
    let mut failures = Vec::new();
    let invocations = invocations(cx, &policies.mutating, write, object, &mut failures);
    let mut changed = false;
    again.begin(round, Some(object));
    for invocation in invocations {
        let key = invocation.key();
        if !again.asks(round, &key) {
            continue;
        }
        let policy = &invocation.bound.policy;
        let shown = shown(write, object);
        let seen = Seen::of(cx, invocation.resource.clone(), write, Some(&shown));
        match conditions_met(&policy.matcher, cx, &seen, &invocation.params) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                failures.extend(invocation.bound.failure(&why, Some("Invalid")));
                continue;
            }
        }
        let mut changed_by_policy = false;
        for mutation in &policy.rules.all {
            match invocation.apply(cx, write, mutation, object) {
                Ok(changed) => changed_by_policy |= changed,
                Err(Refused::ByPolicy(why)) => failures.extend(invocation.bound.failure(&why, Some("Invalid"))),
                Err(Refused::Always(error)) => return Err(error),
            }
        }
        if changed_by_policy {
            changed = true;
            again.require();
        }
        if policy.rules.reinvoke {
            again.record(key);
        }
    }
    again.end(Some(object));
    match failures.is_empty() {
        true => Ok(changed),
        false => Err(refusal(cx, object, &failures)),
    }
}

/// The object as policies see it.
fn shown(write: &Write<'_>, object: &Value) -> Value {
    match write.operation == Operation::Create && write.subresource_kind.is_none() {
        true => before_creation(object),
        false => object.clone(),
    }
}

/// The policies whose rules and selectors match, with their parameters.
fn invocations<'a>(
    cx: &Cx,
    all: &'a [BoundPolicy<Mutations>],
    write: &Write<'_>,
    object: &Value,
    failures: &mut Vec<Failure>,
) -> Vec<Invocation<'a>> {
    let shown = shown(write, object);
    let mut invocations = Vec::new();
    for bound in all {
        let Some(resource) = select(&bound.policy.matcher, cx, write, Some(&shown)) else { continue };
        if select(&bound.matcher, cx, write, Some(&shown)).is_none() {
            continue;
        }
        match bound.parameters(cx, write, Some(&shown)) {
            Ok(params) => invocations.extend(params.into_iter().map(|params| Invocation {
                bound,
                resource: resource.clone(),
                params,
            })),
            Err(why) => failures.extend(bound.failure(&why, None)),
        }
    }
    invocations
}

impl BoundPolicy<Mutations> {
    /// The failure, unless the policy ignores it.
    fn failure(&self, why: &str, reason: Option<&'static str>) -> Option<Failure> {
        let (policy, binding) = (&self.policy.name, &self.name);
        let message = format!("policy '{policy}' with binding '{binding}' denied request: {why}");
        self.policy.fails.then_some(Failure { message, reason })
    }
}

/// The answer to a write that policies refuse: it has the first text, and all of them as causes.
fn refusal(cx: &Cx, object: &Value, failures: &[Failure]) -> ApiError {
    let mut name = object::meta_str(object, "name");
    if name.is_empty() {
        name = object::meta_str(object, "generateName");
    }
    let mut error = ApiError::forbidden(&cx.resource.plural, &cx.resource.group, name, "");
    if let Some(first) = failures.first() {
        error.message.clone_from(&first.message);
        if let Some(reason) = first.reason {
            error.reason = reason.into();
        }
    }
    failures.iter().fold(error, |error, failure| error.cause("", &failure.message, ""))
}

impl Invocation<'_> {
    fn key(&self) -> Key {
        let param = |key: &str| object::meta_str(&self.params, key).to_owned();
        [self.bound.policy.name.clone(), self.bound.name.clone(), param("namespace"), param("name")]
    }

    /// Applies one mutation; true if it changed the object.
    fn apply(&self, cx: &Cx, write: &Write<'_>, mutation: &Mutation, object: &mut Value) -> Result<bool, Refused> {
        let shown = shown(write, object);
        let seen = Seen::of(cx, self.resource.clone(), write, Some(&shown));
        let given = seen.object().unwrap_or(&shown);
        let patched = self.patched(cx, &seen, mutation, given)?;
        if patched == *given {
            return Ok(false);
        }
        let kind = seen.subresource_kind.as_ref();
        let changed = adopt(cx, write.operation, (&self.resource, kind), patched, object).map_err(Refused::Always)?;
        if changed && write.subresource_kind.is_none() {
            // Later mutations see the defaults of what was added.
            strategy::default(&cx.resource, object, strategy::Defaults::Plain);
        }
        Ok(changed)
    }

    /// The object with the mutation.
    fn patched(&self, cx: &Cx, seen: &Seen<'_>, mutation: &Mutation, given: &Value) -> Result<Value, Refused> {
        let policy = &self.bound.policy;
        let expression = match &mutation.expression {
            Ok(expression) => expression,
            Err(why) => return Err(Refused::ByPolicy(format!("compilation failed: {why}"))),
        };
        let mut budget = Budget::new(REQUEST_UNITS_MAX);
        let made =
            policy.with_names(cx, seen, &self.params, &mut budget, |names, budget| expression.make(names, budget));
        let made = made.map_err(|why| {
            Refused::ByPolicy(match budget.is_exceeded() {
                true => OUT_OF_BUDGET.to_owned(),
                false => format!("expression '{}' resulted in error: {why}", mutation.text),
            })
        })?;
        match mutation.kind {
            MutationKind::ApplyConfiguration => {
                let config = made.configuration().map_err(Refused::ByPolicy)?;
                configured(seen, given, &config)
            }
            MutationKind::JsonPatch => {
                let operations = made.operations().map_err(Refused::ByPolicy)?;
                json_patched(seen, given, &operations)
            }
        }
    }
}

/// Merges an apply configuration along the types of the object's kind.
fn configured(seen: &Seen<'_>, given: &Value, config: &Value) -> Result<Value, Refused> {
    let merged = match &seen.subresource_kind {
        Some(gvk) => schema::with_kind_tracker((&gvk.group, &gvk.version, &gvk.kind), "", |tracker| {
            tracker.configure(given, config)
        }),
        None => schema::with_tracker(&seen.resource, "", |tracker| tracker.configure(given, config)),
    };
    let Some(merged) = merged else {
        let kind = format!("{}, Kind={}", seen.resource.api_version(), seen.resource.kind);
        let message = format!(
            "Resource kind {kind} not found. There can be a delay between when CustomResourceDefinitions are created and when they are available."
        );
        return Err(Refused::Always(ApiError::new(503, "ServiceUnavailable", message)));
    };
    merged.map_err(|why| Refused::ByPolicy(format!("error applying patch: {why}")))
}

/// Applies a JSON patch. One whose `test` fails changes nothing; an object with unknown fields is an internal error.
fn json_patched(seen: &Seen<'_>, given: &Value, operations: &Value) -> Result<Value, Refused> {
    let mut patched = given.clone();
    match ironclad_patch::json_patch(&mut patched, operations) {
        Ok(()) => {}
        Err(PatchError::Unprocessable(why)) if why.ends_with(": test failed") => return Ok(given.clone()),
        Err(PatchError::Unprocessable(why)) => {
            let why = inapplicable(given, operations, why);
            return Err(Refused::ByPolicy(format!("JSON Patch: {why}")));
        }
        Err(other) => return Err(Refused::ByPolicy(format!("JSON Patch: {other}"))),
    }
    if seen.subresource_kind.is_none() && seen.resource.custom().is_none() {
        let decoded = schema::check(&seen.resource, patched.clone());
        let decoded = decoded.map_err(|why| Refused::Always(ApiError::internal(why.to_string())))?;
        if !decoded.strict.is_empty() {
            let why = format!("strict decoding error: {}", decoded.strict.join(", "));
            return Err(Refused::Always(ApiError::internal(why)));
        }
    }
    Ok(patched)
}
