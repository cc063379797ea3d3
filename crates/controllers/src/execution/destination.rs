//! A connected member as Works are applied in it.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use ironclad_fleet::ClusterName;
use ironclad_members::Member;
use ironclad_propagation::wakes::drift;
use ironclad_runtime::{Queue, WorkMetrics};
use kube::Client;

use super::awaiting::Awaiting;
use crate::{caches::NAMESPACES, member_object::MemberObject, objects::Objects};

pub(super) struct Destination {
    pub(super) name: ClusterName,
    pub(super) client: Client,
    pub(super) objects: Arc<Objects<MemberObject>>,
    /// Names of the Works in its execution space that are to be applied. Each member has its own queue, so that a slow
    /// or dead one never delays the others (specification/propagation.md 31.3).
    pub(super) works: Queue<Arc<str>>,
    /// Works that wait for namespaces.
    pub(super) awaiting: Arc<Awaiting>,
    /// Set once its namespaces are watched, also those that others make.
    watches_namespaces: AtomicBool,
    member: Weak<Member>,
}

impl Destination {
    pub(super) fn new(member: &Arc<Member>, objects: Arc<Objects<MemberObject>>, metrics: &WorkMetrics) -> Self {
        let works = Queue::new(member.seam.clock.clone(), member.seam.rng.stream("jitter/works"));
        Self {
            name: member.name.clone(),
            client: member.client.clone(),
            objects,
            works: works.measured("execution", metrics),
            awaiting: Arc::default(),
            watches_namespaces: AtomicBool::new(false),
            member: Arc::downgrade(member),
        }
    }

    /// Watches all namespaces from now on: the caches hold those that this control plane made, and Works wait for one
    /// that somebody else may make.
    pub(super) fn watch_namespaces(&self) {
        let Some(member) = self.member.upgrade() else { return };
        if self.watches_namespaces.swap(true, Ordering::Relaxed) {
            return;
        }
        let (awaiting, works) = (self.awaiting.clone(), self.works.clone());
        let enqueue = move |name: &str| awaiting.take(name).into_iter().for_each(|work| works.add(work));
        let namespaces = member.watch(&NAMESPACES);
        namespaces.on_change(move |change| {
            let (old, new) = (change.old.as_deref(), change.new.as_deref());
            if drift::appears(old.map(|old| &old.metadata), new.map(|new| &new.metadata)) {
                enqueue(new.and_then(|new| new.metadata.name.as_deref()).unwrap_or_default());
            }
        });
    }

    /// Enqueues the Works that wait for the namespace.
    pub(super) fn enqueue_awaiting(&self, namespace: &str) {
        for work in self.awaiting.take(namespace) {
            self.works.add(work);
        }
    }
}
