//! Admission policies and their bindings, read and compiled.

use std::{collections::BTreeMap, sync::Arc};

use ironclad_patch::cel::{Expression, OBJECT, OPERATIONS, Variable};
use ironclad_store::{Query, Store};
use serde_json::{Value, json};

use crate::{object, registry::Registry, status::Cause, webhooks::Matcher};

const GROUP: &str = "admissionregistration.k8s.io";
/// The variables of expressions.
const NAMES: [&str; 6] = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];
pub(super) const REASONS: [(&str, u16); 3] = [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)];

/// All policies with their bindings.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    /// By name of the binding.
    pub(super) validating: Vec<BoundPolicy<Validations>>,
    /// By names of policy and binding: the order in which they change an object.
    pub(super) mutating: Vec<BoundPolicy<Mutations>>,
}

/// A policy with one of its bindings.
#[derive(Debug)]
pub(super) struct BoundPolicy<R> {
    pub(super) name: String,
    pub(super) actions: Vec<String>,
    pub(super) matcher: Matcher,
    pub(super) params: Value,
    pub(super) policy: Arc<Policy<R>>,
}

/// A policy; `R` is what it does.
#[derive(Debug)]
pub(super) struct Policy<R> {
    pub(super) name: String,
    /// Expressions that fail refuse the write.
    pub(super) fails: bool,
    pub(super) matcher: Matcher,
    /// `apiVersion` and `kind` of parameters.
    pub(super) param_kind: Option<(String, String)>,
    pub(super) variables: Vec<(String, Result<Expression, String>)>,
    pub(super) rules: R,
}

/// The validations of a policy.
pub(super) type Validations = Vec<Validation>;

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Result<Expression, String>,
    pub(super) text: String,
    pub(super) message: String,
    pub(super) made_message: Option<Expression>,
    pub(super) reason: &'static str,
    pub(super) code: u16,
}

/// The mutations of a policy.
#[derive(Debug)]
pub(super) struct Mutations {
    /// It is applied again when later reviewers change the object.
    pub(super) reinvoke: bool,
    pub(super) all: Vec<Mutation>,
}

#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) kind: MutationKind,
    pub(super) text: String,
    pub(super) expression: Result<Expression, String>,
}

/// The way in which a mutation changes an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MutationKind {
    ApplyConfiguration,
    JsonPatch,
}

impl MutationKind {
    /// Type of the expression's result.
    fn result(self) -> &'static str {
        match self {
            Self::ApplyConfiguration => OBJECT,
            Self::JsonPatch => OPERATIONS,
        }
    }
}

fn variables() -> BTreeMap<&'static str, Variable<'static>> {
    NAMES.map(|name| (name, Variable::Anything)).into()
}

fn compile(text: &str) -> Result<Expression, String> {
    Expression::compile(text, &variables())
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

/// Reads policies of a kind with their bindings, by name of the binding.
fn bound<R>(
    store: &Store,
    registry: &Registry,
    (policies, bindings): (&str, &str),
    rules: fn(&Value) -> R,
) -> Vec<BoundPolicy<R>> {
    let policies = all(store, registry, policies);
    let policies: BTreeMap<String, _> =
        policies.iter().map(|p| (object::meta_str(p, "name").to_owned(), Arc::new(Policy::read(p, rules)))).collect();
    let bindings = all(store, registry, bindings);
    let bound = bindings.iter().filter_map(|binding| {
        let spec = &binding["spec"];
        Some(BoundPolicy {
            name: object::meta_str(binding, "name").to_owned(),
            actions: list(spec, "validationActions").filter_map(|a| a.as_str().map(str::to_owned)).collect(),
            matcher: Matcher::of_constraints(&spec["matchResources"]),
            params: spec["paramRef"].clone(),
            policy: policies.get(text(spec, "policyName"))?.clone(),
        })
    });
    bound.collect()
}

impl Policies {
    pub(crate) fn read(store: &Store, registry: &Registry) -> Self {
        let validating = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
        let mutating = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");
        let mut mutating = bound(store, registry, mutating, mutations);
        mutating.sort_by(|a, b| a.policy.name.cmp(&b.policy.name));
        Self { validating: bound(store, registry, validating, validations), mutating }
    }
}

impl<R> Policy<R> {
    fn read(policy: &Value, rules: fn(&Value) -> R) -> Self {
        let spec = &policy["spec"];
        let variables = list(spec, "variables").map(|v| (text(v, "name").to_owned(), compile(text(v, "expression"))));
        let kind = &spec["paramKind"];
        Self {
            name: object::meta_str(policy, "name").to_owned(),
            fails: text(spec, "failurePolicy") != "Ignore",
            matcher: Matcher::of_policy(spec),
            param_kind: kind.is_object().then(|| (text(kind, "apiVersion").to_owned(), text(kind, "kind").to_owned())),
            variables: variables.collect(),
            rules: rules(spec),
        }
    }
}

fn validations(spec: &Value) -> Validations {
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
    validations.collect()
}

/// Kind and expression of a mutation.
fn mutation(value: &Value) -> (MutationKind, &str) {
    match text(value, "patchType") {
        "JSONPatch" => (MutationKind::JsonPatch, text(&value["jsonPatch"], "expression")),
        _ => (MutationKind::ApplyConfiguration, text(&value["applyConfiguration"], "expression")),
    }
}

fn mutations(spec: &Value) -> Mutations {
    let all = list(spec, "mutations").map(|value| {
        let (kind, text) = mutation(value);
        Mutation { kind, text: text.to_owned(), expression: Expression::compile_mutation(text, &variables()) }
    });
    Mutations { reinvoke: text(spec, "reinvocationPolicy") == "IfNeeded", all: all.collect() }
}

/// Validates an expression, whose result has this type unless it is empty.
fn check_expression(field: String, text: &str, wanted: &str, out: &mut Vec<Cause>) {
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
}

/// Validates the expressions of a policy's variables.
pub(crate) fn check_variables(spec: &Value, out: &mut Vec<Cause>) {
    for (i, variable) in list(spec, "variables").enumerate() {
        check_expression(format!("spec.variables[{i}].expression"), text(variable, "expression"), "", out);
    }
}

/// Validates the expressions of a policy's validations.
pub(crate) fn check_validations(spec: &Value, out: &mut Vec<Cause>) {
    for (i, validation) in list(spec, "validations").enumerate() {
        let field = format!("spec.validations[{i}]");
        check_expression(format!("{field}.expression"), text(validation, "expression"), "bool", out);
        if let Some(text) = validation["messageExpression"].as_str() {
            check_expression(format!("{field}.messageExpression"), text, "string", out);
        }
    }
}

/// Validates the expression of a mutation. Types of variables are not tracked: a result that comes from one is
/// compared when it is evaluated.
pub(crate) fn check_mutation(value: &Value, field: &str, out: &mut Vec<Cause>) {
    let (kind, text) = mutation(value);
    let text = text.trim();
    if text.is_empty() {
        return out.push(Cause::required(field, ""));
    }
    let wanted = kind.result();
    match Expression::compile_mutation(text, &variables()) {
        Err(why) => out.push(Cause::invalid(field, &json!(text), format!("compilation failed: {why}"))),
        Ok(e) => {
            let unknown = e.result_type == "dyn" || kind == MutationKind::JsonPatch && e.result_type == "list";
            if e.result_type != wanted && !unknown {
                let detail = format!("must evaluate to {wanted} but got {}", e.result_type);
                out.push(Cause::invalid(field, &json!(text), detail));
            }
        }
    }
}
