//! ValidatingAdmissionPolicies.

use serde_json::{Value, json};

use super::{
    constraints::one_of,
    policy::{default_match, param_kind, policy},
};
use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, items, name},
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
            set(child(o, "spec"), "failurePolicy", "Fail");
            default_match(o, "matchConstraints");
        },
        validate: |o, _, out| validate(o, out),
        warnings: |o, _| {
            let is_set = items(o, "/spec/auditAnnotations").next().is_some();
            is_set
                .then(|| "spec.auditAnnotations has no effect: this server writes no audit log".to_owned())
                .into_iter()
                .collect()
        },
        columns: &[NAME, ("Validations", "integer", 0), ("ParamKind", "string", 0), AGE],
        cells: |o, now| vec![name(o), json!(items(o, "/spec/validations").count()), param_kind(o), created(o, now)],
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
    policy(spec, out);
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
    policies::check_validations(spec, out);
}
