//! Validation of CertificateSigningRequests: the request, and changes of conditions and certificate.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use x509_parser::{certification_request::X509CertificationRequest, pem::Pem, prelude::FromDer};

use crate::{
    kinds::shared::fields::{at, list, text},
    names,
    status::Cause,
};

const USAGES: [&str; 23] = [
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
];
/// The least that a request may ask for.
const SECONDS_MIN: i64 = 600;
/// Conditions that are set once and stay.
const LASTING: [&str; 3] = ["Approved", "Denied", "Failed"];

/// The blocks of a field in base64 that holds PEM.
fn blocks(value: &Value) -> Option<Vec<Pem>> {
    let bytes = STANDARD.decode(value.as_str()?).ok()?;
    let blocks: Result<Vec<Pem>, _> = Pem::iter_from_buffer(&bytes).collect();
    blocks.ok()
}

/// Error of a field that contains no certificate request.
fn wrong_request(value: &Value) -> Option<String> {
    let block = blocks(value).and_then(|blocks| blocks.into_iter().next());
    match block.filter(|block| block.label == "CERTIFICATE REQUEST") {
        None => Some("PEM block type must be CERTIFICATE REQUEST".to_owned()),
        Some(block) => match X509CertificationRequest::from_der(&block.contents) {
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        },
    }
}

/// The organisations that a request names as its subject's; none of what can't be read.
pub(super) fn organizations(object: &Value) -> Vec<String> {
    let Some(block) = blocks(at(object, "/spec/request")).and_then(|blocks| blocks.into_iter().next()) else {
        return vec![];
    };
    let Ok((_, request)) = X509CertificationRequest::from_der(&block.contents) else { return vec![] };
    let subject = &request.certification_request_info.subject;
    subject.iter_organization().filter_map(|o| o.as_str().ok().map(str::to_owned)).collect()
}

pub(super) fn request(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let spec = at(object, "/spec");
    // Conditions of these types are permanent.
    if old.is_none() {
        if let Some(why) = wrong_request(&spec["request"]) {
            out.push(Cause::invalid("spec.request", &spec["request"], why));
        }
        usages(spec, out);
        signer(text(spec, "/signerName"), out);
        if let Some(seconds) = spec["expirationSeconds"].as_i64().filter(|seconds| *seconds < SECONDS_MIN) {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            out.push(Cause::invalid("spec.expirationSeconds", &json!(seconds), why));
        }
    }
    conditions(object, old, out);
    certificate(object, old, out);
}

fn usages(spec: &Value, out: &mut Vec<Cause>) {
    let given = list(spec, "/usages");
    if given.is_empty() {
        out.push(Cause::required("spec.usages", ""));
    }
    let mut seen = BTreeSet::new();
    for (i, usage) in given.iter().enumerate() {
        let (field, name) = (format!("spec.usages[{i}]"), usage.as_str().unwrap_or_default());
        if !USAGES.contains(&name) {
            out.push(Cause::unsupported(field, usage, &USAGES));
        } else if !seen.insert(name) {
            out.push(Cause::duplicate(field, usage));
        }
    }
}

fn signer(name: &str, out: &mut Vec<Cause>) {
    const FIELD: &str = "spec.signerName";
    let mut wrong = |why: &str| out.push(Cause::invalid(FIELD, &json!(name), why));
    match name.split_once('/') {
        _ if name.is_empty() => out.push(Cause::required(FIELD, "")),
        _ if name == "kubernetes.io/legacy-unknown" => {
            wrong("the legacy signerName is not allowed via this API version");
        }
        Some((domain, path)) if !path.is_empty() && !path.contains('/') => {
            names::dns_subdomain(domain).iter().for_each(|why| wrong(why));
        }
        _ => wrong("must be a fully qualified domain and path of the form 'example.com/signer-name'"),
    }
}

fn conditions(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    let given = list(object, "/status/conditions");
    let mut seen = BTreeSet::new();
    for (i, condition) in given.iter().enumerate() {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        let field = format!("status.conditions[{i}]");
        if kind.is_empty() {
            out.push(Cause::required(format!("{field}.type"), ""));
        }
        let allowed: &[&str] = if LASTING.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        let at = format!("{field}.status");
        if status.is_empty() {
            out.push(Cause::required(at, ""));
        } else if !allowed.contains(&status) {
            out.push(Cause::unsupported(at, &condition["status"], allowed));
        }
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if seen.contains(other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            out.push(Cause::invalid("status.conditions", &json!(kind), why));
        }
        seen.insert(kind);
    }
    let Some(old) = old else { return };
    for lasting in LASTING {
        let was = list(old, "/status/conditions").iter().any(|c| c["type"] == lasting);
        if was && !seen.contains(lasting) {
            let why = format!("updates may not remove a condition of type {lasting:?}");
            out.push(Cause::forbidden("status.conditions", &why));
        }
    }
}

fn certificate(object: &Value, old: Option<&Value>, out: &mut Vec<Cause>) {
    const FIELD: &str = "status.certificate";
    let is = at(object, "/status/certificate");
    let was = old.map_or(&Value::Null, |old| at(old, "/status/certificate"));
    let has = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if has(was) {
        if is != was {
            out.push(Cause::forbidden(FIELD, "updates may not modify existing certificate content"));
        }
        return;
    }
    let holds_one = |blocks: Vec<Pem>| blocks.iter().any(|block| block.label == "CERTIFICATE");
    if has(is) && !blocks(is).is_some_and(holds_one) {
        let why = "must contain at least one CERTIFICATE PEM block";
        out.push(Cause::invalid(FIELD, &json!("<certificate data>"), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csr(group: &str) -> String {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        let request = params.serialize_request(&rcgen::KeyPair::generate().unwrap()).unwrap();
        STANDARD.encode(request.pem().unwrap())
    }

    fn messages(object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        request(object, old, &mut out);
        out.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect()
    }

    #[test]
    fn requests() {
        let spec = |more: Value| {
            let mut spec = json!({"request": csr("devs"), "signerName": "example.com/s", "usages": ["client auth"]});
            more.as_object().unwrap().iter().for_each(|(key, value)| spec[key] = value.clone());
            json!({"spec": spec})
        };
        for (more, want) in [
            (json!({}), vec![]),
            (
                json!({"request": "bm9wZQ=="}),
                vec!["spec.request: Invalid value: \"bm9wZQ==\": PEM block type must be CERTIFICATE REQUEST"],
            ),
            (
                json!({"usages": [], "signerName": ""}),
                vec!["spec.usages: Required value", "spec.signerName: Required value"],
            ),
            (
                json!({"usages": ["any", "any"], "signerName": "nodomain"}),
                vec![
                    "spec.usages[1]: Duplicate value: \"any\"",
                    "spec.signerName: Invalid value: \"nodomain\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
                ],
            ),
            (
                json!({"expirationSeconds": 599}),
                vec![
                    "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
                ],
            ),
            (json!({"expirationSeconds": 600}), vec![]),
        ] {
            assert_eq!(messages(&spec(more.clone()), None), want, "{more}");
        }
        assert_eq!(organizations(&json!({"spec": {"request": csr("system:masters")}})), ["system:masters"]);
    }

    #[test]
    fn answers() {
        let with = |types: &[&str], certificate: &str| {
            let conditions: Vec<Value> = types.iter().map(|t| json!({"type": t, "status": "True"})).collect();
            json!({"status": {"conditions": conditions, "certificate": certificate}})
        };
        let plain = |types: &[&str]| with(types, "");
        let made = STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
        for (name, old, new, want) in [
            ("approved", plain(&[]), plain(&["Approved"]), vec![]),
            (
                "both",
                plain(&["Approved"]),
                plain(&["Approved", "Denied"]),
                vec![
                    "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
                ],
            ),
            (
                "taken back",
                plain(&["Approved"]),
                plain(&[]),
                vec!["status.conditions: Forbidden: updates may not remove a condition of type \"Approved\""],
            ),
            ("signed", plain(&["Approved"]), with(&["Approved"], &made), vec![]),
            (
                "no certificate",
                plain(&[]),
                with(&[], "bm9wZQ=="),
                vec![
                    "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block",
                ],
            ),
            (
                "another certificate",
                with(&[], &made),
                with(&[], ""),
                vec!["status.certificate: Forbidden: updates may not modify existing certificate content"],
            ),
        ] {
            assert_eq!(messages(&new, Some(&old)), want, "{name}");
        }
    }
}
