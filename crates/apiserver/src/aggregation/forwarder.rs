//! The way to aggregated API servers, which the program that runs this server provides.

use std::{future::Future, io, pin::Pin};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

/// Address of an aggregated API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardTarget {
    /// `https://HOST:PORT`.
    pub base: String,
    /// The name that its certificate must have, where that isn't the host.
    pub server_name: Option<String>,
    /// The certificates to trust, PEM; `None`: those that the system trusts.
    pub ca_bundle: Option<Vec<u8>>,
    /// Trust any certificate: `insecureSkipTLSVerify`.
    pub insecure: bool,
}

/// The body of an answer, which may be a stream.
pub type ForwardBody = UnsyncBoxBody<Bytes, io::Error>;

/// The answer of an aggregated API server, or the reason why there is none.
pub type ForwardAnswer = Pin<Box<dyn Future<Output = Result<Response<ForwardBody>, String>> + Send>>;

/// Carries requests to aggregated API servers, with the client certificate that they know this server by.
pub trait Forwarder: std::fmt::Debug + Send + Sync {
    /// Sends a request whose URI is a path and query.
    fn forward(&self, target: ForwardTarget, request: Request<Bytes>) -> ForwardAnswer;
}
