//! Decision about a CertificateSigningRequest: sign, fail, or remove.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition},
    apimachinery::pkg::apis::meta::v1::Time,
};
use x509_parser::{pem::Pem, prelude::parse_x509_certificate};

use super::{Order, signers};

/// Default and maximum validity of a certificate.
const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
const LIFE_MIN: SignedDuration = SignedDuration::from_mins(10);
/// The start of the validity is backdated by this much, for clients whose clocks are slow.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
/// Certificates shorter than this get the backdated time added to their end.
const SHORT: SignedDuration = SignedDuration::from_hours(8);
const COMPLETED_RETENTION: SignedDuration = SignedDuration::from_hours(1);
const PENDING_RETENTION: SignedDuration = SignedDuration::from_hours(24);

/// Decision about a request, and the time of the next reconcile if nothing changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) verdict: Verdict,
    pub(super) again: Option<Duration>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Nothing,
    Remove,
    Sign(Order),
    /// Fail the approved request, with the reason.
    Fail(String),
}

pub(super) fn decide(request: &CertificateSigningRequest, now: Timestamp) -> Plan {
    let nothing = |again| Plan { verdict: Verdict::Nothing, again };
    if request.metadata.deletion_timestamp.is_some() {
        return nothing(None);
    }
    let old = old_at(request);
    if old.is_some_and(|old| now > old) {
        return Plan { verdict: Verdict::Remove, again: None };
    }
    if has(request, "Approved") && !has(request, "Failed") && certificate(request).is_none() {
        match signers::order(&request.spec, life(request.spec.expiration_seconds, now)) {
            signers::SignerVerdict::NotOurs => {}
            signers::SignerVerdict::Order(order) => return Plan { verdict: Verdict::Sign(order), again: None },
            signers::SignerVerdict::Misfit(why) => return Plan { verdict: Verdict::Fail(why), again: None },
        }
    }
    // A request is removed when it is strictly older than its retention: wait a tick longer.
    let wait =
        |old: Timestamp| Duration::try_from(old.duration_since(now)).unwrap_or_default() + Duration::from_millis(1);
    nothing(old.map(wait))
}

/// Returns start and end of the validity of a certificate issued now.
fn life(seconds: Option<i32>, now: Timestamp) -> (Timestamp, Timestamp) {
    let asked = seconds.map_or(LIFE, |seconds| SignedDuration::from_secs(seconds.into()));
    let life = asked.clamp(LIFE_MIN, LIFE);
    let counted = if life < SHORT { life } else { life - BACKDATE };
    (now.saturating_sub(BACKDATE).unwrap_or(now), now.saturating_add(counted).unwrap_or(now))
}

pub(super) fn failed(
    request: &CertificateSigningRequest,
    why: &str,
    now: Timestamp,
) -> Vec<CertificateSigningRequestCondition> {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let mut conditions = conditions(request).to_vec();
    conditions.push(CertificateSigningRequestCondition {
        type_: "Failed".to_owned(),
        status: "True".to_owned(),
        reason: Some("SignerValidationFailure".to_owned()),
        message: Some(why.to_owned()),
        last_update_time: Some(Time(whole)),
        last_transition_time: None,
    });
    conditions
}

/// Time after which the request is removed.
fn old_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let after = |at: Option<&Time>, kept: SignedDuration| at.and_then(|at| at.0.saturating_add(kept).ok());
    let all = conditions(request);
    if all.is_empty() {
        return after(request.metadata.creation_timestamp.as_ref(), PENDING_RETENTION);
    }
    let certificate = certificate(request);
    let ends = certificate.and_then(ends_at);
    let of_one = |condition: &CertificateSigningRequestCondition| {
        let since = condition.last_update_time.as_ref();
        match (condition.type_.as_str(), certificate) {
            ("Denied" | "Failed", _) => after(since, COMPLETED_RETENTION),
            ("Approved", Some(_)) => after(since, COMPLETED_RETENTION).into_iter().chain(ends).min(),
            ("Approved", None) => after(since, PENDING_RETENTION),
            _ => None,
        }
    };
    all.iter().filter_map(of_one).min()
}

fn conditions(request: &CertificateSigningRequest) -> &[CertificateSigningRequestCondition] {
    request.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default()
}

fn has(request: &CertificateSigningRequest, kind: &str) -> bool {
    conditions(request).iter().any(|c| c.type_ == kind && c.status == "True")
}

fn certificate(request: &CertificateSigningRequest) -> Option<&[u8]> {
    let bytes = request.status.as_ref().and_then(|s| s.certificate.as_ref())?;
    Some(bytes.0.as_slice()).filter(|bytes| !bytes.is_empty())
}

fn ends_at(certificate: &[u8]) -> Option<Timestamp> {
    let block = Pem::iter_from_buffer(certificate).next()?.ok()?;
    let (_, parsed) = parse_x509_certificate(&block.contents).ok()?;
    Timestamp::from_second(parsed.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::*;
    use crate::testkit::at;

    const HOUR: i64 = 3_600;
    /// Ends 2026-11-23T11:52:38Z.
    const CERTIFICATE: &str = include_str!("testdata/ended.pem");
    const CERTIFICATE_ENDS: i64 = 1_795_434_758;

    fn request(status: Value) -> CertificateSigningRequest {
        let spec = json!({"request": "", "signerName": "example.com/own", "usages": ["client auth"]});
        let metadata = json!({"name": "r", "creationTimestamp": at(0).to_string()});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn condition(kind: &str, since: i64) -> Value {
        json!({"type": kind, "status": "True", "lastUpdateTime": at(since).to_string()})
    }

    #[test]
    fn old_requests_are_removed() {
        let conditions = |all: &[Value]| request(json!({"conditions": all}));
        let with = |mut request: CertificateSigningRequest, certificate: &str| {
            let bytes = ByteString(certificate.as_bytes().to_vec());
            request.status.get_or_insert_default().certificate = Some(bytes);
            request
        };
        let late = CERTIFICATE_ENDS - HOUR / 2;
        for (name, request, last) in [
            ("pending: a day", conditions(&[]), 24 * HOUR),
            ("denied: an hour from the denial", conditions(&[condition("Denied", 100)]), 100 + HOUR),
            (
                "approved and not signed: a day from the approval",
                conditions(&[condition("Approved", 100)]),
                100 + 24 * HOUR,
            ),
            (
                "approved and failed: an hour from the failure",
                conditions(&[condition("Approved", 100), condition("Failed", 200)]),
                200 + HOUR,
            ),
            ("signed: an hour from the approval", with(conditions(&[condition("Approved", 100)]), "x"), 100 + HOUR),
            (
                "its certificate expired: immediately",
                with(conditions(&[condition("Approved", late)]), CERTIFICATE),
                CERTIFICATE_ENDS,
            ),
        ] {
            let left = Plan { verdict: Verdict::Nothing, again: Some(Duration::from_millis(1)) };
            assert_eq!(decide(&request, at(last)), left, "{name}: exactly at the limit it is kept");
            let removed = Plan { verdict: Verdict::Remove, again: None };
            assert_eq!(decide(&request, at(last + 1)), removed, "{name}: after the limit it is removed");
            let earlier = decide(&request, at(last - 60)).again;
            assert_eq!(
                earlier,
                Some(Duration::from_millis(60_001)),
                "{name}: the next reconcile is just after the limit"
            );
        }
        let other = conditions(&[condition("Reviewed", 0)]);
        assert_eq!(
            decide(&other, at(100 * HOUR)).verdict,
            Verdict::Nothing,
            "a condition of an unknown type does not remove it"
        );
        let mut going = conditions(&[]);
        going.metadata.deletion_timestamp = Some(Time(at(0)));
        assert_eq!(decide(&going, at(100 * HOUR)), Plan { verdict: Verdict::Nothing, again: None });
    }

    #[test]
    fn validity_of_certificates() {
        let now = at(1_000_000);
        for (name, asked, want) in [
            ("no validity requested: a year, backdated", None, 365 * 24 * HOUR - 300),
            ("more than a year", Some(i32::MAX), 365 * 24 * HOUR - 300),
            ("less than ten minutes", Some(1), 600),
            ("ten minutes from now, not from the backdated start", Some(600), 600),
            ("just short", Some(8 * 3_600 - 1), 8 * HOUR - 1),
            ("eight hours: no longer short", Some(8 * 3_600), 8 * HOUR - 300),
        ] {
            let (from, until) = life(asked, now);
            assert_eq!(now.as_second() - from.as_second(), 300, "{name}");
            assert_eq!(until.as_second() - now.as_second(), want, "{name}");
        }
    }

    #[test]
    fn a_failure_is_added_to_the_conditions() {
        let request = request(json!({"conditions": [condition("Approved", 5)]}));
        let now = at(7).saturating_add(SignedDuration::from_millis(300)).unwrap();
        let conditions = serde_json::to_value(failed(&request, "because", now)).unwrap();
        assert_eq!(conditions[0], condition("Approved", 5));
        let want = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": "because",
            "lastUpdateTime": at(7).to_string()});
        assert_eq!(conditions[1], want);
    }
}
