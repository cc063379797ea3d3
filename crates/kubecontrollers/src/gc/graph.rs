//! Ownership graph of one cluster: location, owners, and deletion phase of every object.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;

use crate::kinds::Kind;

/// Number of uids of absent objects to remember: a later dependent needs no request to the server.
const ABSENT_MAX: usize = 10_000;
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

pub(crate) type Uid = Arc<str>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Alive,
    Foreground,
    Orphaning,
    /// Waits for other finalizers or its grace period.
    Going,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Box<str>,
    pub(crate) uid: Uid,
    /// The resource version, only for objects with owners: patches of owner references require it.
    pub(crate) version: Box<str>,
    pub(crate) owners: Box<[OwnerReference]>,
    pub(crate) phase: Phase,
}

impl Node {
    /// The node of an object; `None` without a uid, which no server sends.
    pub(crate) fn of(kind: &Arc<Kind>, namespace: Arc<str>, meta: ObjectMeta) -> Option<Self> {
        let has = |f: &str| meta.finalizers.iter().flatten().any(|g| g == f);
        let phase = match meta.deletion_timestamp {
            None => Phase::Alive,
            Some(_) if has(FOREGROUND) => Phase::Foreground,
            Some(_) if has(ORPHAN) => Phase::Orphaning,
            Some(_) => Phase::Going,
        };
        let owners = meta.owner_references.unwrap_or_default().into_boxed_slice();
        let version = if owners.is_empty() { Box::default() } else { meta.resource_version.unwrap_or_default().into() };
        Some(Self {
            kind: kind.clone(),
            namespace,
            name: meta.name?.into(),
            uid: meta.uid?.into(),
            version,
            owners,
            phase,
        })
    }

    fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|r| r.uid == owner && r.block_owner_deletion == Some(true))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Graph {
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    namespaces: BTreeSet<Arc<str>>,
    absent: BTreeSet<Uid>,
    absent_order: VecDeque<Uid>,
}

impl Graph {
    /// The shared name of a namespace.
    pub(crate) fn namespace(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.namespaces.get(name) {
            return known.clone();
        }
        let name: Arc<str> = name.into();
        self.namespaces.insert(name.clone());
        name
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name this one as an owner, in order of their uids.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Node> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.nodes.get(uid))
    }

    /// The dependents that the foreground deletion of this one waits for.
    pub(crate) fn blocking(&self, uid: &str) -> impl Iterator<Item = &Node> {
        self.dependents(uid).filter(move |n| n.blocks(uid))
    }

    pub(crate) fn is_absent(&self, uid: &str) -> bool {
        self.absent.contains(uid)
    }

    pub(crate) fn remember_absent(&mut self, uid: Uid) {
        if self.absent.insert(uid.clone()) {
            self.absent_order.push_back(uid);
        }
        if self.absent_order.len() > ABSENT_MAX
            && let Some(oldest) = self.absent_order.pop_front()
        {
            self.absent.remove(&oldest);
        }
    }

    /// Adds or updates an object. Returns the objects to reconcile because of it.
    pub(crate) fn applied(&mut self, node: Node) -> Vec<Uid> {
        let uid = node.uid.clone();
        let (owners, phase) = (node.owners.clone(), node.phase);
        let old = self.nodes.insert(uid.clone(), node);
        let (old_owners, old_phase) = old.map_or_else(Default::default, |n| (n.owners, Some(n.phase)));
        let mut affected = Vec::new();
        if old_owners != owners {
            for owner in old_owners.iter().filter(|r| !owners.iter().any(|o| o.uid == r.uid)) {
                self.strike(&owner.uid, &uid);
            }
            for owner in &owners {
                let owner: Uid = self
                    .nodes
                    .get_key_value(owner.uid.as_str())
                    .map_or_else(|| owner.uid.as_str().into(), |(k, _)| k.clone());
                self.dependents.entry(owner).or_default().insert(uid.clone());
            }
            affected.push(uid.clone());
            // An owner may have waited for a reference that was removed or no longer blocks.
            affected.extend(self.waiting(&old_owners));
        }
        if old_phase != Some(phase) && phase != Phase::Alive {
            affected.push(uid.clone());
            if phase == Phase::Foreground {
                affected.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
            }
        }
        affected
    }

    /// Removes an object. Returns the objects to reconcile because of it.
    pub(crate) fn deleted(&mut self, uid: &str) -> Vec<Uid> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        self.remember_absent(node.uid.clone());
        for owner in &node.owners {
            self.strike(&owner.uid, uid);
        }
        let mut affected: Vec<Uid> = self.dependents.get(uid).into_iter().flatten().cloned().collect();
        affected.extend(self.waiting(&node.owners));
        affected
    }

    /// Removes the objects of a kind that the server no longer serves, without treating them as absent.
    pub(crate) fn forget_kind(&mut self, kind: &Kind) {
        let uids: Vec<Uid> = self.of_kind(kind).collect();
        for uid in uids {
            if let Some(node) = self.nodes.remove(&uid) {
                for owner in &node.owners {
                    self.strike(&owner.uid, &uid);
                }
            }
        }
    }

    pub(crate) fn of_kind(&self, kind: &Kind) -> impl Iterator<Item = Uid> {
        self.nodes.values().filter(move |n| *n.kind == *kind).map(|n| n.uid.clone())
    }

    /// Returns the objects with an owner that is not in the graph.
    pub(crate) fn with_unknown_owners(&self) -> Vec<Uid> {
        let unknown = |n: &&Node| n.owners.iter().any(|r| !self.nodes.contains_key(r.uid.as_str()));
        self.nodes.values().filter(unknown).map(|n| n.uid.clone()).collect()
    }

    fn waiting(&self, owners: &[OwnerReference]) -> Vec<Uid> {
        let waits = |r: &&OwnerReference| {
            self.get(&r.uid).is_some_and(|n| matches!(n.phase, Phase::Foreground | Phase::Orphaning))
        };
        owners.iter().filter(waits).map(|r| r.uid.as_str().into()).collect()
    }

    fn strike(&mut self, owner: &str, dependent: &str) {
        if let Some(of) = self.dependents.get_mut(owner) {
            of.remove(dependent);
            if of.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
