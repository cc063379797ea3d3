//! The certificate of an agent: its key, and the request that the control plane approves and signs
//! (specification/operations.md 2.5, 10.3 to 10.5).

use std::{fmt, time::Duration};

use anyhow::Context as _;
use ironclad_api::{
    agents::{AGENT_GROUP, AGENT_SIGNER, agent_user},
    labels::{SYSTEM, TRUE},
};
use ironclad_runtime::Api;
use ironclad_seam::Clock;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{Client, ResourceExt as _};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};

use super::RegisterError;
use crate::{
    report::answer,
    write::{self, Mode},
};

/// Interval between looks whether the certificate is there.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which somebody is told how to approve a request by hand.
const PENDING: Duration = Duration::from_secs(10);
/// Lifetime of certificates unless another one is asked for, in seconds: a year.
pub const EXPIRATION_SECONDS: i32 = 31_536_000;
/// The shortest lifetime that Kubernetes accepts, in seconds.
pub const EXPIRATION_SECONDS_MIN: i32 = 600;

/// A private key: ECDSA on P-256. `Debug` does not show it.
pub struct PrivateKey(KeyPair);

impl PrivateKey {
    /// A new key.
    ///
    /// # Errors
    /// If the operating system has no randomness.
    pub fn generate() -> anyhow::Result<Self> {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map(Self).context("making a key")
    }

    /// The key as PKCS#8 in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

/// A request for the certificate of a cluster's agent.
#[derive(Debug, Clone, Copy)]
pub struct CertificateRequest<'a> {
    /// The cluster.
    pub cluster: &'a str,
    /// The key that the certificate is for.
    pub key: &'a PrivateKey,
    /// Lifetime that is asked for, in seconds; the signer may shorten it.
    pub expiration_seconds: i32,
    /// Timeout until the certificate is there.
    pub timeout: Duration,
}

/// Requests a certificate, and waits until it is approved and signed; returns it as PEM. A client of a bootstrap token
/// requests the first one, a client of the agent itself its renewal (specification/operations.md 10.4, 10.5).
///
/// # Errors
/// If the control plane refuses the request, denies it, or does not sign it in time.
pub async fn certificate_request(
    client: &Client,
    clock: &Clock,
    request: &CertificateRequest<'_>,
    mut report: impl FnMut(&str),
) -> anyhow::Result<String> {
    let cluster = request.cluster;
    let object = object(request)?;
    let created = write::create(client, &object, Mode::Keep).await;
    let name = created.map_err(|error| RegisterError::requesting(cluster, error))?.name_any();
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let began = clock.mono();
    let mut told = false;
    let mut last = "it is not approved yet".to_owned();
    loop {
        match requests.get_opt(&name).await {
            Ok(Some(found)) => match state(&found) {
                State::Signed(certificate) => return Ok(certificate),
                State::Refused(why) => {
                    return Err(RegisterError::Denied { cluster: cluster.to_owned(), name, why }.into());
                }
                State::Approved => "it is approved, but not signed yet".clone_into(&mut last),
                State::Pending => "it is not approved yet".clone_into(&mut last),
            },
            Ok(None) => {
                let why = "somebody deleted it".to_owned();
                return Err(RegisterError::Denied { cluster: cluster.to_owned(), name, why }.into());
            }
            Err(error) => last = answer(&error),
        }
        let passed = clock.mono() - began;
        if passed >= request.timeout {
            let seconds = request.timeout.as_secs();
            return Err(RegisterError::NotSigned { cluster: cluster.to_owned(), name, seconds, last }.into());
        }
        if passed >= PENDING && !told {
            told = true;
            report(&format!(
                "waiting for the certificate: {last}\n  try: kubectl certificate approve {name}, as an administrator of \
                 the control plane"
            ));
        }
        clock.sleep(LOOK).await;
    }
}

/// The request as an object. The server makes its name: the cluster's, and five random characters.
fn object(request: &CertificateRequest<'_>) -> anyhow::Result<Value> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, AGENT_GROUP);
    params.distinguished_name.push(DnType::CommonName, agent_user(request.cluster));
    let pem = params.serialize_request(&request.key.0).and_then(|signed| signed.pem());
    let pem = pem.context("making the request for a certificate")?;
    Ok(json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"generateName": format!("{}-", request.cluster), "labels": {SYSTEM: TRUE}},
        "spec": {
            "request": ByteString(pem.into_bytes()), "signerName": AGENT_SIGNER,
            "expirationSeconds": request.expiration_seconds, "usages": ["digital signature", "client auth"],
        },
    }))
}

/// State of a request.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Pending,
    Approved,
    /// Denied, or failed, with the reason.
    Refused(String),
    /// The certificate.
    Signed(String),
}

fn state(request: &CertificateSigningRequest) -> State {
    let Some(status) = &request.status else { return State::Pending };
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let find = |kinds: &[&str]| conditions.iter().find(|condition| kinds.contains(&condition.type_.as_str()));
    if let Some(refused) = find(&["Denied", "Failed"]) {
        let said = [&refused.reason, &refused.message].map(|text| text.clone().unwrap_or_default());
        let said = said.iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(": ");
        let kind = refused.type_.to_lowercase();
        return State::Refused(if said.is_empty() { format!("it is {kind}") } else { format!("it is {kind}: {said}") });
    }
    let certificate = status.certificate.as_ref().filter(|bytes| !bytes.0.is_empty());
    match certificate.map(|bytes| String::from_utf8(bytes.0.clone())) {
        Some(Ok(pem)) => State::Signed(pem),
        Some(Err(_)) => State::Refused("its certificate is no text".to_owned()),
        None if find(&["Approved"]).is_some() => State::Approved,
        None => State::Pending,
    }
}

#[cfg(test)]
mod tests {
    use x509_parser::{certification_request::X509CertificationRequest, pem::Pem, prelude::FromDer as _};

    use super::*;

    #[test]
    fn requests_are_of_the_form_that_is_approved() {
        let key = PrivateKey::generate().unwrap();
        let request = CertificateRequest {
            cluster: "m1",
            key: &key,
            expiration_seconds: EXPIRATION_SECONDS,
            timeout: Duration::from_secs(1),
        };
        let object = object(&request).unwrap();
        let request: CertificateSigningRequest = serde_json::from_value(object).unwrap();
        assert_eq!(request.metadata.generate_name.as_deref(), Some("m1-"));
        assert_eq!(request.spec.usages.unwrap(), ["digital signature", "client auth"]);
        assert_eq!((&*request.spec.signer_name, request.spec.expiration_seconds), (AGENT_SIGNER, Some(31_536_000)));
        let block = Pem::iter_from_buffer(&request.spec.request.0).next().unwrap().unwrap();
        assert_eq!(block.label, "CERTIFICATE REQUEST");
        let (_, read) = X509CertificationRequest::from_der(&block.contents).unwrap();
        let subject = &read.certification_request_info.subject;
        let text =
            |found: Option<&x509_parser::x509::AttributeTypeAndValue<'_>>| found.unwrap().as_str().unwrap().to_owned();
        assert_eq!(text(subject.iter_common_name().next()), "system:karmada:agent:m1");
        let organizations: Vec<_> = subject.iter_organization().map(|found| text(Some(found))).collect();
        assert_eq!(organizations, ["system:karmada:agents"]);
        assert!(read.requested_extensions().is_none_or(|mut all| all.next().is_none()), "no other names");
        assert!(!format!("{key:?}").contains("PRIVATE"), "a key is not logged");
    }

    #[test]
    fn states_of_requests() {
        let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "reason": reason, "message": message});
        for (status, want) in [
            (json!(null), State::Pending),
            (json!({}), State::Pending),
            (json!({"conditions": [condition("Approved", "", "")]}), State::Approved),
            (
                json!({"conditions": [condition("Approved", "", "")], "certificate": "cGVt"}),
                State::Signed("pem".to_owned()),
            ),
            (
                json!({"conditions": [condition("Denied", "No", "not you")]}),
                State::Refused("it is denied: No: not you".to_owned()),
            ),
            (
                json!({"conditions": [condition("Approved", "", ""), condition("Failed", "", "")]}),
                State::Refused("it is failed".to_owned()),
            ),
        ] {
            let object = json!({"metadata": {}, "spec": {"request": "", "signerName": "s"}, "status": status});
            let request: CertificateSigningRequest = serde_json::from_value(object).unwrap();
            assert_eq!(state(&request), want, "{status}");
        }
    }
}
