//! Admission policies of users: expressions that writes must fulfil ([`validate`]), and expressions that change them
//! ([`mutate`]), where a binding says so (specification/apiserver.md 21).
//!
//! They are evaluated in the write, without waiting. Not here: the variable `authorizer`, which is refused when a
//! policy is made, audit annotations, and type checking against schemas (`status.typeChecking` stays empty).

mod config;
mod evaluate;
mod mutating;

use ironclad_patch::cel::{Budget, Outcome, REQUEST_UNITS_MAX};
use serde_json::Value;

use self::{
    config::{BoundPolicy, Policy, REASONS, Validation, Validations},
    evaluate::Names,
};
pub(crate) use self::{
    config::{Policies, check_mutation, check_validations, check_variables},
    mutating::mutate,
};
use crate::{
    admission::review::Write,
    context::Cx,
    object,
    state::State,
    status::ApiError,
    webhooks::{Seen, concerns, conditions_met, select},
};

/// The message for a write whose policies exceed the cost budget.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// True if policies with bindings exist.
pub(crate) fn any(state: &State) -> bool {
    let policies = state.policies();
    !policies.validating.is_empty() || !policies.mutating.is_empty()
}

/// Refuses what a bound policy refuses, and warns where a binding says no more than that.
pub(crate) fn validate(cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Result<(), ApiError> {
    let policies = cx.state.policies();
    if policies.validating.is_empty() || !concerns(cx, write) {
        return Ok(());
    }
    // All policies of a request share what they may cost.
    let mut budget = Budget::new(REQUEST_UNITS_MAX);
    for bound in &policies.validating {
        let policy = &bound.policy;
        let Some(resource) = select(&policy.matcher, cx, write, new) else { continue };
        if select(&bound.matcher, cx, write, new).is_none() {
            continue;
        }
        let seen = Seen::of(cx, resource, write, new);
        let Some(refusal) = bound.refusal(cx, &seen, &mut budget)? else { continue };
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

impl BoundPolicy<Validations> {
    /// Reason of the policy's refusal, if it refuses the write.
    fn refusal(&self, cx: &Cx, seen: &Seen<'_>, budget: &mut Budget) -> Result<Option<Refusal>, ApiError> {
        let (write, new) = (&seen.write(), seen.object());
        let params = match self.parameters(cx, write, new) {
            Ok(params) => params,
            Err(why) => {
                let refusal = || Refusal { why, reason: REASONS[1].0, code: REASONS[1].1 };
                return Ok(self.policy.fails.then(refusal));
            }
        };
        for params in &params {
            match conditions_met(&self.policy.matcher, cx, seen, params) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) if !self.policy.fails => continue,
                Err(why) => {
                    let name = object::meta_str(new.or(write.old).unwrap_or(&Value::Null), "name");
                    return Err(ApiError::forbidden(&cx.resource.plural, &cx.resource.group, name, &why));
                }
            }
            if let Some(refusal) = self.policy.refusal(cx, seen, params, budget) {
                return Ok(Some(refusal));
            }
        }
        Ok(None)
    }
}

impl Policy<Validations> {
    fn refusal(&self, cx: &Cx, seen: &Seen<'_>, params: &Value, budget: &mut Budget) -> Option<Refusal> {
        self.with_names(cx, seen, params, budget, |names, budget| {
            self.rules.iter().find_map(|validation| self.refusal_by(validation, names, budget))
        })
    }

    fn refusal_by(&self, validation: &Validation, names: &Names<'_>, budget: &mut Budget) -> Option<Refusal> {
        let result = match &validation.expression {
            Ok(expression) => expression.evaluate_within(names, budget),
            Err(why) => Err(why.clone()),
        };
        let why = match result {
            Ok(Outcome::Bool(true)) => return None,
            Ok(Outcome::Bool(false)) => validation.message(names, budget),
            _ if budget.is_exceeded() && self.fails => OUT_OF_BUDGET.to_owned(),
            Ok(_) if self.fails => {
                format!("expression '{}' resulted in error: it is no truth value", validation.text)
            }
            Err(why) if self.fails => format!("expression '{}' resulted in error: {why}", validation.text),
            _ => return None,
        };
        Some(Refusal { why, reason: validation.reason, code: validation.code })
    }
}

impl Validation {
    fn message(&self, names: &Names<'_>, budget: &mut Budget) -> String {
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
