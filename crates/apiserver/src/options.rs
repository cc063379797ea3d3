//! Options of a server.

use std::{sync::Arc, time::Duration};

use ironclad_store::StoreError;

use crate::{
    Identity, TokenKey, WebhookCaller, admission::Admission, aggregation::forwarder::Forwarder, convert::Converter,
    feature_gates::FeatureGates,
};

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server's name in logs.
    pub name: String,
    /// Pods that are refused because their ServiceAccount does not exist.
    pub service_account_admission: ServiceAccountAdmission,
    /// Address at which clients reach the server, `https://HOST:PORT`, for the documents by which others verify
    /// tokens of ServiceAccounts; without one, the address in the cluster.
    pub external_url: Option<String>,
    /// Bearer tokens and their users.
    pub tokens: Vec<Token>,
    /// The key that signs tokens of ServiceAccounts; without one, the server generates a key for this process.
    pub token_key: Option<TokenKey>,
    /// Make the namespaces, roles and bindings that every cluster has.
    pub bootstrap: bool,
    /// Keeps an APIService for each group and version that is served, for `kubectl get apiservices`.
    pub api_services: bool,
    /// Tracks field ownership in `metadata.managedFields` at every write. If off, only objects of server-side apply are
    /// tracked, which is cheaper.
    pub managed_fields: bool,
    /// Carries calls to the admission webhooks of users; without it such calls fail.
    pub webhooks: Option<Arc<dyn WebhookCaller>>,
    /// Carries requests to the servers of APIServices; without it they are not forwarded.
    pub forwarder: Option<Arc<dyn Forwarder>>,
    /// Reviews writes besides the server itself.
    pub admission: Option<Arc<dyn Admission>>,
    /// Converts objects of CRDs that name a conversion webhook: it is not called, this is.
    pub converter: Option<Converter>,
    /// Gates of Kubernetes.
    pub feature_gates: FeatureGates,
    /// Limits for clients over the network.
    pub bounds: Bounds,
}

/// Refusal of pods whose ServiceAccount does not exist (specification/apiserver.md 21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceAccountAdmission {
    /// Accounts are not looked up, and not written into pods.
    Off,
    /// Pods of a missing account are refused, except those of account `default`: the controller that creates it with
    /// each namespace may be a moment late, for which a kube-apiserver waits.
    Named,
    /// Pods of a missing account are refused.
    All,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "apiserver".into(),
            service_account_admission: ServiceAccountAdmission::Off,
            external_url: None,
            tokens: vec![],
            token_key: None,
            bootstrap: true,
            api_services: false,
            managed_fields: true,
            webhooks: None,
            forwarder: None,
            admission: None,
            converter: None,
            feature_gates: FeatureGates::default(),
            bounds: Bounds::default(),
        }
    }
}

/// A bearer token.
#[derive(Clone)]
pub struct Token {
    /// The secret.
    pub token: String,
    /// Its user.
    pub identity: Identity,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// A server that can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store refused the first objects.
    #[error("writing the first objects of server {server}")]
    Store {
        /// The server's name.
        server: String,
        /// The error of the store.
        #[source]
        source: StoreError,
    },
    /// The content of the store can't be read.
    #[error("reading the objects of server {server}: {message}; restore the data directory from a backup")]
    Unreadable {
        /// The server's name.
        server: String,
        /// The fault.
        message: String,
    },
}

/// Limits for clients over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Open connections. At the limit, the longest idle one is closed for each new one.
    pub connections: usize,
    /// Requests under way; more are answered 429, but for members of `system:masters`. Watches count until they begin.
    pub requests: usize,
    /// Requests of routes under way, with the connections that they upgraded; more are answered 429, but for members of
    /// `system:masters`. They don't count among the others.
    pub streams: usize,
    /// Timeout of a TLS handshake.
    pub handshake: Duration,
    /// Timeout of the head of a request, and of the first request on a connection.
    pub head: Duration,
    /// Timeout of the body of a request.
    pub body: Duration,
    /// A connection ends whose client leaves an answer unread for this long. Watches are not meant.
    pub send: Duration,
    /// Bytes of answers that are built or sent at once, but for members of `system:masters`. Others wait for a moment
    /// and are then answered 429. Watches are not meant.
    pub answer_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 4_096,
            // As a kube-apiserver: 400 reads and 200 writes (specification/apiserver.md 24).
            requests: 600,
            streams: 1_000,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            body: Duration::from_secs(60),
            send: Duration::from_secs(60),
            answer_bytes: 256 * 1024 * 1024,
        }
    }
}
