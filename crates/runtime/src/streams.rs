//! Requests that are passed on: bodies and answers stream, connections are upgraded, and answers may take any time.

use std::{collections::BTreeMap, error::Error, time::Duration};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use kube::{Config, client::ConfigExt as _, config::AuthInfo};
use secrecy::SecretString;
use tower::{BoxError, ServiceBuilder, ServiceExt as _, util::BoxCloneSyncService};

use crate::{
    client::{TokenAccess, connections, token_config},
    proxy::{Bars, ProxyConnector},
    tunnel::Tunnels,
};

/// Time to connect; a server that does not accept in it is not there.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Interval of the probes by which the kernel finds that a peer is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Address of a member behind a tunnel.
pub(crate) const MEMBER: &str = "http://member";

/// Body of a request that is passed on.
pub type StreamBody = ironclad_serving::Body;

/// Passes requests on to one server, over HTTP/1.1. It has connections of its own. Cheap to clone.
#[derive(Clone)]
pub struct Streams {
    service: BoxCloneSyncService<Request<StreamBody>, Response<Incoming>, BoxError>,
    server: Uri,
}

impl Streams {
    /// To a server that knows us by a bearer token.
    ///
    /// # Errors
    /// One line that says which part of the access can't be used.
    pub fn by_token(access: TokenAccess<'_>) -> Result<Self, String> {
        let header = access.proxy_header.clone();
        Self::of(token_config(&access)?, "spec.proxyURL", &header, Some(access.bars))
    }

    /// To the server of a kubeconfig, as its user.
    ///
    /// # Errors
    /// One line that says what can't be used.
    pub fn by_config(config: Config) -> Result<Self, String> {
        Self::of(config, "proxy-url of the kubeconfig", &BTreeMap::new(), None)
    }

    /// To the server of a kubeconfig, by a bearer token in place of its user.
    ///
    /// # Errors
    /// One line that says what can't be used.
    pub fn by_config_and_token(mut config: Config, token: String) -> Result<Self, String> {
        config.auth_info = AuthInfo { token: Some(SecretString::from(token)), ..AuthInfo::default() };
        Self::by_config(config)
    }

    /// `named` is what people call the field with the proxy's address.
    fn of(
        config: Config,
        named: &str,
        proxy_header: &BTreeMap<String, String>,
        bars: Option<Bars>,
    ) -> Result<Self, String> {
        let proxy = ProxyConnector::new(config.proxy_url.as_ref(), proxy_header, bars);
        let connector = proxy.map_err(|why| format!("{named} can't be used: {why}"))?;
        let connector = connector.with_times(CONNECT_MAX, KEEP_ALIVE);
        let https = config.rustls_https_connector_with_connector(connector).map_err(|error| error.to_string())?;
        let service = ServiceBuilder::new()
            .option_layer(config.auth_layer().map_err(|error| error.to_string())?)
            .map_err(BoxError::from)
            .service(connections(https));
        Ok(Self { service: BoxCloneSyncService::new(service), server: config.cluster_url })
    }

    /// To the agent of a cluster, which passes requests on to its member.
    #[must_use]
    pub fn through(tunnels: &Tunnels, cluster: &str) -> Self {
        let service = ServiceBuilder::new().map_err(BoxError::from).service(tunnels.through(cluster));
        Self { service: BoxCloneSyncService::new(service), server: Uri::from_static(MEMBER) }
    }

    /// Sends a request whose URI is the path at the server, below the server's own path, if it has one.
    ///
    /// # Errors
    /// The innermost reason why there is no answer.
    pub async fn send(&self, mut request: Request<StreamBody>) -> Result<Response<Incoming>, String> {
        let below = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = format!("{}{below}", self.server.to_string().trim_end_matches('/'));
        *request.uri_mut() = uri.parse().map_err(|error| format!("{below:?} can't be sent: {error}"))?;
        self.service.clone().oneshot(request).await.map_err(|error| {
            let mut cause: &dyn Error = &*error;
            while let Some(next) = cause.source() {
                cause = next;
            }
            cause.to_string()
        })
    }

    /// Address of the server.
    #[must_use]
    pub fn server(&self) -> &Uri {
        &self.server
    }
}
