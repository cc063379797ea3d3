//! Read access to objects for reviewers.

use std::collections::BTreeSet;

use ironclad_seam::Seam;
use ironclad_store::{Query, Store};
use jiff::Timestamp;
use serde_json::Value;

use crate::{
    Identity, convert,
    registry::{Lookup, Registry, Resource},
};

/// Decides what users may do. Implemented above this layer.
pub(crate) trait Rights: Sync {
    /// True if this user may do this to one object of a group's resource.
    fn may(
        &self,
        identity: &Identity,
        verb: &str,
        group_and_resource: (&str, &str),
        namespace: &str,
        name: &str,
    ) -> bool;
}

/// The server's objects and users' rights as they are within a write, and its time and chance.
#[derive(Clone, Copy)]
pub struct Objects<'a> {
    store: &'a Store,
    registry: &'a Registry,
    seam: &'a Seam,
    rights: &'a dyn Rights,
}

impl std::fmt::Debug for Objects<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl<'a> Objects<'a> {
    pub(crate) fn new(store: &'a Store, registry: &'a Registry, seam: &'a Seam, rights: &'a dyn Rights) -> Self {
        Self { store, registry, seam, rights }
    }

    /// True if this user may do this to one object of a group's resource.
    #[must_use]
    pub fn may(
        &self,
        user: &str,
        groups: &[String],
        verb: &str,
        group_and_resource: (&str, &str),
        namespace: &str,
        name: &str,
    ) -> bool {
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        self.rights.may(&Identity::user(user, &groups), verb, group_and_resource, namespace, name)
    }

    /// One object; the namespace of a cluster-scoped one is empty.
    #[must_use]
    pub fn get(&self, group: &str, version: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource(group, version, resource)?;
        let entry = self.store.get(&resource.key(namespace, name))?;
        convert::read(&resource, &entry).ok()
    }

    /// All objects of a resource, in one namespace or, if that is empty, everywhere.
    #[must_use]
    pub fn list(&self, group: &str, version: &str, resource: &str, namespace: &str) -> Vec<Value> {
        match self.resource(group, version, resource) {
            Some(resource) => self.matching(&resource, namespace, usize::MAX, |_| true),
            None => vec![],
        }
    }

    /// The first objects of any kind in a namespace with this label. It reads all of them.
    #[must_use]
    pub fn labelled(&self, namespace: &str, key: &str, value: &str, at_most: usize) -> Vec<Value> {
        let custom = self.registry.custom();
        let groups = self.registry.builtin_groups().iter().chain(&custom.groups);
        let resources = groups.flat_map(|group| &group.versions).flat_map(|(_, resources)| resources.values());
        let (mut seen, mut out) = (BTreeSet::new(), Vec::new());
        for resource in resources.filter(|resource| resource.namespaced) {
            if out.len() < at_most && seen.insert(resource.prefix.as_str()) {
                let has = |object: &Value| {
                    object.pointer("/metadata/labels").is_some_and(|l| l.get(key) == Some(&value.into()))
                };
                out.extend(self.matching(resource, namespace, at_most - out.len(), has));
            }
        }
        out
    }

    #[must_use]
    pub fn uuid(&self) -> String {
        self.seam.rng.uuid()
    }

    /// The time, in whole seconds.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.seam.clock.wall_seconds()
    }

    fn resource(&self, group: &str, version: &str, resource: &str) -> Option<std::sync::Arc<Resource>> {
        match self.registry.find(group, version, resource) {
            Lookup::Resource(resource) => Some(resource),
            Lookup::NoResource | Lookup::NoGroup => None,
        }
    }

    fn matching(
        &self,
        resource: &Resource,
        namespace: &str,
        at_most: usize,
        wanted: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        let prefix = resource.prefix_of(Some(namespace).filter(|n| !n.is_empty()));
        let Ok(range) = self.store.range(&Query::prefix(&prefix)) else { return vec![] };
        let decoded = range.entries.iter().filter_map(|(_, entry)| convert::read(resource, entry).ok());
        decoded.filter(|value| wanted(value)).take(at_most).collect()
    }
}
