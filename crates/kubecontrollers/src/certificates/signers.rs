//! The built-in signers of Kubernetes and their requirements.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequestSpec;
use x509_parser::{
    certification_request::X509CertificationRequest,
    extensions::{GeneralName, ParsedExtension},
    pem::Pem,
    prelude::FromDer as _,
};

use super::Order;

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SignerVerdict {
    /// Another signer is responsible for this name.
    NotOurs,
    /// The signer accepts the request.
    Order(Order),
    /// The signer rejects the request, with the reason.
    Misfit(String),
}

#[derive(Debug, Default, PartialEq, Eq)]
struct RequestContents {
    common_name: String,
    organizations: Vec<String>,
    dns_names: usize,
    addresses: usize,
    emails: usize,
    uris: usize,
}

/// Creates the signing order for an approved request, with this validity.
pub(super) fn order(
    spec: &CertificateSigningRequestSpec,
    (not_before, not_after): (Timestamp, Timestamp),
) -> SignerVerdict {
    let rule: fn(&RequestContents, &[String]) -> Result<(), String> = match spec.signer_name.as_str() {
        CLIENT => |_, usages| client(usages),
        KUBELET_CLIENT => kubelet_client,
        KUBELET_SERVING => kubelet_serving,
        _ => return SignerVerdict::NotOurs,
    };
    let usages = spec.usages.clone().unwrap_or_default();
    let fits = read(&spec.request.0).and_then(|(request, asked)| rule(&asked, &usages).map(|()| request));
    match fits {
        Ok(request) => SignerVerdict::Order(Order { request, usages, not_before, not_after }),
        Err(why) => SignerVerdict::Misfit(why),
    }
}

fn read(pem: &[u8]) -> Result<(Vec<u8>, RequestContents), String> {
    let block = Pem::iter_from_buffer(pem).next().and_then(Result::ok).filter(|b| b.label == "CERTIFICATE REQUEST");
    let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
    let (_, request) = X509CertificationRequest::from_der(&block.contents).map_err(|e| e.to_string())?;
    let subject = &request.certification_request_info.subject;
    let text =
        |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| attribute.as_str().unwrap_or_default().to_owned();
    let mut asked = RequestContents {
        // As in Go, the last common name wins.
        common_name: subject.iter_common_name().last().map(text).unwrap_or_default(),
        organizations: subject.iter_organization().map(text).collect(),
        ..RequestContents::default()
    };
    for extension in request.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(names) = extension else { continue };
        for name in &names.general_names {
            match name {
                GeneralName::DNSName(_) => asked.dns_names += 1,
                GeneralName::IPAddress(_) => asked.addresses += 1,
                GeneralName::RFC822Name(_) => asked.emails += 1,
                GeneralName::URI(_) => asked.uris += 1,
                _ => {}
            }
        }
    }
    Ok((block.contents.clone(), asked))
}

fn client(usages: &[String]) -> Result<(), String> {
    const NEEDED: &str = "client auth";
    let others =
        usages.iter().find(|usage| ![NEEDED, "digital signature", "key encipherment"].contains(&usage.as_str()));
    match others {
        Some(usage) => Err(format!("invalid usage for client certificate: {usage}")),
        None if usages.iter().all(|usage| usage != NEEDED) => {
            Err(format!("missing required usage for client certificate: {NEEDED}"))
        }
        None => Ok(()),
    }
}

fn kubelet_client(asked: &RequestContents, usages: &[String]) -> Result<(), String> {
    of_nodes(asked)?;
    for (count, what) in
        [(asked.dns_names, "DNS"), (asked.emails, "Email"), (asked.addresses, "IP"), (asked.uris, "URI")]
    {
        if count > 0 {
            return Err(format!("{what} subjectAltNames are not allowed"));
        }
    }
    of_a_node(asked)?;
    exactly(usages, "client auth")
}

fn kubelet_serving(asked: &RequestContents, usages: &[String]) -> Result<(), String> {
    of_nodes(asked)?;
    if asked.dns_names + asked.addresses == 0 {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    for (count, what) in [(asked.emails, "Email"), (asked.uris, "URI")] {
        if count > 0 {
            return Err(format!("{what} subjectAltNames are not allowed"));
        }
    }
    exactly(usages, "server auth")?;
    of_a_node(asked)
}

fn of_nodes(asked: &RequestContents) -> Result<(), String> {
    let fits = asked.organizations == ["system:nodes"];
    fits.then_some(()).ok_or_else(|| "subject organization is not system:nodes".to_owned())
}

fn of_a_node(asked: &RequestContents) -> Result<(), String> {
    let fits = asked.common_name.starts_with("system:node:");
    fits.then_some(()).ok_or_else(|| "subject common name does not begin with system:node:".to_owned())
}

/// Checks that the usages are exactly those of this kind of certificate; only RSA keys may have `key encipherment`.
fn exactly(usages: &[String], auth: &str) -> Result<(), String> {
    let given: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let mut wanted = BTreeSet::from(["digital signature", "key encipherment", auth]);
    let all: Vec<&str> = wanted.iter().copied().collect();
    let why = format!("usages did not match [{}]", all.join(" "));
    if given == wanted {
        return Ok(());
    }
    wanted.remove("key encipherment");
    (given == wanted).then_some(()).ok_or(why)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::testkit::at;

    /// `O=devs, O=admins, CN=alice`, with a DNS name, an address, an e-mail address and a URI.
    const ALICE: &str = include_str!("testdata/alice.csr");
    /// `O=system:nodes, CN=system:node:n1`, without other names.
    const NODE: &str = include_str!("testdata/node.csr");

    fn node() -> RequestContents {
        RequestContents {
            common_name: "system:node:n1".to_owned(),
            organizations: vec!["system:nodes".to_owned()],
            ..RequestContents::default()
        }
    }

    fn spec(signer: &str, request: &str, usages: &[&str]) -> CertificateSigningRequestSpec {
        CertificateSigningRequestSpec {
            request: ByteString(request.as_bytes().to_vec()),
            signer_name: signer.to_owned(),
            usages: Some(usages.iter().map(|u| (*u).to_owned()).collect()),
            ..CertificateSigningRequestSpec::default()
        }
    }

    #[test]
    fn contents_of_a_request() {
        let (der, asked) = read(ALICE.as_bytes()).unwrap();
        let want = RequestContents {
            common_name: "alice".to_owned(),
            organizations: vec!["devs".to_owned(), "admins".to_owned()],
            dns_names: 1,
            addresses: 1,
            emails: 1,
            uris: 1,
        };
        assert_eq!((asked, der.is_empty()), (want, false));
        assert_eq!(read(NODE.as_bytes()).unwrap().1, node());
        for text in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert_eq!(read(text.as_bytes()), Err("PEM block type must be CERTIFICATE REQUEST".to_owned()));
        }
    }

    #[test]
    fn signers_handle_only_their_requests() {
        let times = (at(0), at(600));
        let client = ["client auth"];
        let ordered = order(&spec(CLIENT, ALICE, &client), times);
        let SignerVerdict::Order(made) = ordered else { panic!("{ordered:?}") };
        assert_eq!((made.usages, made.not_before, made.not_after), (vec!["client auth".to_owned()], at(0), at(600)));
        assert_eq!(order(&spec("example.com/own", ALICE, &client), times), SignerVerdict::NotOurs);
        assert_eq!(order(&spec("kubernetes.io/legacy-unknown", ALICE, &client), times), SignerVerdict::NotOurs);
        let node = ["digital signature", "client auth"];
        assert!(matches!(order(&spec(KUBELET_CLIENT, NODE, &node), times), SignerVerdict::Order(_)));
        let misfit = |why: &str| SignerVerdict::Misfit(why.to_owned());
        let why = "subject organization is not system:nodes";
        assert_eq!(order(&spec(KUBELET_CLIENT, ALICE, &node), times), misfit(why));
        assert_eq!(order(&spec(KUBELET_SERVING, ALICE, &node), times), misfit(why));
        let why = "invalid usage for client certificate: server auth";
        assert_eq!(order(&spec(CLIENT, ALICE, &["server auth"]), times), misfit(why));
    }

    #[test]
    fn requirements_of_each_signer() {
        type Rule = fn(&RequestContents, &[String]) -> Result<(), String>;
        let plain: Rule = |_, usages| client(usages);
        let named = |change: fn(&mut RequestContents)| {
            let mut asked = node();
            change(&mut asked);
            asked
        };
        let serving = || named(|a| a.addresses = 1);
        let (sign, encipher) = ("digital signature", "key encipherment");
        let not_client = "usages did not match [client auth digital signature key encipherment]";
        let not_server = "usages did not match [digital signature key encipherment server auth]";
        for (name, rule, asked, usages, want) in [
            ("a client", plain, node(), &["client auth"][..], ""),
            ("with every allowed usage", plain, node(), &["client auth", sign, encipher], ""),
            (
                "without the required usage",
                plain,
                node(),
                &[sign],
                "missing required usage for client certificate: client auth",
            ),
            (
                "with a forbidden usage",
                plain,
                node(),
                &["client auth", "cert sign"],
                "invalid usage for client certificate: cert sign",
            ),
            ("a kubelet", kubelet_client, node(), &["client auth", sign, encipher], ""),
            ("with a key other than RSA", kubelet_client, node(), &["client auth", sign], ""),
            ("without key encipherment for an RSA key", kubelet_client, node(), &["client auth"], not_client),
            ("that serves", kubelet_client, node(), &["server auth", sign, encipher], not_client),
            (
                "of a kubelet in two organizations",
                kubelet_client,
                named(|a| a.organizations.push("x".to_owned())),
                &["client auth", sign],
                "subject organization is not system:nodes",
            ),
            (
                "of no node",
                kubelet_client,
                named(|a| a.common_name = "n1".to_owned()),
                &["client auth", sign],
                "subject common name does not begin with system:node:",
            ),
            (
                "a kubelet with a DNS name",
                kubelet_client,
                named(|a| a.dns_names = 1),
                &["client auth", sign],
                "DNS subjectAltNames are not allowed",
            ),
            (
                "an e-mail address",
                kubelet_client,
                named(|a| a.emails = 1),
                &["client auth", sign],
                "Email subjectAltNames are not allowed",
            ),
            ("an address", kubelet_client, serving(), &["client auth", sign], "IP subjectAltNames are not allowed"),
            (
                "a URI",
                kubelet_client,
                named(|a| a.uris = 1),
                &["client auth", sign],
                "URI subjectAltNames are not allowed",
            ),
            ("a kubelet's server", kubelet_serving, serving(), &["server auth", sign, encipher], ""),
            ("by name", kubelet_serving, named(|a| a.dns_names = 1), &["server auth", sign], ""),
            ("nowhere", kubelet_serving, node(), &["server auth", sign], "DNS or IP subjectAltName is required"),
            (
                "and a URI",
                kubelet_serving,
                named(|a| (a.addresses, a.uris) = (1, 1)),
                &["server auth", sign],
                "URI subjectAltNames are not allowed",
            ),
            ("a serving certificate with client usage", kubelet_serving, serving(), &["client auth", sign], not_server),
            (
                "for another",
                kubelet_serving,
                named(|a| (a.addresses, a.common_name) = (1, "web".to_owned())),
                &["server auth", sign],
                "subject common name does not begin with system:node:",
            ),
        ] {
            let usages: Vec<String> = usages.iter().map(|u| (*u).to_owned()).collect();
            let refusal = rule(&asked, &usages).err().unwrap_or_default();
            assert_eq!(refusal, want, "{name}");
        }
    }
}
