//! MutatingAdmissionPolicies.

use serde_json::{Value, json};

use super::{
    constraints::one_of,
    policy::{default_match, mutated_operations, param_kind, policy},
};
use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, items, name},
            defaults::{child, set},
            fields::{at, list},
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
        columns: &[NAME, ("Mutations", "integer", 0), ("ParamKind", "string", 0), AGE],
        cells: |o, now| vec![name(o), json!(items(o, "/spec/mutations").count()), param_kind(o), created(o, now)],
        ..Strategy::NONE
    },
    hooks: Hooks { after_write: super::changed, ..Hooks::NONE },
    ..Kind::new("admissionregistration.k8s.io/v1 mutatingadmissionpolicies MutatingAdmissionPolicy C ext gen rv")
};

/// A MutatingAdmissionPolicy.
fn validate(object: &Value, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    policy(spec, out);
    mutated_operations(&spec["matchConstraints"], "spec.matchConstraints", out);
    let mutations = list(spec, "/mutations");
    if mutations.is_empty() {
        out.push(Cause::required("spec.mutations", "mutations must contain at least one item"));
    }
    for (i, mutation) in mutations.iter().enumerate() {
        one_mutation(mutation, &format!("spec.mutations[{i}]"), out);
    }
    match spec["reinvocationPolicy"].as_str().unwrap_or_default() {
        "" => out.push(Cause::required("spec.reinvocationPolicy", "")),
        given => one_of(&json!(given), "spec.reinvocationPolicy", &["IfNeeded", "Never"], out),
    }
}

/// A mutation has the expression of its type, and no other.
fn one_mutation(mutation: &Value, field: &str, out: &mut Vec<Cause>) {
    let ty = mutation["patchType"].as_str().unwrap_or_default();
    let (own, other) = match ty {
        "" => return out.push(Cause::required(format!("{field}.patchType"), "")),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        _ => {
            return one_of(&json!(ty), &format!("{field}.patchType"), &["ApplyConfiguration", "JSONPatch"], out);
        }
    };
    match mutation[own].is_object() {
        false => {
            out.push(Cause::required(format!("{field}.{own}"), &format!("must be specified when patchType is {ty}")))
        }
        true => policies::check_mutation(mutation, &format!("{field}.{own}.expression"), out),
    }
    if mutation[other].is_object() {
        let why = format!("must not be specified when patchType is {ty}");
        out.push(Cause::invalid(format!("{field}.{other}"), &json!(format!("{{{other}}}")), why));
    }
}
