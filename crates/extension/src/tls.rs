//! TLS settings of a listener whose certificate can be replaced.

use std::sync::Arc;

use ironclad_apiserver::pki::{self, Pair};
use jiff::Timestamp;
use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, danger::ClientCertVerifier},
    sign::CertifiedKey,
};

/// Current certificate. It can be replaced while connections are open.
#[derive(Debug, Default)]
pub(crate) struct InUse(RwLock<Option<Presented>>);

#[derive(Debug)]
struct Presented {
    key: Arc<CertifiedKey>,
    until: Option<Timestamp>,
}

impl InUse {
    /// Uses this one from now on.
    ///
    /// # Errors
    /// A certificate or key that can't be read.
    pub(crate) fn set(&self, pair: &Pair) -> Result<(), String> {
        self.present(certified(pair)?, pair);
        Ok(())
    }

    /// Uses this one from now on, which somebody else made.
    ///
    /// # Errors
    /// A certificate or key that can't be read, or a key of another certificate.
    pub(crate) fn set_matching(&self, pair: &Pair) -> Result<(), String> {
        let certified = certified(pair)?;
        if certified.cert.is_empty() {
            return Err("the file has no certificate".to_owned());
        }
        match certified.keys_match() {
            // Of some kinds of keys it can't be told.
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(_) => return Err("it is not the key of the certificate".to_owned()),
        }
        self.present(certified, pair);
        Ok(())
    }

    fn present(&self, certified: CertifiedKey, pair: &Pair) {
        let until = pki::validity(&pair.certificate).map(|(ends, _)| ends);
        *self.0.write() = Some(Presented { key: Arc::new(certified), until });
    }

    /// End of the certificate that is presented, if there is one.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        self.0.read().as_ref().and_then(|presented| presented.until)
    }

    /// The certificates that are presented.
    #[cfg(test)]
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.0.read().as_ref().map(|presented| presented.key.cert.clone()).unwrap_or_default()
    }
}

fn certified(pair: &Pair) -> Result<CertifiedKey, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|e| e.to_string())?;
    let key = any_supported_type(&key).map_err(|e| e.to_string())?;
    Ok(CertifiedKey::new(chain, key))
}

impl ResolvesServerCert for InUse {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().as_ref().map(|presented| presented.key.clone())
    }
}

/// The TLS settings of a server with this certificate, which asks clients for theirs if it can verify them.
///
/// # Errors
/// The TLS library does not support what is configured here.
pub(crate) fn server_config(
    certificate: Arc<InUse>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
    let builder = match clients {
        Some(clients) => builder.with_client_cert_verifier(clients),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
