//! ValidatingAdmissionPolicyBindings.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    constraints::{one_of, strings},
    policy::{binding, default_match, param_ref},
};
use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, name},
            fields::{at, text},
        },
    },
    registry::strategy::Strategy,
    status::Cause,
};

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        defaults: |o| default_match(o, "matchResources"),
        validate: |o, _, out| validate(o, out),
        warnings: |o, _| {
            let audits = strings(at(o, "/spec"), "validationActions").contains(&"Audit");
            let text = "spec.validationActions: Audit has no effect: this server writes no audit log";
            audits.then(|| text.to_owned()).into_iter().collect()
        },
        columns: &[NAME, ("PolicyName", "string", 0), ("ParamRef", "string", 0), AGE],
        cells: |o, now| vec![name(o), json!(text(o, "/spec/policyName")), param_ref(o), created(o, now)],
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
    binding(spec, out);
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
