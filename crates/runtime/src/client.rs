//! Clients over the network and in-process. They do not retry: queues retry, and know which failures to retry.

use std::{collections::BTreeMap, io, path::Path, sync::Arc, time::Duration};

use base64::Engine as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{client::legacy, rt::TokioExecutor};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use rustls::pki_types::ServerName;
use secrecy::SecretString;
use tower::{BoxError, Service, ServiceBuilder, layer::layer_fn};

use crate::{
    Traffic,
    proxy::{Bars, ProxyConnector},
    streams::{MEMBER, StreamBody},
    tunnel::Tunnels,
    webhook_tls::WebhookVerifier,
};

/// Time until the first byte of an answer, after which a request fails (specification/propagation.md 29), unless the
/// configuration has a `read_timeout`.
const REQUEST_DEADLINE: Duration = Duration::from_secs(32);

/// Time until the first byte of an answer of an aggregated API server.
const AGGREGATED_DEADLINE: Duration = Duration::from_secs(60);

/// Reason why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig can't be used.
    #[error(
        "kubeconfig {path}: {source}\n  try: --kubeconfig FILE with a file that `kubectl --kubeconfig FILE version` accepts"
    )]
    Kubeconfig {
        /// The file.
        path: String,
        /// The problem.
        source: KubeconfigError,
    },
    /// The proxy in it can't be used.
    #[error("proxy {proxy} of {server} can't be used: {why}\n  try: http://HOST:PORT")]
    Proxy {
        /// The proxy, without credentials.
        proxy: String,
        /// The API server.
        server: String,
        /// The problem.
        why: &'static str,
    },
    /// The credentials or the TLS settings in it can't be used.
    #[error("credentials of {server}: {source}")]
    Credentials {
        /// The API server.
        server: String,
        /// The problem.
        source: Box<kube::Error>,
    },
}

/// Reason why a request over the network got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// Nothing listens at the address.
    Refused,
    /// The server's name has no address.
    NoAddress,
    /// The server's certificate, or this machine's clock, is not in time.
    Expired,
    /// The server's certificate is not signed by the CA that is trusted, or is for another name.
    Untrusted,
    /// The server did not accept the client's certificate.
    ClientCertificate,
    /// The server did not answer in time.
    Timeout,
    /// Any other reason.
    Other,
}

impl Unanswered {
    /// The reason, if the error is about a request without an answer.
    #[must_use]
    pub fn of(error: &kube::Error) -> Option<Self> {
        if !matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) {
            return None;
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = cause {
            if let Some(tls) = error.downcast_ref() {
                return Some(Self::of_tls(tls));
            }
            let of_io = error.downcast_ref::<std::io::Error>();
            match of_io.map(std::io::Error::kind) {
                Some(std::io::ErrorKind::ConnectionRefused) => return Some(Self::Refused),
                Some(std::io::ErrorKind::TimedOut) => return Some(Self::Timeout),
                _ if error.is::<tower::timeout::error::Elapsed>() => return Some(Self::Timeout),
                _ if error.to_string().starts_with("failed to lookup address") => return Some(Self::NoAddress),
                _ => {}
            }
            // The source of an error of IO is the source of the error in it.
            cause = match of_io.and_then(std::io::Error::get_ref) {
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        Some(Self::Other)
    }

    fn of_tls(error: &rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
        match error {
            Error::InvalidCertificate(
                Certificate::Expired
                | Certificate::ExpiredContext { .. }
                | Certificate::NotValidYet
                | Certificate::NotValidYetContext { .. },
            ) => Self::Expired,
            Error::InvalidCertificate(_) => Self::Untrusted,
            Error::AlertReceived(
                Alert::CertificateExpired
                | Alert::BadCertificate
                | Alert::UnknownCA
                | Alert::CertificateUnknown
                | Alert::CertificateRequired
                | Alert::DecryptError,
            ) => Self::ClientCertificate,
            _ => Self::Other,
        }
    }
}

/// The client configuration of a context (the current one if none is named) of a kubeconfig file.
///
/// # Errors
/// If the file can't be read or parsed, or names no such context.
pub async fn kubeconfig_client_config(path: &Path, context: Option<&str>) -> Result<Config, ClientError> {
    let failed = |source| ClientError::Kubeconfig { path: path.display().to_string(), source };
    client_config(Kubeconfig::read_from(path).map_err(failed)?, context).await.map_err(failed)
}

/// The client configuration of a context (the current one if none is named).
///
/// The proxy is the kubeconfig's: `HTTPS_PROXY` of the environment is for the machine that this process runs on, and
/// its exceptions (`NO_PROXY`) would have to be read, too.
///
/// # Errors
/// If there is no such context, or it is incomplete.
pub async fn client_config(kubeconfig: Kubeconfig, context: Option<&str>) -> Result<Config, KubeconfigError> {
    let context = context.or(kubeconfig.current_context.as_deref()).map(str::to_owned);
    let cluster = kubeconfig.contexts.iter().find(|one| Some(&one.name) == context.as_ref());
    let cluster = cluster.and_then(|one| one.context.as_ref()).map(|one| one.cluster.clone());
    let cluster = kubeconfig.clusters.iter().find(|one| Some(&one.name) == cluster.as_ref());
    let proxy = cluster.and_then(|one| one.cluster.as_ref()).and_then(|one| one.proxy_url.clone());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    if proxy.is_none_or(|proxy| proxy.is_empty()) {
        config.proxy_url = None;
    }
    Ok(config)
}

/// A client for a server over the network, with a deadline and without retries. It acts as the user that the
/// configuration impersonates, if it names one, and goes through its proxy, if it names one.
///
/// # Errors
/// If the credentials, the TLS settings or the proxy can't be used.
pub fn client_from_kubeconfig(config: Config, traffic: Arc<Traffic>) -> Result<Client, ClientError> {
    client_with(config, traffic, Route::default())
}

/// Verification of a webhook's certificate: the verifier, and the name in the certificate where it differs from the
/// host.
type Verification = (WebhookVerifier, Option<ServerName<'static>>);

/// How a server is reached, besides its configuration.
#[derive(Default)]
struct Route {
    verification: Option<Verification>,
    /// Headers for the proxy.
    proxy_header: BTreeMap<String, String>,
    /// Addresses that are not connected to, whatever name leads there.
    bars: Option<Bars>,
}

fn client_with(config: Config, traffic: Arc<Traffic>, route: Route) -> Result<Client, ClientError> {
    let server = config.cluster_url.to_string();
    let failed = |source| ClientError::Credentials { server: server.clone(), source: Box::new(source) };
    let connector = ProxyConnector::new(config.proxy_url.as_ref(), &route.proxy_header, route.bars);
    let connector = connector.map_err(|why| ClientError::Proxy {
        proxy: config.proxy_url.as_ref().and_then(http::Uri::host).unwrap_or_default().to_owned(),
        server: server.clone(),
        why,
    })?;
    let https = match route.verification {
        None => config.rustls_https_connector_with_connector(connector).map_err(failed)?,
        Some((verifier, name)) => {
            let mut tls = config.rustls_client_config().map_err(failed)?;
            tls.dangerous().set_certificate_verifier(Arc::new(verifier));
            let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
            if let Some(name) = name {
                builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
            }
            builder.enable_http1().wrap_connector(connector)
        }
    };
    let service = ServiceBuilder::new()
        .layer(layer_fn(move |service| traffic.clone().before(service)))
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(failed)?)
        .layer(config.extra_headers_layer().map_err(failed)?)
        .timeout(config.read_timeout.unwrap_or(REQUEST_DEADLINE))
        .map_err(BoxError::from)
        .map_request(streamed)
        .service(connections(https));
    Ok(Client::new(service, config.default_namespace))
}

/// Connections to servers, which requests share.
pub(crate) fn connections(
    https: HttpsConnector<ProxyConnector>,
) -> legacy::Client<HttpsConnector<ProxyConnector>, StreamBody> {
    legacy::Client::builder(TokioExecutor::new()).build(https)
}

/// A request with the body of those that are passed on, so that both ways are compiled once.
fn streamed(request: Request<Body>) -> Request<StreamBody> {
    request.map(|body| body.map_err(io::Error::other).boxed_unsync())
}

/// The reason why a member behind a tunnel did not answer, of the kind that it has.
fn named(cluster: &str, error: &(dyn std::error::Error + 'static)) -> io::Error {
    let (mut cause, mut kind) = (error, io::ErrorKind::Other);
    while let Some(next) = cause.source() {
        cause = next;
        kind = cause.downcast_ref().map_or(kind, io::Error::kind);
    }
    if cause.is::<tower::timeout::error::Elapsed>() {
        kind = io::ErrorKind::TimedOut;
    }
    io::Error::new(kind, format!("cluster {cluster} over its tunnel: {cause}"))
}

/// A client of a member behind a tunnel, as its agent.
pub fn client_through(tunnels: &Tunnels, cluster: &str, traffic: Arc<Traffic>) -> Client {
    let (config, name) = (Config::new(http::Uri::from_static(MEMBER)), cluster.to_owned());
    let service = ServiceBuilder::new()
        .layer(layer_fn(move |service| traffic.clone().before(service)))
        .layer(config.base_uri_layer())
        .map_err(move |error: BoxError| named(&name, &*error))
        .timeout(REQUEST_DEADLINE)
        .map_err(BoxError::from)
        .map_request(streamed)
        .service(tunnels.through(cluster));
    Client::new(service, config.default_namespace)
}

/// Access to a server with a bearer token.
#[derive(Debug, Clone, Copy)]
pub struct TokenAccess<'a> {
    /// `https://HOST:PORT`.
    pub endpoint: &'a str,
    /// The token, as stored in a Secret.
    pub token: &'a [u8],
    /// The certificates to trust, PEM; `None` trusts any.
    pub ca_bundle: Option<&'a [u8]>,
    /// The proxy on the way there, `http://HOST:PORT`; empty for none.
    pub proxy: &'a str,
    /// Headers for the proxy.
    pub proxy_header: &'a BTreeMap<String, String>,
    /// True for addresses that are not connected to, neither the server's nor the proxy's.
    pub bars: Bars,
}

/// A client for a server over the network, authenticated by a token.
///
/// # Errors
/// One line that says which part of the access can't be used.
pub fn client_by_token(access: TokenAccess<'_>, traffic: Arc<Traffic>) -> Result<Client, String> {
    let proxy_header = access.proxy_header.clone();
    let route = Route { proxy_header, bars: Some(access.bars), ..Route::default() };
    client_with(token_config(&access)?, traffic, route).map_err(|e| e.to_string())
}

/// The configuration of a client that is authenticated by a token.
pub(crate) fn token_config(access: &TokenAccess<'_>) -> Result<Config, String> {
    let endpoint: http::Uri =
        access.endpoint.parse().map_err(|e| format!("spec.apiEndpoint {:?} is not a URL: {e}", access.endpoint))?;
    let token = String::from_utf8(access.token.to_vec()).map_err(|_| "the key `token` is not text")?;
    let mut config = Config::new(endpoint);
    config.auth_info = AuthInfo { token: Some(SecretString::from(token)), ..AuthInfo::default() };
    config.accept_invalid_certs = access.ca_bundle.is_none();
    if !access.proxy.is_empty() {
        let proxy = access.proxy.parse().map_err(|e| format!("spec.proxyURL {:?} is not a URL: {e}", access.proxy))?;
        config.proxy_url = Some(proxy);
    }
    // Without roots of its own a configuration loads the system's, which nobody needs who verifies nothing.
    config.root_cert = Some(access.ca_bundle.map(certificates).transpose()?.unwrap_or_default());
    Ok(config)
}

/// A client for a webhook at `https://HOST:PORT`, without credentials.
///
/// `ca_bundle` is PEM; `None` trusts the certificates of the system. `server_name` is the name in the server's
/// certificate, where it differs from the host.
///
/// # Errors
/// One line that says what can't be used.
pub fn webhook_client(
    endpoint: &str,
    server_name: Option<&str>,
    ca_bundle: Option<&[u8]>,
    traffic: Arc<Traffic>,
) -> Result<Client, String> {
    let uri: http::Uri = endpoint.parse().map_err(|e| format!("{endpoint:?} is not a URL: {e}"))?;
    let mut config = Config::new(uri);
    config.tls_server_name = server_name.map(str::to_owned);
    let Some(bundle) = ca_bundle.map(certificates).transpose()? else {
        return client_from_kubeconfig(config, traffic).map_err(|e| e.to_string());
    };
    let name = server_name.map(|name| ServerName::try_from(name.to_owned()));
    let name =
        name.transpose().map_err(|e| format!("{:?} is no name of a server: {e}", server_name.unwrap_or_default()))?;
    let verifier = WebhookVerifier::new(&bundle)?;
    config.root_cert = Some(bundle);
    let route = Route { verification: Some((verifier, name)), ..Route::default() };
    client_with(config, traffic, route).map_err(|e| e.to_string())
}

/// Access to an aggregated API server.
#[derive(Debug, Clone, Copy)]
pub struct AggregatedAccess<'a> {
    /// `https://HOST:PORT`.
    pub endpoint: &'a str,
    /// The name in the server's certificate, where it differs from the host.
    pub server_name: Option<&'a str>,
    /// The certificates to trust, PEM; `None` trusts those of the system.
    pub ca_bundle: Option<&'a [u8]>,
    /// Trust any certificate.
    pub insecure: bool,
    /// Certificate and key that we present, PEM.
    pub certificate: Option<(&'a str, &'a str)>,
}

/// A client for an aggregated API server: it presents a certificate, and who the user is, each request says.
///
/// # Errors
/// One line that says what can't be used.
pub fn aggregated_client(access: AggregatedAccess<'_>, traffic: Arc<Traffic>) -> Result<Client, String> {
    let uri: http::Uri = access.endpoint.parse().map_err(|e| format!("{:?} is not a URL: {e}", access.endpoint))?;
    let mut config = Config::new(uri);
    if let Some((certificate, key)) = access.certificate {
        let data = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        config.auth_info = AuthInfo {
            client_certificate_data: Some(data(certificate)),
            client_key_data: Some(SecretString::from(data(key))),
            ..AuthInfo::default()
        };
    }
    config.read_timeout = Some(AGGREGATED_DEADLINE);
    config.tls_server_name = access.server_name.map(str::to_owned);
    let bundle = match (access.insecure, access.ca_bundle) {
        (true, _) => {
            config.accept_invalid_certs = true;
            config.root_cert = Some(vec![]);
            None
        }
        (false, bundle) => bundle.map(certificates).transpose()?,
    };
    let Some(bundle) = bundle else {
        return client_from_kubeconfig(config, traffic).map_err(|e| e.to_string());
    };
    let name = access.server_name.map(|name| ServerName::try_from(name.to_owned()));
    let name = name.transpose().map_err(|e| format!("the Service has no name of a server: {e}"))?;
    let verifier = WebhookVerifier::new(&bundle)?;
    config.root_cert = Some(bundle);
    let route = Route { verification: Some((verifier, name)), ..Route::default() };
    client_with(config, traffic, route).map_err(|e| e.to_string())
}

/// The certificates of a PEM bundle, as DER.
///
/// # Errors
/// One line that says why there are none.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pem).map(|c| c.map(|der| der.as_ref().to_vec())).collect();
    match all {
        Ok(list) if list.is_empty() => Err("the key `caBundle` holds no certificate".to_owned()),
        Ok(list) => Ok(list),
        Err(e) => Err(format!("the key `caBundle` is not PEM: {e}")),
    }
}

/// A client over a service in this process: the embedded server, or a fault layer in front of it.
pub fn in_process_client<S, B>(service: S, traffic: Arc<Traffic>) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = ServiceBuilder::new().timeout(REQUEST_DEADLINE).service(traffic.before(service));
    Client::new(service, "default")
}
