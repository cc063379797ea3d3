//! A connected member as Works are applied in it.

use std::sync::Arc;

use ironclad_fleet::ClusterName;
use ironclad_members::Member;
use ironclad_runtime::{Queue, WorkMetrics};
use kube::Client;

use super::awaiting::Awaiting;
use crate::{member_object::MemberObject, objects::Objects};

pub(super) struct Destination {
    pub(super) name: ClusterName,
    pub(super) client: Client,
    pub(super) objects: Arc<Objects<MemberObject>>,
    /// Names of the Works in its execution space that are to be applied. Each member has its own queue, so that a slow
    /// or dead one never delays the others (specification/propagation.md 31.3).
    pub(super) works: Queue<Arc<str>>,
    /// Works that wait for namespaces.
    pub(super) awaiting: Awaiting,
}

impl Destination {
    pub(super) fn new(member: &Member, objects: Arc<Objects<MemberObject>>, metrics: &WorkMetrics) -> Self {
        let works = Queue::new(member.seam.clock.clone(), member.seam.rng.stream("jitter/works"));
        Self {
            name: member.name.clone(),
            client: member.client.clone(),
            objects,
            works: works.measured("execution", metrics),
            awaiting: Awaiting::default(),
        }
    }

    /// Enqueues the Works that wait for the namespace.
    pub(super) fn enqueue_awaiting(&self, namespace: &str) {
        for work in self.awaiting.take(namespace) {
            self.works.add(work);
        }
    }
}
