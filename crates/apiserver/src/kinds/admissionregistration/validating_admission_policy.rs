//! ValidatingAdmissionPolicies.

use serde_json::{Value, json};

use super::constraints::{FAILURE_POLICIES, conditions, constraints, default_constraints, is_identifier, one_of};
use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            defaults::{child, set},
            fields::{at, list, text},
        },
    },
    policies,
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            let spec = child(o, "spec");
            set(spec, "failurePolicy", "Fail");
            if spec["matchConstraints"].is_object() {
                default_constraints(&mut spec["matchConstraints"]);
            }
        },
        validate: |o, _, out| validate(o, out),
        ..Strategy::NONE
    },
    hooks: Hooks { after_write: super::changed, ..Hooks::NONE },
    ..Kind::new(
        "admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy C ext gen rv +status",
    )
};

/// A ValidatingAdmissionPolicy.
fn validate(object: &Value, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
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
    conditions(&spec["matchConditions"], "spec.matchConditions", out);
    for (i, variable) in list(spec, "/variables").iter().enumerate() {
        let (name, field) = (text(variable, "/name"), format!("spec.variables[{i}].name"));
        if name.is_empty() {
            out.push(Cause::required(field, "name is not specified"));
        } else if !is_identifier(name) {
            out.push(Cause::invalid(field, &json!(name), "must be a valid CEL identifier"));
        }
    }
    let validations = list(spec, "/validations");
    if validations.is_empty() && list(spec, "/auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        out.push(Cause::required("spec.validations", why));
        out.push(Cause::required("spec.auditAnnotations", why));
    }
    for (i, validation) in validations.iter().enumerate() {
        let field = format!("spec.validations[{i}]");
        if text(validation, "/message").trim().contains('\n') {
            let why = "must not contain line breaks";
            out.push(Cause::invalid(format!("{field}.message"), &validation["message"], why));
        }
        let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        one_of(&validation["reason"], &format!("{field}.reason"), &reasons, out);
    }
    policies::check_expressions(spec, out);
}
