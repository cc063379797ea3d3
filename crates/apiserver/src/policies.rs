//! ValidatingAdmissionPolicies: expressions of users that writes must fulfil, where a binding says so (apiserver.md 21).
//!
//! They are evaluated in the write, without waiting. Not here: the variable `authorizer`, which is refused when a policy is
//! made, audit annotations, and type checking against schemas (`status.typeChecking` stays empty).

use std::collections::BTreeMap;

use ironclad_patch::cel::{Binding, Budget, Expression, Made, Outcome, REQUEST_UNITS_MAX, Variable, made_map};
use ironclad_store::Query;
use serde_json::{Value, json};

use crate::{
    Server,
    admission::Objects,
    context::Cx,
    object,
    registry::{Registry, builtin_groups},
    status::{ApiError, Cause},
    webhooks::{Matcher, Seen, Write, concerns, request},
};

const GROUP: &str = "admissionregistration.k8s.io";
/// What expressions may name.
const NAMES: [&str; 6] = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];
/// Why a write is refused whose policies cost too much.
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";
const REASONS: [(&str, u16); 3] = [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)];

/// All policies with their bindings, by name of the binding.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    bound: Vec<Bound>,
}

#[derive(Debug)]
struct Bound {
    name: String,
    actions: Vec<String>,
    matcher: Matcher,
    params: Value,
    policy: std::sync::Arc<Policy>,
}

#[derive(Debug)]
struct Policy {
    name: String,
    /// Expressions that fail refuse the write.
    fails: bool,
    matcher: Matcher,
    /// `apiVersion` and `kind` of parameters.
    param_kind: Option<(String, String)>,
    variables: Vec<(String, Result<Expression, String>)>,
    validations: Vec<Validation>,
}

#[derive(Debug)]
struct Validation {
    expression: Result<Expression, String>,
    text: String,
    message: String,
    made_message: Option<Expression>,
    reason: &'static str,
    code: u16,
}

fn compile(text: &str) -> Result<Expression, String> {
    Expression::compile(text, &NAMES.map(|name| (name, Variable::Anything)).into())
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn all(server: &Server, plural: &str) -> Vec<Value> {
    let Some(resource) = Registry::builtin(GROUP, plural) else { return vec![] };
    let Ok(range) = server.store.range(&Query::prefix(&resource.prefix)) else { return vec![] };
    range.entries.iter().filter_map(|(_, e)| object::decode(&e.value, e.modified).ok()).collect()
}

impl Policies {
    pub(crate) fn read(server: &Server) -> Self {
        let policies = all(server, "validatingadmissionpolicies");
        let policies: BTreeMap<String, _> = policies
            .iter()
            .map(|p| (object::meta_str(p, "name").to_owned(), std::sync::Arc::new(Policy::read(p))))
            .collect();
        let bindings = all(server, "validatingadmissionpolicybindings");
        let bound = bindings.iter().filter_map(|binding| {
            let spec = &binding["spec"];
            Some(Bound {
                name: object::meta_str(binding, "name").to_owned(),
                actions: list(spec, "validationActions").filter_map(|a| a.as_str().map(str::to_owned)).collect(),
                matcher: Matcher::read(&spec["matchResources"], &Value::Null),
                params: spec["paramRef"].clone(),
                policy: policies.get(text(spec, "policyName"))?.clone(),
            })
        });
        Self { bound: bound.collect() }
    }
}

impl Policy {
    fn read(policy: &Value) -> Self {
        let spec = &policy["spec"];
        let variables = list(spec, "variables").map(|v| (text(v, "name").to_owned(), compile(text(v, "expression"))));
        let validations = list(spec, "validations").map(|v| {
            let given = text(v, "reason");
            let (reason, code) = REASONS.into_iter().find(|(name, _)| *name == given).unwrap_or(REASONS[1]);
            Validation {
                expression: compile(text(v, "expression")),
                text: text(v, "expression").trim().to_owned(),
                message: text(v, "message").trim().to_owned(),
                made_message: v["messageExpression"].as_str().and_then(|text| compile(text).ok()),
                reason,
                code,
            }
        });
        let kind = &spec["paramKind"];
        Self {
            name: object::meta_str(policy, "name").to_owned(),
            fails: text(spec, "failurePolicy") != "Ignore",
            matcher: Matcher::read(&spec["matchConstraints"], &spec["matchConditions"]),
            param_kind: kind.is_object().then(|| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned())),
            variables: variables.collect(),
            validations: validations.collect(),
        }
    }
}

/// What is wrong with the expressions of a policy, besides its match conditions.
pub(crate) fn check_expressions(spec: &Value, out: &mut Vec<Cause>) {
    let mut one = |field: String, text: &str, wanted: &str| {
        if text.trim().is_empty() {
            out.push(Cause::required(field, "expression is not specified"));
            return;
        }
        match compile(text) {
            Err(why) => out.push(Cause::invalid(field, &json!(text), format!("compilation failed: {why}"))),
            Ok(e) if !wanted.is_empty() && e.type_name != wanted && e.type_name != "dyn" => {
                let detail = format!("must evaluate to {wanted} but got {}", e.type_name);
                out.push(Cause::invalid(field, &json!(text), detail));
            }
            Ok(_) => {}
        }
    };
    for (i, variable) in list(spec, "variables").enumerate() {
        one(format!("spec.variables[{i}].expression"), text(variable, "expression"), "");
    }
    for (i, validation) in list(spec, "validations").enumerate() {
        one(format!("spec.validations[{i}].expression"), text(validation, "expression"), "bool");
        if let Some(text) = validation["messageExpression"].as_str() {
            one(format!("spec.validations[{i}].messageExpression"), text, "string");
        }
    }
}

/// Whether there are policies with bindings.
pub(crate) fn any(server: &Server) -> bool {
    !server.policies.get(|| Policies::read(server)).bound.is_empty()
}

/// Refuses what a bound policy refuses, and warns where a binding says no more than that.
pub(crate) fn validate(cx: &Cx, write: &Write<'_>, new: Option<&Value>) -> Result<(), ApiError> {
    let policies = cx.server.policies.get(|| Policies::read(&cx.server));
    if policies.bound.is_empty() || !concerns(cx, write) {
        return Ok(());
    }
    // All policies of a request share what they may cost.
    let mut budget = Budget::new(REQUEST_UNITS_MAX);
    for bound in &policies.bound {
        let policy = &bound.policy;
        let Some(seen) = policy.matcher.matches(cx, write, new, policy.fails)? else { continue };
        if bound.matcher.matches(cx, write, new, true)?.is_none() {
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

impl Bound {
    /// Why the policy refuses a write, if it does.
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
        let custom = cx.server.registry.custom();
        let groups = builtin_groups().iter().chain(&custom.groups).filter(|g| g.name == group);
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
        let objects = Objects::new(&cx.server);
        let found = match self.params["name"].as_str() {
            Some(name) => objects.get(group, version, &resource.plural, namespace, name).into_iter().collect(),
            None => {
                let selector = crate::webhooks::selector(&self.params["selector"]);
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
        let namespace = cx.server.builtin_object("", "namespaces", "", own).unwrap_or(Value::Null);
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
            // One that fails is missing, and whoever needs it fails.
            if let Some(value) = expression.as_ref().ok().and_then(|e| e.make(&names, budget).ok()) {
                made.insert(name.clone(), value);
            }
        }
        let variables = made_map(&made);
        let names: Vec<_> = plain.into_iter().chain([("variables", Binding::Made(&variables))]).collect();
        self.validations.iter().find_map(|validation| {
            let came_to = match &validation.expression {
                Ok(expression) => expression.evaluate_within(&names, budget),
                Err(why) => Err(why.clone()),
            };
            let why = match came_to {
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
