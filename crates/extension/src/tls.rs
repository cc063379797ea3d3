//! A TLS listener whose certificate can be replaced, and that knows the certificates of its clients.

use std::{convert::Infallible, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use ironclad_apiserver::pki::Pair;
use ironclad_seam::{Seam, Tasks};
use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, danger::ClientCertVerifier},
    sign::CertifiedKey,
};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_rustls::TlsAcceptor;

const CONNECTIONS_MAX: usize = 256;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const HEADERS_MAX: Duration = Duration::from_secs(10);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The certificates that a client presented; none if it presented none.
pub(crate) type Peer = Arc<Vec<CertificateDer<'static>>>;

/// Current certificate. It can be replaced while connections are open.
#[derive(Debug, Default)]
pub(crate) struct InUse(RwLock<Option<Arc<CertifiedKey>>>);

impl InUse {
    /// Uses this one from now on.
    ///
    /// # Errors
    /// A certificate or key that can't be read.
    pub(crate) fn set(&self, pair: &Pair) -> Result<(), String> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|e| e.to_string())?;
        let key = any_supported_type(&key).map_err(|e| e.to_string())?;
        *self.0.write() = Some(Arc::new(CertifiedKey::new(chain, key)));
        Ok(())
    }
}

impl ResolvesServerCert for InUse {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().clone()
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

/// Serves until the tasks are stopped. Each connection begins with the settings of its time.
pub(crate) async fn serve<H, F, B>(
    listener: TcpListener,
    config: impl Fn() -> Arc<ServerConfig>,
    seam: &Seam,
    name: &'static str,
    answer: H,
) where
    H: Fn(Request<Incoming>, Peer) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let tasks = seam.tasks.child(name);
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            biased;
            () = seam.tasks.stopping() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, listener = name, "accepting a connection failed");
                    seam.clock.sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (acceptor, group, answer) = (TlsAcceptor::from(config()), tasks.clone(), answer.clone());
        tasks.spawn("connection", async move {
            let _ = stream.set_nodelay(true);
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream)).await {
                let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
                let peer: Peer = Arc::new(certificates.iter().map(|c| c.clone().into_owned()).collect());
                let service = service_fn(move |request: Request<Incoming>| {
                    let answered = answer(request, peer.clone());
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                let mut builder = auto::Builder::new(Streams(group));
                builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_MAX);
                if let Err(error) = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
                    tracing::debug!(%error, listener = name, "a connection failed");
                }
            }
            drop(slot);
        });
    }
}

/// Runs the streams of HTTP/2 connections as tasks of a group.
#[derive(Clone)]
struct Streams(Tasks);

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn("stream", future);
    }
}
