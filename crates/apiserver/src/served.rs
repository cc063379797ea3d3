//! Groups that routes answer: discovery lists them, nothing of them is stored.

use std::sync::Arc;

use crate::registry::{Flavour, Group, Resource};

/// One version of a group that a [`crate::Route`] answers, as aggregated API servers do.
#[derive(Debug, Clone)]
pub struct Served {
    /// API group.
    pub group: &'static str,
    /// Version in the group.
    pub version: &'static str,
    pub resources: Vec<ServedResource>,
}

/// A resource of a [`Served`] version, as discovery shows it.
#[derive(Debug, Clone)]
pub struct ServedResource {
    /// As in paths.
    pub plural: &'static str,
    pub kind: &'static str,
    /// True for namespaced objects.
    pub namespaced: bool,
    pub verbs: Vec<&'static str>,
}

impl Served {
    pub(crate) fn group(&self) -> Group {
        let resources = self.resources.iter().map(|r| {
            let resource = Resource {
                group: self.group.to_owned(),
                version: self.version.to_owned(),
                plural: r.plural.to_owned(),
                singular: String::new(),
                kind: r.kind.to_owned(),
                list_kind: format!("{}List", r.kind),
                namespaced: r.namespaced,
                short_names: vec![],
                categories: vec![],
                verbs: r.verbs.clone(),
                subresources: vec![],
                prefix: format!("/registry/{}/{}/", self.group, r.plural),
                flavour: Flavour::Served,
            };
            (r.plural.to_owned(), Arc::new(resource))
        });
        Group { name: self.group.to_owned(), versions: vec![(self.version.to_owned(), resources.collect())] }
    }
}
