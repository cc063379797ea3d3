//! Certificates of webhooks, accepted as Go accepts them.
//!
//! `openssl req -x509` makes certificates that may sign others (`CA:TRUE`), and people serve webhooks with them. The
//! verifier of rustls refuses such a certificate on a server; Go's, and so Karmada's, does not.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _, time::ASN1Time};

/// Verifies as rustls does, and accepts certificates that may sign others if they are in the bundle, or if one in the
/// bundle signed them.
#[derive(Debug)]
pub(crate) struct WebhookVerifier {
    strict: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl WebhookVerifier {
    /// Trusts these certificates, in DER.
    ///
    /// # Errors
    /// If none of them can be used.
    pub(crate) fn new(bundle: &[Vec<u8>]) -> Result<Self, String> {
        let bundle: Vec<_> = bundle.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(bundle.iter().cloned());
        let provider = Arc::new(ring::default_provider());
        let strict = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let strict = strict.map_err(|error| format!("the key `caBundle` has no usable certificate: {error}"))?;
        Ok(Self { strict, bundle })
    }

    fn verify_ca(&self, der: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
        let wrong = |error| Error::InvalidCertificate(error);
        let parse = |der| X509Certificate::from_der(der).map_err(|_| wrong(CertificateError::BadEncoding));
        let time = i64::try_from(now.as_secs()).ok().and_then(|secs| ASN1Time::from_timestamp(secs).ok());
        let time = time.ok_or_else(|| wrong(CertificateError::BadEncoding))?;
        let valid = |certificate: &X509Certificate<'_>| {
            let validity = certificate.validity();
            match (time < validity.not_before, time > validity.not_after) {
                (true, _) => Err(wrong(CertificateError::NotValidYet)),
                (_, true) => Err(wrong(CertificateError::Expired)),
                _ => Ok(()),
            }
        };
        let (_, leaf) = parse(der)?;
        valid(&leaf)?;
        if let Ok(Some(usage)) = leaf.extended_key_usage()
            && !(usage.value.server_auth || usage.value.any)
        {
            return Err(wrong(CertificateError::InvalidPurpose));
        }
        let is_trusted = self.bundle.iter().any(|trusted| {
            trusted == der
                || parse(trusted).is_ok_and(|(_, issuer)| {
                    issuer.is_ca()
                        && issuer.subject() == leaf.issuer()
                        && valid(&issuer).is_ok()
                        && leaf.verify_signature(Some(issuer.public_key())).is_ok()
                })
        });
        if !is_trusted {
            return Err(wrong(CertificateError::UnknownIssuer));
        }
        verify_server_name(&ParsedCertificate::try_from(der)?, name)
    }
}

impl ServerCertVerifier for WebhookVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.strict.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The error is of a crate below rustls; only its text identifies it.
            Err(error) if format!("{error:?}").contains("CaUsedAsEndEntity") => {
                self.verify_ca(end_entity, server_name, now).map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.strict.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.strict.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd};

    use super::*;

    fn params(name: &str, is_ca: bool) -> CertificateParams {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = if is_ca { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::NoCa };
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        params
    }

    #[test]
    fn certificates_that_may_sign_are_accepted_as_go_does() {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_780_000_000)); // 2026-05-28
        let key = || KeyPair::generate().unwrap();
        let alone = |params: CertificateParams| params.self_signed(&key()).unwrap().der().to_vec();
        let (root_key, mut root) = (key(), params("root", true));
        root.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
        let root_der = root.self_signed(&root_key).unwrap().der().to_vec();
        let issuer = Issuer::new(root, root_key);
        let signed = |params: CertificateParams| params.signed_by(&key(), &issuer).unwrap().der().to_vec();
        let with_end = |year| {
            let mut params = params("h", true);
            params.not_after = date_time_ymd(year, 2, 1);
            params
        };
        let mut client_only = params("h", true);
        client_only.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let (itself, stranger) = (alone(params("h", true)), alone(params("h", true)));
        for (name, bundle, leaf, host, want) in [
            ("as openssl makes it", &itself, itself.clone(), "h", Ok(())),
            ("another name", &itself, itself.clone(), "g", Err("NotValidForName")),
            ("one that nobody trusts", &itself, stranger, "h", Err("UnknownIssuer")),
            ("signed by one that is trusted", &root_der, signed(params("h", true)), "h", Ok(())),
            ("an ordinary one", &root_der, signed(params("h", false)), "h", Ok(())),
            ("an ordinary one of another name", &root_der, signed(params("h", false)), "g", Err("NotValidForName")),
            ("expired", &root_der, signed(with_end(2026)), "h", Err("Expired")),
            ("for clients only", &root_der, signed(client_only), "h", Err("InvalidPurpose")),
        ] {
            let verifier = WebhookVerifier::new(std::slice::from_ref(bundle)).unwrap();
            let host = ServerName::try_from(host).unwrap();
            let got = verifier.verify_server_cert(&CertificateDer::from(leaf), &[], &host, &[], now);
            match (got, want) {
                (Ok(_), Ok(())) => {}
                (Err(error), Err(want)) => assert!(format!("{error:?}").contains(want), "{name}: {error:?}"),
                (got, want) => panic!("{name}: {got:?}, not {want:?}"),
            }
        }
    }
}
