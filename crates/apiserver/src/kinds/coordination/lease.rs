//! Leases.

use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::Kind,
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
        prepare_create: Some(drop_gated_fields),
        prepare_update: |_, new| drop_gated_fields(new),
        validate: |o, _, out| validate(o, out),
        columns: &[NAME, ("Holder", "string", 0), AGE],
        cells: |o, now| vec![name(o), json!(text(o, "/spec/holderIdentity")), created(o, now)],
        ..Strategy::NONE
    },
    ..Kind::new("coordination.k8s.io/v1 leases Lease N rv put")
};

/// Drops the fields of coordinated leader election, whose feature gate is off.
fn drop_gated_fields(lease: &mut Value) {
    if let Some(spec) = lease.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|key, _| key != "strategy" && key != "preferredHolder");
    }
}

fn validate(object: &Value, out: &mut Vec<Cause>) {
    let seconds = at(object, "/spec/leaseDurationSeconds");
    if seconds.as_i64().is_some_and(|s| s <= 0) {
        out.push(Cause::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    let transitions = at(object, "/spec/leaseTransitions");
    if transitions.as_i64().is_some_and(|t| t < 0) {
        out.push(Cause::invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"));
    }
}
