//! Paths that somebody else answers in front of the server, such as proxies to other clusters.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use http::{Request, Response};

use crate::{Identity, ResponseBody};

/// The answer of a route, as it comes.
pub type RouteFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

/// Something that answers certain paths of a server.
///
/// It is asked after authentication, impersonation and authorization: the caller may do what the path says.
pub trait Route: Send + Sync {
    /// Whether this path is its own.
    fn takes(&self, path: &str) -> bool;

    /// Answers a request of this user. It runs as a task of the server, without the time limit of ordinary requests.
    fn call(&self, request: Request<Bytes>, identity: Identity) -> RouteFuture;
}
