//! The authority as a signer of requests (PKCS#10): it issues certificates that were approved elsewhere.
//!
//! It checks that the requester has the key, and that the authority itself is still good; who may have which
//! certificate is decided before. The subject is taken over byte for byte: the library that makes our own certificates
//! keeps only one organisation, and to a Kubernetes API server each of them is a group.

use ironclad_seam::Stream;
use jiff::Timestamp;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, SigningKey as _};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::{
    certification_request::X509CertificationRequest,
    cri_attributes::ParsedCriAttribute,
    extensions::ParsedExtension,
    prelude::{FromDer as _, X509Certificate},
};
use yasna::{
    DERWriter, DERWriterSeq, Tag,
    models::{GeneralizedTime, ObjectIdentifier, UTCTime},
};

use super::Pair;

const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const SUBJECT_ALTERNATIVE_NAME: &[u64] = &[2, 5, 29, 17];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];

/// Kubernetes' names of usages, with the bits of the extension `keyUsage`.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 0x8000),
    ("digital signature", 0x8000),
    ("content commitment", 0x4000),
    ("key encipherment", 0x2000),
    ("data encipherment", 0x1000),
    ("key agreement", 0x0800),
    ("cert sign", 0x0400),
    ("crl sign", 0x0200),
    ("encipher only", 0x0100),
    ("decipher only", 0x0080),
];
/// The same with the object identifiers of `extKeyUsage`.
const EXTENDED_USAGES: [(&str, &[u64]); 13] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[1, 3, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];

/// Signs requests with the key of a certificate authority; it gives no other access to the key.
#[derive(Clone)]
pub struct Authority {
    ca: Pair,
    serials: Stream,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// Two are the same if they sign as the same.
impl PartialEq for Authority {
    fn eq(&self, other: &Self) -> bool {
        self.ca.certificate == other.ca.certificate
    }
}

/// A certificate to be made.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The request, DER.
    pub request: &'a [u8],
    /// Its usages, as in `spec.usages` of a CertificateSigningRequest.
    pub usages: &'a [String],
    /// Begin of its validity.
    pub not_before: Timestamp,
    /// End of its validity, unless the authority's ends before.
    pub not_after: Timestamp,
}

impl Authority {
    pub(super) fn new(ca: Pair, serials: Stream) -> Self {
        Self { ca, serials }
    }

    /// Signs a request: a PEM certificate with its subject, key and alternative names, for these usages and this time.
    ///
    /// # Errors
    /// A request that can't be read or isn't signed with the key that it names; a usage that is none; an authority
    /// that has ended.
    pub fn sign(&self, order: Order<'_>, now: Timestamp) -> Result<String, String> {
        let (_, request) = X509CertificationRequest::from_der(order.request)
            .map_err(|error| format!("unable to parse certificate request: {error}"))?;
        request
            .verify_signature()
            .map_err(|error| format!("unable to verify certificate request signature: {error}"))?;
        let ca = CertificateDer::from_pem_slice(self.ca.certificate.as_bytes()).map_err(|e| e.to_string())?;
        let (_, ca) = X509Certificate::from_der(ca.as_ref()).map_err(|e| e.to_string())?;
        let key = KeyPair::from_pem(&self.ca.key).map_err(|e| e.to_string())?;
        if *key.algorithm() != PKCS_ECDSA_P256_SHA256 {
            return Err("the key of the signer is not ECDSA on P-256".to_owned());
        }
        let ends = Timestamp::from_second(ca.validity().not_after.timestamp()).map_err(|e| e.to_string())?;
        if now >= ends {
            return Err(format!("the signer has expired: NotAfter={ends}"));
        }
        let usages = Usages::of(order.usages)?;
        let mut serial = [0; 16];
        self.serials.fill(&mut serial);
        // Positive, and of the same length always.
        serial[0] = serial[0] & 0x7f | 0x40;
        let to_sign = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&serial, true);
                algorithm(writer.next());
                writer.next().write_der(ca.subject().as_raw());
                writer.next().write_sequence(|writer| {
                    time(writer.next(), order.not_before);
                    time(writer.next(), order.not_after.min(ends));
                });
                let asked = &request.certification_request_info;
                writer.next().write_der(asked.subject.as_raw());
                writer.next().write_der(asked.subject_pki.raw);
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| extensions(writer, &usages, &ca, &request));
                });
            });
        });
        let signature = key.sign(&to_sign).map_err(|e| e.to_string())?;
        let certificate = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&to_sign);
                algorithm(writer.next());
                writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(pem("CERTIFICATE", &certificate))
    }
}

/// The usages of a certificate as extensions.
struct Usages {
    bits: u16,
    extended: Vec<&'static [u64]>,
}

impl Usages {
    fn of(names: &[String]) -> Result<Self, String> {
        let mut usages = Self { bits: 0, extended: Vec::new() };
        for name in names {
            let bit = KEY_USAGES.iter().find(|(known, _)| known == name);
            let extended = EXTENDED_USAGES.iter().find(|(known, _)| known == name);
            match (bit, extended) {
                (Some((_, bit)), _) => usages.bits |= bit,
                (None, Some((_, oid))) if !usages.extended.contains(oid) => usages.extended.push(oid),
                (None, Some(_)) => {}
                (None, None) => return Err(format!("unrecognized usage {name:?}")),
            }
        }
        Ok(usages)
    }
}

fn extensions(
    writer: &mut DERWriterSeq<'_>,
    usages: &Usages,
    ca: &X509Certificate<'_>,
    request: &X509CertificationRequest<'_>,
) {
    const CRITICAL: bool = true;
    if usages.bits != 0 {
        extension(
            writer.next(),
            KEY_USAGE,
            CRITICAL,
            &yasna::construct_der(|writer| {
                // DER: no zero bits at the end.
                let length = 16 - usages.bits.trailing_zeros() as usize;
                writer.write_bitvec_bytes(&usages.bits.to_be_bytes()[..length.div_ceil(8)], length);
            }),
        );
    }
    if !usages.extended.is_empty() {
        extension(
            writer.next(),
            EXTENDED_KEY_USAGE,
            !CRITICAL,
            &yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    usages.extended.iter().for_each(|oid| writer.next().write_oid(&ObjectIdentifier::from_slice(oid)));
                });
            }),
        );
    }
    // An empty sequence: no authority.
    extension(
        writer.next(),
        BASIC_CONSTRAINTS,
        CRITICAL,
        &yasna::construct_der(|writer| writer.write_sequence(|_| {})),
    );
    let identifier = ca.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0),
        _ => None,
    });
    if let Some(identifier) = identifier {
        extension(
            writer.next(),
            AUTHORITY_KEY_IDENTIFIER,
            !CRITICAL,
            &yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    writer.next().write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(identifier));
                });
            }),
        );
    }
    if let Some(names) = alternative_names(request) {
        let nameless = request.certification_request_info.subject.iter().next().is_none();
        extension(writer.next(), SUBJECT_ALTERNATIVE_NAME, nameless, names);
    }
}

/// The value of the request's extension with alternative names.
fn alternative_names<'a>(request: &'a X509CertificationRequest<'_>) -> Option<&'a [u8]> {
    request.certification_request_info.iter_attributes().find_map(|attribute| match attribute.parsed_attribute() {
        ParsedCriAttribute::ExtensionRequest(asked) => asked
            .extensions
            .iter()
            .find(|e| matches!(e.parsed_extension(), ParsedExtension::SubjectAlternativeName(_)))
            .map(|e| e.value),
        _ => None,
    })
}

fn extension(writer: DERWriter<'_>, oid: &[u64], critical: bool, value: &[u8]) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(oid));
        if critical {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(value);
    });
}

fn algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|writer| writer.next().write_oid(&ObjectIdentifier::from_slice(ECDSA_WITH_SHA256)));
}

/// Until 2049 in two digits, as RFC 5280 wants it.
fn time(writer: DERWriter<'_>, at: Timestamp) {
    let text = |format: &str| at.strftime(format).to_string();
    let short = UTCTime::parse(text("%y%m%d%H%M%SZ").as_bytes()).filter(|_| at < END_OF_UTC_TIME);
    match (short, GeneralizedTime::parse(text("%Y%m%d%H%M%SZ").as_bytes())) {
        (Some(short), _) => writer.write_utctime(&short),
        (None, Some(long)) => writer.write_generalized_time(&long),
        // A time that has no such form doesn't come about; a certificate without one is refused by everybody.
        (None, None) => writer.write_null(),
    }
}

/// 2050-01-01T00:00:00Z.
const END_OF_UTC_TIME: Timestamp = Timestamp::constant(2_524_608_000, 0);

fn pem(label: &str, der: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use ironclad_seam::{Clock, Rng, Seam, Tasks};
    use rcgen::{CertificateParams, DnType, SanType};

    use super::*;

    fn authority(days: i64) -> Authority {
        let clock = Clock::simulated(at(0));
        let seam = Seam { clock, rng: Rng::from_seed(1), tasks: Tasks::new("test") };
        Authority::new(super::super::authority("test-ca", days, &seam).unwrap(), seam.rng.stream("serials"))
    }

    /// Seconds after 2026-01-01T00:00:00Z.
    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + seconds).unwrap()
    }

    fn request(params: &CertificateParams) -> Vec<u8> {
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "devs");
        // Another organisation: the library takes the two for different types.
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "admins");
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    #[test]
    fn certificate_has_the_requested_names_and_usages() {
        let mut asked = params("alice");
        asked.subject_alt_names = vec![SanType::DnsName("a.example".try_into().unwrap())];
        let usages = ["client auth", "digital signature", "key encipherment"].map(str::to_owned);
        let order = Order { request: &request(&asked), usages: &usages, not_before: at(-300), not_after: at(86_400) };
        let authority = authority(3_650);
        let pem = authority.sign(order, at(0)).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (rest, made) = X509Certificate::from_der(der.as_ref()).unwrap();
        assert!(rest.is_empty());
        assert_eq!(made.subject().to_string(), "O=devs, O=admins, CN=alice");
        assert_eq!(made.issuer().to_string(), "CN=test-ca");
        let validity = made.validity();
        assert_eq!(
            (validity.not_before.timestamp(), validity.not_after.timestamp()),
            (at(-300).as_second(), at(86_400).as_second())
        );
        let bits = made.key_usage().unwrap().unwrap().value;
        assert!(bits.digital_signature() && bits.key_encipherment() && !bits.key_cert_sign());
        let extended = made.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.client_auth && !extended.server_auth && !extended.any);
        assert!(!made.is_ca());
        assert_eq!(super::super::validity(&pem).unwrap().1, ["a.example"]);
        let ca = CertificateDer::from_pem_slice(authority.ca.certificate.as_bytes()).unwrap();
        let (_, ca) = X509Certificate::from_der(ca.as_ref()).unwrap();
        made.verify_signature(Some(ca.public_key())).expect("it is signed by the authority");
    }

    #[test]
    fn certificate_never_outlives_the_authority() {
        let (authority, request) = (authority(10), request(&params("alice")));
        let usages = ["client auth".to_owned()];
        let order = Order { request: &request, usages: &usages, not_before: at(0), not_after: at(365 * 86_400) };
        let (ends, _) = super::super::validity(&authority.sign(order, at(0)).unwrap()).unwrap();
        let own = super::super::validity(&authority.ca.certificate).unwrap().0;
        assert_eq!(ends, own);
        let late = authority.sign(order, own).unwrap_err();
        assert!(late.starts_with("the signer has expired"), "{late}");
    }

    #[test]
    fn invalid_requests_are_not_signed() {
        let good = request(&params("alice"));
        let mut forged = good.clone();
        *forged.last_mut().unwrap() ^= 1;
        let some = |name: &str| vec![name.to_owned()];
        for (name, request, usages, want) in [
            ("another's signature", &forged, some("client auth"), "unable to verify certificate request signature"),
            ("no request", &b"nothing".to_vec(), some("client auth"), "unable to parse certificate request"),
            ("no usage", &good, some("to impress"), "unrecognized usage \"to impress\""),
        ] {
            let order = Order { request, usages: &usages, not_before: at(0), not_after: at(3_600) };
            let said = authority(10).sign(order, at(0)).unwrap_err();
            assert!(said.starts_with(want), "{name}: {said}");
        }
    }

    #[test]
    fn every_usage_is_readable() {
        for (name, bit) in KEY_USAGES {
            let usages = Usages::of(&[name.to_owned()]).unwrap();
            assert_eq!((usages.bits, usages.extended.len()), (bit, 0), "{name}");
        }
        let all: Vec<String> =
            KEY_USAGES.iter().map(|u| u.0).chain(EXTENDED_USAGES.map(|u| u.0)).map(str::to_owned).collect();
        let request = request(&params("alice"));
        let order = Order { request: &request, usages: &all, not_before: at(0), not_after: at(3_600) };
        let pem = authority(10).sign(order, at(0)).unwrap();
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (_, made) = X509Certificate::from_der(der.as_ref()).unwrap();
        let bits = made.key_usage().unwrap().unwrap().value;
        assert!(bits.decipher_only() && bits.encipher_only() && bits.crl_sign() && bits.non_repudiation());
        let extended = made.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.any && extended.ocsp_signing && extended.time_stamping && extended.other.len() == 5);
    }
}
