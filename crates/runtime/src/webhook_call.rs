//! One question to a webhook.

use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use kube::{Client, client::Body};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Characters of an answer's text in an error.
const TEXT_MAX: usize = 200;

/// Sends JSON to this path of a webhook, and returns the body of a successful answer, of 4 MiB at most.
///
/// # Errors
/// One line that says why there is no answer.
pub async fn ask_webhook(client: &Client, path: &str, question: Vec<u8>) -> Result<Vec<u8>, String> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(question))
        .map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| with_sources(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| format!("its answer: {error}"))?.to_bytes();
    if status.is_success() {
        return Ok(body.to_vec());
    }
    let text: String = String::from_utf8_lossy(&body).chars().take(TEXT_MAX).collect();
    Err(format!("it answered {status}: {}", text.trim()))
}

/// An error with its causes: the outer error of a client says only that the request failed.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
