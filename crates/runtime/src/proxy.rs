//! Connections through an HTTP proxy (the `proxy-url` of a kubeconfig, `spec.proxyURL` of a Cluster), and the
//! addresses that are never connected to.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderName, HeaderValue, Uri, header::PROXY_AUTHORIZATION};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use percent_encoding::percent_decode_str;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tower::{BoxError, Service};

/// A proxy's answer that is longer is refused.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// True for addresses that are not connected to.
pub type Bars = fn(&IpAddr) -> bool;

/// Opens TCP connections, through a proxy if there is one.
#[derive(Clone)]
pub(crate) struct ProxyConnector {
    http: HttpConnector,
    proxy: Option<Proxy>,
    /// Addresses that are not connected to.
    bars: Option<Bars>,
}

#[derive(Clone)]
struct Proxy {
    address: Uri,
    /// Value of `Proxy-Authorization`, empty for none.
    authorization: String,
    /// Lines of further headers.
    headers: String,
}

impl ProxyConnector {
    /// A connector through this proxy, to which these headers are sent. A header with several values has them joined
    /// by commas.
    ///
    /// # Errors
    /// If the proxy is of a kind that is not supported, or a header can't be sent.
    pub(crate) fn new(
        proxy: Option<&Uri>,
        headers: &BTreeMap<String, String>,
        bars: Option<Bars>,
    ) -> Result<Self, &'static str> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        let Some(proxy) = proxy else { return Ok(Self { http, proxy: None, bars }) };
        if proxy.scheme_str() != Some("http") {
            return Err("only proxies that are reached by http are supported");
        }
        let user = proxy.authority().and_then(|authority| authority.as_str().rsplit_once('@')).map(|(user, _)| user);
        let decoded = user.map(|user| percent_decode_str(user).collect::<Vec<u8>>());
        let authorization = decoded.map_or_else(String::new, |user| format!("Basic {}", STANDARD.encode(user)));
        let mut lines = String::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "a proxy header has a name that is none")?;
            // The URL's user information comes first, as in Go.
            if name == PROXY_AUTHORIZATION && !authorization.is_empty() {
                continue;
            }
            for value in value.split(',').map(str::trim) {
                if HeaderValue::from_str(value).is_err() {
                    return Err("a proxy header has a value that can't be sent");
                }
                lines += &format!("{name}: {value}\r\n");
            }
        }
        Ok(Self { http, proxy: Some(Proxy { address: proxy.clone(), authorization, headers: lines }), bars })
    }
}

impl ProxyConnector {
    /// The same with a limit to the time to connect, and probes of connections at this interval.
    pub(crate) fn with_times(mut self, connect: Duration, probe: Duration) -> Self {
        self.http.set_connect_timeout(Some(connect));
        self.http.set_keepalive(Some(probe));
        self.http.set_keepalive_interval(Some(probe));
        self
    }
}

/// Refuses a connection to a barred address, before anything is sent.
fn check_peer(stream: &TcpStream, bars: Option<Bars>) -> Result<(), BoxError> {
    let Some(bars) = bars else { return Ok(()) };
    let address = stream.peer_addr()?.ip();
    if bars(&address) { Err(format!("{address} is never connected to").into()) } else { Ok(()) }
}

impl Service<Uri> for ProxyConnector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.http.poll_ready(context).map_err(BoxError::from)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let Some(proxy) = self.proxy.clone() else {
            let (connecting, bars) = (self.http.call(server), self.bars);
            return Box::pin(async move {
                let connection = connecting.await?;
                check_peer(connection.inner(), bars)?;
                Ok(connection)
            });
        };
        let (connecting, bars) = (self.http.call(proxy.address.clone()), self.bars);
        Box::pin(async move {
            let connection = connecting.await.map_err(|error| format!("proxy {}: {error}", named(&proxy.address)))?;
            check_peer(connection.inner(), bars)?;
            let literal = server.host().and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
            if literal.zip(bars).is_some_and(|(address, bars)| bars(&address)) {
                return Err(format!("{} is never connected to", server.host().unwrap_or_default()).into());
            }
            let stream = tunnel(connection.into_inner(), &server, &proxy).await;
            stream.map(TokioIo::new).map_err(|error| format!("proxy {}: {error}", named(&proxy.address)).into())
        })
    }
}

/// Host and port of a proxy, without credentials.
fn named(proxy: &Uri) -> String {
    format!("{}:{}", proxy.host().unwrap_or_default(), proxy.port_u16().unwrap_or(80))
}

/// Asks the proxy for a connection to the server.
async fn tunnel(mut stream: TcpStream, server: &Uri, proxy: &Proxy) -> Result<TcpStream, BoxError> {
    let host = server.host().ok_or("the server's address has no host")?;
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
    let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if !proxy.authorization.is_empty() {
        request += &format!("Proxy-Authorization: {}\r\n", proxy.authorization);
    }
    request += &proxy.headers;
    stream.write_all((request + "\r\n").as_bytes()).await?;
    // Byte by byte: what follows the answer belongs to the connection.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == ANSWER_BYTES_MAX {
            return Err("its answer to CONNECT is too long".into());
        }
        answer.push(stream.read_u8().await.map_err(|error| format!("it does not answer CONNECT: {error}"))?);
    }
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some(code) if code.starts_with('2') => Ok(stream),
        _ => Err(format!("it refuses CONNECT {host}:{port}: {status}").into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::{Client, config::Kubeconfig};
    use tokio::net::TcpListener;

    use super::*;
    use crate::{ClientError, TokenAccess, Traffic, client_by_token, client_config, client_from_kubeconfig};

    /// Accepts one connection, answers each block of headers with the next answer, and returns the blocks.
    #[expect(clippy::disallowed_methods, reason = "the test awaits the task itself")]
    async fn serve(answers: &'static [&'static str]) -> (String, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut requests = Vec::new();
            for answer in answers {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.unwrap());
                }
                requests.push(String::from_utf8(request).unwrap());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            requests
        });
        (address, served)
    }

    /// A kubeconfig with these lines for the cluster and for the user.
    async fn client(cluster: &str, user: &str) -> Result<Client, ClientError> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let text = format!(
            "clusters: [{{name: c, cluster: {{{cluster}}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        let config = client_config(Kubeconfig::from_yaml(&text).unwrap(), None).await.unwrap();
        client_from_kubeconfig(config, Arc::new(Traffic::default()))
    }

    async fn get(client: &Client) -> Result<String, kube::Error> {
        client.request_text(http::Request::get("/version").body(Vec::new()).unwrap()).await
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    #[tokio::test]
    async fn requests_name_the_user_that_the_kubeconfig_impersonates() {
        let (address, served) = serve(&[OK]).await;
        let user = "token: t, as: jane, as-uid: u1, as-groups: [devs, ops], as-user-extra: {reason: [audit]}";
        assert_eq!(get(&client(&format!("server: \"http://{address}\""), user).await.unwrap()).await.unwrap(), "ok");
        let request = served.await.unwrap().remove(0);
        for header in [
            "authorization: Bearer t",
            "impersonate-user: jane",
            "impersonate-uid: u1",
            "impersonate-group: devs",
            "impersonate-group: ops",
            "impersonate-extra-reason: audit",
        ] {
            assert!(request.contains(&format!("\r\n{header}\r\n")), "{header}: {request}");
        }
    }

    #[tokio::test]
    async fn requests_go_through_the_proxy_of_the_kubeconfig() {
        let (proxy, served) = serve(&["HTTP/1.1 200 Connection established\r\n\r\n", OK]).await;
        let cluster = format!("server: \"http://api.example:8080\", proxy-url: \"http://me:p%40ss@{proxy}\"");
        assert_eq!(get(&client(&cluster, "token: t").await.unwrap()).await.unwrap(), "ok");
        let requests = served.await.unwrap();
        let authorization = "Proxy-Authorization: Basic bWU6cEBzcw==";
        assert_eq!(
            requests[0],
            format!("CONNECT api.example:8080 HTTP/1.1\r\nHost: api.example:8080\r\n{authorization}\r\n\r\n")
        );
        assert!(requests[1].starts_with("GET /version") && !requests[1].contains("roxy"), "{}", requests[1]);
    }

    fn access<'a>(endpoint: &'a str, proxy: &'a str, proxy_header: &'a BTreeMap<String, String>) -> TokenAccess<'a> {
        TokenAccess { endpoint, token: b"t", ca_bundle: None, proxy, proxy_header, bars: |_| false }
    }

    #[tokio::test]
    async fn headers_of_a_cluster_are_sent_to_its_proxy_alone() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (proxy, served) = serve(&["HTTP/1.1 200 Connection established\r\n\r\n", OK]).await;
        let headers = [("X-Tenant", "a, b"), ("Proxy-Authorization", "Bearer p")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let url = format!("http://{proxy}");
        let client = client_by_token(access("http://api.example:8080", &url, &headers), Arc::default()).unwrap();
        assert_eq!(get(&client).await.unwrap(), "ok");
        let requests = served.await.unwrap();
        for header in ["x-tenant: a", "x-tenant: b", "proxy-authorization: Bearer p"] {
            assert!(requests[0].contains(&format!("\r\n{header}\r\n")), "{header}: {}", requests[0]);
            assert!(!requests[1].contains(header), "{}", requests[1]);
        }
        let broken = [("X".to_owned(), "a\r\nY: b".to_owned())].into();
        let refused = client_by_token(access("http://api.example", &url, &broken), Arc::default()).err().unwrap();
        assert!(refused.contains("a proxy header has a value that can't be sent"), "{refused}");
    }

    #[tokio::test]
    async fn barred_addresses_are_not_connected_to() {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let bars: Bars = |address| *address == IpAddr::from([127, 0, 0, 2]);
        let there = format!("http://127.0.0.2:{port}");
        for (server, proxy) in [
            (there.as_str(), ""),
            // 127.0.0.2 as one number, which resolvers take.
            (format!("http://2130706434:{port}").as_str(), ""),
            ("http://api.example", there.as_str()),
            ("http://127.0.0.2", format!("http://127.0.0.1:{port}").as_str()),
        ] {
            let proxy: Option<Uri> = (!proxy.is_empty()).then(|| proxy.parse().unwrap());
            let mut connector = ProxyConnector::new(proxy.as_ref(), &BTreeMap::new(), Some(bars)).unwrap();
            let error = connector.call(server.parse().unwrap()).await.err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("{server} {proxy:?}: connected"));
            assert!(error.contains("127.0.0.2 is never connected to"), "{server} {proxy:?}: {error}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_cannot_be_used_is_named_without_its_password() {
        let refused = client("server: \"https://api\", proxy-url: \"socks5://me:secret@proxy:1080\"", "token: t").await;
        let want = "proxy proxy of https://api/ can't be used: only proxies that are reached by http are supported\n  try: http://HOST:PORT";
        assert_eq!(refused.err().unwrap().to_string(), want);
        let (proxy, _served) = serve(&["HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"]).await;
        let cluster = format!("server: \"https://api\", proxy-url: \"http://me:secret@{proxy}\"");
        let error = get(&client(&cluster, "token: t").await.unwrap()).await.unwrap_err();
        let text = format!("{:?}", error);
        let want = format!("proxy {proxy}: it refuses CONNECT api:443: HTTP/1.1 407 Proxy Authentication Required");
        assert!(text.contains(&want) && !text.contains("secret"), "{text}");
    }
}
