//! The workspace from `cargo metadata`: its packages, their declared and resolved dependencies.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
pub(super) struct Package {
    id: String,
    pub(super) name: String,
    pub(super) dependencies: Vec<Declared>,
    pub(super) manifest_path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(super) struct Declared {
    pub(super) name: String,
    /// The name that sources use, if the manifest gives another.
    pub(super) rename: Option<String>,
    /// `None` for a normal one, else `dev` or `build`.
    pub(super) kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl Graph {
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }

    /// Maps every package that `package` is built with, directly or not, to the one that depends on it; dev-
    /// dependencies left out.
    pub(super) fn reached_by<'a>(&'a self, package: &'a Package) -> BTreeMap<&'a str, &'a str> {
        let by_id: BTreeMap<&str, &Package> = self.packages.iter().map(|package| (&*package.id, package)).collect();
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
        let mut reached = BTreeMap::new();
        let mut open = vec![package];
        while let Some(next) = open.pop() {
            let Some(node) = nodes.get(&*next.id) else { continue };
            for dependency in &node.deps {
                let is_built = dependency.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"));
                let Some(to) = by_id.get(&*dependency.pkg).filter(|_| is_built) else { continue };
                if !reached.contains_key(&*to.name) {
                    reached.insert(&*to.name, &*next.name);
                    open.push(to);
                }
            }
        }
        reached
    }
}
