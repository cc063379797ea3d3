//! The calls of webhooks, and who carries them.

use std::{fmt::Debug, future::Future, pin::Pin, time::Duration};

use bytes::Bytes;

/// A call of a webhook.
#[derive(Debug, Clone)]
pub struct WebhookCall {
    /// The URL, with the query `timeout`.
    pub url: String,
    /// The name that its certificate must have, where that isn't the URL's host.
    pub server_name: Option<String>,
    /// The certificates to trust, PEM; `None`: those that the system trusts.
    pub ca_bundle: Option<Vec<u8>>,
    /// The AdmissionReview, JSON.
    pub body: Bytes,
    /// The call is given up after this time.
    pub timeout: Duration,
}

/// The answer to a [`WebhookCall`]: the body or an error.
pub type WebhookAnswer = Pin<Box<dyn Future<Output = Result<Bytes, String>> + Send>>;

/// Carries calls to webhooks.
pub trait WebhookCaller: Debug + Send + Sync {
    /// POSTs the body. An answer that isn't 2xx is an error: `an error on the server ("…") has prevented the request
    /// from succeeding`.
    fn call(&self, call: WebhookCall) -> WebhookAnswer;
}
