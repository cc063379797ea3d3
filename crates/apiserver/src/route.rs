//! Paths that somebody else answers in front of the server, such as proxies to other clusters.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};

use crate::{Identity, ResponseBody, Server};

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

impl Server {
    /// Puts a route in front of the server; those that were put before are asked first.
    pub fn mount(&self, route: Arc<dyn Route>) {
        self.routes.write().push(route);
    }

    /// The route that takes this path.
    pub(crate) fn route_of(&self, path: &str) -> Option<Arc<dyn Route>> {
        self.routes.read().iter().find(|r| r.takes(path)).cloned()
    }
}
