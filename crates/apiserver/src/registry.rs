//! Which resources there are: the built-in ones, shared by all servers of the process, and those of CRDs, per server.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use parking_lot::RwLock;

use crate::{
    crd::CustomVersion,
    kinds::{self, Builtin},
};

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
    /// Where its objects are stored, with a trailing slash.
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

/// Where a resource's rules come from.
#[derive(Debug)]
pub(crate) enum Flavour {
    Builtin(&'static Builtin),
    Custom(Arc<CustomVersion>),
    /// A route answers for it.
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

    /// A route answers for it, and nothing of it is stored.
    pub(crate) fn is_served(&self) -> bool {
        matches!(self.flavour, Flavour::Served)
    }

    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The group that stands behind the kind where an object is refused: both versions of events are core's there.
    pub(crate) fn group_in_refusals(&self) -> &str {
        if self.is("events.k8s.io", "Event") { "" } else { &self.group }
    }

    /// True for this built-in kind.
    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        matches!(self.flavour, Flavour::Builtin(_)) && self.group == group && self.kind == kind
    }

    /// `metadata.generation` counts the changes of its objects.
    pub(crate) fn has_generation(&self) -> bool {
        self.builtin().is_none_or(|b| b.generation)
    }

    /// The store's key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{}{namespace}/{name}", self.prefix) } else { format!("{}{name}", self.prefix) }
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

/// The built-in groups in the order of `/apis`, core first.
pub(crate) fn builtin_groups() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| {
        let mut groups: Vec<Group> = Vec::new();
        for builtin in kinds::builtins() {
            let group = match groups.iter_mut().find(|g| g.name == builtin.group) {
                Some(group) => group,
                None => {
                    groups.push(Group { name: builtin.group.to_owned(), versions: vec![] });
                    groups.last_mut().expect("just pushed")
                }
            };
            let resources = match group.versions.iter_mut().position(|(v, _)| v == builtin.version) {
                Some(at) => &mut group.versions[at].1,
                None => {
                    group.versions.push((builtin.version.to_owned(), Resources::new()));
                    &mut group.versions.last_mut().expect("just pushed").1
                }
            };
            resources.insert(builtin.plural.to_owned(), Arc::new(builtin_resource(builtin)));
        }
        groups
    })
}

fn builtin_resource(builtin: &'static Builtin) -> Resource {
    let subresources = builtin.subresources.iter().map(|s| Subresource {
        name: s.name,
        group: s.group,
        version: s.version,
        kind: s.kind.to_owned(),
        verbs: s.verbs.clone(),
    });
    // Events of both groups are the same objects.
    let stored_group = match (builtin.group, builtin.kind) {
        ("" | "events.k8s.io", "Event") | ("", _) => "core",
        (group, _) => group,
    };
    Resource {
        group: builtin.group.to_owned(),
        version: builtin.version.to_owned(),
        plural: builtin.plural.to_owned(),
        singular: builtin.kind.to_lowercase(),
        kind: builtin.kind.to_owned(),
        list_kind: format!("{}List", builtin.kind),
        namespaced: builtin.namespaced,
        short_names: builtin.short_names.iter().map(|s| (*s).to_owned()).collect(),
        categories: builtin.categories.iter().map(|s| (*s).to_owned()).collect(),
        verbs: builtin.verbs.clone(),
        subresources: subresources.collect(),
        prefix: format!("/registry/{stored_group}/{}/", builtin.plural),
        flavour: Flavour::Builtin(builtin),
    }
}

/// What CRDs add: a snapshot that is swapped as a whole.
#[derive(Debug, Default)]
pub(crate) struct CustomGroups {
    /// By name.
    pub(crate) groups: Vec<Group>,
    /// Counts the changes, for etags of discovery.
    pub(crate) generation: u64,
}

/// The resources of one server.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    custom: RwLock<Arc<CustomGroups>>,
    /// Groups that routes answer.
    announced: RwLock<Vec<Group>>,
}

/// What a look-up found.
pub(crate) enum Found {
    Resource(Arc<Resource>),
    /// The group is known, the version or resource isn't.
    NoResource,
    NoGroup,
}

impl Registry {
    /// The snapshot of the custom groups.
    pub(crate) fn custom(&self) -> Arc<CustomGroups> {
        self.custom.read().clone()
    }

    /// Adds a group that routes answer, from the next [`Registry::set_custom`] on.
    pub(crate) fn announce(&self, group: Group) {
        self.announced.write().push(group);
    }

    /// Replaces the groups of CRDs; a group that routes answer steps back for one of a CRD.
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
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Found {
        if let Some(found) = builtin_groups().iter().find(|g| g.name == group) {
            return match found.version(version).and_then(|r| r.get(plural)) {
                Some(resource) => Found::Resource(resource.clone()),
                None => Found::NoResource,
            };
        }
        let custom = self.custom();
        let Some(found) = custom.groups.iter().find(|g| g.name == group) else { return Found::NoGroup };
        match found.version(version) {
            None => Found::NoGroup,
            Some(resources) => match resources.get(plural) {
                Some(resource) => Found::Resource(resource.clone()),
                None => Found::NoResource,
            },
        }
    }

    /// The built-in resource of this group and plural in its first version.
    pub(crate) fn builtin(group: &str, plural: &str) -> Option<Arc<Resource>> {
        let group = builtin_groups().iter().find(|g| g.name == group)?;
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
