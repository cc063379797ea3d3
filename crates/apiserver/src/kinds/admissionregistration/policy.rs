//! Rules that validating and mutating admission policies share, and those of their bindings.

use serde_json::{Value, json};

use super::constraints::{
    FAILURE_POLICIES, conditions, constraints, default_constraints, is_identifier, one_of, strings,
};
use crate::{
    kinds::shared::{
        defaults::child,
        fields::{list, text},
    },
    names, policies,
    status::Cause,
    webhooks::ConditionVariables,
};

/// Defaults of what a policy or a binding selects, in this field of its spec.
pub(super) fn default_match(object: &mut Value, field: &str) {
    let spec = child(object, "spec");
    if spec[field].is_object() {
        default_constraints(&mut spec[field]);
    }
}

/// Cell of a policy's `spec.paramKind`.
pub(super) fn param_kind(object: &Value) -> Value {
    let kind = &object["spec"]["paramKind"];
    json!(match kind.is_object() {
        true => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
        false => "<unset>".to_owned(),
    })
}

/// Cell of a binding's `spec.paramRef`.
pub(super) fn param_ref(object: &Value) -> Value {
    let reference = &object["spec"]["paramRef"];
    let (namespace, name) = (text(reference, "/namespace"), text(reference, "/name"));
    json!(match (name.is_empty(), namespace.is_empty()) {
        (true, _) if reference["selector"].is_object() => selector_text(&reference["selector"]),
        (true, _) => "<unset>".to_owned(),
        (false, true) => format!("*/{name}"),
        (false, false) => format!("{namespace}/{name}"),
    })
}

/// A label selector as Go prints it.
fn selector_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let labels: String = labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default())).collect();
    let expressions = list(selector, "/matchExpressions").iter().map(|expression| {
        let (key, operator) = (text(expression, "/key"), text(expression, "/operator"));
        let values = strings(expression, "values").join(" ");
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    });
    let expressions: String = expressions.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// Validates what a policy selects, and its variables.
pub(super) fn policy(spec: &Value, out: &mut Vec<Cause>) {
    one_of(&spec["failurePolicy"], "spec.failurePolicy", &FAILURE_POLICIES, out);
    if spec["paramKind"].is_object() {
        for key in ["apiVersion", "kind"] {
            if spec["paramKind"][key].as_str().is_none_or(str::is_empty) {
                out.push(Cause::required(format!("spec.paramKind.{key}"), ""));
            }
        }
    }
    match spec["matchConstraints"].is_object() {
        false => out.push(Cause::required("spec.matchConstraints", "")),
        true => constraints(&spec["matchConstraints"], "spec.matchConstraints", true, out),
    }
    conditions(&spec["matchConditions"], "spec.matchConditions", ConditionVariables::of_policy(spec), out);
    for (i, variable) in list(spec, "/variables").iter().enumerate() {
        let (name, field) = (text(variable, "/name"), format!("spec.variables[{i}].name"));
        if name.is_empty() {
            out.push(Cause::required(field, "name is not specified"));
        } else if !is_identifier(name) {
            out.push(Cause::invalid(field, &json!(name), "must be a valid CEL identifier"));
        }
    }
    policies::check_variables(spec, out);
}

/// Validates what a binding selects.
pub(super) fn binding(spec: &Value, out: &mut Vec<Cause>) {
    let name = text(spec, "/policyName");
    if name.is_empty() {
        out.push(Cause::required("spec.policyName", ""));
    } else {
        out.extend(names::dns_subdomain(name).iter().map(|why| Cause::invalid("spec.policyName", &json!(name), why)));
    }
    let reference = &spec["paramRef"];
    if reference.is_object() {
        match (reference["name"].as_str().is_some_and(|n| !n.is_empty()), !reference["selector"].is_null()) {
            (true, true) => {
                let why = "name and selector are mutually exclusive";
                out.push(Cause::forbidden("spec.paramRef.name", why));
            }
            (false, false) => {
                out.push(Cause::required("spec.paramRef", "one of name or selector must be specified"));
            }
            _ => {}
        }
        let (action, field) = (&reference["parameterNotFoundAction"], "spec.paramRef.parameterNotFoundAction");
        match action.is_null() {
            true => out.push(Cause::required(field, "")),
            false => one_of(action, field, &["Deny", "Allow"], out),
        }
    }
    if spec["matchResources"].is_object() {
        constraints(&spec["matchResources"], "spec.matchResources", false, out);
    }
}

/// Operations that a mutating policy may name: there is nothing to change in a deletion.
const MUTATED: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Refuses operations that are never mutated.
pub(super) fn mutated_operations(constraints: &Value, field: &str, out: &mut Vec<Cause>) {
    for rule in list(constraints, "/resourceRules") {
        for operation in strings(rule, "operations") {
            one_of(&json!(operation), &format!("{field}.resourceRules.operations"), &MUTATED, out);
        }
    }
}
