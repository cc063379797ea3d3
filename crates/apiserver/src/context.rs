//! One request on its way through the server: what it is about, who asks, what was noticed.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;

use crate::{
    Identity, Server,
    negotiate::{Accept, Format},
    registry::Resource,
    request::{Query, ResourcePath, Verb},
};

/// Everything that the handling of one request needs.
pub(crate) struct Cx {
    pub(crate) server: Arc<Server>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
    pub(crate) verb: Verb,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) identity: Identity,
    pub(crate) accept: Accept,
    /// The answer is laid out for a person.
    pub(crate) pretty: bool,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Cx {
    /// The namespace of the path.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.path.namespace.as_deref()
    }

    /// The name of the path; empty when it has none.
    pub(crate) fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or_default()
    }

    /// The store's key of the object of the path.
    pub(crate) fn key(&self) -> String {
        self.resource.key(self.namespace().unwrap_or_default(), self.name())
    }

    pub(crate) fn subresource(&self) -> Option<&str> {
        self.path.subresource.as_deref()
    }

    /// The answer is compact JSON.
    pub(crate) fn plain_json(&self) -> bool {
        self.accept.format == Format::Json && !self.pretty
    }

    pub(crate) fn header(&self, name: http::header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// Tells the client something beside the answer.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().push(text.into());
    }
}
