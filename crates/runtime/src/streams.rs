//! Requests that are passed on: bodies and answers stream, connections are upgraded, and answers may take any time.

use std::{error::Error, io, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use kube::client::ConfigExt as _;

use crate::{
    client::{TokenAccess, connections, token_config},
    proxy::ProxyConnector,
};

/// Time to connect; a server that does not accept in it is not there.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Interval of the probes by which the kernel finds that a peer is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Body of a request that is passed on.
pub type StreamBody = UnsyncBoxBody<Bytes, io::Error>;

/// Passes requests on to one server, over HTTP/1.1. It has connections of its own. Cheap to clone.
#[derive(Clone)]
pub struct Streams {
    client: Client<HttpsConnector<ProxyConnector>, StreamBody>,
    server: Uri,
    authorization: HeaderValue,
}

impl Streams {
    /// To a server that knows us by a bearer token.
    ///
    /// # Errors
    /// One line that says which part of the access can't be used.
    pub fn by_token(access: TokenAccess<'_>) -> Result<Self, String> {
        let config = token_config(&access)?;
        let proxy = ProxyConnector::new(config.proxy_url.as_ref(), access.proxy_header, Some(access.bars));
        let connector = proxy.map_err(|why| format!("spec.proxyURL can't be used: {why}"))?;
        let connector = connector.with_times(CONNECT_MAX, KEEP_ALIVE);
        let https = config.rustls_https_connector_with_connector(connector).map_err(|error| error.to_string())?;
        // The token is text, or there were no configuration.
        let mut authorization = HeaderValue::from_bytes(&[b"Bearer ", access.token].concat())
            .map_err(|_| "the key `token` has characters that can't be sent")?;
        authorization.set_sensitive(true);
        Ok(Self { client: connections(https), server: config.cluster_url, authorization })
    }

    /// Sends a request whose URI is the path at the server, below the server's own path, if it has one.
    ///
    /// # Errors
    /// The innermost reason why there is no answer.
    pub async fn send(&self, mut request: Request<StreamBody>) -> Result<Response<Incoming>, String> {
        let below = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = format!("{}{below}", self.server.to_string().trim_end_matches('/'));
        *request.uri_mut() = uri.parse().map_err(|error| format!("{below:?} can't be sent: {error}"))?;
        request.headers_mut().insert(header::AUTHORIZATION, self.authorization.clone());
        self.client.request(request).await.map_err(|error| {
            let mut cause: &dyn Error = &error;
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
