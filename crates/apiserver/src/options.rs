//! What a server is opened with.

use std::{sync::Arc, time::Duration};

use ironclad_store::StoreError;

use crate::{Identity, TokenKey, WebhookCaller, admission::Admission, convert::Converter};

/// What a server is opened with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server's name in logs.
    pub name: String,
    /// Refuse pods whose ServiceAccount doesn't exist, as a kube-apiserver does. Needs somebody who makes the default
    /// ServiceAccounts.
    pub service_account_admission: bool,
    /// Bearer tokens and whose they are.
    pub tokens: Vec<Token>,
    /// What signs the tokens of ServiceAccounts; without it, a key of this process.
    pub token_key: Option<TokenKey>,
    /// Make the namespaces, roles and bindings that every cluster has.
    pub bootstrap: bool,
    /// Keep an APIService for each group and version that is served: for servers that people look at.
    pub api_services: bool,
    /// Note in `metadata.managedFields` who set which field, at every write. Off, only objects that somebody applies to from
    /// the server's side are tracked: cheaper, for servers that nobody inspects.
    pub managed_fields: bool,
    /// Who carries calls to the admission webhooks of users; without anybody, such calls fail.
    pub webhooks: Option<Arc<dyn WebhookCaller>>,
    /// Who reviews writes besides the server itself.
    pub admission: Option<Arc<dyn Admission>>,
    /// Converts objects of CRDs that name a conversion webhook: it is not called, this is.
    pub converter: Option<Converter>,
    /// What clients over the network may take.
    pub bounds: Bounds,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "apiserver".into(),
            service_account_admission: false,
            tokens: vec![],
            token_key: None,
            bootstrap: true,
            api_services: false,
            managed_fields: true,
            webhooks: None,
            admission: None,
            converter: None,
            bounds: Bounds::default(),
        }
    }
}

/// A bearer token.
#[derive(Clone)]
pub struct Token {
    /// The secret.
    pub token: String,
    /// Whose it is.
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
        /// What the store said.
        #[source]
        source: StoreError,
    },
    /// What the store holds can't be read.
    #[error("reading the objects of server {server}: {message}; restore the data directory from a backup")]
    Unreadable {
        /// The server's name.
        server: String,
        /// What is wrong.
        message: String,
    },
}

/// What clients over the network may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Open connections. At the bound, the one that has been idle the longest is closed for each that comes.
    pub connections: usize,
    /// Requests under way; more are answered 429, but for members of `system:masters`. Watches count until they begin.
    pub requests: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the head of a request may take; also how long a connection may take to its first one.
    pub head: Duration,
    /// How long the body of a request may take.
    pub body: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 4_096,
            // What a kube-apiserver takes: 400 that read and 200 that write (specification/apiserver.md 24).
            requests: 600,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            body: Duration::from_secs(60),
        }
    }
}
