//! Calls to users' admission webhooks, over the network.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use ironclad_apiserver::{WebhookAnswer, WebhookCall, WebhookCaller};
use ironclad_runtime::{Traffic, webhook_client};
use kube::client::Body;

/// The most bytes of an answer.
const ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Calls webhooks with TLS, as themselves: they get no credentials.
#[derive(Debug)]
pub(crate) struct NetworkCaller;

impl WebhookCaller for NetworkCaller {
    fn call(&self, call: WebhookCall) -> WebhookAnswer {
        Box::pin(async move {
            let url: http::Uri = call.url.parse().map_err(|e| format!("Post {:?}: {e}", call.url))?;
            let base =
                format!("{}://{}", url.scheme_str().unwrap_or("https"), url.authority().map_or("", |a| a.as_str()));
            let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
            let failed = |why: String| format!("Post {:?}: {why}", call.url);
            let client = webhook_client(
                &base,
                call.server_name.as_deref(),
                call.ca_bundle.as_deref(),
                Arc::new(Traffic::default()),
            )
            .map_err(failed)?;
            let request = Request::post(path)
                .header("content-type", "application/json")
                .header("accept", "application/json, */*")
                .header("user-agent", "kube-apiserver-admission")
                .body(Body::from(call.body.to_vec()))
                .map_err(|e| failed(e.to_string()))?;
            let response = client.send(request).await.map_err(|e| failed(e.to_string()))?;
            let status = response.status();
            let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body: Bytes = body.map_err(|e| failed(e.to_string()))?.to_bytes();
            if !status.is_success() {
                /// What is shown of an answer that is no success.
                const SHOWN: usize = 512;
                let text = String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).trim().to_owned();
                return Err(format!("an error on the server ({text:?}) has prevented the request from succeeding"));
            }
            Ok(body)
        })
    }
}
