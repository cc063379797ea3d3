//! One request on its way through the server: its resource, user and warnings.

use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    Identity,
    answer_budget::BudgetPermit,
    negotiate::{Accept, Format},
    object,
    registry::{Resource, SubresourceKind},
    request::{Query, ResourcePath, Verb},
    schema,
    state::State,
    status::ApiError,
};

/// One request and the state to handle it.
pub(crate) struct Cx {
    pub(crate) state: Arc<State>,
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
    /// A request of the server to itself.
    pub(crate) fn own(state: Arc<State>, resource: Arc<Resource>) -> Self {
        let path = ResourcePath {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            ..ResourcePath::default()
        };
        Self {
            state,
            resource,
            path,
            verb: Verb::DeleteCollection,
            query: Query::default(),
            headers: HeaderMap::new(),
            identity: Identity::server(),
            accept: Accept::JSON,
            pretty: false,
            warnings: Mutex::default(),
        }
    }

    /// Permit for an answer of this size. Requests within the process have their own bounds, and members of
    /// `system:masters` are exempt as from the limit of requests.
    ///
    /// # Errors
    /// Other answers did not leave enough in time.
    pub(crate) async fn answer_permit(&self, bytes: usize) -> Result<Option<BudgetPermit>, ApiError> {
        if self.identity.is_in_process() || self.identity.is_master() {
            return Ok(None);
        }
        self.state.answers.acquire(bytes).await
    }

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

    /// The kind of the request's subresource, where it differs from the object's.
    pub(crate) fn subresource_kind(&self) -> Option<SubresourceKind> {
        self.resource.subresource_kind(self.subresource()?)
    }

    /// The answer is compact JSON.
    pub(crate) fn plain_json(&self) -> bool {
        self.accept.format == Format::Json && !self.pretty
    }

    pub(crate) fn header(&self, name: http::header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// Adds a warning to the answer.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.warnings.lock().push(text.into());
    }

    /// The field manager: as requested, or the program's name.
    pub(crate) fn field_manager(&self) -> String {
        const LONGEST: usize = 128;
        if let Some(manager) = self.query.text("fieldManager") {
            return manager.to_owned();
        }
        let agent = self.header(http::header::USER_AGENT).unwrap_or_default();
        match agent.split('/').next().unwrap_or_default() {
            "" => "unknown".to_owned(),
            program => program.chars().take(LONGEST).collect(),
        }
    }

    /// Records field ownership after a write other than an apply.
    pub(crate) fn track(&self, old: Option<&Value>, new: &mut Value) {
        let tracked = old.is_some_and(|o| object::metadata(o).contains_key("managedFields"));
        if !self.state.options.managed_fields && !tracked {
            object::metadata_mut(new).remove("managedFields");
            return;
        }
        let (manager, now) = (self.field_manager(), self.state.now());
        let subresource = self.subresource().unwrap_or_default();
        schema::with_tracker(&self.resource, subresource, |tracker| tracker.update(old, new, &manager, &now));
    }
}
