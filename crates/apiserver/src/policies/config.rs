//! Admission policies and their bindings, read and compiled.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_patch::cel::{Expression, Variable};
use ironclad_store::{Query, Store};
use serde_json::{Value, json};

use crate::{object, registry::Registry, status::Cause, webhooks::Matcher};

const GROUP: &str = "admissionregistration.k8s.io";
/// The variables of expressions.
const NAMES: [&str; 6] = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];
pub(super) const REASONS: [(&str, u16); 3] = [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)];

/// All policies with their bindings, by name of the binding.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(super) bound: Vec<BoundPolicy>,
}

#[derive(Debug)]
pub(super) struct BoundPolicy {
    pub(super) name: String,
    pub(super) actions: Vec<String>,
    pub(super) matcher: Matcher,
    pub(super) params: Value,
    pub(super) policy: Arc<Policy>,
}

#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    /// Expressions that fail refuse the write.
    pub(super) fails: bool,
    pub(super) matcher: Matcher,
    /// `apiVersion` and `kind` of parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(super) variables: Vec<(String, Result<Expression, String>)>,
    pub(super) validations: Vec<Validation>,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Result<Expression, String>,
    pub(super) text: String,
    pub(super) message: String,
    pub(super) made_message: Option<Expression>,
    pub(super) reason: &'static str,
    pub(super) code: u16,
}

fn compile(text: &str) -> Result<Expression, String> {
    Expression::compile(text, &NAMES.map(|name| (name, Variable::Anything)).into())
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn all(store: &Store, registry: &Registry, plural: &str) -> Vec<Value> {
    let Some(resource) = registry.builtin(GROUP, plural) else { return vec![] };
    let Ok(range) = store.range(&Query::prefix(&resource.prefix)) else { return vec![] };
    range.entries.iter().filter_map(|(_, e)| object::decode(&e.value, e.modified).ok()).collect()
}

impl Policies {
    pub(crate) fn read(store: &Store, registry: &Registry) -> Self {
        let policies = all(store, registry, "validatingadmissionpolicies");
        let policies: BTreeMap<String, _> =
            policies.iter().map(|p| (object::meta_str(p, "name").to_owned(), Arc::new(Policy::read(p)))).collect();
        let bindings = all(store, registry, "validatingadmissionpolicybindings");
        let bound = bindings.iter().filter_map(|binding| {
            let spec = &binding["spec"];
            Some(BoundPolicy {
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

/// Validates the expressions of a policy, besides its match conditions.
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
