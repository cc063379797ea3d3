//! Calls to users' admission webhooks, over the network.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use ironclad_apiserver::{WebhookAnswer, WebhookCall, WebhookCaller};
use ironclad_runtime::{Traffic, webhook_client};
use kube::{Client, client::Body};
use parking_lot::Mutex;

/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Clients that are cached. Beyond that the cache is emptied: few clusters have as many webhooks, but CA bundles
/// change.
const CLIENTS_MAX: usize = 64;

/// Address and trusted authorities of a client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Peer {
    base: String,
    server_name: Option<String>,
    ca_bundle: Option<Vec<u8>>,
}

/// Calls webhooks over TLS, without credentials. Each webhook has its own cached connections.
#[derive(Default)]
pub struct NetworkCaller {
    clients: Arc<Mutex<BTreeMap<Peer, Client>>>,
}

impl std::fmt::Debug for NetworkCaller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetworkCaller").field("clients", &self.clients.lock().len()).finish()
    }
}

impl NetworkCaller {
    fn client(clients: &Mutex<BTreeMap<Peer, Client>>, peer: Peer) -> Result<Client, String> {
        let mut clients = clients.lock();
        if let Some(client) = clients.get(&peer) {
            return Ok(client.clone());
        }
        let made = webhook_client(
            &peer.base,
            peer.server_name.as_deref(),
            peer.ca_bundle.as_deref(),
            Arc::new(Traffic::default()),
        )?;
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(peer, made.clone());
        Ok(made)
    }
}

impl WebhookCaller for NetworkCaller {
    fn call(&self, call: WebhookCall) -> WebhookAnswer {
        let clients = self.clients.clone();
        Box::pin(async move {
            let url: http::Uri = call.url.parse().map_err(|e| format!("Post {:?}: {e}", call.url))?;
            let authority = url.authority().map_or("", |a| a.as_str()).to_owned();
            let base = format!("{}://{authority}", url.scheme_str().unwrap_or("https"));
            let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            let failed = |why: String| format!("Post {:?}: {why}", call.url);
            let peer = Peer { base, server_name: call.server_name, ca_bundle: call.ca_bundle };
            let client = Self::client(&clients, peer).map_err(failed)?;
            let request = Request::post(path)
                .header("content-type", "application/json")
                .header("accept", "application/json, */*")
                .header("user-agent", "kube-apiserver-admission")
                .body(Body::from(call.body.to_vec()))
                .map_err(|e| failed(e.to_string()))?;
            let response = client.send(request).await.map_err(|e| failed(unreachable_because(&e, &authority)))?;
            let status = response.status();
            let media = response.headers().get("content-type").and_then(|v| v.to_str().ok()).map(str::to_owned);
            let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body: Bytes = body.map_err(|e| failed(e.to_string()))?.to_bytes();
            if !status.is_success() {
                /// Bytes of an error response that are shown.
                const SHOWN: usize = 512;
                let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim().to_owned();
                let is_text = media.is_none_or(|media| media.starts_with("text/"));
                return Err(refused_because(status.as_u16(), if is_text { &text } else { "unknown" }));
            }
            Ok(body)
        })
    }
}

/// Describes an error response with the words of a kube-apiserver.
fn refused_because(code: u16, text: &str) -> String {
    match code {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => text.to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned()
        }
        500.. => format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {code} but did not return more information"),
    }
}

/// Describes a failed connection, with the words of a kube-apiserver for its two usual causes.
fn unreachable_because(error: &kube::Error, authority: &str) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(current) = cause {
        last = current.to_string();
        let refused = |io: &std::io::Error| io.kind() == std::io::ErrorKind::ConnectionRefused;
        if current.downcast_ref::<std::io::Error>().is_some_and(refused) {
            return format!("dial tcp {authority}: connect: connection refused");
        }
        if last.contains("UnknownIssuer") {
            return "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned();
        }
        cause = current.source();
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_are_reused_and_bounded() {
        let caller = NetworkCaller::default();
        let peer = |port: usize, bundle: Option<&str>| Peer {
            base: format!("https://127.0.0.1:{port}"),
            server_name: None,
            ca_bundle: bundle.map(|text| text.as_bytes().to_vec()),
        };
        for _ in 0..3 {
            NetworkCaller::client(&caller.clients, peer(1, None)).unwrap();
        }
        assert_eq!(caller.clients.lock().len(), 1, "the same peer, the same client");
        let error = NetworkCaller::client(&caller.clients, peer(1, Some("no PEM"))).err();
        assert!(error.is_some_and(|e| e.contains("caBundle")), "another bundle is another client");
        for port in 0..3 * CLIENTS_MAX {
            NetworkCaller::client(&caller.clients, peer(port, None)).unwrap();
            assert!(caller.clients.lock().len() <= CLIENTS_MAX);
        }
    }

    #[test]
    fn refusals() {
        for (code, text, want) in [
            (500, "boom", "an error on the server (\"boom\") has prevented the request from succeeding"),
            (404, "no such page", "the server could not find the requested resource"),
            (503, "later", "the server is currently unable to handle the request"),
            (302, "", "the server responded with the status code 302 but did not return more information"),
        ] {
            assert_eq!(refused_because(code, text), want);
        }
    }

    #[tokio::test]
    async fn refused_connections_are_explained() {
        let call = WebhookCall {
            url: "https://127.0.0.1:1/x?timeout=1s".to_owned(),
            server_name: None,
            ca_bundle: None,
            body: Bytes::new(),
            timeout: std::time::Duration::from_secs(1),
        };
        let answer = NetworkCaller::default().call(call).await;
        let want = "Post \"https://127.0.0.1:1/x?timeout=1s\": dial tcp 127.0.0.1:1: connect: connection refused";
        assert_eq!(answer, Err(want.to_owned()));
    }
}
