//! ValidatingAdmissionPolicies: expressions of users that writes must fulfil, where a binding says so
//! (specification/apiserver.md 21).
//!
//! They are evaluated in the write, without waiting. Not here: the variable `authorizer`, which is refused when a
//! policy is made, audit annotations, and type checking against schemas (`status.typeChecking` stays empty).

mod config;

use std::collections::BTreeMap;

use ironclad_patch::cel::{Binding, Budget, Made, Outcome, REQUEST_UNITS_MAX, made_map};
use serde_json::Value;

use self::config::{BoundPolicy, Policy, REASONS, Validation, text};
pub(crate) use self::config::{Policies, check_expressions};
use crate::{
    admission::{objects::Objects, review::Write},
    context::Cx,
    object,
    state::State,
    status::ApiError,
    webhooks::{Seen, concerns, label_selector, matches, request},
};

/// The message for a write whose policies exceed the cost budget.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// True if policies with bindings exist.
pub(crate) fn any(state: &State) -> bool {
    !state.policies().bound.is_empty()
}

/// Refuses what a bound policy refuses, and warns where a binding says no more than that.
pub(crate) fn validate(cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Result<(), ApiError> {
    let policies = cx.state.policies();
    if policies.bound.is_empty() || !concerns(cx, write) {
        return Ok(());
    }
    // All policies of a request share what they may cost.
    let mut budget = Budget::new(REQUEST_UNITS_MAX);
    for bound in &policies.bound {
        let policy = &bound.policy;
        let Some(seen) = matches(&policy.matcher, cx, write, new, policy.fails)? else { continue };
        if matches(&bound.matcher, cx, write, new, true)?.is_none() {
            continue;
        }
        let Some(refusal) = bound.refusal(cx, &seen, &mut budget) else { continue };
        let (policy, binding) = (&policy.name, &bound.name);
        if bound.actions.iter().any(|action| action == "Warn") {
            let why = &refusal.why;
            cx.warn(format!(
                "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {why}"
            ));
        }
        if bound.actions.iter().any(|action| action == "Deny") {
            let why = format!(
                "ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {}",
                refusal.why
            );
            let name = object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "name");
            let error = ApiError::forbidden(&cx.resource.plural, &cx.resource.group, name, &why).cause("", &why, "");
            return Err(ApiError { code: refusal.code, reason: refusal.reason.into(), ..error });
        }
    }
    Ok(())
}

struct Refusal {
    why: String,
    reason: &'static str,
    code: u16,
}

impl BoundPolicy {
    /// Reason of the policy's refusal, if it refuses the write.
    fn refusal(&self, cx: &Cx, seen: &Seen<'_>, budget: &mut Budget) -> Option<Refusal> {
        let (write, new) = (&seen.write(), seen.object());
        let failed = |why: String| self.policy.fails.then(|| Refusal { why, reason: REASONS[1].0, code: REASONS[1].1 });
        let params = match self.parameters(cx, write, new) {
            Ok(params) => params,
            Err(why) => return failed(why),
        };
        params.iter().find_map(|params| self.policy.refusal(cx, seen, params, budget))
    }

    /// The parameters that a policy is evaluated with, one after the other; null when it has none.
    fn parameters(&self, cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Result<Vec<Value>, String> {
        let Some((api_version, kind)) = &self.policy.param_kind else { return Ok(vec![Value::Null]) };
        if !self.params.is_object() {
            return Ok(vec![Value::Null]);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let custom = cx.state.registry.custom();
        let groups = cx.state.registry.builtin_groups().iter().chain(&custom.groups).filter(|g| g.name == group);
        let mut resources = groups.filter_map(|g| g.version(version)).flat_map(|resources| resources.values());
        let Some(resource) = resources.find(|resource| resource.kind == *kind) else {
            return Err(format!("failed to configure policy: no kind {kind:?} in {api_version:?} is known"));
        };
        let own = object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "namespace");
        let namespace = match text(&self.params, "namespace") {
            _ if !resource.namespaced => "",
            "" => own,
            given => given,
        };
        let objects = Objects::new(&cx.state.store, &cx.state.registry, &cx.state.seam, &*cx.state);
        let found = match self.params["name"].as_str() {
            Some(name) => objects.get(group, version, &resource.plural, namespace, name).into_iter().collect(),
            None => {
                let selector = label_selector(&self.params["selector"]);
                let mut all = objects.list(group, version, &resource.plural, namespace);
                all.retain(|object| selector.matches_object(object));
                all
            }
        };
        if found.is_empty() && text(&self.params, "parameterNotFoundAction") != "Allow" {
            let why =
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.to_owned());
        }
        Ok(found)
    }
}

impl Policy {
    fn refusal(&self, cx: &Cx, seen: &Seen<'_>, params: &Value, budget: &mut Budget) -> Option<Refusal> {
        let (write, new) = (&seen.write(), seen.object());
        let request = request(cx, &seen.resource, write, "");
        let (object, old) = (new.unwrap_or(&Value::Null), write.old.unwrap_or(&Value::Null));
        let own = object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "namespace");
        let namespace = cx.state.builtin_object("", "namespaces", "", own).unwrap_or(Value::Null);
        let plain = [
            ("object", Binding::Plain(object)),
            ("oldObject", Binding::Plain(old)),
            ("request", Binding::Plain(&request)),
            ("params", Binding::Plain(params)),
            ("namespaceObject", Binding::Plain(&namespace)),
        ];
        let mut made: BTreeMap<String, Made> = BTreeMap::new();
        for (name, expression) in &self.variables {
            if budget.is_exceeded() {
                break;
            }
            let so_far = made_map(&made);
            let names: Vec<_> = plain.into_iter().chain([("variables", Binding::Made(&so_far))]).collect();
            // A variable that fails is absent; expressions that use it fail.
            if let Some(value) = expression.as_ref().ok().and_then(|e| e.make(&names, budget).ok()) {
                made.insert(name.clone(), value);
            }
        }
        let variables = made_map(&made);
        let names: Vec<_> = plain.into_iter().chain([("variables", Binding::Made(&variables))]).collect();
        self.validations.iter().find_map(|validation| {
            let result = match &validation.expression {
                Ok(expression) => expression.evaluate_within(&names, budget),
                Err(why) => Err(why.clone()),
            };
            let why = match result {
                Ok(Outcome::Bool(true)) => return None,
                Ok(Outcome::Bool(false)) => validation.message(&names, budget),
                _ if budget.is_exceeded() && self.fails => OUT_OF_BUDGET.to_owned(),
                Ok(_) if self.fails => {
                    format!("expression '{}' resulted in error: it is no truth value", validation.text)
                }
                Err(why) if self.fails => format!("expression '{}' resulted in error: {why}", validation.text),
                _ => return None,
            };
            Some(Refusal { why, reason: validation.reason, code: validation.code })
        })
    }
}

impl Validation {
    fn message(&self, names: &[(&str, Binding<'_>)], budget: &mut Budget) -> String {
        let made = self.made_message.as_ref().and_then(|message| match message.evaluate_within(names, budget) {
            Ok(Outcome::Text(text)) => Some(text.trim().to_owned()).filter(|t| !t.is_empty() && !t.contains('\n')),
            _ => None,
        });
        match made {
            Some(made) => made,
            None if !self.message.is_empty() => self.message.clone(),
            None => format!("failed expression: {}", self.text),
        }
    }
}
