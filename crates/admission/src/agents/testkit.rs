//! Requests for certificates, as tests need them.

use std::net::{IpAddr, Ipv4Addr};

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

/// Subject and alternative names of a request.
pub(crate) struct Subject {
    pub(crate) common_name: Option<String>,
    pub(crate) organizations: Vec<&'static str>,
    pub(crate) dns_name: Option<&'static str>,
    pub(crate) address: bool,
}

/// The subject of a cluster's agent.
pub(crate) fn agent(cluster: &str) -> Subject {
    Subject {
        common_name: Some(format!("system:karmada:agent:{cluster}")),
        organizations: vec!["system:karmada:agents"],
        dns_name: None,
        address: false,
    }
}

/// The organization, as an attribute that may be there more than once.
fn organization() -> DnType {
    DnType::CustomDnType(vec![2, 5, 4, 10])
}

/// A request that the holder of a bootstrap token makes.
pub(crate) fn request(subject: &Subject) -> CertificateSigningRequest {
    let mut name = DistinguishedName::new();
    for (i, text) in subject.organizations.iter().enumerate() {
        name.push(if i == 0 { DnType::OrganizationName } else { organization() }, *text);
    }
    if let Some(text) = &subject.common_name {
        name.push(DnType::CommonName, text.as_str());
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.subject_alt_names.extend(subject.dns_name.map(|name| SanType::DnsName(name.try_into().unwrap())));
    if subject.address {
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    let mut request = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: "kubernetes.io/kube-apiserver-client".to_owned(),
            usages: Some(["digital signature", "key encipherment", "client auth"].map(str::to_owned).into()),
            username: Some("system:bootstrap:abcdef".to_owned()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    request.metadata.name = Some("m1-xyz".to_owned());
    request
}

/// Seconds since the epoch.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}
