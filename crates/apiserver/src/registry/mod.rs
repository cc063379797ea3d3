//! Registry of resources: the built-in ones, shared by all servers of the process, and those of CRDs, per server.

pub(crate) mod strategy;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::RwLock;

use self::strategy::Strategy;
use crate::crd::CustomVersion;

/// A built-in resource in one version.
#[derive(Debug, Clone)]
pub(crate) struct Builtin {
    /// Its row in the table of kinds.
    pub(crate) row: usize,
    pub(crate) strategy: &'static Strategy,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<&'static str>,
    pub(crate) categories: Vec<&'static str>,
    /// Verbs in discovery's order.
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) subresources: Vec<BuiltinSub>,
    /// `metadata.generation` counts its changes.
    pub(crate) generation: bool,
    /// An update must name the resourceVersion it was made from.
    pub(crate) needs_revision: bool,
    /// A PUT makes it when it doesn't exist.
    pub(crate) create_on_update: bool,
}

impl Builtin {
    /// The apiVersion that its objects are stored with.
    pub(crate) fn storage_api_version(&self) -> String {
        match &self.strategy.conversion {
            Some(conversion) => conversion.api_version.to_owned(),
            None => group_version(self.group, self.version),
        }
    }

    /// The group that its objects are stored in: both versions of events are core's.
    pub(crate) fn stored_group(&self) -> &'static str {
        match &self.strategy.conversion {
            Some(conversion) => conversion.api_version.split_once('/').map_or("", |(group, _)| group),
            None => self.group,
        }
    }
}

/// A subresource of a built-in kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuiltinSub {
    pub(crate) name: &'static str,
    /// The kind it speaks, with its group and version when they aren't the parent's.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) verbs: Vec<&'static str>,
}

/// A resource in one served version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// Empty for core.
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) subresources: Vec<Subresource>,
    /// Prefix of its objects' keys in the store, with a trailing slash.
    pub(crate) prefix: String,
    pub(crate) flavour: Flavour,
}

/// A subresource as discovery shows it.
#[derive(Debug, Clone)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    /// Group, version and kind of what it speaks; empty group and version mean the parent's.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: String,
    pub(crate) verbs: Vec<&'static str>,
}

/// A subresource of a stored kind by which a route lets users connect, as to pods by `exec`.
#[derive(Debug)]
pub struct Connects {
    /// API group of the kind.
    pub group: &'static str,
    /// Plural of the kind.
    pub resource: &'static str,
    /// Name of the subresource.
    pub subresource: &'static str,
    /// Kind of the options that webhooks and policies see, whose field `path` is the path below the subresource.
    pub options: &'static str,
    /// The verbs that discovery lists.
    pub verbs: &'static [&'static str],
}

impl Connects {
    fn is_of(&self, resource: &Resource) -> bool {
        self.group == resource.group && self.resource == resource.plural
    }
}

/// The kind of what a subresource reads and writes, where it differs from its object's: Scale, Binding, Eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubresourceKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

impl SubresourceKind {
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }
}

/// The origin of a resource.
#[derive(Debug)]
pub(crate) enum Flavour {
    Builtin(&'static Builtin),
    Custom(Arc<CustomVersion>),
    /// A route serves it.
    Served,
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    pub(crate) fn custom(&self) -> Option<&Arc<CustomVersion>> {
        match &self.flavour {
            Flavour::Builtin(_) | Flavour::Served => None,
            Flavour::Custom(custom) => Some(custom),
        }
    }

    pub(crate) fn builtin(&self) -> Option<&'static Builtin> {
        match &self.flavour {
            Flavour::Builtin(builtin) => Some(builtin),
            Flavour::Custom(_) | Flavour::Served => None,
        }
    }

    /// True for a resource of a route, of which nothing is stored.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self.flavour, Flavour::Served)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The kind of a subresource; `None` for one that has its object's kind.
    pub(crate) fn subresource_kind(&self, name: &str) -> Option<SubresourceKind> {
        let subresource = self.subresource(name).filter(|s| s.kind != self.kind)?;
        let (group, version) = match subresource.version {
            "" => (self.group.as_str(), self.version.as_str()),
            version => (subresource.group, version),
        };
        let kind = subresource.kind.clone();
        Some(SubresourceKind { group: group.to_owned(), version: version.to_owned(), kind })
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The group that errors name with the kind: the one that objects are stored in.
    pub(crate) fn error_group(&self) -> &str {
        self.builtin().map_or(&self.group, |builtin| builtin.stored_group())
    }

    /// `spec.finalizers` keep its deleted objects.
    pub(crate) fn has_spec_finalizers(&self) -> bool {
        self.builtin().is_some_and(|builtin| builtin.strategy.spec_finalizers)
    }

    /// True for namespaces themselves.
    pub(crate) fn is_namespace(&self) -> bool {
        self.builtin().is_some_and(|builtin| builtin.group.is_empty() && builtin.kind == "Namespace")
    }

    /// `metadata.generation` counts the changes of its objects.
    pub(crate) fn has_generation(&self) -> bool {
        self.builtin().is_none_or(|b| b.generation)
    }

    /// Time after the last write until objects expire; `None`: never.
    pub(crate) fn time_to_live(&self) -> Option<Duration> {
        self.builtin()?.strategy.time_to_live
    }

    /// The store's key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{}{namespace}/{name}", self.prefix) } else { format!("{}{name}", self.prefix) }
    }

    /// Namespace and name in a key of this resource; the namespace of a cluster-scoped one is empty.
    pub(crate) fn address_of<'a>(&self, key: &'a str) -> (&'a str, &'a str) {
        let rest = key.strip_prefix(&self.prefix).unwrap_or(key);
        if self.namespaced { rest.split_once('/').unwrap_or(("", rest)) } else { ("", rest) }
    }

    /// The store's prefix of a namespace's objects, or of all.
    pub(crate) fn prefix_of(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) if self.namespaced => format!("{}{namespace}/", self.prefix),
            _ => self.prefix.clone(),
        }
    }
}

/// `v1`, `apps/v1`.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The resources of one group and version, by plural.
pub(crate) type Resources = BTreeMap<String, Arc<Resource>>;

/// A group: its versions, the preferred one first.
#[derive(Debug, Default, Clone)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<(String, Resources)>,
}

impl Group {
    pub(crate) fn version(&self, version: &str) -> Option<&Resources> {
        self.versions.iter().find(|(v, _)| v == version).map(|(_, r)| r)
    }
}

/// The groups of CRDs: a snapshot that is swapped as a whole.
#[derive(Debug, Default)]
pub(crate) struct CustomGroups {
    /// By name.
    pub(crate) groups: Vec<Group>,
    /// Counts the changes, for etags of discovery.
    pub(crate) generation: u64,
}

/// The resources of one server.
#[derive(Debug)]
pub(crate) struct Registry {
    /// In the order of `/apis`, core first; shared by all servers of the process.
    builtin: &'static [Group],
    custom: RwLock<Arc<CustomGroups>>,
    /// Groups that routes serve.
    announced: RwLock<Vec<Group>>,
    /// Subresources that routes serve.
    connects: RwLock<Vec<&'static Connects>>,
}

/// The result of a look-up.
pub(crate) enum Lookup {
    Resource(Arc<Resource>),
    /// The group is known, the version or resource isn't.
    NoResource,
    NoGroup,
}

impl Registry {
    /// A registry of these built-in groups, without CRDs.
    pub(crate) fn new(builtin: &'static [Group]) -> Self {
        Self { builtin, custom: RwLock::default(), announced: RwLock::default(), connects: RwLock::default() }
    }

    /// The built-in groups in the order of `/apis`, core first.
    pub(crate) fn builtin_groups(&self) -> &'static [Group] {
        self.builtin
    }

    /// The snapshot of the custom groups.
    pub(crate) fn custom(&self) -> Arc<CustomGroups> {
        self.custom.read().clone()
    }

    /// Adds a group that routes serve, from the next [`Registry::set_custom`] on.
    pub(crate) fn announce(&self, group: Group) {
        self.announced.write().push(group);
    }

    /// Adds a subresource that routes serve to its custom kind, as it is read from now on.
    pub(crate) fn connect(&self, connects: &'static Connects) {
        self.connects.write().push(connects);
    }

    /// Lists the subresources that routes serve with those of a custom kind.
    pub(crate) fn with_connects(&self, mut resource: Resource) -> Resource {
        for connects in self.connects.read().iter() {
            if !connects.is_of(&resource) {
                continue;
            }
            let Connects { subresource: name, verbs, .. } = connects;
            let (kind, verbs) = (resource.kind.clone(), verbs.to_vec());
            let at = resource.subresources.partition_point(|other| other.name < *name);
            resource.subresources.insert(at, Subresource { name, group: "", version: "", kind, verbs });
        }
        resource
    }

    /// Replaces the groups of CRDs, which take precedence over groups of routes.
    pub(crate) fn set_custom(&self, mut groups: Vec<Group>) {
        let announced = self.announced.read();
        let fresh = announced.iter().filter(|a| !groups.iter().any(|g| g.name == a.name)).cloned();
        let fresh: Vec<Group> = fresh.collect();
        groups.extend(fresh);
        let mut slot = self.custom.write();
        let generation = slot.generation + 1;
        *slot = Arc::new(CustomGroups { groups, generation });
    }

    /// The resource at this address.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Lookup {
        if let Some(found) = self.builtin.iter().find(|g| g.name == group) {
            return match found.version(version).and_then(|r| r.get(plural)) {
                Some(resource) => Lookup::Resource(resource.clone()),
                None => Lookup::NoResource,
            };
        }
        let custom = self.custom();
        let Some(found) = custom.groups.iter().find(|g| g.name == group) else { return Lookup::NoGroup };
        match found.version(version) {
            None => Lookup::NoGroup,
            Some(resources) => match resources.get(plural) {
                Some(resource) => Lookup::Resource(resource.clone()),
                None => Lookup::NoResource,
            },
        }
    }

    /// The built-in resource of this group and plural in its first version.
    pub(crate) fn builtin(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let group = self.builtin.iter().find(|g| g.name == group)?;
        group.versions.iter().find_map(|(_, r)| r.get(plural)).cloned()
    }
}

/// A version's place in Kubernetes' order: GA before beta before alpha, higher numbers first; other names last.
pub(crate) fn version_priority(version: &str) -> impl Ord + use<> {
    let parsed = parse_version(version);
    std::cmp::Reverse((parsed, std::cmp::Reverse(version.to_owned())))
}

fn parse_version(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let major = rest[..digits].parse().ok()?;
    let rest = &rest[digits..];
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stage, number) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(number), _) => (1, number),
        (_, Some(number)) => (0, number),
        _ => return None,
    };
    Some((stage, major, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut versions = ["foo1", "v1alpha2", "v11beta2", "v1", "v10", "v2", "v3beta1", "v12alpha1", "foo10"];
        versions.sort_by_key(|v| version_priority(v));
        assert_eq!(versions, ["v10", "v2", "v1", "v11beta2", "v3beta1", "v12alpha1", "v1alpha2", "foo1", "foo10"]);
    }
}
