//! Paths that are answered in front of the server, such as proxies to other clusters.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use http::{Request, Response};

use crate::{Identity, ResponseBody};

/// The future answer of a route.
pub type RouteFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

/// Answers certain paths of a server.
///
/// It is called after authentication, impersonation and authorization of the path.
pub trait Route: Send + Sync {
    /// True for the paths of this route.
    fn takes(&self, path: &str) -> bool;

    /// Answers a request. It runs as a task of the server, without the time limit of ordinary requests.
    fn call(&self, request: Request<Bytes>, identity: Identity) -> RouteFuture;
}
