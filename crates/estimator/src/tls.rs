//! TLS of the protocol, from PEM files (specification/scheduling.md 13.4).

use std::{fmt, path::PathBuf, sync::Arc};

use rustls::{
    DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// File that is missing or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("--{flag}: {} cannot be read", path.display())]
    Unreadable {
        /// The flag that names it.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason.
        #[source]
        source: std::io::Error,
    },
    /// The content of the file can't be used.
    #[error("--{flag}: {why}")]
    Invalid {
        /// The flag that names it.
        flag: &'static str,
        /// Reason.
        why: String,
    },
    /// One of two files is given.
    #[error("--{given} needs --{missing}")]
    Incomplete {
        /// The flag that is given.
        given: &'static str,
        /// The flag that is missing.
        missing: &'static str,
    },
}

/// TLS of the client. Without a CA and without skipped verification, connections are plain.
#[derive(Clone, Default)]
pub struct ClientTls {
    /// Authorities that sign certificates of servers, PEM.
    pub ca: Option<Vec<u8>>,
    /// Certificate and key of the client, PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// True if any certificate of a server is accepted.
    pub skip_verify: bool,
}

/// TLS of the server.
#[derive(Clone)]
pub struct ServerTls {
    /// Certificate of the server, PEM.
    pub certificate: Vec<u8>,
    /// Its key, PEM.
    pub key: Vec<u8>,
    /// Authorities that sign certificates of clients, PEM; without them, clients need none.
    pub client_ca: Option<Vec<u8>>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("skip_verify", &self.skip_verify).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

fn read(flag: &'static str, path: Option<&PathBuf>) -> Result<Option<Vec<u8>>, TlsError> {
    let Some(path) = path else { return Ok(None) };
    std::fs::read(path).map(Some).map_err(|source| TlsError::Unreadable { flag, path: path.clone(), source })
}

/// Certificate and key, PEM.
type Pair = (Vec<u8>, Vec<u8>);

/// Two files that belong together.
fn pair(
    first: (&'static str, Option<&PathBuf>),
    second: (&'static str, Option<&PathBuf>),
) -> Result<Option<Pair>, TlsError> {
    match (read(first.0, first.1)?, read(second.0, second.1)?) {
        (Some(first), Some(second)) => Ok(Some((first, second))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(TlsError::Incomplete { given: first.0, missing: second.0 }),
        (None, Some(_)) => Err(TlsError::Incomplete { given: second.0, missing: first.0 }),
    }
}

impl ClientTls {
    /// Reads the files of `--scheduler-estimator-ca-file`, `-cert-file` and `-key-file`.
    ///
    /// # Errors
    /// A file cannot be read, or a certificate has no key.
    pub fn from_files(
        ca: Option<&PathBuf>,
        certificate: Option<&PathBuf>,
        key: Option<&PathBuf>,
        skip_verify: bool,
    ) -> Result<Self, TlsError> {
        let identity = pair(("scheduler-estimator-cert-file", certificate), ("scheduler-estimator-key-file", key))?;
        Ok(Self { ca: read("scheduler-estimator-ca-file", ca)?, identity, skip_verify })
    }

    fn is_plain(&self) -> bool {
        self.ca.is_none() && !self.skip_verify
    }

    /// Endpoint of a server, `host:port`.
    pub(crate) fn endpoint(&self, address: &str) -> Result<Endpoint, tonic::transport::Error> {
        let scheme = if self.is_plain() { "http" } else { "https" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?;
        if self.is_plain() {
            return Ok(endpoint);
        }
        let mut config = ClientTlsConfig::new();
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if self.skip_verify {
            return endpoint.tls_config_with_verifier(config, Arc::new(AnyServer(Arc::new(ring::default_provider()))));
        }
        if let Some(ca) = &self.ca {
            config = config.ca_certificate(Certificate::from_pem(ca));
        }
        endpoint.tls_config(config)
    }
}

impl ServerTls {
    /// Reads the files of `--grpc-auth-cert-file`, `--grpc-auth-key-file` and `--grpc-client-ca-file`. `None`: plain
    /// connections.
    ///
    /// # Errors
    /// A file cannot be read, or a certificate has no key.
    pub fn from_files(
        certificate: Option<&PathBuf>,
        key: Option<&PathBuf>,
        client_ca: Option<&PathBuf>,
        skip_client_verify: bool,
    ) -> Result<Option<Self>, TlsError> {
        let identity = pair(("grpc-auth-cert-file", certificate), ("grpc-auth-key-file", key))?;
        let client_ca = if skip_client_verify { None } else { read("grpc-client-ca-file", client_ca)? };
        match identity {
            Some((certificate, key)) => Ok(Some(Self { certificate, key, client_ca })),
            None if client_ca.is_some() => {
                Err(TlsError::Incomplete { given: "grpc-client-ca-file", missing: "grpc-auth-cert-file" })
            }
            None => Ok(None),
        }
    }

    /// # Errors
    /// The certificate, its key or the authority of clients is invalid.
    pub(crate) fn config(&self) -> Result<ServerConfig, TlsError> {
        fn invalid<E: fmt::Display>(flag: &'static str) -> impl Fn(E) -> TlsError {
            move |why| TlsError::Invalid { flag, why: why.to_string() }
        }
        let certificates = |flag, pem: &[u8]| {
            CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(invalid(flag))
        };
        let chain = certificates("grpc-auth-cert-file", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(invalid("grpc-auth-key-file"))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let builder = builder.map_err(invalid("grpc-auth-cert-file"))?;
        let builder = match &self.client_ca {
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates("grpc-client-ca-file", ca)? {
                    roots.add(authority).map_err(invalid("grpc-client-ca-file"))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(invalid("grpc-client-ca-file"))?)
            }
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(invalid("grpc-auth-cert-file"))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

/// Accepts any certificate: `--insecure-skip-estimator-verify`.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
