//! CertificateSigningRequests.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    kinds::{
        kind::{Hooks, Kind},
        shared::{
            columns::{AGE, NAME, created, items, name},
            fields::text,
        },
    },
    registry::strategy::Strategy,
    table::age,
};

mod admission;
mod validate;

pub(in crate::kinds) const KIND: Kind = Kind {
    strategy: Strategy {
        // The requester and the request are immutable.
        prepare_update: |old, new| {
            if let Some(spec) = old.get("spec") {
                new["spec"] = spec.clone();
            }
        },
        set_condition_times: admission::set_condition_times,
        validate: validate::request,
        columns: &[
            NAME,
            AGE,
            ("SignerName", "string", 0),
            ("Requestor", "string", 0),
            ("RequestedDuration", "string", 0),
            ("Condition", "string", 0),
        ],
        cells,
        selectable_fields: &["spec.signerName"],
        server_owns_spec: true,
        ..Strategy::NONE
    },
    hooks: Hooks { admit_create: admission::create, admit_update: admission::update, ..Hooks::NONE },
    ..Kind::new(
        "certificates.k8s.io/v1 certificatesigningrequests CertificateSigningRequest C short=csr +approval +status",
    )
};

fn cells(o: &Value, now: Timestamp) -> Vec<Value> {
    let seconds = o.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
    let duration = seconds.map_or_else(|| "<none>".to_owned(), age::human);
    let (signer, asked_by) = (text(o, "/spec/signerName"), text(o, "/spec/username"));
    vec![name(o), created(o, now), json!(signer), json!(asked_by), json!(duration), json!(condition(o))]
}

/// The state of a request in words: `Approved,Issued`.
fn condition(o: &Value) -> String {
    let is = |wanted: &str| items(o, "/status/conditions").any(|c| c["type"] == wanted);
    let mut out = match (is("Denied"), is("Approved")) {
        (true, _) => "Denied".to_owned(),
        (_, true) => "Approved".to_owned(),
        _ => "Pending".to_owned(),
    };
    if is("Failed") {
        out += ",Failed";
    }
    if !text(o, "/status/certificate").is_empty() {
        out += ",Issued";
    }
    out
}
