//! The aggregated APIs of a server, as they are known at present.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::forwarder::ForwardTarget;

/// A resource of a group that a [`crate::Route`] answers, as its discovery lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResource {
    /// As in paths; `RESOURCE/SUBRESOURCE` for a subresource.
    pub name: String,
    pub kind: String,
    /// True for namespaced objects.
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

/// One version of a group that a [`crate::Route`] answers, and that a user may bring instead, by an APIService with a
/// service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedApi {
    /// API group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// `groupPriorityMinimum` of its APIService.
    pub group_priority: u32,
    /// `versionPriority` of its APIService.
    pub version_priority: u32,
    /// Keep an APIService for it.
    pub registered: bool,
    /// Its resources at present.
    pub resources: Vec<ApiResource>,
}

/// Group and version of an API.
pub(super) type GroupVersion = (String, String);

/// One version of an aggregated group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Api {
    pub(crate) group_priority: u32,
    pub(crate) version_priority: u32,
    /// Its resources as an APIResourceList lists them.
    pub(crate) resources: Vec<Value>,
    pub(crate) origin: Origin,
}

/// The server that answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Origin {
    /// A route of this process.
    Route {
        /// Keep an APIService for it.
        registered: bool,
    },
    /// Another server; the error is the reason why it can't be asked.
    Remote(Result<ForwardTarget, String>),
}

impl Api {
    /// True if its resources are known from before only.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self.origin, Origin::Remote(Err(_)))
    }
}

/// The aggregated APIs: a snapshot that is swapped as a whole.
#[derive(Debug, Default)]
pub(crate) struct Apis {
    /// Those of routes.
    routes: BTreeMap<GroupVersion, Arc<Api>>,
    /// Those of APIServices with a service; they take precedence.
    pub(super) remotes: BTreeMap<GroupVersion, Arc<Api>>,
    /// Counts the changes, for etags of discovery.
    pub(crate) generation: u64,
}

impl Apis {
    /// All APIs that answer, in order of group and version.
    pub(super) fn all(&self) -> BTreeMap<&GroupVersion, &Arc<Api>> {
        self.routes.iter().chain(&self.remotes).collect()
    }

    /// The versions of routes for which APIServices are kept, with their priorities.
    pub(crate) fn registered(&self) -> impl Iterator<Item = (&str, &str, u32, u32)> {
        let kept = self.routes.iter().filter(|(_, api)| api.origin == Origin::Route { registered: true });
        kept.map(|((group, version), api)| (group.as_str(), version.as_str(), api.group_priority, api.version_priority))
    }

    /// The API of another server that answers this path: `/apis/GROUP/VERSION` and what is below.
    pub(crate) fn remote(&self, path: &str) -> Option<Arc<Api>> {
        if self.remotes.is_empty() {
            return None;
        }
        let mut parts = path.strip_prefix("/apis/")?.split('/');
        let (group, version) = (parts.next()?, parts.next()?);
        self.remotes.iter().find(|((g, v), _)| g == group && v == version).map(|(_, api)| api.clone())
    }
}

/// The aggregated APIs of one server.
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    apis: RwLock<Arc<Apis>>,
    /// Notified when an APIService was written.
    pub(crate) changed: Notify,
}

impl Aggregation {
    pub(crate) fn apis(&self) -> Arc<Apis> {
        self.apis.read().clone()
    }

    /// Adds a version that a route answers, or replaces its resources. Returns true if the version is new.
    pub(crate) fn announce(&self, api: ServedApi) -> bool {
        let resource = |r: &ApiResource| {
            json!({
                "name": r.name, "singularName": "", "namespaced": r.namespaced, "kind": r.kind, "verbs": r.verbs,
            })
        };
        let fresh = Arc::new(Api {
            group_priority: api.group_priority,
            version_priority: api.version_priority,
            resources: api.resources.iter().map(resource).collect(),
            origin: Origin::Route { registered: api.registered },
        });
        let mut slot = self.apis.write();
        let key = (api.group, api.version);
        let known = slot.routes.get(&key);
        if known == Some(&fresh) {
            return false;
        }
        let is_new = known.is_none();
        let mut routes = slot.routes.clone();
        routes.insert(key, fresh);
        *slot = Arc::new(Apis { routes, remotes: slot.remotes.clone(), generation: slot.generation + 1 });
        is_new
    }

    /// Replaces the APIs of other servers.
    pub(super) fn set_remotes(&self, remotes: BTreeMap<GroupVersion, Arc<Api>>) {
        let mut slot = self.apis.write();
        if slot.remotes != remotes {
            *slot = Arc::new(Apis { routes: slot.routes.clone(), remotes, generation: slot.generation + 1 });
        }
    }
}

/// Names of groups that are served otherwise: an APIService with a service does not replace them.
pub(crate) type OwnGroups = BTreeSet<String>;
