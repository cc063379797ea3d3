//! MutatingAdmissionPolicyBindings.

use serde_json::{Value, json};

use super::policy::{binding, default_match, mutated_operations, param_ref};
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
        columns: &[NAME, ("PolicyName", "string", 0), ("ParamRef", "string", 0), AGE],
        cells: |o, now| vec![name(o), json!(text(o, "/spec/policyName")), param_ref(o), created(o, now)],
        ..Strategy::NONE
    },
    hooks: Hooks { after_write: super::changed, ..Hooks::NONE },
    ..Kind::new(
        "admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding C ext gen rv",
    )
};

/// A MutatingAdmissionPolicyBinding.
fn validate(object: &Value, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    binding(spec, out);
    mutated_operations(&spec["matchResources"], "spec.matchResources", out);
}
