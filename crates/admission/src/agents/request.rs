//! CertificateSigningRequests of agents (specification/operations.md 10.4).

use std::collections::BTreeSet;

use ironclad_api::agents::{AGENT_GROUP, AGENT_SIGNER, AGENT_USER_PREFIX, RBAC_GENERATOR};
use jiff::Timestamp;
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
    certificates::v1::CertificateSigningRequest,
};
use x509_parser::{
    certification_request::X509CertificationRequest, cri_attributes::ParsedCriAttribute, extensions::ParsedExtension,
    pem::Pem, prelude::FromDer as _, x509::AttributeTypeAndValue,
};

use crate::kinds::quota::cluster_name_mistakes;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// Occasion of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// The agent itself asks for its next certificate.
    Renewal,
    /// Somebody else, usually the holder of a bootstrap token, asks for an agent's first certificate.
    First,
    /// karmadactl asks for a certificate of [`RBAC_GENERATOR`], before it asks for the agent's first one.
    Registrar,
}

/// A request for the certificate of a cluster's agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentRequest {
    /// Name of the cluster. It is a valid one; the Cluster need not exist. With [`Occasion::Registrar`] it is the end
    /// of that user's name, and no cluster's.
    pub cluster: String,
    /// Occasion of the request.
    pub occasion: Occasion,
}

impl AgentRequest {
    /// Recognises the request of an agent: signer, subject, usages, and no alternative names. `None` for all others,
    /// also for those that cannot be parsed.
    #[must_use]
    pub fn of(request: &CertificateSigningRequest) -> Option<Self> {
        let spec = &request.spec;
        if spec.signer_name != AGENT_SIGNER || !are_usages_of_clients(spec.usages.as_deref().unwrap_or_default()) {
            return None;
        }
        let user = subject_of_agent(&spec.request.0)?;
        let cluster = user.strip_prefix(AGENT_USER_PREFIX).filter(|name| cluster_name_mistakes(name).is_empty())?;
        let occasion = if user == RBAC_GENERATOR {
            Occasion::Registrar
        } else if spec.username.as_deref() == Some(&*user) {
            Occasion::Renewal
        } else {
            Occasion::First
        };
        Some(Self { cluster: cluster.to_owned(), occasion })
    }

    /// The question whether the requester may have it approved, for the authorizer of the control plane.
    #[must_use]
    pub fn access_review(&self, request: &CertificateSigningRequest) -> SubjectAccessReview {
        let subresource = match self.occasion {
            Occasion::Renewal => "selfclusteragent",
            Occasion::First | Occasion::Registrar => "clusteragent",
        };
        let asked = request.spec.clone();
        let attributes = ResourceAttributes {
            group: Some("certificates.k8s.io".to_owned()),
            version: Some("*".to_owned()),
            resource: Some("certificatesigningrequests".to_owned()),
            verb: Some("create".to_owned()),
            subresource: Some(subresource.to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: asked.username,
            uid: asked.uid,
            groups: asked.groups,
            extra: asked.extra,
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        SubjectAccessReview { spec, ..SubjectAccessReview::default() }
    }
}

/// The question whether [`RBAC_GENERATOR`] may do everything, for the authorizer of the control plane. Karmada binds it
/// so, and then no request for its certificate may be approved.
#[must_use]
pub fn administrator_review() -> SubjectAccessReview {
    registrar_review("*", "*", "*")
}

/// The question whether [`RBAC_GENERATOR`] has the rights of this control plane. It gets them where webhooks limit it.
#[must_use]
pub fn registrar_rights_review() -> SubjectAccessReview {
    registrar_review("", "namespaces", "create")
}

fn registrar_review(group: &str, resource: &str, verb: &str) -> SubjectAccessReview {
    let attributes = ResourceAttributes {
        group: Some(group.to_owned()),
        version: Some("*".to_owned()),
        resource: Some(resource.to_owned()),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(RBAC_GENERATOR.to_owned()),
        groups: Some(vec![AGENT_GROUP.to_owned()]),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

/// Returns true for `digital signature` and `client auth`, with or without `key encipherment`, which RSA keys have.
fn are_usages_of_clients(usages: &[String]) -> bool {
    let mut given: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    given.remove("key encipherment");
    given == BTreeSet::from(["client auth", "digital signature"])
}

/// The common name of a subject that is an agent's: exactly one name, exactly one organization, no alternative names.
fn subject_of_agent(pem: &[u8]) -> Option<String> {
    let block = Pem::iter_from_buffer(pem).next()?.ok().filter(|block| block.label == "CERTIFICATE REQUEST")?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).ok()?;
    let info = &request.certification_request_info;
    let only = |mut all: Vec<&AttributeTypeAndValue<'_>>| match (all.pop(), all.len()) {
        (Some(one), 0) => one.as_str().ok().map(str::to_owned),
        _ => None,
    };
    let organization = only(info.subject.iter_organization().collect())?;
    let name = only(info.subject.iter_common_name().collect())?;
    let has_other_names = info.iter_attributes().any(|attribute| match attribute.parsed_attribute() {
        ParsedCriAttribute::ExtensionRequest(asked) => asked.extensions.iter().any(|extension| {
            let parsed = extension.parsed_extension();
            matches!(parsed, ParsedExtension::SubjectAlternativeName(_) | ParsedExtension::ParseError { .. })
        }),
        _ => false,
    });
    (organization == AGENT_GROUP && !has_other_names).then_some(name)
}

fn has(request: &CertificateSigningRequest, type_: &str) -> bool {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|condition| condition.type_ == type_)
}

/// Returns true if nobody has decided on a request yet, nor signed it.
#[must_use]
pub fn is_pending(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    let is_signed = certificate.is_some_and(|certificate| !certificate.0.is_empty());
    let is_decided = [APPROVED, DENIED, FAILED].into_iter().any(|type_| has(request, type_));
    !is_signed && !is_decided && request.metadata.deletion_timestamp.is_none()
}

/// Time at which a request was approved. `None` unless it is, and was neither denied nor failed.
#[must_use]
pub fn approved_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    if has(request, DENIED) || has(request, FAILED) {
        return None;
    }
    let mut conditions = request.status.as_ref()?.conditions.iter().flatten();
    let approved = conditions.find(|condition| condition.type_ == APPROVED && condition.status == "True")?;
    let created = request.metadata.creation_timestamp.as_ref();
    approved.last_update_time.as_ref().or(created).map(|at| at.0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::agents::testkit::{Subject, agent, at, request};

    #[test]
    fn requests_of_agents_are_recognised() {
        let m1 = || agent("m1");
        let first = |request: &CertificateSigningRequest| AgentRequest::of(request).map(|asked| asked.cluster);
        let organized = |organizations: &[&'static str]| Subject { organizations: organizations.to_vec(), ..m1() };
        for (name, subject, want) in [
            ("an agent", m1(), Some("m1")),
            ("the longest name", agent(&"a".repeat(48)), Some(&*"a".repeat(48))),
            ("a name that is too long", agent(&"a".repeat(49)), None),
            ("no name", agent(""), None),
            ("a name that is none of clusters", agent("M_1"), None),
            ("a name of two labels", agent("a.b"), None),
            ("karmadactl", agent("rbac-generator"), Some("rbac-generator")),
            ("another user", Subject { common_name: Some("alice".to_owned()), ..m1() }, None),
            ("no common name", Subject { common_name: None, ..m1() }, None),
            ("two organizations", organized(&["system:karmada:agents", "system:masters"]), None),
            ("the organization twice", organized(&["system:karmada:agents", "system:karmada:agents"]), None),
            ("another organization", organized(&["system:nodes"]), None),
            ("no organization", organized(&[]), None),
            ("a DNS name", Subject { dns_name: Some("a.example"), ..m1() }, None),
            ("an address", Subject { address: true, ..m1() }, None),
        ] {
            assert_eq!(first(&request(&subject)).as_deref(), want, "{name}");
        }
        let usages = |usages: &[&str]| {
            let mut request = request(&m1());
            request.spec.usages = Some(usages.iter().map(|usage| (*usage).to_owned()).collect());
            first(&request).is_some()
        };
        assert!(usages(&["digital signature", "client auth"]));
        assert!(usages(&["key encipherment", "client auth", "digital signature"]));
        for wrong in [
            &[][..],
            &["client auth"],
            &["digital signature"],
            &["digital signature", "key encipherment"],
            &["digital signature", "client auth", "server auth"],
        ] {
            assert!(!usages(wrong), "{wrong:?}");
        }
        let mut other = request(&m1());
        other.spec.signer_name = "kubernetes.io/kubelet-serving".to_owned();
        assert_eq!(first(&other), None, "another signer");
        for text in ["", "no PEM", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"] {
            let mut broken = request(&m1());
            broken.spec.request = ByteString(text.as_bytes().to_vec());
            assert_eq!(first(&broken), None, "{text}");
        }
    }

    #[test]
    fn who_asks_decides_which_right_is_needed() {
        for (user, occasion, subresource) in [
            ("system:karmada:agent:m1", Occasion::Renewal, "selfclusteragent"),
            ("system:karmada:agent:m2", Occasion::First, "clusteragent"),
            ("system:bootstrap:abcdef", Occasion::First, "clusteragent"),
        ] {
            let mut request = request(&agent("m1"));
            request.spec.username = Some(user.to_owned());
            request.spec.uid = Some("u".to_owned());
            request.spec.groups = Some(vec!["g".to_owned()]);
            request.spec.extra = Some([("k".to_owned(), vec!["v".to_owned()])].into());
            let asked = AgentRequest::of(&request).unwrap();
            assert_eq!((&*asked.cluster, asked.occasion), ("m1", occasion), "{user}");
            let review = serde_json::to_value(asked.access_review(&request).spec).unwrap();
            let want = serde_json::json!({
                "user": user, "uid": "u", "groups": ["g"], "extra": {"k": ["v"]},
                "resourceAttributes": {"group": "certificates.k8s.io", "version": "*", "verb": "create",
                    "resource": "certificatesigningrequests", "subresource": subresource},
            });
            assert_eq!(review, want, "{user}");
        }
    }

    #[test]
    fn only_requests_without_decision_are_pending() {
        let with = |status: serde_json::Value| {
            let mut request = request(&agent("m1"));
            request.status = serde_json::from_value(status).unwrap();
            (is_pending(&request), approved_at(&request))
        };
        let condition = |type_: &str| serde_json::json!({"type": type_, "status": "True", "lastUpdateTime": at(7)});
        assert_eq!(with(serde_json::json!({})), (true, None));
        assert_eq!(with(serde_json::json!({"certificate": "AAAA"})), (false, None));
        assert_eq!(with(serde_json::json!({"conditions": [condition("Approved")]})), (false, Some(at(7))));
        assert_eq!(with(serde_json::json!({"conditions": [condition("Denied")]})), (false, None));
        let failed = serde_json::json!({"conditions": [condition("Approved"), condition("Failed")]});
        assert_eq!(with(failed), (false, None));
        let mut going = request(&agent("m1"));
        going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
        assert!(!is_pending(&going));
    }
}
