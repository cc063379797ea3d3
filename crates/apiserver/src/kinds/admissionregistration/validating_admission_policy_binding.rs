//! ValidatingAdmissionPolicyBindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::constraints::{constraints, default_constraints, one_of, strings};
use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            defaults::child,
            fields::{at, text},
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| {
            let spec = child(o, "spec");
            if spec["matchResources"].is_object() {
                default_constraints(&mut spec["matchResources"]);
            }
        },
        validate: |o, _, out| validate(o, out),
        ..Strategy::NONE
    },
    hooks: Hooks { after_write: super::changed, ..Hooks::NONE },
    ..Kind::new(
        "admissionregistration.k8s.io/v1 validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding C ext gen rv",
    )
};

/// A ValidatingAdmissionPolicyBinding.
fn validate(object: &Value, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    if text(spec, "/policyName").is_empty() {
        out.push(Cause::required("spec.policyName", ""));
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
    let actions = strings(spec, "validationActions");
    if actions.is_empty() {
        let why = "at least one validation action is required";
        return out.push(Cause::required("spec.validationActions", why));
    }
    let mut seen = BTreeSet::new();
    for (i, action) in actions.iter().enumerate() {
        let field = format!("spec.validationActions[{i}]");
        one_of(&json!(action), &field, &["Audit", "Deny", "Warn"], out);
        if !seen.insert(*action) {
            out.push(Cause::duplicate(field, &json!(action)));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        out.push(Cause::invalid("spec.validationActions", &json!(["Deny", "Warn"]), why));
    }
}
